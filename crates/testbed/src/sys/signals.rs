//! Signal dispositions of started programs.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;

/// Signals that a shell, `nohup` or a test harness may ignore (`signal(7)`).
const SIGNALS: [Signal; 7] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::TSTP,
    Signal::USR1,
    Signal::USR2,
];

/// Resets all these signals to their defaults in the program. Shells ignore SIGINT in background
/// jobs, and `execve(2)` keeps that. `std` resets the signal mask.
pub(crate) fn reset(command: &mut Command) {
    let reset = || {
        for signal in SIGNALS {
            // SAFETY: `signal` is async-signal-safe (`signal-safety(7)`); no handler is set, and the
            // process is about to become another program.
            if unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) } == libc::SIG_ERR {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls and nothing else.
    unsafe { command.pre_exec(reset) };
}
