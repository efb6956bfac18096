//! Adds the progress of a large file of a tree to that of the whole job.

use super::job::Job;
use crate::control::Control;
use crate::observer::{Observer, Phase, Progress};

/// Adds the bytes that one large file moves to those that the whole job has moved.
pub(super) struct FileProgress<'a> {
    job: &'a Job<'a>,
    reported: u64,
}

impl<'a> FileProgress<'a> {
    pub(super) fn new(job: &'a Job<'a>) -> FileProgress<'a> {
        FileProgress { job, reported: 0 }
    }
}

impl Observer for FileProgress<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        if progress.phase == Phase::Copying {
            let more = progress.done_bytes.saturating_sub(self.reported);
            self.reported += more;
            self.job.tally().count_bytes(more);
        }
        self.job.ask()
    }
}
