//! Receiving packets from the socket of a wired end.

use super::{End, Locked, Pair, Side};
use crate::observers::ObserverKind;
use crate::signals::Signals;
use crate::sleep::Waiter;
use crate::sync::atomic::Ordering;
use crate::transport::packet::{Content, decode_signals};
use crate::transport::wire::{Arrival, Wire};
use uncopy_os::seqpacket::{self, Ready};

/// Maximum number of packets received in one look, so that a peer that keeps sending cannot keep a
/// thread here.
const MAX_PACKETS_AT_ONCE: u32 = 8192;

/// Number of waits that sleep without a look, after a look that found nothing: a thread that waits
/// for answers usually has to sleep.
const LOOKS_TO_SKIP: u32 = 15;

/// Result of processing one packet.
enum Processed {
    /// A packet, with its size on the socket.
    Packet {
        bytes: usize,
    },
    Nothing,
    End,
}

/// Result of receiving all packets.
struct Drained {
    /// Whether there was a packet or the end.
    found: bool,
    rest: SocketRest,
}

/// Content of the socket after receiving.
#[derive(Clone, Copy)]
enum SocketRest {
    Nothing,
    /// Nothing, and nothing can come any more.
    End,
    Unknown,
}

impl<T> Pair<T> {
    /// Records whether a look at the socket of `side` before a sleep found something. If not, later
    /// waits skip the look.
    pub(super) fn record_look(&self, side: Side, found: bool) {
        let unused = if found { 0 } else { LOOKS_TO_SKIP };
        self.looks_to_skip[side.index()].store(unused, Ordering::Relaxed);
    }
}

impl<T: End> Locked<'_, T> {
    /// Receives for `side` until it has one of the signals, the socket is empty or there is no
    /// room.
    pub(crate) fn pump(&mut self, side: Side, wire: &Wire, until: Signals) {
        self.pump_while(side, wire, |locked| {
            !locked.signals(side).intersects(until) && locked.end(side).has_room()
        });
    }

    /// Receives for `side` while `goes_on`; returns whether nothing is left in the socket.
    pub(crate) fn pump_while(
        &mut self,
        side: Side,
        wire: &Wire,
        mut goes_on: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        let mut left = MAX_PACKETS_AT_ONCE;
        while goes_on(self) {
            if left == 0 {
                self.report_again(side, wire);
                return false;
            }
            left -= 1;
            if !matches!(self.process(side, wire, wire.receive()), Processed::Packet { .. }) {
                return true;
            }
        }
        false
    }

    /// Processes what was received for `side`.
    fn process(&mut self, side: Side, wire: &Wire, arrival: Arrival) -> Processed {
        let bytes = match arrival {
            Arrival::Packet(Content::Signals, load) => {
                let (clear, set) = decode_signals(&load.body);
                self.update(side, clear.intersection(T::USER), set.intersection(T::USER));
                load.packet_bytes()
            }
            Arrival::Packet(content, load) => {
                let bytes = load.packet_bytes();
                if !T::take_in(self, side, content, load) {
                    wire.end();
                    self.hang_up(side, wire);
                    return Processed::End;
                }
                bytes
            }
            Arrival::Nothing => return Processed::Nothing,
            Arrival::End => {
                self.hang_up(side, wire);
                return Processed::End;
            }
        };
        Processed::Packet { bytes }
    }

    /// Receives what has come for `side`, even if one of the signals is already set, because changes
    /// of signals come behind messages. Once one of them is set, receives at most one packet that
    /// arrived during this call, so that a peer that keeps sending does not keep the waiter here.
    fn drain(&mut self, side: Side, wire: &Wire, until: Signals) -> Drained {
        let mut found = false;
        // Bytes that were in the socket when one of the signals was set, if it was not empty.
        let mut left = None;
        // Usually there is one packet: the call that receives it also shows whether there are more.
        let (mut next, mut behind) = match self.end(side).has_room_for_two() {
            true => {
                let (next, behind) = wire.receive_two();
                (Some(next), behind)
            }
            false => (None, None),
        };
        for _ in 0..MAX_PACKETS_AT_ONCE {
            if next.is_none() && !self.end(side).has_room() {
                return Drained { found, rest: SocketRest::Unknown };
            }
            let arrival = next.unwrap_or_else(|| wire.receive());
            next = behind.take();
            let bytes = match self.process(side, wire, arrival) {
                Processed::Packet { bytes } => bytes,
                Processed::Nothing => return Drained { found, rest: SocketRest::Nothing },
                Processed::End => return Drained { found: true, rest: SocketRest::End },
            };
            left = match left {
                Some(0) => return Drained { found, rest: SocketRest::Unknown },
                Some(left) => Some(usize::saturating_sub(left, bytes)),
                None if found && self.signals(side).intersects(until) => Some(wire.unread_bytes()),
                None => None,
            };
            found = true;
        }
        self.report_again(side, wire);
        Drained { found, rest: SocketRest::Unknown }
    }

    /// Has those who poll for an edge look again, because packets were left in the socket.
    fn report_again(&mut self, side: Side, wire: &Wire) {
        wire.report_again();
        self.sides[side.index()].observers.each(|observer| {
            if let ObserverKind::Descriptor(raised) = &observer.kind
                && let Some(raised) = raised.upgrade()
            {
                raised.report_again();
            }
        });
    }

    /// Looks at the socket of `side` before a sleep. If that finds nothing, later waits skip the
    /// look.
    pub(super) fn look_first(&mut self, side: Side, until: Signals) {
        let found = self.refresh(side, until);
        self.pair.record_look(side, found);
    }

    /// Receives packets for `side` until one of the signals is set or `waiter` is woken; if neither
    /// comes of what is there, checks for room and for the peer.
    pub(super) fn refresh_up_to_wake(&mut self, side: Side, until: Signals, waiter: &Waiter) {
        let Some(wire) = self.wire(side) else { return self.follow(side) };
        for _ in 0..MAX_PACKETS_AT_ONCE {
            if self.signals(side).intersects(until) || waiter.woken().is_some() {
                return;
            }
            if !self.end(side).has_room() {
                self.update_descriptors(side, &wire);
                return self.check_socket(side, &wire, SocketRest::Unknown);
            }
            match self.process(side, &wire, wire.receive()) {
                Processed::Packet { .. } => {}
                Processed::Nothing => {
                    return self.check_socket(side, &wire, SocketRest::Nothing);
                }
                Processed::End => return,
            }
        }
        self.report_again(side, &wire);
    }

    /// Looks at the socket of `side`: receives packets, and checks for room and for the peer. Returns
    /// whether there was a packet.
    pub(super) fn refresh(&mut self, side: Side, until: Signals) -> bool {
        let Some(wire) = self.wire(side) else {
            self.follow(side);
            return false;
        };
        let Drained { found, rest } = self.drain(side, &wire, until);
        if !self.end(side).has_room() {
            self.update_descriptors(side, &wire);
        }
        self.check_socket(side, &wire, rest);
        found
    }

    /// Checks whether there is room in the socket, and whether the peer is still open.
    fn check_socket(&mut self, side: Side, wire: &Wire, rest: SocketRest) {
        let signals = self.signals(side);
        let settled = Signals::WRITABLE | Signals::WRITE_DISABLED | Signals::PEER_CLOSED;
        let wants_room = !signals.intersects(settled);
        let mut ready =
            Ready { hung_up: signals.contains(Signals::PEER_CLOSED), ..Ready::default() };
        match rest {
            SocketRest::End => return,
            SocketRest::Nothing if !wants_room && !ready.hung_up => return,
            // The end may be behind packets for which there is no room.
            _ if !ready.hung_up => {
                ready = wire.ready(Ready { read: false, write: wants_room, hung_up: true });
            }
            _ => {}
        }
        if ready.hung_up {
            self.lose_peer(side, wire);
            // Receives everything, to find the end.
            let rest = self.drain(side, wire, Signals::empty()).rest;
            if matches!(rest, SocketRest::Nothing) || !self.end(side).has_room() {
                // An answer may be behind unread messages; the call does not wait for that.
                self.end(side).cut_off();
            }
        } else if ready.write {
            self.update(side, Signals::empty(), Signals::WRITABLE);
        }
    }

    /// Checks whether the end, which has moved to another process, was read there.
    fn follow(&mut self, side: Side) {
        let wanted = Ready { hung_up: true, ..Ready::default() };
        if let Some(watch) = self.end(side).read_watch()
            && seqpacket::ready(&*watch, wanted).is_ok_and(|ready| ready.hung_up)
        {
            self.end(side).was_read_elsewhere();
            self.unwire(side);
        }
    }
}
