//! Any tree equals its copy.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use testbed::{Case, Compared, Content, Need, Place, assert_same_tree, run_tool};

use crate::{Trees, cp};

pub(crate) fn cases() -> Vec<Case> {
    [Place::Disk, Place::Ext4, Place::Xfs, Place::Btrfs]
        .into_iter()
        .map(|place| {
            let name = format!("tree::random::any_tree_equals_its_copy_on::{place:?}");
            Case::new(name, &[Need::At(place)], move || any_tree_equals_its_copy(place))
        })
        .collect()
}

/// An entry, in a directory that is chosen among those before it.
#[derive(Debug, Clone)]
struct Planned {
    parent: prop::sample::Index,
    name: Vec<u8>,
    what: What,
    mode: u32,
    modified: Duration,
}

#[derive(Debug, Clone)]
enum What {
    Directory,
    File { length: u64, data: Vec<(u64, u64)> },
    Symlink(Vec<u8>),
    HardLink(prop::sample::Index),
    Fifo,
}

fn file() -> impl Strategy<Value = What> {
    let length = prop_oneof![4 => 0..70_000_u64, 1 => 60_000..70_000_u64, 1 => 0..3_000_000_u64];
    let runs = prop::collection::vec((0.0..1.0_f64, 0.0..0.5_f64), 0..4);
    (length, any::<bool>(), runs).prop_map(|(length, dense, runs)| {
        if dense {
            return What::File { length, data: vec![(0, length)] };
        }
        let place = |part: f64| (length as f64 * part) as u64;
        let data = runs.into_iter().map(|(start, part)| {
            let start = place(start);
            (start, place(part).min(length - start))
        });
        What::File { length, data: data.collect() }
    })
}

fn planned() -> impl Strategy<Value = Planned> {
    let byte = any::<u8>().prop_map(|byte| if matches!(byte, 0 | b'/') { b'x' } else { byte });
    let name = prop::collection::vec(byte, 1..20).prop_map(|name| {
        if name.iter().all(|byte| *byte == b'.') { b"dots".to_vec() } else { name }
    });
    let what = prop_oneof![
        3 => Just(What::Directory),
        6 => file(),
        1 => name.clone().prop_map(What::Symlink),
        1 => any::<prop::sample::Index>().prop_map(What::HardLink),
        1 => Just(What::Fifo),
    ];
    let modified = (0..2_000_000_000_u64, 0..1_000_000_000_u32);
    (any::<prop::sample::Index>(), name, what, 0..0o10000_u32, modified).prop_map(
        |(parent, name, what, mode, (seconds, nanoseconds))| {
            let modified = Duration::new(seconds, nanoseconds);
            Planned { parent, name, what, mode, modified }
        },
    )
}

/// Makes the tree; entries whose name is taken are left out.
fn plant(root: &Path, plan: &[Planned]) {
    use std::os::unix::ffi::OsStrExt;
    let mut directories = vec![root.to_owned()];
    let mut files = Vec::new();
    let mut made = Vec::new();
    for entry in plan {
        let parent = entry.parent.get(&directories).clone();
        let path = parent.join(std::ffi::OsStr::from_bytes(&entry.name));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match &entry.what {
            What::Directory => {
                fs::create_dir(&path).unwrap();
                directories.push(path.clone());
            }
            What::File { length, data } => {
                drop(Content { length: *length, data: data.clone() }.write(&path));
                files.push(path.clone());
            }
            What::Symlink(target) => {
                symlink(std::ffi::OsStr::from_bytes(target), &path).unwrap();
                continue;
            }
            What::HardLink(_) if files.is_empty() => continue,
            What::HardLink(which) => {
                fs::hard_link(which.get(&files), &path).unwrap();
                continue;
            }
            What::Fifo => {
                run_tool("mkfifo", ["--".as_ref(), path.as_os_str()]);
            }
        }
        made.push((path, entry));
    }
    // From below, and times last.
    for (path, entry) in made.iter().rev() {
        let directory = matches!(entry.what, What::Directory);
        let readable = if directory { 0o700 } else { 0o600 };
        fs::set_permissions(path, Permissions::from_mode(entry.mode | readable)).unwrap();
    }
    for (path, entry) in made.iter().rev() {
        if !matches!(entry.what, What::Fifo) {
            let time = SystemTime::UNIX_EPOCH + entry.modified;
            File::open(path).unwrap().set_modified(time).unwrap();
        }
    }
}

fn any_tree_equals_its_copy(place: Place) {
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let plan = prop::collection::vec(planned(), 0..40);
    let result = TestRunner::new(config).run(&plan, |plan| {
        let trees = Trees::at(place, place);
        plant(&trees.source(), &plan);
        for flags in [&["--jobs=3"][..], &["--jobs=1", "--verify"]] {
            trees.copy(cp().args(["--specials", "--preserve=all"]).args(flags));
            assert_same_tree(&trees.source(), &trees.destination(), Compared::wholly());
            // And over itself.
            let again = cp().args(["--specials", "--preserve=all", "-T"]).args(flags);
            trees.copy(again);
            assert_same_tree(&trees.source(), &trees.destination(), Compared::wholly());
            run_tool("rm", ["-rf".as_ref(), trees.destination().as_os_str()]);
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
