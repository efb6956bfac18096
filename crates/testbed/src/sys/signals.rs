//! Signal dispositions of started programs.

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

/// Makes programs that this process starts begin with the defaults of all these signals, which a shell
/// has background jobs ignore. `execve(2)` keeps what is ignored and resets what has a handler, so a
/// handler that does nothing replaces it. A reset by `pre_exec` would cost a fork of this process for
/// each program.
pub(crate) fn start_programs_with_defaults() {
    for signal in SIGNALS {
        // SAFETY: all fields of a `sigaction` may be zero.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes the struct, which lives through the call.
        let asked = unsafe { libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut action) };
        assert_eq!(asked, 0, "{signal:?}: {}", std::io::Error::last_os_error());
        if action.sa_sigaction == libc::SIG_IGN {
            action.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: the handler does nothing, at any time.
            let set = unsafe {
                libc::sigaction(signal.as_raw(), &raw const action, std::ptr::null_mut())
            };
            assert_eq!(set, 0, "{signal:?}: {}", std::io::Error::last_os_error());
        }
    }
}

extern "C" fn do_nothing(_signal: libc::c_int) {}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn what_this_process_ignores_ends_its_programs() {
        let signal = Signal::USR2;
        // SAFETY: no handler is set.
        unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
        let kill = || Command::new("sh").args(["-c", "kill -USR2 $$"]).status().unwrap();
        assert_eq!(kill().signal(), None);
        start_programs_with_defaults();
        assert_eq!(kill().signal(), Some(signal.as_raw()));
        rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    }
}
