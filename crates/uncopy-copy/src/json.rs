//! Receipts and totals as JSON objects: the keys that `docs/json.md` lists, for every program that writes them.
//!
//! The objects are [`serde::Serialize`]; a program says in its own words what its options are called ([`Wording`]).

mod compression;
#[cfg(feature = "trees")]
mod job;
mod leftovers;
mod reasons;

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use uncopy_core::{Decision, MappedWrites, Note, Receipt, RefusalReason};

use compression::Compression;
#[cfg(feature = "trees")]
pub use job::{Transformed, WholeJob};
use leftovers::Leftovers;
#[cfg(feature = "trees")]
pub use reasons::CountedRefusal;
pub use reasons::Notes;
use reasons::Refusal;

/// Version of this format: the first key of every object. Keys may be added within a version;
/// removing a key or changing its meaning makes a new version.
pub const SCHEMA: u32 = 1;

/// Text for people in these objects. What is not overridden names options as the library does.
pub trait Wording {
    /// Returns why a mechanism was not used.
    fn reason(&self, reason: RefusalReason) -> String {
        reason.to_string()
    }

    /// Returns the text of a note.
    fn note(&self, note: &Note) -> String {
        note.to_string()
    }

    /// Describes a threshold that decided the mechanism.
    fn decision(&self, decision: &Decision) -> String {
        decision.to_string()
    }
}

/// Wording of the library.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainWording;

impl Wording for PlainWording {}

/// A file that was copied: the event `copied`.
#[derive(Debug, Serialize)]
pub struct CopiedFile<'a> {
    schema: u32,
    event: &'static str,
    #[serde(flatten)]
    names: Names<'a>,
    bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    resumed_bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    parallel_bytes: u64,
    mechanisms: Vec<MechanismBytes>,
    refusals: Vec<Refusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<Compression>,
    duration_us: u64,
    verified: bool,
    verified_from: Option<&'static str>,
    algorithm: Option<&'static str>,
    digest: Option<&'a str>,
    verify_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_digest: Option<SourceDigest<'a>>,
    durable: bool,
    source_changed: bool,
    mapped_writes: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mapped_writes_unknown: Option<&'static str>,
    #[serde(skip_serializing_if = "is_zero")]
    source_flushes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_flush_us: Option<u64>,
    retries: u32,
    #[serde(flatten)]
    notes: Notes,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flags_not_kept: Vec<&'static str>,
    #[serde(flatten)]
    leftovers: Leftovers<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decided_by: Vec<String>,
}

impl<'a> CopiedFile<'a> {
    /// Makes the event of a copy of `source` to `destination`.
    #[must_use]
    pub fn new(
        source: &'a Path,
        destination: &'a Path,
        receipt: &'a Receipt,
        wording: &impl Wording,
    ) -> CopiedFile<'a> {
        let verification = receipt.verification.as_ref();
        CopiedFile {
            schema: SCHEMA,
            event: "copied",
            names: Names::new(source, destination),
            bytes: receipt.bytes,
            resumed_bytes: receipt.resumed_bytes,
            parallel_bytes: receipt.parallel_bytes,
            mechanisms: receipt.portions.iter().map(MechanismBytes::from).collect(),
            refusals: receipt
                .refusals
                .iter()
                .map(|refusal| Refusal::new(refusal, wording))
                .collect(),
            compression: receipt.compression.as_ref().map(Compression::from),
            duration_us: microseconds(receipt.duration),
            verified: verification.is_some(),
            verified_from: verification.map(|done| done.from.name()),
            algorithm: verification.map(|done| done.algorithm),
            digest: verification
                .map(|done| done.digest.as_str())
                .filter(|digest| !digest.is_empty()),
            verify_us: verification.map(|done| microseconds(done.duration)),
            source_digest: receipt.source_digest.as_ref().map(SourceDigest::from),
            durable: receipt.durable,
            source_changed: receipt.source_changed,
            mapped_writes: receipt.mapped_writes.name(),
            mapped_writes_unknown: match receipt.mapped_writes {
                MappedWrites::Unknown(why) => Some(why.name()),
                _ => None,
            },
            source_flushes: receipt.source_flushes.into(),
            source_flush_us: (receipt.source_flushes > 0)
                .then(|| microseconds(receipt.source_flush_duration)),
            retries: receipt.retries,
            notes: Notes::new(&receipt.notes, wording),
            flags_not_kept: receipt.flags_not_kept.names().collect(),
            leftovers: Leftovers::from(&receipt.leftovers),
            decided_by: receipt
                .decided_by
                .iter()
                .map(|decision| wording.decision(decision))
                .collect(),
        }
    }
}

/// Digest of the bytes that were copied.
#[derive(Debug, Serialize)]
struct SourceDigest<'a> {
    algorithm: &'static str,
    value: &'a str,
    how: &'static str,
    us: u64,
}

impl<'a> From<&'a uncopy_core::SourceDigest> for SourceDigest<'a> {
    fn from(digest: &'a uncopy_core::SourceDigest) -> SourceDigest<'a> {
        let uncopy_core::SourceDigest { algorithm, value, from, duration } = digest;
        SourceDigest { algorithm, value, how: from.name(), us: microseconds(*duration) }
    }
}

/// The two names of a copy; the bytes of one that is not UTF-8 also as base64.
#[derive(Debug, Serialize)]
pub struct Names<'a> {
    source: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_base64: Option<String>,
    destination: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_base64: Option<String>,
}

impl<'a> Names<'a> {
    /// Makes the keys of a source and a destination.
    #[must_use]
    pub fn new(source: &'a Path, destination: &'a Path) -> Names<'a> {
        Names {
            source: source.to_string_lossy(),
            source_base64: base64_name(source),
            destination: destination.to_string_lossy(),
            destination_base64: base64_name(destination),
        }
    }
}

/// Bytes that one mechanism moved at one cost.
#[derive(Debug, Serialize)]
pub struct MechanismBytes {
    name: &'static str,
    bytes: u64,
    cost: &'static str,
}

impl From<&uncopy_core::Portion> for MechanismBytes {
    fn from(portion: &uncopy_core::Portion) -> MechanismBytes {
        let (name, cost) = (portion.mechanism.name(), portion.cost.name());
        MechanismBytes { name, bytes: portion.bytes, cost }
    }
}

/// Whether a number is left out of an object.
#[must_use]
pub fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Encodes a name that is not UTF-8, which a JSON string cannot hold.
#[must_use]
pub fn base64_name(path: &Path) -> Option<String> {
    let bytes = path.as_os_str().as_encoded_bytes();
    std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes))
}

/// Returns whole microseconds.
#[must_use]
pub fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first cells of the first table below a heading of `docs/json.md`, without keys of nested objects, and
    /// whether the key is always there.
    fn documented(heading: &str) -> Vec<(String, bool)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        let page = std::fs::read_to_string(path).unwrap();
        let below = page.lines().skip_while(|line| *line != heading).skip(1);
        let section = below.take_while(|line| !line.starts_with('#'));
        let rows = section.filter(|line| line.starts_with("| `"));
        let keys = rows.flat_map(|row| {
            let mut cells = row.trim_matches('|').split(" | ");
            let keys = cells.next().unwrap_or_default().trim().to_owned();
            let is_always = !row.contains(" | only ");
            keys.split(", ")
                .map(|key| (key.trim_matches('`').to_owned(), is_always))
                .collect::<Vec<_>>()
        });
        keys.filter(|(key, _)| !key.contains(['.', '['])).collect()
    }

    fn keys(event: &impl Serialize) -> Vec<String> {
        let value = serde_json::to_value(event).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn a_receipt_has_the_keys_that_are_documented() {
        let receipt = Receipt::default();
        let event = CopiedFile::new(Path::new("a"), Path::new("b"), &receipt, &PlainWording);
        let (documented, found) = (documented("### `copied`"), keys(&event));
        assert!(documented.len() > 20, "{documented:?}");
        for (key, is_always) in &documented {
            assert!(!is_always || found.contains(key), "{key} is missing: {found:?}");
        }
        let in_every_event = ["schema", "event", "source", "destination"];
        for key in &found {
            let is_listed = documented.iter().any(|(listed, _)| listed == key);
            assert!(is_listed || in_every_event.contains(&key.as_str()), "{key} is not documented");
        }
    }
}
