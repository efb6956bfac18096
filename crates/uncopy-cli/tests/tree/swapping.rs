//! Somebody swaps directories while they are copied: for links, and for other directories. Nothing
//! comes from where they lead, and nothing gets there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use std::time::Duration;
use testbed::{
    CallPattern, Case, Compared, Forbidden, Intercept, Intercepted, Program, SystemCall,
    WatchedCall, assert_same_tree, by_extent,
};
use uncopy::Errno;

use crate::tree::{Trees, cp, file_in};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_directory_that_is_opened_again_is_the_same_or_none,
        [] so_it_is_where_openat2_is_missing,
        [] nothing_is_written_where_a_swapped_destination_leads,
        [] trees_are_copied_where_openat2_is_missing,
    ]
}

/// Levels above the directories, which take all descriptors that a job keeps: an eighth of the limit.
const ABOVE: &str = "1/2/3/4/5/6/7/8";
const DESCRIPTORS: u32 = 40;

/// Directories whose descriptors are given up while their subdirectories are copied.
fn deep() -> Trees {
    let trees = Trees::new();
    for directory in ["a", "b", "c"] {
        for below in 0..6 {
            trees.file(&format!("{ABOVE}/{directory}/{below}/file"), "x");
        }
    }
    trees
}

/// With one worker and few descriptors.
fn program(trees: &Trees) -> Program {
    let program = cp().args(["--jobs=1", "-pT"]).arg(trees.source()).arg(trees.destination());
    let limit = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
    program.through(["sh", "-c", &limit])
}

/// The same, perhaps on a kernel without `openat2`.
fn intercepted(trees: &Trees, openat2: bool) -> Intercepted {
    let all = CallPattern::of(&[SystemCall::OPENAT2]);
    let fault = if openat2 { all.delayed(Duration::ZERO) } else { all.fails(Errno::ENOSYS) };
    Intercepted::new(&program(trees)).inject(fault)
}

/// A directory below `root` that is opened again, and the number of the call of openat2 after which
/// it has been entered, and is not open.
fn find_reopening(log: &[WatchedCall], root: &Path) -> (PathBuf, usize) {
    let is = |call: &WatchedCall, kind| call.call == kind;
    let calls: Vec<_> = log.iter().filter(|call| is(call, SystemCall::OPENAT2)).collect();
    let found = calls.windows(2).find_map(|pair| {
        let path = pair[1].paths().pop()?;
        let earlier = log.iter().position(|call| std::ptr::eq(call, pair[0]))?;
        let entered = log[..earlier].iter().any(|call| {
            let names = call.paths().into_iter().map(|path| path.file_name().map(OsStr::to_owned));
            is(call, SystemCall::OPENAT)
                && names.into_iter().any(|name| name.as_deref() == path.file_name())
        });
        let is_below = path.parent() == Some(&root.join(ABOVE));
        (is_below && entered).then(|| (path, pair[0].nth))
    });
    found.unwrap_or_else(|| panic!("nothing is opened again: {calls:#?}"))
}

/// Something that nobody named.
fn outside(trees: &Trees) -> PathBuf {
    for below in 0..6 {
        file_in(&trees.from, &format!("outside/{below}/file"), "secret");
        file_in(&trees.from, &format!("outside/{below}/more"), "secret");
    }
    trees.from.join("outside")
}

/// All that lies below a directory, with contents, modes and times.
fn state(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::symlink_metadata(path).unwrap();
    let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.mode());
    let mut text = format!("{path:?} {times:?}\n");
    if metadata.is_dir() {
        let mut below: Vec<PathBuf> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        below.sort();
        text.extend(below.iter().map(|path| state(path)));
    }
    text
}

fn contains(below: &Path, contents: &str) -> bool {
    fs::read_dir(below).into_iter().flatten().any(|entry| {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap() {
            metadata if metadata.is_dir() => contains(&path, contents),
            metadata => metadata.is_file() && fs::read_to_string(&path).unwrap() == contents,
        }
    })
}

#[derive(Debug, Clone, Copy)]
enum Swap {
    ForLink,
    ForDirectory,
}

/// Puts something else where a directory was.
fn swap(directory: &Path, outside: &Path, by: Swap) {
    fs::rename(directory, directory.with_file_name("moved away")).unwrap();
    match by {
        Swap::ForLink => std::os::unix::fs::symlink(outside, directory).unwrap(),
        Swap::ForDirectory => {
            let words = ["-r".as_ref(), outside.as_os_str(), directory.as_os_str()];
            testbed::run_tool("cp", words);
        }
    }
}

fn reopening(openat2: bool) {
    for by in [Swap::ForLink, Swap::ForDirectory] {
        for in_source in [true, false] {
            let trees = deep();
            // It merges: what is built aside has a name that nobody knows.
            let made = || fs::create_dir(trees.destination()).unwrap();
            made();
            let outside = outside(&trees);
            let Intercept { run, log, .. } = intercepted(&trees, openat2).record();
            assert!(run.status.success(), "{}", run.stderr);
            assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
            let root = if in_source { trees.source() } else { trees.destination() };
            let (directory, nth) = find_reopening(&log, &root);
            fs::remove_dir_all(trees.destination()).unwrap();
            made();
            let stopped = intercepted(&trees, openat2)
                .stop_in(CallPattern::of(&[SystemCall::OPENAT2]).nth(nth));
            let before = state(&outside);
            swap(&directory, &outside, by);
            let run = stopped.resume().run;
            let context = format!("{by:?}, source: {in_source}: {}", run.stderr);
            run.failed(1);
            match by {
                Swap::ForDirectory => {
                    let reason = "another directory took its name";
                    assert!(run.stderr.contains(reason), "{context}");
                }
                Swap::ForLink => assert!(run.stderr.contains("open again"), "{context}"),
            }
            assert_eq!(state(&outside), before, "{context}");
            if in_source {
                assert!(!contains(&trees.destination(), "secret"), "{context}");
            } else if let Swap::ForDirectory = by {
                // Nor into the directory that somebody put there.
                assert!(!contains(&directory, "x"), "{context}");
            }
        }
    }
}

fn a_directory_that_is_opened_again_is_the_same_or_none() {
    reopening(true);
}

fn so_it_is_where_openat2_is_missing() {
    reopening(false);
}

/// At every call that makes or changes something in a destination that is there.
fn nothing_is_written_where_a_swapped_destination_leads() {
    const CHANGING: [SystemCall; 6] = [
        SystemCall::MKDIRAT,
        SystemCall::OPENAT,
        SystemCall::LINKAT,
        SystemCall::WRITE,
        SystemCall::UTIMENSAT,
        SystemCall::GETDENTS64,
    ];
    let trees = Trees::new();
    for name in ["d/e/1", "d/e/2", "d/e/f/3", "d/4"] {
        trees.file(name, "x");
    }
    let outside = outside(&trees);
    let program = cp().args(["--jobs=1", "-pT", "--delete", "--delete-empty-source"]);
    let program = program.arg(trees.source()).arg(trees.destination());
    let reset = || {
        let _ = fs::remove_dir_all(trees.destination());
        for name in ["d/e/1", "d/e/stranger/below", "d/e/f/old"] {
            file_in(&trees.destination(), name, "old");
        }
    };
    reset();
    let Intercept { run, log, .. } = Intercepted::new(&program).record();
    assert!(run.status.success(), "{}", run.stderr);
    let before = state(&outside);
    let mut moments = 0;
    let [step, fewest] = by_extent([[4, 8], [1, 31], [1, 31]]);
    let calls = log.iter().filter(|call| CHANGING.contains(&call.call));
    let changing = calls.filter(|call| call.touches(&trees.destination()));
    for call in changing.step_by(step) {
        for directory in ["d", "d/e"] {
            reset();
            let stopped = program.stop_after(call.call, call.nth);
            swap(&trees.destination().join(directory), &outside, Swap::ForLink);
            let run = stopped.resume().run;
            let context = format!("{directory} after {} {}: {run:?}", call.call.name(), call.nth);
            assert_eq!(state(&outside), before, "{context}");
            // Whatever became of the rest.
            assert!(matches!(run.status.code(), Some(0 | 1)), "{context}");
            moments += 1;
        }
    }
    assert!(moments >= fewest, "{moments}");
}

/// Before Linux 5.6, and under filters that do not know the call, which answer otherwise.
fn trees_are_copied_where_openat2_is_missing() {
    for errno in [Errno::ENOSYS, Errno::EPERM] {
        let trees = deep();
        let program = cp().args(["--jobs=4", "-p"]);
        let limit = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
        let program = program.through(["sh", "-c", &limit]);
        trees.copy(program.forbidding(&[Forbidden::Call(SystemCall::OPENAT2)], errno));
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    }
}
