//! Errors of the destination that the next file would meet too, in every call that changes one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};
use testbed::{
    CallPattern, Case, Compared, Fault, Intercept, Intercepted, Place, Program, Receipt, Run,
    Scratch, SystemCall, assert_same_tree, seeded,
};
use uncopy::Errno;

use crate::faults::{MOVING, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_new_tree,
        [] a_new_tree_flushed,
        [] a_new_tree_with_a_journal,
        [] a_merged_tree,
        [] several_trees,
        [] several_files,
        [] calls_of_the_source,
    ]
}

const LASTING: [Errno; 5] = [Errno::ENOSPC, Errno::EDQUOT, Errno::EROFS, Errno::EFBIG, Errno::EIO];

/// Calls that only a destination is changed by. Moving calls are looked at where they fail as such.
const CHANGING: [SystemCall; 10] = [
    SystemCall::MKDIRAT,
    SystemCall::SYMLINKAT,
    SystemCall::MKNODAT,
    SystemCall::LINKAT,
    SystemCall::RENAMEAT2,
    SystemCall::PWRITE64,
    SystemCall::FTRUNCATE,
    SystemCall::FALLOCATE,
    SystemCall::FSYNC,
    SystemCall::SYNCFS,
];

const ON_BOTH: [SystemCall; 2] = [SystemCall::SENDFILE, SystemCall::SPLICE];

/// Values of `--on-error`, and how they are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Nothing,
    Skip(How),
    Abort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Flag,
    Variable,
    File,
}

const SAYINGS: [Says; 5] = [
    Says::Nothing,
    Says::Skip(How::Flag),
    Says::Skip(How::Variable),
    Says::Skip(How::File),
    Says::Abort,
];

impl Says {
    fn to(self, program: &Program, home: &Path) -> Program {
        let program = program.clone();
        match self {
            Says::Nothing => program,
            Says::Skip(How::Flag) => program.arg("--on-error=skip"),
            Says::Skip(How::Variable) => program.env("UNCOPY_ON_ERROR", "skip"),
            Says::Skip(How::File) => {
                let file = home.join("config.toml");
                fs::write(&file, "on-error = 'skip'\n").unwrap();
                program.arg("--config").arg(file)
            }
            Says::Abort => program.arg("--on-error=abort"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Into {
    /// A tree that is not there yet.
    New,
    /// One that is.
    Merged,
    /// Into a directory: two trees, and a file.
    Several,
    /// Into a directory: files, without `--recursive`.
    Files,
}

struct Scene {
    from: Scratch,
    to: Scratch,
    into: Into,
    flags: &'static [&'static str],
}

impl Scene {
    fn new(into: Into, flags: &'static [&'static str]) -> Scene {
        let scene = Scene { from: Place::Disk.scratch(), to: Place::Disk.scratch(), into, flags };
        for name in ["one", "two"] {
            let root = scene.from.join(name);
            fs::create_dir_all(root.join("below")).unwrap();
            fs::write(root.join("small"), name).unwrap();
            fs::write(root.join("below/large"), seeded(1, 0, 200_003)).unwrap();
            fs::hard_link(root.join("small"), root.join("below/linked")).unwrap();
            symlink("small", root.join("link")).unwrap();
            let mode = Mode::from_raw_mode(0o640);
            rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, mode, 0).unwrap();
        }
        for name in ["three", "four"] {
            fs::write(scene.from.join(name), seeded(2, 0, 100_000)).unwrap();
        }
        scene
    }

    fn sources(&self) -> Vec<PathBuf> {
        let names: &[&str] = match self.into {
            Into::New | Into::Merged => &["one"],
            Into::Several => &["one", "two", "three"],
            Into::Files => &["three", "four"],
        };
        names.iter().map(|name| self.from.join(name)).collect()
    }

    fn destination(&self) -> PathBuf {
        self.to.join("destination")
    }

    /// Under which name each source is found.
    fn copies(&self) -> Vec<(PathBuf, PathBuf)> {
        let copy = |source: &PathBuf| match self.into {
            Into::New | Into::Merged => self.destination(),
            _ => self.destination().join(source.file_name().unwrap()),
        };
        self.sources().into_iter().map(|source| (source.clone(), copy(&source))).collect()
    }

    fn program(&self) -> Program {
        let program = uncopy().args(["cp", "--json"]).args(self.flags);
        let program = match self.into {
            Into::Files => program,
            Into::Several => program.args(["-r", "--specials", "--jobs=1"]),
            _ => program.args(["-r", "--specials", "--jobs=1", "-T"]),
        };
        program.args(self.sources()).arg(self.destination())
    }

    fn reset(&self) {
        for name in self.to.strangers(&[]) {
            let path = self.to.join(name);
            let is_directory = path.symlink_metadata().unwrap().is_dir();
            let removed =
                if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            removed.unwrap();
        }
        if self.into != Into::New {
            fs::create_dir(self.destination()).unwrap();
        }
    }

    /// Every error in every one of these calls, under each option.
    fn each(&self, calls: &[SystemCall]) {
        let home = Place::TestDirectory.scratch();
        let (step, fewest) = testbed::by_extent([(4, 4), (1, 16), (1, 16)]);
        let (mut happened, mut seen) = (0, 0);
        for says in SAYINGS {
            let program = says.to(&self.program(), home.path());
            let intercepted = Intercepted::new(&program);
            self.reset();
            let (run, counted) = intercepted.count();
            assert!(run.status.success(), "{}", run.stderr);
            for (place, call) in calls.iter().enumerate() {
                let times = counted.get(call).copied().unwrap_or(0);
                for nth in 1..=times {
                    // Options that are alike take the errors in turn.
                    let errnos = match says {
                        Says::Nothing => &LASTING[..],
                        _ => &LASTING[(place + nth) % 5..][..1],
                    };
                    for errno in errnos {
                        seen += 1;
                        if seen % step != 0 {
                            continue;
                        }
                        let fault = CallPattern::of(&[*call]).nth(nth).fails(*errno);
                        self.reset();
                        let intercept =
                            intercepted.clone().inject(fault.clone()).watch(&MOVING).run();
                        if intercept.hits > 0 {
                            happened += 1;
                            self.check(says, &intercept, &fault);
                        }
                    }
                }
            }
        }
        assert!(happened >= fewest, "{happened}");
    }

    fn check(&self, says: Says, intercept: &Intercept, fault: &Fault) {
        let run = &intercept.run;
        let context = || format!("{:?} {says:?}: {fault}: {run:?}", self.into);
        let events = run.receipts();
        let named = |name: &str| -> Vec<&Receipt> {
            events.iter().filter(|event| event.value()["event"] == name).collect()
        };
        let failed = named("failed");
        // Some calls are only tried, and others taken instead.
        if failed.is_empty() && run.status.success() {
            for (source, copy) in self.copies() {
                same(&source, &copy);
            }
            return assert!(named("incomplete").is_empty(), "{}", context());
        }
        // Where one mechanism is asked for, an error may rule it out.
        assert!(matches!(run.status.code(), Some(1 | 5)), "{}", context());
        let is_lasting = |event: &&Receipt| {
            let name = event.value()["errno_name"].as_str().unwrap_or("EIO").to_owned();
            event.value()["side"] == "destination" && LASTING.iter().any(|e| e.to_string() == name)
        };
        let lasting = failed.iter().filter(|event| is_lasting(event)).count();
        assert!(lasting > 0, "another error: {}", context());
        let incomplete = named("incomplete");
        match says {
            Says::Nothing => self.check_stopped(run, &events, fault),
            Says::Skip(_) => {
                assert!(incomplete.is_empty() && named("not_tried").is_empty(), "{}", context());
                // A journal that cannot be written is another matter: nothing can be noted any more.
                if !self.flags.contains(&"--resume") {
                    let early = events.iter().any(|event| event.value()["stopped_early"] == true);
                    assert!(!early, "{}", context());
                }
            }
            Says::Abort => {
                assert!(incomplete.is_empty(), "{}", context());
                let strangers = self.to.strangers(&["destination"]);
                let is_kept = self.flags.contains(&"--resume");
                assert!(strangers.is_empty() || is_kept, "{strangers:?}: {}", context());
            }
        }
        for (source, copy) in self.copies() {
            whole(&source, &copy);
        }
    }

    /// It ended at the error, nothing incomplete has its name, and another run makes all of it whole.
    fn check_stopped(&self, run: &Run, events: &[Receipt], fault: &Fault) {
        let context = || format!("{:?}: {fault}: {run:?}", self.into);
        let incomplete = events.iter().filter(|event| event.value()["event"] == "incomplete");
        if self.into != Into::Files {
            let summary = events.last().unwrap().value();
            assert_eq!(summary["stopped_early"], true, "{}", context());
        }
        let mut again = Vec::new();
        for incomplete in incomplete.map(Receipt::value) {
            let path = PathBuf::from(incomplete["path"].as_str().unwrap());
            let destination = PathBuf::from(incomplete["destination"].as_str().unwrap());
            assert!(path.is_dir() && !destination.exists(), "{}", context());
            assert!(run.stderr.contains(&*path.to_string_lossy()), "{}", context());
            assert_eq!(incomplete["resumable"], true, "{}", context());
            again.push((PathBuf::from(incomplete["source"].as_str().unwrap()), destination, path));
        }
        for (source, copy) in self.copies().into_iter().filter(|(source, _)| source.is_dir()) {
            // Below a name there is all of it, unless it was there before or the name came last.
            let is_new = self.into != Into::Merged && copy.exists();
            if is_new {
                same(&source, &copy);
            }
        }
        for (source, copy, path) in again {
            let flags = self.flags.iter().filter(|flag| **flag != "--resume");
            let program =
                uncopy().args(["cp", "-r", "--json", "--specials", "--jobs=1", "--resume"]);
            let resumed = program.args(flags).arg(&source).arg(&copy).run();
            assert!(resumed.status.success(), "{}: then {resumed:?}", context());
            same(&source, &copy);
            assert!(!path.exists(), "{}", context());
            if self.into == Into::New {
                let strangers = self.to.strangers(&["destination"]);
                assert!(strangers.is_empty(), "{strangers:?}: {}", context());
            }
        }
    }
}

fn same(source: &Path, copy: &Path) {
    if source.is_dir() {
        return assert_same_tree(source, copy, Compared::default());
    }
    assert!(fs::read(source).unwrap() == fs::read(copy).unwrap(), "{}", copy.display());
}

/// Asserts that a copy equals its source, if it exists.
fn whole(source: &Path, copy: &Path) {
    if source.is_dir() {
        for name in ["small", "below/large", "below/linked"] {
            whole(&source.join(name), &copy.join(name));
        }
    } else if let Ok(found) = fs::read(copy) {
        assert!(found == fs::read(source).unwrap(), "half of {}", copy.display());
    }
}

fn a_new_tree() {
    let scene = Scene::new(Into::New, &["--no-zero-copy"]);
    scene.each(&CHANGING);
    Scene::new(Into::New, &["--method=sendfile"]).each(&ON_BOTH);
}

fn a_new_tree_flushed() {
    Scene::new(Into::New, &["--no-zero-copy", "--durable"]).each(&CHANGING);
}

fn a_new_tree_with_a_journal() {
    Scene::new(Into::New, &["--no-zero-copy", "--resume"]).each(&CHANGING);
}

fn a_merged_tree() {
    Scene::new(Into::Merged, &["--no-zero-copy"]).each(&CHANGING);
}

fn several_trees() {
    Scene::new(Into::Several, &["--no-zero-copy"]).each(&CHANGING);
}

fn several_files() {
    Scene::new(Into::Files, &["--no-zero-copy"]).each(&CHANGING);
}

/// Calls that read the source fail with EIO: reported and counted, and the tree is in place.
fn calls_of_the_source() {
    let scene = Scene::new(Into::New, &["--no-zero-copy"]);
    let intercepted = Intercepted::new(&scene.program());
    let (mut happened, mut failures) = (0, 0);
    for call in [SystemCall::PREAD64, SystemCall::READ, SystemCall::READLINKAT] {
        for nth in 1.. {
            scene.reset();
            let fault = CallPattern::of(&[call]).nth(nth).fails(Errno::EIO);
            let intercept = intercepted.clone().inject(fault.clone()).run();
            if intercept.hits == 0 {
                break;
            }
            happened += 1;
            let run = &intercept.run;
            let events = run.receipts();
            let failed = events.iter().filter(|event| event.value()["event"] == "failed").count();
            failures += failed;
            let stopped = events.iter().any(|event| event.value()["event"] == "incomplete");
            assert!(!stopped, "{fault}: {run:?}");
            assert!(scene.destination().exists() || events.is_empty(), "{fault}: {run:?}");
        }
    }
    // A small file that could not be read is tried once more.
    assert!(happened > 3 && failures > 0, "{happened} {failures}");
}
