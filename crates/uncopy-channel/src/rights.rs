//! Rights of handles.

use super::identity::{Kind, Koid};
use super::status::Status;
use super::sync::atomic::{AtomicU32, Ordering};
use uncopy_os::fork::Generation;

bitflags::bitflags! {
    /// Rights, with Zircon's bits (`zircon/rights.h`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Rights: u32 {
        /// Make another handle to the same object.
        const DUPLICATE = 1;
        /// Send it in a message.
        const TRANSFER = 1 << 1;
        /// Read.
        const READ = 1 << 2;
        /// Write.
        const WRITE = 1 << 3;
        /// Execute.
        const EXECUTE = 1 << 4;
        /// Map.
        const MAP = 1 << 5;
        /// Read properties.
        const GET_PROPERTY = 1 << 6;
        /// Change properties.
        const SET_PROPERTY = 1 << 7;
        /// List its contents.
        const ENUMERATE = 1 << 8;
        /// End it.
        const DESTROY = 1 << 9;
        /// Change its policy.
        const SET_POLICY = 1 << 10;
        /// Read its policy.
        const GET_POLICY = 1 << 11;
        /// Change its user signals.
        const SIGNAL = 1 << 12;
        /// Change its peer's user signals.
        const SIGNAL_PEER = 1 << 13;
        /// Wait for its signals.
        const WAIT = 1 << 14;
        /// Query its properties.
        const INSPECT = 1 << 15;
        /// Manage a socket.
        const MANAGE_SOCKET = 1 << 20;
        /// Change its size.
        const RESIZE = 1 << 22;

        /// Rights of almost every new handle.
        const BASIC = Self::TRANSFER.bits() | Self::DUPLICATE.bits() | Self::WAIT.bits()
            | Self::INSPECT.bits();
        /// Reading and writing.
        const IO = Self::READ.bits() | Self::WRITE.bits();
        /// Rights of a new channel endpoint, which cannot be duplicated.
        const CHANNEL = (Self::BASIC.bits() & !Self::DUPLICATE.bits()) | Self::IO.bits()
            | Self::SIGNAL.bits() | Self::SIGNAL_PEER.bits();
        /// Rights of a new event.
        const EVENT = Self::BASIC.bits() | Self::SIGNAL.bits();
        /// Rights of each end of a new event pair.
        const EVENTPAIR = Self::EVENT.bits() | Self::SIGNAL_PEER.bits();
        /// Rights of a new port: it has no signals.
        const PORT = (Self::BASIC.bits() & !Self::WAIT.bits()) | Self::IO.bits();
        /// Rights of each end of a new fifo.
        const FIFO = Self::BASIC.bits() | Self::IO.bits() | Self::SIGNAL.bits()
            | Self::SIGNAL_PEER.bits();
        /// Rights of each end of a new socket.
        const SOCKET = Self::FIFO.bits() | Self::GET_PROPERTY.bits()
            | Self::SET_PROPERTY.bits() | Self::MANAGE_SOCKET.bits();
        /// Rights of new memory.
        const VMO = Self::BASIC.bits() | Self::IO.bits() | Self::GET_PROPERTY.bits()
            | Self::SET_PROPERTY.bits() | Self::MAP.bits() | Self::SIGNAL.bits();
        /// Rights of a wrapped file descriptor, which has no signals.
        const DESCRIPTOR = (Self::BASIC.bits() & !Self::WAIT.bits()) | Self::IO.bits();

    }
}

impl Rights {
    /// All rights that a handle of this kind can have. Others are removed from a received handle.
    pub(super) fn of(kind: Kind) -> Rights {
        match kind {
            Kind::Descriptor => Rights::DESCRIPTOR,
            Kind::Vmo => Rights::VMO.union(Rights::RESIZE),
            Kind::Channel => Rights::CHANNEL,
            Kind::Event => Rights::EVENT,
            Kind::Port => Rights::PORT,
            Kind::Socket => Rights::SOCKET,
            Kind::EventPair => Rights::EVENTPAIR,
            Kind::Fifo => Rights::FIFO,
        }
    }
}

/// Returns `wanted` if `held` contains it, or all of `held`.
pub(super) fn subset(held: Rights, wanted: Option<Rights>) -> Result<Rights, Status> {
    match wanted {
        None => Ok(held),
        Some(rights) if held.contains(rights) => Ok(rights),
        Some(_) => Err(Status::InvalidArgs),
    }
}

/// Value of a revoked handle, without any right.
const REVOKED: u32 = 1 << 30;
/// Value of a closed handle, without any right.
const CLOSED: u32 = 1 << 29;
/// Bit beside the rights, or beside `REVOKED`: another handle has taken this one's place.
const SUCCEEDED: u32 = 1 << 28;

/// The part of a handle that is not its object: an identity that waits are bound to, and rights.
#[derive(Debug)]
pub struct Grant {
    id: Koid,
    /// The handle belongs to the process that made it.
    generation: Generation,
    /// Bits of `Rights`, or `REVOKED`, or `CLOSED`.
    rights: AtomicU32,
}

impl Grant {
    pub(super) fn new(rights: Rights) -> Grant {
        let (id, generation) = (Koid::next(), Generation::current());
        Grant { id, generation, rights: AtomicU32::new(rights.bits()) }
    }

    pub(super) fn id(&self) -> Koid {
        self.id
    }

    pub(super) fn rights(&self) -> Rights {
        let bits = self.rights.load(Ordering::Relaxed);
        if bits >= CLOSED { Rights::empty() } else { Rights::from_bits_retain(bits & !SUCCEEDED) }
    }

    /// Checks that the handle has all of `needed`, and that this is not a forked child of the process that made it.
    #[inline]
    pub(super) fn check(&self, needed: Rights) -> Result<(), Status> {
        match self.rights.load(Ordering::Relaxed) {
            bits if bits & needed.bits() == needed.bits() && bits < CLOSED => {
                let is_own = self.generation == Generation::current();
                if is_own { Ok(()) } else { Err(Status::BadState) }
            }
            CLOSED.. => Err(Status::BadHandle),
            _ => Err(Status::AccessDenied),
        }
    }

    /// Narrows the rights of a handle that is being sent.
    pub(super) fn narrow(&mut self, rights: Rights) {
        *self.rights.get_mut() = rights.bits();
    }

    /// Marks the handle closed; returns whether it already was.
    pub(super) fn close(&mut self) -> bool {
        std::mem::replace(self.rights.get_mut(), CLOSED) == CLOSED
    }

    /// Returns a grant with the same identity and rights for a handle that takes this one's place.
    /// Waits that are bound to this identity then belong to the new handle.
    pub(super) fn succeed(&self) -> Result<Grant, Status> {
        let mark = |bits| (bits < SUCCEEDED).then_some(bits | SUCCEEDED);
        let marked = self.rights.fetch_update(Ordering::SeqCst, Ordering::SeqCst, mark);
        let bits = marked.map_err(|_| Status::BadHandle)?;
        Ok(Grant { id: self.id, generation: self.generation, rights: AtomicU32::new(bits) })
    }

    /// Checks as [`check`](Self::check) does, under the object's lock, before a wait or call is bound
    /// to the handle. Fails if another handle has taken its place, because nothing would end the
    /// wait then.
    pub(super) fn check_binding(&self, needed: Rights) -> Result<(), Status> {
        if self.is_succeeded() { Err(Status::BadHandle) } else { self.check(needed) }
    }

    /// Whether another handle has taken this one's place: closing this one ends nothing, and its
    /// object does not count it any more.
    pub(super) fn is_succeeded(&self) -> bool {
        self.rights.load(Ordering::SeqCst) & SUCCEEDED != 0
    }

    /// Takes all rights away.
    pub(super) fn revoke(&self) {
        // First, so that no thread sees a handle without rights that is not revoked.
        self.rights.fetch_or(REVOKED, Ordering::SeqCst);
        self.rights.fetch_and(REVOKED | SUCCEEDED, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::{Grant, Rights};
    use crate::Status;

    #[test]
    fn default_rights_are_zircons() {
        for (rights, bits) in [
            (Rights::CHANNEL, 0xf00e),
            (Rights::EVENT, 0xd003),
            (Rights::EVENTPAIR, 0xf003),
            (Rights::PORT, 0x800f),
            (Rights::FIFO, 0xf00f),
            (Rights::SOCKET, 0x10_f0cf),
            (Rights::VMO, 0xd0ef),
        ] {
            assert_eq!(rights.bits(), bits, "{rights:?}");
        }
    }

    #[test]
    fn a_revoked_grant_is_a_bad_handle_and_a_poor_one_is_denied() {
        let grant = Grant::new(Rights::READ);
        assert_eq!(grant.check(Rights::READ), Ok(()));
        assert_eq!(grant.check(Rights::IO), Err(Status::AccessDenied));
        grant.revoke();
        assert_eq!(grant.check(Rights::READ), Err(Status::BadHandle));
        assert_eq!(grant.check(Rights::empty()), Err(Status::BadHandle));
    }

    #[test]
    fn a_grant_is_succeeded_by_one_with_its_rights_and_revoked_alone() {
        let old = Grant::new(Rights::IO);
        let new = old.succeed().unwrap();
        assert_eq!((new.id(), new.rights()), (old.id(), old.rights()));
        assert!(old.is_succeeded() && !new.is_succeeded());
        assert_eq!(old.check(Rights::IO), Ok(()));
        assert_eq!(old.check_binding(Rights::IO), Err(Status::BadHandle));
        assert_eq!(old.succeed().unwrap_err(), Status::BadHandle);
        old.revoke();
        assert!(old.is_succeeded());
        assert_eq!(old.check(Rights::IO), Err(Status::BadHandle));
        assert_eq!(new.check_binding(Rights::IO), Ok(()));
        assert_eq!(old.succeed().unwrap_err(), Status::BadHandle);
    }
}
