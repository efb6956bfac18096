//! Events and event pairs: objects that only have signals.

use std::os::fd::OwnedFd;

use super::Object;
use super::interprocess::{Shared, SharedFds};
use super::solo::{Solo, lone, solo};
use crate::Status;
use crate::identity::{Kind, Koid};
use crate::rights::{Grant, Rights};
use crate::signals::Signals;
use crate::sync::{Arc, Mutex, lock};
use crate::transport::parcel::{Parts, Unfit};
use uncopy_os::seqpacket;

/// Signals that the program may change.
const USER: Signals = Signals::USER_ALL.union(Signals::SIGNALED);

struct Core {
    solo: Arc<Solo>,
}

/// Signals that the program sets and clears. Handles in other processes see them too, except a signal
/// that is set and cleared again before they look.
pub struct Event {
    core: Arc<Core>,
    grant: Grant,
}

impl Event {
    /// Makes an event with no signal set.
    #[must_use]
    pub fn new() -> Event {
        Event { core: Arc::new(Core { solo: Solo::new() }), grant: Grant::new(Rights::EVENT) }
    }

    /// Returns the parts to send to another process.
    pub(crate) fn depart(&self) -> Result<Parts, Status> {
        let solo = &self.core.solo;
        if solo.shared().is_none() {
            solo.share(Shared::new(SharedFds::new()?, 0, None)?, true)?;
        }
        let fds = solo.shared().ok_or(Status::BadState)?.fds()?;
        Ok(Parts { fds: vec![fds.memory, fds.doorbell], extra: 0 })
    }

    /// Makes an event of what another process sent.
    pub(crate) fn arrive(parts: Parts, rights: Rights) -> Result<Event, Unfit> {
        let Ok([memory, doorbell]) = <[OwnedFd; 2]>::try_from(parts.fds) else {
            return Err(Unfit::Broken);
        };
        let solo = Solo::new();
        let fds = SharedFds::arrive(memory, doorbell)?;
        solo.share(Shared::new(fds, 0, None)?, false)?;
        solo.refresh();
        Ok(Event { core: Arc::new(Core { solo }), grant: Grant::new(rights) })
    }
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}

lone!(Event);
solo!(Event, Kind::Event, USER);

/// Both ends; each may also be in other processes.
struct Ends {
    solos: [Arc<Solo>; 2],
    /// Number of handles in this process.
    handles: Mutex<[u32; 2]>,
}

/// One end of a pair of events: each sets signals at the other.
pub struct EventPair {
    ends: Arc<Ends>,
    side: usize,
    grant: Grant,
}

impl EventPair {
    /// Makes a pair and returns both ends.
    #[must_use]
    pub fn pair() -> (EventPair, EventPair) {
        let solos = [Solo::new(), Solo::new()];
        let ends = Arc::new(Ends { solos, handles: Mutex::new([1, 1]) });
        let end =
            |side| EventPair { ends: ends.clone(), side, grant: Grant::new(Rights::EVENTPAIR) };
        (end(0), end(1))
    }

    /// Returns the parts to send to another process.
    pub(crate) fn depart(&self) -> Result<Parts, Status> {
        let solo = self.solo();
        if solo.shared().is_none() {
            self.ends.share()?;
        }
        let shared = solo.shared().ok_or(Status::BadState)?;
        let fds = shared.fds()?;
        let life = shared.life()?.ok_or(Status::BadState)?;
        Ok(Parts { fds: vec![fds.memory, fds.doorbell, life], extra: (self.side as u64) << 32 })
    }

    /// Makes an end of what another process sent.
    pub(crate) fn arrive(parts: Parts, rights: Rights) -> Result<EventPair, Unfit> {
        let Ok([memory, doorbell, life]) = <[OwnedFd; 3]>::try_from(parts.fds) else {
            return Err(Unfit::Broken);
        };
        let side = (parts.extra >> 32) as usize;
        if side >= 2 || !seqpacket::is_seqpacket(&life) {
            return Err(Unfit::Broken);
        }
        let fds = SharedFds::arrive(memory, doorbell)?;
        let solos = [Solo::new(), Solo::new()];
        let other = side ^ 1;
        solos[other].share(Shared::new(fds.duplicate()?, other, None)?, false)?;
        solos[side].share(Shared::new(fds, side, Some(life))?, false)?;
        solos[side].refresh();
        let mut handles = [0; 2];
        handles[side] = 1;
        let ends = Arc::new(Ends { solos, handles: Mutex::new(handles) });
        Ok(EventPair { ends, side, grant: Grant::new(rights) })
    }

    #[inline]
    fn solo(&self) -> &Arc<Solo> {
        &self.ends.solos[self.side & 1]
    }

    fn other(&self) -> &Arc<Solo> {
        &self.ends.solos[(self.side ^ 1) & 1]
    }

    fn related(&self) -> Option<Koid> {
        Some(self.other().koid)
    }

    fn change_other(&self, clear: Signals, set: Signals) -> Result<(), Status> {
        if !USER.contains(clear.union(set)) {
            return Err(Status::InvalidArgs);
        }
        // Also fails in a forked child.
        self.other().change(USER, Signals::empty(), Signals::empty())?;
        if self.signals().contains(Signals::PEER_CLOSED) {
            return Err(Status::PeerClosed);
        }
        self.other().change(USER, clear, set)
    }

    fn count_handles(&self) -> usize {
        lock(&self.ends.handles)[self.side & 1] as usize
    }

    fn reissued(&self, grant: Grant) -> Result<EventPair, Status> {
        let mut handles = lock(&self.ends.handles);
        if handles[self.side & 1] == 0 {
            return Err(Status::BadHandle);
        }
        handles[self.side & 1] += 1;
        self.inherited(grant)
    }

    fn inherited(&self, grant: Grant) -> Result<EventPair, Status> {
        Ok(EventPair { ends: self.ends.clone(), side: self.side, grant })
    }
}

impl Ends {
    /// Moves the signals of both ends to memory that other processes can have.
    fn share(&self) -> Result<(), Status> {
        // Locked, so that no thread closes the last handle of an end or shares the ends meanwhile.
        let handles = lock(&self.handles);
        if self.solos[0].shared().is_some() {
            return Ok(());
        }
        let fds = SharedFds::new()?;
        let (a, b) = seqpacket::pair()?;
        let shared = |end: usize, life| {
            // A closed end keeps no socket, so that the other end sees it closed.
            Shared::new(fds.duplicate()?, end, (handles[end] > 0).then_some(life))
        };
        Solo::share_both(&self.solos, [shared(0, a)?, shared(1, b)?])
    }
}

impl Drop for EventPair {
    fn drop(&mut self) {
        let (id, is_succeeded) = (self.grant.id(), self.grant.is_succeeded());
        let mut is_own = false;
        self.solo().observers(&mut |_, observers| {
            if !is_succeeded {
                observers.cancel(id);
            }
            is_own = true;
        });
        if !is_own {
            // In a forked child: another thread may have been changing it, so it is not dropped.
            std::mem::forget(self.ends.clone());
            return;
        }
        if is_succeeded {
            return;
        }
        let mut handles = lock(&self.ends.handles);
        handles[self.side & 1] -= 1;
        if handles[self.side & 1] > 0 {
            return;
        }
        match self.solo().shared() {
            None => drop(self.other().update(Signals::empty(), Signals::PEER_CLOSED)),
            Some(shared) => {
                // Other processes may still have it; the kernel knows.
                shared.end();
                self.other().refresh();
            }
        }
    }
}

solo!(EventPair, Kind::EventPair, USER);
