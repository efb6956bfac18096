//! Compares the doctor with the kernel's reports: each situation is created in a separate network, forty
//! `MSG_ZEROCOPY` sends are made there without the library, and the `COPIED` bits of their reports are counted.

use std::io::Result;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use testbed::network::{NEEDS, Network, isolated};
use testbed::{Case, Completions, LONG, Lender, LenderOptions, Need, zerocopy_sends};
use uncopy::doctor::{CopyVerdict, Options, Report, Target, examine};

use crate::doctor::{truth_rows, truth_sockets};

pub(crate) const SENDS: u32 = 40;
/// Size of sends that is large enough for lending and fits every device of these tests.
pub(crate) const BYTES: usize = 40_000;

/// Expected reports of the kernel, and the verdicts that are allowed for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    /// All sends are copied, and the doctor says so.
    Copied,
    /// No send is copied, and the doctor says so.
    Lent,
    /// All sends are copied by something that cannot be examined; the verdict is unknown.
    CopiedUnseen,
    /// No send is reported as copied; the verdict is unknown.
    LentUnseen,
}

/// Guard that keeps a situation until it is dropped.
pub(crate) type Kept = Vec<Box<dyn std::any::Any>>;

/// Sender of a situation.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// This socket.
    Socket(fn(SocketAddr) -> Result<UdpSocket>),
    /// A socket with these options.
    Lender(fn() -> LenderOptions),
}

pub(crate) struct Situation {
    pub(crate) name: &'static str,
    pub(crate) to: &'static str,
    pub(crate) truth: Truth,
    pub(crate) create: fn(&Network) -> Kept,
    /// The socket that sends.
    pub(crate) by: By,
    /// Whether the doctor examines a process that holds the socket.
    pub(crate) is_held: bool,
    /// Id of an expected finding.
    pub(crate) finding: &'static str,
}

pub(crate) fn cases() -> Vec<Case> {
    let needs = [NEEDS, &[Need::Tool("ethtool"), Need::Tool("nft"), Need::Tool("sleep")]].concat();
    [truth_rows::rows(), truth_sockets::rows()]
        .into_iter()
        .flatten()
        .map(|row| {
            let name = format!("truth::{}", row.name.replace(' ', "_"));
            Case::new(name, &needs, move || row.run())
        })
        .collect()
}

impl Situation {
    /// Makes the situation, and judges the report. A late change of a link's state makes the kernel look
    /// a route up again that it keeps for a socket (`linkwatch_do_dev` in `net/core/link_watch.c`), and
    /// the situation is another one: then it is made again.
    fn run(&self) {
        const ATTEMPTS: usize = 3;
        let others: Vec<_> = (0..ATTEMPTS).map_while(|_| self.attempt().err()).collect();
        assert!(others.len() < ATTEMPTS, "the situation is another one: {others:?}");
    }

    /// # Errors
    /// The situation is another one: what became of the sends.
    fn attempt(&self) -> std::result::Result<(), Completions> {
        isolated(|network| {
            network.sink();
            let kept = (self.create)(network);
            let to: SocketAddr = self.to.parse().unwrap();
            let judged = match self.by {
                By::Socket(open) => self.send(&open(to).unwrap(), to),
                By::Lender(options) => self.lend(options(), to),
            };
            drop(kept);
            judged
        })
    }

    fn send(&self, socket: &UdpSocket, to: SocketAddr) -> std::result::Result<(), Completions> {
        let report = self.report(socket, &Target::Udp(to));
        let is_connected = socket.peer_addr().is_ok();
        let to = (!is_connected).then_some(to);
        let seen = zerocopy_sends(socket, to, SENDS, BYTES).unwrap();
        self.judge(seen, &report)
    }

    fn lend(&self, options: LenderOptions, to: SocketAddr) -> std::result::Result<(), Completions> {
        let target = if options.is_stream { Target::Tcp(to) } else { Target::Udp(to) };
        let lender = Lender::connect(to, options).unwrap();
        let report = self.report(&lender, &target);
        let seen = lender.lend(&[b'z'; BYTES], SENDS, LONG).unwrap();
        assert_eq!(seen.sends, SENDS, "{seen:?}");
        self.judge(Completions { lent: seen.not_copied, copied: seen.copied }, &report)
    }

    fn report(&self, socket: impl AsFd, target: &Target) -> Report {
        match self.is_held {
            false => examine(target, &options()).unwrap(),
            true => Holder::of(socket.as_fd().try_clone_to_owned().unwrap()).examine(),
        }
    }

    fn judge(&self, seen: Completions, report: &Report) -> std::result::Result<(), Completions> {
        let (all, none) = match self.truth {
            Truth::Copied | Truth::CopiedUnseen => (seen.copied, seen.lent),
            Truth::Lent | Truth::LentUnseen => (seen.lent, seen.copied),
        };
        if (all, none) != (SENDS, 0) {
            return Err(seen);
        }
        let expected = match self.truth {
            Truth::Copied => CopyVerdict::Copied,
            Truth::Lent => CopyVerdict::ZeroCopy,
            Truth::CopiedUnseen | Truth::LentUnseen => CopyVerdict::Unknown,
        };
        assert_eq!(report.verdict, expected, "{report:#?}");
        if !self.finding.is_empty() {
            assert!(report.finding(self.finding).is_some(), "no {}: {report:#?}", self.finding);
        }
        Ok(())
    }
}

pub(crate) fn options() -> Options {
    Options::new().message_bytes(Some(BYTES))
}

/// An idle process that holds a socket.
pub(crate) struct Holder(Child);

impl Holder {
    pub(crate) fn of(held: OwnedFd) -> Holder {
        let mut child = Command::new("sleep");
        child.arg("600").stdin(Stdio::from(held)).stdout(Stdio::null());
        let holder = Holder(child.spawn().unwrap());
        // Until execve(2) it may have descriptors of this process.
        let begin = Instant::now();
        let name = format!("/proc/{}/comm", holder.0.id());
        while std::fs::read_to_string(&name).unwrap().trim() != "sleep" {
            assert!(begin.elapsed() < LONG);
            std::thread::yield_now();
        }
        holder
    }

    pub(crate) fn examine(&self) -> Report {
        examine(&Target::Process(self.0.id()), &options()).unwrap()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
