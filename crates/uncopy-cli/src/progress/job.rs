//! Progress of a whole job: a bar on a terminal, or plain lines with `--progress`.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::BinaryBytes;
use uncopy::copy::job::JobProgress;

use super::line::{Part, StatusLine, joined};
use super::{DRAWS_HZ, PATIENCE, speed};
use crate::job_control::Clock;
use crate::report::{outlet, say};

/// Interval of lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Time of the first line: it shows early that work is done and how long it will take.
const FIRST_LINE: Duration = Duration::from_secs(1);

/// Progress display of a job.
#[derive(Debug)]
pub(crate) struct JobBar {
    form: Form,
    clock: Clock,
    /// Time of the next update, in milliseconds of the clock.
    next: AtomicU64,
    line: Mutex<StatusLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Off,
    Bar,
    Lines,
    /// Shown by the other machine, which this process copies for.
    Away,
}

impl JobBar {
    /// Shows a bar if `wanted` and standard error is a terminal; without a terminal lines if
    /// `always`.
    pub(crate) fn new(wanted: bool, always: bool, clock: Clock) -> JobBar {
        let form = match wanted {
            // Whether it is shown is a matter of the other machine, which may be asked for it.
            _ if outlet::away().is_some() => Form::Away,
            true if stderr().is_terminal() => Form::Bar,
            true if always => Form::Lines,
            _ => Form::Off,
        };
        let first = match form {
            Form::Lines => FIRST_LINE,
            // The other machine is patient itself.
            Form::Away => Duration::ZERO,
            Form::Bar | Form::Off => PATIENCE,
        };
        JobBar {
            form,
            clock,
            next: AtomicU64::new(first.as_millis() as u64),
            line: Mutex::default(),
        }
    }

    /// Whether progress is shown, which needs totals. The other machine says so itself.
    pub(crate) fn wants_totals(&self) -> bool {
        matches!(self.form, Form::Bar | Form::Lines)
    }

    /// Shows the progress if an update is due.
    pub(crate) fn draw(&self, progress: JobProgress) {
        if !self.is_due() {
            return;
        }
        if let (Form::Away, Some(outlet)) = (self.form, outlet::away()) {
            return outlet.progress(progress);
        }
        self.show(&describe(progress, self.clock.at_work()));
    }

    /// Shows how much was found by a walk that copies nothing, if an update is due.
    #[cfg(all(feature = "unit", target_os = "linux"))]
    pub(crate) fn draw_found(&self, entries: u64, bytes: u64) {
        if self.is_due() {
            let found = format!("{entries} entries found");
            self.show(&[Part::new(0, found), Part::new(1, BinaryBytes(bytes).to_string())]);
        }
    }

    /// Whether an update is due, and this worker shows it.
    fn is_due(&self) -> bool {
        if self.form == Form::Off {
            return false;
        }
        let at_work = self.clock.at_work();
        let now = at_work.as_millis() as u64;
        let next = self.next.load(Ordering::Relaxed);
        if now < next {
            return false;
        }
        let every = match self.form {
            Form::Lines => LINE_EVERY.as_millis() as u64,
            _ => 1000 / u64::from(DRAWS_HZ),
        };
        // If it fails, another worker shows this update.
        let taken =
            self.next.compare_exchange(next, now + every, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok()
    }

    fn show(&self, parts: &[Part]) {
        match self.form {
            Form::Lines => say(&joined(parts)),
            _ => self.lock().show(parts),
        }
    }

    /// Prints one line with the progress, even if standard error is not a terminal.
    pub(crate) fn print_status(&self, progress: JobProgress) {
        let parts = describe(progress, self.clock.at_work());
        self.aside(|| say(&joined(&parts)));
    }

    fn lock(&self) -> MutexGuard<'_, StatusLine> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hides the line while `print` runs.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        let mut line = self.lock();
        line.clear();
        print()
    }
}

/// `1200/10000 entries  3.20 MiB/39.06 MiB  12.50 MiB/s  3s left  read_write`.
fn describe(progress: JobProgress, at_work: Duration) -> Vec<Part> {
    // More may still be found.
    let more = if progress.scanned { "" } else { "+" };
    let total = match progress.total_bytes {
        0 => String::new(),
        total => format!("/{}{more}", BinaryBytes(total)),
    };
    let rest = progress.scanned.then(|| progress.total_bytes.saturating_sub(progress.bytes));
    let speed = speed(progress.bytes, rest, at_work);
    let entries = format!("{}/{}{more} entries", progress.entries, progress.total_entries);
    let mut parts = vec![
        Part::new(1, entries),
        Part::new(0, format!("{}{total}", BinaryBytes(progress.bytes))),
        Part::new(2, speed.rate),
    ];
    parts.extend(speed.left.map(|left| Part::new(3, left)));
    parts.extend(progress.mechanism.map(|mechanism| Part::new(4, mechanism.to_string())));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_marked_until_they_are_final() {
        let mut progress = JobProgress::default();
        (progress.entries, progress.total_entries) = (3, 9);
        (progress.bytes, progress.total_bytes) = (1 << 20, 3 << 20);
        let second = Duration::from_secs(1);
        let text = joined(&describe(progress, second));
        assert_eq!(text, "3/9+ entries  1.00 MiB/3.00 MiB+  1.00 MiB/s");
        progress.scanned = true;
        progress.mechanism = Some(uncopy::Mechanism::Reflink);
        let text = joined(&describe(progress, second));
        assert_eq!(text, "3/9 entries  1.00 MiB/3.00 MiB  1.00 MiB/s  2s left  reflink");
    }
}
