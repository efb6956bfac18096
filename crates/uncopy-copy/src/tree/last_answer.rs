//! Remembers the last question of a worker, so that a file that is tried again is not asked about again.

use std::path::{Path, PathBuf};

use crate::Consent;

/// Last question of a worker, and its answer.
#[derive(Debug, Default)]
pub(super) struct LastAnswer(Option<(PathBuf, Consent)>);

impl LastAnswer {
    /// Returns the answer about this path; asks unless the last question was about it, too.
    pub(super) fn about(&mut self, path: PathBuf, ask: impl FnOnce(&Path) -> Consent) -> Consent {
        match &self.0 {
            Some((asked, answer)) if *asked == path => *answer,
            _ => {
                let answer = ask(&path);
                self.0 = Some((path, answer));
                answer
            }
        }
    }
}
