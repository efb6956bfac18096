//! Copies from another machine: the copy is made here.

use std::ffi::OsString;
use std::time::Instant;

use uncopy::remote::{self, Limits, Note};

use super::there::There;
use super::{relay, session};
use crate::config::Configured;
use crate::cp::target::Names;
use crate::cp::{self, Held};
use crate::exit::Exit;
use crate::flags::operand::Machine;
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
    let crossed = || (pull.traffic(), pull.data());
    let there = There { source: pull.source(), machine: Some(machine), crossed: &crossed, since };
    let exit = there.copy(configured, options, names, Held::DestinationAndOwnFiles, &stop)?;
    drop(there);
    if let Some(why) = pull.data().why_none.filter(|why| session::is_notable(*why))
        && !flags.quiet
    {
        report::say(&format!("note: {}", relay::words(Note::NoData(why))));
    }
    // The end of the connection ended the copy too, which said so.
    match far.finish(pull.end()) {
        Err(error) if exit != Exit::Success => Ok(session::exit_of(&error)),
        _ => Ok(exit),
    }
}
