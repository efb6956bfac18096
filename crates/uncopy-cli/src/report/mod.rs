//! Output of the program: text for people on standard error and (`-v`) standard output, or JSON
//! Lines on standard output.

mod decision;
pub(crate) mod human;
pub(crate) mod json;
pub(crate) mod outlet;
pub(crate) mod refusal;
mod shown;
mod wording;

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io;
use std::path::Path;
use std::time::Duration;

use uncopy::copy::job::{EntryKind, EntryOutcome, Incomplete, Record, Summary};
use uncopy::copy::{Outcome, Skip};
use uncopy::{Errno, Error, InodeFlags, Leftovers, Note, Objection, Reason, Receipt};

use crate::audit::Audit;
use crate::cp::Pair;
use crate::exit::Exit;
use crate::flags::advice::{self, Scope};
use crate::flags::choice::flag;
use crate::flags::copy::CopyArgs;
use crate::flags::naming;
use crate::stop::StopRequest;
use json::InTree;
use outlet::Stream;
use shown::{ShownMachine, shown};

/// A file that was not copied, and why.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// Kind of failure, for programs.
    pub kind: &'static str,
    /// Reason within that kind, if the library has several.
    pub code: Option<&'static str>,
    /// Attempted operation, as a verb phrase.
    pub operation: &'static str,
    /// File that the operation was attempted on.
    pub subject: Box<Path>,
    pub errno: Option<Errno>,
    /// Error number of a system other than Linux.
    pub os_error: Option<i32>,
    pub reason: Box<str>,
    pub next_step: Option<Box<str>>,
    /// Whether a call on the destination failed.
    pub is_at_destination: bool,
    pub exit: Exit,
}

impl Failure {
    /// Returns the sentence without the next step.
    fn message(&self) -> String {
        format!("cannot {} {}: {}", self.operation, self.subject.display(), self.reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        self.next_step.as_ref().map_or(Ok(()), |step| write!(f, "; {step}"))
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        let reason = error.reason();
        let words = naming::words(reason).and(error.next_step().map(naming::next_step));
        Failure {
            kind: kind(reason),
            code: code(reason),
            operation: error.operation(),
            subject: error.subject().into(),
            errno: error.errno(),
            os_error: os_error(reason),
            reason: words.reason.into(),
            next_step: words.next_step.map(Box::from),
            is_at_destination: error.is_at_destination(),
            exit: Exit::of(error),
        }
    }
}

pub(crate) fn kind(reason: &Reason) -> &'static str {
    match reason {
        Reason::System { .. } | Reason::OtherSystem { .. } => "system",
        Reason::Network { .. } => "network",
        Reason::SameFile { .. } => "same_file",
        Reason::NotRegular { .. } => "not_regular",
        Reason::SourceChanged { .. } => "source_changed",
        Reason::VerificationFailed { doubt: None, .. } => "verification_failed",
        Reason::VerificationFailed { doubt: Some(_), .. } => "verification_in_doubt",
        Reason::NoMechanism { .. } => "no_mechanism",
        Reason::Damaged { .. } => "damaged",
        Reason::Options(_) | Reason::NotHere { .. } => "options",
        Reason::Cancelled => "cancelled",
        Reason::Refused(Objection::PeerLost { .. }) => "unreachable",
        _ => "refused",
    }
}

/// Returns the code of a reason that shares its kind with others.
pub(crate) fn code(reason: &Reason) -> Option<&'static str> {
    match reason {
        Reason::Options(found) => Some(found.code()),
        Reason::Refused(found) => Some(found.code()),
        _ => None,
    }
}

/// Error number of a system other than Linux.
fn os_error(reason: &Reason) -> Option<i32> {
    match reason {
        Reason::OtherSystem { error } => error.get().raw_os_error(),
        _ => None,
    }
}

/// Traffic between two machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wire {
    /// Bytes that the side with the sources sent, of the protocol too.
    pub bytes_sent: u64,
    /// Bytes that it was sent.
    pub bytes_received: u64,
    /// Time that the connection has been there.
    pub duration: Duration,
    /// Connections with TLS beside the remote shell.
    pub data: DataWire,
}

/// Kind of data connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireKind {
    Tls,
    Open,
}

/// Traffic over data connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataWire {
    /// Kind of the connections.
    pub kind: WireKind,
    /// Largest number of connections at once.
    pub connections: u32,
    /// Bytes that the side with the sources sent over them; part of all that it sent.
    pub bytes: u64,
    /// Bytes that were asked for again, because their connection ended or they were changed on the way.
    pub resent: u64,
    /// Reason why there are none, or none any more.
    pub why_none: Option<NoTls>,
}

/// Reason why bytes go through the remote shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoTls {
    /// Stable name for programs.
    pub code: &'static str,
    /// Words for people.
    pub words: String,
}

/// Place of the audit log of a copy.
#[derive(Debug)]
pub(crate) enum AuditLog {
    Here(Box<Audit>),
    /// On the machine that this process copies for.
    Away,
}

/// Form in which each file is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing on success, as `cp` does.
    Silent,
    /// `-v`.
    Words,
    /// `--json`.
    Json,
}

/// Prints the notes of a copy.
fn print_notes(destination: &Path, notes: &[Note], flags_not_kept: InodeFlags) {
    let shown = destination.display();
    for note in notes {
        say(&format!("note: {shown}: {}", self::note(note)));
    }
    if !flags_not_kept.is_empty() {
        say(&format!("note: {shown}: {}", self::flags_not_kept(flags_not_kept)));
    }
}

/// Describes a note.
pub(crate) fn note(note: &Note) -> String {
    note.named_by(flag)
}

/// Describes inode flags that a copy does not have.
pub(crate) fn flags_not_kept(flags: InodeFlags) -> String {
    let names: Vec<_> = flags.names().map(|name| name.replace('_', " ")).collect();
    let names = names.join(", ");
    format!("inode flags of the source that the copy does not have: {names} (chattr sets them)")
}

/// Warns of entries that look like leftovers and were not removed.
pub(crate) fn warn_about(leftovers: &Leftovers) {
    /// Maximum number of paths that are printed; others are counted.
    const MAX_PRINTED: usize = 8;
    for path in leftovers.paths.iter().take(MAX_PRINTED) {
        say(&format!(
            "warning: {} looks like a temporary file of uncopy, but it is not known whether it is needed: a copy \
             with --resume may go on with it; remove it if you do not need it and no copy is running",
            path.display()
        ));
    }
    let others = leftovers.paths.len().saturating_sub(MAX_PRINTED) as u64 + leftovers.more;
    if others > 0 {
        say(&format!(
            "warning: there are {others} more such entries; --json lists the first of them"
        ));
    }
}

/// Reports each file when it is finished, and computes the exit code.
#[derive(Debug)]
pub(crate) struct Report {
    form: Form,
    quiet: bool,
    in_place: bool,
    /// Whether FIFOs and devices may be written to.
    into_streams: bool,
    /// Whether trees are copied: their events have more keys, and a summary ends them.
    trees: bool,
    resume: bool,
    /// Whether files are linked to an earlier copy, which is named from the destination.
    links_earlier: bool,
    /// Whether the sources are on another machine.
    is_between: bool,
    /// This machine, if another one reads the report.
    here: Option<ShownMachine>,
    exit: Exit,
    /// Entries that were not deleted because the limit of deletions was reached.
    kept_by_limit: u64,
    /// First error of standard output. Copies continue: they matter more than their report.
    unwritten: Option<io::Error>,
    audit: Option<AuditLog>,
}

impl Report {
    pub(crate) fn new(flags: &CopyArgs, audit: Option<AuditLog>) -> Report {
        let form = match (flags.json, flags.verbose) {
            (true, _) => Form::Json,
            (false, true) => Form::Words,
            (false, false) => Form::Silent,
        };
        Report {
            form,
            quiet: flags.quiet,
            in_place: flags.in_place,
            into_streams: flags.copy_contents,
            trees: flags.is_recursive(),
            resume: flags.tree.resume,
            links_earlier: !flags.tree.link_dest.is_empty(),
            is_between: flags.is_between,
            here: flags
                .shown_as
                .clone()
                .map(|machine| ShownMachine { machine, sources: flags.source.clone() }),
            exit: Exit::Success,
            kept_by_limit: 0,
            unwritten: None,
            audit,
        }
    }

    /// Whether to show a progress bar if there is a terminal.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet
    }

    /// Reports a file that was copied or skipped.
    pub(crate) fn outcome(&mut self, pair: &Pair, outcome: &Outcome) {
        match outcome {
            Outcome::Copied(receipt) => self.copied(pair, receipt),
            Outcome::Skipped { reason, .. } => self.skipped(pair, *reason),
            // The enum is non-exhaustive; the library has no other variant.
            _ => {}
        }
    }

    fn copied(&mut self, pair: &Pair, receipt: &Receipt) {
        self.log(|| json::copied(pair, receipt));
        match self.form {
            Form::Silent => {}
            Form::Words => self.print(&human::copied(pair, receipt)),
            Form::Json => self.print(&json::copied(pair, receipt)),
        }
        // The JSON contains them.
        if !self.quiet && self.form != Form::Json {
            print_notes(&pair.destination, &receipt.notes, receipt.flags_not_kept);
        }
        if !self.quiet {
            warn_about(&receipt.leftovers);
        }
    }

    fn skipped(&mut self, pair: &Pair, reason: Skip) {
        self.log(|| json::skipped(pair, reason));
        match self.form {
            Form::Silent => {}
            Form::Words => self.print(&human::skipped(pair, reason)),
            Form::Json => self.print(&json::skipped(pair, reason)),
        }
    }

    /// Reports a file that could not be copied.
    pub(crate) fn failed(&mut self, source: &Path, destination: &Path, failure: &Failure) {
        self.all_failed(&[source], destination, failure);
    }

    /// Reports that the copy of these files was not begun, as [`Report::all_failed`] does, and the end of the job.
    pub(crate) fn not_begun(
        &mut self,
        sources: &[impl AsRef<Path>],
        destination: &Path,
        failure: &Failure,
    ) {
        self.all_failed(sources, destination, failure);
        if self.trees && self.form == Form::Json {
            let mut summary = Summary::default();
            summary.failed = sources.len() as u64;
            self.print(&json::summary(&summary, None));
        }
    }

    /// Reports that none of these files was copied, for one reason, which is printed once.
    pub(crate) fn all_failed(
        &mut self,
        sources: &[impl AsRef<Path>],
        destination: &Path,
        failure: &Failure,
    ) {
        let failure = &*shown(failure, self.here.as_ref());
        for source in sources {
            let pair = Pair { source: source.as_ref().into(), destination: destination.into() };
            let pair = shown(&pair, self.here.as_ref()).into_owned();
            let line = || json::failed(&pair.source, &pair.destination, failure, None);
            self.record_failure(line);
        }
        self.describe_failure(failure);
    }

    /// Adds the line of a failure to the audit log and to the JSON output.
    fn record_failure(&mut self, line: impl Fn() -> String) {
        self.log(&line);
        if self.form == Form::Json {
            self.print(&line());
        }
    }

    /// Prints a failure for people and adds it to the exit code.
    fn describe_failure(&mut self, failure: &Failure) {
        let is_beyond_limit = failure.code == Some(Objection::TooManyDeleted.code());
        self.kept_by_limit += u64::from(is_beyond_limit);
        // `stopped` reports the signal, and the first entry beyond the limit stands for all.
        if failure.kind != "cancelled" && !(is_beyond_limit && self.kept_by_limit > 1) {
            say(&failure.to_string());
        }
        self.exit = self.exit.and(failure.exit);
    }

    /// Whether each entry is reported, and not only those that failed.
    pub(crate) fn wants_records(&self) -> bool {
        self.form != Form::Silent || self.audit.is_some()
    }

    /// Whether events of entries say what crossed between two machines: no summary does.
    pub(crate) fn wants_wire(&self) -> bool {
        self.form == Form::Json && !self.trees
    }

    /// Describes an error of a job, with a next step for its kind of copy.
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        let scope = if self.is_between { Scope::Between } else { Scope::Entries };
        let words = advice::words(error, scope);
        let (reason, next_step) = (words.reason.into(), words.next_step.map(Box::from));
        Failure { reason, next_step, ..Failure::from(error) }
    }

    /// Reports a source that was not copied to its end, because its machine was lost.
    pub(crate) fn cut_off(&mut self, pair: &Pair, error: &Error) {
        let failure =
            Failure { subject: pair.source.as_path().into(), code: None, ..self.failure(error) };
        self.failed(&pair.source, &pair.destination, &failure);
    }

    /// Reports an entry of a job that is finished. `wire` is what crossed for it, if it is the only one.
    pub(crate) fn entry(&mut self, record: &Record, wire: Option<Wire>) {
        let record = &*shown(record, self.here.as_ref());
        let tree = self.trees;
        let tree = || tree.then(|| InTree::from(record));
        if !matches!(record.outcome, EntryOutcome::Failed(_)) {
            self.log(|| json::entry(record, tree(), None));
        }
        match (&record.outcome, self.form) {
            (EntryOutcome::Failed(error), _) => {
                let (source, destination) = (&record.source, &record.destination);
                let failure = self.failure(error);
                self.record_failure(|| json::failed(source, destination, &failure, tree()));
                self.describe_failure(&failure);
            }
            // Printing this is the purpose of a dry run.
            (EntryOutcome::Planned { .. }, Form::Silent) if !self.quiet => {
                self.print(&human::entry(record));
            }
            (_, Form::Silent) => {}
            (_, Form::Words) => self.print(&human::entry(record)),
            (_, Form::Json) => self.print(&json::entry(record, tree(), wire)),
        }
        if self.quiet || self.form == Form::Json {
            return;
        }
        let (notes, flags) = match &record.outcome {
            EntryOutcome::Copied(receipt) => (&receipt.notes, receipt.flags_not_kept),
            EntryOutcome::Made { notes, flags_not_kept } => (notes, *flags_not_kept),
            EntryOutcome::Skipped { reason } if record.kind == EntryKind::Special => {
                let (source, reason) = (record.source.display(), naming::skip(*reason));
                return say(&format!("note: {source} was skipped: {reason}"));
            }
            // `-v` prints it as any other record.
            EntryOutcome::Discarded { lost } if self.form == Form::Silent => {
                return say(&human::discarded(record, lost));
            }
            _ => return,
        };
        print_notes(&record.destination, notes, flags);
    }

    /// Reports sources that were not tried because of an earlier error, which they would have met
    /// too if it `is_lasting`.
    pub(crate) fn not_tried(&mut self, pairs: &[Pair], is_lasting: bool) {
        for pair in pairs {
            let pair = &*shown(pair, self.here.as_ref());
            self.log(|| json::not_tried(pair));
            if self.form == Form::Json {
                self.print(&json::not_tried(pair));
            }
        }
        if pairs.is_empty() {
            return;
        }
        let why = match is_lasting {
            true => "the next file would meet the same error of the destination",
            false => "the error above ended the copy",
        };
        let names: Vec<_> = pairs.iter().map(|pair| quoted(&pair.source)).collect();
        say(&format!("not tried, because {why}: {}", names.join(" ")));
    }

    /// Reports a new tree that was left under its temporary name.
    fn incomplete(&mut self, incomplete: &Incomplete) {
        self.log(|| json::incomplete(incomplete));
        if self.form == Form::Json {
            self.print(&json::incomplete(incomplete));
        }
        say(&human::incomplete(incomplete, self.links_earlier));
    }

    /// Reports the end of a job, whether it succeeded or not. `wire` is what crossed to or from another machine.
    pub(crate) fn summary(&mut self, summary: &Summary, wire: Option<Wire>) {
        let summary = &*shown(summary, self.here.as_ref());
        if let Some(incomplete) = &summary.incomplete {
            self.incomplete(incomplete);
        }
        match self.form {
            Form::Words if !self.trees => {
                if let Some(wire) = &wire {
                    self.print(&human::over_wire(wire));
                }
            }
            _ if !self.trees => {}
            Form::Silent => {}
            Form::Words => self.print(&human::summary(summary, wire.as_ref())),
            Form::Json => self.print(&json::summary(summary, wire)),
        }
        if !self.quiet {
            warn_about(&summary.leftovers);
        }
        if self.kept_by_limit > 1 && !self.quiet {
            let more = self.kept_by_limit - 1;
            let entries = if more == 1 { "entry was" } else { "entries were" };
            say(&format!("{more} more {entries} not deleted, because --max-delete is reached"));
        }
        if self.trees && summary.failed > 0 && !self.quiet {
            let entries = if summary.failed == 1 { "entry" } else { "entries" };
            say(&format!(
                "{} {entries} could not be copied, as listed above; run the command again after removing the cause",
                summary.failed
            ));
        }
    }

    /// Reports entries that a job had found but not tried when an error ended it.
    pub(crate) fn left_out(&self, summary: &Summary) {
        let left = summary.not_tried.saturating_sub(summary.sources_not_tried);
        if left > 0 && !self.quiet {
            let entries = if left == 1 { "entry was" } else { "entries were" };
            say(&format!("stopped early: {left} more {entries} not tried"));
        }
    }

    /// Reports the error that ended a job early, unless it is that of an entry, which was reported
    /// already.
    pub(crate) fn ended(&mut self, failure: &Failure) {
        if self.exit == Exit::Success {
            say(&shown(failure, self.here.as_ref()).to_string());
        }
        self.exit = self.exit.and(failure.exit);
    }

    /// Reports that the copy was stopped, and ends the process by the signal that did it.
    pub(crate) fn stopped(mut self, by: StopRequest) -> Exit {
        self.close_audit(true);
        let left = if self.in_place {
            "a file that was being written in place is a mixture of old and new"
        } else if self.into_streams {
            "a FIFO or device that was being written to has a part of its source, and every file is unchanged or complete"
        } else if self.resume {
            "the same command continues from here"
        } else {
            "every destination is unchanged or complete"
        };
        match by {
            StopRequest::Signal(_) => say(&format!("stopped by {}; {left}", by.name())),
            // Read on the machine that got the signal.
            StopRequest::Peer => say(&format!("stopped; {left}")),
        }
        by.end()
    }

    /// Ends the report and returns the exit code.
    pub(crate) fn finish(mut self) -> Exit {
        self.close_audit(false);
        match self.unwritten {
            Some(error) => self.exit.and(output_failed(&error)),
            None => self.exit,
        }
    }

    /// Adds a line to the audit log, if there is one.
    fn log(&mut self, line: impl FnOnce() -> String) {
        let written = match &mut self.audit {
            None => return,
            Some(AuditLog::Here(audit)) => audit.entry(&line()),
            Some(AuditLog::Away) => outlet::record(&line()),
        };
        if let Err(error) = written {
            self.lose_audit(&error);
        }
    }

    /// Adds a record of an entry that another machine copied.
    pub(crate) fn foreign_entry(&mut self, event: serde_json::Map<String, serde_json::Value>) {
        let Some(AuditLog::Here(audit)) = &mut self.audit else { return };
        if let Err(error) = audit.foreign_entry(event) {
            self.lose_audit(&error);
        }
    }

    /// Tells the other machine, which reads the report, of a tree that gets its name when it is whole.
    pub(crate) fn new_tree(&self, pair: &Pair) {
        let pair = shown(pair, self.here.as_ref());
        outlet::new_tree(&pair.source, &pair.destination);
    }

    /// Reports a new tree on another machine that was lost before the tree had its name, if something was made in it.
    pub(crate) fn lost_tree(&mut self, record: &Record) {
        let has_entries = |lost: &Summary| lost.made_entries() > 0;
        if !matches!(&record.outcome, EntryOutcome::Discarded { lost } if has_entries(lost)) {
            return;
        }
        let line = || json::entry(record, Some(InTree::from(record)), None);
        self.log(line);
        if self.form == Form::Json {
            self.print(&line());
        } else if !self.quiet {
            say(&human::lost_tree(&record.destination));
        }
    }

    /// Reports that new trees on another machine may not have got their names before it was lost.
    pub(crate) fn lost_unknown_trees(&self) {
        if !self.quiet {
            say(human::LOST_UNKNOWN_TREES);
        }
    }

    /// Writes no more to the audit log, which stays without a last record: that shows that it ends early.
    pub(crate) fn lose_audit(&mut self, error: &io::Error) {
        let next_step = match error.kind() {
            io::ErrorKind::InvalidData => {
                "the copies continue without it; install the same version of uncopy there"
            }
            _ => "the copies continue without it; free space on its filesystem",
        };
        if self.audit.take().is_some() {
            self.exit = self.exit.and(failed_to("write the audit log", error, next_step));
        }
    }

    /// Ends the audit log, if it is here.
    pub(crate) fn close_audit(&mut self, interrupted: bool) {
        let Some(AuditLog::Here(audit)) = self.audit.take() else { return };
        match audit.end(interrupted) {
            Ok((path, hash)) => {
                if !self.quiet {
                    say(&format!(
                        "note: the hash of the last record of {} is {hash}",
                        path.display()
                    ));
                }
            }
            Err(error) => {
                let next_step =
                    "check it with `uncopy audit verify`, and look for errors of its device";
                self.exit = self.exit.and(failed_to("close the audit log", &error, next_step));
            }
        }
    }

    fn print(&mut self, lines: &str) {
        if let Err(error) = print(lines) {
            self.unwritten.get_or_insert(error);
        }
    }
}

/// Quotes a path for a shell, as one that is no flag. With control characters or bytes that are not UTF-8 in the form
/// `$'…'` (POSIX.1-2024).
pub(crate) fn quoted(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    // It would be taken for a flag.
    let here = if bytes.starts_with(b"-") { "./" } else { "" };
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    match path.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_plain) => format!("{here}{text}"),
        Some(text) if !text.chars().any(char::is_control) => {
            format!("'{here}{}'", text.replace('\'', "'\\''"))
        }
        _ => {
            let mut escaped = format!("$'{here}");
            for byte in bytes {
                match byte {
                    b'\'' | b'\\' => escaped.extend(['\\', char::from(*byte)]),
                    b' '..=b'~' => escaped.push(char::from(*byte)),
                    // Three digits, so that a digit behind them is none of theirs.
                    other => drop(write!(escaped, "\\{other:03o}")),
                }
            }
            escaped.push('\'');
            escaped
        }
    }
}

/// Writes whole lines to standard output.
pub(crate) fn print(lines: &str) -> io::Result<()> {
    outlet::write(Stream::Output, lines.as_bytes())
}

/// Prints one line for people on standard error. An error of standard error is ignored: it could
/// not be reported.
pub(crate) fn say(message: &str) {
    let _ = outlet::write(Stream::Error, format!("uncopy: {}\n", printable(message)).as_bytes());
}

/// Reports that `operation`, which names its subject, failed for a reason outside the copied files,
/// with the next step.
pub(crate) fn failed_to(operation: &str, error: &io::Error, next_step: &str) -> Exit {
    say(&format!("cannot {operation}: {}; {next_step}", describe(error)));
    Exit::Failure
}

/// Describes an error of the standard library as this program does: `Permission denied (EACCES)`.
pub(crate) fn describe(error: &io::Error) -> String {
    match Errno::of(error) {
        Some(errno) => format!("{} ({errno})", errno.message()),
        None => error.to_string(),
    }
}

/// Converts an error of opening a file to one of the standard library.
pub(crate) fn of_file(error: &Error) -> io::Error {
    of_reason(error.reason(), error.errno())
}

fn of_reason(reason: &Reason, errno: Option<Errno>) -> io::Error {
    match (reason, errno) {
        (Reason::System { .. }, Some(errno)) => io::Error::from_raw_os_error(errno.raw()),
        (Reason::OtherSystem { error }, _) => match error.get().raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.get().kind(), error.to_string()),
        },
        (reason, Some(Errno::EACCES)) => {
            io::Error::new(io::ErrorKind::PermissionDenied, naming::reason(reason))
        }
        (reason, _) => io::Error::other(naming::reason(reason)),
    }
}

/// Reports that standard output failed.
pub(crate) fn output_failed(error: &io::Error) -> Exit {
    say(&format!(
        "cannot write to standard output: {}; only the report is incomplete; redirect it elsewhere",
        describe(error)
    ));
    Exit::Failure
}

/// Escapes control characters: a file name must not be able to control the terminal or to forge a
/// line.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if character.is_control() {
            let _ = write!(escaped, "{}", character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(printable("plain ä \u{1f600}"), "plain ä \u{1f600}");
        assert_eq!(printable("a\nb\t\u{1b}[31m"), "a\\nb\\t\\u{1b}[31m");
    }

    #[test]
    fn a_shell_takes_names_as_they_are() {
        for (name, expected) in [
            ("a/b-c.d", "a/b-c.d"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
            ("$x", "'$x'"),
            ("-a", "./-a"),
            ("-a b", "'./-a b'"),
            ("a\nb\t'\\", "$'a\\012b\\011\\'\\\\'"),
            ("-\u{7f}7", "$'./-\\1777'"),
        ] {
            assert_eq!(quoted(Path::new(name)), expected);
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let name = std::ffi::OsStr::from_bytes(b"\xff1 \xc3\xa9");
            assert_eq!(quoted(Path::new(name)), "$'\\3771 \\303\\251'");
        }
    }

    #[test]
    fn error_numbers_of_other_systems_are_kept() {
        let error = io::Error::from_raw_os_error(63);
        let (number, words) = (error.kind(), error.to_string());
        let reason = Reason::OtherSystem { error: error.into() };
        assert_eq!((kind(&reason), os_error(&reason)), ("system", Some(63)));
        let found = of_reason(&reason, None);
        assert_eq!((found.kind(), found.to_string()), (number, words));
        assert_eq!(found.raw_os_error(), Some(63));

        let without = io::Error::new(io::ErrorKind::NotFound, "words");
        let reason = Reason::OtherSystem { error: without.into() };
        assert_eq!((kind(&reason), os_error(&reason)), ("system", None));
        let found = of_reason(&reason, None);
        assert_eq!((found.kind(), &*found.to_string()), (io::ErrorKind::NotFound, "words"));
    }

    #[test]
    fn options_that_do_not_work_here_are_of_the_kind_options() {
        let options = vec![uncopy::copy::CopyOption::Cache];
        assert_eq!(kind(&Reason::NotHere { options }), "options");
    }

    #[test]
    fn a_failure_ends_in_its_next_step() {
        let failure = Failure {
            kind: "refused",
            code: None,
            operation: "write to",
            subject: Path::new("b").into(),
            errno: None,
            os_error: None,
            reason: "it is odd".into(),
            next_step: Some("make it even".into()),
            is_at_destination: false,
            exit: Exit::Failure,
        };
        assert_eq!(failure.to_string(), "cannot write to b: it is odd; make it even");
    }
}
