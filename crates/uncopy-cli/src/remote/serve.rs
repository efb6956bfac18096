//! `uncopy serve`: the other end of a copy, which the machine of the command line starts.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use uncopy::copy::job::{JobOptions, JobProgress};
#[cfg(feature = "unit")]
use uncopy::copy::peer::Peer;
use uncopy::remote::{
    self, Accepted, DataRefusal, FarData, JobState, Limits, Note, Output, OutputStream, Refusal,
    RemoteError, RemoteSource, Restriction, RunRequest, Streams, WhyNoData,
};

use super::examined::{self, Examined, Offer};
use super::reach::Reach;
use super::there::There;
#[cfg(feature = "unit")]
use super::unit::UnitJob;
use super::words::{self, Wanted, Watched};
use super::{relay, session};
use crate::config::Configured;
use crate::cp::target::{self, Names, Reading};
use crate::cp::{self, Held, Signals};
use crate::exit::Exit;
#[cfg(not(feature = "unit"))]
use crate::flags::absent;
use crate::flags::serve::ServeArgs;
use crate::flags::usage_error;
use crate::job_control::JobControl;
use crate::report;
use crate::report::outlet::{self, FarRecord, Outlet, Stream};
use crate::stop::{self, Stop};

/// First version of the protocol whose near end takes [`FarRecord::NewTree`].
const NEW_TREES_VERSION: u16 = 6;

/// Serves one copy.
///
/// # Errors
/// None: the parser has seen to the flags.
pub(crate) fn run(flags: &ServeArgs) -> Result<Exit, clap::Error> {
    // A connection that ends must be an error of a write, and no signal.
    if let Err(error) = Stop::new() {
        return Ok(stop::failed(&error));
    }
    let directory = match flags.restrict.as_deref().map(enter).transpose() {
        Ok(directory) => directory,
        Err(error) => {
            let directory = flags.restrict.as_deref().unwrap_or(Path::new(""));
            let operation = format!("serve {}", report::quoted(directory));
            let next_step = "name a directory that this user may enter with --restrict";
            return Ok(report::failed_to(&operation, &error, next_step));
        }
    };
    // A job is confined to its paths, and `/proc` is none of those.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let restriction = Restriction { directory, read_only: flags.read_only, data: data() };
    let served = Streams::stdio().and_then(|streams| {
        match remote::accept(streams, &Limits::default(), &restriction)? {
            Accepted::Serve(request) => request.serve().map(|()| Exit::Success),
            Accepted::Run(request) => {
                if let Some(path) = examined::path(request.arguments()) {
                    return examine(request, &path, &restriction);
                }
                let only = restriction.directory.as_deref();
                #[cfg(feature = "unit")]
                if let Some(job) = UnitJob::parse(request.arguments()) {
                    return do_unit(request, job, only);
                }
                #[cfg(not(feature = "unit"))]
                if is_unit(request.arguments()) {
                    let message = absent::refused("unit");
                    return request.refuse(Refusal::Arguments { message }).map(|()| Exit::Usage);
                }
                run_job(request, only)
            }
        }
    });
    Ok(served.unwrap_or_else(|error| {
        // The other side was told, if it is still there; this may go to the log of a server.
        if !matches!(error, RemoteError::NoData { .. }) {
            // It names the machine, since ssh shows it on the other one.
            report::say(&format!("serve on {:?}: {error}", host.trim_end()));
        }
        session::exit_of(&error)
    }))
}

/// Returns the rule of this machine about data connections: its settings, and the address that ssh came to.
fn data() -> FarData {
    match Configured::of_this_machine("data") {
        Ok(Some(way)) if way == "ssh" => FarData::Refused(DataRefusal::Policy),
        Ok(way) => {
            let offered = FarData::of_ssh(std::env::var_os("SSH_CONNECTION").as_deref());
            if way.is_some_and(|way| way == "tls") { offered.with_tls_alone() } else { offered }
        }
        // They may forbid them.
        Err(_) => FarData::Refused(DataRefusal::Settings),
    }
}

/// Makes a directory the one at which relative paths begin, and returns its path without links.
fn enter(directory: &Path) -> io::Result<PathBuf> {
    let directory = directory.canonicalize()?;
    std::env::set_current_dir(&directory)?;
    Ok(directory)
}

/// Examines this machine and a path on it, for the doctor of the other machine.
///
/// # Errors
/// The connection ended, or the path lies outside of the directory that this login is restricted to.
fn examine(
    request: RunRequest,
    path: &Path,
    restriction: &Restriction,
) -> Result<Exit, RemoteError> {
    let Some(reach) = Reach::of_path(path, restriction.directory.as_deref()) else {
        return refuse_outside(request, path);
    };
    let code = request.run(&reach.writable, |_, output| {
        let found = Examined::here(path, Offer::from(&restriction.data));
        let text = serde_json::to_vec(&found).unwrap_or_default();
        match output.write(OutputStream::Standard, &text) {
            Ok(()) => Exit::Success.code(),
            Err(_) => Exit::Failure.code(),
        }
    })?;
    Ok(Exit::of_code(code))
}

/// Makes the copy that the other machine wants. `only` is the directory that this login is restricted to.
///
/// # Errors
/// The connection ended, or it was refused.
fn run_job(request: RunRequest, only: Option<&Path>) -> Result<Exit, RemoteError> {
    let (arguments, sources) = (request.arguments().to_vec(), request.sources().to_vec());
    let mut job = match Job::new(&arguments, &sources) {
        Ok(job) => job,
        Err(error) => {
            let message = error.render().to_string();
            let message = message.strip_prefix("error: ").unwrap_or(&message);
            let message = message.lines().next().unwrap_or_default().to_owned();
            request.refuse(Refusal::Arguments { message })?;
            return Ok(Exit::Usage);
        }
    };
    let Reach { writable, linked } = match Reach::of_copy(&job.options, &job.names, only) {
        Ok(reach) => reach,
        Err(refusal) => return request.refuse(refusal).map(|()| Exit::Failure),
    };
    if let (Some(only), Some(earlier)) = (only, &mut job.options.link_dest) {
        // Whether a file is there, and is like one of the other machine, is a secret of what lies outside.
        earlier.within = Some(only.to_owned());
    }
    job.reports_new_trees = request.version() >= NEW_TREES_VERSION;
    let request = request.linking_from(linked);
    request.run(&writable, |source, output| job.run(source, output).code()).map(Exit::of_code)
}

/// Refuses a job at a path that this login may not reach.
///
/// # Errors
/// Always: the refusal as an error.
fn refuse_outside(request: RunRequest, path: &Path) -> Result<Exit, RemoteError> {
    let path = path.as_os_str().as_encoded_bytes().to_vec();
    request.refuse(Refusal::Outside { path }).map(|()| Exit::Failure)
}

/// Whether the other machine wants a unit done.
#[cfg(not(feature = "unit"))]
fn is_unit(words: &[OsString]) -> bool {
    words
        .first()
        .is_some_and(|first| first.as_encoded_bytes().starts_with(words::DO_UNIT.as_bytes()))
}

/// Does the unit that the other machine wants.
///
/// # Errors
/// The connection ended, or it was refused.
#[cfg(feature = "unit")]
fn do_unit(
    request: RunRequest,
    job: Result<UnitJob, String>,
    only: Option<&Path>,
) -> Result<Exit, RemoteError> {
    let job = match job {
        Ok(job) => job,
        Err(message) => {
            request.refuse(Refusal::Arguments { message })?;
            return Ok(Exit::Usage);
        }
    };
    let Some(reach) = Reach::of_path(&job.destination, only) else {
        return refuse_outside(request, &job.destination);
    };
    let shown = PathBuf::from(request.sources().get(1).cloned().unwrap_or_default());
    let code = request.run(&reach.writable, |source, output| {
        outlet::redirect(Box::new(Away(output.clone())));
        let source: Arc<dyn Peer> = source;
        let exit = match stop_asked_by(output) {
            Ok(stop) => crate::unit::do_for_other_machine(&job, &source, &shown, &stop),
            Err(error) => stop::failed(&error),
        };
        exit.code()
    })?;
    Ok(Exit::of_code(code))
}

/// Returns what stops a job of the other machine.
fn stop_asked_by(output: &Output) -> io::Result<Stop> {
    let asking = output.clone();
    Ok(Stop::new()?.asked_by(move || asking.is_stopping()))
}

/// A copy that the other machine wants.
struct Job {
    wanted: Wanted,
    options: JobOptions,
    names: Names,
    /// Whether the other machine takes the names of new trees.
    reports_new_trees: bool,
}

impl Job {
    /// Reads it.
    ///
    /// # Errors
    /// Its words make no sense to this version.
    fn new(arguments: &[OsString], sources: &[OsString]) -> Result<Job, clap::Error> {
        let wanted = words::parse(arguments, sources)?;
        let flags = &wanted.configured.flags;
        let names = target::names(flags, Reading::Paths)
            .map_err(|misused| usage_error("cp", misused.kind(), &misused.to_string()))?;
        let mut options = cp::job_options(&wanted.configured)?;
        options.scan_ahead = wanted.watched == Watched::Yes;
        Ok(Job { wanted, options, names, reports_new_trees: false })
    }

    /// Makes the copy, and reports it to the other machine.
    fn run(self, source: Arc<RemoteSource>, output: &Output) -> Exit {
        outlet::redirect(Box::new(Away(output.clone())));
        let exit = self.copy(source, output);
        exit.unwrap_or_else(|error| {
            let text = error.render().to_string();
            let _ = outlet::write(Stream::Error, text.as_bytes());
            Exit::Usage
        })
    }

    fn copy(self, source: Arc<RemoteSource>, output: &Output) -> Result<Exit, clap::Error> {
        let Job { wanted, options, names, reports_new_trees } = self;
        let stop = match stop_asked_by(output) {
            Ok(stop) => stop,
            Err(error) => return Ok(stop::failed(&error)),
        };
        let crossed = || (output.traffic(), output.data());
        let (crossed, since) = (&crossed, Instant::now());
        let there = There { source, machine: None, crossed, since, reports_new_trees };
        let control = JobControl::new();
        let signals = Signals { stop: &stop, control: &control };
        let exit = there.copy(&wanted.configured, options, &names, Held::Destination, signals)?;
        // The other machine knows the other reasons itself.
        let why = output.data().why_none.filter(|why| *why == WhyNoData::Altered);
        if let Some(why) = why.filter(|_| !wanted.configured.flags.quiet) {
            report::say(&format!("note: {}", relay::words(Note::NoData(why))));
        }
        Ok(exit)
    }
}

/// The machine of the command line, as the reader of all output.
struct Away(Output);

impl Outlet for Away {
    fn write(&self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let stream = match stream {
            Stream::Output => OutputStream::Standard,
            Stream::Error => OutputStream::Error,
        };
        self.0.write(stream, bytes)
    }

    fn record(&self, record: &FarRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.0.write(OutputStream::Records, &line)
    }

    fn manifest(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(OutputStream::File, bytes)
    }

    fn progress(&self, progress: JobProgress) {
        self.0.progress(&JobState {
            entries: progress.entries,
            bytes: progress.bytes,
            total_entries: progress.total_entries,
            total_bytes: progress.total_bytes,
            is_total_final: progress.scanned,
        });
    }
}
