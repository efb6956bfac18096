//! `uncopy cp`.

mod file;
pub(crate) mod job;
pub(crate) mod list;
mod outside;
mod own_files;
pub(crate) mod request;
pub(crate) mod target;

use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::error::ErrorKind;
use uncopy::copy::job::{DestinationLinks, JobOptions, LinkDest, Parents};
use uncopy::copy::{Contradiction, CopyOptions, Origin};
use uncopy::{Reason, System, follow};

use crate::audit::Audit;
use crate::config::{Configured, Setting};
use crate::exit::Exit;
use crate::flags::copy::CopyArgs;
use crate::flags::operand::Machine;
use crate::flags::{self, conflict, elsewhere, naming};
use crate::job_control::JobControl;
use crate::manifest::{Manifest, ManifestPlace};
use crate::manifest_file::ManifestFile;
use crate::progress::is_typed;
use crate::remote;
use crate::report::{self, AuditLog, Failure, Report};
use crate::stop::{self, Stop};
pub(crate) use own_files::Held;
pub(crate) use target::Pair;
use target::{Kind, Names, Reading, Route};

/// Copies the files or trees that the flags name. `given` has the flags of the command line, where the parser read it.
///
/// # Errors
/// The command line makes no sense; nothing was touched.
pub(crate) fn run(
    configured: &Configured,
    given: Option<&ArgMatches>,
) -> Result<Exit, clap::Error> {
    let flags = &configured.flags;
    let misuse = |kind, message: String| flags::usage_error(flags.subcommand(), kind, &message);
    let names = target::names(flags, Reading::Operands);
    if let Ok(names) = &names
        && names.route != Route::Here
    {
        return remote::copy(configured, names, given);
    }
    let mut options = job_options(configured)?;
    check_questions(flags)?;
    check_manifest_is_here(flags)?;
    let names = names.map_err(|misused| misuse(misused.kind(), misused.to_string()))?;

    if flags.interactive && names.sources.iter().any(|source| is_typed(source)) {
        let message =
            "--interactive reads answers from the terminal that the source is; copy it without";
        return Err(misuse(ErrorKind::ArgumentConflict, message.to_owned()));
    }
    let is_directory = match settle(configured, &mut options, &names, &job::Here, Held::All)? {
        Ok(is_directory) => is_directory,
        Err(exit) => return Ok(exit),
    };
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
        .map_err(|same| misuse(same.kind(), same.to_string()))?,
    };
    let is_file = |pair: &Pair, follows| outside::is_file(&pair.source, follows);
    let manifest = manifest(flags, &options, &destination, &pairs, &is_file, Held::All)?;
    note_slashes(&pairs, flags, None);
    let report = match begin_report(flags, &options, &pairs, Held::All)? {
        Ok(report) => report,
        Err(exit) => return Ok(exit),
    };
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    let control = JobControl::new();
    options.gate = Some(control.gate());
    let signals = Signals { stop: &stop, control: &control };
    let reports = Reports { report, manifest };
    Ok(match pairs.as_slice() {
        [pair] if !flags.is_recursive() && !flags.copies_entries() => {
            file::copy(pair, &options, flags, signals, reports)
        }
        pairs => job::copy(&job::Here, pairs, options, flags.tree.progress, signals, reports),
    })
}

/// Checks that somebody can be asked, if the flags want that.
///
/// # Errors
/// Standard input is no terminal.
pub(crate) fn check_questions(flags: &CopyArgs) -> Result<(), clap::Error> {
    if !flags.interactive || stdin().is_terminal() {
        return Ok(());
    }
    let message = "--interactive needs a terminal as standard input, to read the answers from; leave \
                   it out, or --no-clobber replaces nothing";
    Err(flags::usage_error(flags.subcommand(), ErrorKind::ValueValidation, message))
}

/// Checks that this system writes manifests, if the flags want one.
fn check_manifest_is_here(flags: &CopyArgs) -> Result<(), clap::Error> {
    match elsewhere::manifest_refusal(System::HERE) {
        Some(refusal) if flags.manifest.is_some() => {
            Err(flags::usage_error(flags.subcommand(), ErrorKind::ValueValidation, refusal))
        }
        _ => Ok(()),
    }
}

/// Looks at the destination, and sets the options that depend on it. Returns whether it is a directory.
///
/// # Errors
/// The command line makes no sense with it; the inner error: it is not what the flags need, which was reported.
pub(crate) fn settle(
    configured: &Configured,
    options: &mut JobOptions,
    names: &Names,
    sources: &dyn job::Sources,
    held: Held,
) -> Result<Result<bool, Exit>, clap::Error> {
    let flags = &configured.flags;
    let is_directory = match destination_is_directory(names) {
        Ok(is_directory) => is_directory,
        Err(failure) if flags.keeps_paths() => {
            let destination = names.destination.display();
            let message = format!(
                "{destination}: {}; paths are kept below a directory that exists: make it first",
                failure.reason
            );
            let kind = ErrorKind::ValueValidation;
            return Err(flags::usage_error(flags.subcommand(), kind, &message));
        }
        Err(failure) => {
            let destination = &names.destination;
            let pair = |source: &PathBuf| Pair {
                source: source.clone(),
                destination: destination.clone(),
            };
            let pairs: Vec<Pair> = names.sources.iter().map(pair).collect();
            let report = begin_report(flags, options, &pairs, held)?;
            return Ok(Err(report.map_or_else(|exit| exit, |report| end(report, names, &failure))));
        }
    };
    let is_directory = is_directory && !is_own_copy(sources, names, options);
    options.copy.suffix = names.is_inside(is_directory);
    // As by `cp`: a link is followed only as the destination itself, without -T.
    if names.kind == Kind::File || names.is_inside(is_directory) {
        options.destination_links = DestinationLinks::Refuse;
    }
    if let Some(earlier) = &mut options.link_dest {
        earlier.holds_roots = names.is_inside(is_directory) || flags.copies_entries();
        if !flags.quiet {
            note_missing(earlier, names, is_directory);
        }
    }
    Ok(Ok(is_directory))
}

/// Reports that nothing was copied, for one reason, where no log was begun.
#[cfg(all(feature = "remote", target_os = "linux"))]
pub(crate) fn all_failed(flags: &CopyArgs, names: &Names, failure: &Failure) -> Exit {
    end(Report::new(flags, None), names, failure)
}

fn end(mut report: Report, names: &Names, failure: &Failure) -> Exit {
    let (sources, destination) = names.shown();
    report.not_begun(&sources, &destination, failure);
    report.finish()
}

/// Makes the manifest that the flags ask for. `is_file`: whether a source is a file, followed if it is a link or not.
///
/// # Errors
/// A copy would lie where the manifest cannot name it.
pub(crate) fn manifest(
    flags: &CopyArgs,
    options: &JobOptions,
    destination: &Path,
    pairs: &[Pair],
    is_file: &dyn Fn(&Pair, bool) -> bool,
    held: Held,
) -> Result<Option<Manifest>, clap::Error> {
    let (Some(digest), Some(file)) = (options.copy.digest, flags.manifest.as_deref()) else {
        return Ok(None);
    };
    outside::check(destination, options, pairs, is_file).map_err(|outside| {
        flags::usage_error(flags.subcommand(), ErrorKind::ArgumentConflict, &outside.to_string())
    })?;
    let place = match held {
        Held::Destination => ManifestPlace::Away,
        _ => ManifestPlace::Here(ManifestFile::new(file, flags.quiet)),
    };
    Ok(Some(Manifest::new(place, digest, destination)))
}

/// Prints a note where a slash at the end of a source means something else in `rsync`. `from`: the other machine that has the
/// sources.
pub(crate) fn note_slashes(pairs: &[Pair], flags: &CopyArgs, from: Option<&Machine>) {
    if let Some(note) = pairs.iter().find_map(|pair| differs_from_rsync(pair, flags, from)) {
        report::say(&note);
    }
}

/// Begins the report and the audit log, when the run's own files were checked against those that it copies.
///
/// # Errors
/// One of its own files has another part in the copy; the inner error: the log cannot be begun. Nothing was touched.
pub(crate) fn begin_report(
    flags: &CopyArgs,
    options: &JobOptions,
    pairs: &[Pair],
    held: Held,
) -> Result<Result<Report, Exit>, clap::Error> {
    if held == Held::Destination {
        return Ok(Ok(Report::new(flags, flags.audit.is_some().then_some(AuditLog::Away))));
    }
    own_files::check(flags, options, pairs, held).map_err(|misplaced| {
        flags::usage_error(flags.subcommand(), ErrorKind::ArgumentConflict, &misplaced.to_string())
    })?;
    let audit = flags.audit.as_deref().map(Audit::open).transpose();
    let here = |audit| AuditLog::Here(Box::new(audit));
    Ok(audit.map(|audit| Report::new(flags, audit.map(here))).map_err(|error| {
        let named = flags.audit.as_deref().unwrap_or(Path::new("")).display();
        let operation = format!("begin the audit log {named}");
        let next_step = "name a file that can be written to, or leave out --audit";
        report::failed_to(&operation, &error, next_step)
    }))
}

/// Where a copy is reported: as it goes on, and in a manifest at its end.
pub(crate) struct Reports {
    pub(crate) report: Report,
    pub(crate) manifest: Option<Manifest>,
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
pub(crate) fn job_options(configured: &Configured) -> Result<JobOptions, clap::Error> {
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
    misuse(configured, ErrorKind::ArgumentConflict, &naming::contradiction(found).to_string())
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
        code: Some("no_directory"),
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
            .or(Some("name a directory that exists"))
            .map(Box::from),
        is_at_destination: false,
        exit: Exit::Failure,
    })
}

/// Notes which earlier copies there are none of, as `rsync` does: the first of many backups has none.
fn note_missing(earlier: &LinkDest, names: &Names, is_directory: bool) {
    let is_in_parent = earlier.holds_roots && !names.is_inside(is_directory);
    let base = match names.destination.parent() {
        Some(parent) if is_in_parent => parent,
        _ => &names.destination,
    };
    for given in &earlier.directories {
        let path = LinkDest::path(given, base);
        let lack = match follow::metadata(&path) {
            Ok(found) if earlier.is_within(&path) => match found.is_dir() {
                true => continue,
                false => "is not a directory",
            },
            _ => "does not exist",
        };
        let path = path.display();
        report::say(&format!("note: --link-dest {path} {lack}, so nothing is linked to it"));
    }
}

/// Whether a source is a directory, so that its contents are merged with others. A link is one only with what it leads to.
fn is_merged(source: &Path) -> bool {
    source.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Returns the note of [`note_slashes`] about a copy.
fn differs_from_rsync(pair: &Pair, flags: &CopyArgs, from: Option<&Machine>) -> Option<String> {
    let Pair { source, destination } = pair;
    let has_slash = source.as_os_str().as_encoded_bytes().ends_with(b"/");
    let is_inside = source.file_name().is_some() && source.file_name() == destination.file_name();
    let is_named = flags.destination().is_some_and(|named| named == *destination);
    let at = |machine: Option<&Machine>, path: &Path| match machine {
        Some(machine) => machine.with_path(path),
        None => path.to_owned(),
    };
    (has_slash && is_inside && !is_named && flags.is_recursive() && !flags.quiet).then(|| {
        format!(
            "note: {} becomes {}, as by cp; for its contents alone, as by rsync, name {}",
            at(from, source).display(),
            at(flags.shown_as.as_ref(), destination).display(),
            at(from, &source.join(".")).display()
        )
    })
}

/// Whether the destination is the copy that an earlier run of this command made when the
/// destination did not exist, so that only the traces of a kill have to be removed.
fn is_own_copy(sources: &dyn job::Sources, names: &Names, options: &JobOptions) -> bool {
    let numbers = names.sources.iter().zip(0..);
    let is_built = |(source, number): (&PathBuf, u32)| {
        sources.is_built(number, source, &names.destination, options)
    };
    names.kind == Kind::Either && numbers.into_iter().any(is_built)
}
