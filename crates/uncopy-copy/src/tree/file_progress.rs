//! Adds the progress of a large file of a tree to that of the whole job.

use std::path::Path;

use super::job_control::JobControl;
use super::tally::Tally;
use crate::control::Control;
use crate::observer::{Consent, Observer, Phase, Progress};

/// Adds the bytes that one large file moves to those that the whole job has moved.
pub(super) struct FileProgress<'a> {
    tally: &'a Tally<'a>,
    control: &'a JobControl<'a>,
    reported: u64,
}

impl<'a> FileProgress<'a> {
    pub(super) fn new(tally: &'a Tally<'a>, control: &'a JobControl<'a>) -> FileProgress<'a> {
        FileProgress { tally, control, reported: 0 }
    }
}

impl Observer for FileProgress<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        if progress.phase == Phase::Copying {
            let more = progress.done_bytes.saturating_sub(self.reported);
            self.reported += more;
            self.tally.count_bytes(more);
        }
        self.control.ask()
    }

    fn may_replace(&mut self, destination: &Path) -> Consent {
        self.tally.may_replace(destination)
    }
}
