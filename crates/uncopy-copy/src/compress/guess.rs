//! Looks at the first bytes and the name of a file: which kind of file it is, and whether it is likely to be
//! compressed already. Names and magic bytes that the bytes behind them contradict are not believed.
//! Nothing is expected of formats that may or may not be compressed inside (PDF, TAR); samples decide there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use uncopy_core::{CompressionExpectation, CompressionGuess, ExpectedBy, GuessedBy};

/// Number of leading bytes that are examined: one page, which is read as quickly as a few bytes.
pub(super) const HEAD_BYTES: usize = 4096;

/// Bytes at the beginning that may be the header of any format.
const MAX_MAGIC_BYTES: usize = 16;

/// Longest extension that makes a kind of its own.
const MAX_EXTENSION_BYTES: usize = 8;

/// Format, offset and magic bytes.
type Magic = (&'static str, usize, &'static [u8]);

/// Formats that shrink unless something compressed is packed into them.
const SHRINKING: [Magic; 4] = [
    ("elf", 0, b"\x7fELF"),
    ("sqlite", 0, b"SQLite format 3\0"),
    ("wasm", 0, b"\0asm"),
    ("class", 0, &[0xca, 0xfe, 0xba, 0xbe]),
];

/// Containers of which the name of the format says nothing.
const CONTAINERS: [Magic; 2] = [("pdf", 0, b"%PDF-"), ("tar", 257, b"ustar")];

/// Format, offset and magic bytes, after `magic(5)` and the formats' specifications.
const MAGIC: [Magic; 22] = [
    ("zstd", 0, &[0x28, 0xb5, 0x2f, 0xfd]),
    ("gzip", 0, &[0x1f, 0x8b]),
    ("bzip2", 0, b"BZh"),
    ("xz", 0, &[0xfd, b'7', b'z', b'X', b'Z', 0]),
    ("lz4", 0, &[0x04, 0x22, 0x4d, 0x18]),
    ("lzip", 0, b"LZIP"),
    ("lzop", 0, &[0x89, b'L', b'Z', b'O', 0]),
    ("compress", 0, &[0x1f, 0x9d]),
    ("zip", 0, b"PK\x03\x04"),
    ("7z", 0, &[b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c]),
    ("rar", 0, b"Rar!\x1a\x07"),
    ("jpeg", 0, &[0xff, 0xd8, 0xff]),
    ("png", 0, b"\x89PNG\r\n\x1a\n"),
    ("gif", 0, b"GIF8"),
    ("webp", 8, b"WEBP"),
    ("mp4", 4, b"ftyp"),
    ("matroska", 0, &[0x1a, 0x45, 0xdf, 0xa3]),
    ("ogg", 0, b"OggS"),
    ("flac", 0, b"fLaC"),
    ("mp3", 0, b"ID3"),
    ("woff2", 0, b"wOF2"),
    ("squashfs", 0, b"hsqs"),
];

/// Lower-case extension, and its format.
const EXTENSIONS: [(&str, &str); 44] = [
    ("zst", "zstd"),
    ("zstd", "zstd"),
    ("tzst", "zstd"),
    ("gz", "gzip"),
    ("tgz", "gzip"),
    ("bz2", "bzip2"),
    ("tbz2", "bzip2"),
    ("xz", "xz"),
    ("txz", "xz"),
    ("lz4", "lz4"),
    ("lz", "lzip"),
    ("lzo", "lzop"),
    ("lzma", "lzma"),
    ("br", "brotli"),
    ("z", "compress"),
    ("zip", "zip"),
    ("jar", "zip"),
    ("apk", "zip"),
    ("docx", "zip"),
    ("xlsx", "zip"),
    ("pptx", "zip"),
    ("odt", "zip"),
    ("epub", "zip"),
    ("whl", "zip"),
    ("7z", "7z"),
    ("rar", "rar"),
    ("jpg", "jpeg"),
    ("jpeg", "jpeg"),
    ("png", "png"),
    ("gif", "gif"),
    ("webp", "webp"),
    ("avif", "avif"),
    ("heic", "heic"),
    ("mp4", "mp4"),
    ("m4a", "mp4"),
    ("mov", "mp4"),
    ("mkv", "matroska"),
    ("webm", "matroska"),
    ("ogg", "ogg"),
    ("opus", "ogg"),
    ("flac", "flac"),
    ("mp3", "mp3"),
    ("woff2", "woff2"),
    ("squashfs", "squashfs"),
];

/// First impression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) kind: Kind,
    /// Format that the file seems to be compressed in, whether or not the evidence is believed.
    pub(super) guess: Option<CompressionGuess>,
    pub(super) expected: Option<CompressionExpectation>,
}

/// Files that are expected to compress alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Format that the first bytes show.
    Format(&'static str),
    /// Extension in lower case and zeros, or zeros alone; and the class of the first bytes.
    Named { extension: [u8; MAX_EXTENSION_BYTES], head: HeadClass },
}

impl Kind {
    /// Returns the kind of files that begin alike and have no extension.
    pub(super) fn without_name(self) -> Kind {
        match self {
            Kind::Format(_) => self,
            Kind::Named { head, .. } => Kind::Named { extension: [0; MAX_EXTENSION_BYTES], head },
        }
    }
}

/// Class of the first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum HeadClass {
    /// No control characters but those of plain text.
    Text,
    /// All values are about as frequent, as in compressed or encrypted data.
    Noise,
    /// A few values make up nearly everything.
    Flat,
    Mixed,
}

impl HeadClass {
    fn of(bytes: &[u8]) -> HeadClass {
        /// Fewer bytes show no distribution.
        const MIN_NOISE_BYTES: u64 = 512;
        if bytes.iter().all(|byte| is_textual(*byte)) {
            return HeadClass::Text;
        }
        let mut counts = [0_u64; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let n = bytes.len() as u64;
        // Sum of the squares of the frequencies in units of n²/256: about 1 if all are the same, and 256
        // if there is one value. n more are due to chance.
        let squares = 256 * counts.iter().map(|count| count * count).sum::<u64>();
        match squares {
            squares if n >= MIN_NOISE_BYTES && 2 * squares <= 3 * n * (n + 256) => HeadClass::Noise,
            squares if squares >= 32 * n * (n + 256) => HeadClass::Flat,
            _ => HeadClass::Mixed,
        }
    }
}

/// Whether a byte occurs in text in ASCII, UTF-8 or an older character set.
fn is_textual(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r' | 0x0c | 0x1b | 0x80..)
}

/// Looks at the first bytes and the name of a file.
pub(super) fn look(head: &[u8], name: &OsStr) -> Look {
    let guess = guess(head, name);
    let class = HeadClass::of(head);
    let of_format = |kind, shrinks: Option<bool>| {
        let expected =
            shrinks.map(|shrinks| CompressionExpectation { shrinks, by: ExpectedBy::Magic });
        Look { kind: Kind::Format(kind), guess, expected }
    };
    if let Some(CompressionGuess { format, by: GuessedBy::Magic }) = guess
        && is_credible(format, head)
    {
        return of_format(format, Some(false));
    }
    if let Some((format, ..)) = find(&SHRINKING, head)
        && class != HeadClass::Noise
    {
        return of_format(format, Some(true));
    }
    if let Some((format, ..)) = find(&CONTAINERS, head) {
        return of_format(format, None);
    }
    let expected = match (class, guess) {
        (HeadClass::Text, _) => {
            Some(CompressionExpectation { shrinks: true, by: ExpectedBy::Text })
        }
        (HeadClass::Noise, Some(CompressionGuess { by: GuessedBy::Extension, .. })) => {
            Some(CompressionExpectation { shrinks: false, by: ExpectedBy::Extension })
        }
        _ => None,
    };
    Look { kind: Kind::Named { extension: kind_extension(name), head: class }, guess, expected }
}

/// Whether what follows the magic bytes can be compressed data.
fn is_credible(format: &str, head: &[u8]) -> bool {
    /// Fewer bytes may look like text by chance.
    const MIN_BYTES: usize = 64;
    let body = head.get(MAX_MAGIC_BYTES..).unwrap_or_default();
    if body.len() >= MIN_BYTES && matches!(HeadClass::of(body), HeadClass::Text | HeadClass::Flat) {
        return false;
    }
    format != "zip" || !is_stored(head)
}

/// Whether the first member of a ZIP archive is stored as it is (APPNOTE.TXT, 4.3.7). Directories are, and
/// so is the member that names the type of OpenDocument and EPUB files.
fn is_stored(head: &[u8]) -> bool {
    let [method, size] = [8..10, 22..26].map(|range| head.get(range).unwrap_or_default());
    let is_stored = method.iter().all(|byte| *byte == 0);
    let is_empty = size.iter().all(|byte| *byte == 0);
    is_stored && !is_empty && head.get(30..38) != Some(b"mimetype")
}

fn find<'a>(formats: &'a [Magic], head: &[u8]) -> Option<&'a Magic> {
    formats
        .iter()
        .find(|(_, place, magic)| head.get(*place..).is_some_and(|rest| rest.starts_with(magic)))
}

/// Guesses the format that a file is compressed in, from its first bytes and its name.
pub(super) fn guess(head: &[u8], name: &OsStr) -> Option<CompressionGuess> {
    if let Some((format, ..)) = find(&MAGIC, head) {
        return Some(CompressionGuess { format, by: GuessedBy::Magic });
    }
    let extension = extension(name)?;
    let found =
        EXTENSIONS.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(extension));
    found.map(|(_, format)| CompressionGuess { format, by: GuessedBy::Extension })
}

/// Returns what follows the last dot of a name. A name whose only dot comes first has no extension.
fn extension(name: &OsStr) -> Option<&[u8]> {
    let name = name.as_bytes();
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0)?;
    Some(&name[dot + 1..])
}

/// Returns the extension that tells kinds apart, in lower case. Zeros: there is none, it is long, or it is a
/// number or no word.
fn kind_extension(name: &OsStr) -> [u8; MAX_EXTENSION_BYTES] {
    let mut kind = [0; MAX_EXTENSION_BYTES];
    let word = extension(name).filter(|extension| {
        extension.len() <= MAX_EXTENSION_BYTES
            && extension.iter().all(u8::is_ascii_alphanumeric)
            && !extension.iter().all(u8::is_ascii_digit)
    });
    if let Some(word) = word {
        kind[..word.len()].copy_from_slice(word);
        kind.make_ascii_lowercase();
    }
    kind
}

/// Whether the bytes begin a zstd frame or a skippable frame (RFC 8878, 3.1).
pub(super) fn is_zstd(head: &[u8]) -> bool {
    let magic = head.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    magic.is_some_and(|magic| {
        magic == super::table::FRAME_MAGIC || super::table::is_skippable(magic)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn magic_bytes_win_over_the_extension() {
        for (head, name, expected) in [
            (&b"\x1f\x8b\x08\0"[..], "a.txt", Some(("gzip", GuessedBy::Magic))),
            (b"\x28\xb5\x2f\xfd", "a", Some(("zstd", GuessedBy::Magic))),
            (b"RIFF\0\0\0\0WEBP", "a", Some(("webp", GuessedBy::Magic))),
            (b"\0\0\0\x20ftypisom", "a", Some(("mp4", GuessedBy::Magic))),
            (b"PK\x03\x04", "a.gz", Some(("zip", GuessedBy::Magic))),
            (b"plain text..", "a.JPG", Some(("jpeg", GuessedBy::Extension))),
            (b"plain text..", "a.tar.zst", Some(("zstd", GuessedBy::Extension))),
            (b"plain text..", ".gz", None),
            (b"plain text..", "gz", None),
            (b"plain text..", "a.txt", None),
            (b"", "a", None),
            (b"\x1f", "a", None),
        ] {
            let found = guess(head, OsStr::new(name)).map(|g| (g.format, g.by));
            assert_eq!(found, expected, "{name}");
        }
    }

    pub(in super::super) fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn evidence_that_the_bytes_contradict_is_not_believed() {
        let text = b"line of a text\n".repeat(300);
        let with = |magic: &[u8], rest: &[u8]| [magic, &[7; 12], rest].concat();
        let zip = |method: u8, size: u8, name: &[u8]| {
            let header = [b"PK\x03\x04\x14\0\0\0", &[method, 0][..], &[1; 12], &[size, 0, 0, 0]];
            [&header.concat()[..], &[8, 0, 0, 0], name, &noise(3000)].concat()
        };
        let stays = |by| Some((false, by));
        let shrinks = |by| Some((true, by));
        for (what, head, name, expected) in [
            ("gzip", with(b"\x1f\x8b", &noise(4000)), "a", stays(ExpectedBy::Magic)),
            ("a short gzip", with(b"\x1f\x8b", b"abc"), "a", stays(ExpectedBy::Magic)),
            ("magic before text", with(b"\x1f\x8b", &text), "a", None),
            ("magic before zeros", with(b"\x1f\x8b", &[0; 4000]), "a", None),
            ("text named gz", text.clone(), "a.gz", shrinks(ExpectedBy::Text)),
            ("zeros named gz", vec![0; 4096], "a.gz", None),
            ("noise named gz", noise(4096), "a.gz", stays(ExpectedBy::Extension)),
            ("few bytes named gz", noise(300), "a.gz", None),
            ("noise named txt", noise(4096), "a.txt", None),
            ("noise", noise(4096), "a", None),
            ("text", text.clone(), "a", shrinks(ExpectedBy::Text)),
            ("Latin-1", b"na\xefve\n".to_vec(), "a", shrinks(ExpectedBy::Text)),
            ("zip", zip(8, 9, b"filename"), "a.zip", stays(ExpectedBy::Magic)),
            ("zip of a directory", zip(0, 0, b"filenam/"), "a.zip", stays(ExpectedBy::Magic)),
            ("EPUB", zip(0, 20, b"mimetype"), "a.epub", stays(ExpectedBy::Magic)),
            ("stored zip", zip(0, 9, b"filename"), "a", None),
            ("ELF", with(b"\x7fELF", &[0; 4000]), "a", shrinks(ExpectedBy::Magic)),
            ("magic of ELF before noise", with(b"\x7fELF", &noise(4000)), "a", None),
            ("PDF", [&b"%PDF-1.7\n"[..], &text].concat(), "a", None),
        ] {
            let found = look(&head, OsStr::new(name)).expected;
            assert_eq!(found.map(|expected| (expected.shrinks, expected.by)), expected, "{what}");
        }
    }

    #[test]
    fn kinds_differ_by_format_or_by_name_and_bytes() {
        let kind = |head: &[u8], name: &str| look(head, OsStr::new(name)).kind;
        let gzip = [&b"\x1f\x8b"[..], &noise(4000)].concat();
        assert_eq!(kind(&gzip, "a"), Kind::Format("gzip"));
        assert_eq!(kind(&gzip, "a.txt"), Kind::Format("gzip"));
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert_eq!(kind(&tar, "a.tar"), Kind::Format("tar"));
        let named = |name: &[u8]| {
            let mut extension = [0; 8];
            extension[..name.len()].copy_from_slice(name);
            Kind::Named { extension, head: HeadClass::Text }
        };
        for (name, expected) in [
            ("a.txt", &b"txt"[..]),
            ("a.TXT", b"txt"),
            ("a.tar.md", b"md"),
            ("a", b""),
            (".txt", b""),
            ("a.", b""),
            ("a.123", b""),
            ("a.7z1", b"7z1"),
            ("a.overlonge", b""),
            ("a.b c", b""),
        ] {
            assert_eq!(kind(b"text", name), named(expected), "{name}");
        }
        assert_ne!(kind(b"text", "a.txt"), kind(&noise(4096), "a.txt"));
        assert_eq!(kind(b"text", "a.txt").without_name(), kind(b"text", "a"));
    }

    #[test]
    fn zstd_and_skippable_frames_are_recognised() {
        assert!(is_zstd(b"\x28\xb5\x2f\xfd rest"));
        assert!(is_zstd(b"\x50\x2a\x4d\x18 rest"));
        assert!(is_zstd(b"\x5e\x2a\x4d\x18"));
        assert!(!is_zstd(b"\x28\xb5\x2f"));
        assert!(!is_zstd(b"\x1f\x8b\x08\x00"));
    }
}
