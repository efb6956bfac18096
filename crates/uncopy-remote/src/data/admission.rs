//! Bookkeeping of a listener (pure): which connections are announced, which have not shown a token yet, which are open.
//! Time is the time since the listener began.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::Token;

/// Connections that may be in their handshake at once. A further one takes the place of the oldest, so that silent ones
/// keep nobody out.
pub(super) const MAX_PENDING: usize = 32;

/// Number of an announcement and of the connection that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AnnouncementId(u64);

/// Number of a connection in its handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PendingId(u64);

/// Reason why no connection can be announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnounceError {
    /// As many are announced or open as may be.
    #[error("all {max} data connections are in use: wait until one ends")]
    Full {
        /// Maximum number.
        max: usize,
    },
    /// The listener is closed.
    #[error("the listener for data connections is closed: copy through the remote shell alone")]
    Closed,
    /// There is no random number for a token.
    #[error("no random number can be had for a data connection: {}", .0.message())]
    Random(uncopy_core::Errno),
}

/// Connections that were not taken, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusals {
    /// From another address than that of the near end.
    pub other_address: u64,
    /// While none was announced.
    pub unannounced: u64,
    /// In their handshake, when too many others came.
    pub displaced: u64,
    /// Without a handshake, or without one in time.
    pub handshake: u64,
    /// With another key than that of the near end.
    pub other_key: u64,
    /// With a token that was never given, was used before, or is too old.
    pub token: u64,
    /// For want of a thread or a descriptor here.
    pub resources: u64,
}

/// Fate of a connection that has just come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has its handshake, until a point in time. Another one may have to go.
    Handshake { id: PendingId, until: Duration, displaces: Option<PendingId> },
    /// It is closed at once.
    Refused,
}

/// Reason why a handshake led to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandshakeLoss {
    Handshake,
    OtherKey,
    Resources,
}

/// Limits of a listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdmissionLimits {
    pub(super) connections: usize,
    /// Time from an announcement to its token.
    pub(super) announced: Duration,
    /// Time from an arrival to its token.
    pub(super) handshake: Duration,
}

#[derive(Debug)]
struct Announced {
    id: AnnouncementId,
    token: Token,
    until: Duration,
}

#[derive(Debug)]
pub(super) struct Admission {
    peer: SocketAddr,
    limits: AdmissionLimits,
    announced: Vec<Announced>,
    /// Oldest first.
    pending: VecDeque<PendingId>,
    open: Vec<AnnouncementId>,
    /// Announcements that nobody can use any more, and that are not yet reported.
    expired: VecDeque<AnnouncementId>,
    refusals: Refusals,
    last_number: u64,
    is_closed: bool,
}

impl Admission {
    /// Begins with nothing announced. The port of `peer` does not count.
    pub(super) fn new(peer: SocketAddr, limits: AdmissionLimits) -> Admission {
        Admission {
            peer,
            limits,
            announced: Vec::new(),
            pending: VecDeque::new(),
            open: Vec::new(),
            expired: VecDeque::new(),
            refusals: Refusals::default(),
            last_number: 0,
            is_closed: false,
        }
    }

    /// Expects a connection with `token`.
    pub(super) fn announce(
        &mut self,
        now: Duration,
        token: Token,
    ) -> Result<AnnouncementId, AnnounceError> {
        self.expire(now);
        let max = self.limits.connections;
        if self.is_closed {
            return Err(AnnounceError::Closed);
        }
        if self.announced.len() + self.open.len() >= max {
            return Err(AnnounceError::Full { max });
        }
        let id = AnnouncementId(self.next_number());
        let until = now.saturating_add(self.limits.announced);
        self.announced.push(Announced { id, token, until });
        Ok(id)
    }

    /// Decides on a connection that has come.
    pub(super) fn arrive(&mut self, now: Duration, from: SocketAddr) -> Arrival {
        self.expire(now);
        if !is_same_host(self.peer, from) {
            self.refusals.other_address += 1;
            return Arrival::Refused;
        }
        if self.is_closed || self.announced.is_empty() {
            self.refusals.unannounced += 1;
            return Arrival::Refused;
        }
        let mut displaces = None;
        if self.pending.len() >= MAX_PENDING {
            displaces = self.pending.pop_front();
            self.refusals.displaced += 1;
        }
        let id = PendingId(self.next_number());
        self.pending.push_back(id);
        Arrival::Handshake { id, until: now.saturating_add(self.limits.handshake), displaces }
    }

    /// Takes the token of a connection whose handshake is done. It opens if the token is one that is expected.
    pub(super) fn prove(
        &mut self,
        now: Duration,
        pending: PendingId,
        token: &Token,
    ) -> Option<AnnouncementId> {
        self.expire(now);
        // Displaced, or closed, and counted then.
        if !self.forget(pending) {
            return None;
        }
        // Compares with all, so that time does not show which one it was.
        let mut found = None;
        for (index, announced) in self.announced.iter().enumerate() {
            if announced.token.is(token) {
                found = Some(index);
            }
        }
        let Some(index) = found else {
            self.refusals.token += 1;
            return None;
        };
        let Announced { id, .. } = self.announced.swap_remove(index);
        self.open.push(id);
        Some(id)
    }

    /// Ends a handshake that led to nothing.
    pub(super) fn fail(&mut self, pending: PendingId, loss: HandshakeLoss) {
        if self.forget(pending) {
            match loss {
                HandshakeLoss::Handshake => self.refusals.handshake += 1,
                HandshakeLoss::OtherKey => self.refusals.other_key += 1,
                HandshakeLoss::Resources => self.refusals.resources += 1,
            }
        }
    }

    /// Counts a connection that could not even be taken from the system.
    pub(super) fn lack_resources(&mut self) {
        self.refusals.resources += 1;
    }

    fn forget(&mut self, pending: PendingId) -> bool {
        let place = self.pending.iter().position(|id| *id == pending);
        place.is_some_and(|index| self.pending.remove(index).is_some())
    }

    /// Frees the place of a connection that is open, or was announced and is not waited for any more.
    pub(super) fn end(&mut self, id: AnnouncementId) {
        self.open.retain(|open| *open != id);
        self.announced.retain(|announced| announced.id != id);
    }

    /// Ends a connection that opened and that nobody got: its announcement counts as expired.
    pub(super) fn lose(&mut self, id: AnnouncementId) {
        self.end(id);
        self.expired.push_back(id);
    }

    /// Takes an announcement that nobody can use any more.
    pub(super) fn take_expired(&mut self, now: Duration) -> Option<AnnouncementId> {
        self.expire(now);
        self.expired.pop_front()
    }

    /// Returns the next point in time at which an announcement expires.
    pub(super) fn next_expiry(&self) -> Option<Duration> {
        self.announced.iter().map(|announced| announced.until).min()
    }

    /// Takes nothing from now on, and forgets all that is not open.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.announced.clear();
        self.pending.clear();
    }

    /// Whether a connection opened and did not end since.
    pub(super) fn is_open(&self, id: AnnouncementId) -> bool {
        self.open.contains(&id)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn refusals(&self) -> Refusals {
        self.refusals
    }

    fn expire(&mut self, now: Duration) {
        let expired = &mut self.expired;
        self.announced.retain(|announced| {
            let is_good = now < announced.until;
            if !is_good {
                expired.push_back(announced.id);
            }
            is_good
        });
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

/// Whether two addresses are of one machine, whatever their ports.
fn is_same_host(one: SocketAddr, other: SocketAddr) -> bool {
    let zone = |address: SocketAddr| match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(address), IpAddr::V6(ip)) if ip.is_unicast_link_local() => {
            address.scope_id()
        }
        _ => 0,
    };
    one.ip().to_canonical() == other.ip().to_canonical() && zone(one) == zone(other)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    const PEER: &str = "10.0.0.1:0";

    fn admission(connections: usize) -> Admission {
        let announced = Duration::from_secs(30);
        let limits = AdmissionLimits { connections, announced, handshake: Duration::from_secs(5) };
        Admission::new(PEER.parse().unwrap(), limits)
    }

    fn token(number: u8) -> Token {
        Token::from_bytes([number; 32])
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn from(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    fn arrive(admission: &mut Admission, now: u64) -> PendingId {
        let arrival = admission.arrive(at(now), from("10.0.0.1:5000"));
        let Arrival::Handshake { id, until, displaces: None } = arrival else {
            panic!("{arrival:?}")
        };
        assert_eq!(until, at(now + 5));
        id
    }

    #[test]
    fn a_token_is_good_once_and_in_time() {
        let mut admission = admission(2);
        let first = admission.announce(at(0), token(1)).unwrap();
        let second = admission.announce(at(10), token(2)).unwrap();
        assert_eq!(admission.announce(at(11), token(3)), Err(AnnounceError::Full { max: 2 }));

        let pending = arrive(&mut admission, 12);
        assert_eq!(admission.prove(at(12), pending, &token(3)), None, "never given");
        let pending = arrive(&mut admission, 12);
        assert_eq!(admission.prove(at(12), pending, &token(1)), Some(first));
        assert_eq!(admission.prove(at(12), pending, &token(2)), None, "one connection, two tokens");
        let pending = arrive(&mut admission, 13);
        assert_eq!(admission.prove(at(13), pending, &token(1)), None, "used");

        let pending = arrive(&mut admission, 39);
        assert_eq!(admission.next_expiry(), Some(at(40)));
        assert_eq!(admission.take_expired(at(39)), None);
        assert_eq!(admission.prove(at(40), pending, &token(2)), None, "too late");
        assert_eq!(admission.take_expired(at(40)), Some(second));
        assert_eq!(admission.take_expired(at(40)), None);
        assert_eq!(admission.refusals(), Refusals { token: 3, ..Refusals::default() });

        // The first one is open, so that one more may be announced; when it ends, another one.
        let third = admission.announce(at(41), token(4)).unwrap();
        assert_eq!(admission.announce(at(41), token(5)), Err(AnnounceError::Full { max: 2 }));
        admission.end(first);
        let fourth = admission.announce(at(41), token(5)).unwrap();
        admission.end(third);
        assert_eq!(admission.next_expiry(), Some(at(71)));
        admission.lose(fourth);
        assert_eq!(admission.take_expired(at(42)), Some(fourth));
        assert_eq!(admission.next_expiry(), None);
    }

    #[test]
    fn others_use_nothing_up() {
        let mut admission = admission(1);
        assert_eq!(admission.arrive(at(0), from("10.0.0.1:1")), Arrival::Refused, "unannounced");
        admission.announce(at(0), token(1)).unwrap();
        for other in ["10.0.0.2:1", "127.0.0.1:1", "[::1]:1", "[::ffff:10.0.0.2]:1"] {
            assert_eq!(admission.arrive(at(0), from(other)), Arrival::Refused, "{other}");
        }
        let refused = Refusals { unannounced: 1, other_address: 4, ..Refusals::default() };
        assert_eq!(admission.refusals(), refused);
        let mapped = admission.arrive(at(0), from("[::ffff:10.0.0.1]:9"));
        assert!(matches!(mapped, Arrival::Handshake { .. }));
        assert_eq!(admission.arrive(at(30), from("10.0.0.1:1")), Arrival::Refused, "expired");
    }

    #[test]
    fn silent_ones_go_when_too_many_come() {
        let mut admission = admission(1);
        admission.announce(at(0), token(1)).unwrap();
        let silent: Vec<_> = (0..MAX_PENDING).map(|_| arrive(&mut admission, 1)).collect();
        let arrival = admission.arrive(at(2), from("10.0.0.1:7"));
        let Arrival::Handshake { id, displaces, .. } = arrival else { panic!("{arrival:?}") };
        assert_eq!(displaces, Some(silent[0]));
        assert_eq!(admission.prove(at(2), silent[0], &token(1)), None, "displaced");
        admission.fail(silent[0], HandshakeLoss::Handshake);
        admission.fail(silent[1], HandshakeLoss::OtherKey);
        let refused = Refusals { displaced: 1, other_key: 1, ..Refusals::default() };
        assert_eq!(admission.refusals(), refused, "each is counted once");
        assert!(admission.prove(at(2), id, &token(1)).is_some());
    }

    #[test]
    fn a_closed_one_takes_nothing() {
        let mut admission = admission(3);
        let open = admission.announce(at(0), token(1)).unwrap();
        admission.announce(at(0), token(2)).unwrap();
        let (first, second) = (arrive(&mut admission, 0), arrive(&mut admission, 0));
        assert_eq!(admission.prove(at(0), first, &token(1)), Some(open));
        admission.close();
        assert_eq!(admission.prove(at(0), second, &token(2)), None);
        assert_eq!(admission.arrive(at(0), from("10.0.0.1:1")), Arrival::Refused);
        assert_eq!(admission.announce(at(0), token(3)), Err(AnnounceError::Closed));
        assert_eq!(admission.next_expiry(), None);
    }

    #[test]
    fn a_link_local_address_belongs_to_its_link() {
        let cases = [
            ("[fe80::1%2]:1", "[fe80::1%2]:9", true),
            ("[fe80::1%2]:1", "[fe80::1%3]:1", false),
            ("[2001:db8::1]:1", "[2001:db8::1]:9", true),
            ("[2001:db8::1]:1", "[2001:db8::1%4]:9", true),
            ("10.0.0.1:1", "[::ffff:10.0.0.1]:1", true),
            ("10.0.0.1:1", "10.0.0.2:1", false),
        ];
        for (one, other, is_same) in cases {
            assert_eq!(is_same_host(from(one), from(other)), is_same, "{one} {other}");
            assert_eq!(is_same_host(from(other), from(one)), is_same, "{other} {one}");
        }
    }

    #[derive(Debug, Clone)]
    enum Action {
        Announce,
        Arrive { is_peer: bool },
        Prove { pending: usize, token: u8 },
        Fail { pending: usize },
        End { open: usize },
        Lose { open: usize },
        Wait { seconds: u64 },
        TakeExpired,
        Close,
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            8 => Just(Action::Announce),
            8 => any::<bool>().prop_map(|is_peer| Action::Arrive { is_peer }),
            8 => (any::<usize>(), 0..40_u8).prop_map(|(pending, token)| Action::Prove { pending, token }),
            2 => any::<usize>().prop_map(|pending| Action::Fail { pending }),
            4 => any::<usize>().prop_map(|open| Action::End { open }),
            1 => any::<usize>().prop_map(|open| Action::Lose { open }),
            4 => (0..20_u64).prop_map(|seconds| Action::Wait { seconds }),
            4 => Just(Action::TakeExpired),
            1 => Just(Action::Close),
        ]
    }

    /// Beginning of an announcement, and whether it was used.
    struct Given {
        since: Duration,
        is_used: bool,
    }

    proptest! {
        /// Whatever happens in whatever order: each announcement opens once at most and in time, or is reported as
        /// expired once, and there are never more than allowed.
        #[test]
        fn every_order_keeps_the_limits(
            connections in 1..4_usize,
            actions in prop::collection::vec(action(), 1..200),
        ) {
            let mut admission = admission(connections);
            let mut now = Duration::ZERO;
            let mut given: HashMap<AnnouncementId, (u8, Given)> = HashMap::new();
            let (mut pending, mut open) = (Vec::new(), Vec::new());
            let mut expired = HashSet::new();
            let (mut last_token, mut is_closed) = (0_u8, false);
            for action in actions {
                match action {
                    Action::Announce => match admission.announce(now, token(last_token + 1)) {
                        Ok(id) => {
                            prop_assert!(!is_closed);
                            last_token += 1;
                            let fresh = Given { since: now, is_used: false };
                            prop_assert!(given.insert(id, (last_token, fresh)).is_none());
                        }
                        Err(AnnounceError::Full { max }) => {
                            prop_assert_eq!(max, connections);
                            let waiting = given.values().filter(|(_, given)| {
                                !given.is_used && now < given.since + at(30)
                            });
                            prop_assert!(waiting.count() + open.len() >= max);
                        }
                        Err(_) => prop_assert!(is_closed),
                    },
                    Action::Arrive { is_peer } => {
                        let address = from(if is_peer { "10.0.0.1:5" } else { "10.0.0.9:5" });
                        if let Arrival::Handshake { id, until, displaces } = admission.arrive(now, address) {
                            prop_assert!(is_peer && !is_closed);
                            prop_assert_eq!(until, now + at(5));
                            pending.retain(|pending| Some(*pending) != displaces);
                            pending.push(id);
                            prop_assert!(pending.len() <= MAX_PENDING);
                        }
                    }
                    Action::Prove { pending: index, token: number } if !pending.is_empty() => {
                        let chosen = pending.remove(index % pending.len());
                        let proven = admission.prove(now, chosen, &token(number));
                        let expected = given.iter_mut().find(|(_, (own, given))| {
                            *own == number && !given.is_used && now < given.since + at(30)
                        });
                        let expected = expected.filter(|_| !is_closed);
                        prop_assert_eq!(proven, expected.as_ref().map(|(id, _)| **id));
                        if let Some((id, (_, given))) = expected {
                            given.is_used = true;
                            open.push(*id);
                            prop_assert!(open.len() <= connections);
                        }
                    }
                    Action::Fail { pending: index } if !pending.is_empty() => {
                        let chosen = pending.remove(index % pending.len());
                        admission.fail(chosen, HandshakeLoss::Handshake);
                    }
                    Action::End { open: index } if !open.is_empty() => {
                        admission.end(open.remove(index % open.len()));
                    }
                    Action::Lose { open: index } if !open.is_empty() => {
                        admission.lose(open.remove(index % open.len()));
                    }
                    Action::Wait { seconds } => now += at(seconds),
                    Action::TakeExpired => {
                        if let Some(id) = admission.take_expired(now) {
                            prop_assert!(expired.insert(id), "reported twice");
                            let (_, given) = &given[&id];
                            prop_assert!(given.is_used || now >= given.since + at(30));
                        }
                    }
                    Action::Close => {
                        admission.close();
                        is_closed = true;
                    }
                    _ => {}
                }
            }
        }
    }
}
