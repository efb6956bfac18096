//! Comparison of two trees by the filesystem alone, independent of the program under test.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{SeekFrom, lgetxattr, llistxattr};

/// Attributes to compare, in addition to names, types, contents and links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// Permissions and owner.
    pub modes: bool,
    /// Modification time, in nanoseconds, also of directories.
    pub times: bool,
    /// Extended attributes, including ACLs.
    pub attributes: bool,
    /// Positions of data and holes.
    pub holes: bool,
}

impl Compared {
    /// Compares all attributes.
    #[must_use]
    pub const fn wholly() -> Compared {
        Compared { modes: true, times: true, attributes: true, holes: true }
    }
}

/// An entry, with the compared attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    kind: &'static str,
    contents: Vec<u8>,
    target: Option<PathBuf>,
    device: u64,
    mode: Option<(u32, u32, u32)>,
    modified: Option<(i64, i64)>,
    attributes: Option<BTreeMap<OsString, Vec<u8>>>,
    data: Option<Vec<(u64, u64)>>,
    /// First name, in order, of a file with several names in the tree.
    first_name: Option<PathBuf>,
}

/// Checks that `copy` is a tree like `original`.
///
/// # Panics
/// If it is not, with the first entries that differ.
#[track_caller]
pub fn assert_same_tree(original: &Path, copy: &Path, compared: Compared) {
    let (expected, found) = (read(original, compared), read(copy, compared));
    let mut differences = Vec::new();
    for (path, entry) in &expected {
        match found.get(path) {
            None => differences.push(format!("missing: {}", path.display())),
            Some(other) if other != entry => differences.push(difference(path, entry, other)),
            Some(_) => {}
        }
    }
    let strangers = found.keys().filter(|path| !expected.contains_key(*path));
    differences.extend(strangers.map(|path| format!("not in the original: {}", path.display())));
    differences.truncate(10);
    assert!(
        differences.is_empty(),
        "{} is not a copy of {}:\n{}",
        copy.display(),
        original.display(),
        differences.join("\n")
    );
}

fn difference(path: &Path, expected: &Entry, found: &Entry) -> String {
    let mut what = Vec::new();
    let mut row = |name: &str, same: bool, expected: String, found: String| {
        if !same {
            what.push(format!("{name}: {expected}, found {found}"));
        }
    };
    let (e, f) = (expected, found);
    row("kind", e.kind == f.kind, e.kind.into(), f.kind.into());
    let length = |entry: &Entry| format!("{} bytes", entry.contents.len());
    row("contents", e.contents == f.contents, length(e), length(f));
    macro_rules! rows {
        ($($field:ident),*) => {
            $(row(
                stringify!($field),
                e.$field == f.$field,
                format!("{:?}", e.$field),
                format!("{:?}", f.$field),
            );)*
        };
    }
    rows!(target, device, mode, modified, attributes, data, first_name);
    format!("{}: {}", path.display(), what.join("; "))
}

/// Lists all entries by path below `root`, the root itself with an empty path.
fn read(root: &Path, compared: Compared) -> BTreeMap<PathBuf, Entry> {
    let mut entries = BTreeMap::new();
    let mut names: HashMap<(u64, u64), Vec<PathBuf>> = HashMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        let path = if below.as_os_str().is_empty() { root.to_owned() } else { root.join(&below) };
        let metadata = fs::symlink_metadata(&path).expect("it was listed");
        if metadata.is_dir() {
            for entry in fs::read_dir(&path).expect("the test may read it") {
                waiting.push(below.join(entry.expect("readable").file_name()));
            }
        } else if metadata.nlink() > 1 {
            names.entry((metadata.dev(), metadata.ino())).or_default().push(below.clone());
        }
        entries.insert(below, entry(&path, &metadata, compared));
    }
    for mut group in names.into_values() {
        group.sort();
        let first = group[0].clone();
        for name in group {
            if let Some(entry) = entries.get_mut(&name) {
                entry.first_name = Some(first.clone());
            }
        }
    }
    entries
}

fn entry(path: &Path, metadata: &fs::Metadata, compared: Compared) -> Entry {
    let file_type = metadata.file_type();
    let kind = match () {
        () if file_type.is_file() => "file",
        () if file_type.is_dir() => "directory",
        () if file_type.is_symlink() => "symlink",
        () if file_type.is_fifo() => "fifo",
        () if file_type.is_socket() => "socket",
        () if file_type.is_char_device() => "character device",
        () => "block device",
    };
    let is_file = kind == "file";
    let has_mode = kind != "symlink";
    let mode = (if has_mode { metadata.mode() } else { 0 }, metadata.uid(), metadata.gid());
    Entry {
        kind,
        contents: if is_file { fs::read(path).expect("the test may read it") } else { Vec::new() },
        target: (kind == "symlink").then(|| fs::read_link(path).expect("it is a link")),
        device: if kind.ends_with("device") { metadata.rdev() } else { 0 },
        mode: compared.modes.then_some(mode),
        modified: compared.times.then(|| (metadata.mtime(), metadata.mtime_nsec())),
        attributes: compared.attributes.then(|| attributes(path)),
        data: (compared.holes && is_file).then(|| data(path, metadata.len())),
        first_name: None,
    }
}

fn attributes(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut list = vec![0; 64 << 10];
    let length = llistxattr(path, &mut list).unwrap_or(0);
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    // ACLs in XFS's disk format, which only root sees; on other filesystems the attribute has no
    // meaning.
    let is_twice = |name: &[u8]| name.starts_with(b"trusted.SGI_ACL_") && is_on_xfs(path);
    names
        .filter(|name| !is_twice(name))
        .map(|name| {
            let mut value = vec![0; 64 << 10];
            let length = lgetxattr(path, name, &mut value).expect("it was listed");
            value.truncate(length);
            (std::os::unix::ffi::OsStringExt::from_vec(name.to_vec()), value)
        })
        .collect()
}

fn is_on_xfs(path: &Path) -> bool {
    // include/uapi/linux/magic.h
    rustix::fs::statfs(path).is_ok_and(|answer| answer.f_type == 0x5846_5342)
}

/// Returns the runs of data, by `SEEK_DATA`.
fn data(path: &Path, length: u64) -> Vec<(u64, u64)> {
    let file = File::open(path).expect("the test may read it");
    let mut found = Vec::new();
    let mut at = 0;
    while at < length {
        let Ok(start) = rustix::fs::seek(&file, SeekFrom::Data(at)) else { break };
        let end = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap_or(length);
        found.push((start, end));
        at = end;
    }
    found
}
