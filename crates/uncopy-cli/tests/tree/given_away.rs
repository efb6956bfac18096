//! Whoever owns the destination's directory renames files of root's over the names that root's copy
//! works under: none of them gets another owner, mode or time.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{CWD, FileType, Mode, mknodat, renameat};
use rustix::io::Errno;
use testbed::{
    CallPattern, Case, Intercept, Intercepted, Need, Place, Program, Scratch, SystemCall,
};

use crate::tree::cp;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] files_renamed_over_temporaries_are_not_given_away,
        [Need::Root] what_takes_the_name_of_a_directory_of_ours_is_not_used,
        [Need::Root] what_takes_the_name_of_a_half_built_tree_is_not_emptied,
        [Need::Root] what_is_made_has_what_its_source_has,
        [Need::Root] nothing_of_ours_is_left_beside_what_is_made,
    ]
}

/// Tells the attacker what to do.
pub(crate) const ROLE: &str = "UNCOPY_TEST_ATTACKER";

/// Owns source and destination.
const ATTACKER: u32 = 1000;

/// Links and FIFOs that one run of the program makes.
const ENTRIES: usize = 500;

/// Entries that are made while the attacker is at work.
fn rounds() -> usize {
    testbed::by_extent([1_000, 4_000, 12_000])
}

/// A source with links and FIFOs of the attacker's, and a destination that belongs to the attacker and
/// has one entry of each name.
struct Scene {
    root: Scratch,
}

impl Scene {
    fn at(place: Place) -> Scene {
        let root = place.scratch();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for directory in ["source", "destination"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        // The directory by which root watches its files.
        fs::DirBuilder::new().mode(0o700).create(root.join("vault")).unwrap();
        for number in 0..ENTRIES {
            let path = root.join(format!("source/{number}"));
            if number % 2 == 0 {
                symlink("nowhere", &path).unwrap();
            } else {
                fifo(&path, 0o666);
            }
            lchown(&path, Some(ATTACKER), Some(ATTACKER)).unwrap();
        }
        for directory in ["source", "destination"] {
            chown(root.join(directory), Some(ATTACKER), Some(ATTACKER)).unwrap();
        }
        Scene { root }
    }

    fn destination(&self) -> PathBuf {
        self.root.join("destination")
    }

    fn program(&self) -> Program {
        let program = cp().args(["-pT", "--specials", "--quiet"]);
        program.arg(self.root.join("source")).arg(self.destination())
    }

    /// Puts files and FIFOs of root's, for nobody else, where the attacker can rename them.
    fn lay_bait(&self) {
        for number in 0..2 * ENTRIES {
            for (kind, is_file) in [("file", true), ("fifo", false)] {
                let bait = self.destination().join(format!("{kind}{number}"));
                let kept = self.root.join(format!("vault/{kind}{number}"));
                if kept.symlink_metadata().is_ok() && bait.symlink_metadata().is_ok() {
                    continue;
                }
                let _ = (fs::remove_file(&kept), fs::remove_file(&bait));
                match is_file {
                    true => fs::write(&kept, "secret").unwrap(),
                    false => fifo(&kept, 0o600),
                }
                fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
                fs::hard_link(&kept, &bait).unwrap();
            }
        }
    }

    /// Describes the files that were harmed since then.
    fn harm(&self, since: i64) -> Vec<String> {
        let kept =
            fs::read_dir(self.root.join("vault")).unwrap().map(|entry| entry.unwrap().path());
        let is_harmed = |path: &PathBuf| {
            let found = path.symlink_metadata().unwrap();
            let is_as_it_was = (found.uid(), found.gid(), found.mode() & 0o7777) == (0, 0, 0o600);
            !is_as_it_was || found.mtime() < since
        };
        let describe = |path: PathBuf| {
            let found = path.symlink_metadata().unwrap();
            let (uid, gid, mode) = (found.uid(), found.gid(), found.mode());
            format!("{}: {uid}:{gid} {mode:o} {}", path.display(), found.mtime())
        };
        kept.filter(is_harmed).map(describe).collect()
    }
}

fn fifo(path: &Path, mode: u32) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(mode), 0).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn files_renamed_over_temporaries_are_not_given_away() {
    for swaps_directories in [false, true] {
        let scene = Scene::at(Place::Tmpfs);
        for entry in fs::read_dir(scene.root.join("source")).unwrap() {
            let times = rustix::fs::Timestamps {
                last_access: rustix::fs::Timespec { tv_sec: 1_000_000, tv_nsec: 0 },
                last_modification: rustix::fs::Timespec { tv_sec: 1_000_000, tv_nsec: 0 },
            };
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::utimensat(CWD, entry.unwrap().path(), &times, flags).unwrap();
        }
        let (mut made, mut attacks, mut runs) = (0, 0, 0);
        while made < rounds() / 2 {
            scene.lay_bait();
            let attacker = Attacker::start(&scene.destination(), swaps_directories);
            // Any outcome of the run is fine as long as nothing is given away.
            let run = scene.program().run();
            attacks += attacker.end();
            assert!(matches!(run.status.code(), Some(0 | 1)), "{run:?}");
            let harm = scene.harm(2_000_000);
            assert!(harm.is_empty(), "after {made} entries and {attacks} attacks: {harm:#?}");
            made += ENTRIES;
            runs += 1;
        }
        assert!(attacks >= runs, "{attacks} attacks in {runs} runs");
    }
}

/// Entry that takes the name of a directory of ours before that is opened.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Swapped {
    /// One of the attacker's, for all.
    Theirs,
    /// One of root's, for all.
    Open,
    /// One of root's with something in it, for nobody else.
    Full,
    Nothing,
}

/// Swaps the only directory of ours in `above`, and returns where the other one was put.
fn swap(above: &Path, by: Swapped) -> PathBuf {
    let ours: Vec<PathBuf> = fs::read_dir(above)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().as_bytes().starts_with(b".uncopy-"))
        // And not the record that says which it is.
        .filter(|path| path.is_dir())
        .collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
    fs::rename(&ours[0], above.join("away")).unwrap();
    if by == Swapped::Nothing {
        return ours[0].clone();
    }
    fs::create_dir(&ours[0]).unwrap();
    let (owner, mode) = match by {
        Swapped::Theirs => (ATTACKER, 0o777),
        Swapped::Full => (0, 0o700),
        _ => (0, 0o777),
    };
    fs::set_permissions(&ours[0], fs::Permissions::from_mode(mode)).unwrap();
    chown(&ours[0], Some(owner), Some(owner)).unwrap();
    if by == Swapped::Full {
        fs::write(ours[0].join("kept"), "kept").unwrap();
    }
    ours[0].clone()
}

fn what_takes_the_name_of_a_directory_of_ours_is_not_used() {
    for by in [Swapped::Theirs, Swapped::Open, Swapped::Full, Swapped::Nothing] {
        for merges in [false, true] {
            let root = Place::Disk.scratch();
            let (source, above) = (root.join("source"), root.join("above"));
            fs::create_dir_all(&source).unwrap();
            symlink("nowhere", source.join("link")).unwrap();
            fs::create_dir(&above).unwrap();
            let destination = if merges { above.clone() } else { above.join("copy") };
            let program = cp().args(["-pT", "--jobs=1"]).arg(&source).arg(&destination);
            let stopped = program.stop_after(SystemCall::MKDIRAT, 1);
            let other = swap(&above, by);
            // It is stopped again by nothing.
            let Intercept { run, log, .. } = stopped.resume();
            let context = format!("{by:?}, merges: {merges}: {run:?}");
            assert!(run.status.success(), "{context}");
            if by == Swapped::Full {
                assert_eq!(fs::metadata(&other).unwrap().mode() & 0o7777, 0o700, "{context}");
            }
            if let Ok(left) = fs::read_dir(&other) {
                let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
                assert_eq!(
                    names,
                    if by == Swapped::Full { vec!["kept"] } else { vec![] },
                    "{context}"
                );
            }
            assert!(destination.join("link").is_symlink(), "{context}");
            let made = log.iter().filter(|call| call.call == SystemCall::MKDIRAT);
            assert!(made.count() > 1, "{context}");
            // Whatever was moved away stays empty.
            assert!(fs::read_dir(above.join("away")).unwrap().next().is_none(), "{context}");
        }
    }
}

/// How a run ends that takes back the tree which it was building.
#[derive(Debug, Clone, Copy)]
enum TakenBack {
    /// Something else has got the destination's name.
    NameTaken,
    Interrupted,
    /// The journal of a run with `--resume` gets no name.
    NoJournal,
}

fn what_takes_the_name_of_a_half_built_tree_is_not_emptied() {
    for ended in [TakenBack::NameTaken, TakenBack::Interrupted, TakenBack::NoJournal] {
        let root = Place::Disk.scratch();
        let (source, above) = (root.join("source"), root.join("above"));
        fs::create_dir_all(source.join("a/b")).unwrap();
        fs::write(source.join("a/b/file"), "x").unwrap();
        fs::create_dir(&above).unwrap();
        let copy = above.join("copy");
        let program = cp().args(["-pT", "--jobs=1"]).arg(&source).arg(&copy);
        let stopped = match ended {
            TakenBack::NoJournal => {
                let second =
                    CallPattern::of(&[SystemCall::LINKAT]).nth(2).fails(uncopy::Errno::EIO);
                let intercepted = Intercepted::new(&program.arg("--resume")).inject(second);
                intercepted.stop_in(CallPattern::of(&[SystemCall::FSYNC]).nth(1))
            }
            _ => program.stop_after(SystemCall::MKDIRAT, 2),
        };
        let other = swap(&above, Swapped::Full);
        let intercept = match ended {
            TakenBack::NameTaken => {
                fs::create_dir(&copy).unwrap();
                stopped.resume()
            }
            TakenBack::Interrupted => stopped.resume_with(rustix::process::Signal::INT),
            TakenBack::NoJournal => stopped.resume(),
        };
        let run = intercept.run;
        let context = format!("{ended:?}: {run:?}");
        assert!(!run.status.success(), "{context}");
        assert_eq!(fs::read_to_string(other.join("kept")).unwrap(), "kept", "{context}");
        assert_eq!(fs::metadata(&other).unwrap().mode() & 0o7777, 0o700, "{context}");
        // The tree itself is known by its descriptor.
        assert!(fs::read_dir(above.join("away")).unwrap().next().is_none(), "{context}");
        // The record that stays names the tree, and not what has its name.
        let _ = fs::remove_dir(&copy);
        let run = cp().arg("-T").arg(&source).arg(&copy).run();
        assert!(run.status.success(), "{context}: {run:?}");
        assert_eq!(fs::read_to_string(other.join("kept")).unwrap(), "kept", "{context}");
    }
}

fn what_is_made_has_what_its_source_has() {
    let scene = Scene::at(Place::Disk);
    for _ in 0..2 {
        let run = scene.program().run();
        assert!(run.status.success(), "{run:?}");
        for number in 0..ENTRIES {
            let of = |tree: &str| {
                let path = scene.root.join(format!("{tree}/{number}"));
                let found = path.symlink_metadata().unwrap();
                (found.uid(), found.gid(), found.mode(), found.mtime(), found.mtime_nsec())
            };
            assert_eq!(of("source"), of("destination"), "{number}");
        }
        let of = |tree: &str| {
            let found = fs::metadata(scene.root.join(tree)).unwrap();
            (found.uid(), found.mode(), found.mtime(), found.mtime_nsec())
        };
        assert_eq!(of("source"), of("destination"));
    }
}

fn nothing_of_ours_is_left_beside_what_is_made() {
    let scene = Scene::at(Place::Disk);
    // Some cannot be replaced.
    fs::create_dir(scene.destination().join("4")).unwrap();
    let run = scene.program().run();
    run.failed(1);
    let found = fs::read_dir(scene.destination()).unwrap();
    let names = found.map(|entry| entry.unwrap().file_name());
    let strangers: Vec<_> = names.filter(|name| name.as_bytes().starts_with(b".")).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    assert_eq!(fs::read_dir(scene.destination()).unwrap().count(), ENTRIES);
}

/// A process of the user that owns the destination.
struct Attacker {
    process: Child,
}

impl Attacker {
    fn start(directory: &Path, swaps_directories: bool) -> Attacker {
        let mut process = Command::new("/proc/self/exe")
            .env(ROLE, if swaps_directories { "directories" } else { "files" })
            .env("LLVM_PROFILE_FILE", "/dev/null")
            .uid(ATTACKER)
            .gid(ATTACKER)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 1];
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut first).unwrap();
        Attacker { process }
    }

    /// How often it renamed something.
    fn end(mut self) -> usize {
        drop(self.process.stdin.take());
        let mut printed = String::new();
        let mut output = self.process.stdout.take().unwrap();
        std::io::Read::read_to_string(&mut output, &mut printed).unwrap();
        assert!(self.process.wait().unwrap().success(), "{printed}");
        printed.trim().parse().unwrap()
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the attacking process in its directory until its standard input ends.
pub(crate) fn attack(what: &OsStr) -> ExitCode {
    let swaps_directories = what == "directories";
    let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&events, ".", WatchFlags::CREATE).unwrap();
    let here = fs::File::open(".").unwrap();
    let mut attack = Attack { here, baits: [0; 2], decoys: 0, done: 0 };
    attack.decoy();
    println!();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(&events, &mut buffer);
    let mut rounds = 0_u32;
    loop {
        match reader.next() {
            Ok(event) => {
                let Some(name) = event.file_name() else { continue };
                let is_directory = event.events().contains(ReadFlags::ISDIR);
                if !name.to_bytes().starts_with(b".uncopy-") {
                    continue;
                }
                match is_directory {
                    true => attack.on_directory(name, swaps_directories),
                    false => attack.on_file(name),
                }
            }
            Err(Errno::AGAIN) => {
                rounds = rounds.wrapping_add(1);
                if rounds.is_multiple_of(1 << 12) && is_over() {
                    break;
                }
            }
            Err(errno) => panic!("{errno}"),
        }
    }
    println!("{}", attack.done);
    ExitCode::SUCCESS
}

fn is_over() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let input = std::io::stdin();
    let mut asked = [PollFd::new(&input, PollFlags::IN)];
    poll(&mut asked, Some(&now)).unwrap() > 0
}

struct Attack {
    here: fs::File,
    /// Files and FIFOs of root's that were used.
    baits: [usize; 2],
    decoys: usize,
    done: usize,
}

impl Attack {
    fn rename(&mut self, from: impl rustix::path::Arg, to: impl rustix::path::Arg) -> bool {
        let renamed = renameat(self.here.as_fd(), from, self.here.as_fd(), to).is_ok();
        self.done += usize::from(renamed);
        renamed
    }

    /// A bait takes the place of what was made.
    fn on_file(&mut self, name: &CStr) {
        let kind = self.done % 2;
        let bait = format!("{}{}", ["file", "fifo"][kind], self.baits[kind]);
        self.baits[kind] += usize::from(self.rename(bait, name));
    }

    /// A directory takes the place of what was made, every other time with a bait in it.
    fn on_directory(&mut self, name: &CStr, swaps: bool) {
        if !swaps {
            // It is only tried what becomes of it.
            let bait = format!("file{}", self.baits[0]);
            self.done += 1;
            self.rename(bait, name);
            return;
        }
        let away = format!("away{}", self.decoys);
        if self.rename(name, away.as_str()) {
            let decoy = format!("decoy{}", self.decoys);
            self.rename(decoy.as_str(), name);
            self.decoys += 1;
            self.decoy();
        }
    }

    fn decoy(&mut self) {
        let decoy = format!("decoy{}", self.decoys);
        // It may be left from the last run.
        let _ = fs::create_dir(&decoy);
        let _ = fs::set_permissions(&decoy, fs::Permissions::from_mode(0o777));
    }
}
