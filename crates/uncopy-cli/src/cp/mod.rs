//! `uncopy cp`.

mod file;
mod job;
mod list;
mod outside;
mod own_files;
mod request;
pub(crate) mod target;

use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use uncopy::copy::job::{DestinationLinks, JobOptions, LinkDest, Parents, is_built};
use uncopy::copy::{Contradiction, CopyOptions, Origin};
use uncopy::{Reason, System, follow};

use crate::audit::Audit;
use crate::config::{Configured, Setting};
use crate::exit::Exit;
use crate::flags::copy::CopyArgs;
use crate::flags::{self, conflict, elsewhere, naming};
use crate::job_control::JobControl;
use crate::manifest::Manifest;
use crate::progress::is_typed;
use crate::report::{self, Failure, Report};
use crate::stop::{self, Stop};
pub(crate) use target::Pair;
use target::{Kind, Names};

/// Copies the files or trees that the flags name.
///
/// # Errors
/// The command line makes no sense; nothing was touched.
pub(crate) fn run(configured: &Configured) -> Result<Exit, clap::Error> {
    let mut options = job_options(configured)?;
    let flags = &configured.flags;
    let misuse = |kind, message: String| flags::usage_error(flags.subcommand(), kind, &message);
    if flags.interactive && !stdin().is_terminal() {
        let message =
            "--interactive needs a terminal as standard input, to read the answers from; leave \
                       it out, or --no-clobber replaces nothing"
                .to_owned();
        return Err(misuse(ErrorKind::ValueValidation, message));
    }
    if let Some(refusal) = elsewhere::manifest_refusal(System::HERE)
        && flags.manifest.is_some()
    {
        return Err(misuse(ErrorKind::ValueValidation, refusal.to_owned()));
    }
    let names = target::names(flags)
        .map_err(|names| misuse(ErrorKind::MissingRequiredArgument, names.to_string()))?;

    if flags.interactive && names.sources.iter().any(|source| is_typed(source)) {
        let message =
            "--interactive reads answers from the terminal that the source is; copy it without";
        return Err(misuse(ErrorKind::ArgumentConflict, message.to_owned()));
    }
    let is_directory = match destination_is_directory(&names) {
        Ok(is_directory) => is_directory,
        Err(failure) if flags.keeps_paths() => {
            let destination = names.destination.display();
            let message = format!(
                "{destination}: {}; paths are kept below a directory that exists: make it first",
                failure.reason
            );
            return Err(misuse(ErrorKind::ValueValidation, message));
        }
        Err(failure) => {
            let destination = &names.destination;
            let pair = |source: &PathBuf| Pair {
                source: source.clone(),
                destination: destination.clone(),
            };
            let pairs: Vec<Pair> = names.sources.iter().map(pair).collect();
            let mut report = match begin_report(flags, &options, &pairs)? {
                Ok(report) => report,
                Err(exit) => return Ok(exit),
            };
            report.all_failed(&names.sources, destination, &failure);
            return Ok(report.finish());
        }
    };
    let is_directory = is_directory && !is_own_copy(&names, &options);
    options.copy.suffix = names.is_inside(is_directory);
    // As by `cp`: a link is followed only as the destination itself, without -T.
    if names.kind == Kind::File || names.is_inside(is_directory) {
        options.destination_links = DestinationLinks::Refuse;
    }
    if let Some(earlier) = &mut options.link_dest {
        earlier.holds_roots = names.is_inside(is_directory) || flags.copies_entries();
        if !flags.quiet {
            note_missing(earlier, &names, is_directory);
        }
    }
    let destination = names.destination.clone();
    let pairs = match &flags.files_from {
        Some(list) => {
            let (source, destination) = (&names.sources[0], &names.destination);
            options.parents = Parents::KeepBelow(source.clone());
            let listed = list::names(list, flags.from0)
                .map_err(|message| misuse(ErrorKind::ValueValidation, message))?;
            let below = |name| Pair { source: source.join(name), destination: destination.clone() };
            listed.into_iter().map(below).collect()
        }
        None if flags.parents => {
            let below = |source| Pair { source, destination: names.destination.clone() };
            names.sources.into_iter().map(below).collect()
        }
        None => target::pairs(names, is_directory, options.copy.transform, |source| {
            flags.is_recursive() && is_merged(source)
        })
        .map_err(|same| misuse(ErrorKind::ArgumentConflict, same.to_string()))?,
    };
    let manifest = match (&flags.manifest, options.copy.digest) {
        (Some(file), Some(digest)) => {
            outside::check(&destination, &options, &pairs)
                .map_err(|outside| misuse(ErrorKind::ArgumentConflict, outside.to_string()))?;
            Some(Manifest::new(file, digest, &destination))
        }
        _ => None,
    };
    if let Some(note) = pairs.iter().find_map(|pair| differs_from_rsync(pair, flags)) {
        report::say(&note);
    }
    let report = match begin_report(flags, &options, &pairs)? {
        Ok(report) => report,
        Err(exit) => return Ok(exit),
    };
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    let control = JobControl::default();
    options.gate = Some(control.gate());
    let signals = Signals { stop: &stop, control: &control };
    Ok(match pairs.as_slice() {
        [pair] if !flags.is_recursive() && !flags.copies_entries() => {
            file::copy(pair, &options, flags, signals, Reports { report, manifest })
        }
        pairs => {
            let reports = Reports { report, manifest };
            job::copy(pairs, options, flags.tree.progress, signals, reports)
        }
    })
}

/// Begins the report and the audit log, when the run's own files were checked against those that it copies.
///
/// # Errors
/// One of its own files has another part in the copy; the inner error: the log cannot be begun. Nothing was touched.
fn begin_report(
    flags: &CopyArgs,
    options: &JobOptions,
    pairs: &[Pair],
) -> Result<Result<Report, Exit>, clap::Error> {
    own_files::check(flags, options, pairs).map_err(|misplaced| {
        flags::usage_error(flags.subcommand(), ErrorKind::ArgumentConflict, &misplaced.to_string())
    })?;
    let audit = flags.audit.as_deref().map(Audit::open).transpose();
    Ok(audit.map(|audit| Report::new(flags, audit)).map_err(|error| {
        let named = flags.audit.as_deref().unwrap_or(Path::new("")).display();
        let operation = format!("begin the audit log {named}");
        let next_step = "name a file that can be written to, or leave out --audit";
        report::failed_to(&operation, &error, next_step)
    }))
}

/// Where a copy is reported: as it goes on, and in a manifest at its end.
pub(crate) struct Reports {
    report: Report,
    manifest: Option<Manifest>,
}

/// Signals that a copy heeds: those that stop it, and those of job control.
#[derive(Clone, Copy)]
pub(crate) struct Signals<'a> {
    pub(crate) stop: &'a Stop,
    pub(crate) control: &'a JobControl,
}

/// Makes the options of the library for these flags and settings.
///
/// # Errors
/// They contradict each other, or a value makes no sense.
fn job_options(configured: &Configured) -> Result<JobOptions, clap::Error> {
    let each = options(configured)?;
    let options = request::job_options(&configured.flags, each)
        .map_err(|message| misuse(configured, ErrorKind::ValueValidation, &message))?;
    options.check().map_err(|found| contradicts(configured, found))?;
    Ok(options)
}

/// Makes the options of the library for one file.
///
/// # Errors
/// They contradict each other, or a value makes no sense.
pub(crate) fn options(configured: &Configured) -> Result<CopyOptions, clap::Error> {
    let misuse = |kind, message: String| misuse(configured, kind, &message);
    if let Some(conflict) = conflict::find(&configured.flags) {
        return Err(misuse(ErrorKind::ArgumentConflict, conflict.to_string()));
    }
    let mut options = request::options(&configured.flags)
        .map_err(|message| misuse(ErrorKind::ValueValidation, message))?;
    options.check().map_err(|found| contradicts(configured, found))?;
    options.tuning = request::tuning(&configured.flags, |name| {
        match configured.setting(name).is_some_and(Setting::is_tuned) {
            true => Origin::Tuned,
            false => Origin::Given,
        }
    });
    Ok(options)
}

/// Makes the error for flags that contradict each other in the library.
fn contradicts(configured: &Configured, found: Contradiction) -> clap::Error {
    misuse(configured, ErrorKind::ArgumentConflict, &naming::contradiction(found))
}

/// Makes an error in the flags, with the settings that the value may come from.
fn misuse(configured: &Configured, kind: ErrorKind, message: &str) -> clap::Error {
    let applied: Vec<String> = configured.applied.iter().map(ToString::to_string).collect();
    let subcommand = configured.flags.subcommand();
    if applied.is_empty() {
        return flags::usage_error(subcommand, kind, message);
    }
    let message = format!("{message} (settings that apply: {})", applied.join(", "));
    flags::usage_error(subcommand, kind, &message)
}

/// Whether the destination is a directory: given by the flags, or looked up.
fn destination_is_directory(names: &Names) -> Result<bool, Failure> {
    if names.kind == Kind::File {
        return Ok(false);
    }
    let found = follow::metadata(&names.destination);
    let error = match found {
        Ok(metadata) if metadata.is_dir() => return Ok(true),
        _ if names.kind == Kind::Either => return Ok(false),
        found => found.err(),
    };
    let failure = error.as_ref().map(Failure::from);
    let foreign =
        error.as_ref().filter(|error| matches!(error.reason(), Reason::ForeignLink { .. }));
    Err(Failure {
        kind: "refused",
        code: None,
        operation: "copy into",
        subject: names.destination.as_path().into(),
        errno: failure.as_ref().and_then(|failure| failure.errno),
        os_error: failure.as_ref().and_then(|failure| failure.os_error),
        reason: match &error {
            None => "it is not a directory".into(),
            Some(error) if error.is_not_found() => "it does not exist".into(),
            Some(error) => naming::reason(error.reason()).into(),
        },
        next_step: foreign
            .and_then(|foreign| foreign.next_step().map(naming::next_step))
            .or(Some("name a directory that exists")),
        is_at_destination: false,
        exit: Exit::Failure,
    })
}

/// Notes which earlier copies do not exist, as `rsync` does: the first of many backups has none.
fn note_missing(earlier: &LinkDest, names: &Names, is_directory: bool) {
    let is_in_parent = earlier.holds_roots && !names.is_inside(is_directory);
    let base = match names.destination.parent() {
        Some(parent) if is_in_parent => parent,
        _ => &names.destination,
    };
    for given in &earlier.directories {
        let path = LinkDest::path(given, base);
        if follow::metadata(&path).is_err() {
            report::say(&format!(
                "note: --link-dest {} does not exist, so nothing is linked to it",
                path.display()
            ));
        }
    }
}

/// Whether a source is a directory, so that its contents are merged with others. A link is one only with what it leads to.
fn is_merged(source: &Path) -> bool {
    source.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Returns a note where a slash at the end of a source means something else in `rsync`.
fn differs_from_rsync(pair: &Pair, flags: &CopyArgs) -> Option<String> {
    let Pair { source, destination } = pair;
    let has_slash = source.as_os_str().as_encoded_bytes().ends_with(b"/");
    let is_inside = source.file_name().is_some() && source.file_name() == destination.file_name();
    let is_named = flags.destination().is_some_and(|named| named == *destination);
    (has_slash && is_inside && !is_named && flags.is_recursive() && !flags.quiet).then(|| {
        format!(
            "note: {} becomes {}, as by cp; for its contents alone, as by rsync, name {}",
            source.display(),
            destination.display(),
            source.join(".").display()
        )
    })
}

/// Whether the destination is the copy that an earlier run of this command made when the
/// destination did not exist, so that only the traces of a kill have to be removed.
fn is_own_copy(names: &Names, options: &JobOptions) -> bool {
    names.kind == Kind::Either
        && names.sources.iter().any(|source| is_built(source, &names.destination, options))
}
