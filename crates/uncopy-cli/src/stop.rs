//! Signals that ask a copy to stop.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::signal::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use crate::exit::Exit;
use crate::report;

#[cfg(unix)]
const SIGNALS: [i32; 3] = [signal_hook::consts::signal::SIGHUP, SIGINT, SIGTERM];
#[cfg(not(unix))]
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// Says that [`Stop::new`] failed.
pub(crate) fn failed(error: &io::Error) -> Exit {
    report::failed_to("listen to signals", error, "see what filter forbids sigaction(2)")
}

/// The wish to stop, set by the first of `SIGHUP`, `SIGINT` and `SIGTERM`; the second one of them
/// kills at once.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    signal: Arc<AtomicUsize>,
    listening: AtomicBool,
}

impl Stop {
    /// Does not listen yet: until [`Stop::listen`] a signal kills, as it does any program.
    pub(crate) fn new() -> io::Result<Stop> {
        // With a handler, of whatever kind, a write beyond `ulimit -f` is the error EFBIG
        // (setrlimit(2)) and one to a pipe that nobody reads is EPIPE, after which a copy is
        // cleaned up; without one they kill.
        #[cfg(unix)]
        for number in [signal_hook::consts::signal::SIGXFSZ, signal_hook::consts::signal::SIGPIPE] {
            flag::register(number, Arc::new(AtomicBool::new(false)))?;
        }
        Ok(Stop::default())
    }

    /// Listens from now on. A signal that the parent chose to ignore (`nohup`, a shell's background
    /// job) stays ignored.
    ///
    /// A small copy is over, or vanishes with its process, before this would be worth its time: a
    /// twentieth of that of a whole 4 KiB copy.
    pub(crate) fn listen(&self) {
        let listens = self.listening.load(Ordering::Relaxed);
        if !listens && !self.listening.swap(true, Ordering::Relaxed) {
            // Without a handler the signal kills, which also stops the copy.
            let _ = self.register();
        }
    }

    fn register(&self) -> io::Result<()> {
        let asked = Arc::new(AtomicBool::new(false));
        let ignored = ignored_signals();
        for number in SIGNALS.into_iter().filter(|number| ignored & mask(*number) == 0) {
            // In this order: the first signal finds `asked` false and sets it.
            flag::register_conditional_default(number, Arc::clone(&asked))?;
            flag::register(number, Arc::clone(&asked))?;
            flag::register_usize(number, Arc::clone(&self.signal), number as usize)?;
        }
        Ok(())
    }

    /// The signal that asked to stop, if one did.
    pub(crate) fn requested(&self) -> Option<Signal> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            number => i32::try_from(number).ok().map(Signal),
        }
    }
}

/// A signal that asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal(i32);

impl Signal {
    /// `SIGINT`.
    pub(crate) fn name(self) -> &'static str {
        signal_name(self.0).unwrap_or("a signal")
    }

    /// Ends the process by this signal, so that its parent sees what ended it. A shell's loop
    /// only stops at Ctrl-C if its commands die of it.
    pub(crate) fn die(self) -> ! {
        let _ = emulate_default_handler(self.0);
        std::process::exit(128 + self.0)
    }
}

/// The bit of a signal in [`ignored_signals`].
pub(crate) fn mask(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Those that the parent chose to ignore, looked up once. Bit n-1 stands for signal n, as in `SigIgn`
/// of `proc_pid_status(5)`. Without `/proc` none is taken to be ignored.
pub(crate) fn ignored_signals() -> u64 {
    static IGNORED: OnceLock<u64> = OnceLock::new();
    *IGNORED.get_or_init(|| {
        let status = File::open("/proc/self/status").map(BufReader::new);
        status.ok().and_then(parse_ignored).unwrap_or(0)
    })
}

fn parse_ignored(status: impl BufRead) -> Option<u64> {
    // By bytes: the name of the process in the first line need not be UTF-8.
    let line =
        status.split(b'\n').map_while(Result::ok).find(|line| line.starts_with(b"SigIgn:"))?;
    let mask = std::str::from_utf8(line.strip_prefix(b"SigIgn:")?).ok()?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_mask_of_ignored_signals() {
        let status = b"Name:\t\xff\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\n";
        let ignored = parse_ignored(&status[..]).unwrap();
        assert_ne!(ignored & mask(1), 0, "SIGHUP");
        assert_ne!(ignored & mask(SIGINT), 0);
        assert_eq!(ignored & mask(SIGTERM), 0);
        assert_eq!(parse_ignored(&b"Name:\tx\n"[..]), None);
    }
}
