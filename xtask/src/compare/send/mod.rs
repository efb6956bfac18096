//! The suite `send`: datagrams to a device that drops them without copying, in the loop of the
//! notifier patches: a bunch of sends of one buffer, wait for all of them, again.

mod cases;
mod patch_set;
mod streams;
mod subjects;

use std::time::Duration;

use anyhow::{Context, Result};

use super::brief::{BriefRuns, Options};
use super::case::Suite;
use cases::Setting;
pub(super) use patch_set::tables;

/// How long a subject sends in a round.
const RUN: Duration = Duration::from_millis(20);
/// Runs of some milliseconds vary much.
const ROUNDS: usize = 21;

/// Runs `body` on the last processor, in a network with a sink.
///
/// # Errors
/// Its own; or there is no such processor.
pub(super) fn on_a_network(body: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    testbed::network::isolated(|network| {
        network.sink();
        network.wide_windows();
        let last = std::thread::available_parallelism()?.get() - 1;
        let mut set = rustix::thread::CpuSet::new();
        set.set(last);
        rustix::thread::sched_setaffinity(None, &set)
            .with_context(|| format!("cannot stay on processor {last}"))?;
        body()
    })
}

/// The suite.
pub(super) fn suite(options: Options) -> Suite {
    let runs = BriefRuns::new(options, RUN, ROUNDS);
    let notes = runs.notes(NOTES);
    Suite { name: "send", notes, absent: Vec::new(), cases: Setting { runs }.cases() }
}

/// How it is measured.
const NOTES: &[&str] = &[
    "time, cpu: wall and processor time of one send, pinned to one processor; value: median over \
     rounds of a run's mean; ratio: median of each round's ratio",
    "UDP over IPv4 to an ifb device in a network namespace of its own: scatter-gather, checksum \
     offload, an MTU of 65,535, and nobody behind it",
    "each loop: 64 sends, then everything that has come back is taken in, and waited for where \
     less than 64 buffers are free",
    "bare: the system calls alone, in such a loop, out of the same memory; MSG_ZEROCOPY: the error \
     queue is read after each 16 sends, 16 reports with a call; ring: through io_uring, 64 with each \
     call, of the same flags, the library's socket registered and the loop's named by its \
     descriptor; flush: a notifier for each send, each 64, or never",
    "one buffer is sent again and again, which a copy finds in the cache; many buffers: 64 MiB of \
     them in turn, which it does not; all of it is lent for ever, so that nobody counts owners",
    "trains: 40 datagrams of 1,200 bytes in one send; a row of single sends is the cost of 40",
    "mixed: every second send of a notifier of 64 from a registered pool, the others from other \
     memory; all owners are boxed",
    "tcp: 64 sends on a connection that nobody answers (TCP_REPAIR; reno, which does not pace), \
     then an abort and every release; one send before them is not measured, with which the library \
     looks up the device, as it does again after a second; megabytes per second of processor time \
     are 65,435 divided by the nanoseconds, times 1,000; tapped: while a packet socket listens; \
     ring: the same through io_uring",
    "at the end of a table for people: the two tables of the patch set, requests a second from the wall \
         time of ring, copy (non-zc), ring, registered (zc) and flush each send (zc + flush)",
    "runs of 4.2 s: as long as the field report's, in at most 5 rounds; user, system: the \
     program's part of the processor time and the kernel's, as sampled by the clock; range: \
     of the rounds",
];
