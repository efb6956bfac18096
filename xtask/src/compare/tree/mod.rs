//! The suite `tree`: whole trees, as whole processes.

pub(crate) mod bare;
pub(super) mod contents;
mod fixture;

use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;

use super::case::{Action, Case, Role, Subject, Suite, Trial};
use super::metric::{CPU, PEAK_MEMORY, WALL};
use super::verdict::{Against, Target, at_most};
use crate::peers::Peers;
use contents::Contents;
use fixture::{Source, TreeFixture};

/// Programs and arguments of the suite.
pub(super) struct Options {
    pub(super) uncopy: PathBuf,
    pub(super) peers: Peers,
    /// A directory for files, on disk.
    pub(super) disk: PathBuf,
    pub(super) quick: bool,
    pub(super) rounds: Option<usize>,
}

const ROUNDS: usize = 7;

/// Rounds for trees of small files, whose wall time is judged, and which take a part of a second.
const ROUNDS_OF_SMALL: usize = 21;

/// Where the best peer is not to be quicker at all.
const ROUNDS_BESIDE_BEST: usize = 41;

/// Rounds for trees of large files, whose wall time is not judged and whose bytes take minutes to flush.
const ROUNDS_OF_LARGE: usize = 3;

/// The system calls of a copy, with nothing around them.
const BARE: &str = "bare loop";

/// cp against itself differs by so much over seven rounds.
const BAND: f64 = 0.03;

/// Memory that a job may take however many entries it has.
const MAX_MEMORY: f64 = (64 << 20) as f64;

/// The suite.
pub(super) fn suite(options: &Options) -> Suite {
    let mut cases = Vec::new();
    for place in [testbed::Filesystem::Ext4, testbed::Filesystem::Xfs, testbed::Filesystem::Btrfs] {
        for contents in Contents::ALL {
            cases.push(case(options, place, contents, false));
        }
    }
    cases.push(case(options, testbed::Filesystem::Ext4, Contents::Small, true));
    let notes = [
        "wall, cpu, peak_memory: as in the suite `copy`, of whole processes",
        "ext4, xfs and btrfs lie in images on loop devices with direct I/O, a new image for each case: \
         nothing is deleted before a case is over, because ext4 is slow to use the inodes of files \
         that were just deleted",
        "rounds are interleaved in an order shuffled anew in each; every destination is a path that \
         was never used before; after each run its filesystem is flushed; in the first round the copy \
         is compared with the source, later its entries are counted",
        "warm: the source is read before each run, and as much free memory as it takes is written to, \
         so that a hypervisor that takes back free pages has given them all when it begins",
        "merge: into an empty directory that is there, file by file",
        "bare loop: as many threads as there are processors (8 at most), each at one directory at a \
         time, and for each file no system call but openat, fstat, openat, FICLONE (read and write \
         where blocks cannot be shared), utimensat, and close twice (merge: O_TMPFILE, and linkat); no \
         library",
    ];
    let mut notes: Vec<String> = notes.map(str::to_owned).to_vec();
    if options.quick {
        notes.push("quick: two rounds, a sixteenth of the files, no target is judged".to_owned());
    }
    Suite { name: "tree", notes, absent: options.peers.absent.clone(), cases }
}

fn case(options: &Options, place: testbed::Filesystem, contents: Contents, merge: bool) -> Case {
    let source = Source::default();
    let mut subjects = Vec::new();
    for peer in &options.peers.installed {
        // The others have no way to copy the contents of one directory into another.
        if merge && !peer.name.starts_with("cp -") {
            continue;
        }
        let mut command = vec![peer.program.clone().into_os_string()];
        command.extend(peer.flags.iter().map(OsString::from));
        if merge {
            command.push("-T".into());
        }
        // rsync copies what is in a directory if its name ends in a slash.
        let slash = if peer.name.starts_with("rsync") { "/" } else { "" };
        subjects.push(subject(peer.name, Role::Peer, command, slash, &source));
    }
    for (name, flags) in [("uncopy cp -r", "-r"), ("uncopy cp -rp", "-rp")] {
        let mut command = vec![options.uncopy.clone().into_os_string(), "cp".into(), flags.into()];
        if merge {
            command.push("-T".into());
        }
        subjects.push(subject(name, Role::Own, command, "", &source));
    }
    if contents == Contents::Small {
        subjects.push(subject(BARE, Role::Yardstick, bare_loop(merge), "", &source));
    }
    let kind = if merge { "merge/" } else { "" };
    let name = format!("{}/{kind}{}/warm", place.name(), contents.name());
    let rounds =
        options.rounds.unwrap_or(if options.quick { 2 } else { rounds(place, contents, merge) });
    // One of them runs twice in each round.
    let runs = rounds * (subjects.len() + 1);
    let fixture = TreeFixture::new(place, contents, merge, runs, source, options);
    Case {
        name,
        rounds,
        baseline: "cp -a",
        again: "cp -a",
        subjects,
        targets: if options.quick { Vec::new() } else { targets(place, contents, merge) },
        fixture: Box::new(fixture),
    }
}

fn rounds(place: testbed::Filesystem, contents: Contents, merge: bool) -> usize {
    match contents {
        Contents::Small if is_beside_best(place, merge) => ROUNDS_BESIDE_BEST,
        Contents::Small => ROUNDS_OF_SMALL,
        Contents::Mixed => ROUNDS,
        Contents::Medium | Contents::Large => ROUNDS_OF_LARGE,
    }
}

/// Whether small files are held against the best peer.
fn is_beside_best(place: testbed::Filesystem, merge: bool) -> bool {
    place == testbed::Filesystem::Ext4 && !merge
}

fn bare_loop(merge: bool) -> Vec<OsString> {
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut command = vec![program.into_os_string(), "copy-bare".into()];
    command.extend(merge.then(|| "--merge".into()));
    command
}

fn targets(place: testbed::Filesystem, contents: Contents, merge: bool) -> Vec<Target> {
    let mut targets = vec![
        Target { band: BAND, ..at_most(1.0 + BAND, CPU, "uncopy cp -rp", "cp -a") },
        Target {
            subject: "uncopy cp -r".to_owned(),
            metric: PEAK_MEMORY,
            against: Against::Nothing,
            limit: MAX_MEMORY,
            band: 0.0,
        },
    ];
    if contents != Contents::Small {
        return targets;
    }
    let limit = match (place, merge) {
        (_, true) => 1.2,
        (testbed::Filesystem::Ext4, false) => 0.8,
        _ => 0.7,
    };
    targets.push(at_most(limit, WALL, "uncopy cp -rp", "cp -a"));
    if is_beside_best(place, merge) {
        let best = Target { against: Against::BestPeer, ..at_most(1.0, WALL, "uncopy cp -r", "") };
        targets.push(best);
    }
    targets
}

fn subject(
    name: &str,
    role: Role,
    command: Vec<OsString>,
    slash: &'static str,
    source: &Source,
) -> Subject {
    let source = Rc::clone(source);
    let action = Action::Process(Box::new(move |trial: &Trial| {
        let mut from = source.get().cloned().unwrap_or_default().into_os_string();
        from.push(slash);
        let mut whole = command.clone();
        whole.extend([from, trial.path.clone().into_os_string()]);
        whole
    }));
    Subject { name: name.to_owned(), role, action }
}
