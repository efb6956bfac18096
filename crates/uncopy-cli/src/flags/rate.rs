//! Rates: `50M`, `1.5MiB`, `256K`.

use std::num::NonZeroU64;

/// Reads a rate in bytes a second: k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti of 1024; a B
/// and a `/s` behind them mean nothing.
///
/// # Errors
/// A sentence for people.
pub(crate) fn parse(text: &str) -> Result<NonZeroU64, String> {
    let misuse = || format!("{text:?} is no rate; write bytes a second as 50M or 1.5MiB");
    let bare = text.strip_suffix("/s").unwrap_or(text);
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
        _ => return Err(misuse()),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = digits.trim().parse().map_err(|_| misuse())?;
    let bytes = number * unit;
    if !plain || !(1.0..=1e18).contains(&bytes) {
        return Err(misuse());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    NonZeroU64::new(bytes as u64).ok_or_else(misuse)
}

#[cfg(test)]
mod tests {
    use super::*;

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
