//! Compares random operations on channels with a simple model: in one process, over sockets, and with
//! ends that move from one to the other in between.
//!
//! Over sockets the bounds are those of the kernel and not reached here, and no endpoint is sent where
//! it would form a cycle, because the kernel decides when it frees cycles.

use std::collections::VecDeque;
use std::io::IoSlice;

use proptest::prelude::*;
use uncopy::channel::{
    BatchRegion, Bounds, Channel, Handle, Lengths, Object, Oversized, Signals, Status,
};

use crate::channel::socket_pair;

const CHANNELS: usize = 3;
const MAX_MESSAGES: usize = 4;
const MAX_QUEUED_BYTES: usize = 60;

#[derive(Debug, Clone)]
enum Operation {
    Write {
        end: usize,
        pieces: Vec<Vec<u8>>,
        moved: Option<usize>,
    },
    Batch {
        end: usize,
        bodies: Vec<Vec<u8>>,
    },
    Read {
        end: usize,
        room: usize,
        handles: usize,
        discard: bool,
    },
    Close {
        end: usize,
    },
    Signal {
        end: usize,
        set: bool,
        peer: bool,
    },
    /// Moves an end to a socket and back, as to another process.
    Promote {
        end: usize,
        in_message: bool,
    },
}

/// Transport between the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Queues,
    Sockets,
    /// First a queue, then a socket.
    Both,
}

fn operations(transport: Transport) -> impl Strategy<Value = Vec<Operation>> {
    let end = 0..CHANNELS * 2;
    let piece = prop::collection::vec(any::<u8>(), 0..12);
    let pieces = prop::collection::vec(piece, 0..4);
    let moved = prop::option::weighted(0.4, end.clone());
    let operation = prop_oneof![
        6 => (end.clone(), pieces.clone(), moved)
            .prop_map(|(end, pieces, moved)| Operation::Write { end, pieces, moved }),
        1 => (end.clone(), pieces).prop_map(|(end, bodies)| Operation::Batch { end, bodies }),
        6 => (end.clone(), 0..40usize, 0..2usize, any::<bool>()).prop_map(
            |(end, room, handles, discard)| Operation::Read { end, room, handles, discard }
        ),
        1 => end.clone().prop_map(|end| Operation::Close { end }),
        1 => (end.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(end, set, peer)| Operation::Signal { end, set, peer }),
        if transport == Transport::Queues { 0 } else { 2 } => (end, any::<bool>())
            .prop_map(|(end, in_message)| Operation::Promote { end, in_message }),
    ];
    prop::collection::vec(operation, 1..80)
}

/// Holder of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Program,
    Queue,
    Closed,
}

/// A message: bytes, and the end that it carries.
type Message = (Vec<u8>, Option<usize>);

#[derive(Debug)]
struct ModelEnd {
    place: Place,
    queue: VecDeque<Message>,
    user: bool,
}

struct Model {
    ends: Vec<ModelEnd>,
    has_bounds: bool,
}

impl Model {
    fn new(has_bounds: bool) -> Model {
        let end = || ModelEnd { place: Place::Program, queue: VecDeque::new(), user: false };
        Model { ends: (0..CHANNELS * 2).map(|_| end()).collect(), has_bounds }
    }

    fn is_closed(&self, end: usize) -> bool {
        self.ends[end].place == Place::Closed
    }

    fn has_room(&self, end: usize) -> bool {
        let queue = &self.ends[end].queue;
        let bytes: usize = queue.iter().map(|(bytes, _)| bytes.len()).sum();
        !self.has_bounds || (queue.len() < MAX_MESSAGES && bytes < MAX_QUEUED_BYTES)
    }

    fn signals(&self, end: usize) -> Signals {
        let peer = end ^ 1;
        let mut signals = Signals::empty();
        signals.set(Signals::READABLE, !self.ends[end].queue.is_empty());
        signals.set(Signals::PEER_CLOSED, self.is_closed(peer));
        signals.set(Signals::WRITABLE, !self.is_closed(peer) && self.has_room(peer));
        signals.set(Signals::USER_0, self.ends[end].user);
        signals
    }

    fn close(&mut self, end: usize) {
        if self.is_closed(end) {
            return;
        }
        self.ends[end].place = Place::Closed;
        for (_, inner) in std::mem::take(&mut self.ends[end].queue) {
            inner.into_iter().for_each(|inner| self.close(inner));
        }
        if let Some(cycle) = self.cycle(end ^ 1)
            && cycle.iter().all(|member| self.is_unwritable(*member))
        {
            cycle.into_iter().for_each(|member| self.close(member));
        }
    }

    /// Returns the end whose queue `end` lies in.
    fn holder(&self, end: usize) -> Option<usize> {
        (0..self.ends.len()).find(|at| self.ends[*at].queue.iter().any(|m| m.1 == Some(end)))
    }

    /// Returns the cycle of ends that the walk from holder to holder leads to, if it does.
    fn cycle(&self, end: usize) -> Option<Vec<usize>> {
        let mut path = vec![end];
        loop {
            let next = self.holder(*path.last()?)?;
            if let Some(start) = path.iter().position(|at| *at == next) {
                return Some(path.split_off(start));
            }
            path.push(next);
        }
    }

    /// Whether `moved` would lie in a queue that can only be reached through `moved`.
    fn would_be_cycle(&self, moved: usize, at: usize) -> bool {
        let mut holder = Some(at);
        while let Some(at) = holder {
            if at == moved {
                return true;
            }
            holder = self.holder(at);
        }
        false
    }

    /// Whether nothing can write to `end` any more.
    fn is_unwritable(&self, end: usize) -> bool {
        self.is_closed(end ^ 1) || self.cycle(end ^ 1).is_some()
    }

    fn write(&mut self, end: usize, message: Message) -> Result<(), Status> {
        let result = if self.is_closed(end ^ 1) {
            Err(Status::PeerClosed)
        } else if !self.has_room(end ^ 1) {
            Err(Status::ShouldWait)
        } else {
            Ok(())
        };
        match (result, message.1) {
            (Ok(()), moved) => {
                moved.into_iter().for_each(|moved| self.ends[moved].place = Place::Queue);
                self.ends[end ^ 1].queue.push_back(message);
            }
            (Err(_), Some(moved)) => self.close(moved),
            (Err(_), None) => {}
        }
        result
    }

    fn read(&mut self, end: usize, room: Lengths, discard: bool) -> Result<Message, Status> {
        let Some((bytes, moved)) = self.ends[end].queue.front() else {
            let is_closed = self.is_closed(end ^ 1);
            return Err(if is_closed { Status::PeerClosed } else { Status::ShouldWait });
        };
        let size = Lengths { bytes: bytes.len(), handles: usize::from(moved.is_some()) };
        let fits = size.bytes <= room.bytes && size.handles <= room.handles;
        let too_small = Status::BufferTooSmall { bytes: size.bytes, handles: size.handles };
        if !fits && !discard {
            return Err(too_small);
        }
        let message = self.ends[end].queue.pop_front().unwrap();
        if fits {
            message.1.into_iter().for_each(|moved| self.ends[moved].place = Place::Program);
            return Ok(message);
        }
        message.1.into_iter().for_each(|moved| self.close(moved));
        Err(too_small)
    }
}

/// The model and the real ends that a program holds.
struct Both {
    model: Model,
    real: Vec<Option<Channel>>,
    transport: Transport,
    /// Whether there may be a socket between the ends.
    has_moved: [bool; CHANNELS],
    /// Channel over which ends are moved.
    carrier: (Channel, Channel),
}

impl Both {
    fn new(transport: Transport) -> Both {
        let bounds = Bounds::new().messages(MAX_MESSAGES).bytes(MAX_QUEUED_BYTES);
        let pair = || match transport {
            Transport::Queues => Channel::pair_with(bounds),
            Transport::Sockets => socket_pair(),
            Transport::Both => Channel::pair(),
        };
        let real = (0..CHANNELS).map(|_| pair()).flat_map(|(a, b)| [Some(a), Some(b)]).collect();
        let model = Model::new(transport == Transport::Queues);
        let has_moved = [transport == Transport::Sockets; CHANNELS];
        Both { model, real, transport, has_moved, carrier: socket_pair() }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Write { end, pieces, moved } => self.write(end, &pieces, moved),
            Operation::Batch { end, bodies } => self.batch(end, &bodies),
            Operation::Read { end, room, handles, discard } => {
                self.read(end, Lengths { bytes: room, handles }, discard);
            }
            Operation::Close { end } => {
                if self.real[end].take().is_some() {
                    self.model.close(end);
                }
            }
            Operation::Signal { end, set, peer } => self.signal(end, set, peer),
            Operation::Promote { end, in_message } => self.promote(end, in_message),
        }
    }

    fn write(&mut self, end: usize, pieces: &[Vec<u8>], moved: Option<usize>) {
        let moved = moved.filter(|moved| *moved != end && self.real[*moved].is_some());
        if self.real[end].is_none() {
            return;
        }
        let may_be_circle = self.transport == Transport::Queues;
        let moved = moved.filter(|m| may_be_circle || !self.model.would_be_cycle(*m, end ^ 1));
        moved.into_iter().for_each(|moved| self.has_moved[moved / 2] = true);
        let handles = moved.and_then(|moved| self.real[moved].take()).map(Handle::from);
        let regions: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let channel = self.real[end].as_ref().unwrap();
        let found = channel.write(&regions, handles.into_iter().collect());
        assert_eq!(found, self.model.write(end, (pieces.concat(), moved)));
    }

    fn batch(&mut self, end: usize, bodies: &[Vec<u8>]) {
        let Some(channel) = &self.real[end] else { return };
        let regions: Vec<_> = (0..)
            .zip(bodies)
            .map(|(message, bytes)| BatchRegion { bytes, message, handles: 0 })
            .collect();
        let found = channel.write_batch(&regions, &mut vec![]);
        let results = bodies.iter().map(|body| self.model.write(end, (body.clone(), None)));
        // The model continues after a failure, so it is only compared up to there.
        let mut sent = 0;
        let mut failure = None;
        for result in results {
            match result {
                Ok(()) => sent += 1,
                Err(status) => {
                    failure = Some(status);
                    break;
                }
            }
        }
        match failure {
            None => assert_eq!(found, Ok(sent)),
            Some(status) => {
                let error = found.unwrap_err();
                assert_eq!((error.status, error.sent), (status, sent));
            }
        }
    }

    fn read(&mut self, end: usize, room: Lengths, discard: bool) {
        let Some(channel) = &self.real[end] else { return };
        let oversized = if discard { Oversized::Discard } else { Oversized::Keep };
        let found = channel.read_fitting(room, oversized);
        match (found, self.model.read(end, room, discard)) {
            (Ok(mut message), Ok((bytes, moved))) => {
                assert_eq!(&*message, bytes);
                let handle = message.take_handles().pop();
                assert_eq!(handle.is_some(), moved.is_some());
                if let (Some(handle), Some(moved)) = (handle, moved) {
                    self.real[moved] = Some(Channel::try_from(handle).unwrap());
                }
            }
            (found, expected) => {
                assert_eq!(found.map(drop).unwrap_err(), expected.map(drop).unwrap_err());
            }
        }
    }

    fn signal(&mut self, end: usize, set: bool, peer: bool) {
        let Some(channel) = &self.real[end] else { return };
        let user = |wanted: bool| if wanted { Signals::USER_0 } else { Signals::empty() };
        let (clear, set_bits) = (user(!set), user(set));
        if !peer {
            assert_eq!(channel.signal(clear, set_bits), Ok(()));
            self.model.ends[end].user = set;
        } else if self.model.is_closed(end ^ 1) {
            assert_eq!(channel.signal_peer(clear, set_bits), Err(Status::PeerClosed));
        } else {
            assert_eq!(channel.signal_peer(clear, set_bits), Ok(()));
            self.model.ends[end ^ 1].user = set;
        }
    }

    fn promote(&mut self, end: usize, in_message: bool) {
        let Some(channel) = self.real[end].take() else { return };
        // An end with unread messages from a socket can only move in a message.
        let has_unread = self.has_moved[end / 2] && !self.model.ends[end].queue.is_empty();
        self.has_moved[end / 2] = true;
        self.real[end] = Some(if in_message || has_unread {
            self.carrier.0.write(&[], vec![channel.into()]).unwrap();
            let handle = self.carrier.1.read().unwrap().take_handles().remove(0);
            Channel::try_from(handle).unwrap()
        } else {
            self.model.ends[end].user = false;
            Channel::from_fd(channel.into_fd().unwrap()).unwrap()
        });
    }

    fn compare(&self) {
        for (end, channel) in self.real.iter().enumerate() {
            let place = self.model.ends[end].place;
            assert_eq!(channel.is_some(), place == Place::Program, "end {end}");
            if let Some(channel) = channel {
                assert_eq!(channel.signals(), self.model.signals(end), "end {end}");
            }
        }
    }
}

fn check(transport: Transport, operations: Vec<Operation>) {
    let mut both = Both::new(transport);
    for operation in operations {
        both.apply(operation);
        both.compare();
    }
}

proptest! {
    #[test]
    fn queues_behave_like_the_model(operations in operations(Transport::Queues)) {
        check(Transport::Queues, operations);
    }

    #[test]
    fn sockets_behave_like_the_model(operations in operations(Transport::Sockets)) {
        check(Transport::Sockets, operations);
    }

    #[test]
    fn ends_that_move_behave_like_the_model(
        operations in operations(Transport::Both)
    ) {
        check(Transport::Both, operations);
    }
}
