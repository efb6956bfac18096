//! Any tree equals its copy.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, makedev, mknodat, utimensat};
use testbed::{Case, Compared, Content, Need, Place, assert_same_tree, by_extent, run_tool};

use crate::tree::planting::Planting;
use crate::tree::{Trees, cp};

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
    extra: Extra,
}

/// Abilities that only some filesystems and some users have.
#[derive(Debug, Clone, Copy)]
struct Extra {
    attributes: bool,
    acl: Option<u32>,
    owner: Option<u32>,
}

fn extra() -> impl Strategy<Value = Extra> {
    let rarely = || prop::option::weighted(0.3, 1..100_000_u32);
    (prop::bool::weighted(0.3), rarely(), rarely()).prop_map(|(attributes, acl, owner)| Extra {
        attributes,
        acl,
        owner,
    })
}

#[derive(Debug, Clone)]
enum What {
    Directory,
    File {
        length: u64,
        data: Vec<(u64, u64)>,
    },
    Symlink(Vec<u8>),
    HardLink(prop::sample::Index),
    Fifo,
    Socket,
    /// Nobody opens it; root alone can make one.
    Device {
        block: bool,
        minor: u32,
    },
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
        1 => Just(What::Socket),
        1 => (any::<bool>(), 0..MIN_MINORS)
            .prop_map(|(block, minor)| What::Device { block, minor }),
    ];
    let modified = (0..2_000_000_000_u64, 0..1_000_000_000_u32);
    (any::<prop::sample::Index>(), name, what, 0..0o10000_u32, modified, extra()).prop_map(
        |(parent, name, what, mode, (seconds, nanoseconds), extra)| {
            let modified = Duration::new(seconds, nanoseconds);
            Planned { parent, name, what, mode, modified, extra }
        },
    )
}

/// Makes the tree; entries whose name is taken, and what this user cannot make, are left out.
fn plant(root: &Path, plan: &[Planned], planting: Planting) {
    let mut directories = vec![root.to_owned()];
    let mut files = Vec::new();
    let mut made = Vec::new();
    for entry in plan {
        let parent = entry.parent.get(&directories).clone();
        let path = parent.join(OsStr::from_bytes(&entry.name));
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
                symlink(OsStr::from_bytes(target), &path).unwrap();
                entry.extra.owner.iter().for_each(|user| planting.owner(&path, *user));
                continue;
            }
            What::HardLink(_) if files.is_empty() => continue,
            What::HardLink(which) => {
                fs::hard_link(which.get(&files), &path).unwrap();
                continue;
            }
            What::Fifo => special(&path, FileType::Fifo, 0),
            What::Socket => special(&path, FileType::Socket, 0),
            What::Device { .. } if !planting.as_root => continue,
            What::Device { block: true, minor } => special(&path, FileType::BlockDevice, *minor),
            What::Device { minor, .. } => special(&path, FileType::CharacterDevice, *minor),
        }
        made.push((path, entry));
    }
    // From below, and times last.
    for (path, entry) in made.iter().rev() {
        furnish(path, entry, planting);
    }
    for (path, entry) in made.iter().rev() {
        let (seconds, nanoseconds) = (entry.modified.as_secs(), entry.modified.subsec_nanos());
        let time = Timespec { tv_sec: seconds as i64, tv_nsec: nanoseconds.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

/// Number of minors that XFS has room for (`xfs_generic_create`, `fs/xfs/xfs_iops.c`); others have more.
const MIN_MINORS: u32 = 1 << 18;
const LAST_MAJOR: u32 = 0x1ff;

fn special(path: &Path, kind: FileType, minor: u32) {
    let major = if minor == 0 { 0 } else { LAST_MAJOR };
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), makedev(major, minor)).unwrap();
}

/// Owner, mode, attributes and ACL, in the order in which none takes another away.
fn furnish(path: &Path, entry: &Planned, planting: Planting) {
    let is_directory = matches!(entry.what, What::Directory);
    // A block of attributes is one of the file's blocks, and hides a hole of its size from stat(2).
    let is_dense = match &entry.what {
        What::File { length, data } => *data == [(0, *length)],
        _ => true,
    };
    entry.extra.owner.iter().for_each(|user| planting.owner(path, *user));
    let readable = match is_directory {
        _ if planting.as_root => 0,
        true => 0o700,
        false => 0o600,
    };
    fs::set_permissions(path, Permissions::from_mode(entry.mode | readable)).unwrap();
    // user.* is for files and directories alone (xattr(7)).
    let takes_attributes = is_directory || matches!(entry.what, What::File { .. });
    if entry.extra.attributes && takes_attributes && is_dense {
        planting.attributes(path);
    }
    if is_dense {
        entry.extra.acl.iter().for_each(|user| planting.acl(path, *user));
    }
}

fn any_tree_equals_its_copy(place: Place) {
    let config =
        Config { cases: by_extent([8, 24, 100]), failure_persistence: None, ..Config::default() };
    let plan = prop::collection::vec(planned(), 0..40);
    let planting = Planting::at(place, place);
    let result = TestRunner::new(config).run(&plan, |plan| {
        let trees = Trees::at(place, place);
        plant(&trees.source(), &plan, planting);
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
