//! Events and event pairs: signals and nothing else.

use super::solo::{Solo, solo};
use crate::channel::handle::Kind;
use crate::channel::peer::{End, Locked, Pair, Peered, Side, peered};
use crate::channel::rights::{Grant, Rights};
use crate::channel::signals::Signals;
use crate::channel::sync::Arc;

/// What the program may change.
const USER: Signals = Signals::USER_ALL.union(Signals::SIGNALED);

struct Core {
    solo: Solo,
}

/// Signals that the program sets and clears.
pub struct Event {
    core: Arc<Core>,
    grant: Grant,
}

impl Event {
    /// A new one, with no signal set.
    #[must_use]
    pub fn new() -> Event {
        Event { core: Arc::new(Core { solo: Solo::new() }), grant: Grant::new(Rights::EVENT) }
    }
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}

solo!(Event, Kind::Event, USER);

/// One end of a pair of events: each sets signals at the other.
#[derive(Debug)]
pub struct EventPair(Peered<Bare>);

peered!(EventPair);

/// An end without anything in it.
struct Bare;

impl EventPair {
    /// Both ends.
    #[must_use]
    pub fn pair() -> (EventPair, EventPair) {
        let [a, b] = Peered::pair([Bare, Bare]).map(EventPair);
        (a, b)
    }
}

impl End for Bare {
    const KIND: Kind = Kind::EventPair;
    const RIGHTS: Rights = Rights::EVENTPAIR;
    const INITIAL: Signals = Signals::empty();
    const USER: Signals = USER;
    type Remains = ();

    fn close(_: &Arc<Pair<Bare>>, locked: &mut Locked<'_, Bare>, side: Side) {
        locked.update(side.peer(), Signals::empty(), Signals::PEER_CLOSED);
    }
}
