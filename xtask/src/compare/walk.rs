//! Files below a directory: counted, read, removed.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::Result;

/// Files and bytes below a directory.
pub(super) fn count(root: &Path) -> Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    visit(root, &mut |path| {
        files += 1;
        bytes += path.symlink_metadata()?.len();
        Ok(())
    })?;
    Ok((files, bytes))
}

/// Reads every file below a directory, so that it is in memory.
pub(super) fn read(root: &Path) -> Result<()> {
    visit(root, &mut |path| {
        std::io::copy(&mut File::open(path)?, &mut std::io::sink())?;
        Ok(())
    })
}

fn visit(root: &Path, look: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => waiting.push(entry.path()),
                false => look(&entry.path())?,
            }
        }
    }
    Ok(())
}

/// Removes a copy from an image that is mounted at `root`, and gives its blocks back to the disk that the image lies
/// on: each copy takes blocks that none had before, until the image is as large as it may become.
pub(super) fn remove(copy: &Path, root: &Path) -> Result<()> {
    fs::remove_dir_all(copy)?;
    crate::workspace::run(Command::new("fstrim").arg(root))
}
