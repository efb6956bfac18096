//! Observer of a single copy: stops it on a signal, and draws a progress bar if it takes long.

mod job;
mod line;
mod speed;

use std::io::{IsTerminal, stderr, stdin};
use std::path::Path;
use std::time::Duration;

use indicatif::BinaryBytes;
use uncopy::copy::{Consent, Control, Observer, Phase, Progress};

pub(crate) use job::JobBar;
pub(crate) use line::StatusLine;

use line::{Part, joined};
use speed::{Speed, speed};

use crate::cp::Signals;
use crate::job_control::Clock;
use crate::question;
use crate::report::{printable, say};

/// Time before the bar appears.
const PATIENCE: Duration = Duration::from_millis(300);

/// Maximum redraws per second.
const DRAWS_HZ: u8 = 10;

/// Width of the bar.
const BAR_COLUMNS: usize = 24;

/// Watches one copy.
pub(crate) struct Watch<'a> {
    source: &'a Path,
    bar: Bar,
    stage: Stage,
    signals: Signals<'a>,
}

enum Bar {
    /// Not shown.
    Off,
    /// Not shown yet.
    Waits,
    Shown {
        line: StatusLine,
        /// Time of the next redraw, by the clock of the stage.
        next: Duration,
    },
}

/// A phase of a copy, with its start.
struct Stage {
    phase: Phase,
    /// Bytes done when it began; a resumed copy begins with those that exist.
    first_bytes: u64,
    clock: Clock,
}

impl Stage {
    fn speed(&self, progress: Progress) -> Speed {
        let Progress { done_bytes, total_bytes, .. } = progress;
        // The size of a pipe or a pseudo file is unknown.
        let rest = (total_bytes > 0).then(|| total_bytes.saturating_sub(done_bytes));
        speed(done_bytes.saturating_sub(self.first_bytes), rest, self.clock.at_work())
    }
}

impl<'a> Watch<'a> {
    /// Watches the copy of `source`, with a progress bar if `wanted` and standard error is a
    /// terminal.
    pub(crate) fn new(source: &'a Path, wanted: bool, signals: Signals<'a>) -> Watch<'a> {
        let bar = if wanted { Bar::Waits } else { Bar::Off };
        let clock = signals.control.clock();
        let stage = Stage { phase: Phase::Copying, first_bytes: 0, clock };
        Watch { source, bar, stage, signals }
    }

    fn draw(&mut self, progress: Progress) {
        let at_work = self.stage.clock.at_work();
        if matches!(self.bar, Bar::Waits) {
            if at_work < PATIENCE {
                return;
            }
            let is_seen = stderr().is_terminal() && !is_typed(self.source);
            self.bar = match is_seen {
                true => Bar::Shown { line: StatusLine::default(), next: Duration::ZERO },
                false => Bar::Off,
            };
        }
        let parts = with_bar(parts(&self.name(), progress, self.stage.speed(progress)), progress);
        let Bar::Shown { line, next } = &mut self.bar else { return };
        if at_work < *next {
            return;
        }
        *next = at_work + Duration::from_millis(1000 / u64::from(DRAWS_HZ));
        line.show(&parts);
    }

    fn name(&self) -> String {
        let name = self.source.file_name().unwrap_or(self.source.as_os_str());
        printable(&name.to_string_lossy()).into_owned()
    }

    /// Begins another phase, with a new rate.
    fn begin(&mut self, progress: Progress) {
        let clock = self.signals.control.clock();
        self.stage = Stage { phase: progress.phase, first_bytes: progress.done_bytes, clock };
        if let Bar::Shown { next, .. } = &mut self.bar {
            *next = Duration::ZERO;
        }
    }

    /// Prints one line with the progress, on request by a signal.
    fn print_status(&mut self, progress: Progress) {
        let parts = parts(&self.name(), progress, self.stage.speed(progress));
        if let Bar::Shown { line, .. } = &mut self.bar {
            line.clear();
        }
        say(&joined(&parts));
    }
}

impl Observer for Watch<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        let over = progress.phase == Phase::Copying && progress.done_bytes == progress.total_bytes;
        let Signals { stop, control } = self.signals;
        if !over {
            stop.listen();
            control.listen();
        }
        if stop.requested().is_some() {
            return Control::Stop;
        }
        control.handle_signals();
        if self.stage.phase != progress.phase {
            self.begin(progress);
        }
        if control.take_status_request() {
            self.print_status(progress);
        }
        if !matches!(self.bar, Bar::Off) {
            self.draw(progress);
        }
        Control::Continue
    }

    fn may_replace(&mut self, destination: &Path) -> Consent {
        question::may_replace(destination, self.signals)
    }
}

/// Whether the source is typed on the terminal where a bar would be drawn.
pub(crate) fn is_typed(source: &Path) -> bool {
    let names = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
    names.iter().any(|name| source == Path::new(name)) && stdin().is_terminal()
}

fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting for",
        Phase::Flushing => "flushing",
        Phase::Verifying => "verifying",
        _ => "copying",
    }
}

/// Makes the parts of the line about one file.
fn parts(name: &str, progress: Progress, speed: Speed) -> Vec<Part> {
    let Progress { done_bytes, total_bytes, phase, .. } = progress;
    let bytes = BinaryBytes(done_bytes);
    let moved = match total_bytes {
        0 => bytes.to_string(),
        total => format!("{bytes}/{}", BinaryBytes(total)),
    };
    let mut parts = vec![
        Part::new(3, format!("{} {name}", name_of(phase))).shrinking(),
        Part::new(1, moved),
        Part::new(2, speed.rate),
    ];
    parts.extend(speed.left.map(|left| Part::new(4, left)));
    parts
}

/// Puts a percentage and a bar behind the first part, if the size is known.
fn with_bar(mut parts: Vec<Part>, progress: Progress) -> Vec<Part> {
    let Progress { done_bytes, total_bytes, .. } = progress;
    if total_bytes > 0 {
        let done = (done_bytes as f64 / total_bytes as f64).min(1.0);
        let moved = parts.remove(1).close();
        let percent = Part::new(0, format!("{:>3}%", (done * 100.0) as u64));
        parts.splice(1..1, [percent, Part::new(6, bar(done)).close(), moved]);
    }
    parts
}

fn bar(done: f64) -> String {
    let filled = (done * BAR_COLUMNS as f64) as usize;
    let tip = if filled < BAR_COLUMNS { ">" } else { "" };
    format!("[{:BAR_COLUMNS$}]", "=".repeat(filled) + tip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_each_phase_is() {
        let mut seen = Vec::new();
        let mut see = |progress: Progress| {
            let speed = speed(progress.done_bytes, None, Duration::from_secs(1));
            seen.push(joined(&with_bar(parts("a", progress, speed), progress)));
            Control::Continue
        };
        let directory = tempfile::tempdir().unwrap();
        let (source, copy) = (directory.path().join("a"), directory.path().join("b"));
        std::fs::write(&source, [1; 100]).unwrap();
        let mut options = uncopy::copy::CopyOptions::default();
        options.verify = Some(uncopy::copy::Verify::default());
        uncopy::copy::copy_file_observed(&source, copy, &options, &mut see).unwrap();
        for (phase, bytes) in [("copying", 100), ("verifying", 200)] {
            let full = "[========================]";
            let line = format!("{phase} a  100% {full} {bytes} B/{bytes} B  {bytes} B/s");
            assert!(seen.contains(&line), "{line:?} in {seen:?}");
        }
    }

    #[test]
    fn the_bar_is_full_at_the_end_alone() {
        for (done, expected) in [
            (0.0, "[>                       ]"),
            (0.5, "[============>           ]"),
            (0.999, "[=======================>]"),
            (1.0, "[========================]"),
        ] {
            assert_eq!(bar(done), expected);
        }
    }
}
