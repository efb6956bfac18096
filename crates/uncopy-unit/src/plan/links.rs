//! Entries with several names: all names of a file must be in one unit, wherever the walk meets them.
//!
//! They are written to scratch files, one of [`PARTS`] by the inode; later one file after the other is read, sorted by inode
//! and put into units. So memory is a part of what entries with several names take, and there is no second walk. They stay
//! until a checkpoint says that their entries are in units.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::checkpoint::LinksState;
use super::directory::{PlanDirectory, go_on_with, system};
use super::units::{Units, flush_so_far};
use super::{PlanError, Shared};
use crate::format::{Entry, Kind, RelativePath};
use uncopy_core::Error;

/// Number of scratch files.
pub(super) const PARTS: usize = 64;

/// Beginning of their names.
const NAME: &str = "links.";

/// Returns the number of a scratch file by its name.
pub(super) fn number_of_part(name: &str) -> Option<usize> {
    name.strip_prefix(NAME)?.parse().ok()
}

/// Entry of a scratch file.
#[derive(Debug, Serialize, Deserialize)]
struct SpilledEntry {
    /// Index of its filesystem, whose number may be another one when the plan goes on.
    device: usize,
    entry: Entry,
}

/// Scratch files of a plan.
#[derive(Debug)]
pub(super) struct LinkSpill {
    directory: PathBuf,
    parts: Vec<Mutex<Option<BufWriter<File>>>>,
    devices: Mutex<Vec<Filesystem>>,
}

/// Number of a filesystem, and a directory in it.
pub(super) type Filesystem = ((u32, u32), RelativePath);

impl LinkSpill {
    /// Begins with the scratch files, or goes on with them as they were at a checkpoint.
    pub(super) fn open(
        directory: &PlanDirectory,
        devices: Vec<Filesystem>,
        state: Option<&LinksState>,
    ) -> Result<LinkSpill, Error> {
        let parts = (0..PARTS).map(|_| Mutex::new(None)).collect();
        let devices = Mutex::new(devices);
        let mut links = LinkSpill { directory: directory.scratch(), parts, devices };
        for (number, length) in state.iter().flat_map(|state| state.parts.iter().copied()) {
            let path = links.path(number);
            let file =
                go_on_with(&path, length).map_err(|error| system("go on with", &path, &error))?;
            links.parts[number] = Mutex::new(Some(BufWriter::new(file)));
        }
        Ok(links)
    }

    /// Flushes what was written, and returns the state, when so many files are written out.
    pub(super) fn save(&self, written_out: usize) -> Result<LinksState, Error> {
        let mut parts = Vec::new();
        for (number, part) in self.parts.iter().enumerate().skip(written_out) {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(output) = &mut *part {
                let length = flush_so_far(output)
                    .map_err(|error| system("flush", &self.path(number), &error))?;
                parts.push((number, length));
            }
        }
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| system("flush", &self.directory, &error))?;
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let devices = devices.iter().map(|(_, directory)| directory.clone()).collect();
        Ok(LinksState { written_out, parts, devices })
    }

    /// Returns the index of a filesystem.
    fn index_of(&self, device: (u32, u32), entry: &RelativePath) -> usize {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.iter().position(|(known, _)| *known == device).unwrap_or_else(|| {
            let parent = entry.as_path().parent().unwrap_or(Path::new(""));
            let parent = RelativePath::new(parent).unwrap_or_else(|_| RelativePath::root());
            devices.push((device, parent));
            devices.len() - 1
        })
    }

    /// Adds an entry whose file has several names.
    pub(super) fn add(&self, device: (u32, u32), entry: Entry) -> Result<(), Error> {
        let inode = entry.source.as_ref().map_or(0, |source| source.inode);
        let device = self.index_of(device, &entry.path);
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

    /// Puts the entries of all scratch files from this one on into units. `before` is called with the number of each.
    pub(super) fn write_out(
        &self,
        from: usize,
        units: &Units,
        shared: &Shared,
        before: impl Fn(usize) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        for (number, part) in self.parts.iter().enumerate().skip(from) {
            before(number)?;
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(output) = &mut *part else { continue };
            let path = self.path(number);
            let failed = |error: &std::io::Error| PlanError::from(system("read", &path, error));
            output.flush().map_err(|error| failed(&error))?;
            let names = read(&path).map_err(|error| failed(&error))?;
            for group in names.chunk_by(|a, b| key(a) == key(b)) {
                count_bytes(group, shared);
                units.add_group(group.iter().map(|named| named.entry.clone()).collect())?;
            }
        }
        Ok(())
    }

    /// Removes the scratch files below this one: a checkpoint says that they are written out.
    pub(super) fn remove_below(&self, written_out: usize) -> Result<(), Error> {
        for (number, part) in self.parts.iter().enumerate().take(written_out) {
            if part.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
                let path = self.path(number);
                fs::remove_file(&path).map_err(|error| system("remove", &path, &error))?;
            }
        }
        Ok(())
    }

    fn path(&self, part: usize) -> PathBuf {
        LinkSpill::path_in(&self.directory, part)
    }

    /// Returns the path of a scratch file.
    pub(super) fn path_in(scratch: &Path, part: usize) -> PathBuf {
        scratch.join(format!("{NAME}{part:02}"))
    }
}

/// Counts the bytes of a file with several names once.
fn count_bytes(group: &[SpilledEntry], shared: &Shared) {
    let first = group.first().filter(|named| named.entry.kind == Kind::File);
    let size = first.and_then(|named| Some(named.entry.source.as_ref()?.size));
    shared.bytes.fetch_add(size.unwrap_or(0), Ordering::Relaxed);
}

/// Identity by which names of one file are found.
fn key(named: &SpilledEntry) -> (usize, u64, bool) {
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

fn part_of(device: usize, inode: u64) -> usize {
    // Fibonacci hashing: the upper bits depend on all others.
    let hash = (inode ^ (device as u64).rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (64 - PARTS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_are_spread_over_all_scratch_files() {
        let mut counts = [0; PARTS];
        for inode in 0..64_000 {
            counts[part_of(1, inode)] += 1;
        }
        assert!(counts.iter().all(|count| (500..1500).contains(count)), "{counts:?}");
        let numbers = ["links.07", "links.x", "links"].map(number_of_part);
        assert_eq!(numbers, [Some(7), None, None]);
    }
}
