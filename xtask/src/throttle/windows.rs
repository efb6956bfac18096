//! How evenly bytes went: every window of two seconds, against the rate.

use std::time::Duration;

/// Bytes that were through at a time since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at: Duration,
    pub(super) bytes: u64,
}

/// A window must not be looked at for less.
const WINDOW: Duration = Duration::from_secs(2);

/// Samples are 20 ms apart. Where two are so far apart, the machine ran nothing of this program: such
/// a window tells nothing of the rate.
const FROZEN: Duration = Duration::from_millis(60);

/// Shares of the rate, over all windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) windows: usize,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// The slowest and the quickest window from the first byte to the last; `None`: the copy was shorter
/// than a window.
///
/// A window begins at a sample and ends at the first one two seconds later or more.
pub(super) fn spread(samples: &[Sample], bytes_per_second: u64) -> Option<Spread> {
    let last = samples.last()?.bytes;
    // Before the first byte and behind the last one nothing is to be kept even.
    let first = samples.iter().position(|sample| sample.bytes > 0)?;
    let end = samples.iter().position(|sample| sample.bytes == last)?;
    let samples = samples.get(first..end)?;
    let shares = samples.iter().enumerate().filter_map(|(place, from)| {
        let length = samples[place..].iter().position(|to| to.at - from.at >= WINDOW)?;
        let window = &samples[place..=place + length];
        if window.windows(2).any(|pair| pair[1].at - pair[0].at > FROZEN) {
            return None;
        }
        let to = window.last()?;
        let seconds = (to.at - from.at).as_secs_f64();
        Some((to.bytes - from.bytes) as f64 / seconds / bytes_per_second as f64)
    });
    shares.fold(None, |spread: Option<Spread>, share| {
        let Spread { windows, least, most } =
            spread.unwrap_or(Spread { windows: 0, least: share, most: share });
        Some(Spread { windows: windows + 1, least: least.min(share), most: most.max(share) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample every 20 ms; `rate` says bytes a millisecond at a time in milliseconds.
    fn samples(milliseconds: u64, rate: impl Fn(u64) -> u64) -> Vec<Sample> {
        let mut bytes = 0;
        (0..milliseconds)
            .map(|at| {
                bytes += rate(at);
                Sample { at: Duration::from_millis(at), bytes }
            })
            .step_by(20)
            .collect()
    }

    fn percent(spread: Option<Spread>) -> Option<(i64, i64)> {
        spread.map(|s| ((s.least * 100.0).round() as i64, (s.most * 100.0).round() as i64))
    }

    #[test]
    fn every_window_counts() {
        type Row = (&'static str, u64, fn(u64) -> u64, Option<(i64, i64)>);
        let rows: [Row; 6] = [
            ("even", 5000, |_| 100, Some((100, 100))),
            ("twice as quick", 5000, |_| 200, Some((200, 200))),
            ("too short", 1900, |_| 100, None),
            ("nothing", 5000, |_| 0, None),
            // A stop of 200 ms is a tenth of a window, wherever it lies.
            (
                "a stop",
                6000,
                |at| if (3000..3200).contains(&at) { 0 } else { 100 },
                Some((90, 100)),
            ),
            // And a burst is.
            (
                "a burst",
                6000,
                |at| if (3000..3100).contains(&at) { 300 } else { 100 },
                Some((100, 110)),
            ),
        ];
        for (name, milliseconds, rate, expected) in rows {
            let found = spread(&samples(milliseconds, rate), 100_000);
            assert_eq!(percent(found), expected, "{name}");
        }
    }

    #[test]
    fn a_machine_that_stood_still_tells_nothing() {
        let mut samples = samples(9000, |_| 100);
        for sample in samples.iter_mut().filter(|sample| sample.at >= Duration::from_secs(4)) {
            sample.at += Duration::from_secs(1);
        }
        assert_eq!(percent(spread(&samples, 100_000)), Some((100, 100)));
    }

    #[test]
    fn waiting_for_the_first_byte_and_after_the_last_is_no_window() {
        let rate = |at| if (1000..5000).contains(&at) { 100 } else { 0 };
        assert_eq!(percent(spread(&samples(9000, rate), 100_000)), Some((100, 100)));
    }
}
