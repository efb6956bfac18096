//! `uncopy cp -r`.

use std::sync::{Mutex, PoisonError};

use uncopy::copy::Control;
use uncopy::copy::job::{JobObserver, JobOptions, JobProgress, Record, copy_trees_observed};

use super::target::Pair;
use crate::exit::Exit;
use crate::job_control::JobControl;
use crate::progress::TreeBar;
use crate::report::{Failure, Report};
use crate::stop::Stop;

/// Copies trees, and reports on each entry and on the whole; on the way too, if it is `insisted`
/// upon or standard error is a terminal.
pub(super) fn copy(
    pairs: &[Pair],
    options: &JobOptions,
    insisted: bool,
    (stop, control): (&Stop, &JobControl),
    report: Report,
) -> Exit {
    stop.listen();
    control.listen();
    let mut options = options.clone();
    let bar = TreeBar::new(report.shows_progress(), insisted, control.clock());
    options.scan_ahead = bar.wants_totals();
    let roots = pairs.iter().map(|pair| (&pair.source, &pair.destination));
    let wants_records = report.tells_each();
    let watch = Watch { stop, control, report: Mutex::new(report), wants_records, bar };
    let (summary, ended) = match copy_trees_observed(roots, &options, &watch) {
        Ok(summary) => (summary, Ok(())),
        Err(error) => {
            let (summary, cause) = error.into_parts();
            (summary, Err(cause))
        }
    };
    let Watch { report, bar, .. } = watch;
    drop(bar);
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = &ended
        && !error.is_cancelled()
    {
        let first = pairs.len().saturating_sub(summary.sources_not_tried as usize);
        report.not_tried(&pairs[first..], error.is_lasting());
    }
    report.summary(&summary);
    match (ended, stop.requested()) {
        (Err(error), Some(signal)) if error.is_cancelled() => report.stopped(signal),
        (Err(error), _) => {
            report.ended(&Failure::from(&error));
            report.left_out(&summary);
            report.finish()
        }
        (Ok(()), _) => report.finish(),
    }
}

/// Watches a job from all its workers.
struct Watch<'a> {
    stop: &'a Stop,
    control: &'a JobControl,
    report: Mutex<Report>,
    wants_records: bool,
    bar: TreeBar,
}

impl JobObserver for Watch<'_> {
    fn progress(&self, progress: JobProgress) -> Control {
        if self.stop.requested().is_some() {
            return Control::Stop;
        }
        self.control.heed();
        if self.control.takes_status() {
            self.bar.tell(progress);
        }
        self.bar.draw(progress);
        Control::Continue
    }

    fn wants_records(&self) -> bool {
        self.wants_records
    }

    fn finished(&self, record: &Record) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.aside(|| report.entry(record));
    }
}
