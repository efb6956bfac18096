//! Copies from another machine: the copy is made here.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use uncopy::copy::job::{
    JobError, JobObserver, JobOptions, Summary, copy_from_peer, is_built_from_peer,
};
use uncopy::copy::peer::Peer;
use uncopy::remote::{self, Limits, Note, Pull};

use super::{SIDE, relay, session};
use crate::config::Configured;
use crate::cp::target::{self, Names};
use crate::cp::{self, Pair, Reports, Signals, job};
use crate::exit::Exit;
use crate::flags::operand::Machine;
use crate::flags::usage_error;
use crate::job_control::JobControl;
use crate::report::{self, Wire};
use crate::stop::{self, Stop};

/// Kind of a file in its mode, and the one of directories (`inode(7)`).
const FORMAT: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;

/// Sources that another machine shows.
struct There {
    pull: Pull,
    machine: Machine,
    since: Instant,
}

impl job::Sources for There {
    fn copy(
        &self,
        pairs: &[Pair],
        options: &JobOptions,
        observer: &dyn JobObserver,
    ) -> Result<Summary, JobError> {
        let pairs = pairs.iter().map(|pair| (&pair.source, &pair.destination));
        copy_from_peer(self.pull.source(), pairs, options, observer)
    }

    fn is_built(
        &self,
        number: u32,
        source: &Path,
        destination: &Path,
        options: &JobOptions,
    ) -> bool {
        let source = self.machine.with_path(source);
        is_built_from_peer(self.pull.source(), number, &source, destination, options)
    }

    fn wire(&self) -> Option<Wire> {
        Some(session::wire(self.pull.traffic(), &self.pull.data(), self.since.elapsed()))
    }
}

/// Copies from `machine`.
///
/// # Errors
/// The command line makes no sense; nothing was touched.
pub(super) fn copy(
    configured: &Configured,
    names: &Names,
    machine: &Machine,
) -> Result<Exit, clap::Error> {
    let flags = &configured.flags;
    let mut options = cp::job_options(configured)?;
    cp::check_questions(flags)?;
    // Before the connection: a remote shell that ended must be an error of a write, and no signal.
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    let since = Instant::now();
    // A signal must not leave the remote shell behind.
    stop.listen();
    let (far, streams) = match session::start(flags, machine) {
        Ok(started) => started,
        Err(error) => {
            return Ok(cp::all_failed(flags, names, &session::failure(&error, machine)));
        }
    };
    let roots: Vec<OsString> = names.sources.iter().map(OsString::from).collect();
    let stops = || stop.requested().is_some();
    let data = session::data(flags, &far);
    let pull = match remote::pull(streams, &Limits::default(), data, &roots, &stops) {
        Ok(pull) => pull,
        Err(error) => {
            if let Some(by) = stop.requested() {
                // It may wait for a password.
                drop(far);
                report::say(&format!("stopped by {}; nothing was copied", by.name()));
                return Ok(by.end());
            }
            let error = far.finish::<()>(Err(error)).err();
            let failure = error.map(|error| session::failure(&error, machine));
            return Ok(failure.map_or(Exit::Unreachable, |it| cp::all_failed(flags, names, &it)));
        }
    };
    if !flags.quiet {
        for note in pull.notes() {
            report::say(&format!("note: {}", relay::words(*note)));
        }
    }
    let there = There { pull, machine: machine.clone(), since };
    let is_directory = match cp::settle(configured, &mut options, names, &there, SIDE)? {
        Ok(is_directory) => is_directory,
        Err(exit) => return Ok(exit),
    };
    let source: Arc<dyn Peer> = there.pull.source();
    let pairs = target::pairs(names.clone(), is_directory, options.copy.transform, |path| {
        flags.is_recursive() && is_directory_there(&*source, names, path)
    })
    .map_err(|same| usage_error(flags.subcommand(), same.kind(), &same.to_string()))?;
    let manifest = cp::manifest(flags, &options, &names.destination, &pairs)?;
    cp::note_slashes(&pairs, flags);
    let shown = |pair: Pair| Pair { source: machine.with_path(&pair.source), ..pair };
    let pairs: Vec<Pair> = pairs.into_iter().map(shown).collect();
    let report = match cp::begin_report(flags, &options, &pairs, SIDE)? {
        Ok(report) => report,
        Err(exit) => return Ok(exit),
    };
    let control = JobControl::default();
    options.gate = Some(control.gate());
    let signals = Signals { stop: &stop, control: &control };
    let reports = Reports { report, manifest };
    let exit = job::copy(&there, &pairs, options, flags.tree.progress, signals, reports);
    if let Some(why) = there.pull.data().why_none.filter(|why| session::is_notable(*why))
        && !flags.quiet
    {
        report::say(&format!("note: {}", relay::words(Note::NoData(why))));
    }
    // The end of the connection ended the copy too, which said so.
    match far.finish(there.pull.end()) {
        Err(error) if exit != Exit::Success => Ok(session::exit_of(&error)),
        _ => Ok(exit),
    }
}

/// Whether a source is a directory, so that its contents are merged with others.
pub(super) fn is_directory_there(source: &dyn Peer, names: &Names, path: &Path) -> bool {
    let numbers = names.sources.iter().zip(0..);
    numbers.filter(|(root, _)| *root == path).any(|(_, number)| {
        source.open_root(number, false).is_ok_and(|opened| {
            source.close(opened.handle);
            opened.stat.mode & FORMAT == DIRECTORY
        })
    })
}
