//! Guesses whether a file is compressed already: by its first bytes, otherwise by its name.
//! Formats that may or may not be compressed inside (PDF, TAR) are not listed; a sample decides there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use uncopy_core::{CompressionGuess, GuessedBy};

/// Number of leading bytes that are examined.
pub(super) const HEAD_BYTES: usize = 12;

/// Format, offset and magic bytes, after `magic(5)` and the formats' specifications.
const MAGIC: [(&str, usize, &[u8]); 22] = [
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

/// Guesses the format that a file is compressed in, from its first bytes and its name.
pub(super) fn guess(head: &[u8], name: &OsStr) -> Option<CompressionGuess> {
    let matches =
        |place: usize, magic: &[u8]| head.get(place..).is_some_and(|rest| rest.starts_with(magic));
    if let Some((format, ..)) = MAGIC.iter().find(|(_, place, magic)| matches(*place, magic)) {
        return Some(CompressionGuess { format, by: GuessedBy::Magic });
    }
    let name = name.as_bytes().to_ascii_lowercase();
    let extension = name.rsplitn(2, |byte| *byte == b'.').collect::<Vec<_>>();
    let [extension, stem] = extension[..] else { return None };
    let found = EXTENSIONS.iter().find(|(known, _)| known.as_bytes() == extension);
    // A name whose only dot comes first has no extension.
    found
        .filter(|_| !stem.is_empty())
        .map(|(_, format)| CompressionGuess { format, by: GuessedBy::Extension })
}

/// Whether the bytes begin a zstd frame or a skippable frame (RFC 8878, 3.1).
pub(super) fn is_zstd(head: &[u8]) -> bool {
    let magic = head.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    magic.is_some_and(|magic| {
        magic == super::table::FRAME_MAGIC || super::table::is_skippable(magic)
    })
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn zstd_and_skippable_frames_are_recognised() {
        assert!(is_zstd(b"\x28\xb5\x2f\xfd rest"));
        assert!(is_zstd(b"\x50\x2a\x4d\x18 rest"));
        assert!(is_zstd(b"\x5e\x2a\x4d\x18"));
        assert!(!is_zstd(b"\x28\xb5\x2f"));
        assert!(!is_zstd(b"\x1f\x8b\x08\x00"));
    }
}
