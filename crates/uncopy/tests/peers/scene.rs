//! Trees to copy, and what is looked at afterwards.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use testbed::{Compared, assert_same_tree};
use uncopy::copy::job::{JobError, JobOptions, Summary, copy_from_peer};

use crate::played::Played;

/// Directories for one test.
pub(crate) struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Makes a tree with entries of each kind.
    pub(crate) fn tree(&self) -> PathBuf {
        let tree = self.path("tree");
        make_tree(&tree);
        tree
    }

    /// Checks that `there` is a copy of the tree, but for its FIFO.
    #[track_caller]
    pub(crate) fn assert_copy(&self) {
        let there = self.path("there");
        let mode = Mode::from_raw_mode(0o640);
        mknodat(CWD, there.join("fifo"), FileType::Fifo, mode, 0).unwrap();
        // The new name changed the time of the root.
        let time = fs::metadata(self.path("tree")).unwrap().modified().unwrap();
        File::open(&there).unwrap().set_modified(time).unwrap();
        let fifo = fs::metadata(self.path("tree/fifo")).unwrap().modified().unwrap();
        let times = rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            last_modification: timespec(fifo),
        };
        rustix::fs::utimensat(CWD, there.join("fifo"), &times, rustix::fs::AtFlags::empty())
            .unwrap();
        let compared = Compared { holes: false, ..Compared::wholly() };
        assert_same_tree(&self.path("tree"), &there, compared);
    }

    /// Checks that no temporary name is left beside or below a destination.
    #[track_caller]
    pub(crate) fn assert_no_temporary_names(&self, keeps_journal: bool) {
        let left = temporary_names(self.directory.path());
        let allowed = |path: &PathBuf| keeps_journal && is_of_journal(path);
        let left: Vec<PathBuf> = left.into_iter().filter(|path| !allowed(path)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn timespec(time: SystemTime) -> rustix::fs::Timespec {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    rustix::fs::Timespec {
        tv_sec: since.as_secs() as i64,
        tv_nsec: i64::from(since.subsec_nanos()),
    }
}

fn is_of_journal(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str());
    matches!(end, Some("journal" | "tree"))
        || path.ancestors().any(|above| above.extension().is_some_and(|end| end == "tree"))
}

fn temporary_names(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().as_bytes().starts_with(b".uncopy-") {
            found.push(path.clone());
        }
        if path.is_dir() && !path.is_symlink() {
            found.extend(temporary_names(&path));
        }
    }
    found
}

/// Size of the large file, which is resumable and has three chunks and a rest.
pub(crate) const LARGE_BYTES: u64 = (33 << 20) + 777;

/// Bytes that differ at each offset.
pub(crate) fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8 ^ seed).collect()
}

pub(crate) fn make_tree(tree: &Path) {
    let below = tree.join("a directory/below");
    fs::create_dir_all(&below).unwrap();
    fs::create_dir(tree.join("empty")).unwrap();
    fs::write(tree.join("small"), "some text").unwrap();
    fs::write(tree.join("nothing"), "").unwrap();
    fs::write(below.join("other"), bytes(70_000, 1)).unwrap();
    fs::write(tree.join(std::ffi::OsStr::from_bytes(b"\xff\xfe name")), "no text").unwrap();
    fs::write(below.join("large"), bytes(3 << 20, 2)).unwrap();
    let sparse = File::create(tree.join("sparse")).unwrap();
    sparse.set_len(20 << 20).unwrap();
    for at in [0, 5 << 20, 11 << 20] {
        sparse.write_all_at(&bytes(9000, 3), at).unwrap();
    }
    let hole = File::create(tree.join("hole")).unwrap();
    hole.set_len(100_000).unwrap();
    fs::write(tree.join("first name"), "of two").unwrap();
    fs::hard_link(tree.join("first name"), below.join("second name")).unwrap();
    symlink("small", tree.join("link")).unwrap();
    symlink("nowhere/at all", below.join("broken link")).unwrap();
    symlink("a directory", tree.join("link to directory")).unwrap();
    mknodat(CWD, tree.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    for (name, value) in [(c"user.one", &b"1"[..]), (c"user.two", b"two")] {
        setxattr(tree.join("small"), name, value, XattrFlags::empty()).unwrap();
        setxattr(tree.join("a directory"), name, value, XattrFlags::empty()).unwrap();
    }
    for (name, mode) in [("small", 0o600), ("nothing", 0o444), ("empty", 0o750)] {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (name, age) in [("small", 1000), ("a directory/below/other", 2000), ("a directory", 3000)] {
        let time = SystemTime::now() - Duration::from_secs(age);
        File::open(tree.join(name)).unwrap().set_modified(time).unwrap();
    }
}

/// Copies the first root of a peer.
pub(crate) fn receive(
    peer: &Arc<Played>,
    destination: &Path,
    options: &JobOptions,
) -> Result<Summary, JobError> {
    let peer: Arc<Played> = Arc::clone(peer);
    copy_from_peer(peer, [("there:tree", destination)], options, &())
}
