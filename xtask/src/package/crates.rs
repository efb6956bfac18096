//! Crates as they would be published: `cargo publish --workspace --dry-run`, and the files that it made.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build::Setting;
use super::emptied;
use crate::workspace;

/// Files at the top of a published crate; everything else lies in the directories below.
const FILES: [&str; 8] = [
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "build.rs",
];
const DIRECTORIES: [&str; 3] = ["examples/", "include/", "src/"];

/// Packs every crate that is published, and checks that no file is in one that does not belong there.
/// Each is built from what was packed, unless they are wanted `as_built`.
///
/// # Errors
/// If a crate cannot be packed or built, or has a file that it should not have.
pub(super) fn make(setting: &Setting) -> Result<Vec<PathBuf>> {
    // A place of its own: cargo takes what it once built, or unpacked, of a version of a crate for that version for ever.
    let target = setting.target_directory().join(format!("crates-{}", std::process::id()));
    let mut cargo = setting.cargo(&[]);
    cargo.args(["publish", "--quiet", "--workspace", "--dry-run", "--locked"]);
    if setting.is_as_built() {
        // As it is, also where a change is not committed yet.
        cargo.args(["--no-verify", "--allow-dirty"]);
    }
    workspace::run(cargo.env("CARGO_TARGET_DIR", &target))?;
    let packed = target.join("package");
    // One of an earlier version would be taken for one of this.
    emptied(&packed)?;
    // Cargo leaves nothing behind after a dry run.
    let mut cargo = setting.cargo(&[]);
    cargo.args(["package", "--quiet", "--locked", "--no-verify", "--allow-dirty"]);
    for name in published()? {
        cargo.args(["--package", &name]);
    }
    workspace::run(cargo.env("CARGO_TARGET_DIR", &target))?;
    let mut crates = Vec::new();
    let cannot_list = || format!("cannot list {}", packed.display());
    for entry in std::fs::read_dir(&packed).with_context(cannot_list)? {
        let from = entry.with_context(cannot_list)?.path();
        if from.extension().is_some_and(|extension| extension == "crate") {
            check_members(&from)?;
            let to = setting.out().join(from.file_name().unwrap_or_default());
            std::fs::copy(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
            crates.push(to);
        }
    }
    crates.sort();
    emptied(&target)?;
    Ok(crates)
}

/// Names of the crates that are not kept from being published.
fn published() -> Result<Vec<String>> {
    let mut cargo = workspace::cargo();
    let output =
        cargo.args(["metadata", "--no-deps", "--locked", "--format-version", "1"]).output();
    let output = output.context("cannot start cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let packages = packages.iter().filter(|package| package["publish"].is_null());
    Ok(packages.filter_map(|package| package["name"].as_str()).map(str::to_owned).collect())
}

/// Checks the names of files in a packed crate.
fn check_members(packed: &PathBuf) -> Result<()> {
    let output = Command::new("tar").arg("-tzf").arg(packed).output();
    let output = output.context("cannot start tar")?;
    ensure!(output.status.success(), "tar: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout)?;
    let foreign: Vec<_> = names.lines().filter(|name| !belongs(name)).collect();
    ensure!(foreign.is_empty(), "{} has files too many: {foreign:?}", packed.display());
    Ok(())
}

/// Whether a member of an archive belongs into a published crate (pure).
fn belongs(member: &str) -> bool {
    member.split_once('/').is_some_and(|(_, name)| is_published(name))
}

/// Whether a file of a crate is published with it (pure).
fn is_published(name: &str) -> bool {
    FILES.contains(&name) || DIRECTORIES.iter().any(|directory| name.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use super::{belongs, is_published, published};
    use crate::workspace;

    #[test]
    fn tests_and_leftovers_do_not_belong_into_a_crate() {
        for (member, expected) in [
            ("uncopy-0.1.0/src/lib.rs", true),
            ("uncopy-0.1.0/Cargo.toml", true),
            ("uncopy-0.1.0/include/zircon/types.h", true),
            ("uncopy-0.1.0/tests/api.rs", false),
            ("uncopy-0.1.0/interface.txt", false),
            ("uncopy-0.1.0", false),
        ] {
            assert_eq!(belongs(member), expected, "{member}");
        }
    }

    #[test]
    fn every_crate_is_packed_with_its_licences_and_nothing_foreign() {
        let crates = published().unwrap();
        assert!(crates.iter().any(|name| name == "uncopy-cli"), "{crates:?}");
        assert!(!crates.iter().any(|name| name == "testbed"), "{crates:?}");
        let mut list = workspace::cargo();
        list.args(["package", "--list", "--quiet", "--offline", "--locked", "--allow-dirty"]);
        for name in &crates {
            list.args(["--package", name]);
        }
        let output = list.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let names = String::from_utf8(output.stdout).unwrap();
        let foreign: Vec<_> = names.lines().filter(|name| !is_published(name)).collect();
        assert_eq!(foreign, Vec::<&str>::new());
        for file in ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            let count = names.lines().filter(|name| *name == file).count();
            assert_eq!(count, crates.len(), "{file}");
        }
    }
}
