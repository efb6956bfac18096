//! Wheels of the Python package, built by maturin.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::environment::Environment;
use super::package;
use crate::workspace;

/// Greatest size of a wheel that is published.
const MAX_BYTES: u64 = 5_000_000;

/// A wheel that was built for this machine.
pub(super) struct Wheel {
    path: PathBuf,
    is_optimised: bool,
}

impl Wheel {
    /// Builds a wheel for this machine: quickly, or as it is published.
    ///
    /// # Errors
    /// If maturin fails; what it said stands above.
    pub(super) fn build(tools: &Environment, is_optimised: bool) -> Result<Wheel> {
        let out = workspace::target_directory().join("python/wheels");
        if out.exists() {
            fs::remove_dir_all(&out).with_context(|| format!("cannot clear {}", out.display()))?;
        }
        let profile = if is_optimised { "c-library" } else { "dev" };
        let mut maturin = tools.program("maturin");
        maturin.args(["build", "--quiet", "--locked", "--profile", profile]);
        // The one that is published is built for older systems (`cargo xtask package wheel`).
        maturin.args(["--auditwheel", "skip", "--out"]).arg(&out).current_dir(package());
        workspace::run(maturin.env("CARGO_TARGET_DIR", workspace::target_directory()))?;
        Ok(Wheel { path: only_file(&out)?, is_optimised })
    }

    /// Checks name and size: one wheel is for every Python from 3.11 on.
    ///
    /// # Errors
    /// If it is for another Python, or too large.
    pub(super) fn check(&self) -> Result<()> {
        let name = self.path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let (version, machine) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
        let expected = format!("uncopy-{version}-cp311-abi3-linux_{machine}.whl");
        ensure!(name == expected, "the wheel is {name}, not {expected}");
        check_size(&self.path, self.is_optimised)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn check_size(path: &Path, is_optimised: bool) -> Result<()> {
    let bytes = fs::metadata(path).with_context(|| format!("no {}", path.display()))?.len();
    ensure!(
        !is_optimised || bytes <= MAX_BYTES,
        "{} has {bytes} bytes, and may have {MAX_BYTES}",
        path.display()
    );
    Ok(())
}

fn only_file(directory: &Path) -> Result<PathBuf> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let files: Vec<_> = entries.collect::<std::io::Result<_>>()?;
    match files.as_slice() {
        [one] => Ok(one.path()),
        _ => bail!("{} has {} files, not one", directory.display(), files.len()),
    }
}
