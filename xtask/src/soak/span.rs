//! How long a soak goes on.

use std::fmt;
use std::time::{Duration, Instant};

/// Rounds that count as a full run.
const FULL_ROUNDS: u32 = 300;
/// Seconds that do.
const FULL_SECONDS: u64 = 600;

/// A number of rounds, or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    Rounds(u32),
    Seconds(u64),
}

impl Span {
    /// Its result is recorded.
    pub(super) fn is_full(self) -> bool {
        match self {
            Span::Rounds(rounds) => rounds >= FULL_ROUNDS,
            Span::Seconds(seconds) => seconds >= FULL_SECONDS,
        }
    }

    /// Begins it.
    pub(super) fn start(self) -> Clock {
        Clock { span: self, begin: Instant::now(), begun: 0 }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span::Rounds(rounds) => write!(f, "{rounds} rounds"),
            Span::Seconds(seconds) => write!(f, "{seconds} seconds"),
        }
    }
}

/// How much of a span is over.
#[derive(Debug)]
pub(super) struct Clock {
    span: Span,
    begin: Instant,
    begun: u32,
}

impl Clock {
    /// Whether another round is to begin, which counts as begun then.
    pub(super) fn goes_on(&mut self) -> bool {
        let goes_on = match self.span {
            Span::Rounds(rounds) => self.begun < rounds,
            Span::Seconds(seconds) => self.begin.elapsed() < Duration::from_secs(seconds),
        };
        self.begun += u32::from(goes_on);
        goes_on
    }

    /// The round that began last does not count: it struck nothing.
    pub(super) fn take_back(&mut self) {
        self.begun -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_rounds_or_ends_by_itself() {
        let mut clock = Span::Rounds(2).start();
        assert_eq!([(); 4].map(|()| clock.goes_on()), [true, true, false, false]);
        clock.take_back();
        assert_eq!([(); 2].map(|()| clock.goes_on()), [true, false]);
        assert!(!Span::Seconds(0).start().goes_on());
        assert!(Span::Seconds(1000).start().goes_on());
    }

    #[test]
    fn long_runs_are_recorded() {
        for (span, full) in [
            (Span::Rounds(299), false),
            (Span::Rounds(300), true),
            (Span::Seconds(599), false),
            (Span::Seconds(600), true),
        ] {
            assert_eq!(span.is_full(), full, "{span}");
        }
    }
}
