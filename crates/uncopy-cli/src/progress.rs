//! The observer of a copy: stops it when a signal asks for it, and draws a progress bar once it
//! takes long enough to be wondered about.

mod speed;
mod tree;

use std::io::{IsTerminal, stderr, stdin};
use std::path::Path;
use std::time::Duration;

use indicatif::{BinaryBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use uncopy::copy::{Control, Observer, Phase, Progress};

pub(crate) use tree::TreeBar;

use speed::speed;

use crate::job_control::{Clock, JobControl};
use crate::report::{printable, say};
use crate::stop::Stop;

/// A copy shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_millis(300);

/// How often the bar is drawn at most, each second.
const DRAWS_HZ: u8 = 10;

/// Watches one copy.
pub(crate) struct Watch<'a> {
    source: &'a Path,
    bar: Bar,
    stage: Stage,
    shared: Shared<'a>,
}

/// What the copies of one command have together.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    pub(crate) stop: &'a Stop,
    pub(crate) control: &'a JobControl,
}

enum Bar {
    /// Nobody would see it.
    Off,
    /// Not yet.
    Waits,
    Shown {
        bar: ProgressBar,
        /// When to draw it again, in time at work of the stage.
        next: Duration,
    },
}

/// A phase of a copy, and since when it lasts.
struct Stage {
    phase: Phase,
    /// What was done when it began: of a copy that goes on from a part all that is there.
    first_bytes: u64,
    clock: Clock,
}

impl Stage {
    fn speed(&self, progress: Progress) -> String {
        let Progress { done_bytes, total_bytes, .. } = progress;
        // Of a pipe or a pseudo file nobody knows how much will come.
        let rest = (total_bytes > 0).then(|| total_bytes.saturating_sub(done_bytes));
        speed(done_bytes.saturating_sub(self.first_bytes), rest, self.clock.at_work())
    }
}

impl<'a> Watch<'a> {
    /// Watches the copy of `source`, with a progress bar if `wanted` and standard error is a
    /// terminal.
    pub(crate) fn new(source: &'a Path, wanted: bool, shared: Shared<'a>) -> Watch<'a> {
        let bar = if wanted { Bar::Waits } else { Bar::Off };
        let clock = shared.control.clock();
        Watch { source, bar, stage: Stage { phase: Phase::Copying, first_bytes: 0, clock }, shared }
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

    /// Another phase has a rate of its own.
    fn begin(&mut self, progress: Progress) {
        let clock = self.shared.control.clock();
        self.stage = Stage { phase: progress.phase, first_bytes: progress.done_bytes, clock };
        if let Bar::Shown { bar, next } = &mut self.bar {
            bar.set_style(style(progress));
            *next = Duration::ZERO;
        }
    }

    /// Prints one line about how far it is: a signal asked for it.
    fn tell(&self, progress: Progress) {
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
        let Shared { stop, control, .. } = self.shared;
        if !over {
            stop.listen();
            control.listen();
        }
        if stop.requested().is_some() {
            return Control::Stop;
        }
        control.heed();
        if self.stage.phase != progress.phase {
            self.begin(progress);
        }
        if control.takes_status() {
            self.tell(progress);
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

/// Somebody types what is copied, on the terminal that a bar would be drawn on.
fn is_typed(source: &Path) -> bool {
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

/// What is shown in this phase. indicatif's own rate counts pauses as well.
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
