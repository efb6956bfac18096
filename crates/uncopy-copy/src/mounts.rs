//! Reads the table of mounts (`proc_pid_mountinfo(5)`).

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use uncopy_os::file;

/// Place of a file in its filesystem, wherever that is mounted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FilesystemPlace {
    /// Device number as in the table.
    device: String,
    path: PathBuf,
}

/// Table of mounts of this process, as it was at one moment.
pub(crate) struct MountTable(String);

impl MountTable {
    /// Reads the table. `None`: `/proc` is not mounted.
    pub(crate) fn read() -> Option<MountTable> {
        fs::read_to_string("/proc/self/mountinfo").ok().map(MountTable)
    }

    /// Finds the place of an open file. `None`: it has no name here, or was mounted after the table was read.
    pub(crate) fn place_of(&self, file: impl AsFd) -> Option<FilesystemPlace> {
        let fd = file.as_fd();
        let path = fs::read_link(file::path_of(fd)).ok()?;
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
        self.place(mount, &path)
    }

    fn place(&self, mount: &str, path: &Path) -> Option<FilesystemPlace> {
        let line = self.0.lines().find(|line| line.split(' ').next() == Some(mount))?;
        let mut words = line.split(' ').skip(2);
        let device = words.next()?.to_owned();
        let root = PathBuf::from(unescaped(words.next()?));
        let point = PathBuf::from(unescaped(words.next()?));
        Some(FilesystemPlace { device, path: root.join(path.strip_prefix(point).ok()?) })
    }
}

/// Whether an open directory is another one or lies below it, by whichever mounts they were opened.
pub(crate) fn is_within(directory: impl AsFd, tree: impl AsFd) -> bool {
    let places =
        MountTable::read().and_then(|mounts| mounts.place_of(directory).zip(mounts.place_of(tree)));
    places.is_some_and(|(place, tree)| place.lies_within(&tree))
}

impl FilesystemPlace {
    /// Whether it is the other place, or lies below it.
    pub(crate) fn lies_within(&self, other: &FilesystemPlace) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }
}

/// Text of the table without its escapes: `\040` is a blank.
pub(crate) fn unescaped(text: &str) -> OsString {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_wherever_it_is_mounted() {
        let mounts = MountTable(
            r"21 1 254:1 / / rw - ext4 /dev/vda1 rw
30 21 254:1 /s/d\040e /t/m rw shared:5 - ext4 /dev/vda1 rw
31 21 254:1 /s/d\040ef /t/n rw - ext4 /dev/vda1 rw
32 21 0:32 / /tmp rw - tmpfs tmpfs rw
"
            .into(),
        );
        let place = |mount, path| mounts.place(mount, Path::new(path));
        let source = place("21", "/s").unwrap();
        let part = place("21", "/s/d e").unwrap();
        for (mount, path, in_source, in_part) in [
            ("30", "/t/m", true, true),
            ("30", "/t/m/x", true, true),
            ("31", "/t/n", true, false),
            ("21", "/t", false, false),
            ("32", "/tmp/s", false, false),
        ] {
            let found = place(mount, path).unwrap();
            let within = (found.lies_within(&source), found.lies_within(&part));
            assert_eq!(within, (in_source, in_part), "{path}");
        }
        assert_eq!(place("99", "/s"), None);
        // The name that the kernel shows lies elsewhere: it was moved meanwhile.
        assert_eq!(place("30", "/s/x"), None);
    }
}
