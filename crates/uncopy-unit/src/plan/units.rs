//! Writes the units of a plan: each thread fills one of its own, and all of them the last one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::checkpoint::{OpenState, UnitsState};
use super::cut::{Limits, ranges};
use super::directory::{PlanDirectory, go_on_with, system, unit_path};
use super::{PlanError, PlanRequest};
use crate::format::{
    Entry, Header, Kind, MAX_UNITS, Part, PlanId, Root, SeenRoots, UnitKind, UnitNumber,
    UnitWriter, schema_of,
};
use uncopy_os::file;

/// Name of the last unit while its number is not known.
pub(super) const FINISH: &str = "finish.part";

/// Size of the buffer of a unit.
const BUFFER_BYTES: usize = 128 << 10;

/// Units that are being written.
#[derive(Debug)]
pub(super) struct Units {
    directory: PathBuf,
    header: Header,
    limits: Limits,
    next_unit: AtomicU32,
    next_file: AtomicU32,
    /// Units with room that no thread fills now.
    open: Mutex<Vec<OpenUnit>>,
    /// Units that were ended, and are not flushed yet.
    ended: Mutex<Vec<UnitNumber>>,
    finish: Mutex<FinishUnit>,
}

/// Unit of files that has room.
#[derive(Debug)]
pub(super) struct OpenUnit {
    number: UnitNumber,
    path: PathBuf,
    writer: UnitWriter<BufWriter<File>>,
    bytes: u64,
}

/// The last unit. Its number is written into its first line at the end.
#[derive(Debug)]
struct FinishUnit {
    writer: Option<UnitWriter<BufWriter<File>>>,
    header_bytes: usize,
}

impl Units {
    /// Begins with the units, or goes on with them as they were at a checkpoint.
    pub(super) fn open(
        directory: &PlanDirectory,
        plan: PlanId,
        roots: (&Root, &Root),
        seen: SeenRoots,
        request: &PlanRequest,
        state: Option<&UnitsState>,
    ) -> Result<Units, PlanError> {
        let number = |number| UnitNumber::new(number).ok_or(PlanError::TooManyUnits);
        let mut header = Header {
            schema: schema_of(roots.0, roots.1),
            plan,
            unit: number(MAX_UNITS - 1)?,
            kind: UnitKind::Finish,
            source: roots.0.clone(),
            destination: roots.1.clone(),
            seen,
            options: request.options.clone(),
        };
        let path = directory.units().join(FINISH);
        let failed = |error| PlanError::from(system("write", &path, &error));
        // The largest number takes the most room.
        let header_bytes = serde_json::to_vec(&header).map_err(|error| failed(error.into()))?.len();
        let writer = match state {
            None => File::create_new(&path).and_then(|file| {
                UnitWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file), &header)
            }),
            Some(UnitsState { finish: (entries, length), .. }) => go_on_with(&path, *length)
                .map(|file| BufWriter::with_capacity(BUFFER_BYTES, file))
                .map(|output| UnitWriter::go_on(output, *entries)),
        };
        let finish = FinishUnit { writer: Some(writer.map_err(failed)?), header_bytes };
        header.unit = number(0)?;
        header.kind = UnitKind::Files;
        let first = UnitsState::default();
        let state = state.unwrap_or(&first);
        let open: Result<_, _> =
            state.open.iter().map(|open| OpenUnit::go_on(directory, open)).collect();
        Ok(Units {
            directory: directory.units(),
            header,
            limits: Limits { files: request.files.max(1), bytes: request.bytes },
            next_unit: AtomicU32::new(state.next_unit),
            next_file: AtomicU32::new(state.next_file),
            open: Mutex::new(open?),
            ended: Mutex::default(),
            finish: Mutex::new(finish),
        })
    }

    /// Returns what their first lines say about the roots.
    pub(super) fn seen(&self) -> SeenRoots {
        self.header.seen
    }

    /// Flushes all units while no thread fills any, and returns their state.
    pub(super) fn save(&self) -> Result<UnitsState, PlanError> {
        self.flush_ended()?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open: Result<_, _> = open.iter_mut().map(OpenUnit::save).collect();
        let mut finish = self.finish.lock().unwrap_or_else(PoisonError::into_inner);
        let finish = finish
            .writer
            .as_mut()
            .map_or(Ok((0, 0)), |writer| Ok((writer.entries(), flush_so_far(writer.output())?)));
        let state = UnitsState {
            next_unit: self.next_unit.load(Ordering::Relaxed),
            next_file: self.next_file.load(Ordering::Relaxed),
            open: open?,
            finish: finish.map_err(|error| self.failed(FINISH, &error))?,
        };
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| self.failed("", &error))?;
        Ok(state)
    }

    fn flush_ended(&self) -> Result<(), PlanError> {
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        // The first flush makes the filesystem write its journal, and hardly anything is left to the others.
        ended.into_iter().try_for_each(|number| flush(&self.path(number)))
    }

    /// Takes a unit with room for this thread alone. [`Units::give_back`] ends that.
    pub(super) fn take(&self) -> Option<OpenUnit> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(super) fn give_back(&self, unit: Option<OpenUnit>) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).extend(unit);
    }

    /// Adds an entry with one name to a unit with room, or to one that is begun; cuts it if it is large.
    pub(super) fn add(&self, unit: &mut Option<OpenUnit>, entry: &Entry) -> Result<(), PlanError> {
        let size = size_of(entry);
        match ranges(size, self.limits.bytes) {
            Some((length, count)) => self.add_ranges(entry, size, length, count),
            None => self.add_uncut(unit, entry),
        }
    }

    /// Adds an entry with one name, whatever its size is.
    pub(super) fn add_uncut(
        &self,
        unit: &mut Option<OpenUnit>,
        entry: &Entry,
    ) -> Result<(), PlanError> {
        let size = size_of(entry);
        self.make_room(unit, 1, size)?.write(entry, size)
    }

    /// Adds all names of a file to one unit.
    pub(super) fn add_group(&self, mut names: Vec<Entry>) -> Result<(), PlanError> {
        let mut unit = self.take();
        let added = match &mut names[..] {
            [entry] => self.add(&mut unit, entry),
            names => self.add_names(&mut unit, names),
        };
        self.give_back(unit);
        added
    }

    fn add_names(&self, unit: &mut Option<OpenUnit>, names: &mut [Entry]) -> Result<(), PlanError> {
        let first = names.first().and_then(|first| Some((first.kind, first.source.as_ref()?.size)));
        let size = first.filter(|(kind, _)| *kind == Kind::File).map_or(0, |(_, size)| size);
        let unit = self.make_room(unit, names.len() as u64, size)?;
        let index = unit.writer.entries();
        for (number, entry) in names.iter_mut().enumerate() {
            entry.with = (number > 0).then_some(index);
            unit.write(entry, if number == 0 { size } else { 0 })?;
        }
        Ok(())
    }

    /// Writes a unit for each range of a file.
    fn add_ranges(
        &self,
        entry: &Entry,
        size: u64,
        length: u64,
        count: u32,
    ) -> Result<(), PlanError> {
        let file = self.next_file.fetch_add(1, Ordering::Relaxed);
        let first = self.number(count)?;
        let mut entry = entry.clone();
        for index in 0..count {
            let number = UnitNumber::new(first.get() + index).ok_or(PlanError::TooManyUnits)?;
            let offset = u64::from(index) * length;
            let range = (offset, length.min(size - offset));
            entry.part = Some(Part { range, file, ranges: count, first });
            let mut unit = self.begin(number, UnitKind::Range)?;
            unit.write(&entry, 0)?;
            self.end(unit)?;
        }
        Ok(())
    }

    /// Adds a directory or a deletion to the last unit.
    pub(super) fn add_to_finish(&self, entry: &Entry) -> Result<(), PlanError> {
        let mut finish = self.finish.lock().unwrap_or_else(PoisonError::into_inner);
        let written = finish.writer.as_mut().map_or(Ok(0), |writer| writer.write(entry));
        written.map_err(|error| self.failed(FINISH, &error))?;
        Ok(())
    }

    /// Ends all units, and returns their number.
    pub(super) fn finish(self) -> Result<u32, PlanError> {
        for unit in std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.end(unit)?;
        }
        let number = self.number(1)?;
        self.flush_ended()?;
        let mut finish = self.finish.lock().unwrap_or_else(PoisonError::into_inner);
        let header = Header { unit: number, kind: UnitKind::Finish, ..self.header.clone() };
        if let Some(writer) = finish.writer.take() {
            let path = self.path(number);
            let ended = end_finish(writer, &header, finish.header_bytes)
                .and_then(|()| fs::rename(self.directory.join(FINISH), &path));
            ended.map_err(|error| PlanError::from(system("write", &path, &error)))?;
        }
        Ok(number.get() + 1)
    }

    /// Takes numbers of units that follow one another, and returns the first.
    fn number(&self, count: u32) -> Result<UnitNumber, PlanError> {
        let taken = self.next_unit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            next.checked_add(count).filter(|next| *next <= MAX_UNITS)
        });
        taken.ok().and_then(UnitNumber::new).ok_or(PlanError::TooManyUnits)
    }

    /// Returns a unit with room for so many entries and bytes that belong together.
    fn make_room<'u>(
        &self,
        unit: &'u mut Option<OpenUnit>,
        entries: u64,
        bytes: u64,
    ) -> Result<&'u mut OpenUnit, PlanError> {
        let limits = self.limits;
        let is_full = |unit: &mut OpenUnit| {
            limits.closes_before(unit.writer.entries(), unit.bytes, entries, bytes)
        };
        if let Some(full) = unit.take_if(is_full) {
            self.end(full)?;
        }
        match unit {
            Some(unit) => Ok(unit),
            none => Ok(none.insert(self.begin(self.number(1)?, UnitKind::Files)?)),
        }
    }

    fn begin(&self, number: UnitNumber, kind: UnitKind) -> Result<OpenUnit, PlanError> {
        let path = self.path(number);
        let failed = |error| PlanError::from(system("write", &path, &error));
        let header = Header { unit: number, kind, ..self.header.clone() };
        let file = File::create_new(&path).map_err(failed)?;
        let size = if kind == UnitKind::Files { BUFFER_BYTES } else { 4096 };
        let output = BufWriter::with_capacity(size, file);
        let writer = UnitWriter::new(output, &header).map_err(failed)?;
        Ok(OpenUnit { number, path, writer, bytes: 0 })
    }

    fn end(&self, unit: OpenUnit) -> Result<(), PlanError> {
        let number = unit.number;
        unit.end()?;
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        Ok(())
    }

    fn path(&self, number: UnitNumber) -> PathBuf {
        unit_path(&self.directory, number)
    }

    fn failed(&self, name: &str, error: &io::Error) -> PlanError {
        system("write", &self.directory.join(name), error).into()
    }
}

/// Returns the number of bytes to copy.
fn size_of(entry: &Entry) -> u64 {
    match (&entry.source, entry.kind) {
        (Some(source), Kind::File) => source.size,
        _ => 0,
    }
}

impl OpenUnit {
    fn go_on(directory: &PlanDirectory, state: &OpenState) -> Result<OpenUnit, PlanError> {
        let OpenState { unit: number, entries, bytes, length } = *state;
        let path = unit_path(&directory.units(), number);
        let file =
            go_on_with(&path, length).map_err(|error| system("go on with", &path, &error))?;
        let output = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(OpenUnit { number, path, writer: UnitWriter::go_on(output, entries), bytes })
    }

    fn save(&mut self) -> Result<OpenState, PlanError> {
        let length = flush_so_far(self.writer.output())
            .map_err(|error| system("flush", &self.path, &error))?;
        let entries = self.writer.entries();
        Ok(OpenState { unit: self.number, entries, bytes: self.bytes, length })
    }

    fn write(&mut self, entry: &Entry, bytes: u64) -> Result<(), PlanError> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.writer.write(entry).map_err(|error| system("write", &self.path, &error))?;
        Ok(())
    }

    /// Ends the unit. The device begins to write it, and nobody waits for that yet.
    fn end(self) -> Result<(), PlanError> {
        let ended = self.writer.end().and_then(|output| {
            let file = output.into_inner().map_err(io::IntoInnerError::into_error)?;
            // Some filesystems do not have the call; all are flushed in the end.
            let _ = file::write_out(&file, 0, 0, false);
            Ok(())
        });
        ended.map_err(|error| system("write", &self.path, &error).into())
    }
}

/// Flushes what was written to a file, and returns its length.
pub(super) fn flush_so_far(output: &mut BufWriter<File>) -> io::Result<u64> {
    output.flush()?;
    output.get_ref().sync_all()?;
    output.stream_position()
}

/// Flushes a unit that was ended.
fn flush(path: &Path) -> Result<(), PlanError> {
    let flushed = File::open(path).and_then(|file| file.sync_all());
    flushed.map_err(|error| system("flush", path, &error).into())
}

/// Ends the last unit, and writes its first line anew, padded with blanks.
fn end_finish(
    writer: UnitWriter<BufWriter<File>>,
    header: &Header,
    header_bytes: usize,
) -> io::Result<()> {
    let mut file = writer.end()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    let mut line = serde_json::to_vec(header)?;
    line.resize(header_bytes, b' ');
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&line)?;
    file.sync_all()
}
