//! Builds whose output depends on the sources alone: not on where they lie, nor on when they are built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// Settings that all packages of a run have in common.
pub(crate) struct Setting {
    out: PathBuf,
    as_built: bool,
    /// Seconds since 1970: the time that files in packages have (`SOURCE_DATE_EPOCH`,
    /// <https://reproducible-builds.org/specs/source-date-epoch/>).
    epoch: u64,
}

impl Setting {
    /// # Errors
    /// If `SOURCE_DATE_EPOCH` is no number, or git knows no commit.
    pub(super) fn new(out: PathBuf, as_built: bool) -> Result<Setting> {
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(chosen) => chosen.parse().context("SOURCE_DATE_EPOCH is no number of seconds")?,
            Err(_) => time_of_last_commit()?,
        };
        Ok(Setting { out, as_built, epoch })
    }

    /// Directory for packages.
    pub(crate) fn out(&self) -> &Path {
        &self.out
    }

    /// Whether programs are taken as `cargo build --release` made them.
    pub(crate) fn is_as_built(&self) -> bool {
        self.as_built
    }

    /// The time that files in packages have, in seconds since 1970.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Where cargo puts what is built for packages: other flags would build the rest of the project anew.
    pub(crate) fn target_directory(&self) -> PathBuf {
        if self.as_built {
            workspace::target_directory()
        } else {
            workspace::target_directory().join("package-build")
        }
    }

    /// A cargo that leaves no path of this machine in what it builds. `flags` go to every rustc.
    pub(crate) fn cargo(&self, flags: &[&str]) -> Command {
        let mut cargo = workspace::cargo();
        if self.as_built {
            return cargo;
        }
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let remapped = homes().map(|(home, name)| format!("--remap-path-prefix={home}={name}"));
        let rust_flags: Vec<String> = flags.chain(remapped).collect();
        cargo
            .env_remove("RUSTFLAGS")
            .env("CARGO_ENCODED_RUSTFLAGS", rust_flags.join("\u{1f}"))
            .env("CFLAGS", self.c_flags())
            .env("CARGO_TARGET_DIR", self.target_directory())
            .env("CARGO_INCREMENTAL", "0")
            .env("SOURCE_DATE_EPOCH", self.epoch.to_string());
        // Settings of the profile from outside, such as those of a run of tests, change the bits.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PROFILE_") {
                cargo.env_remove(name);
            }
        }
        cargo
    }

    /// Flags of a C compiler that leave no path of this machine in what it compiles.
    pub(crate) fn c_flags(&self) -> String {
        if self.as_built {
            return String::new();
        }
        homes().map(|(home, name)| format!("-ffile-prefix-map={home}={name}")).join(" ")
    }

    /// Directory for what becomes a package.
    pub(crate) fn staging(&self) -> PathBuf {
        self.target_directory().join("package-staging")
    }
}

/// Directories of this machine that sources lie in, and what stands for them in packages.
fn homes() -> [(String, &'static str); 2] {
    let root = workspace::root().display().to_string();
    [(root, "."), (cargo_home().display().to_string(), "cargo")]
}

/// Where cargo keeps the sources of dependencies.
fn cargo_home() -> PathBuf {
    let chosen = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    chosen.unwrap_or_else(|| std::env::home_dir().unwrap_or_default().join(".cargo"))
}

/// The program `name`, or an error that says which package of Debian has it.
///
/// # Errors
/// If it is not on the path.
pub(crate) fn tool(name: &str, package: &str) -> Result<PathBuf> {
    workspace::find_program(name).with_context(|| {
        format!("there is no {name} on the path; install it: apt install {package}")
    })
}

fn time_of_last_commit() -> Result<u64> {
    const HINT: &str = "set SOURCE_DATE_EPOCH to the time that files in packages shall have";
    let output = Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(workspace::root())
        .output()
        .with_context(|| format!("cannot start git; {HINT}"))?;
    ensure!(output.status.success(), "git knows no commit here; {HINT}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| format!("git says no time; {HINT}"))
}
