//! What comes over a socket, taken in when somebody looks.

use super::{End, Locked, Side};
use crate::signals::Signals;
use crate::sync::atomic::Ordering;
use crate::transport::packet::{Content, decode_signals};
use crate::transport::wire::{Arrival, Wire};
use uncopy_os::seqpacket::{self, Ready};

/// Packets that are taken out of a socket in one go: a peer that sends them as quickly as they are
/// taken cannot keep anybody here for ever.
const MAX_PACKETS_AT_ONCE: u32 = 8192;

/// After a look at a socket that found nothing, so many waits go to sleep without one: whoever
/// waits for answers waits for most of them.
const LOOKS_TO_SKIP: u32 = 15;

/// What came of taking in one packet.
enum Received {
    /// So many bytes on the socket.
    Packet {
        bytes: usize,
    },
    Nothing,
    End,
}

/// What came of taking in all there is.
struct Drained {
    /// There was something, if only the end.
    found: bool,
    rest: Rest,
}

/// What is left in the socket.
#[derive(Clone, Copy)]
enum Rest {
    Nothing,
    /// Nothing, for good.
    End,
    Unknown,
}

impl<T: End> Locked<'_, T> {
    /// Takes in what has come for `side`, until it has one of the signals, nothing is left or
    /// there is no room.
    pub(crate) fn pump(&mut self, side: Side, wire: &Wire, until: Signals) {
        let mut left = MAX_PACKETS_AT_ONCE;
        while !self.signals(side).intersects(until) && self.end(side).has_room() {
            if left == 0 {
                return wire.report_again();
            }
            left -= 1;
            if !matches!(self.take(side, wire, wire.receive()), Received::Packet { .. }) {
                return;
            }
        }
    }

    /// Takes in what the wire gave for `side`.
    fn take(&mut self, side: Side, wire: &Wire, arrival: Arrival) -> Received {
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
                    return Received::End;
                }
                bytes
            }
            Arrival::Nothing => return Received::Nothing,
            Arrival::End => {
                self.hang_up(side, wire);
                return Received::End;
            }
        };
        Received::Packet { bytes }
    }

    /// Takes in what has come for `side`, whatever is set already: signals lie behind messages. Of
    /// what comes meanwhile no more than one packet, once one of the signals is set: a peer that
    /// goes on sending keeps no waiter here.
    fn drain(&mut self, side: Side, wire: &Wire, until: Signals) -> Drained {
        let mut found = false;
        // Bytes that were there when one of the signals was set; counted only if that was not all.
        let mut left = None;
        // Mostly there is one packet: the call that receives it says whether that was all.
        let (mut next, mut behind) = match self.end(side).has_room_for_two() {
            true => {
                let (next, behind) = wire.receive_two();
                (Some(next), behind)
            }
            false => (None, None),
        };
        for _ in 0..MAX_PACKETS_AT_ONCE {
            if next.is_none() && !self.end(side).has_room() {
                return Drained { found, rest: Rest::Unknown };
            }
            let arrival = next.unwrap_or_else(|| wire.receive());
            next = behind.take();
            let bytes = match self.take(side, wire, arrival) {
                Received::Packet { bytes } => bytes,
                Received::Nothing => return Drained { found, rest: Rest::Nothing },
                Received::End => return Drained { found: true, rest: Rest::End },
            };
            left = match left {
                Some(0) => return Drained { found, rest: Rest::Unknown },
                Some(left) => Some(usize::saturating_sub(left, bytes)),
                None if found && self.signals(side).intersects(until) => Some(wire.unread_bytes()),
                None => None,
            };
            found = true;
        }
        wire.report_again();
        Drained { found, rest: Rest::Unknown }
    }

    /// Looks at the socket of `side` before anybody sleeps: how that went says whether the next is
    /// to look as well.
    pub(super) fn look_first(&mut self, side: Side, until: Signals) {
        let found = self.refresh(side, until);
        let unused = if found { 0 } else { LOOKS_TO_SKIP };
        self.pair.looks_to_skip[side.index()].store(unused, Ordering::Relaxed);
    }

    /// Looks at the socket of `side`: takes in what has come, and finds out what no packet says.
    /// Whether something had come.
    pub(super) fn refresh(&mut self, side: Side, until: Signals) -> bool {
        let Some(wire) = self.wire(side) else {
            self.follow(side);
            return false;
        };
        let Drained { found, rest } = self.drain(side, &wire, until);
        self.find_out(side, &wire, rest);
        found
    }

    /// Finds out what no packet says: whether there is room, and whether the peer is there.
    fn find_out(&mut self, side: Side, wire: &Wire, rest: Rest) {
        let signals = self.signals(side);
        let settled = Signals::WRITABLE | Signals::WRITE_DISABLED | Signals::PEER_CLOSED;
        let asks_for_room = !signals.intersects(settled);
        let mut ready =
            Ready { hung_up: signals.contains(Signals::PEER_CLOSED), ..Ready::default() };
        match rest {
            Rest::End => return,
            Rest::Nothing if !asks_for_room && !ready.hung_up => return,
            // The end is behind what there is no room for.
            _ if !ready.hung_up => {
                ready = wire.ready(Ready { read: false, write: asks_for_room, hung_up: true });
            }
            _ => {}
        }
        if ready.hung_up {
            self.lose_peer(side, wire);
            // All of it, to find the end.
            let rest = self.drain(side, wire, Signals::empty()).rest;
            if matches!(rest, Rest::Nothing) || !self.end(side).has_room() {
                // An answer may be behind what nobody reads; the call does not wait for that.
                self.end(side).cut_off();
            }
        } else if ready.write {
            self.update(side, Signals::empty(), Signals::WRITABLE);
        }
    }

    /// Looks whether the end, which has gone to another process, was read there.
    fn follow(&mut self, side: Side) {
        let asked = Ready { hung_up: true, ..Ready::default() };
        if let Some(watch) = self.end(side).read_watch()
            && seqpacket::ready(&*watch, asked).is_ok_and(|ready| ready.hung_up)
        {
            self.end(side).was_read_elsewhere();
            self.unwire(side);
        }
    }
}
