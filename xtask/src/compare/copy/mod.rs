//! The suite `copy`: one file to another, as whole processes.

mod cases;
mod contents;
mod fixture;
pub(super) mod mechanisms;
mod place;
mod subjects;

use std::path::PathBuf;
use std::rc::Rc;

use super::case::Suite;
use cases::Setting;
use place::Places;
use subjects::Programs;

use crate::peers::Peers;

/// Programs and arguments of the suite.
pub(super) struct Options {
    pub(super) uncopy: PathBuf,
    pub(super) peers: Peers,
    /// A directory for files, on disk.
    pub(super) disk: PathBuf,
    pub(super) quick: bool,
    pub(super) rounds: Option<usize>,
}

/// The suite.
pub(super) fn suite(options: Options) -> Suite {
    let Options { uncopy, peers, disk, quick, rounds } = options;
    let absent = peers.absent.clone();
    let programs = Programs { uncopy, peers };
    let setting = Setting { programs, places: Rc::new(Places::new(disk)), quick, rounds };
    Suite { name: "copy", notes: notes(quick), absent, cases: setting.cases() }
}

fn notes(quick: bool) -> Vec<String> {
    let mut notes = [
        "wall: a whole process from before its start to after its end; value: median over rounds; \
         ratio: median of each round's ratio",
        "cpu: user and system time of the process and its children; kernel threads that write back \
         are not in it",
        "peak_memory: ru_maxrss; never below some 3 MiB, which the measuring parent has itself",
        "device_read, device_written: read_bytes and write_bytes of /proc/PID/io: what was read \
         from devices and what was handed to them, now or as dirty pages; of metadata only \
         what the process itself made dirty, and nothing of the journal",
        "rounds are interleaved in an order shuffled anew in each; every destination is a path that \
         was never used before; destinations are flushed after their run, compared with the source, \
         evicted, and removed after the round, with a sync before the next (from 4 GiB on: after the \
         run, and then the device is waited for, because not all fit on the disk)",
        "warm: the source was written, dropped and is read before each run; cold: page cache, \
         dentries and inodes are dropped before each run and the programs loaded again; the cache of \
         a hypervisor, if there is one, is not dropped",
        "programs are dropped from the page cache and read again before each case",
        "before each run of 1 MiB and more, as much free memory as it will take up is written to \
         and given back: a hypervisor that takes back free pages would otherwise charge the first \
         to use them",
        "xfs and btrfs lie in images on loop devices with direct I/O",
        "cp, then sync of the file: sh -c 'cp A B && sync B'; uncopy --durable also flushes the \
         directory",
        "noise: the larger of a target's band (3 % where time is set against another way or the \
         best peer, else 0) and the A/A spread (the far end of the 95 % interval of \
         the median ratio of a peer's second run of each round to its first)",
    ]
    .map(str::to_owned)
    .to_vec();
    if quick {
        notes.push("quick: two rounds, large files 1/64 as large, no target is judged".to_owned());
    }
    notes
}
