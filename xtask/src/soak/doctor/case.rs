//! One case: networks, the sends over them, and the questions to the doctor.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use testbed::LenderOptions;

/// Declares the causes, with their names and how many cards of a deck each has.
macro_rules! causes {
    ($($(#[$meta:meta])* $name:ident = $text:literal, $weight:literal;)*) => {
        /// Causes that decide whether bytes are copied, or look as if they did.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) enum Cause {
            $($(#[$meta])* $name,)*
        }

        impl Cause {
            /// Every cause.
            pub(super) const ALL: &[Cause] = &[$(Cause::$name,)*];

            /// The name in tables and records.
            pub(super) const fn name(self) -> &'static str {
                match self { $(Cause::$name => $text,)* }
            }

            /// Cards of a deck on which it stands.
            pub(super) const fn weight(self) -> usize {
                match self { $(Cause::$name => $weight,)* }
            }
        }
    };
}

causes! {
    /// Nothing but devices and noise.
    Plain = "plain", 46;
    Loopback = "loopback", 2;
    OwnAddress = "own-address", 2;
    TapOnAny = "tap-on-any-device", 3;
    TapOnDevice = "tap-on-device", 3;
    TapBelow = "tap-on-lower-device", 3;
    TapElsewhere = "tap-on-other-device", 3;
    TapIgnores = "tap-ignores-outgoing", 3;
    TapOfProtocol = "tap-for-one-protocol", 3;
    NoScatterGather = "no-scatter-gather", 2;
    NoChecksum = "no-tx-checksum", 2;
    NoSegmentation = "no-segmentation", 2;
    AboveMtu = "above-mtu", 2;
    Tun = "tun", 2;
    Veth = "veth", 2;
    VethPassesOn = "veth-passes-on", 2;
    MacvlanSibling = "macvlan-sibling", 3;
    BridgedVeth = "bridged-veth", 2;
    MulticastMember = "multicast-member", 3;
    MulticastAlone = "multicast-without-member", 3;
    Broadcast = "broadcast", 3;
    Redirect = "nft-redirect", 3;
    Dnat = "nft-dnat", 3;
    EgressDup = "nft-egress-dup", 3;
    EgressFwd = "nft-egress-fwd", 3;
    IpDup = "nft-ip-dup", 3;
    NftMark = "nft-mark", 2;
    RuleProtocol = "rule-ipproto", 3;
    RuleSourcePort = "rule-sport", 3;
    RulePort = "rule-dport", 3;
    RuleMark = "rule-fwmark", 2;
    RuleUser = "rule-uidrange", 3;
    RuleFrom = "rule-from", 3;
    Multipath = "multipath", 3;
    MirredClsact = "mirred-clsact", 3;
    MirredClassful = "mirred-classful", 3;
    MirrorVeth = "mirror-to-veth", 2;
    PidDevice = "pid-bound-device", 3;
    PidMark = "pid-mark", 3;
    PidSource = "pid-bound-source", 3;
    PidUnconnected = "pid-unconnected", 2;
    Unprivileged = "veth-unprivileged", 2;
    ShapingQueue = "shaping-queue", 2;
    FilterWithoutEffect = "filter-without-effect", 2;
    RuleWithoutEffect = "rule-without-effect", 2;
}

/// Which of the two networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    /// From where it is sent.
    Near,
    /// Where it may be received.
    Far,
}

/// One thing done to a network. `{far}` stands for the process that has the far one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NetworkStep {
    Ip(String),
    Tc(String),
    Nft(String),
    Ethtool(String),
    /// A number below `/proc/sys`.
    Set(&'static str, u64),
    /// A device that hands packets to a program.
    Tun(String),
    Tap(Tapping),
    Receive(Receiver),
}

/// A packet socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tapping {
    /// `None`: all devices.
    pub(super) device: Option<String>,
    pub(super) protocol: u16,
    pub(super) ignores_outgoing: bool,
}

/// A socket that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Receiver {
    /// Takes connections and reads them to their end.
    Stream(u16),
    Datagrams(u16),
    /// A member of a multicast group at the exit of this number.
    Member {
        group: IpAddr,
        exit: usize,
        port: u16,
    },
}

/// The question to the doctor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// `tcp://…` or `udp://…`.
    Address,
    /// The same, asked by a user without privileges.
    AddressUnprivileged,
    /// `--pid` of the process that sends.
    Process,
}

/// The payload, the call and the destination of a send.
#[derive(Debug, Clone)]
pub(super) struct Send {
    pub(super) to: SocketAddr,
    pub(super) bytes: usize,
    pub(super) options: LenderOptions,
}

/// Everything that happens in a case.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// The cause it is about.
    pub(super) lead: Cause,
    /// All that is in it.
    pub(super) causes: BTreeSet<Cause>,
    /// Makes devices, first; some go to the far network.
    pub(super) links: Vec<NetworkStep>,
    pub(super) far: Vec<NetworkStep>,
    pub(super) near: Vec<NetworkStep>,
    pub(super) send: Send,
    pub(super) question: Question,
}

impl Case {
    /// Whether there is a second network.
    pub(super) fn has_far(&self) -> bool {
        !self.far.is_empty()
    }

    /// Receivers that a process beside the sender holds.
    pub(super) fn receivers(&self, side: Side) -> impl Iterator<Item = &Receiver> {
        let steps = if side == Side::Near { &self.near } else { &self.far };
        steps.iter().filter_map(|step| match step {
            NetworkStep::Receive(receiver) => Some(receiver),
            _ => None,
        })
    }
}

/// As somebody would type it.
impl fmt::Display for NetworkStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkStep::Ip(words) => write!(f, "ip {words}"),
            NetworkStep::Tc(words) => write!(f, "tc {words}"),
            NetworkStep::Nft(words) => write!(f, "nft '{words}'"),
            NetworkStep::Ethtool(words) => write!(f, "ethtool {words}"),
            NetworkStep::Set(name, value) => write!(f, "echo {value} >/proc/sys/{name}"),
            NetworkStep::Tun(device) => write!(f, "# a program opens the tun device {device}"),
            NetworkStep::Tap(tap) => write!(
                f,
                "# a packet socket: protocol {:04x}, {}{}",
                tap.protocol,
                tap.device.as_deref().unwrap_or("all devices"),
                if tap.ignores_outgoing { ", ignores what is sent" } else { "" }
            ),
            NetworkStep::Receive(receiver) => write!(f, "# a process receives: {receiver:?}"),
        }
    }
}

/// The steps in the order of the run.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.causes.iter().map(|cause| cause.name()).collect();
        writeln!(f, "{}: {}", self.lead.name(), names.join(", "))?;
        for (side, steps) in [("near", &self.links), ("far ", &self.far), ("near", &self.near)] {
            for step in steps {
                writeln!(f, "  {side}: {step}")?;
            }
        }
        let Send { to, bytes, options } = &self.send;
        writeln!(f, "  sends of {bytes} bytes to {to}: {options:?}")?;
        write!(f, "  question: {:?}", self.question)
    }
}
