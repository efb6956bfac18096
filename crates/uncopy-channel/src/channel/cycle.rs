//! Endpoints that lie in each other's queues, where no program can reach them.
//!
//! An endpoint is held by a program or lies in exactly one queue (it cannot be duplicated without
//! a right that none has), so going from an endpoint to the one whose queue it lies in is a walk
//! along a line. If the line ends, the endpoint there is a program's and everything on it can be
//! read. If it goes round, nobody can read what is on the circle. Once the peers of all endpoints
//! on it are closed as well, they are freed, with what else lies in their queues. Until then a
//! writer finds them as they were.
//!
//! There is no lock for all of this. Each endpoint counts its moves; two walks that saw the same
//! counts saw a circle that was whole in between, and such a circle stays.

use std::collections::{HashSet, VecDeque};

use super::endpoint::ChannelEnd;
use super::message::MessageBuf;
use crate::peer::{Pair, Side};
use crate::signals::Signals;
use crate::sync::{Arc, Weak};

/// Whose queue an endpoint lies in.
#[derive(Default)]
pub(crate) struct Holder {
    queue_of: Option<(Weak<Pair<ChannelEnd>>, Side)>,
    moves: u32,
}

impl Holder {
    /// It goes into the queue of `side`.
    pub(crate) fn enter(&mut self, pair: &Arc<Pair<ChannelEnd>>, side: Side) {
        self.queue_of = Some((Arc::downgrade(pair), side));
        self.moves = self.moves.wrapping_add(1);
    }

    /// It is a program's.
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
struct Step {
    pair: Arc<Pair<ChannelEnd>>,
    side: Side,
    moves: u32,
}

impl Step {
    fn key(&self) -> (usize, usize) {
        key(&self.pair, self.side)
    }
}

fn key(pair: &Arc<Pair<ChannelEnd>>, side: Side) -> (usize, usize) {
    (Arc::as_ptr(pair).addr(), side.index())
}

/// The circle that a walk from here ends in; `None` if it ends at a program.
fn circle(pair: &Arc<Pair<ChannelEnd>>, side: Side) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
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
        steps.push(Step { pair, side, moves });
    }
    let entry = key(&at.0, at.1);
    let start = steps.iter().position(|step| step.key() == entry)?;
    Some(steps.split_off(start))
}

/// Nobody can write to `step` any more: its peer is closed, or on this circle or led to it itself.
fn is_silent(step: &Step, members: &HashSet<(usize, usize)>) -> bool {
    let peer = step.side.peer();
    let Ok(locked) = step.pair.lock() else { return false };
    let is_closed = locked.is_orphan(step.side);
    drop(locked);
    is_closed || circle(&step.pair, peer).is_some_and(|other| members.contains(&other[0].key()))
}

/// If the endpoint can be reached by nobody and noticed by nobody, breaks the circle and gives
/// what lay in one queue of it, to be dropped.
pub(crate) fn unreachable(pair: &Arc<Pair<ChannelEnd>>, side: Side) -> VecDeque<MessageBuf> {
    let Some(first) = circle(pair, side) else { return VecDeque::new() };
    let members: HashSet<_> = first.iter().map(Step::key).collect();
    if !first.iter().all(|step| is_silent(step, &members)) {
        return VecDeque::new();
    }
    let Some(second) = circle(pair, side) else { return VecDeque::new() };
    if !first.iter().map(|s| (s.key(), s.moves)).eq(second.iter().map(|s| (s.key(), s.moves))) {
        return VecDeque::new();
    }
    let Ok(mut locked) = first[0].pair.lock() else { return VecDeque::new() };
    let side = first[0].side;
    let messages = locked.end(side).queue.take();
    locked.update(side, Signals::READABLE, Signals::empty());
    messages
}
