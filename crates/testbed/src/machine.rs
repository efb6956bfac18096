//! Machines that share a filesystem, played by namespaces of mounts and host names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Place;
use crate::process::filesystem_and_source;

/// Enters the namespaces' contents, and becomes the program. Its arguments are the host name, the mount point, the block
/// device, and the command line.
///
/// The mounts of the tests are taken away first: the program sees the filesystem only through a mount of its own, and keeps no
/// other one from being unmounted. One whose mount point was removed meanwhile is gone already.
const ENTER: &str = "\
while read -r source target rest; do
    case $source:$target in *:/) ;; /dev/loop*) umount -l \"$target\" 2>/dev/null || : ;; esac
done </proc/mounts
echo \"$1\" >/proc/sys/kernel/hostname
mount \"$3\" \"$2\"
mount -t tmpfs none /dev/shm
shift 3
exec \"$@\"";

/// A machine with a host name, a mount of a shared filesystem at the path where all others have theirs, and a `/dev/shm`.
///
/// Needs root and `unshare(1)`.
#[derive(Debug, Clone)]
pub struct Machine {
    name: String,
    shared: PathBuf,
    device: String,
}

impl Machine {
    /// Makes a machine that shares one of [`Place::Ext4`], [`Place::Xfs`] and [`Place::Btrfs`].
    #[must_use]
    pub fn sharing(place: Place, name: &str) -> Machine {
        let shared = place.path();
        let (_, device) = filesystem_and_source(&shared).expect("what was mounted is in the table");
        Machine { name: name.to_owned(), shared, device }
    }

    /// Returns the host name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the words before a command line that runs there. The program keeps the process identifier of the first
    /// word.
    ///
    /// # Panics
    /// If the path of the shared filesystem is not UTF-8.
    #[must_use]
    pub fn wrapper(&self) -> [&str; 10] {
        let shared = self.shared.to_str().expect("names of tests are UTF-8");
        ["unshare", "--mount", "--uts", "sh", "-ec", ENTER, "sh", &self.name, shared, &self.device]
    }
}

/// Returns the host names of the machines that did units of the only plan whose ledger is below `destination`.
///
/// # Panics
/// If a record cannot be read.
#[must_use]
pub fn hosts_of_records(destination: &Path) -> BTreeSet<String> {
    let below = |directory: PathBuf| {
        fs::read_dir(directory)
            .expect("there is a ledger")
            .map(|entry| entry.expect("an entry").path())
    };
    let ledger = below(destination.join(".uncopy-ledger")).next().expect("a plan has a ledger");
    let is_record = |path: &PathBuf| {
        let number = path.file_stem().and_then(|stem| stem.to_str());
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let host = |path: PathBuf| {
        let record = fs::read(&path).expect("a record is readable");
        let record: Value = serde_json::from_slice(&record).expect("a record is JSON");
        record["host"].as_str().expect("a record names its host").to_owned()
    };
    below(ledger).filter(is_record).map(host).collect()
}
