//! The state of the machine around a run.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::workspace;

/// A device that stands still for so long has nothing left to do.
const QUIET: Duration = Duration::from_millis(200);
/// Other processes may keep it busy for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// Drops clean page cache, dentries and inodes (`proc_sys_vm(5)`).
///
/// # Errors
/// If this is not root.
pub(super) fn drop_caches() -> Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3").context("cannot drop the page cache")
}

/// Loads the programs that `command` names into the page cache, with their libraries: a cold copy
/// is one whose source is not in memory, not one whose program is not.
pub(super) fn load_programs(command: &[OsString]) {
    let shell_words = command.iter().filter_map(|word| word.to_str());
    let inside = shell_words.flat_map(|text| text.split([' ', '&', '|']));
    let named = command.iter().filter_map(|word| word.to_str()).chain(inside);
    for path in named.filter_map(program_file) {
        // It is only to be in memory: whether it knows --version does not matter.
        let _ = fs::read(&path);
        let _ = Command::new(path)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

fn program_file(name: &str) -> Option<std::path::PathBuf> {
    let path = Path::new(name);
    if path.is_absolute() {
        let mode = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.mode();
        return (mode & 0o111 != 0).then(|| path.to_owned());
    }
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| workspace::find_program(name)).flatten()
}

/// Hands everything that was written to devices, and waits until the one below `directory` has
/// finished: writes, and the discards of what was deleted. Not in a quick run, which judges nothing.
///
/// # Errors
/// If the directory is not there.
pub(super) fn settle(directory: &Path, quick: bool) -> Result<()> {
    if quick {
        return Ok(());
    }
    rustix::fs::sync();
    let device = fs::metadata(directory)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let counters = format!("/sys/dev/block/{major}:{minor}/stat");
    let deadline = Instant::now() + PATIENCE;
    // A filesystem without a block device of its own has nothing to wait for.
    let mut last = fs::read_to_string(&counters).ok();
    let mut since = Instant::now();
    while last.is_some() && since.elapsed() < QUIET && Instant::now() < deadline {
        sleep(QUIET / 4);
        let now = fs::read_to_string(&counters).ok();
        if now != last {
            last = now;
            since = Instant::now();
        }
    }
    Ok(())
}
