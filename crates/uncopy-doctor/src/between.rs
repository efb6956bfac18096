//! Examines copies between this machine and another one.

use std::net::SocketAddr;

use crate::condition as is;
use crate::finding::DoctorFinding;
use crate::found::{BetweenEnd, BetweenFound};
use crate::network;
use crate::report::{Report, ReportFact};
use crate::{Options, Severity};
use uncopy_send::Transport;

const ULP: &str = "/proc/sys/net/ipv4/tcp_available_ulp";

/// Reason why the bytes go through ssh alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyThroughShell {
    /// An end wants no data connections, by its options or its configuration.
    NotWanted {
        /// The end.
        by: BetweenEnd,
    },
    /// The configuration of the other end, which may forbid them, cannot be read.
    SettingsUnread,
    /// The other end does not know the address that ssh came to.
    NoAddress,
    /// The name of the other end has no address here.
    Unresolved,
    /// ssh reaches the other end through a third machine or a program.
    Proxied,
}

/// Way of the bytes of a copy between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataWay {
    /// Connections with TLS beside ssh.
    Tls {
        /// Maximum number of connections.
        connections: u32,
    },
    /// Connections without encryption beside ssh.
    Open {
        /// Maximum number of connections.
        connections: u32,
    },
    /// Through ssh alone.
    Shell(WhyThroughShell),
}

/// Facts about one end of a copy between machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BetweenSide {
    /// Release of the kernel.
    pub kernel: String,
    /// Whether the kernel can encrypt TLS.
    pub has_kernel_tls: bool,
    /// Whether the program can confine itself (Landlock).
    pub is_confined: bool,
    /// Filesystem of the source or destination at this end. `None`: it could not be examined.
    pub filesystem: Option<String>,
    /// Whether that filesystem shares blocks. `None`: it could not be examined.
    pub shares_blocks: Option<bool>,
}

/// Facts about a copy between this machine and another one, which the program asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BetweenFacts {
    /// Address at which the other end listens for data connections, as ssh reached it.
    pub address: Option<SocketAddr>,
    /// Way of the bytes.
    pub way: DataWay,
    /// This machine.
    pub near: BetweenSide,
    /// The other machine.
    pub far: BetweenSide,
    /// End with the destination.
    pub receiver: BetweenEnd,
    /// Ciphers that ssh offers, the preferred one first; empty: not known.
    pub ciphers: Vec<String>,
    /// Whether the processor here has instructions for AES.
    pub has_aes: bool,
}

/// Examines a copy between this machine and another one. The path of data connections through the network is examined
/// from this end. `target` names the copy.
#[must_use]
pub fn between(target: String, facts: &BetweenFacts, options: &Options) -> Report {
    let subject = target.clone();
    let mut findings = findings(facts);
    let mut shown = report_facts(facts);
    if let (DataWay::Tls { .. } | DataWay::Open { .. }, Some(address)) = (facts.way, facts.address)
    {
        let path = network::address(Transport::Tcp, address, options);
        shown.extend(path.facts);
        // Encrypting is the copy: what lending would cost is no question here.
        let as_note = |finding| DoctorFinding { severity: Severity::Note, ..finding };
        findings.extend(path.findings.into_iter().map(as_note));
    }
    Report::conclude(target, &subject, findings, shown)
}

/// Concludes findings (pure).
fn findings(facts: &BetweenFacts) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    let mut add = |finding: DoctorFinding| found.push(finding);
    match facts.way {
        DataWay::Tls { connections } => {
            let of = DoctorFinding::of(&is::BETWEEN_TLS, BetweenFound::Tls { connections });
            add(of.seen("options", format!("TLS, at most {connections} connections")));
        }
        DataWay::Open { connections } => {
            let of = DoctorFinding::of(&is::BETWEEN_OPEN, BetweenFound::Open { connections });
            add(of.seen("options", format!("no TLS, at most {connections} connections")));
        }
        DataWay::Shell(why) => {
            let of = DoctorFinding::of(&is::BETWEEN_SSH, BetweenFound::Ssh);
            add(of.seen("options", "no data connections"));
            add(through_shell(why));
        }
    }
    if let Some((preferred, quicker)) = slower_cipher(&facts.ciphers).filter(|_| facts.has_aes) {
        let (preferred, quicker) = (preferred.to_owned(), quicker.to_owned());
        add(DoctorFinding::of(
            &is::BETWEEN_SLOW_CIPHER,
            BetweenFound::SlowCipher { preferred, quicker },
        )
        .seen("ssh -G", facts.ciphers.join(",")));
    }
    for (at, side) in [(BetweenEnd::Near, &facts.near), (BetweenEnd::Far, &facts.far)] {
        if side.has_kernel_tls {
            add(DoctorFinding::of(&is::BETWEEN_KTLS, BetweenFound::KernelTls { at })
                .seen(ULP, format!("tls, on {at}")));
        }
    }
    if !facts.far.is_confined {
        add(DoctorFinding::of(&is::BETWEEN_NOT_CONFINED, BetweenFound::NotConfined)
            .seen("landlock_create_ruleset", "no version of Landlock there"));
    }
    let receiver = facts.receiver();
    if let (Some(false), Some(filesystem)) = (receiver.shares_blocks, &receiver.filesystem) {
        let filesystem = filesystem.clone();
        add(DoctorFinding::of(&is::BETWEEN_NO_REFLINK, BetweenFound::NoReflink { filesystem })
            .seen("a trial", "FICLONERANGE is refused"));
    }
    found
}

/// Finds why the bytes go through ssh alone.
fn through_shell(why: WhyThroughShell) -> DoctorFinding {
    match why {
        WhyThroughShell::NotWanted { by } => {
            DoctorFinding::of(&is::BETWEEN_FORBIDDEN, BetweenFound::NotWanted { by })
                .seen("options", format!("of {by}"))
        }
        WhyThroughShell::SettingsUnread => {
            DoctorFinding::of(&is::BETWEEN_FORBIDDEN, BetweenFound::SettingsUnread)
                .seen("options", "the configuration there cannot be read")
        }
        WhyThroughShell::NoAddress => {
            DoctorFinding::of(&is::BETWEEN_NO_ADDRESS, BetweenFound::NoAddress)
                .seen("SSH_CONNECTION", "not set there, or not valid")
        }
        WhyThroughShell::Unresolved => {
            DoctorFinding::of(&is::BETWEEN_UNRESOLVED, BetweenFound::Unresolved)
                .seen("getaddrinfo", "no address")
        }
        WhyThroughShell::Proxied => DoctorFinding::of(&is::BETWEEN_PROXIED, BetweenFound::Proxied)
            .seen("ssh -G", "ProxyJump or ProxyCommand"),
    }
}

impl BetweenFacts {
    fn receiver(&self) -> &BetweenSide {
        match self.receiver {
            BetweenEnd::Near => &self.near,
            BetweenEnd::Far => &self.far,
        }
    }
}

/// Returns the preferred cipher and a quicker one, if ssh prefers ChaCha20 to AES-GCM.
fn slower_cipher(ciphers: &[String]) -> Option<(&str, &str)> {
    let preferred = ciphers.first().filter(|first| first.starts_with("chacha20"))?;
    let quicker = ciphers.iter().find(|cipher| cipher.contains("gcm"))?;
    Some((preferred, quicker))
}

fn report_facts(facts: &BetweenFacts) -> Vec<ReportFact> {
    let side = |side: &BetweenSide| {
        let filesystem = side.filesystem.as_deref().unwrap_or("unknown");
        let blocks = match side.shares_blocks {
            Some(true) => ", which shares blocks",
            Some(false) => ", which shares no blocks",
            None => "",
        };
        let can = |can| if can { "yes" } else { "no" };
        format!(
            "Linux {}; {filesystem}{blocks}; kernel TLS: {}; Landlock: {}",
            side.kernel,
            can(side.has_kernel_tls),
            can(side.is_confined)
        )
    };
    let data = match facts.way {
        DataWay::Tls { connections } => format!("TLS, at most {connections} connections"),
        DataWay::Open { connections } => format!("no TLS, at most {connections} connections"),
        DataWay::Shell(_) => "through ssh".to_owned(),
    };
    let address = facts.address.map_or("unknown".to_owned(), |address| address.ip().to_string());
    let facts = [
        ("here", side(&facts.near)),
        ("there", side(&facts.far)),
        ("address", address),
        ("data", data),
    ];
    facts.map(|(name, value)| ReportFact { name, value }).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CopyVerdict;

    fn side() -> BetweenSide {
        BetweenSide {
            kernel: "6.12.1".to_owned(),
            has_kernel_tls: false,
            is_confined: true,
            filesystem: Some("XFS".to_owned()),
            shares_blocks: Some(true),
        }
    }

    fn facts() -> BetweenFacts {
        BetweenFacts {
            address: None,
            way: DataWay::Tls { connections: 4 },
            near: side(),
            far: side(),
            receiver: BetweenEnd::Far,
            ciphers: ["aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com"]
                .map(str::to_owned)
                .into(),
            has_aes: true,
        }
    }

    /// Change of the facts, and the ids of the findings.
    type Row = (fn(&mut BetweenFacts), &'static [&'static str], CopyVerdict);

    #[test]
    fn each_fact_is_a_finding_of_its_own() {
        use CopyVerdict::Copied;
        let rows: [Row; 15] = [
            (|_| {}, &["between-tls"], Copied),
            (|f| f.way = DataWay::Open { connections: 4 }, &["between-open"], Copied),
            (
                |f| f.way = DataWay::Shell(WhyThroughShell::NotWanted { by: BetweenEnd::Far }),
                &["between-ssh", "between-forbidden"],
                Copied,
            ),
            (
                |f| f.way = DataWay::Shell(WhyThroughShell::SettingsUnread),
                &["between-ssh", "between-forbidden"],
                Copied,
            ),
            (
                |f| f.way = DataWay::Shell(WhyThroughShell::NoAddress),
                &["between-ssh", "between-no-address"],
                Copied,
            ),
            (
                |f| f.way = DataWay::Shell(WhyThroughShell::Unresolved),
                &["between-ssh", "between-unresolved"],
                Copied,
            ),
            (
                |f| f.way = DataWay::Shell(WhyThroughShell::Proxied),
                &["between-ssh", "between-proxied"],
                Copied,
            ),
            (|f| f.ciphers.reverse(), &["between-tls", "between-slow-cipher"], Copied),
            (
                |f| {
                    f.ciphers.reverse();
                    f.has_aes = false;
                },
                &["between-tls"],
                Copied,
            ),
            (|f| f.ciphers.clear(), &["between-tls"], Copied),
            (|f| f.near.has_kernel_tls = true, &["between-tls", "between-ktls"], Copied),
            (|f| f.far.has_kernel_tls = true, &["between-tls", "between-ktls"], Copied),
            (|f| f.far.is_confined = false, &["between-tls", "between-not-confined"], Copied),
            (|f| f.near.shares_blocks = Some(false), &["between-tls"], Copied),
            (|f| f.far.shares_blocks = Some(false), &["between-tls", "between-no-reflink"], Copied),
        ];
        for (number, (change, ids, verdict)) in rows.into_iter().enumerate() {
            let mut facts = facts();
            change(&mut facts);
            let report = between("a -> h:b".to_owned(), &facts, &Options::default());
            let found: Vec<_> =
                report.findings.iter().map(|finding| finding.condition.id).collect();
            assert_eq!((&found[..], report.verdict), (ids, verdict), "row {number}");
        }
    }

    #[test]
    fn the_path_of_data_connections_is_examined_and_encrypting_is_the_copy() {
        let mut facts = facts();
        facts.address = Some("127.0.0.1:22".parse().unwrap());
        let report =
            |facts: &BetweenFacts| between("a -> h:b".to_owned(), facts, &Options::default());
        let encrypted = report(&facts);
        let severity = |report: &Report| report.finding("loopback").map(|finding| finding.severity);
        assert_eq!(severity(&encrypted), Some(Severity::Note));
        assert!(encrypted.facts.iter().any(|fact| fact.name == "route"), "{:?}", encrypted.facts);
        assert_eq!(
            encrypted.headline,
            "a -> h:b will be copied: every byte is encrypted on one of up to 4 data connections"
        );
        facts.way = DataWay::Shell(WhyThroughShell::NotWanted { by: BetweenEnd::Near });
        assert_eq!(severity(&report(&facts)), None);
    }
}
