//! Another process looks at the destination's directory without pause while files are copied: at no
//! moment is there anything that it may read and that is not whole.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use testbed::{Case, Content, Need, Place, Program};

use crate::metadata::set_mode;
use crate::witnessed::Pair;
use crate::{READ_WRITE, SENDFILE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] temporary_files_are_closed_to_others,
        [Need::Tool("strace")] temporary_files_without_o_tmpfile_are_closed_to_others,
        [] trees_are_closed_until_they_are_whole,
        [] private_destinations_stay_private,
    ]
}

/// What lies in the directory, may be read by others and is not whole; and how often it was looked.
fn open_files(
    directory: &Path,
    is_whole: &(dyn Fn(&Path) -> bool + Sync),
    over: &AtomicBool,
) -> (BTreeSet<String>, usize) {
    let (mut found, mut looks) = (BTreeSet::new(), 0);
    while !over.load(Ordering::Relaxed) {
        looks += 1;
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            // It may be gone again.
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.mode() & 0o077 != 0 && !is_whole(&path) && path.exists() {
                found.insert(format!("{} with mode {:o}", path.display(), metadata.mode()));
            }
        }
    }
    (found, looks)
}

/// Copies again and again while another thread looks.
fn race(
    directory: &Path,
    rounds: usize,
    is_whole: impl Fn(&Path) -> bool + Sync,
    copy: impl Fn(usize),
) {
    let over = AtomicBool::new(false);
    let (found, looks) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| open_files(directory, &is_whole, &over));
        (0..rounds).for_each(&copy);
        over.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    assert!(looks > rounds, "{looks} looks at {rounds} copies");
    assert!(found.is_empty(), "{found:?}");
}

fn public_pair(length: u64) -> Pair {
    let pair = Pair::at(Place::Disk, &Content::dense(length));
    set_mode(&pair.source, 0o666);
    pair.old_destination();
    set_mode(&pair.destination, 0o666);
    pair
}

const LENGTH: u64 = 3 << 20;

/// As long as what was there before, or as the source.
fn has_its_length(path: &Path) -> bool {
    let length = fs::metadata(path).map_or(LENGTH, |metadata| metadata.len());
    length == LENGTH || path.ends_with("destination")
}

/// A source that everybody may read, and a umask that takes nothing away.
fn temporary_files_are_closed_to_others() {
    let pair = public_pair(LENGTH);
    let programs = [cp(), cp().arg("-p"), cp_by(SENDFILE), cp_by(READ_WRITE).arg("--durable")];
    race(pair.to.path(), 40, has_its_length, |round| {
        let program = programs[round % programs.len()].clone().with_umask("000");
        let _ = pair.command(program).run().receipt();
    });
}

/// On such filesystems the data lies under a temporary name all the while.
fn temporary_files_without_o_tmpfile_are_closed_to_others() {
    let pair = public_pair(LENGTH);
    let unnamed = crate::leftovers::unnamed_file_call(&pair, &cp());
    let refuse = format!("{}:error=EOPNOTSUPP:when={}", unnamed.name, unnamed.nth);
    race(pair.to.path(), 10, has_its_length, |_| {
        let command = pair.command(cp().with_umask("000"));
        let _ = testbed::witness::Strace::new(&command).inject(&refuse).run();
    });
}

fn trees_are_closed_until_they_are_whole() {
    let (from, to) = (Place::Disk.scratch(), Place::Disk.scratch());
    let source: PathBuf = from.join("source");
    fs::create_dir(&source).unwrap();
    for number in 0..40 {
        let path = source.join(number.to_string());
        fs::write(&path, vec![1; 20_000]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    }
    let destination = to.join("destination");
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "-rT", "--resume"]);
    let program = program.with_umask("000").arg(&source).arg(&destination);
    // The destination itself goes again, file by file.
    let is_whole = |path: &Path| {
        let files = fs::read_dir(path).map_or(40, |entries| entries.flatten().count());
        files == 40 || path.ends_with("destination")
    };
    race(to.path(), 30, is_whole, |_| {
        assert!(program.run().status.success());
        fs::remove_dir_all(&destination).unwrap();
    });
}

/// Where the destination is nobody else's business, nothing that belongs to it ever is.
fn private_destinations_stay_private() {
    let pair = public_pair(LENGTH);
    set_mode(&pair.destination, 0o600);
    race(
        pair.to.path(),
        30,
        |_| false,
        |_| {
            let _ = pair.command(cp().with_umask("000")).run().receipt();
        },
    );
}
