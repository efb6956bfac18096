//! How far a large file of a tree is: added to what the whole job has moved.

use super::job::Job;
use crate::control::Control;
use crate::observer::{Observer, Phase, Progress};

/// Adds what one large file moves to what the whole job has moved.
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
