//! Defines options, records and summaries of jobs.

mod options;
mod record;
mod select;

pub use options::{
    Compare, Delete, HardLinks, JobOptions, LinkDest, Links, OnError, Parents, Sources,
};
pub use record::{
    Action, EntryKind, EntryOutcome, Incomplete, JobObserver, JobProgress, Record, RefusalCount,
    Summary, Transformed,
};
pub use select::Selection;
