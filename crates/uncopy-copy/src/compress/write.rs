//! Writes a compressed or decompressed copy.

use super::Level;
use super::codec::Encoder;
use super::read::Reader;
use super::table::{self, Table};
use crate::conversion::Conversion;
use crate::file_copy::FileCopy;
use crate::observer::{Phase, Progress};
use crate::options::Sparse;
use crate::source::Source;
use crate::sparse::{self, Segment};
use crate::staging::Staging;
use crate::zeros;
use uncopy_core::{Cost, Mechanism};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::{file, transfer};

/// Bytes written at a time while decompressing: whole blocks.
const PIECE_BYTES: usize = 256 << 10;

/// Writes the copy, adds its bytes to the receipt, and returns its length.
pub(crate) fn write(conversion: Conversion, copy: &mut FileCopy<'_, '_>) -> Result<u64> {
    let (source, sparse) = (copy.source, copy.facts.sparse);
    let mut sink = Sink { source, staging: copy.staging, offset: 0, done_bytes: 0, copy };
    sink.report()?;
    source.settle()?;
    let (source_bytes, frames) = match conversion {
        Conversion::Compress(level) => sink.compress(level)?,
        Conversion::Decompress => sink.decompress(sparse)?,
        Conversion::Leave => (0, 0),
    };
    let length = sink.offset;
    if let Some(compression) = &mut copy.receipt.compression {
        (compression.source_bytes, compression.frames) = (source_bytes, frames);
    }
    Ok(length)
}

/// The copy while it grows.
struct Sink<'t, 'a, 's> {
    source: &'a Source<'a>,
    staging: &'a Staging<'s>,
    /// Its length so far.
    offset: u64,
    /// Bytes of the source read so far.
    done_bytes: u64,
    copy: &'t mut FileCopy<'a, 's>,
}

impl Sink<'_, '_, '_> {
    /// Returns the length of the source and the number of frames.
    fn compress(&mut self, level: Level) -> Result<(u64, u64)> {
        let has_size = self.source.has_reliable_size();
        // A file without a reliable size is read until the end of file.
        let size = if has_size { self.source.stat.size } else { u64::MAX };
        let mut buffer = vec![0; table::frame_bytes(if has_size { size } else { 0 })];
        let mut encoder = Encoder::new(level).map_err(|text| self.refuse(text))?;
        let (mut table, mut frame) = (Table::default(), Vec::new());
        let mut zeros = Zeros::new(self.source, size);
        let mut offset = 0;
        loop {
            let length = buffer.len().min(usize::try_from(size - offset).unwrap_or(usize::MAX));
            let mut bytes = length;
            if length == buffer.len() && zeros.covers(offset, length as u64) {
                if zeros.frame.is_empty() {
                    buffer.fill(0);
                    let encoded = encoder.encode(&buffer, &mut zeros.frame);
                    encoded.map_err(|text| self.refuse(text))?;
                }
                self.put(&zeros.frame)?;
                table.add(zeros.frame.len(), length);
            } else {
                bytes = transfer::read_all_at(self.source.fd()?, &mut buffer[..length], offset)
                    .map_err(|errno| Error::system("read", self.source.path, errno))?;
                if bytes > 0 || offset == 0 {
                    let encoded = encoder.encode(&buffer[..bytes], &mut frame);
                    encoded.map_err(|text| self.refuse(text))?;
                    self.put(&frame)?;
                    table.add(frame.len(), bytes);
                }
            }
            offset += bytes as u64;
            self.done_bytes = offset;
            self.report()?;
            if bytes < buffer.len() || offset == size {
                break;
            }
        }
        let bytes = table.finish().ok_or_else(|| {
            self.refuse("it has more frames than a seek table can list".to_owned())
        })?;
        self.put(&bytes)?;
        Ok((offset, table.frames()))
    }

    /// Returns the length of the source and the number of its frames.
    fn decompress(&mut self, sparse: Sparse) -> Result<(u64, u64)> {
        let path = self.source.path;
        let mut reader =
            Reader::new(self.source.fd()?).map_err(|trouble| trouble.on("read", path))?;
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let bytes = reader.read(&mut buffer).map_err(|trouble| trouble.on("read", path))?;
            self.done_bytes = reader.consumed();
            for (range, zero) in zeros::runs(&buffer[..bytes]) {
                if zero && sparse != Sparse::Never {
                    self.skip_zeros(range.len() as u64)?;
                } else {
                    self.put(&buffer[range])?;
                }
            }
            self.report()?;
            if bytes < buffer.len() {
                return Ok((reader.consumed(), reader.frames()));
            }
        }
    }

    /// Writes all bytes, at the permitted rate.
    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let permitted = self.admit(bytes.len())?;
            match transfer::write_at(self.staging.fd(), &bytes[..permitted], self.offset) {
                Ok(0) => return Err(self.failure(Errno::EIO)),
                Ok(n) => {
                    bytes = &bytes[n..];
                    self.offset += n as u64;
                    self.copy.receipt.add(Mechanism::ReadWrite, n as u64, Cost::UserCopied);
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(self.failure(errno)),
            }
        }
        Ok(())
    }

    /// Returns how many bytes may be written now; waits as the rate requires.
    fn admit(&mut self, wanted: usize) -> Result<usize> {
        let progress = self.progress();
        let admitted = self
            .copy
            .wait_for_rate(progress, wanted as u64)
            .ok_or_else(|| Error::new("copy", self.source.path, Reason::Cancelled))?;
        Ok(usize::try_from(admitted).unwrap_or(wanted))
    }

    /// Leaves a hole. Sets the new length at once: XFS preallocates space behind the end of a growing
    /// file, and keeps it where the next write skips over it (`xfs_iomap_prealloc_size`).
    fn skip_zeros(&mut self, bytes: u64) -> Result<()> {
        let end = self.offset + bytes;
        file::truncate(self.staging.fd(), end).map_err(|errno| {
            Error::destination("set the size of", self.staging.destination().given, errno)
        })?;
        self.offset = end;
        self.copy.receipt.add(Mechanism::ReadWrite, bytes, Cost::Zeros);
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress {
            phase: Phase::Copying,
            done_bytes: self.done_bytes,
            total_bytes: self.source.size().unwrap_or(0),
        }
    }

    fn report(&mut self) -> Result<()> {
        self.source.look()?;
        let progress = self.progress();
        self.copy.report(progress)
    }

    fn failure(&self, errno: Errno) -> Error {
        Error::destination("write to", self.staging.destination().given, errno)
    }

    fn refuse(&self, text: String) -> Error {
        Error::new("compress", self.source.path, Reason::Refused(text.into()))
    }
}

/// Holes of the source, which are not read, and the frame of zeros that replaces them, compressed once.
struct Zeros<'a> {
    source: &'a Source<'a>,
    size: u64,
    may_have_holes: bool,
    /// Start and end of the hole found last.
    hole: (u64, u64),
    frame: Vec<u8>,
}

impl<'a> Zeros<'a> {
    fn new(source: &'a Source<'a>, size: u64) -> Zeros<'a> {
        let may_have_holes = source.has_reliable_size() && sparse::may_have_holes(&source.stat);
        Zeros { source, size, may_have_holes, hole: (0, 0), frame: Vec::new() }
    }

    /// Whether the range lies in a hole.
    fn covers(&mut self, offset: u64, length: u64) -> bool {
        if !self.may_have_holes {
            return false;
        }
        if offset >= self.hole.1 {
            match self.source.file.segment(offset, self.size) {
                Segment::Hole { start, end } => self.hole = (start, end),
                Segment::Data { .. } => return false,
            }
        }
        self.hole.0 <= offset && offset + length <= self.hole.1
    }
}
