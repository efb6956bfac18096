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
//! No lock covers a walk. Each endpoint counts its moves: if two walks see the same counts, the
//! cycle was complete between them, and it stays complete because no program can reach it.

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

/// Returns the cycle that a walk from here ends in; `None` if it ends at a program.
fn find_cycle(pair: &Arc<Pair<ChannelEnd>>, side: Side) -> Option<Vec<CycleStep>> {
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
    Some(steps.split_off(start))
}

/// Whether nothing in this process can write to `step` any more: its peer is closed or behind a
/// socket, or no program can read it from the cycle that it is on or on a chain into.
fn is_unwritable(step: &CycleStep) -> bool {
    let Ok(locked) = step.pair.lock() else { return false };
    let has_peer_here = !locked.is_orphan(step.side) && locked.wire(step.side).is_none();
    drop(locked);
    !has_peer_here || find_cycle(&step.pair, step.side.peer()).is_some()
}

/// Breaks the cycle that the endpoint lies on, if no program can reach it and none here can notice;
/// returns the messages of one of its queues, for the caller to drop.
pub(crate) fn unreachable(pair: &Arc<Pair<ChannelEnd>>, side: Side) -> VecDeque<MessageBuf> {
    let Some(first) = find_cycle(pair, side) else { return VecDeque::new() };
    if !first.iter().all(is_unwritable) {
        return VecDeque::new();
    }
    let Some(second) = find_cycle(pair, side) else { return VecDeque::new() };
    if !first.iter().map(|s| (s.key(), s.moves)).eq(second.iter().map(|s| (s.key(), s.moves))) {
        return VecDeque::new();
    }
    let Ok(mut locked) = first[0].pair.lock() else { return VecDeque::new() };
    let side = first[0].side;
    let messages = locked.end(side).queue.take();
    locked.update(side, Signals::READABLE, Signals::empty());
    messages
}
