//! Lists of what programs and libraries are built of, in the form of CycloneDX.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::build::{self, Setting};
use super::{copy_tree, emptied};
use crate::workspace;

/// Crates whose artefacts are packaged.
const DESCRIBED: [&str; 4] = ["uncopy-cli", "uncopy-fleet", "uncopy-python", "uncopy-zx"];

/// Writes a list for each crate that is packaged.
///
/// # Errors
/// If `cargo-cyclonedx` is missing or fails.
pub(super) fn make(setting: &Setting) -> Result<Vec<PathBuf>> {
    build::tool("cargo-cyclonedx", "nothing of Debian; cargo install --locked cargo-cyclonedx")?;
    // It writes beside each manifest: not into the sources.
    let tree = setting.staging().join("sbom");
    emptied(&tree)?;
    copy_tree(&tree)?;
    let mut cargo = setting.cargo(&[]);
    cargo.current_dir(&tree).args(["cyclonedx", "--quiet", "--format", "json"]);
    cargo.args(["--spec-version", "1.5", "--features", "full"]);
    cargo.args(["--manifest-path", "crates/uncopy-cli/Cargo.toml"]);
    cargo.env("SOURCE_DATE_EPOCH", setting.epoch().to_string());
    workspace::run(&mut cargo)?;
    DESCRIBED.iter().map(|name| take(setting, &tree.join("crates").join(name), name)).collect()
}

/// Takes a list out of the copy of the sources, without the path of that.
fn take(setting: &Setting, from: &std::path::Path, name: &str) -> Result<PathBuf> {
    let from = from.join(format!("{name}.cdx.json"));
    let text = std::fs::read_to_string(&from)
        .with_context(|| format!("cannot read {}", from.display()))?;
    let tree = setting.staging().join("sbom");
    let text = text.replace(&format!("file://{}", tree.display()), "file://.");
    let to = setting.out().join(format!("{name}-{}.cdx.json", super::texts::VERSION));
    std::fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(to)
}
