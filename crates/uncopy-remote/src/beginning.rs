//! The beginning of a session, in which nobody watches the connection yet: it is waited for within a limit.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use uncopy_core::Errno;

use crate::RemoteError;

/// Interval at which a request to stop is looked for.
pub(crate) const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Patience with the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Time after which an end from which nothing came is taken for dead.
    pub(crate) silence: Duration,
    /// Whether its first byte is waited for without a limit: the remote shell may ask the user for a password before.
    pub(crate) waits_for_login: bool,
}

/// Report of the thread of the beginning.
enum Report<T> {
    Heard,
    Done(Result<T, RemoteError>),
}

/// Reporter of every byte that came.
pub(crate) struct Heard<'a>(&'a dyn Fn());

impl Heard<'_> {
    pub(crate) fn something(&self) {
        (self.0)();
    }
}

/// Runs the beginning of a session on a thread, since a read has no limit in time. When this returns with a result, the
/// thread has ended; otherwise it ends with the stream. `stop` is called now and then. `awaited`: what the other end
/// is to send.
///
/// # Errors
/// As `work`; [`RemoteError::Silent`], [`RemoteError::Stopped`].
pub(crate) fn begin<T: Send + 'static>(
    patience: Patience,
    awaited: &'static str,
    stop: &dyn Fn() -> bool,
    work: impl FnOnce(&Heard<'_>) -> Result<T, RemoteError> + Send + 'static,
) -> Result<T, RemoteError> {
    let (reports, received) = mpsc::channel();
    let run = move |reports: Sender<Report<T>>| {
        // Nobody listens any more after a stop.
        let heard = || drop(reports.send(Report::Heard));
        let result = work(&Heard(&heard));
        let _ = reports.send(Report::Done(result));
    };
    let thread = thread::Builder::new().name("uncopy-greeting".into()).spawn(|| run(reports));
    let thread = thread.map_err(|error| {
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
        RemoteError::System { what: "start a thread", errno }
    })?;
    let mut heard = (!patience.waits_for_login).then(Instant::now);
    loop {
        let silent = heard.map_or(Duration::ZERO, |since| since.elapsed());
        let left = patience.silence.saturating_sub(silent);
        match received.recv_timeout(left.min(STOP_INTERVAL)) {
            Ok(Report::Heard) => heard = Some(Instant::now()),
            Ok(Report::Done(result)) => {
                // Without a result of its own: it has just sent that.
                let _ = thread.join();
                return result;
            }
            Err(RecvTimeoutError::Timeout) if stop() => return Err(RemoteError::Stopped),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                return Err(RemoteError::Silent { awaited, silence: patience.silence });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(RemoteError::Lost { what: "its thread has ended".to_owned() });
            }
        }
    }
}
