//! Compression in JSON reports.

use serde::Serialize;
use uncopy_core::CompressionAction;

/// Facts about the compression of a file, and the action taken.
#[derive(Debug, Serialize)]
pub(super) struct Compression {
    action: &'static str,
    algorithm: &'static str,
    level: Option<u8>,
    reason: String,
    code: &'static str,
    guess: Option<Guess>,
    expected: Option<Expected>,
    sample: Option<Sample>,
    source_bytes: u64,
    frames: u64,
}

#[derive(Debug, Serialize)]
struct Guess {
    format: &'static str,
    by: &'static str,
}

#[derive(Debug, Serialize)]
struct Expected {
    shrinks: bool,
    by: &'static str,
    held: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Sample {
    bytes: u64,
    compressed_bytes: u64,
}

impl From<&uncopy_core::Compression> for Compression {
    fn from(compression: &uncopy_core::Compression) -> Compression {
        let level = match compression.action {
            CompressionAction::Compressed { level } => Some(level),
            _ => None,
        };
        Compression {
            action: compression.action.name(),
            algorithm: "zstd",
            level,
            reason: compression.reason.to_string(),
            code: compression.reason.code(),
            guess: compression
                .guess
                .map(|guess| Guess { format: guess.format, by: guess.by.name() }),
            expected: compression.expected.map(|expected| Expected {
                shrinks: expected.shrinks,
                by: expected.by.name(),
                held: compression.expectation_held(),
            }),
            sample: compression.sample.map(|sample| Sample {
                bytes: sample.bytes,
                compressed_bytes: sample.compressed_bytes,
            }),
            source_bytes: compression.source_bytes,
            frames: compression.frames,
        }
    }
}
