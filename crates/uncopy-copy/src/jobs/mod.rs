//! Defines options, records and summaries of jobs.

mod decide;
mod fingerprint;
mod options;
mod record;
mod remover;
mod select;
mod waits;

pub(crate) use decide::{Decision, Policy, Side, decide};
pub(crate) use fingerprint::fingerprint;
pub use options::{
    Compare, Delete, DestinationLinks, HardLinks, JobOptions, LinkDest, Links, OnError, Parents,
    Sources,
};
pub use record::{
    Action, EntryKind, EntryOutcome, Incomplete, JobObserver, JobProgress, Record, RefusalCount,
    Summary, Transformed,
};
pub use remover::Remover;
pub use select::Selection;
pub(crate) use waits::{GLANCE, delay};
