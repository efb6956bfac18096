//! Compresses some pieces of a file on trial.

use super::Level;
use super::codec::Encoder;
use crate::source::Source;
use crate::sparse::{self, Segment};
use uncopy_core::{CompressionSample, Error, Reason, Result};
use uncopy_os::transfer;

/// Number of pieces in a sample, spread over the file.
const PIECES: u64 = 4;
const FULL_PIECE_BYTES: u64 = 32 << 10;
const SMALL_PIECE_BYTES: u64 = 2 << 10;

/// Bytes of a small sample.
pub(super) const SMALL_BYTES: u64 = PIECES * SMALL_PIECE_BYTES;
/// Bytes of a full sample.
const FULL_BYTES: u64 = PIECES * FULL_PIECE_BYTES;

/// Length of a seek table with one entry, which every compressed file carries.
const TABLE_BYTES: u64 = 25;

/// Result of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) sample: CompressionSample,
    /// Compressed size of the piece that shrank most, in per cent.
    pub(super) least_percent: u64,
    /// Compressed size of the piece that shrank least, in per cent.
    pub(super) most_percent: u64,
}

/// Takes trials of one file.
pub(super) struct Sampler<'a, 'p> {
    source: &'a Source<'p>,
    size: u64,
    encoder: Encoder,
    buffer: Vec<u8>,
    frame: Vec<u8>,
}

impl<'a, 'p> Sampler<'a, 'p> {
    /// # Errors
    /// Out of memory.
    pub(super) fn new(source: &'a Source<'p>, size: u64) -> Result<Sampler<'a, 'p>> {
        let encoder = Encoder::new(Level::new(1).unwrap_or_default())
            .map_err(|text| Error::new("compress", source.path, Reason::Refused(text.into())))?;
        Ok(Sampler { source, size, encoder, buffer: Vec::new(), frame: Vec::new() })
    }

    /// Compresses a few small pieces, none at the beginning or end, which are often unlike the rest.
    /// `None`: the file has no data.
    pub(super) fn small(&mut self) -> Result<Option<Trial>> {
        let part = self.size / PIECES;
        let begin = |piece| part * piece + part.saturating_sub(SMALL_PIECE_BYTES) / 2;
        self.pieces(SMALL_PIECE_BYTES, begin)
    }

    /// Compresses pieces from the beginning to the end, or a short file as a whole. `None`: the file has no
    /// data.
    pub(super) fn full(&mut self) -> Result<Option<Trial>> {
        if self.size <= FULL_BYTES && !sparse::may_have_holes(&self.source.stat) {
            let mut trial = self.piece(0, self.size)?;
            if let Some(trial) = &mut trial {
                trial.sample.compressed_bytes += TABLE_BYTES;
            }
            return Ok(trial);
        }
        let gap = self.size.saturating_sub(FULL_PIECE_BYTES) / (PIECES - 1);
        self.pieces(FULL_PIECE_BYTES, |piece| gap * piece)
    }

    /// Compresses pieces of this length that begin there, or at the next data.
    fn pieces(&mut self, bytes: u64, begin: impl Fn(u64) -> u64) -> Result<Option<Trial>> {
        let (mut done, mut trial) = (0, None);
        for piece in 0..PIECES {
            let Some(offset) = self.data_from(begin(piece).max(done)) else { break };
            let next = self.piece(offset, bytes.min(self.size - offset))?;
            done = offset + next.map_or(0, |next| next.sample.bytes);
            trial = Trial::joined(trial, next);
        }
        Ok(trial)
    }

    fn piece(&mut self, offset: u64, length: u64) -> Result<Option<Trial>> {
        let Sampler { source, encoder, buffer, frame, .. } = self;
        buffer.resize(length as usize, 0);
        let read = transfer::read_all_at(source.fd()?, buffer, offset);
        let n = read.map_err(|errno| Error::system("read", source.path, errno))?;
        if n == 0 {
            return Ok(None);
        }
        encoder
            .encode(&buffer[..n], frame)
            .map_err(|text| Error::new("compress", source.path, Reason::Refused(text.into())))?;
        Ok(Some(Trial::new(n as u64, frame.len() as u64)))
    }

    /// Returns the first offset with data, from `offset` on.
    fn data_from(&self, offset: u64) -> Option<u64> {
        let Sampler { source, size, .. } = *self;
        if offset >= size {
            return None;
        }
        if !sparse::may_have_holes(&source.stat) {
            return Some(offset);
        }
        match source.file.segment(offset, size) {
            Segment::Data { start, .. } => Some(start),
            Segment::Hole { end, .. } => Some(end).filter(|end| *end < size),
        }
    }
}

impl Trial {
    fn new(bytes: u64, compressed_bytes: u64) -> Trial {
        let sample = CompressionSample { bytes, compressed_bytes };
        let percent = (compressed_bytes * 100).div_ceil(bytes.max(1));
        Trial { sample, least_percent: percent, most_percent: percent }
    }

    /// Joins two trials of one file.
    pub(super) fn joined(one: Option<Trial>, other: Option<Trial>) -> Option<Trial> {
        let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
        Some(Trial {
            sample: CompressionSample {
                bytes: one.sample.bytes + other.sample.bytes,
                compressed_bytes: one.sample.compressed_bytes + other.sample.compressed_bytes,
            },
            least_percent: one.least_percent.min(other.least_percent),
            most_percent: one.most_percent.max(other.most_percent),
        })
    }
}
