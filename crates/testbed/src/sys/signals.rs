//! What a program does on signals when it starts.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;

/// Those that a shell, `nohup` or a test harness may have had ignored (`signal(7)`).
const SIGNALS: [Signal; 7] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::TSTP,
    Signal::USR1,
    Signal::USR2,
];

/// The program will start with every such signal doing what it does by default, whoever started the
/// tests: shells have SIGINT ignored in what they run in the background, and `execve(2)` leaves it
/// so. What is blocked `std` unblocks.
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
