//! Wheels of the Python package, built by maturin: one for this machine, and those that are published.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::environment::Environment;
use super::package;
use crate::workspace;

/// Greatest size of a wheel that is published.
const MAX_BYTES: u64 = 5_000_000;

/// A wheel that is published: for which systems, and by which standard library.
pub(crate) struct PublishedWheel {
    target: &'static str,
    /// Oldest system that it is for (PEP 600, PEP 656).
    compatibility: &'static str,
    /// The same in the name of the file.
    tag: &'static str,
}

/// Every wheel that is published. glibc 2.17 and musl 1.2 are the oldest that Rust's standard library works with.
pub(crate) const PUBLISHED: [PublishedWheel; 4] = [
    PublishedWheel {
        target: "x86_64-unknown-linux-gnu",
        compatibility: "manylinux2014",
        tag: "manylinux2014_x86_64.manylinux_2_17_x86_64",
    },
    PublishedWheel {
        target: "aarch64-unknown-linux-gnu",
        compatibility: "manylinux2014",
        tag: "manylinux2014_aarch64.manylinux_2_17_aarch64",
    },
    PublishedWheel {
        target: "x86_64-unknown-linux-musl",
        compatibility: "musllinux_1_2",
        tag: "musllinux_1_2_x86_64",
    },
    PublishedWheel {
        target: "aarch64-unknown-linux-musl",
        compatibility: "musllinux_1_2",
        tag: "musllinux_1_2_aarch64",
    },
];

impl PublishedWheel {
    /// Name of the file: one wheel is for every Python from 3.11 on.
    fn file_name(&self) -> String {
        format!("uncopy-{}-cp311-abi3-{}.whl", env!("CARGO_PKG_VERSION"), self.tag)
    }

    /// Builds the wheel into `out` with the settings of `cargo`, and zig for what C code there is. Maturin checks that the
    /// module needs nothing that older systems lack.
    ///
    /// # Errors
    /// If it cannot be built, has another name than its systems say, or is too large.
    pub(crate) fn build(
        &self,
        tools: &Environment,
        cargo: &Command,
        out: &Path,
    ) -> Result<PathBuf> {
        let mut maturin = tools.program("maturin");
        for (name, value) in cargo.get_envs() {
            match value {
                // Flags for a compiler that zig takes the place of.
                _ if name == "CFLAGS" => {}
                Some(value) => drop(maturin.env(name, value)),
                None => drop(maturin.env_remove(name)),
            }
        }
        maturin.args(["build", "--quiet", "--locked", "--profile", "c-library", "--zig"]);
        maturin.args(["--target", self.target, "--compatibility", self.compatibility]);
        maturin.arg("--out").arg(out).current_dir(package());
        workspace::run(&mut maturin).with_context(|| {
            format!("is its standard library there? rustup target add {}", self.target)
        })?;
        let wheel = out.join(self.file_name());
        check_size(&wheel, true)?;
        Ok(wheel)
    }
}

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

#[cfg(test)]
mod tests {
    use super::PUBLISHED;

    #[test]
    fn names_say_which_systems_wheels_are_for() {
        let names = PUBLISHED.map(|wheel| wheel.file_name());
        let tags = [
            (
                "x86_64-unknown-linux-gnu",
                "-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            ),
            (
                "aarch64-unknown-linux-gnu",
                "-cp311-abi3-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            ),
            ("x86_64-unknown-linux-musl", "-cp311-abi3-musllinux_1_2_x86_64.whl"),
            ("aarch64-unknown-linux-musl", "-cp311-abi3-musllinux_1_2_aarch64.whl"),
        ];
        for ((wheel, name), (target, tag)) in PUBLISHED.iter().zip(names).zip(tags) {
            assert_eq!(wheel.target, target);
            assert!(name.starts_with("uncopy-") && name.ends_with(tag), "{name}");
        }
    }
}
