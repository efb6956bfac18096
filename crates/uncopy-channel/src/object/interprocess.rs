//! Signals that several processes share: memory with the signals that are set, and a doorbell.
//!
//! Each signal has its own byte in the memory, so that setting one is one `pwrite(2)` and needs no
//! lock. The memory is never mapped, so that no process can truncate it under a reader. The doorbell
//! is an eventfd that is always readable: each ring is an edge for every epoll set that contains it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::Status;
use crate::signals::Signals;
use crate::sync::{Mutex, lock};
use crate::transport::parcel::Unfit;
use uncopy_os::epoll::{self, Interest};
use uncopy_os::{eventfd, file, memfd, seqpacket};

/// Number of signals of one object.
const SIGNALS: usize = 32;
/// Signals that are shared among processes.
const SHARED_SIGNALS: Signals = Signals::USER_ALL.union(Signals::SIGNALED);
/// Size of the memory for two ends.
const MEMORY_BYTES: u64 = 2 * SIGNALS as u64;

/// Shared signals of one end.
pub(super) struct Shared {
    fds: SharedFds,
    offset: u64,
    /// A socket whose peer is held by the processes that have the other end.
    life: Mutex<Option<OwnedFd>>,
    /// PollTarget and life, at their edges. This process's own.
    set: Arc<OwnedFd>,
}

/// Descriptors of memory and doorbell, which several processes have.
pub(super) struct SharedFds {
    pub(super) memory: OwnedFd,
    pub(super) doorbell: OwnedFd,
}

impl SharedFds {
    pub(super) fn new() -> Result<SharedFds, Status> {
        Ok(SharedFds {
            memory: memfd::create(MEMORY_BYTES)?,
            doorbell: eventfd::create_doorbell()?,
        })
    }

    /// Checks the descriptors that another process sent.
    pub(super) fn arrive(memory: OwnedFd, doorbell: OwnedFd) -> Result<SharedFds, Unfit> {
        // Sealed, so that no process can make it shorter later.
        let is_memory = memfd::size(&memory).is_ok_and(|size| size >= MEMORY_BYTES)
            && memfd::is_fixed(&memory).is_ok_and(|is_fixed| is_fixed);
        if is_memory && eventfd::is_anonymous(&doorbell).map_err(Status::from)? {
            Ok(SharedFds { memory, doorbell })
        } else {
            Err(Unfit::Broken)
        }
    }

    pub(super) fn duplicate(&self) -> Result<SharedFds, Status> {
        let (memory, doorbell) = (file::duplicate(&self.memory)?, file::duplicate(&self.doorbell)?);
        Ok(SharedFds { memory, doorbell })
    }
}

impl Shared {
    /// Makes the shared signals of end `end` (0 or 1).
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

    /// Returns the epoll set to wait for.
    pub(super) fn set(&self) -> &Arc<OwnedFd> {
        &self.set
    }

    /// Returns duplicates of the descriptors for another process.
    pub(super) fn fds(&self) -> Result<SharedFds, Status> {
        self.fds.duplicate()
    }

    pub(super) fn life(&self) -> Result<Option<OwnedFd>, Status> {
        Ok(lock(&self.life).as_ref().map(file::duplicate).transpose()?)
    }

    /// Records that this process does not have the end any more.
    pub(super) fn end(&self) {
        if let Some(life) = lock(&self.life).take() {
            epoll::remove(&*self.set, &life);
        }
    }

    /// Sets and clears signals; [`ring`](Self::ring) then notifies the other processes.
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
        eventfd::ring(&self.fds.doorbell);
    }

    /// Returns the current shared signals, with the signals of `old` that are not shared. Consumes the
    /// events of the epoll set.
    pub(super) fn read(&self, old: Signals) -> Signals {
        let _ = epoll::wait(&*self.set, Some(std::time::Duration::ZERO));
        let mut bytes = [0; SIGNALS];
        let mut signals = old.difference(SHARED_SIGNALS);
        if memfd::read_exact_at(&self.fds.memory, &mut bytes, self.offset).is_err() {
            // Its size is fixed, so this is a rare error of the system: the signals stay.
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
