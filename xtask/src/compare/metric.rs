//! Metrics of a run.

use std::collections::BTreeMap;

use crate::process::Cost;

/// A quantity of which less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Metric {
    /// Place in tables; each metric has its own.
    pub(super) rank: u8,
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
}

pub(super) const WALL: Metric = Metric { rank: 1, name: "wall", unit: "s" };
pub(super) const CPU: Metric = Metric { rank: 2, name: "cpu", unit: "s" };
pub(super) const PEAK_MEMORY: Metric = Metric { rank: 3, name: "peak_memory", unit: "B" };
pub(super) const DEVICE_READ: Metric = Metric { rank: 4, name: "device_read", unit: "B" };
pub(super) const DEVICE_WRITTEN: Metric = Metric { rank: 5, name: "device_written", unit: "B" };
/// Space that the result takes on its filesystem.
pub(super) const DISK: Metric = Metric { rank: 6, name: "disk", unit: "B" };
/// Wall time of one operation.
pub(super) const TIME_EACH: Metric = Metric { rank: 7, name: "time", unit: "ns" };
/// Processor time of one operation.
pub(super) const CPU_EACH: Metric = Metric { rank: 8, name: "cpu", unit: "ns" };
/// Wall time that each further region takes.
pub(super) const TIME_OF_REGION: Metric = Metric { rank: 9, name: "region", unit: "ns" };
/// The part of the processor time that the program has itself.
pub(super) const USER_EACH: Metric = Metric { rank: 10, name: "user", unit: "ns" };
/// The part that the kernel has.
pub(super) const SYSTEM_EACH: Metric = Metric { rank: 11, name: "system", unit: "ns" };
/// Largest resident set of a process on the other machine.
pub(super) const FAR_PEAK_MEMORY: Metric = Metric { rank: 12, name: "far_peak_memory", unit: "B" };
/// Wall time that a delay of the line adds.
pub(super) const WALL_OF_DELAY: Metric = Metric { rank: 13, name: "wall_of_delay", unit: "s" };

/// Wall time that a unit of work takes beyond its copies.
pub(super) const WALL_BEYOND: Metric = Metric { rank: 14, name: "wall_beyond", unit: "s" };

/// The figures of one run.
pub(super) type Sample = BTreeMap<Metric, f64>;

/// The figures of a whole process.
pub(super) fn sample_of(cost: &Cost) -> Sample {
    Sample::from([
        (WALL, cost.wall_seconds),
        (CPU, cost.cpu_seconds),
        (PEAK_MEMORY, cost.peak_bytes as f64),
        (DEVICE_READ, cost.device_read_bytes as f64),
        (DEVICE_WRITTEN, cost.device_written_bytes as f64),
    ])
}
