//! Stores in an unlinked file which file of the source was copied under which name.
//!
//! The file begins with a table of offsets by the hash of what is looked for; behind it lie records,
//! each with the offset of the one before it that has the same place in the table.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::Copied;
use crate::tree::directory::Identity;
use crate::tree::unlinked;
use uncopy_core::Errno;
use uncopy_os::file_id::FileId;
use uncopy_os::{Sys, transfer};

/// Places in the table: blocks that nothing is written to take no room.
const PLACES: u64 = 1 << 20;
const PLACE_BYTES: u64 = 8;

/// Next record, device, inode, root, names that are expected, whether it was renamed, length of the
/// path, whether the copy is known, the copy.
const HEAD_BYTES: usize = 8 + 8 + 8 + 4 + 4 + 4 + 4 + 4 + FileId::BYTES;
/// Offset of the number of expected names in it.
const EXPECTED_AT: u64 = 28;

#[derive(Debug)]
pub(super) struct Spill {
    file: OwnedFd,
    end: u64,
}

/// A record and its offset.
pub(super) struct SpillRecord {
    pub(super) copied: Copied,
    at: u64,
}

impl Spill {
    /// Makes an empty table on the filesystem of this directory.
    pub(super) fn new(directory: impl AsFd) -> Sys<Spill> {
        Ok(Spill { file: unlinked::file(directory, "links")?, end: PLACES * PLACE_BYTES })
    }

    pub(super) fn insert(&mut self, file: Identity, copied: &Copied) -> Sys<()> {
        let path = copied.path.as_bytes();
        let length = u32::try_from(path.len()).map_err(|_| Errno::ENAMETOOLONG)?;
        let place = place(file);
        let mut record = Vec::with_capacity(HEAD_BYTES + path.len());
        record.extend(self.offset(place)?.to_le_bytes());
        let ((major, minor), inode) = file;
        record.extend([major, minor].map(u32::to_le_bytes).as_flattened());
        record.extend(inode.to_le_bytes());
        let is_known = copied.copy.is_some().into();
        let numbers = [copied.root, copied.expected, copied.renamed.into(), length, is_known];
        record.extend(numbers.map(u32::to_le_bytes).as_flattened());
        record.extend(copied.copy.unwrap_or(FileId { inode: 0, birth: None }).to_bytes());
        record.extend(path);
        self.write(&record, self.end)?;
        self.write(&self.end.to_le_bytes(), place)?;
        self.end += record.len() as u64;
        Ok(())
    }

    /// Returns the record of a file of which further names are expected.
    pub(super) fn find(&self, file: Identity) -> Sys<Option<SpillRecord>> {
        let mut at = self.offset(place(file))?;
        while at != 0 {
            let mut head = [0; HEAD_BYTES];
            self.read(&mut head, at)?;
            let number =
                |place: usize| head[place..place + 4].try_into().map_or(0, u32::from_le_bytes);
            let long =
                |place: usize| head[place..place + 8].try_into().map_or(0, u64::from_le_bytes);
            let expected = number(EXPECTED_AT as usize);
            if ((number(8), number(12)), long(16)) == file && expected > 0 {
                let mut path = vec![0; number(36) as usize];
                self.read(&mut path, at + HEAD_BYTES as u64)?;
                let (root, renamed) = (number(24), number(32) != 0);
                let copy = head.last_chunk().map(FileId::from_bytes).filter(|_| number(40) != 0);
                let path = OsString::from_vec(path);
                let copied = Copied { root, path, renamed, copy, expected };
                return Ok(Some(SpillRecord { copied, at }));
            }
            at = long(0);
        }
        Ok(None)
    }

    /// Sets how many names are still expected; with none it is not found any more.
    pub(super) fn expect(&self, found: &SpillRecord, names: u32) -> Sys<()> {
        self.write(&names.to_le_bytes(), found.at + EXPECTED_AT)
    }

    fn offset(&self, place: u64) -> Sys<u64> {
        let mut bytes = [0; 8];
        match self.read(&mut bytes, place) {
            // Nothing was written yet.
            Err(Errno::EIO) if self.end == PLACES * PLACE_BYTES => Ok(0),
            other => other.map(|()| u64::from_le_bytes(bytes)),
        }
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Sys<()> {
        let read = transfer::read_all_at(&self.file, bytes, offset)?;
        if read < bytes.len() { Err(Errno::EIO) } else { Ok(()) }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Sys<()> {
        transfer::write_all_at(&self.file, bytes, offset)
    }
}

/// Returns the place that holds the offset of a file's newest record.
fn place(file: Identity) -> u64 {
    let ((major, minor), inode) = file;
    let device = u64::from(major) << 32 | u64::from(minor);
    // Fibonacci hashing: inodes that follow one another lie far from each other.
    let hash = (inode ^ device.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (64 - PLACES.trailing_zeros())) * PLACE_BYTES
}

#[cfg(test)]
mod tests {
    use uncopy_os::file_id::Timestamp;

    use super::*;

    #[test]
    fn what_is_put_in_is_found_until_no_name_is_expected() {
        let directory = std::fs::File::open(std::env::temp_dir()).unwrap();
        let mut spill = Spill::new(&directory).unwrap();
        let file = |n: u64| ((8, (n % 3) as u32), n / 3);
        let copied = |n: u64| Copied {
            root: n as u32,
            path: OsString::from_vec(format!("a/{n}/\u{fffd}").into_bytes()),
            renamed: n.is_multiple_of(5),
            copy: [
                None,
                Some(FileId { inode: n, birth: None }),
                Some(FileId {
                    inode: 1 << 40 | n,
                    birth: Some(Timestamp { seconds: -1, nanoseconds: n as u32 }),
                }),
            ][n as usize % 3],
            expected: 1 + n as u32 % 2,
        };
        assert!(spill.find(file(1)).unwrap().is_none());
        for n in 0..5000 {
            spill.insert(file(n), &copied(n)).unwrap();
        }
        for n in 0..5000 {
            let found = spill.find(file(n)).unwrap().unwrap();
            assert_eq!(found.copied, copied(n));
            spill.expect(&found, found.copied.expected - 1).unwrap();
        }
        for n in 0..5000 {
            assert_eq!(spill.find(file(n)).unwrap().is_some(), n % 2 == 1, "{n}");
        }
        assert!(spill.find(((9, 9), 9)).unwrap().is_none());
    }
}
