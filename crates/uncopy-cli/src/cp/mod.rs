//! `uncopy cp`.

mod request;
mod target;
mod tree;
mod written;

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use uncopy::copy::job::{JobOptions, OnError, is_built};
use uncopy::copy::{
    Contradiction, CopyContext, CopyOptions, History, Origin, Outcome, Throttle, Transform,
    copy_file_in,
};
use uncopy::{Reason, follow};

use crate::audit::Audit;
use crate::config::{Configured, Setting};
use crate::exit::Exit;
use crate::flags::copy::CopyArgs;
use crate::flags::{self, conflict, elsewhere, naming};
use crate::job_control::JobControl;
use crate::progress::{Shared, Watch};
use crate::report::{self, Failure, Report};
use crate::stop::{self, Signal, Stop};
pub(crate) use target::Pair;
use target::{Kind, Names};
use written::Written;

/// Copies what the flags name.
///
/// # Errors
/// The command line makes no sense; nothing was touched.
pub(crate) fn run(configured: &Configured) -> Result<Exit, clap::Error> {
    let mut options = options(configured)?;
    let flags = &configured.flags;
    let mut tree_options = request::tree_options(flags, &options)
        .map_err(|message| misuse(configured, ErrorKind::ValueValidation, &message))?;
    if flags.tree.recursive {
        tree_options.check().map_err(|found| contradicts(configured, found))?;
    }
    let misuse = |kind, message: String| flags::usage_error(flags.subcommand(), kind, &message);
    let names = target::names(flags)
        .map_err(|names| misuse(ErrorKind::MissingRequiredArgument, names.to_string()))?;

    let audit = flags.audit.as_deref().map(Audit::open).transpose();
    let mut report = match audit {
        Ok(audit) => Report::new(flags, audit),
        Err(error) => {
            let named = flags.audit.as_deref().unwrap_or(Path::new("")).display();
            let operation = format!("begin the audit log {named}");
            let next_step = "name a file that can be written to, or leave out --audit";
            return Ok(report::failed_to(&operation, &error, next_step));
        }
    };
    let is_directory = match destination_is_directory(&names) {
        Ok(is_directory) => is_directory,
        Err(failure) => {
            report.all_failed(&names.sources, &names.destination, &failure);
            return Ok(report.finish());
        }
    };
    let is_directory = is_directory && !is_own_copy(&names, &tree_options);
    options.suffix = names.is_inside(is_directory);
    tree_options.copy.suffix = options.suffix;
    let pairs = target::pairs(names, is_directory, options.transform)
        .map_err(|same| misuse(ErrorKind::ArgumentConflict, same.to_string()))?;
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    let control = JobControl::default();
    if flags.tree.recursive {
        tree_options.gate = Some(control.gate());
        let signals = (&stop, &control);
        return Ok(tree::copy(&pairs, &tree_options, flags.tree.progress, signals, report));
    }
    let signals = (&stop, &control);
    let on_error = request::on_error(flags);
    Ok(match copy_all(&pairs, (&options, on_error), flags, signals, &mut report) {
        Some(signal) => report.stopped(signal),
        None => report.finish(),
    })
}

/// The options of the library for these flags and settings.
///
/// # Errors
/// They make no sense.
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

/// Flags that the library cannot obey together.
fn contradicts(configured: &Configured, found: Contradiction) -> clap::Error {
    misuse(configured, ErrorKind::ArgumentConflict, &naming::contradiction(found))
}

/// An error in the flags, with the settings that one of them may come from.
fn misuse(configured: &Configured, kind: ErrorKind, message: &str) -> clap::Error {
    let applied: Vec<String> = configured.applied.iter().map(ToString::to_string).collect();
    let subcommand = configured.flags.subcommand();
    if applied.is_empty() {
        return flags::usage_error(subcommand, kind, message);
    }
    let message = format!("{message} (settings that apply: {})", applied.join(", "));
    flags::usage_error(subcommand, kind, &message)
}

/// Asks the filesystem what the destination is, unless the flags say it.
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

/// The destination is what a run of this very command made of its source, when the destination was
/// not there, and what a kill left is to be put right alone.
fn is_own_copy(names: &Names, options: &JobOptions) -> bool {
    names.kind == Kind::Either
        && names.sources.iter().any(|source| is_built(source, &names.destination, options))
}

/// Copies one file after the other, the next one also if one fails, unless its error is to end the
/// copy. Returns the signal that stopped it, if one did.
fn copy_all(
    pairs: &[Pair],
    (options, on_error): (&CopyOptions, OnError),
    flags: &CopyArgs,
    (stop, control): (&Stop, &JobControl),
    report: &mut Report,
) -> Option<Signal> {
    if options.copy_contents {
        // Opening a FIFO may wait for its other end.
        stop.listen();
        control.listen();
    }
    let throttle = flags.max_bandwidth.map(Throttle::new);
    let (mut written, history, gate) = (Written::default(), History::default(), control.gate());
    let context = CopyContext::new().gate(&gate).history(&history);
    let context = throttle.as_ref().map_or(context, |throttle| context.throttle(throttle));
    for (place, pair) in pairs.iter().enumerate() {
        if let Some(signal) = stop.requested() {
            return Some(signal);
        }
        if possible(&pair.destination, options).iter().flatten().any(|name| written.contains(name))
        {
            report.failed(&pair.source, &pair.destination, &just_written(pair));
            continue;
        }
        let shared = Shared { stop, control };
        let mut watch = Watch::new(&pair.source, report.shows_progress(), shared);
        let copied = copy_file_in(&pair.source, &pair.destination, options, &context, &mut watch);
        drop(watch);
        match copied {
            Ok(outcome) => {
                let pair = actual(pair, &outcome);
                report.outcome(&pair, &outcome);
                if pairs.len() > 1 && !outcome.is_skipped() {
                    written.add(&pair.destination);
                }
            }
            Err(error) => {
                let mut failure = Failure::from(&error);
                if flags.single && elsewhere::is_verification(&error) {
                    failure.next_step =
                        Some("pass --no-verify; without a subcommand copies are verified");
                }
                if flags.single && pair.source.is_dir() {
                    failure.next_step = Some("name a file, or copy it all with: uncopy cp -r");
                }
                report.failed(&pair.source, &pair.destination, &failure);
                if on_error.ends_job(&error) && !error.is_cancelled() {
                    report.not_tried(&pairs[place + 1..], error.is_lasting());
                    break;
                }
            }
        }
    }
    stop.requested()
}

/// The names that a copy may get, by what becomes of its bytes.
fn possible(destination: &Path, options: &CopyOptions) -> [Option<PathBuf>; 2] {
    let other = match options.transform {
        Transform::Compress(_) if options.suffix => {
            let mut name = destination.as_os_str().to_owned();
            name.push(".zst");
            Some(name.into())
        }
        Transform::Decompress if options.suffix => {
            let has_suffix = destination.extension().is_some_and(|extension| extension == "zst");
            has_suffix.then(|| destination.with_extension(""))
        }
        _ => None,
    };
    [Some(destination.to_owned()), other]
}

/// The names of a copy, of which one may have changed with its contents.
fn actual(pair: &Pair, outcome: &Outcome) -> Pair {
    let destination = outcome.renamed().unwrap_or(&pair.destination).to_owned();
    Pair { source: pair.source.clone(), destination }
}

fn just_written(pair: &Pair) -> Failure {
    Failure {
        kind: "refused",
        code: None,
        operation: "write to",
        subject: pair.destination.as_path().into(),
        errno: None,
        os_error: None,
        reason: "an earlier source of this command was copied to this very file".into(),
        next_step: Some("copy them one at a time under different names"),
        is_at_destination: false,
        exit: Exit::Failure,
    }
}
