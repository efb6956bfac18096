//! The public interface of each library crate: a text file beside its manifest, one line for each item.
//! A change of the interface is a change of that file, which people read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Library crates. `uncopy-fidl-derive` has no items but its macros, and `uncopy-zx` is known by its C
/// headers.
const CRATES: [&str; 12] = [
    "uncopy",
    "uncopy-channel",
    "uncopy-copy",
    "uncopy-core",
    "uncopy-doctor",
    "uncopy-fidl",
    "uncopy-fidl-channel",
    "uncopy-os",
    "uncopy-remote",
    "uncopy-send",
    "uncopy-unit",
    "uncopy-wire",
];

/// Arguments of `cargo xtask interface`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write the files anew instead of comparing them.
    #[arg(long)]
    write: bool,
    /// Crates to look at [default: every library crate]
    #[arg(value_name = "CRATE", value_parser = CRATES)]
    crates: Vec<String>,
}

/// Compares the interfaces with the files, or writes the files.
///
/// # Errors
/// If an interface and its file differ, or rustdoc fails.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let all: Vec<String> = CRATES.map(str::to_owned).to_vec();
    let crates = if arguments.crates.is_empty() { &all } else { &arguments.crates };
    let mut differing = Vec::new();
    for name in crates {
        let found = interface(name)?;
        let file = workspace::root().join("crates").join(name).join("interface.txt");
        let kept = match fs::read_to_string(&file) {
            // A new crate has none yet.
            Err(_) if arguments.write => String::new(),
            kept => kept.with_context(|| format!("cannot read {}", file.display()))?,
        };
        // The order of the lines is not the same on each machine.
        let Some(changes) = changes(&kept, &found) else { continue };
        print!("crates/{name}/interface.txt\n{changes}");
        if arguments.write {
            fs::write(&file, &found).with_context(|| format!("cannot write {}", file.display()))?;
        } else {
            differing.push(name.as_str());
        }
    }
    if !differing.is_empty() {
        bail!(
            "the public interface of {} differs from its file; if that is meant, run `cargo xtask interface \
             --write` and name the change in CHANGELOG.md",
            differing.join(", ")
        );
    }
    Ok(())
}

/// One line for each public item, in a lasting order.
fn interface(name: &str) -> Result<String> {
    let json = rustdoc(name)?;
    let interface = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| {
            format!(
                "cannot read {}: xtask's public-api and this rustdoc have different formats; use Rust {}, or \
                 another version of public-api",
                json.display(),
                env!("CARGO_PKG_RUST_VERSION"),
            )
        })?;
    Ok(interface.to_string())
}

/// Rustdoc's JSON of a crate with all its features.
fn rustdoc(name: &str) -> Result<PathBuf> {
    // A directory of its own: the variable below would have everything built anew.
    let target = workspace::target_directory().join("interface");
    workspace::run(
        workspace::cargo()
            .args([
                "rustdoc",
                "--quiet",
                "--lib",
                "--all-features",
                "--package",
                name,
                "--target-dir",
            ])
            .arg(&target)
            .args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"])
            // Its JSON is not yet stable.
            .env("RUSTC_BOOTSTRAP", "1"),
    )?;
    Ok(target.join("doc").join(Path::new(&name.replace('-', "_"))).with_extension("json"))
}

/// Lines that only one of both has: `-` gone, `+` new.
fn changes(kept: &str, found: &str) -> Option<String> {
    let [kept, found] = [kept, found].map(|text| text.lines().collect::<BTreeSet<&str>>());
    let gone = kept.difference(&found).map(|line| format!("- {line}\n"));
    let new = found.difference(&kept).map(|line| format!("+ {line}\n"));
    let changes: String = gone.chain(new).collect();
    (!changes.is_empty()).then_some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_lines_of_one_side() {
        assert_eq!(changes("pub fn a()\npub fn b()\n", "pub fn a()\npub fn b()\n"), None);
        let found = changes("pub fn a()\npub fn b()\n", "pub fn a(u8)\npub fn b()\n");
        assert_eq!(found.as_deref(), Some("- pub fn a()\n+ pub fn a(u8)\n"));
    }

    /// Every crate that is published as a library has a file.
    #[test]
    fn every_library_crate_is_looked_at() {
        for name in CRATES {
            let root = workspace::root().join("crates").join(name);
            assert!(root.join("src/lib.rs").exists(), "{name}");
            assert!(root.join("interface.txt").exists(), "{name}");
        }
    }
}
