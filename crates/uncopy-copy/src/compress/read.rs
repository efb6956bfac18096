//! What a compressed file holds: frame after frame, in memory of constant size, whatever the file
//! claims.

use std::os::fd::BorrowedFd;

use xxhash_rust::xxh64::Xxh64;

use super::codec::{self, Decoder};
use super::table::{self, Check, Found, MOST_HEAD_BYTES, SKIPPABLE_HEAD_BYTES};
use uncopy_core::{Errno, Error, Reason};
use uncopy_os::AlignedBuffer;
use uncopy_os::transfer;

/// One read: whole blocks to aligned memory, so that `O_DIRECT` descriptors can be read too.
const READ_BYTES: usize = 256 << 10;

/// Room before them for what was left of the read before.
const REST_BYTES: usize = 4096;

/// Why a compressed file cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    System(Errno),
    /// What is wrong with it, and where.
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
    /// The error of an operation on a file.
    pub(crate) fn on(self, operation: &'static str, path: impl AsRef<std::path::Path>) -> Error {
        match self {
            Trouble::System(errno) => Error::system(operation, path, errno),
            Trouble::Damaged { what, offset } => {
                Error::new("decompress", path, Reason::Damaged { what, offset })
            }
        }
    }
}

/// Reads what a compressed file holds.
pub(crate) struct Reader<'a> {
    input: Input<'a>,
    decoder: Decoder,
    check: Check,
    frame: Option<Frame>,
    /// A seek table was met.
    has_table: bool,
    over: bool,
}

/// A frame that is being decoded.
struct Frame {
    start: u64,
    /// How many it says that it holds.
    said_bytes: Option<u64>,
    /// Its head is decoded.
    is_begun: bool,
    bytes: u64,
    sum: Xxh64,
}

impl Frame {
    /// How much of it may be decoded at once. zstd decodes a frame in one step if there is room for all
    /// of it, and then refuses ends that it lets pass otherwise. What is read must not depend on the
    /// room that there happens to be: for the first call there is never enough.
    fn most_bytes(&self, room: usize) -> usize {
        match self.said_bytes.map(|said| usize::try_from(said.saturating_sub(1))) {
            Some(Ok(most)) if !self.is_begun => room.min(most),
            _ => room,
        }
    }

    /// What is wrong with it, now that it is over. zstd does not count where the last block is empty.
    fn lack(&self) -> Option<String> {
        let said = self.said_bytes.filter(|said| *said != self.bytes)?;
        Some(format!("a frame says that it holds {said} bytes, and holds {}", self.bytes))
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(fd: BorrowedFd<'a>) -> Result<Reader<'a>, Trouble> {
        let decoder = Decoder::new().map_err(|what| Trouble::Damaged { what, offset: 0 })?;
        let (input, check) = (Input::new(fd), Check::default());
        Ok(Reader { input, decoder, check, frame: None, has_table: false, over: false })
    }

    /// Bytes of the file that were read so far.
    pub(crate) fn consumed(&self) -> u64 {
        self.input.offset
    }

    /// Frames that hold something, so far.
    pub(crate) fn frames(&self) -> u64 {
        self.check.frames()
    }

    /// Fills the buffer, except at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Trouble> {
        let mut filled = 0;
        while filled < buffer.len() && !self.over {
            if self.frame.is_some() {
                filled += self.decode(&mut buffer[filled..])?;
            } else {
                self.begin_frame()?;
            }
        }
        Ok(filled)
    }

    /// Looks at what comes next: a frame, one to leap over, or the end.
    fn begin_frame(&mut self) -> Result<(), Trouble> {
        let start = self.input.offset;
        let head = self.input.peek(MOST_HEAD_BYTES)?;
        let Some(magic) = head.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes)) else {
            return match (head.is_empty(), start) {
                (true, 1..) => {
                    self.over = true;
                    Ok(())
                }
                _ => Err(cut_off(start)),
            };
        };
        if magic == table::FRAME_MAGIC {
            let said_bytes = codec::content_bytes(head);
            let (is_begun, bytes, sum) = (false, 0, Xxh64::new(0));
            self.frame = Some(Frame { start, said_bytes, is_begun, bytes, sum });
            return Ok(());
        }
        if !table::is_skippable(magic) {
            let what = match start {
                0 => "it is not compressed with zstd: its first bytes are no frame's",
                _ => "what follows is no frame of zstd",
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
            self.leap(start, payload_bytes, |_| ())
        }
    }

    /// Leaps over a skippable frame; `see` is shown what it holds.
    fn leap(
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
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let bytes = &bytes[..bytes.len().min(most)];
            see(bytes);
            let read = bytes.len();
            self.input.advance(read);
            left -= read as u64;
        }
        self.check.add(self.input.offset - start, 0, Xxh64::new(0).digest());
        Ok(())
    }

    /// Holds the seek table against the frames before it. It ends the file.
    fn read_table(&mut self, start: u64, payload_bytes: u64) -> Result<(), Trouble> {
        let wrong = || damaged("its seek table does not list the frames that are there", start);
        let mut found: Found = self.check.begin(payload_bytes).ok_or_else(wrong)?;
        let check = std::mem::take(&mut self.check);
        self.leap(start, payload_bytes, |bytes| found.take(bytes))?;
        self.check = check;
        if !self.check.agrees(&found) {
            return Err(wrong());
        }
        if !self.input.peek(1)?.is_empty() {
            return Err(damaged("something follows its seek table", self.input.offset));
        }
        self.has_table = true;
        self.over = true;
        Ok(())
    }

    /// Decodes what there is of a frame. Returns how many bytes came of it.
    fn decode(&mut self, output: &mut [u8]) -> Result<usize, Trouble> {
        let Some(frame) = &mut self.frame else { return Ok(0) };
        let input = self.input.peek(1)?;
        let is_end = input.is_empty();
        let room = frame.most_bytes(output.len());
        let step = self.decoder.decode(input, &mut output[..room]).map_err(|what| {
            let what = format!("zstd cannot decode a frame: {what}");
            Trouble::Damaged { what, offset: frame.start }
        })?;
        self.input.advance(step.read);
        frame.is_begun = true;
        frame.bytes += step.written as u64;
        frame.sum.update(&output[..step.written]);
        if step.ended {
            if let Some(what) = frame.lack() {
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
    damaged("it ends in the middle of a frame", offset)
}

/// The bytes of a file, one after the other.
struct Input<'a> {
    fd: BorrowedFd<'a>,
    /// What was read lies behind [`REST_BYTES`], and what was left before that ends there.
    buffer: AlignedBuffer,
    start: usize,
    end: usize,
    /// Where the next read begins in the file.
    next: u64,
    /// Where `start` is in the file.
    offset: u64,
}

impl<'a> Input<'a> {
    fn new(fd: BorrowedFd<'a>) -> Input<'a> {
        let buffer = AlignedBuffer::new(REST_BYTES + READ_BYTES);
        Input { fd, buffer, start: REST_BYTES, end: REST_BYTES, next: 0, offset: 0 }
    }

    /// What comes next: at least so many bytes (a few), except at the end.
    fn peek(&mut self, least: usize) -> Result<&[u8], Errno> {
        while self.end - self.start < least {
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

    /// So many bytes are done with.
    fn advance(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }
}

/// For `fuzz/`: a file that is compressed, or says so. What it holds does not depend on how much is
/// asked for at a time.
#[cfg(all(fuzzing, feature = "compress"))]
pub fn fuzz(file: BorrowedFd<'_>) {
    // A few bytes can hold very many.
    const MOST_BYTES: usize = 4 << 20;
    let all = |piece: usize| {
        let mut reader = Reader::new(file)?;
        let (mut all, mut buffer) = (Vec::<u8>::new(), vec![0; piece]);
        while all.len() < MOST_BYTES {
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
        // Smaller pieces come nearer to where it is damaged, and may have had enough before.
        (Ok(all), Err(_)) | (Err(_), Ok(all)) => assert!(all.len() >= MOST_BYTES, "pieces differ"),
    }
}

/// For `fuzz/`: these bytes as a seek table.
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

    /// Everything that a file of these bytes holds, read in pieces of this size.
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

    /// A file with a table of the kind that has checksums, which other programs write.
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
    fn tables_with_checksums_are_held_against_what_the_frames_hold() {
        let parts = [&[1; 300_000][..], b"second", b""];
        let whole = parts.concat();
        for piece in [1 << 20, 4096, 7] {
            assert_eq!(read(&with_checksums(&parts, 0), piece).as_ref(), Ok(&whole), "{piece}");
        }
        let found = read(&with_checksums(&parts, 1), 4096);
        assert!(matches!(found, Err(Trouble::Damaged { what, .. }) if what.contains("seek table")));
    }

    #[test]
    fn frames_may_begin_anywhere_in_what_is_read_at_once() {
        // Heads of frames across the end of a read, wherever it falls.
        for shift in 0..20 {
            let leap = READ_BYTES - 8 - shift;
            let mut file = 0x184D_2A50_u32.to_le_bytes().to_vec();
            file.extend((leap as u32 - 8).to_le_bytes());
            file.resize(leap, 9);
            file.extend(frame(b"behind"));
            file.extend([0x51, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]);
            file.extend(frame(b" and behind"));
            assert_eq!(read(&file, 100).as_deref(), Ok(&b"behind and behind"[..]), "{shift}");
        }
    }

    /// A frame whose head says that it holds so many bytes, with these blocks: kind, and what they hold.
    fn frame_of(said: u16, blocks: &[(u32, &[u8])]) -> Vec<u8> {
        let mut frame = [&table::FRAME_MAGIC.to_le_bytes()[..], &[0x40, 0x58]].concat();
        frame.extend((said - 256).to_le_bytes());
        for (place, (kind, bytes)) in blocks.iter().enumerate() {
            let is_last = u32::from(place + 1 == blocks.len());
            frame.extend(&(is_last | kind << 1 | (bytes.len() as u32) << 3).to_le_bytes()[..3]);
            frame.extend(*bytes);
        }
        frame
    }

    #[test]
    fn frames_that_hold_less_than_they_say_are_damaged_however_they_are_read() {
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
            // As it begins, and behind another.
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
                        format!("a frame says that it holds 300 bytes, and holds {holds}")
                    );
                }
            }
        }
    }

    #[test]
    fn one_verdict_on_what_zstd_decodes_in_two_ways() {
        // A last block that is compressed and empty, which no frame may have: refused where zstd
        // decodes the frame in one step, let pass where it does not.
        let file = frame_of(300, &[(0, &[7; 300]), (2, b"")]);
        let verdicts = [1 << 20, 300, 299, 1].map(|piece| read(&file, piece));
        assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]), "{verdicts:?}");
    }

    #[test]
    fn small_frames_are_read_in_any_piece() {
        for bytes in [&b""[..], b"1", b"22", b"333"] {
            for piece in [100, 3, 2, 1] {
                let file = [frame(bytes), frame(bytes)].concat();
                assert_eq!(read(&file, piece), Ok([bytes, bytes].concat()), "{bytes:?} {piece}");
            }
        }
    }

    #[test]
    fn what_is_no_file_of_zstd_is_damaged_at_its_beginning() {
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
