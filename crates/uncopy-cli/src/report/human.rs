//! Reports for people: `-v`.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use indicatif::BinaryBytes;
use uncopy::copy::Skip;
use uncopy::copy::job::{Action, EntryOutcome, Incomplete, Record, Summary, Transformed};
use uncopy::{
    Compression, CompressionAction, Cost, DigestedFrom, GuessedBy, Portion, Receipt, Refusal,
    SourceDigest, Verification, VerifiedFrom,
};

use crate::cp::Pair;
use crate::flags::naming;
use crate::report::{DataWire, Wire, WireKind, decision, printable, quoted, refusal};

/// Describes a copied file: one line, followed by the mechanisms and the reasons against cheaper
/// ones.
pub(crate) fn copied(pair: &Pair, receipt: &Receipt) -> String {
    let mut text = format!("{} -> {}: ", name(&pair.source), name(&pair.destination));
    let _ = writeln!(text, "{} in {}", BinaryBytes(receipt.bytes), duration(receipt.duration));
    for portion in &receipt.portions {
        let _ = writeln!(text, "  {}", portion_line(portion));
    }
    text.push_str(&parallel(receipt.parallel_bytes));
    text.push_str(&resumed(receipt.resumed_bytes));
    // Mechanisms with the same reason share a line.
    for alike in receipt.refusals.chunk_by(|a, b| (a.errno, a.reason) == (b.errno, b.reason)) {
        let _ = writeln!(text, "  not by {}", printable(&reason(alike)));
    }
    if !receipt.decided_by.is_empty() {
        let sizes: Vec<String> = receipt.decided_by.iter().map(decision::words).collect();
        let _ = writeln!(text, "  because of {}", sizes.join(", "));
    }
    if let Some(compression) = &receipt.compression {
        let _ = writeln!(text, "  {}", compressed(compression, receipt.bytes));
    }
    if let Some(verification) = &receipt.verification {
        let _ = writeln!(text, "  {}", verified(verification));
    }
    if let Some(digest) = &receipt.source_digest {
        let _ = writeln!(text, "  {}", digested(digest));
    }
    if receipt.durable {
        text.push_str("  flushed to the device\n");
    }
    if receipt.source_flushes > 0 {
        let times = counted(receipt.source_flushes.into(), "time", "times");
        let took = duration(receipt.source_flush_duration);
        let _ = writeln!(text, "  the source was flushed first, {times} in {took}");
    }
    if receipt.retries > 0 {
        let _ =
            writeln!(text, "  started again {}", counted(receipt.retries.into(), "time", "times"));
    }
    if receipt.source_changed {
        text.push_str("  the source changed while it was copied; accepted\n");
    }
    text
}

/// Describes a skipped file in one line.
pub(crate) fn skipped(pair: &Pair, reason: Skip) -> String {
    let (source, destination) = (name(&pair.source), name(&pair.destination));
    format!("{source} -> {destination}: skipped, {}\n", naming::skip(reason))
}

/// Describes one entry of a job: one line, followed by the receipt of a file.
pub(crate) fn entry(record: &Record) -> String {
    let pair = Pair { source: record.source.clone(), destination: record.destination.clone() };
    let kind = record.kind.name();
    let what = match &record.outcome {
        EntryOutcome::Copied(receipt) => return copied(&pair, receipt),
        EntryOutcome::Linked { to } => format!("hard link to {}", name(to)),
        EntryOutcome::Made { .. } => kind.to_owned(),
        EntryOutcome::Resumed => String::from("copied by an earlier run"),
        EntryOutcome::Skipped { reason } => return skipped(&pair, *reason),
        EntryOutcome::Deleted { entries: 1 } => {
            return format!("{}: deleted\n", name(&pair.destination));
        }
        EntryOutcome::Deleted { entries } => {
            let inside = counted(entries - 1, "entry", "entries");
            return format!("{}: deleted with {inside} in it\n", name(&pair.destination));
        }
        EntryOutcome::Discarded { lost } => return format!("{}\n", discarded(record, lost)),
        EntryOutcome::Planned { action: Action::Delete { .. }, .. } => {
            return format!("{}: would be deleted\n", name(&pair.destination));
        }
        EntryOutcome::Planned { action, mechanism } => {
            let way = mechanism.map_or(String::new(), |mechanism| format!(" by {mechanism}"));
            format!("would {} the {kind}{way}", action.name())
        }
        _ => String::from("not copied"),
    };
    format!("{} -> {}: {what}\n", name(&pair.source), name(&pair.destination))
}

/// Describes a new tree that was removed again.
pub(crate) fn discarded(record: &Record, lost: &Summary) -> String {
    let entries = counted(lost.made_entries(), "entry", "entries");
    format!("{}: the new tree was removed again, with {entries} in it", name(&record.destination))
}

/// Describes new trees on another machine that was lost, of which nothing more is known.
pub(crate) const LOST_UNKNOWN_TREES: &str =
    "a new tree there that was not whole did not get its name, and nothing in it counts as copied";

/// Describes a new tree on another machine that was lost before the tree had its name.
pub(crate) fn lost_tree(destination: &Path) -> String {
    format!(
        "{}: the new tree did not get its name, and nothing in it counts as copied",
        name(destination)
    )
}

/// Describes what crossed between two machines.
pub(crate) fn over_wire(wire: &Wire) -> String {
    let Wire { bytes_sent, duration: open, data, .. } = wire;
    let (sent, open) = (BinaryBytes(*bytes_sent), duration(*open));
    let mut text = format!("  {sent} crossed between the machines in {open}\n");
    let DataWire { kind, connections, bytes, resent, why_none } = data;
    let kind = match kind {
        WireKind::Tls => "with TLS",
        WireKind::Open => "without encryption",
    };
    if *connections > 0 {
        let connections = counted((*connections).into(), "connection", "connections");
        let _ = writeln!(text, "  {} of it over {connections} {kind}", BinaryBytes(*bytes));
    }
    if *resent > 0 {
        let resent = BinaryBytes(*resent);
        let _ = writeln!(text, "  {resent} asked for again: a connection ended, or changed it");
    }
    if let Some(why) = why_none {
        let _ = writeln!(text, "  not over connections {kind}: {}", why.words);
    }
    text
}

/// Describes a whole job.
pub(crate) fn summary(summary: &Summary, wire: Option<&Wire>) -> String {
    let mut text = format!("{}: ", counted(summary.files, "file", "files"));
    let _ = writeln!(text, "{} in {}", BinaryBytes(summary.bytes), duration(summary.duration));
    for portion in &summary.portions {
        let _ = writeln!(text, "  {}", portion_line(portion));
    }
    text.push_str(&resumed(summary.resumed_bytes));
    if let Some(wire) = wire {
        text.push_str(&over_wire(wire));
    }
    for count in &summary.refusals {
        let refusal =
            Refusal { mechanism: count.mechanism, reason: count.reason, errno: count.errno };
        let files = counted(count.files, "file", "files");
        let _ = writeln!(text, "  not by {} ({files})", printable(&refusal::line(&refusal)));
    }
    if summary.compared > 0 {
        let (files, same) =
            (counted(summary.compared, "file", "files"), BinaryBytes(summary.compared_bytes));
        let _ = writeln!(text, "  {files} compared with what was there: {same} the same");
    }
    let Transformed { files, source_bytes, bytes, .. } = summary.transformed;
    if files > 0 {
        let (files, from, to) =
            (counted(files, "file", "files"), BinaryBytes(source_bytes), BinaryBytes(bytes));
        let _ = writeln!(text, "  {files} compressed or decompressed: {from} became {to}");
    }
    let others = [
        (summary.directories, "directory", "directories"),
        (summary.symlinks, "symbolic link", "symbolic links"),
        (summary.hard_links, "hard link", "hard links"),
        (summary.specials, "special file", "special files"),
        (summary.skipped, "skipped", "skipped"),
        (summary.deleted, "deleted", "deleted"),
        (summary.resumed, "file copied earlier", "files copied earlier"),
        (summary.discarded, "removed again", "removed again"),
        (summary.sources_removed, "source removed", "sources removed"),
        (summary.failed, "failed", "failed"),
        (summary.not_tried, "not tried", "not tried"),
    ];
    let others: Vec<String> = others
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| counted(count, one, many))
        .collect();
    if !others.is_empty() {
        let _ = writeln!(text, "  {}", others.join(", "));
    }
    text
}

/// Describes where an unfinished tree is, and what can be done with it. `links_earlier`: an earlier copy was named from the
/// destination, so that another one would change its meaning.
pub(crate) fn incomplete(incomplete: &Incomplete, links_earlier: bool) -> String {
    let Incomplete { source, destination, path, entries, no_journal, removed_by_next, .. } =
        incomplete;
    let (given, name) = (quoted(destination), quoted(path));
    let entries = counted(*entries, "entry was", "entries were");
    let there =
        format!("{given} is incomplete and did not get its name: {entries} copied to {name}");
    match no_journal.as_ref().map(naming::reason) {
        None if links_earlier => format!(
            "{there}; after removing the cause, this command with --resume continues it; or rename or delete it: no \
             other run touches it"
        ),
        None => format!(
            "{there}; after removing the cause, `uncopy cp -r --resume {} {given}` with the flags of this \
             command continues it; or rename or delete it: no other run touches it",
            quoted(source),
        ),
        Some(reason) if *removed_by_next => format!(
            "{there}; --resume cannot continue it: {reason}; rename it before the next copy to {given}, \
             which would remove it, or delete it"
        ),
        Some(reason) => format!(
            "{there}; --resume cannot continue it: {reason}; rename or delete it: no other run touches it"
        ),
    }
}

/// Describes the compression of a file and the reason for it.
fn compressed(compression: &Compression, bytes: u64) -> String {
    let (from, to) = (BinaryBytes(compression.source_bytes), BinaryBytes(bytes));
    let frames = counted(compression.frames, "frame", "frames");
    let done = match compression.action {
        CompressionAction::Compressed { level } => {
            format!("compressed with zstd, level {level}: {from} became {to} in {frames}")
        }
        CompressionAction::Decompressed => format!("decompressed: {from} in {frames} became {to}"),
        _ => String::from("neither compressed nor decompressed"),
    };
    let guess = compression.guess.map_or(String::new(), |guess| {
        let by = match guess.by {
            GuessedBy::Magic => "first bytes",
            GuessedBy::Extension => "name",
        };
        format!("; by its {by} it looks like {}", guess.format)
    });
    format!("{done} ({}{guess})", compression.reason)
}

pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Formats refusals with the same reason: `reflink, sendfile: EXDEV: why`.
fn reason(alike: &[Refusal]) -> String {
    let [others @ .., last] = alike else { return String::new() };
    let others = others.iter().map(|refusal| format!("{}, ", refusal.mechanism));
    others.chain([refusal::line(last)]).collect()
}

/// Formats a duration with about three digits: `183ms`, `1.25s`, `240µs`.
pub(crate) fn duration(duration: Duration) -> String {
    match duration.as_micros() {
        0..1_000 => format!("{duration:.0?}"),
        1_000..10_000 => format!("{duration:.1?}"),
        10_000..1_000_000 => format!("{duration:.0?}"),
        _ => format!("{duration:.2?}"),
    }
}

fn name(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

pub(crate) fn portion_line(portion: &Portion) -> String {
    let bytes = BinaryBytes(portion.bytes);
    let mechanism = portion.mechanism;
    match portion.cost {
        Cost::Hole => format!("{bytes} left as holes"),
        Cost::Shared => format!("{bytes} shared with the source by {mechanism}"),
        Cost::Moved => {
            format!("{bytes} moved by {mechanism}: the device read the pages themselves")
        }
        Cost::KernelCopied => format!("{bytes} copied inside the kernel by {mechanism}"),
        Cost::Zeros => {
            format!("{bytes} read by {mechanism}, and left as holes, because they are zeros")
        }
        Cost::UserCopied => format!("{bytes} copied through this program's memory by {mechanism}"),
        Cost::Unknown => {
            format!("{bytes} by {mechanism}; the kernel does not say whether it copied")
        }
    }
}

fn parallel(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!("  {} of it by two threads in parallel\n", BinaryBytes(bytes)),
    }
}

fn resumed(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!("  {} verified, from an interrupted run\n", BinaryBytes(bytes)),
    }
}

fn digested(digest: &SourceDigest) -> String {
    let how = match digest.from {
        DigestedFrom::ReadFromCopy => "read from the copy",
        _ => "of the bytes on their way",
    };
    format!("digest: {} {}, {how}", digest.algorithm, digest.value)
}

fn verified(verification: &Verification) -> String {
    match verification.from {
        VerifiedFrom::Device => format!(
            "verified: {} {}, read back from the device in {}",
            verification.algorithm,
            verification.digest,
            duration(verification.duration)
        ),
        VerifiedFrom::Cache => format!(
            "verified: {} {}, read back in {}, possibly from the page cache",
            verification.algorithm,
            verification.digest,
            duration(verification.duration)
        ),
        VerifiedFrom::SharedExtents => {
            String::from("verified: both files share the same blocks; nothing was read")
        }
    }
}

#[cfg(test)]
mod tests {
    use uncopy::copy::{Origin, Threshold};
    use uncopy::{
        Choice, CompressionGuess, CompressionReason, Decision, Errno, Mechanism, Obstacle,
        RefusalReason,
    };

    use super::*;

    fn receipt() -> Receipt {
        let mut receipt = Receipt::default();
        receipt.bytes = 3 << 20;
        receipt.duration = Duration::from_micros(1234);
        receipt.portions = vec![
            Portion {
                mechanism: Mechanism::CopyFileRange,
                bytes: 1 << 20,
                cost: Cost::KernelCopied,
            },
            Portion { mechanism: Mechanism::CopyFileRange, bytes: 2 << 20, cost: Cost::Hole },
        ];
        let slower = RefusalReason::SlowerByTheClock;
        let crossed =
            RefusalReason::StoppedBy { obstacle: Obstacle::OtherFilesystem, after_bytes: 0 };
        let refusal = |mechanism, reason, errno| Refusal { mechanism, reason, errno };
        receipt.refusals = vec![
            refusal(Mechanism::Reflink, crossed, Some(Errno::EXDEV)),
            refusal(Mechanism::Direct, slower, None),
            refusal(Mechanism::Splice, slower, None),
        ];
        receipt
    }

    fn pair() -> Pair {
        Pair { source: "a\n".into(), destination: "d/a".into() }
    }

    #[test]
    fn says_the_way_and_why_not_a_cheaper_one() {
        assert_eq!(
            copied(&pair(), &receipt()),
            "a\\n -> d/a: 3.00 MiB in 1.2ms\n\
             \x20 1.00 MiB copied inside the kernel by copy_file_range\n\
             \x20 2.00 MiB left as holes\n\
             \x20 not by reflink: EXDEV: source and destination lie on different filesystems\n\
             \x20 not by direct, splice: slower by the clock where others work\n"
        );
    }

    #[test]
    fn says_what_else_was_done() {
        let mut receipt = receipt();
        receipt.portions.clear();
        receipt.refusals.clear();
        receipt.durable = true;
        receipt.retries = 2;
        receipt.source_changed = true;
        receipt.source_flushes = 3;
        receipt.source_flush_duration = Duration::from_micros(4_600);
        receipt.verification = Some(Verification {
            algorithm: "xxh3",
            digest: String::from("99aa"),
            from: VerifiedFrom::Device,
            duration: Duration::from_millis(20),
        });
        assert_eq!(
            copied(&pair(), &receipt),
            "a\\n -> d/a: 3.00 MiB in 1.2ms\n\
             \x20 verified: xxh3 99aa, read back from the device in 20ms\n\
             \x20 flushed to the device\n\
             \x20 the source was flushed first, 3 times in 4.6ms\n\
             \x20 started again 2 times\n\
             \x20 the source changed while it was copied; accepted\n"
        );
    }

    #[test]
    fn says_how_bytes_went_and_what_was_read_back() {
        let mut receipt = Receipt::default();
        let portion = |cost| Portion { mechanism: Mechanism::Direct, bytes: 1 << 20, cost };
        receipt.portions = [Cost::Shared, Cost::Moved, Cost::Unknown].map(portion).into();
        receipt.duration = Duration::from_secs(3);
        receipt.resumed_bytes = 1 << 30;
        receipt.retries = 1;
        receipt.decided_by = [
            (Choice::ZeroCopyMin, 512 << 10, Origin::Tuned),
            (Choice::DirectMin, 2 << 20, Origin::Given),
        ]
        .map(|(choice, bytes, origin)| Decision { choice, threshold: Threshold { bytes, origin } })
        .into();
        let says = |from| {
            let mut receipt = receipt.clone();
            let (digest, duration) = (String::from("99aa"), Duration::from_micros(20));
            receipt.verification = Some(Verification { algorithm: "xxh3", digest, from, duration });
            copied(&pair(), &receipt)
        };
        assert_eq!(
            says(VerifiedFrom::Cache),
            "a\\n -> d/a: 0 B in 3.00s\n\
             \x20 1.00 MiB shared with the source by direct\n\
             \x20 1.00 MiB moved by direct: the device read the pages themselves\n\
             \x20 1.00 MiB by direct; the kernel does not say whether it copied\n\
             \x20 1.00 GiB verified, from an interrupted run\n\
             \x20 because of zero-copy-min 512 KiB (tuned), direct-min 2 MiB (given)\n\
             \x20 verified: xxh3 99aa, read back in 20µs, possibly from the page cache\n\
             \x20 started again 1 time\n"
        );
        assert!(says(VerifiedFrom::SharedExtents).contains("the same blocks; nothing was read\n"));
    }

    #[test]
    fn says_what_spoke_for_compression() {
        let mut compression = Compression {
            action: CompressionAction::Compressed { level: 3 },
            reason: CompressionReason::Pays { percent: 31 },
            guess: None,
            expected: None,
            sample: None,
            source_bytes: 3 << 20,
            frames: 1,
        };
        assert_eq!(
            compressed(&compression, 1 << 20),
            "compressed with zstd, level 3: 3.00 MiB became 1.00 MiB in 1 frame \
             (a sample became 31 % of its size)"
        );
        compression.action = CompressionAction::Decompressed;
        compression.frames = 2;
        let decompressed = compressed(&compression, 4 << 20);
        assert!(decompressed.starts_with("decompressed: 3.00 MiB in 2 frames became 4.00 MiB ("));
        for (by, seen) in [(GuessedBy::Magic, "first bytes"), (GuessedBy::Extension, "name")] {
            compression.guess = Some(CompressionGuess { format: "gzip", by });
            let guess = format!("; by its {seen} it looks like gzip)");
            assert!(compressed(&compression, 0).ends_with(&guess));
        }
    }

    #[test]
    fn a_skipped_file_is_one_line() {
        let line = skipped(&pair(), Skip::Exists);
        assert_eq!(line, "a\\n -> d/a: skipped, the destination exists\n");
    }
}
