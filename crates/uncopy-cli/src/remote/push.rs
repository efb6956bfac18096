//! Copies to another machine: the copy is made there, and asks this machine for the sources.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::error::ErrorKind;
use uncopy::remote::RunJob;

use super::recorder::Recorder;
use super::relay::Relay;
use super::run_there::{RanThere, run_there};
use super::session;
use super::words::{self, Watched};
use crate::config::Configured;
use crate::cp::target::Names;
use crate::cp::{self, Held, list};
use crate::exit::Exit;
use crate::flags::operand::Machine;
use crate::flags::usage_error;
use crate::job_control::JobControl;
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
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    let mut recorder = match Recorder::begin(flags, &options, names, Held::SourcesAndOwnFiles)? {
        Ok(recorder) => recorder,
        Err(exit) => return Ok(exit),
    };
    let control = JobControl::new();
    let mut relay = Relay::new(flags, !flags.quiet, &control, Some(&mut recorder));
    let watched = if relay.wants_progress() { Watched::Yes } else { Watched::No };
    let job = RunJob {
        arguments: words::of(&configured, given, names, machine, watched).map_err(misuse)?,
        sources: names.sources.iter().map(OsString::from).collect(),
    };
    let ran = run_there(flags, machine, &job, &names.sources, &stop, &mut relay);
    let unwritten = relay.finish();
    let exit = match ran {
        RanThere::Ended(code) => Exit::of_code(code).and(recorder.end()),
        RanThere::Failed(error) => recorder.fail(names, &session::failure(&error, machine)),
        RanThere::Stopped { by, sentence } => {
            recorder.stop(sentence.is_none());
            if let Some(sentence) = sentence {
                report::say(&sentence);
            }
            return Ok(by.end());
        }
    };
    Ok(match unwritten {
        Some(error) => exit.and(report::output_failed(&error)),
        None => exit,
    })
}
