//! A destination that takes no more: the new tree keeps its temporary name, is event, is left alone by
//! later runs, and another run goes on with it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testbed::{
    Case, Compared, Filesystem, Mount, Need, Place, Program, Run, Scratch, assert_same_tree,
    run_tool, seeded,
};

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::At(Place::Ext4)] ext4_full,
        [Need::At(Place::Xfs)] xfs_full,
        [Need::At(Place::Btrfs)] btrfs_full,
        [Need::Root] tmpfs_full,
        [Need::At(Place::Btrfs)] quota_exceeded,
        [Need::Tool("prlimit"), Need::KernelTimes] longer_than_the_limit_allows,
        [Need::Root] full_to_the_last_block,
        [Need::Root] no_inode_left,
        [Need::Root] with_a_journal_from_the_beginning,
        [Need::Root] options_that_say_otherwise,
        [Need::Root] by_several_workers,
        [Need::Tool("prlimit"), Need::KernelTimes] what_changed_in_between_is_copied_again,
        [Need::Tool("prlimit"), Need::KernelTimes] directories_that_changed_places_are_copied_again,
        [Need::Tool("prlimit"), Need::KernelTimes] what_was_changed_in_the_unfinished_tree_is_copied_again,
        [Need::Tool("prlimit"), Need::KernelTimes] later_runs_leave_it_alone,
        [Need::Tool("prlimit")] a_journal_whose_tree_is_gone_goes_too,
        [Need::Tool("prlimit"), Need::KernelTimes] a_second_one_beside_it_says_that_it_has_no_journal,
        [Need::Root, Need::Tool("prlimit")] without_times_of_birth_both_trees_stay,
        [Need::Tool("prlimit"), Need::KernelTimes] the_first_tree_is_complete_and_the_second_is_not,
        [Need::Tool("prlimit"), Need::KernelTimes] hard_links_and_odd_names,
    ]
}

pub(crate) const FILES: usize = 200;
pub(crate) const LARGE: &str = "a/b/z/large";

/// 200 small files in the root and below, and last a large one.
pub(crate) fn fill(source: &Path, large_bytes: u64) {
    for number in 0..FILES {
        let name = match number % 4 {
            0 => format!("{number}"),
            1 => format!("a/{number}"),
            _ => format!("a/b/{number}"),
        };
        let bytes = seeded(number as u64, 0, 100 + (number as u64 * 61) % 3000);
        crate::tree::file_in(source, &name, bytes);
    }
    crate::tree::file_in(source, LARGE, seeded(7, 0, large_bytes));
    // Their last change is clearly before the copy: some ticks of the kernel's clock.
    std::thread::sleep(Duration::from_millis(50));
}

pub(crate) fn trees(to: &Path, large_bytes: u64) -> Trees {
    let trees = Trees { from: Place::Disk.scratch(), to: Scratch::new_in(to) };
    fs::create_dir(trees.source()).unwrap();
    fill(&trees.source(), large_bytes);
    trees
}

/// A tree with one file that is longer than [`limited`] allows.
pub(crate) fn long() -> Trees {
    trees(&Place::Disk.path(), 300_000)
}

/// No file becomes longer than 200,000 bytes.
pub(crate) fn limited(program: Program) -> Program {
    program.through(["prlimit", "--fsize=200000"])
}

pub(crate) fn one_worker() -> Program {
    cp().arg("--jobs=1")
}

/// Returns the event about the tree that was not finished.
#[track_caller]
pub(crate) fn incomplete(run: &Run) -> serde_json::Value {
    let found = events(run, "incomplete");
    assert_eq!(found.len(), 1, "{} {}", run.stdout, run.stderr);
    found[0].value().clone()
}

/// Its path, which the message names too.
#[track_caller]
pub(crate) fn path(run: &Run) -> PathBuf {
    let path = PathBuf::from(incomplete(run)["path"].as_str().unwrap());
    assert!(path.is_absolute(), "{}", path.display());
    assert!(run.stderr.contains(&*path.to_string_lossy()), "{}", run.stderr);
    assert!(run.stderr.contains("--resume"), "{}", run.stderr);
    assert!(run.stderr.contains("delete"), "{}", run.stderr);
    path
}

/// The run ended early, and what is there is event.
#[track_caller]
pub(crate) fn assert_kept(trees: &Trees, run: &Run, errno: &str) -> PathBuf {
    assert!(run.failed(1).contains(errno), "{}", run.stderr);
    assert!(!trees.destination().exists(), "an incomplete tree has its final name");
    let path = path(run);
    assert_eq!(path.parent().unwrap(), fs::canonicalize(trees.to.path()).unwrap());
    assert!(path.is_dir());
    assert_eq!(incomplete(run)["resumable"], true, "{} {}", run.stdout, run.stderr);
    let summary = summary(run);
    assert_eq!(summary.value()["stopped_early"], true, "{}", run.stdout);
    let failed = events(run, "failed");
    assert!(failed.iter().any(|event| event.value()["side"] == "destination"), "{}", run.stdout);
    // Every file in it is whole.
    for file in files(&path) {
        let (original, copy) = (trees.source().join(&file), path.join(&file));
        let same = fs::read(original).unwrap() == fs::read(copy).unwrap();
        assert!(same, "half of {}", file.display());
    }
    path
}

/// The regular files below a directory.
pub(crate) fn files(root: &Path) -> BTreeSet<PathBuf> {
    let (mut files, mut waiting) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.symlink_metadata().unwrap().file_type() {
                kind if kind.is_dir() => waiting.push(path),
                kind if kind.is_file() => {
                    files.insert(path.strip_prefix(root).unwrap().to_owned());
                }
                _ => {}
            }
        }
    }
    files
}

/// Goes on, and copies again nothing but what is missing.
#[track_caller]
pub(crate) fn assert_goes_on(trees: &Trees, program: Program, path: &Path) {
    let there = files(path);
    let all = files(&trees.source());
    let missing: Vec<_> = all.difference(&there).collect();
    let bytes: u64 =
        missing.iter().map(|file| trees.source().join(file).metadata().unwrap().len()).sum();
    let run = trees.run(program);
    assert!(run.status.success(), "{}", run.stderr);
    let summary = summary(&run);
    assert_eq!(number(&summary, "files"), missing.len() as u64, "{}", summary.value());
    assert_eq!(number(&summary, "bytes"), bytes, "{}", summary.value());
    assert_eq!(number(&summary, "resumed"), there.len() as u64, "{}", summary.value());
    assert!(summary.value()["stopped_early"].is_null());
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

/// Takes room away until about this much is left. Returns the file to remove for it.
fn leave_free(mount: &Mount, bytes: u64) -> PathBuf {
    let filler = mount.path().join("filler");
    let stat = rustix::fs::statvfs(mount.path()).unwrap();
    let free = stat.f_bavail * stat.f_frsize;
    run_tool("fallocate", ["-l", &(free - bytes).to_string(), &filler.to_string_lossy()]);
    filler
}

fn full(mount: &Mount, free: u64) {
    let trees = trees(mount.path(), free + (4 << 20));
    let filler = leave_free(mount, free);
    let run = trees.run(one_worker());
    let path = assert_kept(&trees, &run, "ENOSPC");
    assert_eq!(files(&path).len(), FILES, "all but the large one");
    // A directory counts when it is finished, which none is.
    assert_eq!(incomplete(&run)["entries"], FILES);
    fs::remove_file(filler).unwrap();
    assert_goes_on(&trees, one_worker().arg("--resume"), &path);
    trees.assert_no_strangers();
}

fn ext4_full() {
    full(&Mount::image(Filesystem::Ext4, 32), 6 << 20);
}

fn xfs_full() {
    full(&Mount::image(Filesystem::Xfs, 320), 24 << 20);
}

fn btrfs_full() {
    full(&Mount::image(Filesystem::Btrfs, 200), 16 << 20);
}

fn tmpfs_full() {
    full(&Mount::tmpfs(16), 4 << 20);
}

fn quota_exceeded() {
    let mount = Mount::image(Filesystem::Btrfs, 200);
    let limited = mount.path().join("limited");
    run_tool("btrfs", ["quota".as_ref(), "enable".as_ref(), mount.path().as_os_str()]);
    run_tool("btrfs", ["subvolume".as_ref(), "create".as_ref(), limited.as_os_str()]);
    let limit = |bytes: &str| {
        run_tool(
            "btrfs",
            ["qgroup".as_ref(), "limit".as_ref(), bytes.as_ref(), limited.as_os_str()],
        );
    };
    limit("6M");
    let trees = trees(&limited, 12 << 20);
    let run = trees.run(one_worker());
    let path = assert_kept(&trees, &run, "EDQUOT");
    limit("none");
    assert_goes_on(&trees, one_worker().arg("--resume"), &path);
    trees.assert_no_strangers();
}

fn longer_than_the_limit_allows() {
    let trees = long();
    let run = trees.run(limited(one_worker()));
    let path = assert_kept(&trees, &run, "EFBIG");
    assert_eq!(files(&path).len(), FILES);
    assert_goes_on(&trees, one_worker().arg("--resume"), &path);
    trees.assert_no_strangers();
}

/// Small files up to the last block: the journal needs some of that room.
fn full_to_the_last_block() {
    for mount in [Mount::image(Filesystem::Ext4, 24), Mount::tmpfs(16)] {
        let trees = Trees { from: Place::Disk.scratch(), to: Scratch::new_in(mount.path()) };
        fs::create_dir(trees.source()).unwrap();
        for number in 0..3000 {
            trees.file(&format!("{number}"), seeded(number, 0, 4096));
        }
        std::thread::sleep(Duration::from_millis(50));
        let filler = leave_free(&mount, 6 << 20);
        let run = trees.run(one_worker());
        let path = assert_kept(&trees, &run, "ENOSPC");
        let there = files(&path).len();
        assert!((1000..3000).contains(&there), "{there}");
        assert_eq!(incomplete(&run)["entries"], there);
        fs::remove_file(filler).unwrap();
        assert_goes_on(&trees, one_worker().arg("--resume"), &path);
        trees.assert_no_strangers();
    }
}

fn no_inode_left() {
    let mount = Mount::tmpfs(64);
    mount.remount("nr_inodes=150");
    let trees = trees(mount.path(), 1000);
    let run = trees.run(one_worker());
    let path = assert_kept(&trees, &run, "ENOSPC");
    assert!(files(&path).len() > 100);
    mount.remount("nr_inodes=10000");
    assert_goes_on(&trees, one_worker().arg("--resume"), &path);
    trees.assert_no_strangers();
}

fn with_a_journal_from_the_beginning() {
    let mount = Mount::tmpfs(16);
    let trees = trees(mount.path(), 8 << 20);
    let filler = leave_free(&mount, 4 << 20);
    let program = one_worker().arg("--resume");
    let path = assert_kept(&trees, &trees.run(program.clone()), "ENOSPC");
    // Still no room: again it is kept, under the same name.
    assert_eq!(assert_kept(&trees, &trees.run(program.clone()), "ENOSPC"), path);
    fs::remove_file(filler).unwrap();
    assert_goes_on(&trees, program, &path);
    trees.assert_no_strangers();
}

/// By flag, by variable and by file.
fn saying(program: &Program, how: &str, value: &str, home: &Path) -> Program {
    match how {
        "flag" => program.clone().arg(format!("--on-error={value}")),
        "variable" => program.clone().env("UNCOPY_ON_ERROR", value),
        _ => {
            let file = home.join("config.toml");
            fs::write(&file, format!("on-error = '{value}'\n")).unwrap();
            program.clone().arg("--config").arg(file)
        }
    }
}

fn options_that_say_otherwise() {
    let home = Place::Disk.scratch();
    for how in ["flag", "variable", "file"] {
        let trees = long();
        let program = limited(one_worker());
        let skip = saying(&program, how, "skip", home.path());
        let run = trees.run(skip.clone());
        assert!(run.failed(1).contains("EFBIG"), "{how}: {}", run.stderr);
        assert_eq!(files(&trees.destination()).len(), FILES, "{how}");
        assert!(events(&run, "incomplete").is_empty(), "{how}: {}", run.stdout);
        trees.assert_no_strangers();
        let trees = long();
        let run = trees.run(saying(&program, how, "abort", home.path()));
        assert!(run.failed(1).contains("EFBIG"), "{how}: {}", run.stderr);
        assert!(!trees.destination().exists(), "{how}");
        assert!(events(&run, "incomplete").is_empty(), "{how}: {}", run.stdout);
        trees.assert_no_strangers();
        // The built-in value by its name displaces another.
        let trees = long();
        let usual = saying(&program, how, "stop-on-destination", home.path());
        assert_kept(&trees, &trees.run(usual), "EFBIG");
    }
}

fn by_several_workers() {
    for _ in 0..5 {
        let mount = Mount::tmpfs(32);
        let trees = trees(mount.path(), 8 << 20);
        for number in 0..8 {
            trees.file(&format!("z/{number}/large"), seeded(number, 0, 1 << 20));
        }
        std::thread::sleep(Duration::from_millis(50));
        let filler = leave_free(&mount, 4 << 20);
        let path = assert_kept(&trees, &trees.run(cp().arg("--jobs=4")), "ENOSPC");
        fs::remove_file(filler).unwrap();
        assert_goes_on(&trees, cp().args(["--jobs=4", "--resume"]), &path);
        trees.assert_no_strangers();
    }
}

fn what_changed_in_between_is_copied_again() {
    let trees = long();
    let path = assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    // The same length and time, but other contents, another file under its name, a lost one,
    // a directory instead of a file and the other way round.
    let source = trees.source();
    let rewrite = |name: &str| {
        let path = source.join(name);
        let times = fs::metadata(&path).unwrap().modified().unwrap();
        let bytes = vec![b'x'; fs::metadata(&path).unwrap().len() as usize];
        fs::write(&path, bytes).unwrap();
        fs::File::open(&path).unwrap().set_modified(times).unwrap();
    };
    rewrite("0");
    rewrite("a/1");
    let other = source.join("a/b/other");
    fs::write(&other, vec![b'y'; fs::metadata(source.join("a/b/2")).unwrap().len() as usize])
        .unwrap();
    fs::rename(&other, source.join("a/b/2")).unwrap();
    fs::remove_file(source.join("a/b/3")).unwrap();
    fs::remove_file(source.join("4")).unwrap();
    crate::tree::file_in(&source, "4/file", "new");
    let run = trees.run(one_worker().arg("--resume"));
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    trees.assert_no_strangers();
    let summary = summary(&run);
    // Those three, the new one and the large one.
    assert_eq!(number(&summary, "files"), 5, "{}", summary.value());
    assert_eq!(number(&summary, "resumed"), FILES as u64 - 5, "{}", summary.value());
    assert!(!path.exists());
}

/// Their files are older than every copy, of the same length, and have not changed.
fn directories_that_changed_places_are_copied_again() {
    let trees = Trees::new();
    for name in ["c/d/file", "e/d/file"] {
        trees.file(name, format!("this is {name}"));
    }
    trees.file(LARGE, seeded(7, 0, 300_000));
    std::thread::sleep(Duration::from_millis(50));
    assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    let source = trees.source();
    for (from, to) in [("c", "x"), ("e", "c"), ("x", "e")] {
        fs::rename(source.join(from), source.join(to)).unwrap();
    }
    let run = trees.run(one_worker().arg("--resume"));
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

fn what_was_changed_in_the_unfinished_tree_is_copied_again() {
    let trees = long();
    let path = assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    let copy = path.join("a/1");
    let bytes = vec![b'x'; fs::metadata(&copy).unwrap().len() as usize];
    fs::write(&copy, bytes).unwrap();
    let run = trees.run(one_worker().arg("--resume"));
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    assert_eq!(number(&summary(&run), "files"), 2);
}

fn later_runs_leave_it_alone() {
    let trees = long();
    let path = assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    let other = Place::Disk.scratch();
    let source = other.join("source");
    crate::tree::file_in(&source, "file", "small");
    let copy = |name: &str| {
        let run = cp().arg("-T").arg(&source).arg(trees.to.join(name)).run();
        assert!(run.status.success(), "{}", run.stderr);
    };
    // To the same name, to another one, into one that is there, and with others mirrored.
    for name in ["destination", "another", "destination"] {
        copy(name);
        assert_eq!(files(&path).len(), FILES);
    }
    fs::remove_dir_all(trees.destination()).unwrap();
    copy("destination");
    fs::remove_dir_all(trees.destination()).unwrap();
    fs::remove_dir_all(trees.to.join("another")).unwrap();
    assert_goes_on(&trees, one_worker().arg("--resume"), &path);
    trees.assert_no_strangers();
}

fn a_journal_whose_tree_is_gone_goes_too() {
    let trees = long();
    let path = assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    fs::remove_dir_all(path).unwrap();
    trees.copy(one_worker());
    let trees = long();
    let path = assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    fs::remove_dir_all(path).unwrap();
    // Nor does it keep the next one from having its own.
    assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    // One that was renamed is nobody's any more.
    let trees = long();
    let path = assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    fs::rename(&path, trees.to.join("renamed")).unwrap();
    let run = trees.run(one_worker().arg("--resume"));
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    assert_eq!(trees.to.strangers(&["destination", "renamed"]), [""; 0]);
    assert_eq!(files(&trees.to.join("renamed")).len(), FILES);
}

fn a_second_one_beside_it_says_that_it_has_no_journal() {
    let trees = long();
    let first = assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    let run = trees.run(limited(one_worker()));
    run.failed(1);
    let event = incomplete(&run);
    assert_eq!(event["resumable"], false, "{event}");
    assert!(run.stderr.contains(&*first.file_name().unwrap().to_string_lossy()), "{}", run.stderr);
    assert!(run.stderr.contains("rename"), "{}", run.stderr);
    let second = PathBuf::from(event["path"].as_str().unwrap());
    assert!(first.is_dir() && second.is_dir() && first != second);
    fs::remove_dir_all(second).unwrap();
    assert_goes_on(&trees, one_worker().arg("--resume"), &first);
    trees.assert_no_strangers();
}

/// There nothing shows that the tree is still the one that the journal names.
fn without_times_of_birth_both_trees_stay() {
    let mount = Mount::ramfs();
    let trees = trees(mount.path(), 300_000);
    let first = assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
    let run = trees.run(limited(one_worker()));
    run.failed(1);
    let event = incomplete(&run);
    assert_eq!(event["resumable"], false, "{event}");
    let second = PathBuf::from(event["path"].as_str().unwrap());
    assert!(first.is_dir() && second.is_dir() && first != second);
    fs::remove_dir_all(second).unwrap();
    assert!(testbed::journal::find(trees.to.path()).is_some(), "the first one's");
    // A whole copy leaves it there too.
    crate::tree::file_in(&trees.source(), LARGE, "small");
    let run = trees.run(one_worker());
    assert!(run.status.success(), "{}", run.stderr);
    assert!(testbed::journal::find(trees.to.path()).is_some(), "the first one's");
    fs::remove_dir_all(trees.destination()).unwrap();
    // Its files are copied again, since nothing shows that they are whole.
    let inode = first.metadata().unwrap().ino();
    trees.copy(one_worker().arg("--resume"));
    assert_eq!(trees.destination().metadata().unwrap().ino(), inode);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

fn the_first_tree_is_complete_and_the_second_is_not() {
    let trees = long();
    let [first, third] = ["first", "third"].map(|name| trees.from.join(name));
    crate::tree::file_in(&first, "file", "first");
    crate::tree::file_in(&third, "file", "third");
    let into = trees.destination();
    fs::create_dir(&into).unwrap();
    for target in [false, true] {
        let program = limited(one_worker());
        let sources = [first.clone(), trees.source(), third.clone()];
        let run = match target {
            true => program.arg("-t").arg(&into).args(sources).run(),
            false => program.args(sources).arg(&into).run(),
        };
        assert!(run.failed(1).contains("EFBIG"), "{}", run.stderr);
        assert_same_tree(&first, &into.join("first"), Compared::default());
        assert!(!into.join("source").exists() && !into.join("third").exists());
        assert!(run.stderr.contains(&*third.to_string_lossy()), "{}", run.stderr);
        let summary = summary(&run);
        assert_eq!(number(&summary, "sources_not_tried"), 1, "{}", summary.value());
        assert_eq!(number(&summary, "not_tried"), 1, "{}", summary.value());
        assert_eq!(incomplete(&run)["resumable"], true);
        let path = path(&run);
        // As the message says it.
        let resume = one_worker().arg("--resume").arg(trees.source()).arg(into.join("source"));
        let run = resume.run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(number(&crate::tree::summary(&run), "files"), 1);
        assert_same_tree(&trees.source(), &into.join("source"), Compared::default());
        assert!(!path.exists());
        let mut names: Vec<_> =
            fs::read_dir(&into).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["first", "source"]);
        fs::remove_dir_all(into.join("first")).unwrap();
        fs::remove_dir_all(into.join("source")).unwrap();
    }
}

fn hard_links_and_odd_names() {
    use std::os::unix::ffi::OsStrExt;
    let trees = Trees::new();
    let odd = std::ffi::OsStr::from_bytes(b"a\n\xff'\x1b[31m");
    let (source, destination) = (trees.from.join(odd), trees.to.join(odd));
    fill(&source, 300_000);
    fs::hard_link(source.join("0"), source.join("linked")).unwrap();
    std::os::unix::fs::symlink("0", source.join("link")).unwrap();
    let run = limited(one_worker()).arg(&source).arg(&destination).run();
    assert!(run.failed(1).contains("EFBIG"), "{}", run.stderr);
    assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
    assert!(!destination.exists());
    assert!(incomplete(&run)["destination_base64"].is_string());
    let run = one_worker().arg("--resume").arg(&source).arg(&destination).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(number(&summary(&run), "files"), 1, "{}", run.stdout);
    assert_same_tree(&source, &destination, Compared::default());
    let inode = |name: &str| destination.join(name).metadata().unwrap().ino();
    assert_eq!(inode("0"), inode("linked"));
}
