//! Lists the source files of a root that are to be removed at its end, with their state when they were copied.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::directory::{Identity, identity};
use super::unlinked;
use uncopy_core::Errno;
use uncopy_os::file::{Stat, Timestamp};
use uncopy_os::{Sys, transfer};

/// Names that are kept in memory, in bytes; more of them lie in an unlinked file.
const MAX_MEMORY: usize = 1 << 20;

/// Source files of a root whose copies are made, and that are to be removed at its end.
#[derive(Debug, Default)]
pub(super) struct Removals {
    waiting: Mutex<Spool>,
    /// Files with several names, each of which is removed by itself.
    linked: Mutex<HashMap<Identity, SourceState>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State of a source file when it was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourceState {
    file: Identity,
    size: u64,
    modified: Timestamp,
    /// `None` for a file with several names: removing one of them changes it.
    changed: Option<Timestamp>,
}

impl SourceState {
    const BYTES: usize = 8 + 8 + 8 + 12 + 1 + 12;

    pub(super) fn of(stat: &Stat) -> SourceState {
        let changed = (stat.links == 1).then_some(stat.changed);
        SourceState { file: identity(stat), size: stat.size, modified: stat.modified, changed }
    }

    /// Whether the file is in this state now.
    pub(super) fn is_of(&self, now: &Stat) -> bool {
        self.file == identity(now)
            && self.size == now.size
            && self.modified == now.modified
            && self.changed.is_none_or(|changed| changed == now.changed)
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        let ((major, minor), inode) = self.file;
        let time = |bytes: &mut Vec<u8>, time: Timestamp| {
            bytes.extend(time.seconds.to_le_bytes());
            bytes.extend(time.nanoseconds.to_le_bytes());
        };
        bytes.extend([major, minor].map(u32::to_le_bytes).as_flattened());
        bytes.extend([inode, self.size].map(u64::to_le_bytes).as_flattened());
        time(bytes, self.modified);
        bytes.push(self.changed.is_some().into());
        time(bytes, self.changed.unwrap_or(self.modified));
    }

    fn from_bytes(bytes: &[u8; SourceState::BYTES]) -> SourceState {
        let short = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let long = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let time = |at: usize| Timestamp { seconds: long(at) as i64, nanoseconds: short(at + 8) };
        SourceState {
            file: ((short(0), short(4)), long(8)),
            size: long(16),
            modified: time(24),
            changed: (bytes[36] != 0).then(|| time(37)),
        }
    }
}

/// File of the source by its path from the root. Without a state it changed while it was copied.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) path: OsString,
    pub(super) state: Option<SourceState>,
}

impl Removals {
    /// Adds a file by its path from the root; `directory` is on the filesystem that a long list lies on.
    pub(super) fn add(&self, path: PathBuf, state: Option<SourceState>, directory: impl AsFd) {
        let path = path.into_os_string();
        lock(&self.waiting).push(&Copied { path, state }, directory);
    }

    /// Takes out the list of all that was added.
    pub(super) fn take(&self) -> Spool {
        std::mem::take(&mut *lock(&self.waiting))
    }

    /// Remembers the state of a file with several names.
    pub(super) fn remember(&self, state: SourceState) {
        lock(&self.linked).insert(state.file, state);
    }

    /// Returns the state of a file with several names that was copied.
    pub(super) fn state_of(&self, file: Identity) -> Option<SourceState> {
        lock(&self.linked).get(&file).copied()
    }
}

/// List that lies in an unlinked file of the destination once it is long.
#[derive(Debug, Default)]
pub(super) struct Spool {
    bytes: Vec<u8>,
    file: Option<OwnedFd>,
    file_bytes: u64,
    /// Error with which the list could not be continued.
    failed: Option<Errno>,
}

impl Spool {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.file_bytes == 0 && self.failed.is_none()
    }

    fn push(&mut self, copied: &Copied, directory: impl AsFd) {
        if self.failed.is_some() {
            return;
        }
        self.bytes.extend((copied.path.len() as u32).to_le_bytes());
        self.bytes.extend(copied.path.as_bytes());
        self.bytes.push(copied.state.is_some().into());
        if let Some(state) = copied.state {
            state.append_to(&mut self.bytes);
        }
        if self.bytes.len() >= MAX_MEMORY {
            self.failed = self.spill(directory).err();
        }
    }

    fn spill(&mut self, directory: impl AsFd) -> Sys<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => unlinked::file(directory, "sources")?,
        };
        transfer::write_all_at(&file, &self.bytes, self.file_bytes)?;
        self.file_bytes += self.bytes.len() as u64;
        self.file = Some(file);
        self.bytes.clear();
        Ok(())
    }

    pub(super) fn into_reader(self) -> Reader {
        Reader { spool: self, at: 0, bytes: Vec::new(), used: 0 }
    }
}

/// Reads a list from its beginning.
pub(super) struct Reader {
    spool: Spool,
    /// Offset in the file of what is read next.
    at: u64,
    bytes: Vec<u8>,
    used: usize,
}

impl Reader {
    /// Returns the next file; `None` at the end.
    pub(super) fn read_next(&mut self) -> Sys<Option<Copied>> {
        loop {
            if let Some((copied, length)) = decode(&self.bytes[self.used..]) {
                self.used += length;
                return Ok(Some(copied));
            }
            self.bytes.drain(..self.used);
            self.used = 0;
            let begin = self.bytes.len();
            let left = self.spool.file_bytes - self.at;
            match &self.spool.file {
                Some(file) if left > 0 => {
                    let wanted = left.min(MAX_MEMORY as u64) as usize;
                    self.bytes.resize(begin + wanted, 0);
                    let n = transfer::read_all_at(file, &mut self.bytes[begin..], self.at)?;
                    if n < wanted {
                        return Err(Errno::EIO);
                    }
                    self.at += n as u64;
                }
                _ if !self.spool.bytes.is_empty() => self.bytes.append(&mut self.spool.bytes),
                _ => return self.spool.failed.take().map_or(Ok(None), Err),
            }
        }
    }
}

/// Decodes the first file of a list, and returns its length there. `None`: it is not complete.
fn decode(bytes: &[u8]) -> Option<(Copied, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let (path, rest) = rest.split_at_checked(length)?;
    let (has_state, rest) = rest.split_first()?;
    let path = OsString::from_vec(path.to_vec());
    if *has_state == 0 {
        return Some((Copied { path, state: None }, 4 + length + 1));
    }
    let (state, _) = rest.split_first_chunk::<{ SourceState::BYTES }>()?;
    let state = Some(SourceState::from_bytes(state));
    Some((Copied { path, state }, 4 + length + 1 + SourceState::BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uncopy_os::directory;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let directory = std::fs::File::open(std::env::temp_dir()).unwrap();
        let copied = |number: u64| Copied {
            path: OsString::from_vec(
                format!("a/{}/\u{fffd}", "n".repeat(number as usize % 300)).into(),
            ),
            state: (!number.is_multiple_of(7)).then_some(SourceState {
                file: ((8, number as u32), u64::MAX - number),
                size: number << 33,
                modified: Timestamp { seconds: -5, nanoseconds: number as u32 },
                changed: number
                    .is_multiple_of(2)
                    .then_some(Timestamp { seconds: 1 << 40, nanoseconds: 1 }),
            }),
        };
        for count in [0, 1, 100, 40_000] {
            let mut spool = Spool::default();
            assert!(spool.is_empty());
            (0..count).for_each(|number| spool.push(&copied(number), &directory));
            assert_eq!(spool.file.is_some(), count == 40_000);
            assert_eq!(spool.is_empty(), count == 0);
            let mut reader = spool.into_reader();
            for number in 0..count {
                assert_eq!(reader.read_next(), Ok(Some(copied(number))));
            }
            assert_eq!(reader.read_next(), Ok(None));
        }
    }

    #[test]
    fn another_file_or_state_is_not_what_was_copied() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, "some").unwrap();
        let stat = directory::stat_path(&path).unwrap();
        type Change = fn(&mut Stat);
        let rows: [(Change, bool, bool); 7] = [
            (|_| {}, true, true),
            (|s| s.inode += 1, false, false),
            (|s| s.device.1 += 1, false, false),
            (|s| s.size += 1, false, false),
            (|s| s.modified.nanoseconds ^= 1, false, false),
            (|s| s.changed.nanoseconds ^= 1, false, true),
            (|s| s.accessed.seconds += 1, true, true),
        ];
        for (change, alone, among_links) in rows {
            for (links, expected) in [(1, alone), (2, among_links)] {
                let before = Stat { links, ..stat.clone() };
                let mut now = before.clone();
                change(&mut now);
                assert_eq!(SourceState::of(&before).is_of(&now), expected, "{now:?}");
            }
        }
    }
}
