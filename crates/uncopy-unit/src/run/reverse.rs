//! Reads the entries of a unit from the last one to the first, in bounded memory.

use std::io::{self, Read};

use crate::format::Entry;
use uncopy_copy::guarded::GuardedFile;
use uncopy_core::Errno;

/// Bytes that are read at a time.
const BLOCK_BYTES: u64 = 256 << 10;

/// Reader of a unit from its beginning.
pub(super) struct FromTheBeginning<'a> {
    file: &'a GuardedFile,
    at: u64,
}

impl FromTheBeginning<'_> {
    pub(super) fn of(file: &GuardedFile) -> io::BufReader<FromTheBeginning<'_>> {
        io::BufReader::with_capacity(BLOCK_BYTES as usize, FromTheBeginning { file, at: 0 })
    }
}

impl Read for FromTheBeginning<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(self.at..self.at + buffer.len() as u64).map_err(failed)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }
}

fn failed(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw())
}

/// Calls `take` for each entry, from the last one on, until it returns `false`. The unit was checked before; a line that
/// is no entry any more is an error.
pub(super) fn entries_from_the_end(
    file: &GuardedFile,
    mut take: impl FnMut(Entry) -> bool,
) -> io::Result<()> {
    let mut end = file.examine().map_err(failed)?.size;
    // Begins in the middle of a line, but for the beginning of the file.
    let mut text: Vec<u8> = Vec::new();
    let mut is_last_line = true;
    while end > 0 || !text.is_empty() {
        let length = end.min(BLOCK_BYTES);
        let mut block = file.read(end - length..end).map_err(failed)?;
        if block.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        end -= length;
        block.extend_from_slice(&text);
        text = block;
        let mut rest = text.len();
        while let Some(line) = last_line(&text[..rest], end == 0) {
            let begin = rest - line.len();
            let line = text[begin..rest].trim_ascii_end();
            // Before the last entry is the line with their number, and behind the first one the header.
            let is_header = end == 0 && begin == 0;
            let is_end = !line.is_empty() && std::mem::take(&mut is_last_line);
            let is_entry = !line.is_empty() && !is_end && !is_header;
            if is_entry && !take(serde_json::from_slice(line)?) {
                return Ok(());
            }
            rest = begin;
            if rest == 0 {
                break;
            }
        }
        text.truncate(rest);
        if end == 0 {
            break;
        }
    }
    Ok(())
}

/// Returns the last whole line of a text, with its end; the first one is whole only if the text begins with it.
fn last_line(text: &[u8], begins_with_line: bool) -> Option<&[u8]> {
    let inside = text.strip_suffix(b"\n").unwrap_or(text);
    match inside.iter().rposition(|byte| *byte == b'\n') {
        Some(end_before) => Some(&text[end_before + 1..]),
        None if begins_with_line && !text.is_empty() => Some(text),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{
        Header, Identity, Kind, Options, PlanId, RelativePath, Root, SCHEMA, SeenRoots, Time,
        UnitKind, UnitNumber, UnitWriter,
    };

    #[test]
    fn entries_come_in_the_opposite_order() {
        for count in [0_u64, 1, 2, 3, 5000] {
            let header = Header {
                schema: SCHEMA,
                plan: PlanId::from_random([7; 16]),
                unit: UnitNumber::new(9).unwrap(),
                kind: UnitKind::Finish,
                source: Root::new("/s").unwrap(),
                destination: Root::new("/d").unwrap(),
                seen: SeenRoots::default(),
                options: Options::default(),
            };
            let file = tempfile::tempfile().unwrap();
            let mut writer = UnitWriter::new(std::io::BufWriter::new(&file), &header).unwrap();
            let time = Time(1, 2);
            let identity =
                Identity { inode: 1, size: 0, mtime: time, ctime: time, mode: 0o40_755, links: 2 };
            for number in 0..count {
                let path = RelativePath::new(format!("{}{number}", "d".repeat(99))).unwrap();
                let (kind, source) = (Kind::Directory, Some(identity.clone()));
                let entry = Entry { path, kind, source, destination: None, with: None, part: None };
                writer.write(&entry).unwrap();
            }
            writer.end().unwrap();
            let file = GuardedFile::here(file.into());
            let mut found = Vec::new();
            entries_from_the_end(&file, |entry| {
                found.push(entry.path.to_string());
                true
            })
            .unwrap();
            let expected: Vec<String> =
                (0..count).rev().map(|number| format!("{}{number}", "d".repeat(99))).collect();
            assert_eq!(found, expected);
        }
    }
}
