//! The observer of a copy: stops it when a signal asks for it, and draws a progress bar once it
//! takes long enough to be wondered about.

mod tree;

use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{
    BinaryBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};
use uncopy::copy::{Control, Experience, Observer, Phase, Progress, Throttle};

pub(crate) use tree::TreeBar;

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
    shared: Shared<'a>,
}

/// What the copies of one command have together.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    pub(crate) throttle: Option<&'a Throttle>,
    pub(crate) experience: &'a Experience,
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
    pub(crate) fn new(
        stop: &'a Stop,
        source: &'a Path,
        wanted: bool,
        shared: Shared<'a>,
    ) -> Watch<'a> {
        let bar = if wanted { Bar::Since(Instant::now()) } else { Bar::Off };
        Watch { stop, source, bar, shared }
    }

    fn draw(&mut self, progress: Progress) {
        if let Bar::Since(start) = self.bar {
            if start.elapsed() < PATIENCE {
                return;
            }
            let visible = stderr().is_terminal();
            self.bar = if visible { self.show(progress, start.elapsed()) } else { Bar::Off };
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

    fn show(&self, progress: Progress, elapsed: Duration) -> Bar {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_HZ);
        let bar = ProgressBar::with_draw_target(Some(progress.total_bytes), target)
            .with_elapsed(elapsed)
            .with_position(progress.done_bytes);
        bar.set_style(style(progress));
        let name = self.source.file_name().unwrap_or(self.source.as_os_str());
        bar.set_message(printable(&name.to_string_lossy()).into_owned());
        Bar::Shown { bar, phase: progress.phase }
    }
}

impl Observer for Watch<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        let over = progress.phase == Phase::Copying && progress.done_bytes == progress.total_bytes;
        if !over {
            self.stop.listen();
        }
        if self.stop.requested().is_some() {
            return Control::Stop;
        }
        if !matches!(self.bar, Bar::Off) {
            self.draw(progress);
        }
        Control::Continue
    }

    fn throttle(&self) -> Option<&Throttle> {
        self.shared.throttle
    }

    fn experience(&self) -> Option<&Experience> {
        Some(self.shared.experience)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Bar::Shown { bar, .. } = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What is shown in this phase.
fn template(progress: Progress) -> String {
    let phase = match progress.phase {
        Phase::Flushing => "flushing",
        Phase::Verifying => "verifying",
        _ => "copying",
    };
    let rest = if progress.total_bytes == 0 {
        // A pipe or a pseudo file: nobody knows how much will come.
        "{binary_bytes}  {rate}"
    } else {
        "{percent:>3}% [{bar:24}] {binary_bytes}/{binary_total_bytes}  {rate}  {left}"
    };
    format!("{phase} {{msg}}  {rest}")
}

fn style(progress: Progress) -> ProgressStyle {
    ProgressStyle::with_template(&template(progress))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
        // indicatif's own estimate takes what was done before the bar appeared for a burst.
        .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}/s", BinaryBytes(rate(state.pos(), state.elapsed())));
        })
        .with_key("left", |state: &ProgressState, out: &mut dyn Write| {
            let left = left(state.pos(), state.len().unwrap_or(0), state.elapsed());
            let _ = left.map_or(Ok(()), |left| write!(out, "{:#} left", HumanDuration(left)));
        })
}

/// Bytes a second so far.
fn rate(done_bytes: u64, elapsed: Duration) -> u64 {
    let microseconds = elapsed.as_micros().max(1);
    u64::try_from(u128::from(done_bytes) * 1_000_000 / microseconds).unwrap_or(u64::MAX)
}

/// How long the rest takes at the rate so far; `None` before anything was done.
fn left(done_bytes: u64, total_bytes: u64, elapsed: Duration) -> Option<Duration> {
    let rest = total_bytes.saturating_sub(done_bytes);
    rest.checked_div(rate(done_bytes, elapsed)).map(Duration::from_secs)
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

    #[test]
    fn the_rest_takes_as_long_as_the_rate_so_far_says() {
        let second = Duration::from_secs(1);
        assert_eq!(rate(3 << 20, second), 3 << 20);
        assert_eq!(rate(u64::MAX, Duration::ZERO), u64::MAX);
        for (done, total, expected) in
            [(100, 500, Some(4)), (500, 500, Some(0)), (600, 500, Some(0)), (0, 500, None)]
        {
            assert_eq!(left(done, total, second), expected.map(Duration::from_secs), "{done}");
        }
    }
}
