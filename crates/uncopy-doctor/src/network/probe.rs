//! Live probe: a few large sends, with the kernel's reports of both interfaces.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::facts::Wanted;
use crate::condition as is;
use crate::effect::Effect;
use crate::finding::DoctorFinding;
use crate::found::ProbeFound;
use crate::next_step::NextStep;
use crate::report::{CopyVerdict, ReportFact};
use crate::severity::Severity;
use uncopy_core::{Error, Result};
use uncopy_send::{
    Fate, InetSocket, Message, Mode, Ring, RingEvent, RingOptions, Sender, SenderOptions, Transport,
};

/// Whether to send a live probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Probe {
    /// Send nothing.
    #[default]
    No,
    /// Send if the target answers [`HELLO`] with [`GREETING`], as `uncopy bench recv` does.
    IfGreeted,
    /// Send without waiting for an answer.
    Anyway,
}

/// First bytes of a probe: one datagram, or the beginning of a stream.
pub const HELLO: &[u8] = b"uncopy doctor: is this uncopy bench recv?\n";
/// Expected answer.
pub const GREETING: &[u8] = b"uncopy bench recv: yes\n";

/// Number of sends through each interface, and the maximum of their total bytes.
const SENDS: usize = 16;
const MAX_BYTES: usize = 2 << 20;
/// Timeout of the connection, of the greeting, and of the reports.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Number of times that the greeting is sent over UDP, as datagrams may be lost.
const MAX_GREETINGS: u32 = 4;

/// Results of the sends through one interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    not_copied: u32,
    copied: u32,
    unknown: u32,
    unsent: u32,
    /// Reports that did not arrive in time.
    missing: u32,
}

impl Tally {
    fn add(&mut self, fate: Fate) {
        match fate {
            Fate::NotCopied => self.not_copied += 1,
            Fate::Copied => self.copied += 1,
            Fate::Unknown => self.unknown += 1,
            Fate::Unsent => self.unsent += 1,
        }
    }

    fn words(self) -> String {
        format!(
            "{} not copied, {} copied, {} unknown, {} unsent, {} not reported",
            self.not_copied, self.copied, self.unknown, self.unsent, self.missing
        )
    }
}

/// Sends a probe, and compares the reports with the findings so far.
pub(super) fn probe(
    transport: Transport,
    to: SocketAddr,
    wanted: Wanted,
    probe: Probe,
    findings: &mut Vec<DoctorFinding>,
    facts: &mut Vec<ReportFact>,
) {
    if probe == Probe::No {
        return;
    }
    let predicted = CopyVerdict::of(findings);
    match send(transport, to, wanted, probe) {
        Ok(Some((calls, ring))) => {
            let sends =
                format!("{} bytes each by MSG_ZEROCOPY: {}", wanted.message_bytes, calls.words());
            let through = ring.map_or("io_uring: not there".to_owned(), |ring| {
                format!("through io_uring: {}", ring.words())
            });
            facts.push(ReportFact { name: "probe", value: format!("{sends}; {through}") });
            let finding = judge(transport, calls, ring, predicted);
            if finding.condition == &is::PROBE_LENT {
                clear_hidden(findings);
            }
            findings.push(finding.seen("MSG_ERRQUEUE", calls.words()).seen("io_uring", through));
        }
        Ok(None) => {
            let finding = unclear(ProbeFound::NotGreeted);
            let finding = finding.step(NextStep::StartReceiver, false);
            findings.push(finding.seen("the probe", "no greeting came"));
        }
        Err(error) => {
            findings.push(unclear(ProbeFound::Failed).seen("the probe", error.to_string()));
        }
    }
}

fn unclear(found: ProbeFound) -> DoctorFinding {
    DoctorFinding::of(&is::PROBE_UNCLEAR, found)
}

/// Derives a finding from the reports of both interfaces.
fn judge(
    transport: Transport,
    calls: Tally,
    ring: Option<Tally>,
    predicted: CopyVerdict,
) -> DoctorFinding {
    // io_uring's reports about TCP are unreliable.
    let silent = Tally::default();
    let ring = ring.filter(|_| transport == Transport::Udp).unwrap_or(silent);
    let (not_copied, copied) = (calls.not_copied + ring.not_copied, calls.copied + ring.copied);
    let unsure = calls.unknown + calls.missing + ring.unknown + ring.missing;
    match (not_copied, copied, unsure) {
        (0, 0, 0) => unclear(ProbeFound::NothingSent),
        (0, 0, _) => unclear(ProbeFound::NothingBelieved),
        (1.., 0, 0) if predicted == CopyVerdict::Copied => unclear(ProbeFound::Contradicted),
        (1.., 0, 0) => DoctorFinding::of(&is::PROBE_LENT, ProbeFound::NotCopied),
        (0, 1.., _) => DoctorFinding::of(&is::PROBE_COPIED, ProbeFound::Copied),
        (1.., 0, _) => unclear(ProbeFound::PartlyUnknown),
        (1.., 1.., _) => unclear(ProbeFound::PartlyCopied),
    }
}

/// Turns findings about facts that this user cannot read into notes, as nothing was copied.
fn clear_hidden(findings: &mut [DoctorFinding]) {
    let hidden = |finding: &&mut DoctorFinding| {
        let is_tap = finding.condition == &is::TAP;
        let is_unseen = finding.condition == &is::NOT_SEEN && finding.needs_root;
        finding.severity == Severity::Unknown && (is_tap || is_unseen)
    };
    for finding in findings.iter_mut().filter(hidden) {
        finding.effect = match finding.condition == &is::TAP {
            true => Effect::TapIgnores,
            false => Effect::ProbeNotCopied,
        };
        finding.severity = Severity::Note;
        finding.next_step = None;
        finding.needs_root = false;
    }
}

/// Sends the probe. `None`: the target did not send the expected answer.
fn send(
    transport: Transport,
    to: SocketAddr,
    wanted: Wanted,
    probe: Probe,
) -> Result<Option<(Tally, Option<Tally>)>> {
    let socket = match transport {
        Transport::Tcp => InetSocket::connect_tcp_within(to, TIMEOUT)?,
        Transport::Udp => InetSocket::connect_udp(to)?,
    };
    let options = SenderOptions::new().mode(Mode::Zerocopy).send_timeout(Some(TIMEOUT));
    let mut sender: Sender<Vec<u8>> = Sender::new(socket, &options);
    if probe == Probe::IfGreeted && !is_greeted(&mut sender)? {
        return Ok(None);
    }
    if transport == Transport::Udp {
        sender.socket().set_segment_bytes(wanted.segment_bytes)?;
    }
    let length = wanted.message_bytes.clamp(1, MAX_BYTES);
    let count = SENDS.min(MAX_BYTES / length).max(1);
    // Missing reports were already waited for when the ring is dropped.
    let ring_options = RingOptions::new().mode(Mode::Zerocopy).drop_timeout(TIMEOUT);
    let mut ring = Ring::new(&ring_options);
    let through = ring.io_uring_refusal().is_none().then(|| ring.add_shared(&sender));
    let calls = by_calls(&mut sender, length, count)?;
    let ringed = match through {
        Some(socket) => {
            let mut tally = Tally::default();
            for _ in 0..count {
                ring.send(socket, Message::new(vec![b'u'; length]))?;
            }
            collect(&mut ring, &mut tally)?;
            Some(tally)
        }
        None => None,
    };
    Ok(Some((calls, ringed)))
}

/// Sends the greeting and checks the answer.
fn is_greeted(sender: &mut Sender<Vec<u8>>) -> Result<bool> {
    let attempts = match sender.socket().transport() {
        Transport::Tcp => 1,
        Transport::Udp => MAX_GREETINGS,
    };
    let mut answer = [0; 64];
    for _ in 0..attempts {
        let asked = sender.send(HELLO.to_vec()).result;
        // The answer to the last datagram says that nothing listens there.
        if asked.as_ref().is_err_and(is_refusal) {
            return Ok(false);
        }
        asked?;
        match sender.socket().receive_within(&mut answer, TIMEOUT / attempts) {
            Ok(Some(length)) if answer[..length].starts_with(GREETING) => {
                release_all(sender, &mut Tally::default())?;
                return Ok(true);
            }
            Ok(_) => {}
            Err(error) if is_refusal(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn is_refusal(error: &Error) -> bool {
    use uncopy_core::Errno;
    matches!(error.errno(), Some(Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::EPIPE))
}

fn by_calls(sender: &mut Sender<Vec<u8>>, length: usize, count: usize) -> Result<Tally> {
    let mut tally = Tally::default();
    for _ in 0..count {
        sender.send(vec![b'u'; length]).result?;
    }
    release_all(sender, &mut tally)?;
    Ok(tally)
}

fn release_all(sender: &mut Sender<Vec<u8>>, tally: &mut Tally) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while sender.outstanding().sends > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        match sender.wait_release(Some(left))? {
            Some(release) => tally.add(release.fate),
            None => {
                tally.missing += sender.outstanding().sends as u32;
                return Ok(());
            }
        }
    }
    Ok(())
}

fn collect(ring: &mut Ring<Vec<u8>>, tally: &mut Tally) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let is_over = ring.outstanding().sends == 0;
        let left = deadline.saturating_duration_since(Instant::now());
        if !is_over {
            ring.wait(Some(left))?;
        }
        while let Some(event) = ring.next_event() {
            match event {
                RingEvent::Sent(sent) => drop(sent.result?),
                RingEvent::Released(release) => tally.add(release.fate),
                RingEvent::Notified(_) => {}
            }
        }
        if is_over || left.is_zero() {
            tally.missing += ring.outstanding().sends as u32;
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found::{Missing, NetworkFound, TapFound, TapHolder, TapPlace};
    use Transport::{Tcp, Udp};

    fn tally(not_copied: u32, copied: u32, unknown: u32, missing: u32) -> Tally {
        Tally { not_copied, copied, unknown, unsent: 0, missing }
    }

    #[test]
    fn both_interfaces_are_reconciled() {
        let (lent, copied, unsure) = (tally(16, 0, 0, 0), tally(0, 16, 0, 0), tally(0, 0, 16, 0));
        let missing = tally(0, 0, 0, 16);
        for (transport, calls, ring, predicted, expected) in [
            (Udp, lent, Some(lent), CopyVerdict::ZeroCopy, "probe-not-copied"),
            (Udp, lent, None, CopyVerdict::ZeroCopy, "probe-not-copied"),
            (Udp, copied, Some(copied), CopyVerdict::Copied, "probe-copied"),
            (Udp, copied, Some(copied), CopyVerdict::ZeroCopy, "probe-copied"),
            (Udp, lent, Some(copied), CopyVerdict::ZeroCopy, "probe-unclear"),
            (Udp, tally(15, 1, 0, 0), None, CopyVerdict::ZeroCopy, "probe-unclear"),
            // A predicted copy that the reports deny.
            (Udp, lent, Some(lent), CopyVerdict::Copied, "probe-unclear"),
            // io_uring's reports about TCP are ignored.
            (Tcp, lent, Some(copied), CopyVerdict::ZeroCopy, "probe-not-copied"),
            (Tcp, copied, Some(unsure), CopyVerdict::Copied, "probe-copied"),
            (Tcp, unsure, Some(unsure), CopyVerdict::Unknown, "probe-unclear"),
            (Tcp, missing, Some(missing), CopyVerdict::ZeroCopy, "probe-unclear"),
            (Udp, Tally::default(), None, CopyVerdict::ZeroCopy, "probe-unclear"),
        ] {
            let found = judge(transport, calls, ring, predicted);
            assert_eq!(found.condition.id, expected, "{transport:?} {calls:?} {ring:?}");
        }
    }

    #[test]
    fn a_probe_clears_findings_that_this_user_cannot_check() {
        let tap = |user| TapFound::Tap {
            holder: TapHolder::Somebody { user },
            place: TapPlace::AllDevices,
        };
        let unknown = Effect::CopiesUnlessIgnored;
        let hidden = DoctorFinding::of(&is::TAP, tap(0)).meaning(Severity::Unknown, unknown);
        let certain = DoctorFinding::of(&is::TAP, tap(1));
        let not_read = |what| DoctorFinding::of(&is::NOT_SEEN, NetworkFound::NotRead { what });
        let refused = not_read(Missing::FirewallRules).step(NextStep::Root, true);
        let odd = not_read(Missing::FirewallEffect);
        let mut findings = vec![hidden, certain, refused, odd];
        clear_hidden(&mut findings);
        let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
        let expected = [Severity::Note, Severity::Copies, Severity::Note, Severity::Unknown];
        assert_eq!(severities, expected);
    }
}
