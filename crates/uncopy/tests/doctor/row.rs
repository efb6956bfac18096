//! One network condition: how it is made and taken away, and what must be said of it.

use std::any::Any;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use testbed::network::{Network, isolated};
use testbed::{LONG, seeded};
use uncopy::doctor::{CopyVerdict, Options, Probe, Report, Severity, Target, examine};
use uncopy::send::{Fate, InetSocket, Mode, Sender, SenderOptions};

/// What keeps a condition up until it is dropped.
pub(crate) type Kept = Option<Box<dyn Any>>;

/// Keeps it.
pub(crate) fn keep<T: 'static>(what: T) -> Kept {
    Some(Box::new(what))
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    target: &'static str,
    options: fn(&mut Options),
    prepare: fn(&Network),
    create: fn(&Network) -> Kept,
    remove: fn(&Network),
    expected: (&'static str, Severity, &'static str),
    is_sent: bool,
}

impl Row {
    /// On the way to `target`, the condition `id` of this severity is to be found, with this text
    /// in its evidence.
    pub(crate) fn new(
        name: &'static str,
        target: &'static str,
        expected: (&'static str, Severity, &'static str),
    ) -> Row {
        Row {
            name,
            target,
            options: |_| (),
            prepare: |_| (),
            create: |_| None,
            remove: |_| (),
            expected,
            is_sent: true,
        }
    }

    pub(crate) fn options(mut self, options: fn(&mut Options)) -> Row {
        self.options = options;
        self
    }

    /// What is there before, during and after.
    pub(crate) fn prepare(mut self, prepare: fn(&Network)) -> Row {
        self.prepare = prepare;
        self
    }

    pub(crate) fn create(mut self, create: fn(&Network) -> Kept) -> Row {
        self.create = create;
        self
    }

    pub(crate) fn remove(mut self, remove: fn(&Network)) -> Row {
        self.remove = remove;
        self
    }

    /// Its line in the book.
    pub(crate) fn line(&self) -> String {
        let (id, severity, _) = self.expected;
        let shown = match self.is_sent {
            true if self.is_probed(severity) => "completion reports, and a probe",
            true => "completion reports",
            false => "–",
        };
        format!("| {} | `{}` | `{id}` | `{severity}` | {shown} |\n", self.name, self.target)
    }

    /// The probe's receiver need not be there, and no limit is met.
    fn is_probed(&self, severity: Severity) -> bool {
        let is_udp = self.target.starts_with("udp://10.") || self.target.starts_with("udp://[");
        is_udp && matches!(severity, Severity::Copies | Severity::Note)
    }

    /// Nothing can be sent to show that the prediction holds.
    pub(crate) fn unsent(mut self) -> Row {
        self.is_sent = false;
        self
    }

    /// Makes the condition in a network of its own, looks, takes it away, and looks again.
    pub(crate) fn run(&self) {
        isolated(|network| {
            network.sink();
            (self.prepare)(network);
            let (id, severity, evidence) = self.expected;
            let kept = (self.create)(network);
            let report = self.examine();
            let finding = report.finding(id);
            let finding = finding.unwrap_or_else(|| panic!("{id} is not found: {report:#?}"));
            assert_eq!(finding.severity, severity, "{finding:#?}");
            let found = finding.evidence.iter().any(|one| one.found.contains(evidence));
            assert!(found, "{evidence:?} is not in the evidence: {finding:#?}");
            if severity != Severity::Note {
                let verdict = CopyVerdict::of(std::slice::from_ref(finding));
                assert_eq!(report.verdict, verdict, "{report:#?}");
                let summary = finding.summary.to_string();
                assert!(report.headline.ends_with(&summary), "{}", report.headline);
            }
            if self.is_sent {
                self.send(network, &report);
            }
            drop(kept);
            (self.remove)(network);
            // A program that another test is just starting may hold a copy of the tap until it runs.
            let begin = Instant::now();
            while let Some(finding) = self.examine().finding(id) {
                assert!(begin.elapsed() < LONG, "{id} is gone, and found: {finding:#?}");
            }
        });
    }

    fn wanted(&self) -> Options {
        let mut options = Options::default();
        (self.options)(&mut options);
        options
    }

    fn target(&self) -> Target {
        match self.target.split_once("://") {
            Some(("tcp", to)) => Target::Tcp(to.parse().unwrap()),
            Some((_, to)) => Target::Udp(to.parse().unwrap()),
            None => Target::Device(self.target.to_owned()),
        }
    }

    pub(crate) fn examine(&self) -> Report {
        examine(&self.target(), &self.wanted()).unwrap()
    }

    /// The live probe says the same, where its receiver need not be there.
    fn probe(&self, report: &Report) {
        let expected = match report.verdict {
            CopyVerdict::Copied => "probe-copied",
            CopyVerdict::ZeroCopy => "probe-not-copied",
            // Where a limit is met it depends on when reports are read.
            _ => return,
        };
        if !self.is_probed(self.expected.1) {
            return;
        }
        let mut options = self.wanted();
        options.probe = Probe::Anyway;
        let probed = examine(&self.target(), &options).unwrap();
        assert!(probed.finding(expected).is_some(), "{probed:#?}");
        assert_eq!(probed.verdict, report.verdict, "{probed:#?}");
    }

    /// Sends as was asked about; the releases must say what was predicted.
    fn send(&self, network: &Network, report: &Report) {
        let options = self.wanted();
        let (socket, length) = match self.target() {
            Target::Tcp(to) => (silent(network, to), options.message_bytes.unwrap_or(60_000)),
            Target::Udp(to) => {
                let socket = InetSocket::connect_udp(to).unwrap();
                socket.set_segment_bytes(options.segment_bytes).unwrap();
                let largest = if options.segment_bytes.is_some() { 60_000 } else { 30_000 };
                (socket, options.message_bytes.unwrap_or(largest))
            }
            _ => panic!("nothing can be sent to {}", self.target),
        };
        self.probe(report);
        let receiver = self.target.contains("127.0.0.1").then(|| {
            let Target::Udp(to) = self.target() else { panic!("{}", self.target) };
            UdpSocket::bind(to).unwrap()
        });
        let fates = fates(socket, length);
        drop(receiver);
        let all = |fate| !fates.is_empty() && fates.iter().all(|found| *found == fate);
        match report.verdict {
            CopyVerdict::Copied => assert!(all(Fate::Copied), "{fates:?} {report:#?}"),
            CopyVerdict::ZeroCopy => assert!(all(Fate::NotCopied), "{fates:?} {report:#?}"),
            // Nothing is claimed; what goes in segments that need no cutting is told of as a copy.
            CopyVerdict::Unknown => {
                let unclaimed = |fate: &Fate| matches!(fate, Fate::Unknown | Fate::Copied);
                assert!(!fates.is_empty() && fates.iter().all(unclaimed), "{fates:?} {report:#?}");
            }
            // Where the limit is met sends are copied by choice.
            _ => assert!(fates.contains(&Fate::NotCopied), "{fates:?} {report:#?}"),
        }
    }
}

/// A connection to a peer that never answers.
fn silent(network: &Network, to: SocketAddr) -> InetSocket {
    let socket = network.silent_connection(to.is_ipv6(), to.port());
    socket.set_send_buffer_bytes(1 << 20).unwrap();
    socket
}

/// What becomes of a few sends.
pub(crate) fn fates(socket: InetSocket, length: usize) -> Vec<Fate> {
    let is_tcp = socket.transport() == uncopy::send::Transport::Tcp;
    let options = SenderOptions::new().mode(Mode::Zerocopy);
    let mut sender = Sender::new(socket, &options);
    for seed in 0..4 {
        assert_eq!(sender.send(seeded(seed, 0, length as u64)).result.unwrap(), length);
    }
    if is_tcp {
        sender.abort();
    }
    let mut fates = Vec::new();
    while sender.outstanding().sends > 0 {
        let release = sender.wait_release(Some(LONG)).unwrap();
        fates.push(release.expect("it is released before long").fate);
    }
    fates
}
