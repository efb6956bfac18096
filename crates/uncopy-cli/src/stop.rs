//! Signals that request a copy to stop.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::signal::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use crate::exit::Exit;
use crate::report;

#[cfg(unix)]
const SIGNALS: [i32; 3] = [signal_hook::consts::signal::SIGHUP, SIGINT, SIGTERM];
#[cfg(not(unix))]
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// Time within which a signal reaches all processes that it is sent to, one after another. `timeout(1)` sends it to its
/// command, and once more to the group of that.
const DELIVERY: Duration = Duration::from_millis(300);

/// Time between two looks whether the first signal has come.
const LOOK: Duration = Duration::from_millis(50);

/// Reports that [`Stop::new`] failed.
pub(crate) fn failed(error: &io::Error) -> Exit {
    report::failed_to("listen to signals", error, "check which seccomp filter forbids sigaction(2)")
}

/// Lets every command survive a write beyond `ulimit -f`, which fails with EFBIG then (setrlimit(2)): what it has made is
/// cleaned up, and trials of the doctor are answers.
pub(crate) fn survive_full_files() -> io::Result<()> {
    #[cfg(unix)]
    survive(signal_hook::consts::signal::SIGXFSZ)?;
    Ok(())
}

/// Installs a handler: without one the signal kills.
#[cfg(unix)]
fn survive(signal: i32) -> io::Result<()> {
    flag::register(signal, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Request to stop, set by the first of `SIGHUP`, `SIGINT` and `SIGTERM`; one that comes when the first has long been
/// delivered kills at once.
#[derive(Default)]
pub(crate) struct Stop {
    signal: Arc<AtomicUsize>,
    listening: AtomicBool,
    /// Whether the other machine asks to stop, where it runs this copy.
    peer: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Stop {
    /// Does not install the handlers yet: until [`Stop::listen`] these signals kill the process.
    pub(crate) fn new() -> io::Result<Stop> {
        // A write to a pipe without a reader fails with EPIPE then, and the copy is cleaned up.
        #[cfg(unix)]
        survive(signal_hook::consts::signal::SIGPIPE)?;
        Ok(Stop::default())
    }

    /// Also stops where the other machine, which runs this copy, asks for it.
    #[cfg(all(feature = "remote", target_os = "linux"))]
    pub(crate) fn asked_by(self, peer: impl Fn() -> bool + Send + Sync + 'static) -> Stop {
        Stop { peer: Some(Box::new(peer)), ..self }
    }

    /// Installs the handlers. A signal that the parent ignores (`nohup`, a background job of a
    /// shell) stays ignored.
    ///
    /// Not done for small copies, which end soon or leave nothing when they are killed: it takes a
    /// twentieth of the time of a whole 4 KiB copy.
    pub(crate) fn listen(&self) {
        let listens = self.listening.load(Ordering::Relaxed);
        if !listens && !self.listening.swap(true, Ordering::Relaxed) {
            // Without a handler the signal kills the process, which also stops the copy.
            let _ = self.register();
        }
    }

    fn register(&self) -> io::Result<()> {
        let second_kills = Arc::new(AtomicBool::new(false));
        let is_watched = self.watch(&second_kills).is_ok();
        let ignored = ignored_signals();
        for number in SIGNALS.into_iter().filter(|number| ignored & mask(*number) == 0) {
            // In this order: a signal that arrives in between requests to stop, and the first one
            // finds `second_kills` false and sets it.
            flag::register_usize(number, Arc::clone(&self.signal), number as usize)?;
            flag::register_conditional_default(number, Arc::clone(&second_kills))?;
            if !is_watched {
                flag::register(number, Arc::clone(&second_kills))?;
            }
        }
        Ok(())
    }

    /// Begins to wait for the first signal, and sets the flag when it has been delivered. Copies may be held up in the
    /// kernel, so a thread waits.
    fn watch(&self, second_kills: &Arc<AtomicBool>) -> io::Result<()> {
        let (signal, second_kills) = (Arc::clone(&self.signal), Arc::clone(second_kills));
        let wait = move || {
            while signal.load(Ordering::Relaxed) == 0 {
                // Nobody wakes it: a signal handler may not.
                thread::park_timeout(LOOK);
            }
            thread::sleep(DELIVERY);
            second_kills.store(true, Ordering::Relaxed);
        };
        thread::Builder::new().spawn(wait).map(drop)
    }

    /// Returns what requested to stop, if something did.
    pub(crate) fn requested(&self) -> Option<StopRequest> {
        match self.signal.load(Ordering::Relaxed) {
            0 => self.peer.as_ref().is_some_and(|asks| asks()).then_some(StopRequest::Peer),
            number => i32::try_from(number).ok().map(StopRequest::Signal),
        }
    }

    /// As [`Stop::requested`], after another machine was lost: a signal to all processes ends the remote shell too, and
    /// may come here a moment later.
    pub(crate) fn requested_with_loss(&self) -> Option<StopRequest> {
        let lost = Instant::now();
        loop {
            let requested = self.requested();
            if requested.is_some() || lost.elapsed() >= DELIVERY {
                return requested;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Origin of a request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopRequest {
    /// A signal to this process.
    Signal(i32),
    /// The other machine, which got a signal.
    Peer,
}

impl StopRequest {
    /// Returns a name: `SIGINT`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StopRequest::Signal(number) => signal_name(number).unwrap_or("a signal"),
            StopRequest::Peer => "a signal on the other machine",
        }
    }

    /// Ends the process by the signal, so that its parent sees it: a loop in a shell stops at
    /// Ctrl-C only if its commands die of `SIGINT`. Returns where the process goes on, to say so to the other machine.
    pub(crate) fn end(self) -> Exit {
        match self {
            StopRequest::Signal(number) => {
                let _ = emulate_default_handler(number);
                std::process::exit(128 + number)
            }
            StopRequest::Peer => Exit::Failure,
        }
    }
}

/// Returns the bit of a signal in [`ignored_signals`].
pub(crate) fn mask(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Returns the signals that the parent ignores, read once. Bit n-1 stands for signal n, as in
/// `SigIgn` of `proc_pid_status(5)`. Without `/proc` no signal counts as ignored.
pub(crate) fn ignored_signals() -> u64 {
    static IGNORED: OnceLock<u64> = OnceLock::new();
    *IGNORED.get_or_init(|| {
        let status = File::open("/proc/self/status").map(BufReader::new);
        status.ok().and_then(parse_ignored).unwrap_or(0)
    })
}

fn parse_ignored(status: impl BufRead) -> Option<u64> {
    // As bytes: the name of the process in the first line may not be UTF-8.
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
