//! Finds out which side of a copy an error came from.

use std::os::fd::BorrowedFd;

use uncopy_core::Errno;
use uncopy_os::AlignedBuffer;
use uncopy_os::transfer;

/// Which of the two files an operation was on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
    /// One call reads and writes.
    Both,
}

/// Why a step moved nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) errno: Errno,
    pub(crate) side: Side,
}

impl Refused {
    pub(crate) fn at_source(errno: Errno) -> Refused {
        Refused { errno, side: Side::Source }
    }

    pub(crate) fn at_destination(errno: Errno) -> Refused {
        Refused { errno, side: Side::Destination }
    }

    /// Whether the source was what failed. Where one call reads and writes, the error number shows it:
    /// ENOSPC, EDQUOT, EROFS and EFBIG are answers to writes (`write(2)`, `open(2)`). An I/O error is the
    /// source's if the same bytes cannot be read alone either. One of the source that does not come
    /// again counts as the destination's, which ends more and loses nothing.
    pub(crate) fn is_of_source(self, can_read: impl FnOnce() -> bool) -> bool {
        match (self.side, self.errno) {
            (Side::Source, _) => true,
            (Side::Destination, _) => false,
            (Side::Both, Errno::EIO) => !can_read(),
            (Side::Both, errno) => errno == Errno::ESTALE,
        }
    }
}

/// A call on both files.
impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused { errno, side: Side::Both }
    }
}

impl From<Refused> for Errno {
    fn from(refused: Refused) -> Errno {
        refused.errno
    }
}

/// Reads bytes of the source (offset, length) and discards them.
pub(crate) fn can_read(source: BorrowedFd<'_>, offset: u64, length: u64) -> bool {
    const MAX_BYTES: u64 = 64 << 10;
    let Ok(mut buffer) = AlignedBuffer::new(MAX_BYTES as usize) else { return false };
    let (mut at, end) = (offset, offset.saturating_add(length));
    while at < end {
        let most = (end - at).min(MAX_BYTES) as usize;
        match transfer::read_at(source, &mut buffer[..most], at) {
            Ok(0) => return true,
            Ok(n) => at += n as u64,
            Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_shows_the_side_otherwise_the_number_or_another_look() {
        use Errno as E;
        for (errno, if_readable, if_not) in [
            (E::ENOSPC, false, false),
            (E::EDQUOT, false, false),
            (E::EROFS, false, false),
            (E::EFBIG, false, false),
            (E::EIO, false, true),
            (E::ESTALE, true, true),
            (E::ENOMEM, false, false),
        ] {
            for can_read in [true, false] {
                let expected = if can_read { if_readable } else { if_not };
                let found = Refused::from(errno).is_of_source(|| can_read);
                assert_eq!(found, expected, "{errno} {can_read}");
                assert!(Refused::at_source(errno).is_of_source(|| can_read));
                assert!(!Refused::at_destination(errno).is_of_source(|| can_read));
            }
        }
    }
}
