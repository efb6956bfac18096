//! Formats of plans and units (pure): types, a strict parser and a writer.
//!
//! A unit file holds lines of JSON: a [`Header`], an [`Entry`] a line, and a last line with their number, by whose absence a
//! file that was cut off is noticed. A reader believes nothing: every number has a bound, every path stays beneath its root,
//! every reference leads to an earlier entry.
//!
//! | kind of unit | entries |
//! |---|---|
//! | [`UnitKind::Files`] | anything but directories; all names of a file with several names, the later ones `with` the first |
//! | [`UnitKind::Range`] | one file, and which [part](Part) of it this is |
//! | [`UnitKind::Finish`] | directories, each before what is in it; and entries without a source: they were in the destination alone, and are to be deleted. Done from the last line to the first, everything has its turn after what is in it |

mod entry;
mod header;
mod name;
mod plan;
mod read;
mod seen;
mod write;

pub use entry::{Entry, Identity, Kind, Part, Time};
pub use header::{Header, NoPlanId, Options, PlanId, UnitKind, UnitNumber};
pub use name::{PathProblem, RelativePath, Root, Word};
pub use plan::Plan;
pub(crate) use read::check_schema;
pub use read::{FormatError, FormatProblem, UnitReader, UnitSummary, check};
pub use seen::{SeenDirectory, SeenRoots};
pub use write::UnitWriter;

/// Version of the formats.
pub const SCHEMA: u32 = 1;

/// Version of plans and units with a root on another machine, which programs that know none do not take.
pub const SCHEMA_OF_PLACES: u32 = 2;

/// Returns the version of the format of a plan and its units with these roots.
#[must_use]
pub fn schema_of(source: &Root, destination: &Root) -> u32 {
    match (source.there(), destination.there()) {
        (None, None) => SCHEMA,
        _ => SCHEMA_OF_PLACES,
    }
}

pub use uncopy_copy::guarded::LEDGER_DIRECTORY;

/// Maximum number of entries of a unit of files.
pub const MAX_ENTRIES: u64 = 10_000_000;

/// Maximum number of ranges that one file is cut into.
pub const MAX_RANGES: u32 = 100_000;

/// Maximum number of units of a plan.
pub const MAX_UNITS: u32 = 100_000_000;
