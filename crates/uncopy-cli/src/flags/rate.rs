//! Rates and sizes: `50M`, `1.5MiB`, `256K`.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use uncopy::copy::Tuning;

/// Parses a rate in bytes per second: k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti of 1024;
/// a following B or `/s` is ignored.
///
/// # Errors A sentence for people.
pub(crate) fn parse(text: &str) -> Result<NonZeroU64, String> {
    let bytes = bytes(text.strip_suffix("/s").unwrap_or(text)).and_then(NonZeroU64::new);
    bytes.ok_or_else(|| {
        format!("{text:?} is not a rate; write bytes per second, such as 50M or 1.5MiB")
    })
}

/// Parses a size in bytes, including 0.
///
/// # Errors A sentence for people.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let size = if text == "0" { Some(0) } else { bytes(text) };
    size.ok_or_else(|| format!("{text:?} is not a size; write bytes, such as 64Ki or 1.5MiB"))
}

/// Parses a size that can be the limit of small files.
///
/// # Errors A sentence for people.
pub(crate) fn small_size(text: &str) -> Result<u64, String> {
    within(text, 0..=Tuning::MAX_ZERO_COPY_MIN_BYTES, "at most 1MiB")
}

/// Parses a size that a buffer can have.
///
/// # Errors A sentence for people.
pub(crate) fn buffer_size(text: &str) -> Result<u64, String> {
    within(text, 4096..=Tuning::MAX_BUFFER_BYTES, "4Ki to 64Mi")
}

fn within(text: &str, bounds: RangeInclusive<u64>, limits: &str) -> Result<u64, String> {
    let size = size(text)?;
    if bounds.contains(&size) {
        Ok(size)
    } else {
        Err(format!("{text:?} is out of bounds: {limits}"))
    }
}

/// Parses a number of bytes with its unit; `None`: it is not valid, or less than 1.
fn bytes(text: &str) -> Option<u64> {
    let bare = text;
    let bare = bare.strip_suffix(['B', 'b']).unwrap_or(bare);
    let digits = bare.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: f64 = match &bare[digits.len()..] {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        "G" | "g" => 1e9,
        "T" | "t" => 1e12,
        "Ki" | "ki" => 1024.0,
        "Mi" | "mi" => 1024.0 * 1024.0,
        "Gi" | "gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" | "ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = digits.trim().parse().ok()?;
    let bytes = number * unit;
    if !plain || !(1.0..=1e18).contains(&bytes) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_bounded() {
        for (text, plain, small, buffer) in [
            ("0", Some(0), Some(0), None),
            ("64Ki", Some(65_536), Some(65_536), Some(65_536)),
            ("1MiB", Some(1 << 20), Some(1 << 20), Some(1 << 20)),
            ("2Mi", Some(2 << 20), None, Some(2 << 20)),
            ("65Mi", Some(65 << 20), None, None),
            ("100", Some(100), Some(100), None),
            ("50MB/s", None, None, None),
            ("much", None, None, None),
        ] {
            assert_eq!(size(text).ok(), plain, "{text}");
            assert_eq!(small_size(text).ok(), small, "{text}");
            assert_eq!(buffer_size(text).ok(), buffer, "{text}");
        }
    }

    #[test]
    fn rates_are_read() {
        for (text, expected) in [
            ("1", Some(1)),
            ("50M", Some(50_000_000)),
            ("50MB/s", Some(50_000_000)),
            ("256k", Some(256_000)),
            ("256KiB", Some(262_144)),
            ("1.5MiB", Some(1_572_864)),
            ("2Gi", Some(2 << 30)),
            ("0", None),
            ("0.4", None),
            ("", None),
            ("M", None),
            ("-1", None),
            ("1e9", None),
            ("5X", None),
            ("1.2.3M", None),
            ("99999999T", None),
            ("inf", None),
            ("5 M", None),
        ] {
            assert_eq!(parse(text).ok().map(NonZeroU64::get), expected, "{text}");
        }
    }
}
