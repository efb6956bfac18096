//! How files go within each path and between each two.

use std::path::PathBuf;

use uncopy::capabilities::{AnswerReason, Storage};
use uncopy::copy::{PathVerdict, verdict};

use crate::report::Failure;

/// How files go from one path to another.
pub(super) struct PairVerdict {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    pub(super) verdict: Result<PathVerdict, AnswerReason>,
}

/// Verdicts of all paths that could be tested.
pub(super) struct Verdicts {
    /// For each path, in its place; `None`: it could not be tested.
    pub(super) within: Vec<Option<PairVerdict>>,
    /// From each path to each other.
    pub(super) between: Vec<PairVerdict>,
}

impl Verdicts {
    /// Tries every mechanism within each path, and from each to each other.
    pub(super) fn of(storages: &[Result<Storage, Failure>]) -> Verdicts {
        let within = storages.iter().map(|storage| Some(pair(storage.as_ref().ok()?, None)));
        let tested: Vec<(usize, &Storage)> =
            storages.iter().enumerate().filter_map(|(i, s)| Some((i, s.as_ref().ok()?))).collect();
        let pairs = tested.iter().flat_map(|from| tested.iter().map(move |to| (from, to)));
        let pairs = pairs.filter(|(from, to)| from.0 != to.0);
        Verdicts {
            within: within.collect(),
            between: pairs.map(|(from, to)| pair(from.1, Some(to.1))).collect(),
        }
    }

    /// Returns every verdict, those within one path first.
    pub(super) fn all(&self) -> impl Iterator<Item = &PairVerdict> {
        self.within.iter().flatten().chain(&self.between)
    }
}

fn pair(from: &Storage, to: Option<&Storage>) -> PairVerdict {
    let to = to.unwrap_or(from);
    PairVerdict {
        from: from.path.clone(),
        to: to.path.clone(),
        verdict: verdict(&from.directory, &to.directory),
    }
}
