//! How a job goes about its trees: roots, directories, entries, and the workers that copy them.

mod ask;
mod decide;
mod delete;
mod directory;
mod doubled;
mod enter;
mod file;
mod folding;
mod incomplete;
mod journal;
mod links;
mod nameless;
mod other;
mod queue;
mod retry;
mod root;
mod run;
mod scan;
mod swift;
mod target;
mod transform;
mod watch;
mod worker;
mod workshop;

#[cfg(fuzzing)]
pub(crate) use journal::fuzz as fuzz_journal;
pub(super) use journal::is_journalled;
pub(super) use run::{run_job, usual_workers};
pub(super) use target::is_built;
