//! Archives whose bits depend on the files in them alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::build::Setting;
use crate::workspace;

/// Writes `DIRECTORY/NAME` as `NAME.tar.gz`, with the files sorted, owned by root, and of one time
/// (<https://reproducible-builds.org/docs/archives/>).
///
/// # Errors
/// If tar cannot be started or fails.
pub(super) fn write(setting: &Setting, directory: &Path, name: &str) -> Result<PathBuf> {
    let archive = setting.out().join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--format=gnu", "--numeric-owner"]);
    tar.args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX", "--use-compress-program=gzip -9n"]);
    tar.arg(format!("--mtime=@{}", setting.epoch()));
    tar.arg("--file").arg(&archive).arg("--directory").arg(directory).arg(name);
    workspace::run(&mut tar)?;
    Ok(archive)
}
