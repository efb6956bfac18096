//! Signals that several processes have: memory that says which are set, and a doorbell.
//!
//! Each signal has a byte of its own in the memory, so that setting one is one `pwrite(2)` and
//! needs no agreement; the memory is never mapped, so that nobody can take it away under a reader.
//! The doorbell is an eventfd that everybody rings and nobody reads: each ring is an edge for every
//! epoll set it is in.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::Status;
use crate::signals::Signals;
use crate::sync::{Mutex, lock};
use uncopy_os::epoll::{self, Interest};
use uncopy_os::{eventfd, file, memfd, seqpacket};

/// Signals of one object.
const SIGNALS: usize = 32;
/// Signals that processes tell each other of.
const SHARED_SIGNALS: Signals = Signals::USER_ALL.union(Signals::SIGNALED);
/// Bytes of memory for two ends.
const MEMORY_BYTES: u64 = 2 * SIGNALS as u64;

/// One end's signals among processes.
pub(super) struct Shared {
    fds: SharedFds,
    offset: u64,
    /// A socket whose peer the holders of the other end have.
    life: Mutex<Option<OwnedFd>>,
    /// PollTarget and life, at their edges. This process's own.
    set: Arc<OwnedFd>,
}

/// Memory and doorbell, before they belong to an end.
pub(super) struct SharedFds {
    pub(super) memory: OwnedFd,
    pub(super) doorbell: OwnedFd,
}

impl SharedFds {
    pub(super) fn new() -> Result<SharedFds, Status> {
        Ok(SharedFds { memory: memfd::create(MEMORY_BYTES)?, doorbell: eventfd::create()? })
    }

    /// From what another process sent, if it is what it should be.
    pub(super) fn arrive(memory: OwnedFd, doorbell: OwnedFd) -> Option<SharedFds> {
        // Nobody can make it shorter later.
        let is_memory = memfd::size(&memory).is_ok_and(|size| size >= MEMORY_BYTES)
            && memfd::is_fixed(&memory).is_ok_and(|is_fixed| is_fixed);
        let is_doorbell = eventfd::is_anonymous(&doorbell);
        (is_memory && is_doorbell).then_some(SharedFds { memory, doorbell })
    }

    pub(super) fn duplicate(&self) -> Result<SharedFds, Status> {
        let (memory, doorbell) = (file::duplicate(&self.memory)?, file::duplicate(&self.doorbell)?);
        Ok(SharedFds { memory, doorbell })
    }
}

impl Shared {
    /// The signals of end `end` (0 or 1).
    pub(super) fn new(fds: SharedFds, end: usize, life: Option<OwnedFd>) -> Result<Shared, Status> {
        let set = Arc::new(epoll::create()?);
        let edge = Interest { read: true, edge: true, ..Interest::default() };
        epoll::add(&*set, &fds.doorbell, 0, edge)?;
        if let Some(life) = &life {
            epoll::add(&*set, life, 1, edge)?;
        }
        let life = Mutex::new(life);
        Ok(Shared { fds, offset: (end * SIGNALS) as u64, life, set })
    }

    /// The set to wait for.
    pub(super) fn set(&self) -> &Arc<OwnedFd> {
        &self.set
    }

    /// What another process needs.
    pub(super) fn fds(&self) -> Result<SharedFds, Status> {
        self.fds.duplicate()
    }

    pub(super) fn life(&self) -> Result<Option<OwnedFd>, Status> {
        Ok(lock(&self.life).as_ref().map(file::duplicate).transpose()?)
    }

    /// This process has the end no longer.
    pub(super) fn end(&self) {
        if let Some(life) = lock(&self.life).take() {
            epoll::remove(&*self.set, &life);
        }
    }

    /// Sets and clears; others hear of it when the doorbell [rings](Self::ring).
    pub(super) fn write(&self, clear: Signals, set: Signals) -> Result<(), Status> {
        for (signals, value) in [(clear.difference(set), [0]), (set, [1])] {
            for signal in signals.intersection(SHARED_SIGNALS).iter() {
                let at = self.offset + u64::from(signal.bits().trailing_zeros());
                memfd::write_all_at(&self.fds.memory, &value, at)?;
            }
        }
        Ok(())
    }

    pub(super) fn ring(&self) {
        eventfd::notify(&self.fds.doorbell);
    }

    /// The signals now, and what of `old` no other process tells. Whoever waits at
    /// the set sleeps on until the next ring.
    pub(super) fn read(&self, old: Signals) -> Signals {
        let _ = epoll::wait(&*self.set, Some(std::time::Duration::ZERO));
        let mut bytes = [0; SIGNALS];
        let mut signals = old.difference(SHARED_SIGNALS);
        if memfd::read_exact_at(&self.fds.memory, &mut bytes, self.offset).is_err() {
            // Its size is fixed; whatever else went wrong, nothing is said about anything.
            return old;
        }
        for (bit, byte) in bytes.iter().enumerate() {
            let signal = Signals::from_bits_retain(1 << bit);
            if *byte != 0 && SHARED_SIGNALS.contains(signal) {
                signals |= signal;
            }
        }
        let is_orphan = lock(&self.life).as_ref().is_some_and(|life| {
            seqpacket::ready(life.as_fd(), seqpacket::Ready::ALL).is_ok_and(|ready| ready.hung_up)
        });
        signals.set(Signals::PEER_CLOSED, is_orphan || old.contains(Signals::PEER_CLOSED));
        signals
    }
}
