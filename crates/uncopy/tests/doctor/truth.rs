//! What the doctor says against the kernel's own word: each situation is made in a network of its
//! own, forty `MSG_ZEROCOPY` sends are made there without the library, and the `COPIED` bits of their
//! reports are counted.

use std::io::Result;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use testbed::network::{NEEDS, Network, isolated};
use testbed::{Case, Completions, LONG, Lender, LenderOptions, Need, zerocopy_sends};
use uncopy::doctor::{CopyVerdict, Options, Report, Target, examine};

use crate::{truth_rows, truth_sockets};

pub(crate) const SENDS: u32 = 40;
/// Sends that pay, and fit every device of these tests.
pub(crate) const BYTES: usize = 40_000;

/// What may be said where the kernel says so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    /// All were copied, and that is said.
    Copied,
    /// None was copied, and that is said.
    Lent,
    /// All were copied, which is beyond what can be seen: it is said that it cannot be told.
    CopiedUnseen,
    /// None was reported as copied, and it cannot be told.
    LentUnseen,
}

/// What a situation keeps up until it is dropped.
pub(crate) type Kept = Vec<Box<dyn std::any::Any>>;

/// Who sends.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// This socket.
    Socket(fn(SocketAddr) -> Result<UdpSocket>),
    /// A socket that is told this.
    Lender(fn() -> LenderOptions),
}

pub(crate) struct Situation {
    pub(crate) name: &'static str,
    pub(crate) to: &'static str,
    pub(crate) truth: Truth,
    pub(crate) create: fn(&Network) -> Kept,
    /// The socket that sends.
    pub(crate) by: By,
    /// The doctor is asked about a process that holds the socket.
    pub(crate) is_held: bool,
    /// An id that is among the findings.
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
    fn run(&self) {
        isolated(|network| {
            network.sink();
            let kept = (self.create)(network);
            let to: SocketAddr = self.to.parse().unwrap();
            match self.by {
                By::Socket(open) => self.send(&open(to).unwrap(), to),
                By::Lender(told) => self.lend(told(), to),
            }
            drop(kept);
        });
    }

    fn send(&self, socket: &UdpSocket, to: SocketAddr) {
        let report = self.report(socket, &Target::Udp(to));
        let is_connected = socket.peer_addr().is_ok();
        let to = (!is_connected).then_some(to);
        let seen = zerocopy_sends(socket, to, SENDS, BYTES).unwrap();
        self.judge(seen, &report);
    }

    fn lend(&self, told: LenderOptions, to: SocketAddr) {
        let target = if told.is_stream { Target::Tcp(to) } else { Target::Udp(to) };
        let lender = Lender::connect(to, told).unwrap();
        let report = self.report(&lender, &target);
        let seen = lender.lend(&[b'z'; BYTES], SENDS, LONG).unwrap();
        assert_eq!(seen.sends, SENDS, "{seen:?}");
        self.judge(Completions { lent: seen.not_copied, copied: seen.copied }, &report);
    }

    fn report(&self, socket: impl AsFd, target: &Target) -> Report {
        match self.is_held {
            false => examine(target, &options()).unwrap(),
            true => Holder::of(socket.as_fd().try_clone_to_owned().unwrap()).examine(),
        }
    }

    fn judge(&self, seen: Completions, report: &Report) {
        let (all, none) = match self.truth {
            Truth::Copied | Truth::CopiedUnseen => (seen.copied, seen.lent),
            Truth::Lent | Truth::LentUnseen => (seen.lent, seen.copied),
        };
        assert_eq!((all, none), (SENDS, 0), "the situation is another one: {seen:?}");
        let expected = match self.truth {
            Truth::Copied => CopyVerdict::Copied,
            Truth::Lent => CopyVerdict::ZeroCopy,
            Truth::CopiedUnseen | Truth::LentUnseen => CopyVerdict::Unknown,
        };
        assert_eq!(report.verdict, expected, "{report:#?}");
        if !self.finding.is_empty() {
            assert!(report.finding(self.finding).is_some(), "no {}: {report:#?}", self.finding);
        }
    }
}

pub(crate) fn options() -> Options {
    Options::new().message_bytes(Some(BYTES))
}

/// A process that holds a socket and does nothing.
pub(crate) struct Holder(Child);

impl Holder {
    pub(crate) fn of(held: OwnedFd) -> Holder {
        let mut child = Command::new("sleep");
        child.arg("600").stdin(Stdio::from(held)).stdout(Stdio::null());
        let holder = Holder(child.spawn().unwrap());
        // Until it runs its program, it may have descriptors of this one.
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
