//! Sessions with a machine that shows its files, which this one reads.

use std::ffi::OsString;
use std::sync::Arc;

use uncopy::remote::{self, DataReport, FarEnd, Limits, Note, Pull, RemoteSource, Traffic};

use super::{relay, session};
use crate::exit::Exit;
use crate::flags::copy::CopyArgs;
use crate::flags::operand::Machine;
use crate::report::{self, Failure};
use crate::stop::{Stop, StopRequest};

/// A session with a machine that shows its files.
pub(crate) struct Served {
    far: FarEnd,
    pull: Pull,
    is_quiet: bool,
}

/// Reason why a session did not begin.
pub(crate) enum NotServed {
    Stopped(StopRequest),
    Failed(Failure),
}

impl Served {
    /// Has a machine show these roots. `flags` name the remote shell and the way of the bytes.
    ///
    /// # Errors
    /// The machine cannot be reached, or a signal came meanwhile. Nobody was told.
    pub(crate) fn begin(
        flags: &CopyArgs,
        machine: &Machine,
        roots: &[OsString],
        stop: &Stop,
    ) -> Result<Served, NotServed> {
        // A signal must not leave the remote shell behind.
        stop.listen();
        let failed = |error| NotServed::Failed(session::failure(&error, machine));
        let (far, streams) = session::start(flags, machine).map_err(failed)?;
        let stops = || stop.requested().is_some();
        let data = session::data(flags, &far);
        let pull = match remote::pull(streams, &Limits::default(), data, roots, &stops) {
            Ok(pull) => pull,
            Err(error) => {
                if let Some(by) = stop.requested_with_loss() {
                    // It may wait for a password.
                    drop(far);
                    return Err(NotServed::Stopped(by));
                }
                let error = far.finish::<()>(Err(error.clone())).err().unwrap_or(error);
                return Err(failed(error));
            }
        };
        let is_quiet = flags.quiet;
        if !is_quiet {
            for note in pull.notes() {
                report::say(&format!("note: {}", relay::words(*note)));
            }
        }
        Ok(Served { far, pull, is_quiet })
    }

    /// Returns what the machine shows, whose roots have the numbers of the paths.
    pub(crate) fn source(&self) -> Arc<RemoteSource> {
        self.pull.source()
    }

    /// Returns what says how much has crossed so far.
    pub(super) fn crossed(&self) -> impl Fn() -> (Traffic, DataReport) + Sync + '_ {
        let pull = &self.pull;
        move || (pull.traffic(), pull.data())
    }

    /// Ends the session after what ended with this code.
    pub(crate) fn end(self, exit: Exit) -> Exit {
        let Served { far, pull, is_quiet } = self;
        if let Some(why) = pull.data().why_none.filter(|why| session::is_notable(*why))
            && !is_quiet
        {
            report::say(&format!("note: {}", relay::words(Note::NoData(why))));
        }
        // The end of the connection ended the work too, which said so.
        match far.finish(pull.end()) {
            Err(error) if exit != Exit::Success => session::exit_of(&error),
            _ => exit,
        }
    }
}
