//! Reports for programs: JSON Lines, documented in `docs/json.md`.

#[cfg(test)]
pub(crate) mod documented;
mod left;

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;
use uncopy::copy::Skip;
use uncopy::copy::job::{Action, EntryOutcome, Record, Summary};
use uncopy::copy::json::{
    CopiedFile, CountedRefusal, MechanismBytes, Names, Notes, Transformed, WholeJob,
};
pub(crate) use uncopy::copy::json::{SCHEMA, base64_name, microseconds};
use uncopy::{Errno, Receipt};

use super::wording::FlagWording;
use crate::cp::Pair;
use crate::flags::naming;
use crate::report::{Failure, Wire, WireKind};
pub(crate) use left::{incomplete, not_tried};

/// A file that was copied, and what only the program knows of it.
#[derive(Serialize)]
struct Copied<'a> {
    #[serde(flatten)]
    file: CopiedFile<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wire: Option<OverWire>,
    #[serde(flatten)]
    tree: Option<InTree>,
}

/// Keys that only events of trees have.
#[derive(Serialize)]
pub(crate) struct InTree {
    sequence: u64,
    entry: &'static str,
}

impl From<&Record> for InTree {
    fn from(record: &Record) -> InTree {
        InTree { sequence: record.sequence, entry: record.kind.name() }
    }
}

/// An event about a file or an entry of a tree that was not copied, and did not fail.
#[derive(Serialize)]
struct Entry<'a> {
    schema: u32,
    event: &'static str,
    #[serde(flatten)]
    names: Names<'a>,
    #[serde(flatten)]
    tree: Option<InTree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_to: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_to_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(flatten)]
    notes: Option<Notes>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flags_not_kept: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mechanism: Option<&'static str>,
}

impl<'a> Entry<'a> {
    fn new(event: &'static str, names: Names<'a>, tree: Option<InTree>) -> Entry<'a> {
        Entry {
            schema: SCHEMA,
            event,
            names,
            tree,
            linked_to: None,
            linked_to_base64: None,
            reason: None,
            code: None,
            notes: None,
            flags_not_kept: Vec::new(),
            entries: None,
            action: None,
            mechanism: None,
        }
    }

    fn set_reason(&mut self, reason: Skip) {
        (self.reason, self.code) = (Some(naming::skip(reason)), Some(reason.code()));
    }
}

/// A file that was not copied.
#[derive(Serialize)]
struct Failed<'a> {
    schema: u32,
    event: &'static str,
    #[serde(flatten)]
    names: Names<'a>,
    #[serde(flatten)]
    problem: Problem<'a>,
    #[serde(flatten)]
    tree: Option<InTree>,
}

/// A new tree that was removed again, with the counts of what is gone.
#[derive(Serialize)]
struct Discarded<'a> {
    schema: u32,
    event: &'static str,
    #[serde(flatten)]
    names: Names<'a>,
    entries: u64,
    files: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    specials: u64,
    bytes: u64,
    mechanisms: Vec<MechanismBytes>,
    refusals: Vec<CountedRefusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transformed: Option<Transformed>,
    #[serde(flatten)]
    tree: Option<InTree>,
}

/// Summary of a whole job.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    job: WholeJob<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wire: Option<OverWire>,
}

/// Traffic between two machines.
#[derive(Serialize)]
struct OverWire {
    transport: &'static str,
    connections: u32,
    bytes_sent: u64,
    bytes_received: u64,
    #[serde(skip_serializing_if = "uncopy::copy::json::is_zero")]
    data_bytes: u64,
    resent: u64,
    us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_tls: Option<&'static str>,
}

impl From<Wire> for OverWire {
    fn from(wire: Wire) -> OverWire {
        let Wire { bytes_sent, bytes_received, duration, data } = wire;
        OverWire {
            transport: match (data.connections, data.kind) {
                (0, _) => "remote_shell",
                (_, WireKind::Tls) => "tls",
                (_, WireKind::Open) => "open",
            },
            connections: data.connections,
            bytes_sent,
            bytes_received,
            data_bytes: data.bytes,
            resent: data.resent,
            us: microseconds(duration),
            not_tls: data.why_none.map(|why| why.code),
        }
    }
}

/// Reason why something was not done.
#[derive(Serialize)]
pub(crate) struct Problem<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    operation: &'static str,
    subject: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject_base64: Option<String>,
    errno: Option<i32>,
    errno_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_error: Option<i32>,
    message: String,
    next_step: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'static str>,
}

impl<'a> From<&'a Failure> for Problem<'a> {
    fn from(failure: &'a Failure) -> Problem<'a> {
        Problem {
            kind: failure.kind,
            code: failure.code,
            operation: failure.operation,
            subject: failure.subject.to_string_lossy(),
            subject_base64: base64_name(&failure.subject),
            errno: failure.errno.map(Errno::raw),
            errno_name: failure.errno.and_then(Errno::name),
            os_error: failure.os_error,
            message: failure.message(),
            next_step: failure.next_step.as_deref(),
            side: failure.is_at_destination.then_some("destination"),
        }
    }
}

/// Returns the line for a file that was copied.
pub(crate) fn copied(pair: &Pair, receipt: &Receipt) -> String {
    let file = CopiedFile::new(&pair.source, &pair.destination, receipt, &FlagWording);
    line(&Copied { file, wire: None, tree: None })
}

/// Returns the line for a file that was skipped.
pub(crate) fn skipped(pair: &Pair, reason: Skip) -> String {
    let mut event = Entry::new("skipped", Names::new(&pair.source, &pair.destination), None);
    event.set_reason(reason);
    line(&event)
}

/// Returns the line for an entry of a job that did not fail; `tree` has the keys of entries of
/// trees, and `wire` is what crossed between two machines for a file that was copied alone.
pub(crate) fn entry(record: &Record, tree: Option<InTree>, wire: Option<Wire>) -> String {
    let Record { source, destination, .. } = record;
    if let EntryOutcome::Copied(receipt) = &record.outcome {
        let file = CopiedFile::new(source, destination, receipt, &FlagWording);
        return line(&Copied { file, wire: wire.map(OverWire::from), tree });
    }
    let mut entry = Entry::new("made", Names::new(source, destination), tree);
    match &record.outcome {
        EntryOutcome::Linked { to } => {
            entry.event = "linked";
            entry.linked_to = Some(to.to_string_lossy());
            entry.linked_to_base64 = base64_name(to);
        }
        EntryOutcome::Made { notes, flags_not_kept } => {
            entry.notes = Some(Notes::new(notes, &FlagWording));
            entry.flags_not_kept = flags_not_kept.names().collect();
        }
        EntryOutcome::Resumed => entry.event = "resumed",
        EntryOutcome::Discarded { lost } => {
            return line(&discarded(entry.names, lost, entry.tree));
        }
        EntryOutcome::Deleted { entries } => {
            entry.event = "deleted";
            entry.entries = Some(*entries);
        }
        EntryOutcome::Planned { action, mechanism } => {
            entry.event = "would";
            entry.action = Some(action.name());
            entry.mechanism = mechanism.map(uncopy::Mechanism::name);
            if let Action::Delete { entries } = action {
                entry.entries = Some(*entries);
            }
        }
        EntryOutcome::Skipped { reason } => {
            entry.event = "skipped";
            entry.set_reason(*reason);
        }
        _ => entry.event = "failed",
    }
    line(&entry)
}

fn discarded<'a>(names: Names<'a>, lost: &Summary, tree: Option<InTree>) -> Discarded<'a> {
    Discarded {
        schema: SCHEMA,
        event: "discarded",
        names,
        entries: lost.made_entries(),
        files: lost.files,
        directories: lost.directories,
        symlinks: lost.symlinks,
        hard_links: lost.hard_links,
        specials: lost.specials,
        bytes: lost.bytes,
        mechanisms: lost.portions.iter().map(MechanismBytes::from).collect(),
        refusals: lost
            .refusals
            .iter()
            .map(|count| CountedRefusal::new(count, &FlagWording))
            .collect(),
        transformed: Transformed::of(lost),
        tree,
    }
}

/// Returns the last line of a job.
pub(crate) fn summary(summary: &Summary, wire: Option<Wire>) -> String {
    line(&Whole { job: WholeJob::new(summary, &FlagWording), wire: wire.map(OverWire::from) })
}

/// Returns the line for a file, or an entry of a tree, that was not copied.
pub(crate) fn failed(
    source: &Path,
    destination: &Path,
    failure: &Failure,
    tree: Option<InTree>,
) -> String {
    line(&Failed {
        schema: SCHEMA,
        event: "failed",
        names: Names::new(source, destination),
        problem: Problem::from(failure),
        tree,
    })
}

/// Serializes one object as one line.
pub(crate) fn line(event: &impl Serialize) -> String {
    // Only a map with keys that are not strings, or a failing `Serialize`, can fail here.
    let mut line = serde_json::to_string(event).unwrap_or_default();
    debug_assert!(line.starts_with("{\"schema\":"), "the first key is the schema: {line}");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use uncopy::capabilities::Filesystem;
    use uncopy::{
        Cost, MappedWrites, Obstacle, Portion, RefusalReason, Unseen, Verification, VerifiedFrom,
    };

    use super::*;
    use crate::exit::Exit;

    fn receipt() -> Receipt {
        let mut receipt = Receipt::default();
        receipt.bytes = 10;
        receipt.duration = Duration::from_micros(77);
        receipt.portions = vec![Portion {
            mechanism: uncopy::Mechanism::ReadWrite,
            bytes: 10,
            cost: Cost::UserCopied,
        }];
        receipt.refusals = vec![uncopy::Refusal {
            mechanism: uncopy::Mechanism::Reflink,
            reason: RefusalReason::StoppedBy {
                obstacle: Obstacle::NoReflinks(Filesystem::EXT4),
                after_bytes: 0,
            },
            errno: Some(Errno::EOPNOTSUPP),
        }];
        receipt
    }

    fn parse(line: &str) -> Value {
        assert!(line.starts_with("{\"schema\":1,\"event\":\""), "{line}");
        assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn a_copy_is_one_line_that_starts_with_the_schema() {
        let pair = Pair { source: "a\n\"".into(), destination: "d/a".into() };
        let expected = json!({
            "schema": 1, "event": "copied", "source": "a\n\"", "destination": "d/a", "bytes": 10,
            "mechanisms": [{"name": "read_write", "bytes": 10, "cost": "user_copied"}],
            "refusals": [{
                "mechanism": "reflink", "reason": "ext4 has no reflinks, or not for this file",
                "code": "no_reflinks", "errno": 95, "errno_name": "EOPNOTSUPP",
            }],
            "duration_us": 77, "verified": false, "verified_from": null, "algorithm": null,
            "digest": null, "verify_us": null, "durable": false, "source_changed": false,
            "mapped_writes": "unknown", "mapped_writes_unknown": "not_looked",
            "retries": 0, "notes": [], "note_codes": [],
        });
        assert_eq!(parse(&copied(&pair, &receipt())), expected);
    }

    #[test]
    fn stores_through_mappings_are_reported_with_flushes_of_the_source() {
        let pair = Pair { source: "a".into(), destination: "b".into() };
        let mut receipt = receipt();
        receipt.source_flushes = 2;
        receipt.source_flush_duration = Duration::from_micros(4_600);
        for (known, name, why) in [
            (MappedWrites::NoneSeen, "none_seen", None),
            (MappedWrites::Seen, "seen", None),
            (MappedWrites::Unknown(Unseen::DirtyPages), "unknown", Some("dirty_pages")),
            (MappedWrites::Unknown(Unseen::Resumed), "unknown", Some("resumed")),
        ] {
            receipt.mapped_writes = known;
            let event = parse(&copied(&pair, &receipt));
            assert_eq!(event["mapped_writes"], name);
            assert_eq!(event.get("mapped_writes_unknown").and_then(Value::as_str), why);
            assert_eq!(
                (&event["source_flushes"], &event["source_flush_us"]),
                (&json!(2), &json!(4600))
            );
        }
    }

    #[test]
    fn a_verified_copy_says_from_where() {
        let pair = Pair { source: "a".into(), destination: "b".into() };
        let mut receipt = receipt();
        receipt.verification = Some(Verification {
            algorithm: "sha256",
            digest: String::from("00ff"),
            from: VerifiedFrom::Device,
            duration: Duration::from_micros(9),
        });
        let event = parse(&copied(&pair, &receipt));
        assert_eq!(event["verified"], true);
        assert_eq!(event["verified_from"], "device");
        assert_eq!(event["algorithm"], "sha256");
        assert_eq!(event["digest"], "00ff");
        assert_eq!(event["verify_us"], 9);
    }

    #[test]
    fn a_skipped_file_has_its_own_event() {
        let pair = Pair { source: "a".into(), destination: "b".into() };
        let event = parse(&skipped(&pair, Skip::Exists));
        assert_eq!(event["event"], "skipped");
        assert_eq!(event["reason"], "the destination exists");
        assert_eq!(event["code"], "exists");
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_utf8_are_there_in_full() {
        use std::os::unix::ffi::OsStrExt;
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"a\xff"));
        let failure = Failure {
            kind: "system",
            code: None,
            operation: "open",
            subject: odd.into(),
            errno: Some(Errno::ENOENT),
            os_error: None,
            reason: "No such file or directory (ENOENT)".into(),
            next_step: Some("check the path".into()),
            is_at_destination: true,
            exit: Exit::Failure,
        };
        let event = parse(&failed(odd, Path::new("b"), &failure, None));
        let expected = json!({
            "schema": 1, "event": "failed", "source": "a\u{fffd}", "source_base64": "Yf8=",
            "destination": "b", "kind": "system", "operation": "open", "subject": "a\u{fffd}",
            "subject_base64": "Yf8=", "errno": 2, "errno_name": "ENOENT",
            "message": "cannot open a\u{fffd}: No such file or directory (ENOENT)",
            "next_step": "check the path", "side": "destination",
        });
        assert_eq!(event, expected);

        // On other systems numbers have no names.
        let failure = Failure { errno: None, os_error: Some(2), ..failure };
        let event = parse(&failed(odd, Path::new("b"), &failure, None));
        assert_eq!(event["os_error"], 2);
        assert!(event["errno"].is_null() && event["errno_name"].is_null(), "{event}");
    }
}
