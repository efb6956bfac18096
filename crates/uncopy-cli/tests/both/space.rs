//! No room, no permission to grow, no writing at all: the old file stays, whole, and nothing else.

use std::path::Path;

use testbed::witness::Strace;
use testbed::{
    Case, Content, Filesystem, Mount, Need, Place, Program, Scratch, drop_from_cache, run_tool,
    seeded,
};

use crate::both::{Form, cases_over};
use crate::cp::witnessed::Pair;
use crate::cp::{ACROSS, COPY_FILE_RANGE, DIRECT, READ_WRITE, SENDFILE, SPLICE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![
        Form::OVER_OLD;
        [Need::At(Place::Ext4)] ext4_full,
        [Need::At(Place::Xfs)] xfs_full,
        [Need::At(Place::Xfs), Need::At(Place::Ext4), Need::Tool("strace")] xfs_full_behind_a_ring,
        [Need::At(Place::Btrfs)] btrfs_full,
        [Need::Root] tmpfs_full,
        [Need::Root] tmpfs_full_in_the_last_write,
        [Need::At(Place::Ext4)] full_while_copying_within,
        [Need::Root] full_while_copying_within_tmpfs,
        [Need::At(Place::Ext4)] room_for_the_data_but_not_for_the_holes,
        [Need::At(Place::Btrfs)] quota_exceeded,
        [Need::At(Place::Ext4)] read_only_filesystem,
        [Need::Tool("prlimit")] longer_than_the_limit_allows,
        [Need::Tool("prlimit")] too_few_descriptors,
        [Need::At(Place::Tmpfs), Need::Tool("prlimit")] too_few_descriptors_on_tmpfs,
    ];
    cases.extend(testbed::cases![[Need::At(Place::Ext4)] full_in_place_says_so]);
    cases
}

const MEBIBYTE: u64 = 1 << 20;

/// A source elsewhere that does not fit, and an old file that it was to replace.
struct Full {
    pair: Pair,
    old: Vec<u8>,
    /// A directory beside that of the old file, with nothing in it.
    new: Scratch,
}

impl Full {
    fn new(form: Form, target: &Path, source_bytes: u64) -> Full {
        Full::from(form, Place::Tmpfs, target, source_bytes)
    }

    /// From a source that is not in the page cache, where that place has any other.
    fn from(form: Form, source: Place, target: &Path, source_bytes: u64) -> Full {
        let pair = Pair::within(form, source.scratch(), Scratch::new_in(target));
        drop_from_cache(&Content::dense(source_bytes).write(&pair.source));
        let old = seeded(5, 0, 200_000);
        pair.put_old(&old);
        std::fs::File::open(&pair.destination).unwrap().sync_all().unwrap();
        Full { pair, old, new: Scratch::new_in(target) }
    }

    /// Over the old file, and to a new name.
    fn refuses(&self, program: &Program, errno: &str) {
        for to in [&self.pair.to, &self.new] {
            let run = self.pair.command_to(program.clone(), to).run();
            let message = run.failed(1);
            let name = to.join("destination");
            let is_named = message.contains(&*name.to_string_lossy());
            assert!(message.contains(errno) && is_named, "{message}");
            self.pair.assert_kept(&self.old);
            let left = self.new.strangers(&[]);
            assert!(left.is_empty(), "{program:?} left {left:?}");
        }
    }
}

/// A filesystem with less room than the source needs.
fn full(form: Form, mount: &Mount, free_mebibytes: u64, errno: &str) {
    let full = Full::new(form, mount.path(), (free_mebibytes + 4) * MEBIBYTE);
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

fn ext4_full(form: Form) {
    let mount = Mount::image(Filesystem::Ext4, 16);
    leave_free(&mount, 4);
    full(form, &mount, 4, "ENOSPC");
}

fn xfs_full(form: Form) {
    let mount = Mount::image(Filesystem::Xfs, 320);
    leave_free(&mount, 16);
    full(form, &mount, 16, "ENOSPC");
}

/// Many writes are under way at once; those before the one that fails have been made.
fn xfs_full_behind_a_ring(form: Form) {
    let mount = Mount::image(Filesystem::Xfs, 320);
    leave_free(&mount, 16);
    let full = Full::from(form, Place::Ext4, mount.path(), 20 * MEBIBYTE);
    let program = cp_by(DIRECT).arg("--cache=skip");
    full.refuses(&program, "ENOSPC");
    let (run, trace) = Strace::new(&full.pair.command(program)).run();
    run.failed(1);
    assert!(!trace.named(&["io_uring_enter"]).is_empty(), "not this way: {:#?}", trace.calls);
}

fn btrfs_full(form: Form) {
    let mount = Mount::image(Filesystem::Btrfs, 128);
    leave_free(&mount, 8);
    full(form, &mount, 24, "ENOSPC");
}

fn tmpfs_full(form: Form) {
    full(form, &Mount::tmpfs(4), 4, "ENOSPC");
}

/// The last write comes back short, and no other follows that would fail.
fn tmpfs_full_in_the_last_write(form: Form) {
    let mount = Mount::tmpfs(4);
    // Beside the old file, in whole pages.
    let full = Full::new(form, mount.path(), 4 * MEBIBYTE - 200_704 + 50_000);
    for program in [cp()].into_iter().chain(ACROSS.map(cp_by)) {
        full.refuses(&program, "ENOSPC");
    }
}

/// Source and destination on the filesystem that fills up: copy_file_range meets ENOSPC itself.
fn full_while_copying_within(form: Form) {
    fills_up(form, &Mount::image(Filesystem::Ext4, 24), 12);
}

/// Nothing can be reserved here: one call asks for all, and moves what still fits.
fn full_while_copying_within_tmpfs(form: Form) {
    fills_up(form, &Mount::tmpfs(12), 8);
}

fn fills_up(form: Form, mount: &Mount, mebibytes: u64) {
    let (from, to) = (Scratch::new_in(mount.path()), Scratch::new_in(mount.path()));
    let pair = Pair::within(form, from, to);
    Content::dense(mebibytes * MEBIBYTE).write(&pair.source);
    pair.put_old(b"old");
    for method in [COPY_FILE_RANGE].into_iter().chain(ACROSS) {
        let run = pair.command(cp_by(method)).run();
        assert!(run.failed(1).contains("ENOSPC"), "{}", run.stderr);
        pair.assert_kept(b"old");
    }
}

/// It gives up atomicity, and the message says what is there now.
fn full_in_place_says_so() {
    let mount = Mount::image(Filesystem::Ext4, 16);
    leave_free(&mount, 4);
    let full = Full::new(Form::File, mount.path(), 8 * MEBIBYTE);
    let run = full.pair.command(cp().arg("--in-place")).run();
    let message = run.failed(1);
    assert!(message.contains("ENOSPC"), "{message}");
    full.pair.assert_no_strangers();
    // No message claims that the old contents are still there.
    if std::fs::read(&full.pair.destination).unwrap() != full.old {
        assert!(message.contains("mixture") || message.contains("in place"), "{message}");
    }
}

fn room_for_the_data_but_not_for_the_holes(form: Form) {
    let mount = Mount::image(Filesystem::Ext4, 16);
    let (from, to) = (Scratch::new_in(mount.path()), Scratch::new_in(mount.path()));
    let pair = Pair::within(form, from, to);
    Content::sparse(64 * MEBIBYTE, &[(0, 4096), (40 * MEBIBYTE, MEBIBYTE)]).write(&pair.source);
    assert_eq!(pair.copy(cp()).bytes(), 64 * MEBIBYTE);
    pair.remove_copy();
    let run = pair.command(cp().arg("--sparse=never")).run();
    assert!(run.failed(1).contains("ENOSPC"), "{}", run.stderr);
    pair.assert_nothing_left();
}

fn quota_exceeded(form: Form) {
    let mount = Mount::image(Filesystem::Btrfs, 200);
    let subvolume = mount.path().join("limited");
    run_tool("btrfs", ["quota".as_ref(), "enable".as_ref(), mount.path().as_os_str()]);
    run_tool("btrfs", ["subvolume".as_ref(), "create".as_ref(), subvolume.as_os_str()]);
    run_tool("btrfs", ["qgroup".as_ref(), "limit".as_ref(), "4M".as_ref(), subvolume.as_os_str()]);
    let full = Full::new(form, &subvolume, 8 * MEBIBYTE);
    for program in [cp(), cp_by(SPLICE), cp_by(READ_WRITE)] {
        full.refuses(&program, "EDQUOT");
    }
}

fn read_only_filesystem(form: Form) {
    let mount = Mount::image(Filesystem::Ext4, 16);
    let full = Full::new(form, mount.path(), 1000);
    mount.remount("ro");
    full.refuses(&cp(), "EROFS");
    full.refuses(&cp().arg("--durable"), "EROFS");
    mount.remount("rw");
}

/// `ulimit -f`: by default the kernel also sends SIGXFSZ, of which a program that does not expect
/// it dies, leaving whatever it had begun.
fn longer_than_the_limit_allows(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(4 * MEBIBYTE));
    for method in [COPY_FILE_RANGE, SENDFILE, SPLICE, READ_WRITE] {
        let limited = || pair.command(cp_by(method)).through(["prlimit", "--fsize=1048576"]);
        assert!(limited().run().failed(1).contains("EFBIG"));
        pair.assert_nothing_left();
        let old = pair.old_destination();
        assert!(limited().run().failed(1).contains("EFBIG"));
        pair.assert_kept(&old);
        pair.remove_copy();
    }
}

/// Wherever the descriptors run out, it is said, and nothing is left.
fn too_few_descriptors(form: Form) {
    descriptors_run_out(form, Place::Disk);
}

/// Where nothing before it takes as many, they run out when the directory is to be flushed.
fn too_few_descriptors_on_tmpfs(form: Form) {
    descriptors_run_out(form, Place::Tmpfs);
}

fn descriptors_run_out(form: Form, place: Place) {
    let pair = Pair::of(form, place, &Content::dense(4 * MEBIBYTE));
    let mut refused = 0;
    for limit in 4..24 {
        pair.put_old(b"old");
        let program = cp().through(["prlimit".to_owned(), format!("--nofile={limit}")]);
        let run = pair.command(program.args(["--durable", "--verify"])).run();
        if run.status.success() {
            pair.assert_copied();
        } else {
            refused += 1;
            assert!(!run.stderr.trim().is_empty());
            pair.assert_kept(b"old");
        }
    }
    assert!((1..20).contains(&refused), "{refused} of 20 limits were too low");
}
