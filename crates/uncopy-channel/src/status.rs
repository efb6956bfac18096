//! Statuses: the errors of operations on channels and other objects.

use std::io;

use crate::memory::{Filling, TooLong};
use uncopy_core::Errno;

/// Error of an operation, with Zircon's names (`zircon/errors.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Status {
    /// The object cannot do this, or an endpoint was to be written into itself.
    #[error("the object does not support this; see the operation's documentation")]
    NotSupported,
    /// No descriptor or other resource is available.
    #[error(
        "no resources; raise the limit on open files (ulimit -n) or close some, and move ends that lie in each other's \
         queues one at a time"
    )]
    NoResources,
    /// No memory is available.
    #[error("no memory; free some and try again")]
    NoMemory,
    /// An argument is invalid.
    #[error("an argument is invalid; see the operation's documentation")]
    InvalidArgs,
    /// The handle does not exist any more: it was closed, revoked, or moved.
    #[error("the handle was closed, revoked or moved; use one that is open")]
    BadHandle,
    /// The handle's object is of another kind.
    #[error("the handle is of another kind; pass a handle of the expected kind")]
    WrongType,
    /// A length, count or offset is outside its limits.
    #[error("a length or count exceeds its limit; split the message")]
    OutOfRange,
    /// The next message does not fit; it stays queued unless it was read with discard.
    #[error("the message needs {bytes} bytes and {handles} handles; read with that much room")]
    BufferTooSmall {
        /// Bytes of the message.
        bytes: usize,
        /// Handles of the message.
        handles: usize,
    },
    /// The object's state does not allow this: disabled writing, or it belongs to the process that
    /// forked this one.
    #[error("the object is in a state that forbids this; make a new one")]
    BadState,
    /// The deadline passed.
    #[error("the deadline passed; wait longer")]
    TimedOut,
    /// The queue is empty (reading) or full (writing).
    #[error("the queue is empty or full; wait for READABLE or WRITABLE and try again")]
    ShouldWait,
    /// The handle was closed or moved away meanwhile.
    #[error("canceled, because the handle was closed or moved; use a handle that is open")]
    Canceled,
    /// The other end is closed.
    #[error("the other end is closed; make a new pair")]
    PeerClosed,
    /// Nothing has that name or key.
    #[error("not found; check the key")]
    NotFound,
    /// The handle lacks a right.
    #[error("the handle lacks a required right; use a handle that has it")]
    AccessDenied,
    /// A message is lost, because its descriptors could not be opened: here, or where the end was that came with it in its
    /// queue. Other messages are not affected.
    #[error(
        "a message was lost: this process, which may open {limit} files (RLIMIT_NOFILE), or one that had it before, could \
         not open its descriptors; close some, or raise the limit (ulimit -n)"
    )]
    DescriptorLimit {
        /// Limit on open files.
        limit: u64,
    },
    /// Memory was refused, for a reason that is given.
    #[error(transparent)]
    Memory(MemoryRefusal),
    /// The system refused a call.
    #[error("the system refused a call ({0}); see errno(3)")]
    Io(Errno),
}

/// Why memory cannot be lent, sealed or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryRefusal {
    /// Another holder may still change its size or contents.
    #[error(
        "the memory is not sealed, so its holders may change it; copy it out, or have it sealed"
    )]
    NotSealed,
    /// It was to be written, and its contents are sealed.
    #[error("the contents of the memory are sealed; make new memory")]
    Sealed,
    /// It was to be sealed, and somebody can still write to its pages.
    #[error(
        "the memory is mapped for writing, or a device or pipe holds its pages; end that first"
    )]
    InUse,
    /// It was made so that it takes no seals.
    #[error("the memory takes no seals; make it with Vmo::new")]
    Unsealable,
    /// It consists of huge pages, which may be missing on access.
    #[error("the memory consists of huge pages; make it with Vmo::new")]
    HugePages,
    /// It is a file of a mounted filesystem.
    #[error("the memory is a file of a mounted filesystem; make it with Vmo::new")]
    NamedFile,
    /// It is larger than the limit of the receiver.
    #[error("the memory has {bytes} bytes, more than the limit of {limit}; raise the limit")]
    TooLarge {
        /// Size of the memory.
        bytes: u64,
        /// Limit of the receiver.
        limit: u64,
    },
    /// Some of it is not allocated; the reader would pay for it.
    #[error("only {allocated} of {bytes} bytes are allocated; have its owner commit them")]
    HasHoles {
        /// Size of the memory.
        bytes: u64,
        /// Bytes that are allocated.
        allocated: u64,
    },
}

impl MemoryRefusal {
    /// Returns the status of Zircon's that is nearest.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            MemoryRefusal::NotSealed | MemoryRefusal::InUse | MemoryRefusal::HasHoles { .. } => {
                Status::BadState
            }
            MemoryRefusal::Sealed => Status::AccessDenied,
            MemoryRefusal::Unsealable | MemoryRefusal::HugePages | MemoryRefusal::NamedFile => {
                Status::NotSupported
            }
            MemoryRefusal::TooLarge { .. } => Status::OutOfRange,
        }
    }
}

impl From<MemoryRefusal> for Status {
    fn from(refusal: MemoryRefusal) -> Status {
        Status::Memory(refusal)
    }
}

impl Status {
    /// Returns the status of a message whose descriptors could not be opened.
    #[cold]
    pub(crate) fn descriptor_limit() -> Status {
        Status::DescriptorLimit { limit: uncopy_os::directory::descriptor_limit() }
    }

    /// Returns Zircon's number, always negative (`zx_status_t`).
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Status::NotSupported => -2,
            Status::NoResources | Status::DescriptorLimit { .. } => -3,
            Status::NoMemory => -4,
            Status::InvalidArgs => -10,
            Status::BadHandle => -11,
            Status::WrongType => -12,
            Status::OutOfRange => -14,
            Status::BufferTooSmall { .. } => -15,
            Status::BadState => -20,
            Status::TimedOut => -21,
            Status::ShouldWait => -22,
            Status::Canceled => -23,
            Status::PeerClosed => -24,
            Status::NotFound => -25,
            Status::AccessDenied => -30,
            Status::Memory(refusal) => refusal.status().code(),
            Status::Io(_) => -40,
        }
    }
}

impl From<Errno> for Status {
    fn from(errno: Errno) -> Status {
        match errno {
            Errno::EMFILE | Errno::ENFILE | Errno::ETOOMANYREFS => Status::NoResources,
            Errno::ENOMEM | Errno::ENOSPC | Errno::ENOBUFS => Status::NoMemory,
            other => Status::Io(other),
        }
    }
}

impl From<TooLong> for Status {
    fn from(_: TooLong) -> Status {
        Status::InvalidArgs
    }
}

/// Keeps the number of a system error; every other status becomes the inner error, which
/// [`get_ref`](io::Error::get_ref) returns.
impl From<Status> for io::Error {
    fn from(status: Status) -> io::Error {
        let plain = if let Status::Memory(refusal) = status { refusal.status() } else { status };
        let kind = match plain {
            Status::Io(errno) => return io::Error::from_raw_os_error(errno.raw()),
            Status::NotSupported => io::ErrorKind::Unsupported,
            Status::NoMemory => io::ErrorKind::OutOfMemory,
            Status::InvalidArgs
            | Status::BadHandle
            | Status::WrongType
            | Status::OutOfRange
            | Status::BufferTooSmall { .. } => io::ErrorKind::InvalidInput,
            Status::TimedOut => io::ErrorKind::TimedOut,
            Status::ShouldWait => io::ErrorKind::WouldBlock,
            Status::PeerClosed => io::ErrorKind::BrokenPipe,
            Status::NotFound => io::ErrorKind::NotFound,
            Status::AccessDenied => io::ErrorKind::PermissionDenied,
            Status::NoResources
            | Status::DescriptorLimit { .. }
            | Status::BadState
            | Status::Canceled
            | Status::Memory(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, status)
    }
}

/// Writes the bytes of one message into the memory that is sent.
///
/// Sealed: implemented for every closure of this signature, and for nothing else. It runs without any
/// lock and before any handle is consumed. It must append exactly as many bytes as were announced,
/// otherwise the write fails with [`Status::InvalidArgs`]; its error becomes the error of the write.
pub trait Fill: FnOnce(&mut Filling<'_>) -> Result<(), Status> {}

impl<F: FnOnce(&mut Filling<'_>) -> Result<(), Status>> Fill for F {}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use super::Status;
    use uncopy_core::Errno;

    #[test]
    fn statuses_become_errors_of_the_standard_library() {
        for (status, kind) in [
            (Status::ShouldWait, ErrorKind::WouldBlock),
            (Status::TimedOut, ErrorKind::TimedOut),
            (Status::PeerClosed, ErrorKind::BrokenPipe),
            (Status::AccessDenied, ErrorKind::PermissionDenied),
            (Status::BufferTooSmall { bytes: 9, handles: 1 }, ErrorKind::InvalidInput),
            (Status::NoMemory, ErrorKind::OutOfMemory),
        ] {
            let error = io::Error::from(status);
            assert_eq!((error.kind(), error.to_string()), (kind, status.to_string()));
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Status>());
            assert_eq!(inner, Some(&status));
        }
        let error = io::Error::from(Status::Io(Errno::EIO));
        assert_eq!(error.raw_os_error(), Some(Errno::EIO.raw()));
    }

    #[test]
    fn error_numbers_become_statuses() {
        for (errno, status) in [
            (Errno::EMFILE, Status::NoResources),
            (Errno::ENFILE, Status::NoResources),
            (Errno::ETOOMANYREFS, Status::NoResources),
            (Errno::ENOBUFS, Status::NoMemory),
            (Errno::ENOMEM, Status::NoMemory),
            (Errno::EIO, Status::Io(Errno::EIO)),
        ] {
            assert_eq!(Status::from(errno), status);
            assert!(status.code() < 0 && status.to_string().contains(';'));
        }
    }
}
