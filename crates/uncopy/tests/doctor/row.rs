//! One network condition: how it is created and removed, and its expected finding.

use std::any::Any;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use testbed::network::{Network, isolated};
use testbed::{LONG, seeded};
use uncopy::doctor::{CopyVerdict, Options, Probe, Report, Severity, Target, examine};
use uncopy::send::{Fate, InetSocket, Mode, Sender, SenderOptions};

/// Guard that keeps a condition until it is dropped.
pub(crate) type Kept = Option<Box<dyn Any>>;

/// Boxes a guard.
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
    /// Expects the condition `id` with this severity on the path to `target`, with this text in its evidence.
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

    /// Sets up the network before, during and after the condition.
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

    /// Returns its line in the book.
    pub(crate) fn line(&self) -> String {
        let (id, severity, _) = self.expected;
        let shown = match self.is_sent {
            true if self.is_probed(severity) => "completion reports, and a probe",
            true => "completion reports",
            false => "–",
        };
        format!("| {} | `{}` | `{id}` | `{severity}` | {shown} |\n", self.name, self.target)
    }

    /// Whether a probe works without a receiver and meets no limit.
    fn is_probed(&self, severity: Severity) -> bool {
        let is_udp = self.target.starts_with("udp://10.") || self.target.starts_with("udp://[");
        is_udp && matches!(severity, Severity::Copies | Severity::Note)
    }

    /// Excludes the row from sending.
    pub(crate) fn unsent(mut self) -> Row {
        self.is_sent = false;
        self
    }

    /// Creates the condition in a separate network, examines it, removes it, and examines it again.
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
            // A process that another test is starting may hold a copy of the tap until execve(2).
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

    /// Checks that the live probe agrees, where it needs no receiver.
    fn probe(&self, report: &Report) {
        let expected = match report.verdict {
            CopyVerdict::Copied => "probe-copied",
            CopyVerdict::ZeroCopy => "probe-not-copied",
            // At a limit the result depends on when reports are read.
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

    /// Sends messages of the examined size. Their releases must agree with the prediction.
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
            // Nothing is predicted; packets that need no segmentation are reported as copied.
            CopyVerdict::Unknown => {
                let unclaimed = |fate: &Fate| matches!(fate, Fate::Unknown | Fate::Copied);
                assert!(!fates.is_empty() && fates.iter().all(unclaimed), "{fates:?} {report:#?}");
            }
            // At the limit uncopy copies sends itself.
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

/// Sends a few messages and returns their fates.
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
