//! Decides whether to compress or decompress a file, and names the copy.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::codec::Encoder;
use super::guess::{self, HEAD_BYTES};
use super::{Level, Trouble};
use crate::conversion::{Chosen, Conversion};
use crate::options::Transform;
use crate::source::Source;
use crate::sparse::{self, Segment};
use uncopy_core::{
    Compression, CompressionAction, CompressionGuess, CompressionReason, CompressionSample,
};
use uncopy_core::{Error, Reason, Result};
use uncopy_os::transfer;

/// Suffix of the names of compressed files.
const SUFFIX: &[u8] = b".zst";

/// Number of pieces in a sample, spread over the file.
const PIECES: u64 = 4;
const PIECE_BYTES: u64 = 32 << 10;

/// Length of a seek table with one entry, which every compressed file carries.
const TABLE_BYTES: u64 = 25;

/// The copy's name as the caller gave it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a OsStr,
    /// Whether the suffix is added and removed.
    pub(crate) suffix: bool,
    /// Whether the caller named this file, rather than a directory above it.
    pub(crate) named: bool,
}

/// Facts about a file on which the decision rests.
#[derive(Debug, Clone, Copy)]
struct Signs {
    /// Whether the file begins with a zstd frame.
    is_zstd: bool,
    /// Size, if it is reliable.
    size: Option<u64>,
    guess: Option<CompressionGuess>,
    sample: Option<CompressionSample>,
}

/// Decides about one file. `None`: no transformation is requested.
///
/// # Errors
/// The file cannot be read, or its name says that it is compressed and its contents are not.
pub(crate) fn choose(
    source: &Source<'_>,
    wanted: Wanted<'_>,
    transform: Transform,
) -> Result<Option<Chosen>> {
    let fail = |errno| Error::system("read", source.path, errno);
    let size = source.has_reliable_size().then_some(source.stat.size);
    let mut head = [0; HEAD_BYTES];
    let read = |head: &mut [u8]| transfer::read_all_at(source.fd(), head, 0).map_err(fail);
    let name = source.path.as_ref().file_name().unwrap_or_default();
    let (way, reason, signs) = match transform {
        Transform::None => return Ok(None),
        Transform::Compress(level) => {
            let n = read(&mut head)?;
            let sample = match size {
                Some(size) if size > 0 => take_sample(source, size)?,
                _ => None,
            };
            let (guess, is_zstd) = (guess::guess(&head[..n], name), guess::is_zstd(&head[..n]));
            let signs = Signs { is_zstd, size, guess, sample };
            let (way, reason) = about_compressing(signs, level, has_suffix(wanted.name));
            (way, reason, signs)
        }
        Transform::Decompress => {
            let n = read(&mut head)?;
            let (guess, is_zstd) = (guess::guess(&head[..n], name), guess::is_zstd(&head[..n]));
            let signs = Signs { is_zstd, size, guess, sample: None };
            let Some((way, reason)) = about_decompressing(signs, has_suffix(name), wanted.named)
            else {
                let what = "not a zstd file: it does not begin with a frame".into();
                return Err(Trouble::Damaged { what, offset: 0 }.on("read", source.path));
            };
            (way, reason, signs)
        }
    };
    let action = match way {
        Conversion::Leave => CompressionAction::Left,
        Conversion::Compress(level) => CompressionAction::Compressed { level: level.get() },
        Conversion::Decompress => CompressionAction::Decompressed,
    };
    let Signs { guess, sample, .. } = signs;
    let source_bytes = source.stat.size;
    let compression = Compression { action, reason, guess, sample, source_bytes, frames: 0 };
    let name = wanted.suffix.then(|| new_name(wanted.name, way)).flatten();
    Ok(Some(Chosen { conversion: way, name, compression }))
}

/// Decides whether to compress. `must`: the copy's name promises compressed contents.
fn about_compressing(signs: Signs, level: Level, must: bool) -> (Conversion, CompressionReason) {
    if signs.is_zstd {
        return (Conversion::Leave, CompressionReason::AlreadyCompressed);
    }
    if must {
        return (Conversion::Compress(level), CompressionReason::CopyNamed);
    }
    match (signs.size, signs.sample) {
        (None, _) => (Conversion::Leave, CompressionReason::SizeUnknown),
        (Some(0), _) => (Conversion::Leave, CompressionReason::Empty),
        (_, Some(sample)) => {
            let percent = (sample.compressed_bytes * 100).div_ceil(sample.bytes.max(1));
            match pays(sample, signs.guess.is_some()) {
                true => (Conversion::Compress(level), CompressionReason::Pays { percent }),
                false => (Conversion::Leave, CompressionReason::DoesNotPay { percent }),
            }
        }
        (_, None) => (Conversion::Leave, CompressionReason::OneHole),
    }
}

/// Decides whether to decompress. `None`: the name promises compressed contents, and they are not.
fn about_decompressing(
    signs: Signs,
    suffix: bool,
    named: bool,
) -> Option<(Conversion, CompressionReason)> {
    match (signs.is_zstd, suffix) {
        (true, true) => Some((Conversion::Decompress, CompressionReason::SourceNamed)),
        (true, false) if named => Some((Conversion::Decompress, CompressionReason::BeginsAsZstd)),
        (false, true) => None,
        (_, false) if named => Some((Conversion::Leave, CompressionReason::NotCompressed)),
        (_, false) => Some((Conversion::Leave, CompressionReason::SourceNotNamed)),
    }
}

/// Whether compression pays: an eighth must be saved, or a quarter where the file looks compressed already.
fn pays(sample: CompressionSample, seems_compressed: bool) -> bool {
    let (parts, of) = if seems_compressed { (3, 4) } else { (7, 8) };
    sample.compressed_bytes * of <= sample.bytes * parts
}

/// Whether a name ends in `.zst` and has something before that.
fn has_suffix(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes.len() > SUFFIX.len() && bytes.ends_with(SUFFIX)
}

/// Returns the copy's changed name. `None`: the name stays.
fn new_name(name: &OsStr, way: Conversion) -> Option<OsString> {
    match way {
        Conversion::Compress(_) => Some(with_suffix(name)),
        Conversion::Decompress => without_suffix(name).map(OsStr::to_owned),
        Conversion::Leave => None,
    }
}

fn with_suffix(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(OsStr::from_bytes(SUFFIX));
    name
}

fn without_suffix(name: &OsStr) -> Option<&OsStr> {
    let stem = name.as_bytes().strip_suffix(SUFFIX).filter(|stem| !stem.is_empty());
    stem.map(OsStr::from_bytes)
}

/// Returns the other source name that could have produced a copy of this name: `a` for a compressed copy
/// `a.zst`, `a.zst` for a decompressed copy `a`.
pub(crate) fn other_origin(copy: &OsStr, transform: Transform) -> Option<OsString> {
    match transform {
        Transform::None => None,
        Transform::Compress(_) => without_suffix(copy).map(OsStr::to_owned),
        Transform::Decompress => Some(with_suffix(copy)),
    }
}

/// Compresses some pieces of the file at the quickest level. `None`: the file has no data.
fn take_sample(source: &Source<'_>, size: u64) -> Result<Option<CompressionSample>> {
    let refuse = |text: String| Error::new("compress", source.path, Reason::Refused(text.into()));
    let mut encoder = Encoder::new(Level::new(1).unwrap_or_default()).map_err(refuse)?;
    let (mut buffer, mut frame) = (vec![0; (PIECES * PIECE_BYTES).min(size) as usize], Vec::new());
    let mut sample = CompressionSample { bytes: 0, compressed_bytes: 0 };
    let mut add = |bytes: &[u8]| -> Result<()> {
        encoder.encode(bytes, &mut frame).map_err(refuse)?;
        sample.bytes += bytes.len() as u64;
        sample.compressed_bytes += frame.len() as u64;
        Ok(())
    };
    let fail = |errno| Error::system("read", source.path, errno);
    if size <= PIECES * PIECE_BYTES && !sparse::may_have_holes(&source.stat) {
        let n = transfer::read_all_at(source.fd(), &mut buffer, 0).map_err(fail)?;
        add(&buffer[..n])?;
        sample.compressed_bytes += TABLE_BYTES;
        return Ok((n > 0).then_some(sample));
    }
    let mut done = 0;
    for piece in 0..PIECES {
        let offset = (size.saturating_sub(PIECE_BYTES) / (PIECES - 1) * piece).max(done);
        let Some(offset) = data_from(source, offset, size) else { break };
        let length = PIECE_BYTES.min(size - offset) as usize;
        let n = transfer::read_all_at(source.fd(), &mut buffer[..length], offset).map_err(fail)?;
        add(&buffer[..n])?;
        done = offset + n as u64;
    }
    Ok((sample.bytes > 0).then_some(sample))
}

/// Returns the first offset with data, from `offset` on.
fn data_from(source: &Source<'_>, offset: u64, size: u64) -> Option<u64> {
    if offset >= size {
        return None;
    }
    if !sparse::may_have_holes(&source.stat) {
        return Some(offset);
    }
    match sparse::segment(&source.fd(), offset, size) {
        Segment::Data { start, .. } => Some(start),
        Segment::Hole { end, .. } => Some(end).filter(|end| *end < size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uncopy_core::GuessedBy;

    const GUESS: CompressionGuess = CompressionGuess { format: "gzip", by: GuessedBy::Magic };

    fn sample(percent: u64) -> CompressionSample {
        CompressionSample { bytes: 1000, compressed_bytes: percent * 10 }
    }

    #[test]
    fn a_sample_decides_and_a_guess_raises_the_bar() {
        let level = Level::default();
        for (guess, sample, size, is_zstd, must, compresses) in [
            (None, Some(sample(30)), Some(1000), false, false, true),
            (None, Some(sample(87)), Some(1000), false, false, true),
            (None, Some(sample(88)), Some(1000), false, false, false),
            (Some(GUESS), Some(sample(87)), Some(1000), false, false, false),
            (Some(GUESS), Some(sample(75)), Some(1000), false, false, true),
            (Some(GUESS), Some(sample(101)), Some(1000), false, false, false),
            (Some(GUESS), Some(sample(101)), Some(1000), false, true, true),
            (Some(GUESS), Some(sample(30)), Some(1000), true, true, false),
            (None, None, Some(0), false, false, false),
            (None, None, Some(0), false, true, true),
            (None, None, None, false, false, false),
            (None, None, Some(1000), false, false, false),
        ] {
            let signs = Signs { is_zstd, size, guess, sample };
            let (way, reason) = about_compressing(signs, level, must);
            assert_eq!(
                way == Conversion::Compress(level),
                compresses,
                "{signs:?} {must}: {reason}"
            );
            assert!(!reason.to_string().is_empty());
        }
    }

    #[test]
    fn names_and_first_bytes_say_what_is_decompressed() {
        for (is_zstd, suffix, named, expected) in [
            (true, true, false, Some(Conversion::Decompress)),
            (true, true, true, Some(Conversion::Decompress)),
            (true, false, true, Some(Conversion::Decompress)),
            (true, false, false, Some(Conversion::Leave)),
            (false, false, true, Some(Conversion::Leave)),
            (false, false, false, Some(Conversion::Leave)),
            (false, true, true, None),
            (false, true, false, None),
        ] {
            let signs = Signs { is_zstd, size: Some(1), guess: None, sample: None };
            let found = about_decompressing(signs, suffix, named).map(|(way, _)| way);
            assert_eq!(found, expected, "{is_zstd} {suffix} {named}");
        }
    }

    #[test]
    fn no_two_names_become_one_unless_both_are_there() {
        let name = OsStr::new;
        let compress = Conversion::Compress(Level::default());
        assert_eq!(new_name(name("a"), compress).unwrap(), "a.zst");
        assert_eq!(new_name(name("a.zst"), compress).unwrap(), "a.zst.zst");
        assert_eq!(new_name(name("a.zst"), Conversion::Decompress).unwrap(), "a");
        assert_eq!(new_name(name(".zst"), Conversion::Decompress), None);
        assert_eq!(new_name(name("a"), Conversion::Leave), None);
        let compressing = Transform::Compress(Level::default());
        assert_eq!(other_origin(name("a.zst"), compressing).unwrap(), "a");
        assert_eq!(other_origin(name("a"), compressing), None);
        assert_eq!(other_origin(name("a"), Transform::Decompress).unwrap(), "a.zst");
        assert_eq!(other_origin(name("a"), Transform::None), None);
    }
}
