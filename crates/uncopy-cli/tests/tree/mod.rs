//! `uncopy cp -r`, as a black box: trees are compared by what the filesystem says of them.

mod as_cp;
mod audit;
pub(crate) mod audit_stats;
mod beside_rsync;
mod calls;
mod comparing;
mod deep;
mod early;
mod errors;
pub(crate) mod given_away;
mod hard_links;
mod holes;
mod incomplete;
mod interrupted;
mod kinds;
mod kinds_replaced;
mod leftovers;
mod link_dest;
mod links;
mod long;
mod manifest;
mod merging;
mod mirroring;
mod noticing;
mod outliving;
mod parts;
mod planning;
mod planting;
mod random;
mod removing;
mod resuming;
mod retrying;
pub(crate) mod roots;
mod selecting;
mod stopping;
mod summaries;
mod swapping;
mod synced;
mod trusting;
mod words;

use std::path::{Path, PathBuf};

use testbed::{Case, Place, Program, Receipt, Run, Scratch};

/// `uncopy cp -r --json`.
fn cp() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "-r", "--json"])
}

/// A source and a destination that is not there yet, each in a directory of its own.
struct Trees {
    from: Scratch,
    to: Scratch,
}

impl Trees {
    fn at(from: Place, to: Place) -> Trees {
        let trees = Trees { from: from.scratch(), to: to.scratch() };
        std::fs::create_dir(trees.source()).unwrap();
        trees
    }

    fn new() -> Trees {
        Trees::at(Place::Disk, Place::Disk)
    }

    /// On two filesystems where the case is not run on the test directory: nothing can be shared.
    fn apart() -> Trees {
        Trees::at(Place::TestDirectory, Place::Disk)
    }

    fn source(&self) -> PathBuf {
        self.from.join("source")
    }

    fn destination(&self) -> PathBuf {
        self.to.join("destination")
    }

    /// Makes a file of the source, and the directories that it lies in.
    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        file_in(&self.source(), name, contents)
    }

    fn run(&self, program: Program) -> Run {
        program.arg(self.source()).arg(self.destination()).run()
    }

    /// Copies; nothing but the destination is left.
    #[track_caller]
    fn copy(&self, program: Program) -> Run {
        let run = self.run(program);
        assert!(run.status.success(), "{}: {}", run.status, run.stderr);
        self.assert_no_strangers();
        run
    }

    #[track_caller]
    fn assert_no_strangers(&self) {
        let strangers = self.to.strangers(&["destination"]);
        assert!(strangers.is_empty(), "left behind: {strangers:?}");
    }
}

fn file_in(root: &Path, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, contents).unwrap();
    path
}

/// The last line of a job: its summary.
#[track_caller]
fn summary(run: &Run) -> Receipt {
    let receipts = run.receipts();
    let last = receipts.last().unwrap_or_else(|| panic!("nothing was printed: {}", run.stderr));
    assert_eq!(last.value()["event"], "summary", "{}", run.stdout);
    last.clone()
}

#[track_caller]
fn number(receipt: &Receipt, key: &str) -> u64 {
    receipt.value()[key].as_u64().unwrap_or_else(|| panic!("no {key} in {}", receipt.value()))
}

/// The events of this kind, but the summary.
fn events(run: &Run, event: &str) -> Vec<Receipt> {
    run.receipts().into_iter().filter(|receipt| receipt.value()["event"] == event).collect()
}

/// Cases that depend on no filesystem, bring their own, or take long and resemble another.
const ONCE: [&str; 14] = [
    "a_line_fits_the_terminal",
    "what_takes_the_name_of_a_directory_of_ours_is_not_used",
    "files_renamed_over_temporaries_are_not_given_away",
    "by_several_workers",
    "full_to_the_last_block",
    "no_inode_left",
    "options_that_say_otherwise",
    "tmpfs_full",
    "with_a_journal_from_the_beginning",
    "a_terminal_shows_how_far_it_is",
    "what_is_noted_survives_a_power_cut",
    "another_directory_of_that_name_takes_the_copy_in",
    "another_job_does_not_go_by_it",
    "three_thousand_levels_with_few_descriptors",
];

pub(crate) fn cases() -> Vec<Case> {
    let cases = [
        as_cp::cases(),
        audit::cases(),
        beside_rsync::cases(),
        calls::cases(),
        comparing::cases(),
        deep::cases(),
        early::cases(),
        errors::cases(),
        given_away::cases(),
        hard_links::cases(),
        holes::cases(),
        incomplete::cases(),
        interrupted::cases(),
        kinds::cases(),
        kinds_replaced::cases(),
        leftovers::cases(),
        link_dest::cases(),
        links::cases(),
        long::cases(),
        manifest::cases(),
        merging::cases(),
        mirroring::cases(),
        noticing::cases(),
        outliving::cases(),
        parts::cases(),
        planning::cases(),
        random::cases(),
        removing::cases(),
        resuming::cases(),
        retrying::cases(),
        roots::cases(),
        selecting::cases(),
        stopping::cases(),
        summaries::cases(),
        swapping::cases(),
        synced::cases(),
        trusting::cases(),
        words::cases(),
    ];
    testbed::on_each_filesystem(cases.into_iter().flatten().collect(), &ONCE)
}
