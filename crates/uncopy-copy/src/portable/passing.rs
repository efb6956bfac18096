//! Tries a copy again after an error that may pass, later each time.

use std::io;

use crate::jobs::{GLANCE, delay};
use crate::{Control, Outcome};
use uncopy_core::{Error, Reason, Result, System};

/// `ERROR_SHARING_VIOLATION` and `ERROR_LOCK_VIOLATION` (winerror.h): another program holds the file for now.
const HELD: [i32; 2] = [32, 33];

/// Makes a copy by `attempt`, and tries again as often as `retries` says while an error may pass. Asks meanwhile, by
/// `ask`, whether to go on; after a stop the last error stays.
pub(super) fn persist<Job>(
    job: &mut Job,
    system: System,
    retries: u32,
    mut attempt: impl FnMut(&mut Job) -> Result<Outcome>,
    mut ask: impl FnMut(&mut Job) -> Control,
) -> Result<Outcome> {
    let mut tries = 0;
    loop {
        let mut copied = attempt(job);
        match &mut copied {
            Ok(Outcome::Copied(receipt)) => receipt.retries += tries,
            Err(error) if tries < retries && passes(system, error) => {
                tries += 1;
                let glances = delay(tries).as_millis() / GLANCE.as_millis();
                let mut answers = (0..glances).map(|_| {
                    std::thread::sleep(GLANCE);
                    ask(job)
                });
                if answers.all(|answer| answer == Control::Continue) {
                    continue;
                }
            }
            _ => {}
        }
        return copied;
    }
}

/// Whether an operation may succeed a little later.
fn passes(system: System, error: &Error) -> bool {
    let Reason::OtherSystem { error } = error.reason() else { return false };
    let error = error.get();
    let is_held = error.raw_os_error().is_some_and(|code| HELD.contains(&code));
    let passes = matches!(
        error.kind(),
        io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::StaleNetworkFileHandle
    );
    passes || (is_held && system == System::Windows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uncopy_core::{Receipt, other_system};

    fn of(error: io::Error) -> Error {
        other_system::refused("open", "a", error)
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        use io::ErrorKind::{
            Interrupted, NotFound, PermissionDenied, StaleNetworkFileHandle, StorageFull,
            WouldBlock,
        };
        for system in [System::MacOs, System::Windows, System::Other] {
            for (kind, expected) in [
                (Interrupted, true),
                (WouldBlock, true),
                (StaleNetworkFileHandle, true),
                (StorageFull, false),
                (PermissionDenied, false),
                (NotFound, false),
            ] {
                assert_eq!(passes(system, &of(kind.into())), expected, "{system} {kind:?}");
            }
            // EPIPE and EDOM elsewhere.
            for code in HELD {
                let error = of(io::Error::from_raw_os_error(code));
                assert_eq!(passes(system, &error), system == System::Windows, "{system} {code}");
            }
            assert!(!passes(system, &Error::new("copy", "a", Reason::Cancelled)));
        }
    }

    #[test]
    fn tries_end_with_a_copy_at_their_number_or_by_a_stop() {
        // Errors before a copy, retries that are allowed, and the answer after which the wait stops; attempts, and
        // whether it is copied.
        for (errors, retries, stops_at, attempts, is_copied) in [
            (0, 0, usize::MAX, 1, true),
            (1, 0, usize::MAX, 1, false),
            (1, 1, usize::MAX, 2, true),
            (2, 1, usize::MAX, 2, false),
            (9, 9, 1, 1, false),
            (9, 9, 4, 2, false),
        ] {
            let mut made = (0, 0);
            let attempt = |made: &mut (u32, usize)| {
                made.0 += 1;
                match made.0 > errors {
                    true => Ok(Outcome::Copied(Receipt::default())),
                    false => Err(of(io::Error::from_raw_os_error(32))),
                }
            };
            let ask = |made: &mut (u32, usize)| {
                made.1 += 1;
                if made.1 >= stops_at { Control::Stop } else { Control::Continue }
            };
            let copied = persist(&mut made, System::Windows, retries, attempt, ask);
            assert_eq!(made.0, attempts, "{errors} {retries}");
            match copied {
                Ok(outcome) => {
                    assert_eq!(outcome.receipt().unwrap().retries, errors);
                    assert!(is_copied);
                }
                Err(error) => assert!(!is_copied && !error.is_cancelled(), "{error}"),
            }
        }
    }
}
