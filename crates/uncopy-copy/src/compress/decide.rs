//! Decides whether to compress or decompress a file, and names the copy.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::guess::{self, HEAD_BYTES};
use super::kinds::{Kinds, SampleExtent, SamplePlan};
use super::sample::{Sampler, Trial};
use super::{Level, Trouble};
use crate::conversion::{Chosen, Conversion};
use crate::options::Transform;
use crate::source::Source;
use uncopy_core::{
    Compression, CompressionAction, CompressionExpectation, CompressionGuess, CompressionReason,
    CompressionSample,
};
use uncopy_core::{Error, Result};
use uncopy_os::transfer;

/// Suffix of the names of compressed files.
const SUFFIX: &[u8] = b".zst";

/// Compressed size in per cent up to which each piece of a small sample must shrink, so that it decides:
/// short pieces shrink less than long ones.
const CLEARLY_SHRINKS_PERCENT: u64 = 81;
/// Compressed size in per cent that no piece of a small sample may fall below, so that it decides against
/// compression.
const CLEARLY_STAYS_PERCENT: u64 = 97;

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
#[derive(Debug, Clone, Copy, Default)]
struct Signs {
    /// Whether the file begins with a zstd frame.
    is_zstd: bool,
    /// Size, if it is reliable.
    size: Option<u64>,
    guess: Option<CompressionGuess>,
    expected: Option<CompressionExpectation>,
    /// Whether no sample was needed.
    is_spared: bool,
    sample: Option<CompressionSample>,
}

/// Decides about one file, by what is known of its kind. `None`: no transformation is requested.
///
/// # Errors
/// The file cannot be read, or its name says that it is compressed and its contents are not.
pub(crate) fn choose(
    source: &Source<'_>,
    wanted: Wanted<'_>,
    transform: Transform,
    kinds: &Kinds,
) -> Result<Option<Chosen>> {
    let fail = |errno| Error::system("read", source.path, errno);
    let size = source.has_reliable_size().then_some(source.stat.size);
    let mut head = [0; HEAD_BYTES];
    let fd = source.fd()?;
    let read = |head: &mut [u8]| transfer::read_all_at(fd, head, 0).map_err(fail);
    let name = source.path.as_ref().file_name().unwrap_or_default();
    let (way, reason, signs) = match transform {
        Transform::None => return Ok(None),
        Transform::Compress(level) => {
            let n = read(&mut head)?;
            let must = has_suffix(wanted.name);
            let seen = guess::look(&head[..n], name);
            let is_zstd = guess::is_zstd(&head[..n]);
            let mut signs = Signs { is_zstd, size, guess: seen.guess, ..Signs::default() };
            if let Some(size) = size.filter(|size| *size > 0 && !must && !is_zstd) {
                let plan = kinds.plan(&seen, size);
                let trial = take_sample(source, size, &plan)?;
                signs.expected = plan.expected;
                signs.is_spared = plan.extent == SampleExtent::Nothing;
                signs.sample = trial.map(|trial| trial.sample);
                if let Some(sample) = signs.sample {
                    kinds.learn(&plan, pays(sample, signs.guess.is_some()));
                }
            }
            let (way, reason) = about_compressing(signs, level, must);
            (way, reason, signs)
        }
        Transform::Decompress => {
            let n = read(&mut head)?;
            let (guess, is_zstd) = (guess::guess(&head[..n], name), guess::is_zstd(&head[..n]));
            let signs = Signs { is_zstd, size, guess, ..Signs::default() };
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
    let Signs { guess, expected, sample, .. } = signs;
    let source_bytes = source.stat.size;
    let compression =
        Compression { action, reason, guess, expected, sample, source_bytes, frames: 0 };
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
        (_, None) if signs.is_spared => (Conversion::Leave, CompressionReason::SeemsCompressed),
        (_, None) => (Conversion::Leave, CompressionReason::OneHole),
    }
}

/// Samples as much of the file as planned, and all of a full sample where a small one leaves doubt.
/// `None`: nothing was planned, or the file has no data.
fn take_sample(source: &Source<'_>, size: u64, plan: &SamplePlan) -> Result<Option<Trial>> {
    if plan.extent == SampleExtent::Nothing {
        return Ok(None);
    }
    let mut sampler = Sampler::new(source, size)?;
    let small = match (plan.extent, plan.expected) {
        (SampleExtent::Small, Some(expected)) => {
            let small = sampler.small()?;
            if small.is_none_or(|small| confirms(small, expected.shrinks)) {
                return Ok(small);
            }
            small
        }
        _ => None,
    };
    Ok(Trial::joined(small, sampler.full()?))
}

/// Whether each piece of a small sample clearly is as expected.
fn confirms(small: Trial, shrinks: bool) -> bool {
    match shrinks {
        true => small.most_percent <= CLEARLY_SHRINKS_PERCENT,
        false => small.least_percent >= CLEARLY_STAYS_PERCENT,
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
            let signs = Signs { is_zstd, size, guess, sample, ..Signs::default() };
            let (way, reason) = about_compressing(signs, level, must);
            assert_eq!(
                way == Conversion::Compress(level),
                compresses,
                "{signs:?} {must}: {reason}"
            );
            assert!(!reason.to_string().is_empty());
        }
        let spared = Signs { size: Some(1000), is_spared: true, ..Signs::default() };
        let expected = (Conversion::Leave, CompressionReason::SeemsCompressed);
        assert_eq!(about_compressing(spared, level, false), expected);
    }

    #[test]
    fn a_small_sample_decides_where_each_piece_agrees() {
        for (shrinks, least, most, expected) in [
            (true, 10, 81, true),
            (true, 10, 82, false),
            (true, 100, 101, false),
            (false, 97, 101, true),
            (false, 96, 101, false),
            (false, 10, 20, false),
        ] {
            let sample = sample(50);
            let small = Trial { sample, least_percent: least, most_percent: most };
            assert_eq!(confirms(small, shrinks), expected, "{shrinks} {least} {most}");
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
            let signs = Signs { is_zstd, size: Some(1), ..Signs::default() };
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
