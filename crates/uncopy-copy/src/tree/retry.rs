//! Retries files after transient errors, later each time.

use std::cell::Cell;
use std::time::Duration;

use super::job_control::JobControl;
use crate::Outcome;
use crate::jobs::{GLANCE, JobOptions, delay};
use crate::retries::{Flushes, retry_while_source_changes};
use uncopy_core::{Errno, Result};
use uncopy_os::capabilities::Filesystem;

/// Copies a file, and retries as often as the options allow if it changes or an error may be
/// transient.
pub(super) fn repeated(
    options: &JobOptions,
    control: &JobControl<'_>,
    filesystems: (Filesystem, Filesystem),
    mut copy_once: impl FnMut(&Cell<Flushes>) -> Result<Outcome>,
) -> Result<Outcome> {
    let mut tries = 0;
    let mut copied = persist(options, control, filesystems, || {
        tries += 1;
        retry_while_source_changes(&options.copy, options.gate.as_ref(), &mut copy_once)
    });
    // Changed where it is: a receipt is large.
    if let Ok(Outcome::Copied(receipt)) = &mut copied {
        receipt.retries += tries - 1;
    }
    copied
}

/// Runs an operation, and retries as often as the options allow if an error may be transient.
pub(super) fn persist<T>(
    options: &JobOptions,
    control: &JobControl<'_>,
    filesystems: (Filesystem, Filesystem),
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut tries = 0;
    loop {
        let attempted = attempt();
        let Err(error) = &attempted else { return attempted };
        let is_network = filesystems.0.is_network() || filesystems.1.is_network();
        let may_pass = error.errno().is_some_and(|errno| passes(errno, is_network));
        if tries == options.retries || !may_pass {
            return attempted;
        }
        tries += 1;
        wait(control, delay(tries));
        if control.is_over() {
            return attempted;
        }
    }
}

/// Whether the operation may succeed a little later.
fn passes(errno: Errno, is_network: bool) -> bool {
    match errno {
        // A signal, another process's lock or lease, or a restarted server.
        Errno::EINTR | Errno::EAGAIN | Errno::ESTALE => true,
        // A server that does not answer in time; on a local disk the error would return.
        Errno::EIO => is_network,
        _ => false,
    }
}

fn wait(control: &JobControl<'_>, delay: Duration) {
    for _ in 0..delay.as_millis() / GLANCE.as_millis() {
        if control.is_over() {
            return;
        }
        std::thread::sleep(GLANCE);
        control.rest_if_paused();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for (errno, is_network, expected) in [
            (Errno::EINTR, false, true),
            (Errno::EAGAIN, false, true),
            (Errno::ESTALE, true, true),
            (Errno::EIO, true, true),
            (Errno::EIO, false, false),
            (Errno::ENOSPC, true, false),
            (Errno::EACCES, true, false),
            (Errno::ENOENT, false, false),
        ] {
            assert_eq!(passes(errno, is_network), expected, "{errno} {is_network}");
        }
    }
}
