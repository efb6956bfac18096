//! The command line of a copy to another machine, as words for the program there, and read by it (pure).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use uncopy::System;

use crate::config::Configured;
use crate::cp::request;
use crate::cp::target::Names;
use crate::flags::between::{self, Direction};
use crate::flags::copy::CopyArgs;
use crate::flags::operand::{Machine, Operand};
use crate::flags::{usage_error, words};

/// Begins the words of a unit: the digest of its file.
pub(super) const DO_UNIT: &str = "--do-unit=";

/// Flags that the machine of the command line obeys itself. The other one refuses them: they name files or
/// programs.
const OWN: [&str; 15] = [
    "paths",
    "source",
    "strip_trailing_slashes",
    "rsh",
    "remote_program",
    "data",
    "connections",
    "data_ports",
    "config",
    "progress",
    "audit",
    "manifest",
    "files_from",
    "from0",
    "exclude-from",
];

/// Flags that are written in another way than they were given.
const REWRITTEN: [&str; 6] = ["dest", "target_directory", "backup", "suffix", "exclude", "include"];

/// Whether somebody watches the progress, which needs totals.
const WATCHED: &str = "watched";

/// Whether the entries are recorded in an audit log of the machine of the command line.
const RECORDED: &str = "recorded";

/// Whether the digests are listed in a manifest of the machine of the command line.
const LISTED: &str = "listed";

/// Operand of the machine with the destination, by which people know it.
const SHOWN_AS: &str = "shown-as";

/// Settings of the connection, of which the other side has no use.
const OF_CONNECTION: [&str; 5] = ["rsh", "remote-program", "data", "connections", "data-ports"];

/// Whether the progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    Yes,
    No,
}

/// Returns the words of a copy, whose patterns are not in files any more.
///
/// # Errors
/// A sentence for people: a variable of the environment has no valid meaning.
pub(super) fn of(
    configured: &Configured,
    given: Option<&ArgMatches>,
    names: &Names,
    machine: &Machine,
    watched: Watched,
) -> Result<Vec<OsString>, String> {
    let flags = &configured.flags;
    let is_written = |id: &str| !OWN.contains(&id) && !REWRITTEN.contains(&id);
    let mut words = given.map(|given| words::of_flags(given, is_written)).unwrap_or_default();
    words.extend(request::backup_flags(flags)?);
    words.extend(words::of_patterns(&flags.tree.patterns.in_order));
    for (name, value) in configured.settings() {
        if !OF_CONNECTION.contains(&name) {
            words.push(words::of_setting(name, value));
        }
    }
    let mut shown_as = OsString::from(format!("--{SHOWN_AS}="));
    shown_as.push(machine.with_path(Path::new("")));
    words.push(shown_as);
    if watched == Watched::Yes {
        words.push(format!("--{WATCHED}").into());
    }
    for (word, file) in [(RECORDED, &flags.audit), (LISTED, &flags.manifest)] {
        words.extend(file.is_some().then(|| format!("--{word}").into()));
    }
    let mut destination = OsString::from(match flags.target_directory {
        Some(_) => "--target-directory=",
        None => "--dest=",
    });
    destination.push(&names.destination);
    words.push(destination);
    Ok(words)
}

/// A copy as the other machine wants it.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) configured: Configured,
    pub(super) watched: Watched,
}

/// Reads the words on the machine with the destination. `sources` are named as people know them.
///
/// # Errors
/// They make no sense to this version, or ask for what only the machine of the command line may do.
pub(super) fn parse(words: &[OsString], sources: &[OsString]) -> Result<Wanted, clap::Error> {
    let hidden = |id: &'static str, action| Arg::new(id).long(id).action(action).hide(true);
    let command = words::with_settings(CopyArgs::augment_args(Command::new("cp")))
        .arg(hidden(WATCHED, ArgAction::SetTrue))
        .arg(hidden(RECORDED, ArgAction::SetTrue))
        .arg(hidden(LISTED, ArgAction::SetTrue))
        .arg(hidden(SHOWN_AS, ArgAction::Set));
    let line = std::iter::once(OsString::from("cp")).chain(words.iter().cloned());
    let matches = command.try_get_matches_from(line)?;
    let is_given = |id: &str| words::is_given(&matches, id);
    let misuse = |message: &str| usage_error("cp", ErrorKind::ValueValidation, message);
    if let Some(own) = OWN.iter().find(|id| is_given(id)) {
        let message = format!("the other machine asks for {own:?}, which only it may do itself");
        return Err(misuse(&message));
    }
    let mut flags = CopyArgs::from_arg_matches(&matches)?;
    flags.source = sources.iter().map(PathBuf::from).collect();
    flags.is_between = true;
    flags.shown_as = match matches.get_one::<String>(SHOWN_AS) {
        None => None,
        Some(operand) => match Operand::parse(OsStr::new(operand), System::Linux) {
            Ok(Operand::There(place)) => Some(place.machine),
            _ => return Err(misuse("it does not name this machine")),
        },
    };
    // They have no name here, and are never opened.
    flags.audit = matches.get_flag(RECORDED).then(PathBuf::new);
    flags.manifest = matches.get_flag(LISTED).then(PathBuf::new);
    let settings = words::settings(&matches).map_err(misuse)?;
    let configured =
        Configured::of_peer(flags, settings, is_given).map_err(|message| misuse(&message))?;
    if let Some(refusal) = between::refusal(&configured.flags, Direction::Push) {
        return Err(misuse(&format!("{refusal}; {}", between::NEXT_STEP)));
    }
    let watched = if matches.get_flag(WATCHED) { Watched::Yes } else { Watched::No };
    Ok(Wanted { configured, watched })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cp::target::{self, Reading};

    /// Reads a command line as the parser of the program does.
    fn near(words: &[&OsStr]) -> (Configured, ArgMatches) {
        let line = std::iter::once(OsStr::new("cp")).chain(words.iter().copied());
        let matches = CopyArgs::augment_args(Command::new("cp")).get_matches_from(line);
        let flags = CopyArgs::from_arg_matches(&matches).unwrap();
        (Configured { flags, applied: Vec::new() }, matches)
    }

    fn machine() -> Machine {
        Machine { user: None, host: "h".to_owned(), port: None }
    }

    fn words(line: &[&OsStr], watched: Watched) -> Vec<OsString> {
        let (configured, matches) = near(line);
        let names = target::names(&configured.flags, Reading::Operands).unwrap();
        of(&configured, Some(&matches), &names, &machine(), watched).unwrap()
    }

    fn of_line(line: &str) -> Vec<String> {
        let line: Vec<&OsStr> = line.split(' ').map(OsStr::new).collect();
        let words = words(&line, Watched::No);
        let words = words.into_iter().map(|word| word.into_string().unwrap());
        words.filter(|word| word != "--shown-as=h:").collect()
    }

    #[test]
    fn a_command_line_is_written_anew() {
        for (line, expected) in [
            ("a h:b", &["--dest=b"][..]),
            ("a -t h:d", &["--target-directory=d"]),
            ("-raT a h:b", &["--recursive", "--archive", "--no-target-directory", "--dest=b"]),
            ("-LP a h:b", &["--dereference", "--no-dereference", "--dest=b"]),
            ("-rdH a h:b", &["--recursive", "-d", "-H", "--dest=b"]),
            (
                "-p a h:b",
                &["--preserve=mode", "--preserve=ownership", "--preserve=timestamps", "--dest=b"],
            ),
            (
                "--verify -vj3 -r a h:b",
                &["--verify=blake3", "--verbose", "--jobs=3", "--recursive", "--dest=b"],
            ),
            (
                "--progress -r -e x --remote-program y --config z a h:b",
                &["--recursive", "--dest=b"],
            ),
            // The other machine does not learn the names of files here.
            ("--audit x --manifest y a h:b", &["--recorded", "--listed", "--dest=b"]),
            ("--chmod -w --chmod u+x a h:b", &["--chmod=-w", "--chmod=u+x", "--dest=b"]),
            (
                "-r --exclude a --include b --exclude=-c a h:-x",
                &["--recursive", "--exclude=a", "--include=b", "--exclude=-c", "--dest=-x"],
            ),
        ] {
            assert_eq!(of_line(line), expected, "{line}");
        }
    }

    #[test]
    fn backups_do_not_depend_on_the_environment_there() {
        let found = of_line("--backup=t a h:b");
        assert_eq!(found[0], "--backup=numbered");
        assert!(found[1].starts_with("--suffix="), "{found:?}");
        assert_eq!(of_line("--backup=off -S.x a h:b")[0], "--backup=none");
    }

    #[test]
    fn own_files_of_this_machine_have_no_name_there() {
        let words = ["--recorded", "--listed", "--dest=b"].map(OsString::from);
        let flags = parse(&words, &["a".into()]).unwrap().configured.flags;
        assert_eq!((flags.audit, flags.manifest), (Some(PathBuf::new()), Some(PathBuf::new())));
        let flags = parse(&words[2..], &["a".into()]).unwrap().configured.flags;
        assert_eq!((flags.audit, flags.manifest), (None, None));
    }

    /// A value of each flag that has one.
    fn value(id: &str) -> Option<&'static str> {
        Some(match id {
            "method" => "read-write",
            "sparse" => "always",
            "max_bandwidth" => "5M",
            "buffer_size" => "8Ki",
            "preserve" | "no_preserve" => "xattr,timestamps",
            "chmod" => "u=rwX,go-w",
            "chown" => "1:2",
            "on_error" => "skip",
            "verify" | "digest" => "sha256",
            "links" => "follow",
            "max_delete" => "7",
            "retries" => "9",
            "jobs" => "2",
            "if_changed" => "accept",
            "reflink" => "never",
            "require" => "none",
            "prefer" => "time",
            "cache" => "auto",
            "backup" => "simple",
            "suffix" => ".old",
            "exclude" | "include" => "*.o",
            _ => return None,
        })
    }

    /// Every flag that is not refused has the same meaning on the other machine.
    #[test]
    fn every_flag_arrives() {
        let mut arrived = 0;
        for flag in CopyArgs::augment_args(Command::new("cp")).get_arguments() {
            let id = flag.get_id().as_str();
            if OWN.contains(&id) || id == "dest" || id == "target_directory" {
                continue;
            }
            let mut word = words::name_of(flag);
            if flag.get_action().takes_values() {
                let Some(value) = value(id) else { continue };
                word.push("=");
                word.push(value);
            }
            let mut line: Vec<&OsStr> = vec![&word, OsStr::new("a"), OsStr::new("h:b")];
            // They need others.
            line.extend(
                ["--recursive", "--delete"].map(OsStr::new).iter().filter(|other| **other != word),
            );
            let (configured, _) = near(&line);
            if between::refusal(&configured.flags, Direction::Push).is_some() {
                continue;
            }
            let sources = [OsString::from("a")];
            let wanted = parse(&words(&line, Watched::Yes), &sources).unwrap();
            assert_eq!(wanted.watched, Watched::Yes);
            let mut here = configured.flags;
            let mut there = wanted.configured.flags;
            // Operands are written in another way, and the environment is settled.
            for flags in [&mut here, &mut there] {
                (flags.paths, flags.source, flags.dest) = (Vec::new(), Vec::new(), None);
                (flags.backup, flags.suffix) = (None, None);
                (flags.is_between, flags.shown_as) = (true, None);
            }
            assert_eq!(format!("{here:?}"), format!("{there:?}"), "{word:?}");
            arrived += 1;
        }
        assert!(arrived > 45, "{arrived}");
    }

    #[cfg(unix)]
    #[test]
    fn names_are_any_bytes() {
        use std::os::unix::ffi::OsStrExt;
        let line = [OsStr::new("a"), OsStr::from_bytes(b"h:\xff\n")];
        let found = words(&line, Watched::No);
        assert_eq!(
            found,
            [OsStr::from_bytes(b"--shown-as=h:"), OsStr::from_bytes(b"--dest=\xff\n")]
        );
        let source = OsStr::from_bytes(b"-\xfe").to_owned();
        let wanted = parse(&found, std::slice::from_ref(&source)).unwrap();
        let names = target::names(&wanted.configured.flags, Reading::Paths).unwrap();
        assert_eq!(names.sources, [PathBuf::from(source)]);
        assert_eq!(names.destination.as_os_str().as_bytes(), b"\xff\n");
    }

    #[test]
    fn settings_of_the_machine_of_the_command_line_decide() {
        let (mut configured, matches) = near(&["a", "h:b", "-r"].map(OsStr::new));
        let settings = [
            ("durable", "true"),
            ("retries", "9"),
            ("rsh", "x"),
            ("data", "tls"),
            ("connections", "2"),
            ("data-ports", "7000"),
        ];
        configured = Configured::of_peer(configured.flags, settings, |_| false).unwrap();
        let names = target::names(&configured.flags, Reading::Operands).unwrap();
        let words = of(&configured, Some(&matches), &names, &machine(), Watched::No).unwrap();
        let expected = [
            "--recursive",
            "--setting=durable=true",
            "--setting=retries=9",
            "--shown-as=h:",
            "--dest=b",
        ];
        assert_eq!(words, expected);
        let flags = parse(&words, &["a".into()]).unwrap().configured.flags;
        assert_eq!(flags.shown_as, Some(machine()));
        assert!(flags.durable && flags.tree.retries == 9 && flags.rsh.is_none());
    }

    #[test]
    fn what_only_the_other_machine_may_do_is_refused() {
        for word in [
            "--audit=/x",
            "--manifest=/x",
            "--config=/x",
            "--exclude-from=/etc/shadow",
            "--files-from=/etc/shadow",
            "--rsh=x",
            "--remote-program=x",
            "--data=tls",
            "--connections=4",
            "--data-ports=0",
            "--source=x",
            "--progress",
            "x",
            "--in-place",
            "--interactive",
            "--copy-contents",
            "--shown-as=x",
            "--setting=x",
            "--setting=x=1",
            "--setting=retries=many",
            "--setting=compress=zstd",
            "--no-such-flag",
        ] {
            let words = ["--recursive".into(), word.into(), "--dest=b".into()];
            let error = parse(&words, &["a".into()]).unwrap_err();
            assert!(error.use_stderr(), "{word}");
        }
        // Help is no copy.
        assert!(parse(&["--help".into()], &["a".into()]).is_err());
    }
}
