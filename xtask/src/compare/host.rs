//! The machine that was measured on: its kernel, the filesystem below.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::workspace;

/// Where figures come from. What cannot be found out is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Host {
    /// Name and release of the kernel, and the processor it was built for.
    pub(crate) kernel: String,
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) is_virtual: bool,
    /// Filesystem of the directory that files are copied in: type and device.
    pub(crate) filesystem: String,
    /// The commit that was measured; with a `+` if files had been changed.
    pub(crate) commit: String,
    /// The arguments of `cargo xtask`.
    pub(crate) arguments: Vec<String>,
    pub(crate) unix_seconds: u64,
}

impl Host {
    /// This machine, and the filesystem of `directory`.
    pub(crate) fn look(directory: &Path) -> Host {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let system = rustix::system::uname();
        let words = [system.sysname(), system.release(), system.machine()];
        let (processors, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let kibibytes =
            field(&memory, "MemTotal").and_then(|v| v.strip_suffix(" kB")?.parse().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Host {
            kernel: words.map(|word| word.to_string_lossy().into_owned()).join(" "),
            processor: field(&processors, "model name").unwrap_or_default().to_owned(),
            // All of them, though a suite may have pinned itself to one.
            processors: processors.lines().filter(|line| line.starts_with("processor")).count(),
            memory_bytes: kibibytes.unwrap_or(0_u64) * 1024,
            is_virtual: field(&processors, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            filesystem: filesystem_of(
                directory,
                &fs::read("/proc/self/mountinfo").unwrap_or_default(),
            )
            .unwrap_or_default(),
            commit: commit(),
            arguments: std::env::args().skip(1).collect(),
            unix_seconds: now.as_secs(),
        }
    }
}

/// The value of the first line `NAME: VALUE`, as in /proc/cpuinfo.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

/// Type and device of the mount that `path` lies in (`proc_pid_mountinfo(5)`).
fn filesystem_of(path: &Path, mountinfo: &[u8]) -> Option<String> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mount = |line: &[u8]| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let point = unescaped(words.get(4)?);
        let rest = words.iter().position(|word| *word == b"-")?;
        let (kind, device) = (words.get(rest + 1)?, words.get(rest + 2)?);
        let name =
            format!("{} on {}", String::from_utf8_lossy(kind), String::from_utf8_lossy(device));
        path.starts_with(&point).then(|| (point.as_os_str().len(), name))
    };
    // The last of several mounts over one another is the visible one.
    let mounts = mountinfo.split(|byte| *byte == b'\n').filter_map(mount);
    mounts.max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

/// Spaces, tabs, newlines and backslashes are octal numbers there.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The commit of the working tree, if git knows it.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(workspace::root()).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return String::new() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let is_clean = changed.is_some_and(|changed| changed.is_empty());
    if is_clean { commit } else { format!("{commit}+") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 85\nmodel name\t: A CPU @ 2 GHz: fast\nflags : a hypervisor b\n";
        assert_eq!(field(text, "model name"), Some("A CPU @ 2 GHz: fast"));
        assert_eq!(field(text, "model"), Some("85"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn the_longest_mount_point_holds_a_path() {
        let mounts = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            30 22 0:25 / /nonexistent/a rw - tmpfs tmpfs rw\n\
            31 22 0:26 / /nonexistent/a\\040b rw - xfs /dev/loop0 rw\n\
            32 22 0:27 / /nonexistent/a rw master:3 - btrfs /dev/vdb rw\n";
        for (path, expected) in [
            ("/nonexistent", "ext4 on /dev/vda"),
            ("/nonexistent/a/c", "btrfs on /dev/vdb"),
            ("/nonexistent/ab", "ext4 on /dev/vda"),
            ("/nonexistent/a b/c", "xfs on /dev/loop0"),
        ] {
            assert_eq!(filesystem_of(Path::new(path), mounts).as_deref(), Some(expected), "{path}");
        }
        assert_eq!(filesystem_of(Path::new("/nonexistent"), b"nonsense\n\n"), None);
    }

    #[test]
    fn this_machine_says_what_it_is() {
        let host = Host::look(Path::new("/"));
        assert!(host.kernel.starts_with("Linux ") && host.processors > 0, "{host:?}");
        assert!(host.memory_bytes > 1 << 20 && host.unix_seconds > 1 << 30, "{host:?}");
    }
}
