//! Records, failures and attempts, as a ledger keeps them (pure).

use serde::{Deserialize, Serialize};

use crate::format::{PlanId, RelativePath, Time, UnitNumber};

/// A process that does units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "workers are made by those who run units")]
pub struct Worker {
    /// Name of its machine.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
}

impl Worker {
    /// Returns this process.
    #[must_use]
    pub fn this() -> Worker {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Worker { host: host.trim_end().to_owned(), pid: std::process::id() }
    }
}

/// An attempt to do a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "it is what the file says")]
pub struct Attempt {
    /// Number, for people: 1 is the first one.
    pub number: u64,
    /// Random number, which no other attempt has.
    pub token: u64,
    /// Process that makes it.
    #[serde(flatten)]
    pub worker: Worker,
    /// Time on its clock when it was begun; nothing is decided by it.
    pub begun: Time,
}

/// Copy of the staging file of a cut file, which gets the name of the file in its place: a writer that was stopped may still
/// write to the staging file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "it is what the file says")]
pub struct FurtherCopy {
    /// Identity of the staging file, as records of the parts have it.
    pub staging: serde_json::Value,
    /// Identity of the copy.
    pub copy: serde_json::Value,
}

/// Amounts of what was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(clippy::exhaustive_structs, reason = "they are made by those who run units")]
pub struct Amounts {
    /// Entries that are as they should be now.
    pub entries: u64,
    /// Bytes of the contents of files among them.
    pub bytes: u64,
    /// Entries that are deleted now, by this attempt or before.
    pub deleted: u64,
}

/// Record of a unit that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "it is what the file says")]
pub struct Record {
    /// Version of the format.
    pub schema: u32,
    /// Plan of the unit.
    pub plan: PlanId,
    /// Number of the unit.
    pub unit: UnitNumber,
    /// Digest of the unit file.
    pub digest: String,
    /// Number of the attempt that did it.
    pub attempt: u64,
    /// Process that did it.
    #[serde(flatten)]
    pub worker: Worker,
    /// Time on its clock when the attempt was begun.
    pub begun: Time,
    /// Time on its clock when all was done.
    pub ended: Time,
    /// Amounts of what was done.
    pub done: Amounts,
    /// Receipts of the copies, as the program prints them.
    #[serde(default)]
    pub receipt: serde_json::Value,
}

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The source is not as it was when the plan was made.
    SourceChanged,
    /// The destination is not as it was when the plan was made.
    Conflict,
    /// A copy differs from its source when it is read back.
    Verification,
    /// An operation failed.
    Error,
    /// The attempt was stopped by a signal.
    Interrupted,
    /// A later attempt of the unit has begun.
    Overtaken,
    /// Other units must be done before.
    NotYet,
}

/// Reason why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "they are made by those who run units")]
pub struct FailureReason {
    /// Kind.
    pub kind: FailureKind,
    /// Entry that it is about.
    pub path: Option<RelativePath>,
    /// Stable name of the error, as in the reports of the program.
    pub code: Option<String>,
    /// Text for people.
    pub message: String,
}

/// Reasons why the last attempt of a unit failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "it is what the file says")]
pub struct Failure {
    /// Version of the format.
    pub schema: u32,
    /// Plan of the unit.
    pub plan: PlanId,
    /// Number of the unit.
    pub unit: UnitNumber,
    /// Digest of the unit file.
    pub digest: String,
    /// Number of the attempt.
    pub attempt: u64,
    /// Process that made it.
    #[serde(flatten)]
    pub worker: Worker,
    /// Time on its clock when it ended.
    pub ended: Time,
    /// Number of entries that failed.
    pub failed: u64,
    /// The first reasons.
    pub reasons: Vec<FailureReason>,
}
