//! Copies from another machine: the copy is made here.

use std::ffi::OsString;
use std::time::Instant;

use super::recorder::Recorder;
use super::served::{NotServed, Served};
use super::there::There;
use crate::config::Configured;
use crate::cp::target::Names;
use crate::cp::{self, Held, Signals};
use crate::exit::Exit;
use crate::flags::operand::Machine;
use crate::job_control::JobControl;
use crate::report;
use crate::stop::{self, Stop};

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
    let options = cp::job_options(configured)?;
    cp::check_questions(flags)?;
    // Before the connection: a remote shell that ended must be an error of a write, and no signal.
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    let control = JobControl::new();
    let held = Held::DestinationAndOwnFiles;
    let since = Instant::now();
    let roots: Vec<OsString> = names.sources.iter().map(OsString::from).collect();
    let served = match Served::begin(flags, machine, &roots, &stop) {
        Ok(served) => served,
        Err(NotServed::Stopped(by)) => {
            if let Ok(Ok(recorder)) = Recorder::begin(flags, &options, names, held) {
                recorder.stop(true);
            }
            report::say(&format!("stopped by {}; nothing was copied", by.name()));
            return Ok(by.end());
        }
        Err(NotServed::Failed(failure)) => {
            let recorder = Recorder::begin(flags, &options, names, held)?;
            return Ok(recorder.map_or_else(|exit| exit, |it| it.fail(names, &failure)));
        }
    };
    let exit = {
        let (source, crossed) = (served.source(), served.crossed());
        let machine = Some(machine);
        let there = There { source, machine, crossed: &crossed, since, reports_new_trees: false };
        let signals = Signals { stop: &stop, control: &control };
        there.copy(configured, options, names, held, signals)?
    };
    Ok(served.end(exit))
}
