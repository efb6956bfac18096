//! Hex dumps of messages, for debugging. Types are unknown here: remarks on a word are guesses from
//! the word and its neighbours, and marked with a question mark.

use std::fmt;

use crate::header::{EPITAPH_ORDINAL, HEADER_BYTES, Header};

/// A dump of a message's bytes with offsets, eight on each line.
///
/// ```
/// let mut bytes = uncopy_fidl::encode(&"hello, world!").unwrap();
/// assert_eq!(
///     uncopy_fidl::dump(&bytes).to_string(),
///     "\
/// 0x0000  0d 00 00 00 00 00 00 00  ........  count 13?
/// 0x0008  ff ff ff ff ff ff ff ff  ........  present?
/// 0x0010  68 65 6c 6c 6f 2c 20 77  hello, w  text?
/// 0x0018  6f 72 6c 64 21 00 00 00  orld!...  text?
/// "
/// );
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Dump<'a> {
    bytes: &'a [u8],
    has_header: bool,
}

/// Dumps a value without a header.
#[must_use]
pub fn dump(bytes: &[u8]) -> Dump<'_> {
    Dump { bytes, has_header: false }
}

/// Dumps a message that begins with a header.
#[must_use]
pub fn dump_message(bytes: &[u8]) -> Dump<'_> {
    Dump { bytes, has_header: true }
}

/// Number of bytes on a line: an object's alignment.
const WORD: usize = 8;

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.bytes.chunks(WORD).enumerate() {
            write!(f, "{:#06x}  ", index * WORD)?;
            for column in 0..WORD {
                match word.get(column) {
                    Some(byte) => write!(f, "{byte:02x} ")?,
                    None => f.write_str("   ")?,
                }
            }
            f.write_str(" ")?;
            word.iter().try_for_each(|byte| write!(f, "{}", printable(*byte)))?;
            let remark = self.remark(index, word);
            match remark.is_empty() {
                true => writeln!(f)?,
                false => writeln!(f, "{:1$}  {remark}", "", WORD - word.len())?,
            }
        }
        Ok(())
    }
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}

impl Dump<'_> {
    fn remark(&self, index: usize, word: &[u8]) -> String {
        let Ok(bytes) = <[u8; WORD]>::try_from(word) else {
            return "no multiple of 8 bytes: the message is cut off".to_owned();
        };
        if self.has_header && index * WORD < HEADER_BYTES {
            return self.header_remark(index, bytes);
        }
        let next = self.word(index + 1);
        guess(bytes, next)
    }

    fn header_remark(&self, index: usize, bytes: [u8; WORD]) -> String {
        match (index, Header::parse(self.bytes)) {
            (0, Ok(Header { txid, is_flexible, .. })) => {
                let strictness = if is_flexible { "flexible" } else { "strict" };
                format!("header: transaction {txid}, {strictness}")
            }
            (_, Ok(Header { ordinal: EPITAPH_ORDINAL, .. })) => "epitaph".to_owned(),
            (_, Ok(Header { ordinal, .. })) => format!("ordinal {ordinal:#x}"),
            (0, Err(error)) => format!("header, broken: {error}"),
            _ => format!("ordinal {:#x}", u64::from_le_bytes(bytes)),
        }
    }

    fn word(&self, index: usize) -> Option<u64> {
        let bytes = self.bytes.get(index * WORD..)?.first_chunk::<WORD>()?;
        Some(u64::from_le_bytes(*bytes))
    }
}

/// Guesses the meaning of a word.
fn guess(bytes: [u8; WORD], next: Option<u64>) -> String {
    let word = u64::from_le_bytes(bytes);
    let [low, high] = [word as u32, (word >> 32) as u32];
    let [handles, flags] = [high as u16, (high >> 16) as u16];
    match (word, next) {
        (u64::MAX, _) => "present?".to_owned(),
        (count, Some(u64::MAX)) if u32::try_from(count).is_ok() => format!("count {count}?"),
        (0, _) => String::new(),
        _ if low == u32::MAX && high == 0 => "handle?".to_owned(),
        _ if is_text(bytes) => "text?".to_owned(),
        _ if flags == 1 && handles <= 64 => {
            format!("{low:#x} in an envelope{}?", with_handles(handles))
        }
        _ if flags == 0 && (1..=64).contains(&handles) && low % 8 == 0 => {
            format!("envelope of {low} bytes{}?", with_handles(handles))
        }
        _ if high == 0 => format!("{low}"),
        _ => String::new(),
    }
}

fn with_handles(count: u16) -> String {
    match count {
        0 => String::new(),
        1 => " with a handle".to_owned(),
        _ => format!(" with {count} handles"),
    }
}

/// Whether the word is some characters, followed by nothing but zeros.
fn is_text(bytes: [u8; WORD]) -> bool {
    let length = bytes.iter().take_while(|byte| printable(**byte) != '.').count();
    length >= 3 && bytes[length..].iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::{dump, dump_message};
    use crate::Header;

    fn remarks(text: &str) -> Vec<String> {
        text.lines().map(|line| line.get(43..).unwrap_or("").trim().to_owned()).collect()
    }

    #[test]
    fn headers_are_read() {
        let mut bytes = Header::two_way(7, 0xabcd).flexible().to_bytes().to_vec();
        bytes.extend([5, 0, 0]);
        let found = remarks(&dump_message(&bytes).to_string());
        assert_eq!(found[0], "header: transaction 7, flexible");
        assert_eq!(found[1], "ordinal 0xabcd");
        assert_eq!(found[2], "no multiple of 8 bytes: the message is cut off");
        bytes[7] = 9;
        let broken = remarks(&dump_message(&bytes).to_string());
        assert!(broken[0].starts_with("header, broken: byte 7: "), "{broken:?}");
        assert_eq!(broken[1], "ordinal 0xabcd");
        let last_words = [&Header::epitaph().to_bytes()[..], &[0; 8]].concat();
        assert_eq!(remarks(&dump_message(&last_words).to_string())[1], "epitaph");
    }

    #[test]
    fn words_are_guessed() {
        for (word, guess) in [
            (0u64, ""),
            (u64::MAX, "present?"),
            (0xffff_ffff, "handle?"),
            (0x0001_0000_0000_0005, "0x5 in an envelope?"),
            (0x0000_0002_0000_0018, "envelope of 24 bytes with 2 handles?"),
            (0x0000_0001_0000_0018, "envelope of 24 bytes with a handle?"),
            (24, "24"),
            (0x0000_0000_6463_6261, "text?"),
            (0x1234_5678_9abc_def0, ""),
        ] {
            assert_eq!(remarks(&dump(&word.to_le_bytes()).to_string()), [guess], "{word:#x}");
        }
        let vector = [3, u64::MAX, 7].map(u64::to_le_bytes).concat();
        assert_eq!(remarks(&dump(&vector).to_string()), ["count 3?", "present?", "7"]);
        assert_eq!(dump(&[]).to_string(), "");
    }
}
