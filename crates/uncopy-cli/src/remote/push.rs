//! Copies to another machine: the copy is made there, and asks this machine for the sources.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;
use clap::error::ErrorKind;
use uncopy::remote::{self, Limits, RemoteError, RunJob};

use super::recorder::Recorder;
use super::relay::Relay;
use super::session;
use super::words::{self, Watched};
use crate::config::Configured;
use crate::cp::target::Names;
use crate::cp::{self, Held, Pair, list};
use crate::exit::Exit;
use crate::flags::operand::Machine;
use crate::flags::usage_error;
use crate::job_control::JobControl;
use crate::manifest_file::ManifestFile;
use crate::report;
use crate::stop::{self, Stop};

/// Copies to `machine`.
///
/// # Errors
/// The command line makes no sense; nothing was touched.
pub(super) fn copy(
    mut configured: Configured,
    names: &Names,
    machine: &Machine,
    given: Option<&ArgMatches>,
) -> Result<Exit, clap::Error> {
    let misuse = |message: String| usage_error("cp", ErrorKind::ValueValidation, &message);
    // Files of patterns are files of this machine.
    let patterns = &mut configured.flags.tree.patterns.in_order;
    *patterns = list::with_files_read(patterns).map_err(misuse)?;
    let options = cp::job_options(&configured)?;
    let flags = &configured.flags;
    let pair =
        |source: &PathBuf| Pair { source: source.clone(), destination: names.destination.clone() };
    let pairs: Vec<Pair> = names.sources.iter().map(pair).collect();
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    let held = Held::SourcesAndOwnFiles;
    let report = match cp::begin_report(flags, &options, &pairs, held)? {
        Ok(report) => report,
        Err(exit) => return Ok(exit),
    };
    let manifest = flags.manifest.as_deref();
    let recorder = Recorder::new(report, manifest.map(|file| ManifestFile::new(file, flags.quiet)));
    let control = JobControl::default();
    let mut relay = Relay::new(flags, &control, recorder);
    let watched = if relay.wants_progress() { Watched::Yes } else { Watched::No };
    let job = RunJob {
        arguments: words::of(&configured, given, names, machine, watched).map_err(misuse)?,
        sources: names.sources.iter().map(OsString::from).collect(),
    };
    // A signal must not leave the remote shell behind.
    stop.listen();
    let (far, streams) = match session::start(flags, machine) {
        Ok(started) => started,
        Err(error) => {
            let (recorder, _) = relay.finish();
            return Ok(recorder.fail(names, machine, &session::failure(&error, machine)));
        }
    };
    let data = session::data(flags, &far);
    let ended = remote::push(
        streams,
        &Limits::default(),
        data,
        &job,
        &names.sources,
        &|| stop.requested().is_some(),
        &mut |event| relay.take(&event),
    );
    let is_unbegun = matches!(ended, Err(RemoteError::Stopped));
    let ended = match is_unbegun {
        // It may wait for a password.
        true => {
            drop(far);
            ended
        }
        false => far.finish(ended),
    };
    let (recorder, unwritten) = relay.finish();
    if let Some(by) = stop.requested() {
        recorder.stop();
        if is_unbegun {
            report::say(&format!("stopped by {}; nothing was copied", by.name()));
        } else if ended.is_err() {
            report::say(&format!(
                "stopped by {}; the copy on {machine} stops when it sees that the connection is gone",
                by.name()
            ));
        }
        return Ok(by.end());
    }
    let exit = match ended {
        Ok(code) => Exit::of_code(code).and(recorder.end()),
        Err(error) => recorder.fail(names, machine, &session::failure(&error, machine)),
    };
    Ok(match unwritten {
        Some(error) => exit.and(report::output_failed(&error)),
        None => exit,
    })
}
