//! Options of a copy as words, which every unit of a plan repeats (pure but for the configuration file).

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use uncopy::copy::job::{JobOptions, Links};
use uncopy::unit::format::{Options, Word};

use crate::config::Configured;
use crate::cp::{self, list};
use crate::flags::between::{self, Direction};
use crate::flags::copy::CopyArgs;
use crate::flags::select::Patterns;
use crate::flags::unit::{CONNECTION, PASSED_ON};
use crate::flags::{usage_error, words};

/// Flags that are written in another way than they were given.
const REWRITTEN: [&str; 6] =
    ["exclude", "include", "exclude-from", "durable", "no_durable", "config"];

/// Settings that have a meaning for units.
const SETTINGS: [&str; 17] = [
    "verify",
    "digest",
    "preserve",
    "if-changed",
    "method",
    "require",
    "prefer",
    "sparse",
    "cache",
    "max-bandwidth",
    "zero-copy-min",
    "direct-min",
    "direct-cpu-min",
    "buffer-size",
    "jobs",
    "retries",
    "links",
];

/// Writes the flags of `uncopy unit plan` and the settings of this machine as options of a plan. `destination` has settings
/// that were measured there. `between`: one of the roots is on another machine.
///
/// # Errors
/// A flag or a setting has no valid meaning, or none between machines.
pub(super) fn of(
    given: &ArgMatches,
    destination: &Path,
    between: Option<Direction>,
) -> Result<Options, clap::Error> {
    let is_written = |id: &str| PASSED_ON.contains(&id) && !REWRITTEN.contains(&id);
    let mut all = vec![OsString::from("--recursive")];
    all.extend(words::of_flags(given, is_written));
    let patterns = Patterns::from_arg_matches(given)?.in_order;
    let patterns = list::with_files_read(&patterns).map_err(|message| misuse(&message))?;
    all.extend(words::of_patterns(&patterns));
    // Units are done on machines that may fail one by one.
    let is_durable = !words::is_given(given, "no_durable");
    all.push(if is_durable { "--durable" } else { "--no-durable" }.into());
    let (mut flags, matches) = read_flags(&all)?;
    flags.config = given.get_one("config").cloned();
    flags.is_between = between.is_some();
    let configured = Configured::new(flags, Some(destination), |id| words::is_given(&matches, id))?;
    let settings = configured.settings().filter(|(name, _)| SETTINGS.contains(name));
    all.extend(settings.map(|(name, value)| words::of_setting(name, value)));
    let options = Options { words: all.into_iter().map(Word).collect() };
    // Workers would refuse them, too late.
    read(&options, between)?;
    Ok(options)
}

/// Reads the flags of `uncopy unit` about connections to other machines, with the settings of this one.
///
/// # Errors
/// A flag or a setting has no valid meaning.
pub(super) fn connection(given: &ArgMatches, is_quiet: bool) -> Result<CopyArgs, clap::Error> {
    let words = words::of_flags(given, |id| CONNECTION.contains(&id));
    let (flags, matches) = read_flags(&words)?;
    let flags = CopyArgs { quiet: is_quiet, is_between: true, ..flags };
    Ok(Configured::new(flags, None, |id| words::is_given(&matches, id))?.flags)
}

/// Reads the options of a plan or a unit. The settings of this machine have no say. `between`: one of the roots is on
/// another machine.
///
/// # Errors
/// They make no sense to this version, or none between machines.
pub(super) fn read(
    options: &Options,
    between: Option<Direction>,
) -> Result<JobOptions, clap::Error> {
    let all: Vec<OsString> = options.words.iter().map(|Word(word)| word.clone()).collect();
    let (flags, matches) = read_flags(&all)?;
    let is_given = |id: &str| words::is_given(&matches, id);
    let foreign = CopyArgs::augment_args(Command::new("cp"))
        .get_arguments()
        .map(|flag| flag.get_id().to_string())
        .find(|id| is_given(id) && !is_of_units(id));
    if let Some(id) = foreign {
        return Err(misuse(&format!("units of work have no option {id:?}")));
    }
    let settings = words::settings(&matches).map_err(misuse)?;
    let configured =
        Configured::of_peer(flags, settings, is_given).map_err(|message| misuse(&message))?;
    if let Some(refusal) = between.and_then(|to| between::refusal(&configured.flags, to)) {
        return Err(misuse(&format!("{refusal}; {}", between::NEXT_STEP)));
    }
    let job = cp::job_options(&configured)?;
    if job.links == Links::Follow {
        return Err(misuse(
            "units of work recreate links or leave them out, and cannot follow them (-L, --links=follow): pass \
             --links=preserve or --links=skip, or copy the tree by `uncopy cp -r -L --resume`",
        ));
    }
    Ok(job)
}

/// Whether units may have a flag.
fn is_of_units(id: &str) -> bool {
    id == "recursive" || (PASSED_ON.contains(&id) && !["exclude-from", "config"].contains(&id))
}

fn read_flags(all: &[OsString]) -> Result<(CopyArgs, ArgMatches), clap::Error> {
    let command = words::with_settings(CopyArgs::augment_args(Command::new("cp")));
    let line = std::iter::once(OsString::from("cp")).chain(all.iter().cloned());
    let matches = command.try_get_matches_from(line)?;
    Ok((CopyArgs::from_arg_matches(&matches)?, matches))
}

pub(super) fn misuse(message: &str) -> clap::Error {
    usage_error("unit", ErrorKind::ValueValidation, message)
}

#[cfg(test)]
mod tests {
    use uncopy::copy::job::{Compare, Delete};
    use uncopy::copy::{Digest, Preserve, Sparse, Verify};

    use super::*;

    fn written(line: &str) -> Result<Options, clap::Error> {
        let words = format!("uncopy unit plan s d --out p {line}");
        let matches = crate::command().try_get_matches_from(words.split_whitespace())?;
        let unit = matches.subcommand_matches("unit").unwrap();
        of(unit.subcommand_matches("plan").unwrap(), Path::new("d"), None)
    }

    fn job(line: &str) -> JobOptions {
        read(&written(line).unwrap(), None).unwrap()
    }

    #[test]
    fn options_come_back_from_their_words() {
        let mut expected = JobOptions::default();
        expected.copy.durable = true;
        expected.retries = 3;
        assert_eq!(job(""), expected);
        type Change = fn(&mut JobOptions);
        let rows: [(&str, Change); 14] = [
            ("--no-durable", |o| o.copy.durable = false),
            ("--durable", |_| {}),
            ("-a", |o| {
                o.copy.preserve = Preserve::all();
                o.specials = true;
            }),
            ("--specials", |o| o.specials = true),
            ("--verify --digest=sha256", |o| {
                o.copy.verify = Some(Verify::default());
                o.copy.digest = Some(Digest::Sha256);
            }),
            ("--sparse=always", |o| o.copy.sparse = Sparse::Always),
            ("-x --jobs 3 --retries=7", |o| {
                o.one_filesystem = true;
                o.jobs = std::num::NonZeroUsize::new(3);
                o.retries = 7;
            }),
            ("--links=skip", |o| o.links = Links::Skip),
            ("--links=preserve", |o| o.links = Links::Preserve),
            ("--exclude *.o --include k.o --exclude=-c", |o| {
                o.selection.exclude("*.o").unwrap();
                o.selection.include("k.o").unwrap();
                o.selection.exclude("-c").unwrap();
            }),
            ("--delete", |o| o.delete = Some(Delete::default())),
            ("--delete --max-delete=5", |o| {
                let mut delete = Delete::default();
                delete.most = Some(5);
                o.delete = Some(delete);
            }),
            ("-u --checksum", |o| {
                o.update = true;
                o.compare = Compare::Contents;
            }),
            ("--max-bandwidth=1M", |o| o.bytes_per_second = std::num::NonZeroU64::new(1_000_000)),
        ];
        for (line, change) in rows {
            let mut expected = expected.clone();
            change(&mut expected);
            assert_eq!(job(line), expected, "{line}");
        }
    }

    #[test]
    fn options_that_units_do_not_have_are_refused() {
        for line in ["--links=follow", "--max-delete=5", "--in-place", "--backup", "-L"] {
            assert!(written(line).is_err(), "{line}");
        }
        for line in ["-L", "--dereference", "--links=follow"] {
            let error = written(line).unwrap_err().to_string();
            assert!(error.contains("cannot follow them"), "{line}: {error}");
        }
        assert_eq!(job("-L --links=preserve").links, Links::Preserve);
        for word in [
            "--in-place",
            "--audit=/etc/passwd",
            "--setting=x",
            "--setting=a=b",
            "s",
            "--config=c",
            "--help",
            "-h",
            "-V",
            "--version",
        ] {
            let words = ["--recursive", word].map(|word| Word(word.into())).into();
            let error = read(&Options { words }, None).unwrap_err();
            assert!(error.use_stderr(), "{word}");
        }
    }

    /// The list has no flag that `uncopy cp` does not have.
    #[test]
    fn flags_that_are_passed_on_exist() {
        let command = CopyArgs::augment_args(Command::new("cp"));
        for id in PASSED_ON {
            assert!(command.get_arguments().any(|flag| flag.get_id() == id), "{id}");
        }
    }
}
