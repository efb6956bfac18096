//! Small files that nobody has changed for some seconds are read, or share their blocks, before they are
//! looked at, and are looked at once: what changes meanwhile is noticed.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use testbed::witness::{Call, Strace};
use testbed::{Case, Compared, Need, Place, Program, SystemCall, assert_same_tree};

use crate::tree::{Trees, calls};

type Test = (&'static str, fn(Place));

pub(crate) fn cases() -> Vec<Case> {
    let tests: [Test; 5] = [
        ("old_files_are_looked_at_once", old_files_are_looked_at_once),
        ("old_files_take_fewer_calls_than_cp", old_files_take_fewer_calls_than_cp),
        ("young_files_are_looked_at_twice", young_files_are_looked_at_twice),
        (
            "what_changes_before_the_look_is_copied_again",
            what_changes_before_the_look_is_copied_again,
        ),
        ("some_are_not_like_the_last", some_are_not_like_the_last),
    ];
    let places = [Place::Ext4, Place::Xfs, Place::Btrfs];
    let each = |place: Place| {
        tests.map(|(name, test)| {
            let needs = [Need::At(place), Need::Tool("strace")];
            Case::new(format!("tree::early::{name}::{place:?}"), &needs, move || test(place))
        })
    };
    places.into_iter().flat_map(each).collect()
}

const FILES: usize = 40;
const OLD: [u8; 4096] = [b'o'; 4096];

fn name(number: usize) -> String {
    format!("{number:02}")
}

fn trees(place: Place) -> Trees {
    let trees = Trees::at(place, place);
    for number in 0..FILES {
        trees.file(&name(number), OLD);
    }
    trees
}

/// Until what was made before counts as old.
fn grow_old() {
    sleep(Duration::from_secs(6));
}

fn program(trees: &Trees) -> Program {
    // No records: who wants to hear of each file has them copied one by one.
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy"));
    program.args(["cp", "-r", "--jobs=1"]).arg(trees.source()).arg(trees.destination())
}

/// Name of the call that moves the bytes of a small file.
fn move_of(place: Place) -> SystemCall {
    if place.has_reflinks() { SystemCall::IOCTL } else { SystemCall::PREAD64 }
}

/// How often regular files of the source were looked at, and moved.
fn looks_and_moves(trees: &Trees, place: Place) -> (usize, usize) {
    let (run, trace) = Strace::new(&program(trees)).run();
    assert!(run.status.success(), "{}", run.stderr);
    let source = trees.source();
    let is_of_source = |call: &&&Call| call.arguments.contains(source.to_str().unwrap());
    let is_file = |call: &&&Call| is_of_source(call) && call.arguments.contains("S_IFREG");
    let looks = trace.named(&["statx"]).iter().filter(is_file).count();
    // strace prints the number alone for a descriptor that is an argument.
    let is_move = |call: &&&Call| is_of_source(call) || call.arguments.contains("CLONE");
    (looks, trace.named(&[move_of(place).name()]).iter().filter(is_move).count())
}

fn old_files_are_looked_at_once(place: Place) {
    let trees = trees(place);
    grow_old();
    // The first one tells what the next are likely to be.
    assert_eq!(looks_and_moves(&trees, place), (FILES + 1, FILES));
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

fn old_files_take_fewer_calls_than_cp(place: Place) {
    let trees = calls::small_files(Trees::at(place, place));
    grow_old();
    let own = calls::counted(&trees, env!("CARGO_BIN_EXE_uncopy"), &["cp", "-r"], "own");
    let cp = calls::counted(&trees, "cp", &["-r"], "cp");
    let most = if place.has_reflinks() { 6 } else { 8 };
    assert!(calls::each(&own) <= most, "{own:?}");
    assert!(calls::each(&own) < calls::each(&cp), "{own:?}\n{cp:?}");
}

fn young_files_are_looked_at_twice(place: Place) {
    let trees = trees(place);
    grow_old();
    loop {
        let begin = Instant::now();
        for number in 0..FILES {
            let path = trees.source().join(name(number));
            let permissions = fs::metadata(&path).unwrap().permissions();
            fs::set_permissions(&path, permissions).unwrap();
        }
        let calls = looks_and_moves(&trees, place);
        // On a machine that is busy they may have grown old meanwhile.
        if begin.elapsed() < Duration::from_secs(3) {
            assert_eq!(calls, (2 * FILES, FILES));
            return;
        }
        fs::remove_dir_all(trees.destination()).unwrap();
    }
}

/// Change to a file between two calls of the program.
type Change = fn(&Path);

const CHANGES: [Change; 4] = [
    |path| drop(File::options().write(true).open(path).unwrap().set_len(100)),
    |path| fs::write(path, [b'n'; 4096]).unwrap(),
    |path| fs::write(path, [b'n'; 9000]).unwrap(),
    |path| {
        let before = SystemTime::now() - Duration::from_secs(1000);
        fs::write(path, [b'n'; 4096]).unwrap();
        File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
    },
];

/// The regular file of the source that a process has open.
fn open_source(process: i32, source: &Path) -> PathBuf {
    let links = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    links
        .map(|link| fs::read_link(link.unwrap().path()).unwrap())
        .find(|path| path.parent() == Some(source) && path.is_file())
        .expect("it is copying a file")
}

fn what_changes_before_the_look_is_copied_again(place: Place) {
    let all = CHANGES.map(|change| (change, trees(place)));
    grow_old();
    for (change, trees) in all {
        // Few look for a terminal.
        let stopped = program(&trees).stop_after(move_of(place), 20);
        let changed = open_source(stopped.process_id(), &trees.source());
        change(&changed);
        let run = stopped.resume().run;
        assert!(run.status.success(), "{}", run.stderr);
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
        trees.assert_no_strangers();
    }
}

/// Files unlike the last one: calls made ahead for them are wasted, and the copies are right.
fn some_are_not_like_the_last(place: Place) {
    let trees = trees(place);
    for (name, bytes) in [("a", 16 << 10), ("b", (16 << 10) + 1), ("c", 70_000), ("d", 1 << 20)] {
        trees.file(name, vec![b'x'; bytes]);
        trees.file(&format!("{name}.next"), OLD);
    }
    for (number, mode) in [0o600, 0o755, 0o444, 0o640, 0o000, 0o600, 0o600].into_iter().enumerate()
    {
        let path = trees.file(&format!("mode.{number}"), OLD);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    trees.file("empty", "");
    trees.file("linked", OLD);
    fs::hard_link(trees.source().join("linked"), trees.source().join("linked.again")).unwrap();
    let hole = File::create(trees.source().join("hole")).unwrap();
    hole.set_len(8192).unwrap();
    hole.write_all_at(&OLD, 4096).unwrap();
    trees.file("last", OLD);
    grow_old();
    let run = program(&trees).arg("-p").run();
    assert!(run.status.success(), "{}", run.stderr);
    let compared = Compared { modes: true, holes: place != Place::Btrfs, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
    trees.assert_no_strangers();
}
