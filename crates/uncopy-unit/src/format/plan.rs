//! `plan.json` (pure): written last, so that a directory with it has a whole plan.

use serde::{Deserialize, Serialize};

use super::header::Options;
use super::read::{FormatError, FormatProblem};
use super::{MAX_UNITS, PlanId, Root, SeenRoots};

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of the format.
    pub schema: u32,
    /// Name of the plan.
    pub id: PlanId,
    /// Directory of the sources.
    pub source: Root,
    /// Directory of the destinations.
    pub destination: Root,
    /// Directories that the plan saw there.
    #[serde(default, skip_serializing_if = "SeenRoots::is_empty")]
    pub seen: SeenRoots,
    /// Options of the copy.
    pub options: Options,
    /// Number of units; the last one is the only one of the kind [`Finish`](super::UnitKind::Finish).
    pub units: u32,
    /// Number of entries of the source, directories included.
    pub entries: u64,
    /// Number of bytes of the files; of a file with several names, once.
    pub bytes: u64,
    /// Number of entries to delete.
    pub deletions: u64,
    /// Version of the program that made the plan.
    pub version: String,
    /// Always true.
    pub finished: bool,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Plan, FormatError> {
        let at = |problem| FormatError { line: 1, problem };
        super::read::check_schema(text).map_err(at)?;
        let plan: Plan =
            serde_json::from_slice(text).map_err(|error| at(FormatProblem::Json(error)))?;
        match plan {
            Plan { finished: false, .. } => Err(at(FormatProblem::Unfinished)),
            Plan { units: 0, .. } => {
                Err(at(FormatProblem::OutOfBounds { what: "number of units" }))
            }
            Plan { units, .. } if units > MAX_UNITS => {
                Err(at(FormatProblem::OutOfBounds { what: "number of units" }))
            }
            plan => super::read::check_roots(plan.schema, &plan.source, &plan.destination)
                .map_err(at)
                .map(|()| plan),
        }
    }

    /// Writes the plan.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        debug_assert_eq!(self.schema, super::schema_of(&self.source, &self.destination));
        // Its types always have a form in JSON.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}
