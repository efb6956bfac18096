//! Entries of units (pure).

use serde::{Deserialize, Serialize};

use super::{MAX_RANGES, RelativePath, UnitNumber};
use uncopy_copy::job::EntryKind;
use uncopy_os::file::{Stat, Timestamp};

/// Time in seconds and nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(pub i64, pub u32);

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Time {
        Time(time.seconds, time.nanoseconds)
    }
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "the format has no others")]
pub enum Kind {
    /// Regular file.
    File,
    /// Symbolic link.
    Link,
    /// Directory.
    Directory,
    /// FIFO, socket or device.
    Special,
}

impl From<Kind> for EntryKind {
    fn from(kind: Kind) -> EntryKind {
        match kind {
            Kind::File => EntryKind::File,
            Kind::Link => EntryKind::Symlink,
            Kind::Directory => EntryKind::Directory,
            Kind::Special => EntryKind::Special,
        }
    }
}

/// State of an entry that a plan saw. An entry with another identity has changed since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last modification of the contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Type and permission bits (`st_mode`).
    pub mode: u32,
    /// Number of names.
    pub links: u32,
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Identity {
        Identity {
            inode: stat.inode,
            size: stat.size,
            mtime: stat.modified.into(),
            ctime: stat.changed.into(),
            mode: stat.mode,
            links: stat.links,
        }
    }
}

impl Identity {
    /// Checks that the numbers can belong to a file.
    pub(super) fn is_possible(&self) -> bool {
        const SECOND: u32 = 1_000_000_000;
        i64::try_from(self.size).is_ok()
            && self.mtime.1 < SECOND
            && self.ctime.1 < SECOND
            && self.mode <= 0o177_777
    }
}

/// A part of a file that is cut into several units. All parts go into one staging file, and whoever finishes the last part
/// puts it in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Offset and length in bytes.
    pub range: (u64, u64),
    /// Number of the cut file in the plan.
    pub file: u32,
    /// Number of parts of the file.
    pub ranges: u32,
    /// Unit of the first part. The units of the parts follow one another.
    pub first: UnitNumber,
}

impl Part {
    /// Returns which part this is, from 0 on, as a unit.
    #[must_use]
    pub fn index(&self, unit: UnitNumber) -> Option<u32> {
        unit.get().checked_sub(self.first.get()).filter(|index| *index < self.ranges)
    }

    /// Whether it is a part of a file of this size, as this unit.
    pub(super) fn fits(&self, unit: UnitNumber, size: u64) -> bool {
        let (offset, length) = self.range;
        let Some(index) = self.index(unit) else { return false };
        let end = offset.checked_add(length);
        let is_last = index + 1 == self.ranges;
        (2..=MAX_RANGES).contains(&self.ranges)
            && length > 0
            && end.is_some_and(|end| if is_last { end == size } else { end < size })
            && (index == 0) == (offset == 0)
    }
}

/// Entry of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Path below both roots.
    pub path: RelativePath,
    /// Kind in the source; without a source, in the destination.
    pub kind: Kind,
    /// State of the source. `None`: the source has no such entry, and that of the destination is to be deleted.
    pub source: Option<Identity>,
    /// State of the destination. `None`: nothing had this name.
    pub destination: Option<Identity>,
    /// Index of an earlier entry of this unit that is another name of the same file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<u64>,
    /// Part of the file, if it is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}
