//! Frees cycles of endpoints that lie in each other's queues, where no program can reach them.
//!
//! An endpoint is held by a program or lies in exactly one queue (it cannot be duplicated, because
//! no channel has the right to that). So the walk from an endpoint to the endpoint whose queue it
//! lies in, and so on, is a chain. If the chain ends, a program holds the last endpoint and
//! everything on the chain can be read. If it is a cycle, no program can read what is on it. Once
//! nothing in this process can write to it either, the cycle is freed, with everything else in the
//! queues of its endpoints. Until then a writer finds the endpoints unchanged. A writer behind a
//! socket finds them closed, as it does when the kernel frees a cycle of sockets: nothing here would
//! learn that it is gone.
//!
//! No lock covers a walk. Each endpoint counts its moves: if two walks see the same counts, and each
//! endpoint in its queue, the cycle was complete between them, and it stays complete because no program
//! can reach it.

use std::collections::{HashSet, VecDeque};

use super::endpoint::ChannelEnd;
use super::message::MessageBuf;
use crate::peer::{Pair, Side};
use crate::signals::Signals;
use crate::sync::{Arc, Weak};

/// The queue that an endpoint lies in, if it lies in one.
#[derive(Default)]
pub(crate) struct Holder {
    queue_of: Option<(Weak<Pair<ChannelEnd>>, Side)>,
    moves: u32,
}

impl Holder {
    /// Records that the endpoint goes into the queue of `side`.
    pub(crate) fn enter(&mut self, pair: &Arc<Pair<ChannelEnd>>, side: Side) {
        self.queue_of = Some((Arc::downgrade(pair), side));
        self.moves = self.moves.wrapping_add(1);
    }

    /// Records that a program holds the endpoint.
    pub(crate) fn leave(&mut self) {
        if self.queue_of.take().is_some() {
            self.moves = self.moves.wrapping_add(1);
        }
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.queue_of.is_some()
    }
}

/// An endpoint on a walk.
struct CycleStep {
    pair: Arc<Pair<ChannelEnd>>,
    side: Side,
    moves: u32,
}

impl CycleStep {
    fn key(&self) -> (usize, usize) {
        key(&self.pair, self.side)
    }
}

fn key(pair: &Arc<Pair<ChannelEnd>>, side: Side) -> (usize, usize) {
    (Arc::as_ptr(pair).addr(), side.index())
}

/// The endpoints on a walk that ended in a cycle.
struct Walk {
    steps: Vec<CycleStep>,
    /// Number of the first step of the cycle.
    start: usize,
}

impl Walk {
    fn cycle(&self) -> &[CycleStep] {
        &self.steps[self.start..]
    }

    fn is_same_as(&self, other: &Walk) -> bool {
        let [own, others] = [self, other].map(|walk| walk.steps.iter().map(|s| (s.key(), s.moves)));
        own.eq(others)
    }

    /// Whether each endpoint lies in the queue of the next one. One that a program is about to take, from
    /// a message that was read or is the answer of a call, still counts as queued.
    fn is_in_queues(&self) -> bool {
        let queues = self.steps.iter().skip(1).chain(self.cycle().first());
        self.steps.iter().zip(queues).all(|(step, next)| {
            let locked = next.pair.lock();
            locked.is_ok_and(|mut locked| locked.end(next.side).queue.holds(&step.pair, step.side))
        })
    }
}

/// Returns the walk from here if it ends in a cycle; `None` if it ends at a program.
fn find_cycle(pair: &Arc<Pair<ChannelEnd>>, side: Side) -> Option<Walk> {
    let mut steps: Vec<CycleStep> = Vec::new();
    let mut seen = HashSet::new();
    let mut at = (pair.clone(), side);
    while seen.insert(key(&at.0, at.1)) {
        let mut locked = at.0.lock().ok()?;
        let holder = &locked.end(at.1).holder;
        let moves = holder.moves;
        let (next, side) = holder.queue_of.as_ref()?;
        let next = (next.upgrade()?, *side);
        drop(locked);
        let (pair, side) = std::mem::replace(&mut at, next);
        steps.push(CycleStep { pair, side, moves });
    }
    let entry = key(&at.0, at.1);
    let start = steps.iter().position(|step| step.key() == entry)?;
    let walk = Walk { steps, start };
    walk.is_in_queues().then_some(walk)
}

/// Whether a program may write to `step` from this process: its peer is here, and open.
fn has_peer_here(step: &CycleStep) -> bool {
    let Ok(locked) = step.pair.lock() else { return true };
    !locked.is_orphan(step.side) && locked.wire(step.side).is_none()
}

/// Returns the cycle that a walk from here ends in, and the walks from the peers of its endpoints that are
/// in this process, if all of these end in cycles too: then no program can read the cycle, and none here
/// can write to it.
fn find_unreachable(pair: &Arc<Pair<ChannelEnd>>, side: Side) -> Option<Vec<Walk>> {
    let mut cycle = find_cycle(pair, side)?;
    cycle.steps.drain(..cycle.start);
    cycle.start = 0;
    let peers = cycle.steps.iter().filter(|step| has_peer_here(step));
    let walks: Option<Vec<_>> =
        peers.map(|step| find_cycle(&step.pair, step.side.peer())).collect();
    let mut walks = walks?;
    walks.insert(0, cycle);
    Some(walks)
}

/// Breaks the cycle that a walk from the endpoint ends in, if no program can reach it and none here can
/// notice; returns the messages of one of its queues, for the caller to drop.
pub(crate) fn unreachable(pair: &Arc<Pair<ChannelEnd>>, side: Side) -> VecDeque<MessageBuf> {
    let Some(first) = find_unreachable(pair, side) else { return VecDeque::new() };
    let Some(second) = find_unreachable(pair, side) else { return VecDeque::new() };
    let is_complete = first.len() == second.len()
        && first.iter().zip(&second).all(|(first, second)| first.is_same_as(second));
    if !is_complete {
        return VecDeque::new();
    }
    let step = &first[0].steps[0];
    let Ok(mut locked) = step.pair.lock() else { return VecDeque::new() };
    let messages = locked.end(step.side).queue.take();
    locked.update(step.side, Signals::READABLE, Signals::empty());
    messages
}
