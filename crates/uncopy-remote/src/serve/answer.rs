//! Answers of the filesystem.

use std::ops::Range;
use std::path::PathBuf;

use uncopy_core::Errno;
use uncopy_os::file::Stat;
use uncopy_os::follow::{FollowError, FollowResult};
use uncopy_wire::{Attribute, Entry, Page};

use super::opened::Opened;

/// Page of a listing.
#[derive(Debug)]
pub(super) struct ListedPage {
    pub(super) page: Page,
    pub(super) is_last: bool,
    /// Position behind its entries.
    pub(super) position: u64,
}

/// Ranges of a file that hold data.
#[derive(Debug)]
pub(super) struct FoundRanges {
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) is_last: bool,
}

/// Answer to a call.
#[derive(Debug)]
pub(super) enum Answered {
    Opened(Opened),
    ForeignLink { link: PathBuf, owner: u32 },
    Page(ListedPage),
    Entry(Entry),
    Named(Page),
    Status(Stat),
    Ranges(FoundRanges),
    Data(Vec<u8>),
    Attributes(Vec<Attribute>),
    Attribute(Option<Vec<u8>>),
    Counted(CountedEntries),
}

impl Answered {
    /// Answers with what was opened, or with why a link was not followed.
    pub(super) fn opening(opened: FollowResult<Opened>) -> Result<Answered, Errno> {
        match opened {
            Ok(opened) => Ok(Answered::Opened(opened)),
            Err(FollowError::Foreign { link, owner }) => Ok(Answered::ForeignLink { link, owner }),
            Err(FollowError::System(errno)) => Err(errno),
        }
    }
}

/// Bytes of a file that are about to be sent.
#[derive(Debug)]
pub(super) struct Digested {
    /// Their number.
    pub(super) bytes: u32,
    /// Their digest (BLAKE3).
    pub(super) digest: [u8; 32],
}

/// Entries that were counted in a while.
#[derive(Debug, Default)]
pub(super) struct CountedEntries {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) is_last: bool,
}

/// Returns an error number as it crosses the wire.
pub(super) fn raw(errno: Errno) -> u16 {
    // A failure without a number is one of input and output.
    let known = u16::try_from(errno.raw()).ok().filter(|number| (1..=4095).contains(number));
    known.unwrap_or(5)
}
