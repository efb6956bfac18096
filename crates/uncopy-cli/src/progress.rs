//! Observer of a single copy: stops it on a signal, and draws a progress bar if it takes long.

mod job;
mod speed;

use std::io::{IsTerminal, stderr, stdin};
use std::path::Path;
use std::time::Duration;

use indicatif::{BinaryBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use uncopy::copy::{Control, Observer, Phase, Progress};

pub(crate) use job::JobBar;

use speed::speed;

use crate::cp::Signals;
use crate::job_control::Clock;
use crate::report::{printable, say};

/// Time before the bar appears.
const PATIENCE: Duration = Duration::from_millis(300);

/// Maximum redraws per second.
const DRAWS_HZ: u8 = 10;

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
        bar: ProgressBar,
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
    fn speed(&self, progress: Progress) -> String {
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
            self.bar = if is_seen { self.show(progress) } else { Bar::Off };
        }
        let Bar::Shown { bar, next } = &mut self.bar else { return };
        if at_work < *next {
            return;
        }
        *next = at_work + Duration::from_millis(1000 / u64::from(DRAWS_HZ));
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
        bar.set_prefix(self.stage.speed(progress));
    }

    fn show(&self, progress: Progress) -> Bar {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_HZ);
        let bar = ProgressBar::with_draw_target(Some(progress.total_bytes), target)
            .with_position(progress.done_bytes);
        bar.set_style(style(progress));
        bar.set_message(self.name());
        Bar::Shown { bar, next: Duration::ZERO }
    }

    fn name(&self) -> String {
        let name = self.source.file_name().unwrap_or(self.source.as_os_str());
        printable(&name.to_string_lossy()).into_owned()
    }

    /// Begins another phase, with a new rate.
    fn begin(&mut self, progress: Progress) {
        let clock = self.signals.control.clock();
        self.stage = Stage { phase: progress.phase, first_bytes: progress.done_bytes, clock };
        if let Bar::Shown { bar, next } = &mut self.bar {
            bar.set_style(style(progress));
            *next = Duration::ZERO;
        }
    }

    /// Prints one line with the progress, on request by a signal.
    fn print_status(&self, progress: Progress) {
        let mut text = format!("{} {}  ", name_of(progress.phase), self.name());
        text.push_str(&BinaryBytes(progress.done_bytes).to_string());
        if progress.total_bytes > 0 {
            text.push_str(&format!("/{}", BinaryBytes(progress.total_bytes)));
        }
        text.push_str(&format!("  {}", self.stage.speed(progress)));
        match &self.bar {
            Bar::Shown { bar, .. } => bar.suspend(|| say(&text)),
            _ => say(&text),
        }
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
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Bar::Shown { bar, .. } = &self.bar {
            bar.finish_and_clear();
        }
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

/// Returns the template for this phase. The rate of indicatif itself includes pauses.
fn template(progress: Progress) -> String {
    let phase = name_of(progress.phase);
    let rest = if progress.total_bytes == 0 {
        "{binary_bytes}"
    } else {
        "{percent:>3}% [{bar:24}] {binary_bytes}/{binary_total_bytes}"
    };
    format!("{phase} {{msg}}  {rest}  {{prefix}}")
}

fn style(progress: Progress) -> ProgressStyle {
    ProgressStyle::with_template(&template(progress))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_can_be_parsed() {
        let mut seen = Vec::new();
        let mut see = |progress: Progress| {
            assert!(ProgressStyle::with_template(&template(progress)).is_ok());
            seen.push(template(progress));
            Control::Continue
        };
        let directory = tempfile::tempdir().unwrap();
        let (source, copy) = (directory.path().join("a"), directory.path().join("b"));
        std::fs::write(&source, [1; 100]).unwrap();
        let mut options = uncopy::copy::CopyOptions::default();
        options.verify = Some(uncopy::copy::Verify::default());
        uncopy::copy::copy_file_observed(&source, copy, &options, &mut see).unwrap();
        assert!(seen.iter().any(|template| template.starts_with("verifying")), "{seen:?}");
    }
}
