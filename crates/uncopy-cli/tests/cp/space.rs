//! No room, no permission to grow, no writing at all: the old file stays, whole, and nothing else.

use std::path::Path;

use testbed::witness::Strace;
use testbed::{
    Case, Content, Filesystem, Mount, Need, Place, Program, Scratch, drop_from_cache, run_tool,
    seeded,
};

use crate::cp::{ACROSS, COPY_FILE_RANGE, DIRECT, READ_WRITE, SENDFILE, SPLICE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::At(Place::Ext4)] ext4_full,
        [Need::At(Place::Xfs)] xfs_full,
        [Need::At(Place::Xfs), Need::At(Place::Ext4), Need::Tool("strace")] xfs_full_behind_a_ring,
        [Need::At(Place::Btrfs)] btrfs_full,
        [Need::Root] tmpfs_full,
        [Need::Root] tmpfs_full_in_the_last_write,
        [Need::At(Place::Ext4)] full_while_copying_within,
        [Need::Root] full_while_copying_within_tmpfs,
        [Need::At(Place::Ext4)] full_in_place_says_so,
        [Need::At(Place::Ext4)] room_for_the_data_but_not_for_the_holes,
        [Need::At(Place::Btrfs)] quota_exceeded,
        [Need::At(Place::Ext4)] read_only_filesystem,
        [Need::Tool("prlimit")] longer_than_the_limit_allows,
        [Need::Tool("prlimit")] too_few_descriptors,
        [Need::At(Place::Tmpfs), Need::Tool("prlimit")] too_few_descriptors_on_tmpfs,
    ]
}

const MEBIBYTE: u64 = 1 << 20;

/// A source elsewhere that does not fit, and an old file that it was to replace.
struct Full {
    source: Scratch,
    target: Scratch,
    old: Vec<u8>,
}

impl Full {
    fn new(target: &Path, source_bytes: u64) -> Full {
        Full::from(Place::Tmpfs, target, source_bytes)
    }

    /// From a source that is not in the page cache, where that place has any other.
    fn from(source: Place, target: &Path, source_bytes: u64) -> Full {
        let source = source.scratch();
        drop_from_cache(&Content::dense(source_bytes).write(&source.join("source")));
        let target = Scratch::new_in(target);
        let old = seeded(5, 0, 200_000);
        std::fs::write(target.join("old"), &old).unwrap();
        std::fs::File::open(target.join("old")).unwrap().sync_all().unwrap();
        Full { source, target, old }
    }

    fn refuses(&self, program: &Program, errno: &str) {
        for destination in ["old", "new"] {
            let command = program.clone().arg(self.source.join("source"));
            let run = command.arg(self.target.join(destination)).run();
            let message = run.failed(1);
            assert!(message.contains(errno) && message.contains(destination), "{message}");
            assert!(
                std::fs::read(self.target.join("old")).unwrap() == self.old,
                "the old file is lost"
            );
            let strangers = self.target.strangers(&["old"]);
            assert!(strangers.is_empty(), "{program:?} left {strangers:?}");
        }
    }
}

/// A filesystem with less room than the source needs.
fn full(mount: &Mount, free_mebibytes: u64, errno: &str) {
    let full = Full::new(mount.path(), (free_mebibytes + 4) * MEBIBYTE);
    for method in [SENDFILE, SPLICE, READ_WRITE, DIRECT] {
        full.refuses(&cp_by(method), errno);
    }
    for program in [cp(), cp().arg("--durable"), cp().arg("--verify"), cp().arg("-p")] {
        full.refuses(&program, errno);
    }
}

/// Takes room away until about this much is left.
fn leave_free(mount: &Mount, mebibytes: u64) {
    let stat = rustix::fs::statvfs(mount.path()).unwrap();
    let free = stat.f_bavail * stat.f_frsize / MEBIBYTE;
    let length = format!("{}M", free - mebibytes);
    run_tool("fallocate", ["-l", &length, &mount.path().join("filler").to_string_lossy()]);
}

fn ext4_full() {
    let mount = Mount::image(Filesystem::Ext4, 16);
    leave_free(&mount, 4);
    full(&mount, 4, "ENOSPC");
}

fn xfs_full() {
    let mount = Mount::image(Filesystem::Xfs, 320);
    leave_free(&mount, 16);
    full(&mount, 16, "ENOSPC");
}

/// Many writes are under way at once; those before the one that fails have been made.
fn xfs_full_behind_a_ring() {
    let mount = Mount::image(Filesystem::Xfs, 320);
    leave_free(&mount, 16);
    let full = Full::from(Place::Ext4, mount.path(), 20 * MEBIBYTE);
    let program = cp_by(DIRECT).arg("--cache=skip");
    full.refuses(&program, "ENOSPC");
    let command = program.arg(full.source.join("source")).arg(full.target.join("new"));
    let (run, trace) = Strace::new(&command).run();
    run.failed(1);
    assert!(!trace.named(&["io_uring_enter"]).is_empty(), "not this way: {:#?}", trace.calls);
}

fn btrfs_full() {
    let mount = Mount::image(Filesystem::Btrfs, 128);
    leave_free(&mount, 8);
    full(&mount, 24, "ENOSPC");
}

fn tmpfs_full() {
    full(&Mount::tmpfs(4), 4, "ENOSPC");
}

/// The last write comes back short, and no other follows that would fail.
fn tmpfs_full_in_the_last_write() {
    let mount = Mount::tmpfs(4);
    // Beside the old file, in whole pages.
    let full = Full::new(mount.path(), 4 * MEBIBYTE - 200_704 + 50_000);
    for program in [cp()].into_iter().chain(ACROSS.map(cp_by)) {
        full.refuses(&program, "ENOSPC");
    }
}

/// Source and destination on the filesystem that fills up: copy_file_range meets ENOSPC itself.
fn full_while_copying_within() {
    fills_up(&Mount::image(Filesystem::Ext4, 24), 12);
}

/// Nothing can be reserved here: one call asks for all, and moves what still fits.
fn full_while_copying_within_tmpfs() {
    fills_up(&Mount::tmpfs(12), 8);
}

fn fills_up(mount: &Mount, mebibytes: u64) {
    let (source, old) = (mount.path().join("source"), mount.path().join("old"));
    Content::dense(mebibytes * MEBIBYTE).write(&source);
    std::fs::write(&old, b"old").unwrap();
    let names = || std::fs::read_dir(mount.path()).unwrap().count();
    let before = names();
    for method in [COPY_FILE_RANGE].into_iter().chain(ACROSS) {
        let run = cp_by(method).arg(&source).arg(&old).run();
        assert!(run.failed(1).contains("ENOSPC"), "{}", run.stderr);
        assert_eq!(std::fs::read(&old).unwrap(), b"old");
        assert_eq!(names(), before, "more than what was there");
    }
}

/// It gives up atomicity, and the message says what is there now.
fn full_in_place_says_so() {
    let mount = Mount::image(Filesystem::Ext4, 16);
    leave_free(&mount, 4);
    let full = Full::new(mount.path(), 8 * MEBIBYTE);
    let old = full.target.join("old");
    let run = cp().arg("--in-place").arg(full.source.join("source")).arg(&old).run();
    let message = run.failed(1);
    assert!(message.contains("ENOSPC"), "{message}");
    assert!(full.target.strangers(&["old"]).is_empty());
    // No message claims that the old contents are still there.
    if std::fs::read(&old).unwrap() != full.old {
        assert!(message.contains("mixture") || message.contains("in place"), "{message}");
    }
}

fn room_for_the_data_but_not_for_the_holes() {
    let mount = Mount::image(Filesystem::Ext4, 16);
    let (source, copy) = (mount.path().join("source"), mount.path().join("copy"));
    Content::sparse(64 * MEBIBYTE, &[(0, 4096), (40 * MEBIBYTE, MEBIBYTE)]).write(&source);
    let run = cp().arg(&source).arg(&copy).run();
    assert_eq!(run.receipt().bytes(), 64 * MEBIBYTE);
    testbed::assert_same(&source, &copy);
    std::fs::remove_file(&copy).unwrap();
    let run = cp().arg("--sparse=never").arg(&source).arg(&copy).run();
    assert!(run.failed(1).contains("ENOSPC"), "{}", run.stderr);
    assert!(!copy.exists());
}

fn quota_exceeded() {
    let mount = Mount::image(Filesystem::Btrfs, 200);
    let subvolume = mount.path().join("limited");
    run_tool("btrfs", ["quota".as_ref(), "enable".as_ref(), mount.path().as_os_str()]);
    run_tool("btrfs", ["subvolume".as_ref(), "create".as_ref(), subvolume.as_os_str()]);
    run_tool("btrfs", ["qgroup".as_ref(), "limit".as_ref(), "4M".as_ref(), subvolume.as_os_str()]);
    let full = Full::new(&subvolume, 8 * MEBIBYTE);
    for program in [cp(), cp_by(SPLICE), cp_by(READ_WRITE)] {
        full.refuses(&program, "EDQUOT");
    }
}

fn read_only_filesystem() {
    let mount = Mount::image(Filesystem::Ext4, 16);
    let full = Full::new(mount.path(), 1000);
    mount.remount("ro");
    full.refuses(&cp(), "EROFS");
    full.refuses(&cp().arg("--durable"), "EROFS");
    mount.remount("rw");
}

/// `ulimit -f`: by default the kernel also sends SIGXFSZ, of which a program that does not expect
/// it dies, leaving whatever it had begun.
fn longer_than_the_limit_allows() {
    let scratch = Place::Disk.scratch();
    let (source, old) = (scratch.join("source"), scratch.join("old"));
    Content::dense(4 * MEBIBYTE).write(&source);
    std::fs::write(&old, b"old").unwrap();
    for method in [COPY_FILE_RANGE, SENDFILE, SPLICE, READ_WRITE] {
        let limited = cp_by(method).through(["prlimit", "--fsize=1048576"]);
        for name in ["old", "new"] {
            let run = limited.clone().arg(&source).arg(scratch.join(name)).run();
            assert!(run.failed(1).contains("EFBIG"), "{}", run.stderr);
            assert_eq!(std::fs::read(&old).unwrap(), b"old");
            let strangers = scratch.strangers(&["source", "old"]);
            assert!(strangers.is_empty(), "left behind: {strangers:?}");
        }
    }
}

/// Wherever the descriptors run out, it is said, and nothing is left.
fn too_few_descriptors() {
    descriptors_run_out(Place::Disk);
}

/// Where nothing before it takes as many, they run out when the directory is to be flushed.
fn too_few_descriptors_on_tmpfs() {
    descriptors_run_out(Place::Tmpfs);
}

fn descriptors_run_out(place: Place) {
    let scratch = place.scratch();
    let (source, old) = (scratch.join("source"), scratch.join("old"));
    Content::dense(4 * MEBIBYTE).write(&source);
    let mut refused = 0;
    for limit in 4..16 {
        std::fs::write(&old, b"old").unwrap();
        let program = cp().through(["prlimit".to_owned(), format!("--nofile={limit}")]);
        let run = program.args(["--durable", "--verify"]).arg(&source).arg(&old).run();
        if run.status.success() {
            testbed::assert_same(&source, &old);
        } else {
            refused += 1;
            assert!(!run.stderr.trim().is_empty());
            assert_eq!(std::fs::read(&old).unwrap(), b"old", "{}", run.stderr);
        }
        let strangers = scratch.strangers(&["source", "old"]);
        assert!(strangers.is_empty(), "left behind with {limit}: {strangers:?}");
    }
    assert!((1..12).contains(&refused), "{refused} of 12 limits were too low");
}
