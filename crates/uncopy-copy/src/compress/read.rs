//! Decompresses a file frame by frame, in constant memory whatever the file claims.

use std::os::fd::BorrowedFd;

use xxhash_rust::xxh64::Xxh64;

use super::codec::{self, Decoder};
use super::table::{self, Check, MAX_HEAD_BYTES, SKIPPABLE_HEAD_BYTES, TableReader};
use uncopy_core::{Errno, Error, Reason};
use uncopy_os::AlignedBuffer;
use uncopy_os::transfer;

/// Size of one read: whole blocks into aligned memory, so that `O_DIRECT` descriptors work too.
const READ_BYTES: usize = 256 << 10;

/// Room in front for the rest of the previous read.
const REST_BYTES: usize = 4096;

/// Why a compressed file cannot be read further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    System(Errno),
    /// Damaged contents, with a description and the offset.
    Damaged {
        what: String,
        offset: u64,
    },
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Trouble {
        Trouble::System(errno)
    }
}

impl Trouble {
    /// Makes the error of an operation on a file.
    pub(crate) fn on(self, operation: &'static str, path: impl AsRef<std::path::Path>) -> Error {
        match self {
            Trouble::System(errno) => Error::system(operation, path, errno),
            Trouble::Damaged { what, offset } => {
                Error::new("decompress", path, Reason::Damaged { what, offset })
            }
        }
    }
}

/// Reads the decompressed contents of a file.
pub(crate) struct Reader<'a> {
    input: Input<'a>,
    decoder: Decoder,
    check: Check,
    frame: Option<Frame>,
    /// Whether a seek table was found.
    has_table: bool,
    is_at_end: bool,
}

/// A frame that is being decoded.
struct Frame {
    start: u64,
    /// Content size that the header states.
    stated_bytes: Option<u64>,
    /// Whether its header has been decoded.
    is_begun: bool,
    bytes: u64,
    sum: Xxh64,
}

impl Frame {
    /// Returns the number of bytes that the next call may decode. zstd decodes a frame in one step if it
    /// has room for all of it, and then refuses ends that it accepts otherwise. The result must not depend
    /// on the room, so the first call never gets enough.
    fn max_bytes(&self, room: usize) -> usize {
        match self.stated_bytes.map(|bytes| usize::try_from(bytes.saturating_sub(1))) {
            Some(Ok(max)) if !self.is_begun => room.min(max),
            _ => room,
        }
    }

    /// Describes a wrong content size of the finished frame. zstd does not check it where the last block is
    /// empty.
    fn size_mismatch(&self) -> Option<String> {
        let stated = self.stated_bytes.filter(|stated| *stated != self.bytes)?;
        Some(format!("a frame states a size of {stated} bytes and holds {}", self.bytes))
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(fd: BorrowedFd<'a>) -> Result<Reader<'a>, Trouble> {
        let decoder = Decoder::new().map_err(|what| Trouble::Damaged { what, offset: 0 })?;
        let (input, check) = (Input::new(fd)?, Check::default());
        Ok(Reader { input, decoder, check, frame: None, has_table: false, is_at_end: false })
    }

    /// Returns the number of bytes of the file read so far.
    pub(crate) fn consumed(&self) -> u64 {
        self.input.offset
    }

    /// Returns the number of frames read so far, skippable ones excluded.
    pub(crate) fn frames(&self) -> u64 {
        self.check.frames()
    }

    /// Fills the buffer; returns less only at the end of the file.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Trouble> {
        let mut filled = 0;
        while filled < buffer.len() && !self.is_at_end {
            if self.frame.is_some() {
                filled += self.decode(&mut buffer[filled..])?;
            } else {
                self.begin_frame()?;
            }
        }
        Ok(filled)
    }

    /// Reads the next header: a frame, a skippable frame, or the end.
    fn begin_frame(&mut self) -> Result<(), Trouble> {
        let start = self.input.offset;
        let head = self.input.peek(MAX_HEAD_BYTES)?;
        let Some(magic) = head.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes)) else {
            return match (head.is_empty(), start) {
                (true, 1..) => {
                    self.is_at_end = true;
                    Ok(())
                }
                _ => Err(cut_off(start)),
            };
        };
        if magic == table::FRAME_MAGIC {
            let stated_bytes = codec::content_bytes(head);
            let (is_begun, bytes, sum) = (false, 0, Xxh64::new(0));
            self.frame = Some(Frame { start, stated_bytes, is_begun, bytes, sum });
            return Ok(());
        }
        if !table::is_skippable(magic) {
            let what = match start {
                0 => "not a zstd file: it does not begin with a frame",
                _ => "the bytes that follow are not a zstd frame",
            };
            return Err(damaged(what, start));
        }
        let Some(length) = head.get(4..8).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
        else {
            return Err(cut_off(start));
        };
        self.input.advance(SKIPPABLE_HEAD_BYTES);
        let payload_bytes = u64::from(length);
        if magic == table::TABLE_MAGIC {
            self.read_table(start, payload_bytes)
        } else {
            self.skip_frame(start, payload_bytes, |_| ())
        }
    }

    /// Skips a skippable frame; `see` gets its contents.
    fn skip_frame(
        &mut self,
        start: u64,
        payload_bytes: u64,
        mut see: impl FnMut(&[u8]),
    ) -> Result<(), Trouble> {
        let mut left = payload_bytes;
        while left > 0 {
            let bytes = self.input.peek(1)?;
            if bytes.is_empty() {
                return Err(cut_off(start));
            }
            let max = usize::try_from(left).unwrap_or(usize::MAX);
            let bytes = &bytes[..bytes.len().min(max)];
            see(bytes);
            let read = bytes.len();
            self.input.advance(read);
            left -= read as u64;
        }
        self.check.add(self.input.offset - start, 0, Xxh64::new(0).digest());
        Ok(())
    }

    /// Checks the seek table against the frames before it. A seek table ends the file.
    fn read_table(&mut self, start: u64, payload_bytes: u64) -> Result<(), Trouble> {
        let wrong = || damaged("the seek table does not list the frames of the file", start);
        let mut found: TableReader = self.check.begin(payload_bytes).ok_or_else(wrong)?;
        let check = std::mem::take(&mut self.check);
        self.skip_frame(start, payload_bytes, |bytes| found.take(bytes))?;
        self.check = check;
        if !self.check.agrees(&found) {
            return Err(wrong());
        }
        if !self.input.peek(1)?.is_empty() {
            return Err(damaged("there are bytes after the seek table", self.input.offset));
        }
        self.has_table = true;
        self.is_at_end = true;
        Ok(())
    }

    /// Decodes the next piece of a frame. Returns the number of bytes written.
    fn decode(&mut self, output: &mut [u8]) -> Result<usize, Trouble> {
        let Some(frame) = &mut self.frame else { return Ok(0) };
        let input = self.input.peek(1)?;
        let is_end = input.is_empty();
        let room = frame.max_bytes(output.len());
        let step = self.decoder.decode(input, &mut output[..room]).map_err(|what| {
            let what = format!("zstd cannot decode a frame: {what}");
            Trouble::Damaged { what, offset: frame.start }
        })?;
        self.input.advance(step.read);
        frame.is_begun = true;
        frame.bytes += step.written as u64;
        frame.sum.update(&output[..step.written]);
        if step.ended {
            if let Some(what) = frame.size_mismatch() {
                return Err(Trouble::Damaged { what, offset: frame.start });
            }
            let compressed_bytes = self.input.offset - frame.start;
            self.check.add(compressed_bytes, frame.bytes, frame.sum.digest());
            self.frame = None;
        } else if is_end && step.written == 0 {
            return Err(cut_off(frame.start));
        }
        Ok(step.written)
    }
}

fn damaged(what: &str, offset: u64) -> Trouble {
    Trouble::Damaged { what: what.to_owned(), offset }
}

fn cut_off(offset: u64) -> Trouble {
    damaged("the file ends in the middle of a frame", offset)
}

/// Buffered input of a file, read in order.
struct Input<'a> {
    fd: BorrowedFd<'a>,
    /// Each read goes to [`REST_BYTES`]; the rest of the previous one ends there.
    buffer: AlignedBuffer,
    start: usize,
    end: usize,
    /// File offset of the next read.
    next: u64,
    /// File offset of `start`.
    offset: u64,
}

impl<'a> Input<'a> {
    fn new(fd: BorrowedFd<'a>) -> Result<Input<'a>, Errno> {
        let buffer = AlignedBuffer::new(REST_BYTES + READ_BYTES)?;
        Ok(Input { fd, buffer, start: REST_BYTES, end: REST_BYTES, next: 0, offset: 0 })
    }

    /// Returns the next bytes: at least `min`, which is small, except at the end of the file.
    fn peek(&mut self, min: usize) -> Result<&[u8], Errno> {
        while self.end - self.start < min {
            let rest = self.end - self.start;
            self.buffer.copy_within(self.start..self.end, REST_BYTES - rest);
            (self.start, self.end) = (REST_BYTES - rest, REST_BYTES);
            let n = match transfer::read_at(self.fd, &mut self.buffer[REST_BYTES..], self.next) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            self.next += n as u64;
            self.end += n;
            if n == 0 {
                break;
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Marks bytes as consumed.
    fn advance(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }
}

/// Fuzzes decompression (`fuzz/`). The result must not depend on the size of the pieces.
#[cfg(all(fuzzing, feature = "compress"))]
pub fn fuzz(file: BorrowedFd<'_>) {
    // A few bytes can expand to very many.
    const MAX_BYTES: usize = 4 << 20;
    let all = |piece: usize| {
        let mut reader = Reader::new(file)?;
        let (mut all, mut buffer) = (Vec::<u8>::new(), vec![0; piece]);
        while all.len() < MAX_BYTES {
            let n = reader.read(&mut buffer)?;
            all.extend(&buffer[..n]);
            if n < piece {
                break;
            }
        }
        assert!(reader.frames() <= reader.consumed());
        Ok::<_, Trouble>(all)
    };
    match (all(1 << 20), all(1 << 14)) {
        (Ok(large), Ok(small)) => assert!(large == small, "pieces differ"),
        (Err(_), Err(_)) => {}
        // Smaller pieces come closer to the damage, and may reach the limit first.
        (Ok(all), Err(_)) | (Err(_), Ok(all)) => assert!(all.len() >= MAX_BYTES, "pieces differ"),
    }
}

/// Wraps bytes as a seek table (`fuzz/`).
#[cfg(all(fuzzing, feature = "compress"))]
pub fn fuzz_table(payload: &[u8]) -> Vec<u8> {
    table::framed(payload)
}

#[cfg(all(test, feature = "compress"))]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;
    use crate::Level;
    use crate::compress::codec::Encoder;

    /// Decompresses a file of these bytes in pieces of this size.
    fn read(file: &[u8], piece: usize) -> Result<Vec<u8>, Trouble> {
        let mut temporary = tempfile::tempfile().unwrap();
        temporary.write_all(file).unwrap();
        let mut reader = Reader::new(temporary.as_fd())?;
        let (mut all, mut buffer) = (Vec::new(), vec![0; piece]);
        loop {
            let n = reader.read(&mut buffer)?;
            all.extend(&buffer[..n]);
            if n < piece {
                return Ok(all);
            }
        }
    }

    fn frame(bytes: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        Encoder::new(Level::default()).unwrap().encode(bytes, &mut frame).unwrap();
        frame
    }

    /// Makes a file whose seek table has checksums, as other programs write it.
    fn with_checksums(parts: &[&[u8]], spoil: u32) -> Vec<u8> {
        let (mut file, mut entries) = (Vec::new(), Vec::new());
        for part in parts {
            let frame = frame(part);
            let sum = xxhash_rust::xxh64::xxh64(part, 0) as u32 ^ spoil;
            let entry = [frame.len() as u32, part.len() as u32, sum];
            entries.extend(entry.map(u32::to_le_bytes).concat());
            file.extend(frame);
        }
        file.extend(table::TABLE_MAGIC.to_le_bytes());
        file.extend((entries.len() as u32 + 9).to_le_bytes());
        file.extend(entries);
        file.extend((parts.len() as u32).to_le_bytes());
        file.extend([0x80, 0xb1, 0xea, 0x92, 0x8f]);
        file
    }

    #[test]
    fn table_checksums_are_compared_with_the_frames() {
        let parts = [&[1; 300_000][..], b"second", b""];
        let whole = parts.concat();
        for piece in [1 << 20, 4096, 7] {
            assert_eq!(read(&with_checksums(&parts, 0), piece).as_ref(), Ok(&whole), "{piece}");
        }
        let found = read(&with_checksums(&parts, 1), 4096);
        assert!(matches!(found, Err(Trouble::Damaged { what, .. }) if what.contains("seek table")));
    }

    #[test]
    fn headers_may_cross_the_end_of_a_read() {
        // Headers at every offset around the end of a read.
        for shift in 0..20 {
            let skipped = READ_BYTES - 8 - shift;
            let mut file = 0x184D_2A50_u32.to_le_bytes().to_vec();
            file.extend((skipped as u32 - 8).to_le_bytes());
            file.resize(skipped, 9);
            file.extend(frame(b"behind"));
            file.extend([0x51, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]);
            file.extend(frame(b" and behind"));
            assert_eq!(read(&file, 100).as_deref(), Ok(&b"behind and behind"[..]), "{shift}");
        }
    }

    /// Makes a frame whose header states this size, of blocks of a kind with their bytes.
    fn frame_of(stated: u16, blocks: &[(u32, &[u8])]) -> Vec<u8> {
        let mut frame = [&table::FRAME_MAGIC.to_le_bytes()[..], &[0x40, 0x58]].concat();
        frame.extend((stated - 256).to_le_bytes());
        for (place, (kind, bytes)) in blocks.iter().enumerate() {
            let is_last = u32::from(place + 1 == blocks.len());
            frame.extend(&(is_last | kind << 1 | (bytes.len() as u32) << 3).to_le_bytes()[..3]);
            frame.extend(*bytes);
        }
        frame
    }

    #[test]
    fn a_wrong_content_size_is_damage_whatever_the_piece_size() {
        const RAW: u32 = 0;
        const COMPRESSED: u32 = 2;
        let bytes = [7; 300];
        for (blocks, holds) in [
            (&[(RAW, &bytes[..])][..], 300),
            (&[(RAW, &bytes[..]), (RAW, b"")], 300),
            (&[(RAW, &bytes[..299]), (RAW, &[7]), (RAW, b"")], 300),
            (&[(RAW, &bytes[..299]), (RAW, b"")], 299),
            (&[(RAW, b"")], 0),
            (&[(COMPRESSED, b"")], 0),
        ] {
            // As the first frame, and after another.
            for before in [vec![], frame(b"")] {
                let file = [before.clone(), frame_of(300, blocks)].concat();
                for piece in [1 << 20, 301, 300, 299, 1] {
                    let found = read(&file, piece);
                    if holds == 300 {
                        assert_eq!(found.as_deref(), Ok(&bytes[..]), "{blocks:?}, {piece}");
                        continue;
                    }
                    let Err(Trouble::Damaged { what, offset }) = found else {
                        panic!("{blocks:?}, {piece}: {found:?}");
                    };
                    assert_eq!(offset, before.len() as u64);
                    assert_eq!(
                        what,
                        format!("a frame states a size of 300 bytes and holds {holds}")
                    );
                }
            }
        }
    }

    #[test]
    fn the_piece_size_does_not_change_the_result() {
        // A compressed and empty last block is invalid: zstd refuses it where it decodes the frame in
        // one step, and accepts it otherwise.
        let file = frame_of(300, &[(0, &[7; 300]), (2, b"")]);
        let results = [1 << 20, 300, 299, 1].map(|piece| read(&file, piece));
        assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    }

    #[test]
    fn small_frames_are_read_in_pieces_of_any_size() {
        for bytes in [&b""[..], b"1", b"22", b"333"] {
            for piece in [100, 3, 2, 1] {
                let file = [frame(bytes), frame(bytes)].concat();
                assert_eq!(read(&file, piece), Ok([bytes, bytes].concat()), "{bytes:?} {piece}");
            }
        }
    }

    #[test]
    fn a_file_that_is_not_zstd_is_damaged_at_offset_zero() {
        for bytes in [&b""[..], b"x", b"plain text, no frame", &[0x28, 0xb5, 0x2f]] {
            assert!(matches!(read(bytes, 100), Err(Trouble::Damaged { offset: 0, .. })));
        }
        let mut followed = frame(b"a");
        let offset = followed.len() as u64;
        followed.extend(b"garbage");
        assert!(
            matches!(read(&followed, 100), Err(Trouble::Damaged { offset: o, .. }) if o == offset)
        );
    }
}
