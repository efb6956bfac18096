//! The cases of the suite `channel`, and what is to be reached in them.

use super::echo::EchoStyle;
use super::own::{Style, local_pair, socket_pair};
use super::payload;
use super::subjects::{self, MakePair, SentBy};
use crate::compare::brief::BriefRuns;
use crate::compare::case::{Case, Subject};
use crate::compare::message::Message;
use crate::compare::metric::{TIME_EACH, TIME_OF_REGION};
use crate::compare::verdict::{Against, Target, at_most};
use crate::peers::Peers;

const SIZES: [usize; 5] = [64, 256, 1024, 4096, 65_280];
const REGIONS: [usize; 6] = [1, 2, 16, 64, 1024, 8192];

/// Limit of gathering, relative to linearising.
const BAND: f64 = 0.03;
/// Messages of the calls that are compared with themselves, put together first.
const GATHERED_MESSAGES: [Message; 5] = [
    Message { bytes: 4096, regions: 1 },
    Message { bytes: 4096, regions: 16 },
    Message { bytes: 16_384, regions: 16 },
    AT_BEST,
    Message { bytes: 65_536, regions: 64 },
];
/// The message that gains most.
const AT_BEST: Message = Message { bytes: 65_536, regions: 16 };

/// Most regions of one system call (`IOV_MAX`, `include/uapi/linux/uio.h`).
const IOV_MAX: usize = 1024;

const COPIED: &str = "uncopy";
const LENT: &str = "uncopy, lent";
const LINEARISED: &str = "uncopy, linearised";
const MEMCPY: &str = "memcpy";
const MEMCPY_TWICE: &str = "memcpy twice";
const GETPID: &str = "getpid";
const BARE: &str = "bare sendmsg + poll + recvmsg";
const WAITED: &str = "uncopy, wait_one + read_into";
const SPINNING: &str = "uncopy, spinning";
/// Limit in nanoseconds where both sides look before they sleep.
const SPINNING_LIMIT: f64 = 2500.0;
const PIPES: &str = "pipes";
const PORT: &str = "uncopy, port";
const ONE_BY_ONE: &str = "uncopy, 16 writes";
const BATCH: &str = "uncopy, write_batch of 16";
const GATHERED: &str = "uncopy, gathered";
const JOINED: &str = "uncopy, put together first";
const BARE_GATHERED: &str = "bare, gathered";
const BARE_JOINED: &str = "bare, put together first";

/// Parts shared by all cases.
pub(super) struct Setting {
    pub(super) peers: Peers,
    pub(super) runs: BriefRuns,
}

/// How the two ends are connected, within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Local,
    Socket,
}

impl Transport {
    const BOTH: [Transport; 2] = [Transport::Local, Transport::Socket];

    fn name(self) -> &'static str {
        match self {
            Transport::Local => "local",
            Transport::Socket => "socket",
        }
    }

    fn pair(self) -> MakePair {
        match self {
            Transport::Local => local_pair,
            Transport::Socket => socket_pair,
        }
    }
}

/// Every size in every number of regions that it has bytes for.
fn messages() -> impl Iterator<Item = Message> {
    SIZES.into_iter().flat_map(|bytes| {
        let counts = REGIONS.into_iter().filter(move |regions| *regions <= bytes);
        counts.map(move |regions| Message { bytes, regions })
    })
}

fn message_name(message: Message) -> String {
    format!("{}B/{}", message.bytes, message.regions)
}

impl Setting {
    /// Every case.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for transport in Transport::BOTH {
            cases.extend(messages().map(|message| self.one_process(transport, message)));
        }
        cases.extend(messages().map(|message| self.two_processes(message)));
        cases.extend([256, 4096].map(|bytes| self.two_processors(bytes)));
        let of_64 = |bytes| Message { bytes, regions: 64 };
        cases.extend(SIZES.into_iter().map(|bytes| self.further_regions(of_64(bytes))));
        for transport in Transport::BOTH {
            cases.extend([256, 4096].map(|bytes| self.port(transport, bytes)));
            let message = Message { bytes: 256, regions: 2 };
            cases.push(self.batch(transport, message));
        }
        for call in SentBy::ALL {
            cases.extend(GATHERED_MESSAGES.map(|message| self.gathered(call, message)));
        }
        cases.extend(GATHERED_MESSAGES.map(|message| self.gathered_bare(message)));
        cases.extend(payload::cases(&self.peers, &self.runs));
        cases
    }

    fn one_process(&self, transport: Transport, message: Message) -> Case {
        let (pair, time) = (transport.pair(), self.runs.time);
        let own = |name, style| subjects::own(name, style, pair, message, time);
        let mut subjects = vec![
            own(COPIED, Style::COPIED),
            own(LENT, Style::LENT),
            own(LINEARISED, Style::LINEARISED),
            subjects::memcpy(MEMCPY, false, message.bytes, time),
            subjects::memcpy(MEMCPY_TWICE, true, message.bytes, time),
            subjects::getpid(GETPID, time),
        ];
        let mut baseline = MEMCPY_TWICE;
        if transport == Transport::Socket {
            subjects.push(subjects::seqpacket(BARE, message, time));
            subjects.push(subjects::pipes(PIPES, message, time));
            baseline = bare_if_it_can(message);
        }
        subjects.extend(self.peers(1, message));
        let targets = targets_of(transport, message);
        let name = format!("{}/1-process/{}", transport.name(), message_name(message));
        self.runs.case(name, baseline, subjects, targets)
    }

    fn two_processes(&self, message: Message) -> Case {
        let time = self.runs.time;
        let own = |name, way| subjects::own_echoed(name, way, message, time);
        let mut subjects = vec![
            own(COPIED, EchoStyle::Copied),
            own(LENT, EchoStyle::Lent),
            own(LINEARISED, EchoStyle::Linearised),
            own(WAITED, EchoStyle::Waiting),
            subjects::seqpacket_echoed(BARE, message, time),
            subjects::pipes_echoed(PIPES, message, time),
        ];
        subjects.extend(self.peers(2, message));
        let name = format!("socket/2-processes/{}", message_name(message));
        let targets = targets_of(Transport::Socket, message);
        self.runs.case(name, bare_if_it_can(message), subjects, targets)
    }

    /// Each of two processes has a processor for itself.
    fn two_processors(&self, bytes: usize) -> Case {
        let (message, time) = (Message { bytes, regions: 1 }, self.runs.time);
        let subjects = vec![
            subjects::own_across(COPIED, EchoStyle::Copied, message, time),
            subjects::own_across(SPINNING, EchoStyle::Spinning, message, time),
            subjects::seqpacket_across(BARE, message, time),
        ];
        let limit = Target {
            against: Against::Nothing,
            ..at_most(SPINNING_LIMIT, TIME_EACH, SPINNING, "")
        };
        let name = format!("socket/2-processors/{}", message_name(message));
        self.runs.case(name, BARE, subjects, vec![limit])
    }

    /// Those that are there, and can do it.
    fn peers(&self, processes: u8, message: Message) -> Vec<Subject> {
        let can = |name: &str| processes == 1 || name != "crossbeam-channel";
        let able = self.peers.installed.iter().filter(|peer| can(peer.name));
        able.map(|peer| subjects::peer(peer, processes, message, self.runs.time)).collect()
    }

    fn further_regions(&self, message: Message) -> Case {
        let further = |name, style| subjects::further_regions(name, style, message, self.runs.time);
        let subjects = vec![
            further(COPIED, Style::COPIED),
            further(LENT, Style::LENT),
            subjects::further_copies(MEMCPY, message, self.runs.time),
        ];
        let limit = |subject: &str| Target {
            against: Against::Nothing,
            ..at_most(4.0, TIME_OF_REGION, subject, "")
        };
        let name = format!("local/1-process/{}B/each region of 64", message.bytes);
        // Regions of a full message are so long that copying them alone takes longer than that.
        let is_short = message.bytes <= 4096;
        let targets = if is_short { vec![limit(COPIED), limit(LENT)] } else { Vec::new() };
        self.runs.case(name, COPIED, subjects, targets)
    }

    fn port(&self, transport: Transport, bytes: usize) -> Case {
        let (pair, message) = (transport.pair(), Message { bytes, regions: 1 });
        let subjects = vec![
            subjects::own(COPIED, Style::COPIED, pair, message, self.runs.time),
            subjects::port(PORT, pair, bytes, self.runs.time),
            subjects::getpid(GETPID, self.runs.time),
        ];
        let name = format!("{}/1-process/{bytes}B/port", transport.name());
        self.runs.case(name, COPIED, subjects, Vec::new())
    }

    /// A message over a socket by a call other than `write`, which `one_process` has.
    fn gathered(&self, call: SentBy, message: Message) -> Case {
        let subject =
            |name, is_joined| subjects::sent_by(name, call, is_joined, message, self.runs.time);
        let subjects = vec![subject(GATHERED, false), subject(JOINED, true)];
        let limit = if message == AT_BEST { 0.9 } else { 1.0 + BAND };
        let target = at_most(limit, TIME_EACH, GATHERED, JOINED);
        let name = format!("socket/1-process/{}/{}", message_name(message), call.name());
        self.runs.case(name, JOINED, subjects, vec![Target { band: BAND, ..target }])
    }

    /// Gathering over a bare socket: the kernel's own ratio.
    fn gathered_bare(&self, message: Message) -> Case {
        let subject =
            |name, is_joined| subjects::bare_sent(name, is_joined, message, self.runs.time);
        let subjects = vec![subject(BARE_GATHERED, false), subject(BARE_JOINED, true)];
        let name = format!("socket/1-process/{}/bare", message_name(message));
        self.runs.case(name, BARE_JOINED, subjects, Vec::new())
    }

    fn batch(&self, transport: Transport, message: Message) -> Case {
        let pair = transport.pair();
        let subjects = vec![
            subjects::one_by_one(ONE_BY_ONE, pair, message, self.runs.time),
            subjects::batch(BATCH, pair, message, self.runs.time),
        ];
        let name = format!("{}/1-process/{}/batch", transport.name(), message_name(message));
        self.runs.case(name, ONE_BY_ONE, subjects, Vec::new())
    }
}

fn bare_if_it_can(message: Message) -> &'static str {
    if message.regions <= IOV_MAX { BARE } else { LINEARISED }
}

fn targets_of(transport: Transport, message: Message) -> Vec<Target> {
    let at_most = |limit, subject, against| at_most(limit, TIME_EACH, subject, against);
    let mut targets = vec![Target { band: BAND, ..at_most(1.0 + BAND, COPIED, LINEARISED) }];
    targets.extend(match (transport, message.bytes, message.regions) {
        (Transport::Local, 4096, 1) => vec![
            at_most(1.8, COPIED, MEMCPY_TWICE),
            at_most(2.5, LENT, MEMCPY),
            at_most(0.1, COPIED, "ipc-channel"),
        ],
        (Transport::Local, 256, 1) => vec![at_most(0.9, COPIED, GETPID)],
        (Transport::Socket, 256 | 4096, 1) => vec![at_most(1.15, COPIED, BARE)],
        _ => Vec::new(),
    });
    targets
}

#[cfg(test)]
mod tests {
    use super::super::{ROUNDS, RUN};
    use super::*;
    use crate::compare::brief::Options;
    use crate::compare::case::assert;
    use crate::peers::{CHANNELS, find};

    fn setting() -> Setting {
        let peers = find(std::path::Path::new("/nonexistent"), &CHANNELS);
        Setting { peers, runs: BriefRuns::new(Options::nowhere(), RUN, ROUNDS) }
    }

    #[test]
    fn no_message_has_more_regions_than_bytes() {
        assert!(messages().all(|message| message.regions <= message.bytes));
        assert_eq!(messages().count(), 4 + 4 + 5 + 5 + 6);
    }

    #[test]
    fn cases_are_sound() {
        let cases = setting().cases();
        assert::sound(&cases);
        assert!(cases.iter().all(|case| case.rounds >= 7));
    }

    /// Each row: case, subject, limit, what it is set against.
    #[test]
    fn every_named_target_has_a_row() {
        let cases = setting().cases();
        for (case, subject, limit, against) in [
            ("local/1-process/4096B/1", COPIED, 1.8, Some(MEMCPY_TWICE)),
            ("local/1-process/4096B/1", LENT, 2.5, Some(MEMCPY)),
            ("local/1-process/4096B/1", COPIED, 0.1, Some("ipc-channel")),
            ("local/1-process/256B/1", COPIED, 0.9, Some(GETPID)),
            ("local/1-process/256B/each region of 64", COPIED, 4.0, None),
            ("local/1-process/4096B/each region of 64", LENT, 4.0, None),
            ("socket/1-process/256B/1", COPIED, 1.15, Some(BARE)),
            ("socket/1-process/4096B/1", COPIED, 1.15, Some(BARE)),
            ("socket/2-processes/256B/1", COPIED, 1.15, Some(BARE)),
            ("socket/2-processes/4096B/1", COPIED, 1.15, Some(BARE)),
            ("socket/2-processors/256B/1", SPINNING, SPINNING_LIMIT, None),
            ("socket/2-processors/4096B/1", SPINNING, SPINNING_LIMIT, None),
        ] {
            let against =
                against.map_or(Against::Nothing, |name| Against::Subject(name.to_owned()));
            assert::target(&cases, case, subject, limit, &against);
        }
    }

    #[test]
    fn gathering_is_set_against_linearising_at_any_size_and_count() {
        let cases = setting().cases();
        for place in ["local/1-process", "socket/1-process", "socket/2-processes"] {
            for message in messages() {
                let name = format!("{place}/{}", message_name(message));
                let case = cases.iter().find(|case| case.name == name).unwrap();
                let against = Against::Subject(LINEARISED.to_owned());
                assert!(case.targets.iter().any(|target| target.against == against), "{name}");
            }
        }
    }
}
