//! `uncopy cp -r`, and `uncopy cp` with several files: a job of the library.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use uncopy::copy::job::{
    JobError, JobObserver, JobOptions, JobProgress, Record, Summary, copy_trees_observed, is_built,
};
use uncopy::copy::{Consent, Control};

use super::target::Pair;
use super::{Reports, Signals};
use crate::exit::Exit;
use crate::manifest::Manifest;
use crate::progress::{JobBar, is_typed};
use crate::question;
use crate::report::{Report, Wire};

/// Sources of a job.
pub(crate) trait Sources: Sync {
    /// Copies them.
    ///
    /// # Errors
    /// The job ended before its time.
    fn copy(
        &self,
        pairs: &[Pair],
        options: &JobOptions,
        observer: &dyn JobObserver,
    ) -> Result<Summary, JobError>;

    /// Whether an earlier run of a command made the destination, when it did not exist, out of the source of this
    /// number: only the traces of a kill have to be removed then.
    fn is_built(
        &self,
        number: u32,
        source: &Path,
        destination: &Path,
        options: &JobOptions,
    ) -> bool;

    /// Returns what crossed between two machines so far, if they are on another one.
    fn wire(&self) -> Option<Wire> {
        None
    }
}

/// Sources on this machine.
pub(crate) struct Here;

impl Sources for Here {
    fn copy(
        &self,
        pairs: &[Pair],
        options: &JobOptions,
        observer: &dyn JobObserver,
    ) -> Result<Summary, JobError> {
        let roots = pairs.iter().map(|pair| (&pair.source, &pair.destination));
        copy_trees_observed(roots, options, observer)
    }

    fn is_built(&self, _: u32, source: &Path, destination: &Path, options: &JobOptions) -> bool {
        is_built(source, destination, options)
    }
}

/// Copies trees or several files, and reports on each entry and on the whole. Shows progress if
/// standard error is a terminal, and elsewhere if `always_progress`.
pub(crate) fn copy(
    sources: &dyn Sources,
    pairs: &[Pair],
    mut options: JobOptions,
    always_progress: bool,
    signals: Signals<'_>,
    reports: Reports,
) -> Exit {
    let Reports { report, manifest } = reports;
    let Signals { stop, control } = signals;
    stop.listen();
    control.listen();
    let shows_progress =
        report.shows_progress() && !pairs.iter().any(|pair| is_typed(&pair.source));
    let bar = JobBar::new(shows_progress, always_progress, control.clock());
    options.scan_ahead |= bar.wants_totals();
    let wants_records = report.wants_records() || manifest.is_some();
    let wants_wire = report.wants_wire();
    let (report, manifest) = (Mutex::new(report), manifest.map(Mutex::new));
    let crossing = (wants_wire && pairs.len() == 1).then_some(sources);
    let watch = Watch { signals, report, manifest, wants_records, crossing, bar };
    let (mut summary, ended) = match sources.copy(pairs, &options, &watch) {
        Ok(summary) => (summary, Ok(())),
        Err(error) => {
            let (summary, cause) = error.into_parts();
            (summary, Err(cause))
        }
    };
    let Watch { report, manifest, bar, .. } = watch;
    let manifest = manifest.map(|m| m.into_inner().unwrap_or_else(PoisonError::into_inner));
    drop(bar);
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_lost = ended.as_ref().is_err_and(|error| Exit::of(error) == Exit::Unreachable);
    let stopped = match &ended {
        Err(error) if error.is_cancelled() => stop.requested(),
        Err(_) if is_lost => stop.requested_with_loss(),
        _ => None,
    };
    if let (Err(error), None) = (&ended, stopped)
        && !error.is_cancelled()
    {
        let tried = pairs.len().saturating_sub(summary.sources_not_tried as usize);
        let (tried, not_tried) = pairs.split_at(tried);
        if let Some(pair) = tried.last().filter(|_| is_lost) {
            report.cut_off(pair, error);
            summary.failed += 1;
        }
        report.not_tried(not_tried, error.is_lasting());
    }
    report.summary(&summary, sources.wire());
    match (ended, stopped) {
        (Err(_), Some(by)) => report.stopped(by),
        (Err(error), _) => {
            if let Some(manifest) = manifest {
                // It says so, and the error of the copy counts.
                let _ = manifest.give_up();
            }
            report.ended(&report.failure(&error));
            report.left_out(&summary);
            report.finish()
        }
        (Ok(()), _) => {
            let written = manifest.map(|m| m.write(|| stop.requested().is_none()));
            match stop.requested() {
                Some(signal) if written.is_some() => report.stopped(signal),
                _ => report.finish().and(written.unwrap_or(Exit::Success)),
            }
        }
    }
}

/// Watches a job from all its workers.
struct Watch<'a> {
    signals: Signals<'a>,
    report: Mutex<Report>,
    manifest: Option<Mutex<Manifest>>,
    wants_records: bool,
    /// The sources, if they are one file whose event says what crossed.
    crossing: Option<&'a dyn Sources>,
    bar: JobBar,
}

impl JobObserver for Watch<'_> {
    fn progress(&self, progress: JobProgress) -> Control {
        let Signals { stop, control } = self.signals;
        if stop.requested().is_some() {
            return Control::Stop;
        }
        control.handle_signals();
        if control.take_status_request() {
            self.bar.print_status(progress);
        }
        self.bar.draw(progress);
        Control::Continue
    }

    fn wants_records(&self) -> bool {
        self.wants_records
    }

    fn may_replace(&self, destination: &Path) -> Consent {
        self.bar.aside(|| question::may_replace(destination, self.signals))
    }

    fn finished(&self, record: &Record) {
        if let Some(manifest) = &self.manifest {
            manifest.lock().unwrap_or_else(PoisonError::into_inner).entry(record);
        }
        let wire = self.crossing.and_then(Sources::wire);
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.aside(|| report.entry(record, wire));
    }
}
