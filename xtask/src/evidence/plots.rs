//! Which curves the report draws, and how rows become them: pure.

use super::chart::Series;
use super::crossover::{always_lower, crossings};
use super::inputs::Comparison;
use super::number;

/// Curves over the cases whose names differ in one number.
pub(super) struct Plot {
    pub(super) suite: &'static str,
    pub(super) title: &'static str,
    /// The name of a case, with `{}` for the number: a count, or bytes with their unit.
    cases: &'static str,
    pub(super) x: X,
    metric: &'static str,
    pub(super) y: Y,
    /// Ours first.
    subjects: &'static [&'static str],
}

/// What the number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum X {
    Bytes,
    Regions,
}

impl X {
    pub(super) fn label(self) -> &'static str {
        match self {
            X::Bytes => "size",
            X::Regions => "regions",
        }
    }

    pub(super) fn text(self) -> fn(f64) -> String {
        match self {
            X::Bytes => number::bytes,
            X::Regions => number::plain,
        }
    }
}

/// What is made of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Y {
    /// Megabytes in a second.
    Throughput,
    /// Seconds for a MiB.
    PerMebibyte,
    /// Seconds for one.
    Each,
    /// How many in a second.
    Rate,
}

impl Y {
    pub(super) fn label(self) -> &'static str {
        match self {
            Y::Throughput => "MB/s",
            Y::PerMebibyte => "processor time of a MiB",
            Y::Each => "time of one",
            Y::Rate => "sends in a second",
        }
    }

    pub(super) fn text(self) -> fn(f64) -> String {
        match self {
            Y::Throughput | Y::Rate => number::plain,
            Y::PerMebibyte | Y::Each => number::seconds,
        }
    }

    fn of(self, x: f64, seconds: f64) -> f64 {
        match self {
            Y::Throughput => x / 1e6 / seconds,
            Y::PerMebibyte => seconds / (x / 1_048_576.0),
            Y::Each => seconds,
            Y::Rate => 1.0 / seconds,
        }
    }
}

const COPIERS: &[&str] = &[
    "uncopy",
    "uncopy --method=copy-file-range",
    "uncopy --method=direct",
    "uncopy --method=read-write",
    "cp",
    "uutils cp",
    "xcp",
    "rsync",
];
const METHODS: &[&str] =
    &["auto", "copy_file_range", "direct", "buffered", "sendfile", "splice", "reflink"];
const LOCAL: &[&str] = &[
    "uncopy",
    "uncopy, lent",
    "uncopy, linearised",
    "memcpy",
    "memcpy twice",
    "crossbeam-channel",
    "ipc-channel",
    "iceoryx2 + event",
];
const SOCKET: &[&str] = &[
    "uncopy",
    "uncopy, lent",
    "uncopy, linearised",
    "bare sendmsg + poll + recvmsg",
    "pipes",
    "ipc-channel",
    "iceoryx2",
    "iceoryx2 + event",
];
const ENCODERS: &[&str] = &[
    "uncopy, gather",
    "uncopy, reused",
    "uncopy, fresh",
    "rkyv",
    "bincode",
    "postcard",
    "prost",
    "capnp",
];
const EVENTS: &[&str] = &[
    "uncopy, gather, lent",
    "uncopy, gather, copied",
    "uncopy, reused, lent",
    "uncopy, fresh, lent",
    "uncopy, fresh, copied",
];
const SENDERS: &[&str] = &[
    "ring, registered",
    "ring, registered, flush each send",
    "ring, SEND_ZC",
    "ring, copy",
    "uncopy, MSG_ZEROCOPY",
    "uncopy, copy",
    "ring, registered, auto",
    "bare send",
];
const CALLS: &[&str] =
    &["C", "Rust", "C, write_etc", "Rust, write_etc", "published, Zircon: write_etc"];

const fn plot(
    suite: &'static str,
    title: &'static str,
    cases: &'static str,
    (x, metric, y): (X, &'static str, Y),
    subjects: &'static [&'static str],
) -> Plot {
    Plot { suite, title, cases, x, metric, y, subjects }
}

/// Every plot, in the order of the report.
pub(super) const PLOTS: &[Plot] = &[
    plot(
        "copy",
        "Throughput by size: ext4, source in memory",
        "ext4/{}/warm",
        (X::Bytes, "wall", Y::Throughput),
        COPIERS,
    ),
    plot(
        "copy",
        "Throughput by size: ext4, source not in memory",
        "ext4/{}/cold",
        (X::Bytes, "wall", Y::Throughput),
        COPIERS,
    ),
    plot(
        "copy",
        "CPU by size: ext4, source in memory",
        "ext4/{}/warm",
        (X::Bytes, "cpu", Y::PerMebibyte),
        COPIERS,
    ),
    plot(
        "copy",
        "CPU by size: ext4, source not in memory",
        "ext4/{}/cold",
        (X::Bytes, "cpu", Y::PerMebibyte),
        COPIERS,
    ),
    plot(
        "copy_methods",
        "Throughput by size, within one process",
        "{}",
        (X::Bytes, "wall", Y::Throughput),
        METHODS,
    ),
    plot(
        "copy_methods",
        "CPU by size, within one process",
        "{}",
        (X::Bytes, "cpu", Y::PerMebibyte),
        METHODS,
    ),
    plot(
        "channel",
        "Latency by regions: 4096 bytes, both ends in one process",
        "local/1-process/4096B/{}",
        (X::Regions, "time", Y::Each),
        LOCAL,
    ),
    plot(
        "channel",
        "Latency by regions: 65,280 bytes, both ends in one process",
        "local/1-process/65280B/{}",
        (X::Regions, "time", Y::Each),
        LOCAL,
    ),
    plot(
        "channel",
        "Latency by regions: 4096 bytes, between two processes",
        "socket/2-processes/4096B/{}",
        (X::Regions, "time", Y::Each),
        SOCKET,
    ),
    plot(
        "channel",
        "Latency by regions: 65,280 bytes, between two processes",
        "socket/2-processes/65280B/{}",
        (X::Regions, "time", Y::Each),
        SOCKET,
    ),
    plot(
        "channel",
        "Latency by size: one region, both ends in one process",
        "local/1-process/{}/1",
        (X::Bytes, "time", Y::Each),
        LOCAL,
    ),
    plot(
        "zx",
        "Latency by regions: 1024 bytes, the C library",
        "iovecs/1024B/{}",
        (X::Regions, "time", Y::Each),
        CALLS,
    ),
    plot(
        "zx",
        "Latency by regions: 65,536 bytes, the C library",
        "iovecs/65536B/{}",
        (X::Regions, "time", Y::Each),
        CALLS,
    ),
    plot(
        "fidl",
        "Encoding a vector of bytes, by size",
        "encode/bytes/{}",
        (X::Bytes, "time", Y::Each),
        ENCODERS,
    ),
    plot(
        "fidl",
        "Events with a vector of bytes, by size",
        "event/bytes/{}",
        (X::Bytes, "time", Y::Each),
        EVENTS,
    ),
    plot("send", "CPU by size: one datagram", "udp/{}", (X::Bytes, "cpu", Y::Each), SENDERS),
    plot("send", "Sends in a second, by size", "udp/{}", (X::Bytes, "time", Y::Rate), SENDERS),
];

impl Plot {
    /// The curves that there are.
    pub(super) fn series(&self, comparison: &Comparison) -> Vec<Series> {
        let cases = numbered(comparison, self.cases);
        let curve = |subject: &&str| Series {
            name: (*subject).to_owned(),
            points: points(comparison, &cases, subject, self.metric)
                .map(|(x, seconds)| (x, self.y.of(x, seconds)))
                .collect(),
        };
        self.subjects.iter().map(curve).filter(|series| !series.points.is_empty()).collect()
    }

    /// The command that measures what is drawn.
    pub(super) fn command(&self) -> String {
        if self.suite == "copy_methods" {
            return super::texts::command(self.suite, "");
        }
        let common = self.cases.split("{}").next().unwrap_or_default();
        super::texts::command(self.suite, common)
    }
}

/// The cases named like `pattern`, by their numbers.
fn numbered<'a>(comparison: &'a Comparison, pattern: &str) -> Vec<(f64, &'a str)> {
    let Some((before, after)) = pattern.split_once("{}") else { return Vec::new() };
    let number = |case: &'a str| {
        let middle = case.strip_prefix(before)?.strip_suffix(after)?;
        Some((number::parse(middle)?, case))
    };
    let mut cases: Vec<_> = comparison.cases().into_iter().filter_map(number).collect();
    cases.sort_by(|a, b| a.0.total_cmp(&b.0));
    cases
}

/// A subject's figures in seconds.
fn points<'a>(
    comparison: &'a Comparison,
    cases: &'a [(f64, &'a str)],
    subject: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = (f64, f64)> {
    cases.iter().filter_map(move |(x, case)| {
        let row = comparison.figure(case, subject, metric)?;
        let value = row.value.filter(|value| *value > 0.0)?;
        Some((*x, if row.unit == "ns" { value / 1e9 } else { value }))
    })
}

/// Two ways of which one is better on one side of a number.
pub(super) struct Rivals {
    pub(super) suite: &'static str,
    pub(super) cases: &'static str,
    pub(super) x: X,
    pub(super) metric: &'static str,
    pub(super) first: &'static str,
    pub(super) second: &'static str,
}

const fn rivals(
    suite: &'static str,
    cases: &'static str,
    (x, metric): (X, &'static str),
    first: &'static str,
    second: &'static str,
) -> Rivals {
    Rivals { suite, cases, x, metric, first, second }
}

const RANGE: &str = "uncopy --method=copy-file-range";
const DIRECT: &str = "uncopy --method=direct";
const BUFFERED: &str = "uncopy --method=read-write";
const LINEAR: &str = "uncopy, linearised";
const WALL: (X, &str) = (X::Bytes, "wall");
const CPU: (X, &str) = (X::Bytes, "cpu");
const TIME: (X, &str) = (X::Regions, "time");

/// Every pair, in the order of the report.
pub(super) const RIVALS: &[Rivals] = &[
    rivals("copy_methods", "{}", WALL, "copy_file_range", "buffered"),
    rivals("copy_methods", "{}", CPU, "direct", "buffered"),
    rivals("copy", "ext4/{}/warm", WALL, RANGE, BUFFERED),
    rivals("copy", "ext4/{}/cold", WALL, RANGE, BUFFERED),
    rivals("copy", "ext4/{}/warm", WALL, DIRECT, BUFFERED),
    rivals("copy", "ext4/{}/warm", CPU, DIRECT, BUFFERED),
    rivals("copy", "ext4/{}/warm", WALL, "uncopy", "cp"),
    rivals("channel", "local/1-process/256B/{}", TIME, "uncopy", LINEAR),
    rivals("channel", "local/1-process/4096B/{}", TIME, "uncopy", LINEAR),
    rivals("channel", "local/1-process/65280B/{}", TIME, "uncopy", LINEAR),
    rivals("channel", "socket/2-processes/256B/{}", TIME, "uncopy", LINEAR),
    rivals("channel", "socket/2-processes/4096B/{}", TIME, "uncopy", LINEAR),
    rivals("channel", "socket/2-processes/65280B/{}", TIME, "uncopy", LINEAR),
    rivals("fidl", "encode/bytes/{}", (X::Bytes, "time"), "uncopy, gather", "uncopy, reused"),
    rivals(
        "fidl",
        "event/bytes/{}",
        (X::Bytes, "time"),
        "uncopy, gather, lent",
        "uncopy, fresh, lent",
    ),
    rivals("zx", "vector/{}", (X::Bytes, "time"), "C, iovec", "C, linear"),
    rivals("send", "udp/{}", CPU, "ring, registered", "ring, copy"),
    rivals("send", "udp/{}", CPU, "ring, SEND_ZC", "ring, copy"),
    rivals("send", "udp/{}", CPU, "uncopy, MSG_ZEROCOPY", "uncopy, copy"),
];

/// Less than this is no difference.
pub(super) const BAND: f64 = 0.03;

impl Rivals {
    /// Where the first becomes the better one, in words; none if there are no such rows.
    pub(super) fn verdict(&self, comparison: &Comparison) -> Option<String> {
        let cases = numbered(comparison, self.cases);
        let curve = |subject| points(comparison, &cases, subject, self.metric).collect::<Vec<_>>();
        let (first, second) = (curve(self.first), curve(self.second));
        let compared = first.iter().filter(|(x, _)| second.iter().any(|(other, _)| other == x));
        let measured: Vec<f64> = compared.map(|(x, _)| *x).collect();
        let (from, to) = (measured.first()?, measured.last()?);
        let text = self.x.text();
        let range = format!("{} to {}", text(*from), text(*to));
        let changes = crossings(&first, &second, BAND);
        if changes.is_empty() {
            return Some(match always_lower(&first, &second, BAND) {
                Some(true) => format!("the first, from {range}"),
                Some(false) => format!("the second, from {range}"),
                None => format!("neither by more than 3 %, from {range}"),
            });
        }
        let about = |at: f64| match self.x {
            X::Bytes => text(at),
            // There are no halves of a region.
            X::Regions => text(at.ceil()),
        };
        let word = |change: &super::crossover::Crossing| {
            format!(
                "{} from about {} on (measured: {} and {})",
                if change.first_is_lower { "the first" } else { "the second" },
                about(change.at),
                text(change.between.0),
                text(change.between.1),
            )
        };
        Some(changes.iter().map(word).collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::inputs::Inputs;

    fn inputs(rows: &[(&str, &str, f64)]) -> Inputs {
        let mut inputs = Inputs::default();
        for (case, subject, value) in rows {
            inputs.of_row("copy", case, subject, ("wall", "s"), *value);
        }
        inputs
    }

    #[test]
    fn cases_are_ordered_by_the_number_in_their_names() {
        let inputs = inputs(&[
            ("ext4/1MiB/warm", "cp", 0.5),
            ("ext4/4KiB/warm", "cp", 0.1),
            ("ext4/4KiB/cold", "cp", 9.0),
            ("ext4/many/warm", "cp", 9.0),
            ("ext4/1MiB/warm", "uncopy", 0.25),
        ]);
        let copy = inputs.comparison("copy").unwrap();
        let cases = numbered(copy, "ext4/{}/warm");
        assert_eq!(cases, [(4096.0, "ext4/4KiB/warm"), (1_048_576.0, "ext4/1MiB/warm")]);
        let series = PLOTS[0].series(copy);
        let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["uncopy", "cp"]);
        assert_eq!(series[0].points, [(1_048_576.0, 4.194304)]);
        assert_eq!(PLOTS[0].command(), "cargo xtask compare copy --only ext4/");
    }

    #[test]
    fn verdicts_say_from_where_on() {
        let pair = rivals("copy", "ext4/{}/warm", WALL, "uncopy", "cp");
        let verdict = |rows: &[(&str, &str, f64)]| {
            inputs(rows).comparison("copy").and_then(|copy| pair.verdict(copy))
        };
        let (small, large) = ("ext4/4KiB/warm", "ext4/64KiB/warm");
        let crossing = [
            (small, "uncopy", 2.0),
            (small, "cp", 1.0),
            (large, "uncopy", 1.0),
            (large, "cp", 2.0),
        ];
        let expected = "the first from about 16 KiB on (measured: 4 KiB and 64 KiB)";
        assert_eq!(verdict(&crossing).as_deref(), Some(expected));
        let first = [(small, "uncopy", 1.0), (small, "cp", 2.0), (large, "uncopy", 1.0)];
        assert_eq!(verdict(&first).as_deref(), Some("the first, from 4 KiB to 4 KiB"));
        assert_eq!(verdict(&[(small, "uncopy", 1.0)]), None);
        let equal = [(small, "uncopy", 1.0), (small, "cp", 1.01)];
        assert!(verdict(&equal).unwrap().starts_with("neither by more than 3 %"));
    }

    #[test]
    fn every_plot_and_pair_has_one_number() {
        let patterns = PLOTS.iter().map(|plot| plot.cases).chain(RIVALS.iter().map(|r| r.cases));
        for pattern in patterns {
            assert_eq!(pattern.matches("{}").count(), 1, "{pattern}");
        }
    }
}
