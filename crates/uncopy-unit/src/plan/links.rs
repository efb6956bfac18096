//! Entries with several names: all names of a file must be in one unit, wherever the walk meets them.
//!
//! They are written to scratch files, one of [`PARTS`] by the inode; later one file after the other is read, sorted by inode
//! and put into units. So memory is a part of what entries with several names take, and there is no second walk.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::directory::{PlanDirectory, system};
use super::units::Units;
use super::{PlanError, Shared};
use crate::format::{Entry, Kind};
use uncopy_core::Error;

/// Number of scratch files.
const PARTS: usize = 64;

/// Beginning of their names.
const NAME: &str = "links.";

/// Whether a name is that of a scratch file.
pub(super) fn is_part(name: &str) -> bool {
    name.strip_prefix(NAME).is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Entry of a scratch file.
#[derive(Debug, Serialize, Deserialize)]
struct SpilledEntry {
    device: (u32, u32),
    entry: Entry,
}

/// Scratch files of a plan.
#[derive(Debug)]
pub(super) struct LinkSpill {
    directory: PathBuf,
    parts: Vec<Mutex<Option<BufWriter<File>>>>,
}

impl LinkSpill {
    pub(super) fn new(directory: &PlanDirectory) -> LinkSpill {
        let parts = (0..PARTS).map(|_| Mutex::new(None)).collect();
        LinkSpill { directory: directory.scratch(), parts }
    }

    /// Adds an entry whose file has several names.
    pub(super) fn add(&self, device: (u32, u32), entry: Entry) -> Result<(), Error> {
        let inode = entry.source.as_ref().map_or(0, |source| source.inode);
        let number = part_of(device, inode);
        let path = self.path(number);
        let failed = |error: &std::io::Error| system("write", &path, error);
        let mut part = self.parts[number].lock().unwrap_or_else(PoisonError::into_inner);
        let output = match &mut *part {
            Some(output) => output,
            none => {
                let file = OpenOptions::new().write(true).create_new(true).open(&path);
                none.insert(BufWriter::new(file.map_err(|error| failed(&error))?))
            }
        };
        serde_json::to_writer(&mut *output, &SpilledEntry { device, entry })
            .map_err(|error| failed(&error.into()))?;
        output.write_all(b"\n").map_err(|error| failed(&error))
    }

    /// Puts all entries into units, and removes the scratch files.
    pub(super) fn write_out(self, units: &Units, shared: &Shared) -> Result<(), PlanError> {
        for (number, part) in self.parts.iter().enumerate() {
            let output = part.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(output) = output else { continue };
            let path = self.path(number);
            let failed = |error: &std::io::Error| PlanError::from(system("read", &path, error));
            output.into_inner().map_err(|error| failed(error.error()))?;
            let names = read(&path).map_err(|error| failed(&error))?;
            for group in names.chunk_by(|a, b| key(a) == key(b)) {
                count_bytes(group, shared);
                units.add_group(group.iter().map(|named| named.entry.clone()).collect())?;
            }
            fs::remove_file(&path).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    fn path(&self, part: usize) -> PathBuf {
        self.directory.join(format!("{NAME}{part:02}"))
    }
}

/// Counts the bytes of a file with several names once.
fn count_bytes(group: &[SpilledEntry], shared: &Shared) {
    let first = group.first().filter(|named| named.entry.kind == Kind::File);
    let size = first.and_then(|named| Some(named.entry.source.as_ref()?.size));
    shared.bytes.fetch_add(size.unwrap_or(0), Ordering::Relaxed);
}

/// Identity by which names of one file are found.
fn key(named: &SpilledEntry) -> ((u32, u32), u64, bool) {
    let inode = named.entry.source.as_ref().map_or(0, |source| source.inode);
    (named.device, inode, named.entry.kind == Kind::File)
}

/// Reads a scratch file, sorted by inode, and by path within: plans of one tree differ little.
fn read(path: &Path) -> std::io::Result<Vec<SpilledEntry>> {
    let mut names: Vec<SpilledEntry> = Vec::new();
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        names.push(serde_json::from_slice(&line?)?);
    }
    names.sort_by(|a, b| (key(a), &a.entry.path).cmp(&(key(b), &b.entry.path)));
    Ok(names)
}

fn part_of(device: (u32, u32), inode: u64) -> usize {
    let device = u64::from(device.0) << 32 | u64::from(device.1);
    // Fibonacci hashing: the upper bits depend on all others.
    let hash = (inode ^ device.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (64 - PARTS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_are_spread_over_all_scratch_files() {
        let mut counts = [0; PARTS];
        for inode in 0..64_000 {
            counts[part_of((8, 1), inode)] += 1;
        }
        assert!(counts.iter().all(|count| (500..1500).contains(count)), "{counts:?}");
        assert!(is_part("links.07") && !is_part("links.x") && !is_part("links"));
    }
}
