//! Notes large files chunk by chunk in the journal, and finds their parts again.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::calls::TreeCalls;
use super::journal::{Journal, file_id, is_noted, is_temporary_name, state};
use super::place::Place;
use crate::chunks::{ChunkSizes, Chunks};
use crate::digest::ChunkDigest;
use crate::journal::format::{Part, Short};
use crate::native;
use crate::portable::names::directory_of;
use crate::portable::partial::{Keep, LeftPart, digest_chunk};

/// Notes the chunks of one file.
pub(super) struct KeptPart<'a> {
    pub(super) calls: &'a dyn TreeCalls,
    pub(super) journal: &'a mut Journal,
    pub(super) sizes: ChunkSizes,
    /// Path from the root.
    pub(super) way: PathBuf,
    pub(super) place: &'a Place,
    /// State of the source, and the length of its chunks.
    pub(super) begun: Option<(Short, u64)>,
    /// Error of the journal, after which nothing can be noted.
    pub(super) failed: Option<io::Error>,
}

impl Keep for KeptPart<'_> {
    fn begin(&mut self, source: (&Path, &Metadata)) -> io::Result<Option<LeftPart>> {
        let state = state(self.calls, source)?;
        let chunk_bytes = self.sizes.divide(source.1.len()).each_bytes();
        self.begun = Some((state, chunk_bytes));
        let Some(part) = self.journal.take_part(&self.way) else { return Ok(None) };
        let directory = directory_of(&self.place.actual);
        if !part.is_of(state, chunk_bytes) {
            remove(self.calls, directory, &part);
            return Ok(None);
        }
        if self.place.within.is_private {
            // If that fails, the file is copied from the beginning.
            let _ = take_back(self.calls, &self.place.actual, &part);
        }
        match open(self.calls, directory, &part) {
            Some((path, file)) => Ok(Some(LeftPart { path, file, chunks: part.chunks })),
            None => {
                remove(self.calls, directory, &part);
                Ok(None)
            }
        }
    }

    fn discard(&mut self) {
        if let Some(part) = self.journal.take_part(&self.way) {
            remove(self.calls, directory_of(&self.place.actual), &part);
        }
    }

    fn note(
        &mut self,
        (path, file): (&Path, &File),
        first: u64,
        chunks: &[ChunkDigest],
    ) -> io::Result<()> {
        let Some((source, chunk_bytes)) = self.begun else { return Ok(()) };
        let part = Part {
            source,
            name: path.file_name().unwrap_or_default().to_owned(),
            id: file_id(self.calls, path, false, &file.metadata()?)?,
            chunk_bytes,
            path: self.way.clone().into_os_string(),
            chunks: chunks.to_vec(),
        };
        self.journal.add_chunks(self.calls, part, first).inspect_err(|error| {
            self.failed = Some(match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => error.kind().into(),
            });
        })
    }
}

/// Returns the path of a part if it is the file that was noted: this user's, under one name, and no link.
fn find(calls: &dyn TreeCalls, directory: &Path, part: &Part) -> Option<PathBuf> {
    if !is_temporary_name(&part.name) {
        return None;
    }
    let path = directory.join(&part.name);
    let found = fs::symlink_metadata(&path).ok()?;
    is_it(calls, part, &path, &found).then_some(path)
}

/// Whether an entry, or the open file that has its name, is a part.
fn is_it(calls: &dyn TreeCalls, part: &Part, path: &Path, found: &Metadata) -> bool {
    found.is_file()
        && calls.is_own(found)
        && native::links(found) <= 1
        && is_noted(calls, part.id, path, found)
}

/// Opens a part.
fn open(calls: &dyn TreeCalls, directory: &Path, part: &Part) -> Option<(PathBuf, File)> {
    let path = find(calls, directory, part)?;
    let file = calls.open_made(&path).ok()?;
    let found = file.metadata().ok()?;
    // Another file may have taken the name meanwhile.
    is_it(calls, part, &path, &found).then_some((path, file))
}

/// Gives a file that has its final name already the one of the part again.
fn take_back(calls: &dyn TreeCalls, named: &Path, part: &Part) -> io::Result<()> {
    let found = fs::symlink_metadata(named)?;
    if is_temporary_name(&part.name) && is_it(calls, part, named, &found) {
        calls.rename_to_free(named, &directory_of(named).join(&part.name))?;
    }
    Ok(())
}

/// Removes a part, if it is the file that was noted.
fn remove(calls: &dyn TreeCalls, directory: &Path, part: &Part) {
    if let Some(path) = find(calls, directory, part) {
        let _ = calls.remove(&path);
    }
}

/// Removes the parts of files that were not finished in a tree which is done.
pub(super) fn sweep(calls: &dyn TreeCalls, journal: &mut Journal, root: &Path) {
    for part in journal.take_parts() {
        let path = match part.path.is_empty() {
            true => root.to_owned(),
            false => root.join(&part.path),
        };
        remove(calls, directory_of(&path), &part);
    }
}

/// Whether a file that has its final name is what an earlier run finished and did not note. `on_progress` receives the
/// offset.
pub(super) fn is_ended<Stop>(
    calls: &dyn TreeCalls,
    journal: &Journal,
    sizes: ChunkSizes,
    way: &Path,
    place: &Place,
    source: &Metadata,
    on_progress: impl FnMut(u64) -> Result<(), Stop>,
) -> Result<bool, Stop> {
    let opened = || {
        let part = journal.part(way)?;
        let original = calls.open_source(&place.source).ok()?;
        let begun = original.metadata().ok()?;
        let state = state(calls, (&place.source, &begun)).ok()?;
        let chunks = sizes.divide(begun.len());
        let found = fs::symlink_metadata(&place.actual).ok()?;
        let is_whole = begun.len() == source.len() && found.len() == begun.len();
        if !part.is_of(state, chunks.each_bytes())
            || !is_whole
            || !is_it(calls, part, &place.actual, &found)
        {
            return None;
        }
        let copy = calls.open_source(&place.actual).ok()?;
        let is_same = copy.metadata().is_ok_and(|found| is_it(calls, part, &place.actual, &found));
        is_same.then_some((original, copy, chunks, &part.chunks))
    };
    let Some((original, copy, chunks, noted)) = opened() else { return Ok(false) };
    let digest_of = |file: File, chunks: Chunks| {
        move |number| match chunks.range_of(number) {
            Some(range) => digest_chunk(calls, &file, range),
            None => Ok(None),
        }
    };
    chunks.are_whole(noted, digest_of(original, chunks), digest_of(copy, chunks), on_progress)
}
