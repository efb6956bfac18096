//! Runs a job on another machine, which asks this one for the sources.

use std::cell::RefCell;
use std::path::PathBuf;

use uncopy::remote::{self, Limits, RemoteError, RunJob};

use super::relay::Relay;
use super::session;
use crate::flags::copy::CopyArgs;
use crate::flags::operand::Machine;
use crate::stop::{Stop, StopRequest};

/// End of a job on another machine.
pub(super) enum RanThere {
    /// Its exit code.
    Ended(u8),
    Failed(RemoteError),
    /// A signal came; a sentence for people, unless the other machine has said all.
    Stopped {
        by: StopRequest,
        sentence: Option<String>,
    },
}

/// Runs a job on a machine, which asks this one for the sources. Its output goes to `relay`.
pub(super) fn run_there(
    flags: &CopyArgs,
    machine: &Machine,
    job: &RunJob,
    sources: &[PathBuf],
    stop: &Stop,
    relay: &mut Relay<'_>,
) -> RanThere {
    // A signal must not leave the remote shell behind.
    stop.listen();
    relay.listen();
    // Each call ends before the next one begins.
    let relay = RefCell::new(relay);
    let (far, streams) = match session::start(flags, machine) {
        Ok(started) => started,
        Err(error) => return RanThere::Failed(error),
    };
    let ended = remote::push(
        streams,
        &Limits::default(),
        session::data(flags, &far),
        job,
        sources,
        &|| {
            relay.borrow().handle_signals();
            stop.requested().is_some()
        },
        &mut |event| relay.borrow_mut().take(&event),
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
    let stopped = match &ended {
        Ok(_) => stop.requested(),
        Err(_) => stop.requested_with_loss(),
    };
    if let Some(by) = stopped {
        let sentence = match &ended {
            _ if is_unbegun => Some(format!("stopped by {}; nothing was copied", by.name())),
            Err(_) => Some(format!(
                "stopped by {}; the copy on {machine} stops when it sees that the connection is gone",
                by.name()
            )),
            Ok(_) => None,
        };
        return RanThere::Stopped { by, sentence };
    }
    match ended {
        Ok(code) => RanThere::Ended(code),
        Err(error) => RanThere::Failed(error),
    }
}
