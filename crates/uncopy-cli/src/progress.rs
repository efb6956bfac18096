//! The observer of a copy: stops it when a signal asks for it, and draws a progress bar once it
//! takes long enough to be wondered about.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uncopy::copy::{Control, Observer, Phase, Progress};

use crate::report::printable;
use crate::stop::Stop;

/// A copy shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_millis(300);

/// How often the bar is drawn at most, each second.
const DRAWS_HZ: u8 = 10;

/// Watches one copy.
pub(crate) struct Watch<'a> {
    stop: &'a Stop,
    source: &'a Path,
    bar: Bar,
}

enum Bar {
    /// Nobody would see it.
    Off,
    /// Not yet.
    Since(Instant),
    Shown {
        bar: ProgressBar,
        phase: Phase,
    },
}

impl<'a> Watch<'a> {
    /// Watches the copy of `source`, with a progress bar if `wanted` and standard error is a
    /// terminal.
    pub(crate) fn new(stop: &'a Stop, source: &'a Path, wanted: bool) -> Watch<'a> {
        let bar = if wanted { Bar::Since(Instant::now()) } else { Bar::Off };
        Watch { stop, source, bar }
    }

    fn draw(&mut self, progress: Progress) {
        if let Bar::Since(start) = self.bar {
            if start.elapsed() < PATIENCE {
                return;
            }
            self.bar = if stderr().is_terminal() { self.show(progress) } else { Bar::Off };
        }
        let Bar::Shown { bar, phase } = &mut self.bar else { return };
        if *phase != progress.phase {
            *phase = progress.phase;
            bar.reset();
            bar.set_style(style(progress));
        }
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
    }

    fn show(&self, progress: Progress) -> Bar {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_HZ);
        let bar = ProgressBar::with_draw_target(Some(progress.total_bytes), target);
        bar.set_style(style(progress));
        let name = self.source.file_name().unwrap_or(self.source.as_os_str());
        bar.set_message(printable(&name.to_string_lossy()).into_owned());
        Bar::Shown { bar, phase: progress.phase }
    }
}

impl Observer for Watch<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        if self.stop.requested().is_some() {
            return Control::Stop;
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

/// How the bar looks in this phase.
fn style(progress: Progress) -> ProgressStyle {
    let phase = match progress.phase {
        Phase::Flushing => "flushing",
        Phase::Verifying => "verifying",
        _ => "copying",
    };
    let rest = if progress.total_bytes == 0 {
        // A pipe or a pseudo file: nobody knows how much will come.
        "{binary_bytes}  {binary_bytes_per_sec}"
    } else {
        "{percent:>3}% [{bar:24}] {binary_bytes}/{binary_total_bytes}  \
         {binary_bytes_per_sec}  {eta} left"
    };
    ProgressStyle::with_template(&format!("{phase} {{msg}}  {rest}"))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_is_a_template_that_parses() {
        for rest in ["{binary_bytes}  {binary_bytes_per_sec}", "{percent:>3}% [{bar:24}]"] {
            assert!(ProgressStyle::with_template(rest).is_ok());
        }
    }
}
