//! Asks the person at the terminal whether an existing file may be replaced.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use uncopy::copy::Consent;

use crate::cp::Signals;
use crate::report::printable;

/// Interval at which signals are handled while the person thinks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether the input has ended. A terminal could be read again, but whoever ended it has no more answers.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Asks on standard error, and reads one line from standard input. The end of the input means no to this
/// question and to all that follow, as for `cp`.
pub(crate) fn may_replace(destination: &Path, signals: Signals<'_>) -> Consent {
    let Signals { stop, control } = signals;
    stop.listen();
    control.listen();
    let name = destination.to_string_lossy();
    // In one piece, so that what the person types meanwhile does not stand in its middle.
    let question = format!("uncopy: overwrite {}? ", printable(&name));
    if io::stderr().write_all(question.as_bytes()).is_err() {
        // Nobody saw the question.
        return Consent::Refused;
    }
    if HAS_ENDED.load(Ordering::Relaxed) {
        return Consent::Refused;
    }
    let (sender, receiver) = mpsc::channel();
    // A read cannot be given up when a signal asks to stop; the thread ends with the process then.
    let reads = move || {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        HAS_ENDED.store(!matches!(read, Ok(1..)), Ordering::Relaxed);
        let _ = sender.send(read.is_ok() && agrees(&line));
    };
    if thread::Builder::new().spawn(reads).is_err() {
        return Consent::Refused;
    }
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(true) => return Consent::Given,
            Ok(false) | Err(RecvTimeoutError::Disconnected) => return Consent::Refused,
            Err(RecvTimeoutError::Timeout) if stop.requested().is_some() => return Consent::Stop,
            Err(RecvTimeoutError::Timeout) => control.handle_signals(),
        }
    }
}

/// Whether an answer means yes, as for `cp` in the C locale: it begins with y or Y.
fn agrees(line: &str) -> bool {
    line.starts_with(['y', 'Y'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_begin_with_y_mean_yes() {
        for (line, expected) in [
            ("y\n", true),
            ("Y\n", true),
            ("yes\n", true),
            ("yx", true),
            ("n\n", false),
            ("j\n", false),
            (" y\n", false),
            ("\n", false),
            ("", false),
        ] {
            assert_eq!(agrees(line), expected, "{line:?}");
        }
    }
}
