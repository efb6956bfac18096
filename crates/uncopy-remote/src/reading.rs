//! Reads a file in order, and asks ahead for what comes next: also beyond a range, so that the connections stay busy from
//! one range to the next.

use std::collections::VecDeque;
use std::ops::Range;

use uncopy_copy::peer::PeerError;
use uncopy_wire::Handle;

use crate::budget::Budget;
use crate::lanes::{Lanes, PendingPiece, PieceBytes};
use crate::piece::Piece;

/// Piece that has come.
#[derive(Debug)]
struct Arrived {
    bytes: Vec<u8>,
    /// Number of bytes that were handed on.
    used: usize,
    /// Whether the file ends behind it.
    is_last: bool,
}

/// Result of reading a range.
#[derive(Debug, Default)]
pub(crate) struct ReadPart {
    /// Number of bytes that were handed on.
    pub(crate) bytes: u64,
    /// Whether bytes of the file were seen to change.
    pub(crate) has_changed: bool,
    /// Whether nothing more is wanted, or there is nothing more.
    pub(crate) is_over: bool,
}

/// A file that is read.
#[derive(Debug)]
pub(crate) struct Reading {
    file: Handle,
    /// Offset of the first byte that was not handed on.
    at: u64,
    /// Offset of the first byte that was not asked for.
    next: u64,
    /// Piece that reaches beyond the last range.
    arrived: Option<Arrived>,
    pieces: VecDeque<PendingPiece>,
}

impl Reading {
    pub(crate) fn new(file: Handle, at: u64) -> Reading {
        Reading { file, at, next: at, arrived: None, pieces: VecDeque::new() }
    }

    /// Whether a range that begins at `offset` goes on here, with something that was asked for.
    pub(crate) fn is_ahead_of(&self, offset: u64) -> bool {
        self.at == offset && self.is_ahead()
    }

    /// Whether something was asked for and not handed on.
    pub(crate) fn is_ahead(&self) -> bool {
        self.arrived.is_some() || !self.pieces.is_empty()
    }

    /// Hands on a range, and asks for bytes up to `ahead_to` meanwhile. `take` returns whether it wants more.
    pub(crate) fn read(
        &mut self,
        lanes: &Lanes,
        budget: &Budget,
        range: &Range<u64>,
        ahead_to: u64,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<ReadPart, PeerError> {
        let mut part = ReadPart::default();
        while self.at < range.end && !part.is_over {
            self.ask(lanes, budget, range.end.max(ahead_to))?;
            let Some((mut arrived, has_changed)) = self.wait(lanes)? else {
                part.is_over = true;
                break;
            };
            part.has_changed |= has_changed;
            let left = &arrived.bytes[arrived.used..];
            let room = usize::try_from(range.end - self.at).unwrap_or(usize::MAX);
            let handed_on = left.len().min(room);
            let goes_on = handed_on == 0 || take(&left[..handed_on]);
            arrived.used += handed_on;
            self.at += handed_on as u64;
            part.bytes += handed_on as u64;
            let is_used = arrived.used == arrived.bytes.len();
            part.is_over = !goes_on || is_used && arrived.is_last;
            match is_used {
                true => lanes.spare().give(arrived.bytes),
                false => self.arrived = Some(arrived),
            }
        }
        Ok(part)
    }

    /// Asks for pieces up to `end`, as far as memory allows.
    fn ask(&mut self, lanes: &Lanes, budget: &Budget, end: u64) -> Result<(), PeerError> {
        while self.next < end {
            let lengths = lanes.lengths();
            let bytes = lengths.piece.min(end - self.next);
            let share = match self.is_ahead() {
                // The piece that is waited for needs no share: there are as many as readers.
                false => None,
                true if self.next - self.at + bytes > lengths.ahead => break,
                true => match budget.try_take(bytes as usize) {
                    None => break,
                    share => share,
                },
            };
            let piece = Piece { file: self.file, offset: self.next, bytes: bytes as u32 };
            self.pieces.push_back(lanes.begin(piece, share)?);
            self.next += bytes;
        }
        Ok(())
    }

    /// Returns the next piece, and whether it has changed on the way.
    fn wait(&mut self, lanes: &Lanes) -> Result<Option<(Arrived, bool)>, PeerError> {
        if let Some(arrived) = self.arrived.take() {
            return Ok(Some((arrived, false)));
        }
        let Some(pending) = self.pieces.pop_front() else { return Ok(None) };
        let wanted = pending.bytes();
        let PieceBytes { bytes, has_changed } = lanes.wait(pending)?;
        let is_last = (bytes.len() as u64) < wanted;
        Ok(Some((Arrived { bytes, used: 0, is_last }, has_changed)))
    }
}
