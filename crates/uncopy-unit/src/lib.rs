//! Units of work: plans of large copies, their units, and the ledger of what is done.
//!
//! A tree that outgrows one machine is [planned](mod@plan) once, cut into *units*. Each unit is a file that says all that a
//! worker needs ([`mod@format`]); any worker that has source and destination mounted can do it. What was done stands in the
//! [`ledger`] at the destination. Engines that distribute work only have to name unit files: a queue is a hint, the
//! ledger is the truth.
#![cfg(target_os = "linux")]
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod error;
pub mod format;
pub mod ledger;
pub mod plan;
mod regular_file;
mod roots;
pub mod run;
pub mod status;

pub use error::{FileRole, UnitError};
pub use roots::check_source;

/// Returns the time on the clock of this machine.
#[must_use]
pub fn now() -> format::Time {
    let time = uncopy_os::clock::realtime();
    format::Time(i64::try_from(time.as_secs()).unwrap_or(i64::MAX), time.subsec_nanos())
}
