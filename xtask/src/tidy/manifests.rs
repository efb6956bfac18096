//! Manifests: settings that are the same for every crate are written once, at the root.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::published;
use crate::finding::RuleFinding;

/// Keys that a crate inherits.
const INHERITED: [&str; 4] = ["version", "edition", "rust-version", "license"];

/// Keys of the root from which they are inherited, with the only value they may have.
const FIXED: [(&str, &str); 2] = [("license", "MIT OR Apache-2.0"), ("edition", "2024")];

/// Workspaces of their own, which inherit nothing from the root.
const OTHER_WORKSPACES: [&str; 2] = ["peers", "fuzz"];

/// Crates that name the version of a dependency themselves. The root names none of `uncopy`, so that the
/// crates that it is built of can test with it and be published before it.
const OWN_VERSIONS: [(Option<&str>, &str); 1] = [(Some("uncopy-cli"), "uncopy")];

/// Checks the manifest `text` at `path`; `files` are all that belong to the project.
///
/// # Errors
/// If it is no TOML.
pub(super) fn check(
    path: &Path,
    text: &str,
    files: &[PathBuf],
    findings: &mut Vec<RuleFinding>,
) -> Result<()> {
    let manifest: Table =
        text.parse().with_context(|| format!("cannot parse {}", path.display()))?;
    let mut report = |message: String| {
        findings.push(RuleFinding { path: path.to_owned(), line: 1, message });
    };
    if OTHER_WORKSPACES.iter().any(|other| path.starts_with(other)) {
        return Ok(());
    }
    if let Some(shared) = manifest.get("workspace").and_then(|root| root.get("package")) {
        for (key, value) in FIXED {
            if shared.get(key).and_then(Value::as_str) != Some(value) {
                report(format!("workspace.package.{key} has drifted: it is \"{value}\""));
            }
        }
    }
    if let Some(package) = manifest.get("package") {
        check_package(package, &manifest, &mut report);
    }
    published::check_manifest(path, &manifest, files, findings);
    Ok(())
}

fn check_package(package: &Value, manifest: &Table, report: &mut impl FnMut(String)) {
    for key in INHERITED {
        if !inherits(package.get(key)) {
            report(format!("package.{key} is its own: write `{key}.workspace = true`"));
        }
    }
    if !inherits(manifest.get("lints")) {
        report("lints are its own: write `[lints] workspace = true`".to_owned());
    }
    let crate_name = package.get("name").and_then(Value::as_str);
    for (name, value) in dependencies(manifest) {
        if !inherits(Some(value)) && !OWN_VERSIONS.contains(&(crate_name, name)) {
            report(format!(
                "the version of {name} is its own: declare it in the root's \
                 [workspace.dependencies] and write `{name}.workspace = true`"
            ));
        }
    }
    check_benches(manifest, report);
}

/// `cargo bench -- --verbose` reaches every target whose `bench` is on; libtest's targets would
/// refuse criterion's flags.
fn check_benches(manifest: &Table, report: &mut impl FnMut(String)) {
    let bench_is_off = |target: &Value| target.get("bench").and_then(Value::as_bool) == Some(false);
    let lib = manifest.get("lib").into_iter();
    let bins = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
    let mut targets = 0;
    for target in lib.chain(bins) {
        targets += 1;
        if !bench_is_off(target) {
            report("a lib or bin target is benched: write `bench = false`".to_owned());
        }
    }
    if targets == 0 {
        report("no [lib] or [[bin]] says `bench = false`: write one that does".to_owned());
    }
}

/// `workspace = true`, alone or beside features.
fn inherits(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

/// Every dependency that a manifest names, of every kind and target.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&str, &Value)> {
    const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let tables = targets.filter_map(|(_, target)| target.as_table()).chain([manifest]);
    tables
        .flat_map(|table| KINDS.iter().filter_map(move |kind| table.get(*kind)))
        .filter_map(Value::as_table)
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::check;

    const GOOD: &str = r#"
        [package]
        name = "a"
        publish = false
        version.workspace = true
        edition.workspace = true
        rust-version.workspace = true
        license.workspace = true
        [lib]
        bench = false
        [dependencies]
        b.workspace = true
        c = { workspace = true, features = ["d"] }
        [lints]
        workspace = true
    "#;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(Path::new(path), text, &[], &mut findings).unwrap();
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn what_is_inherited_passes() {
        assert_eq!(messages("crates/a/Cargo.toml", GOOD), Vec::<String>::new());
    }

    #[test]
    fn each_drift_is_found() {
        for (from, to, message) in [
            ("edition.workspace = true", "edition = \"2021\"", "package.edition is its own"),
            ("license.workspace = true", "license = \"MIT\"", "package.license is its own"),
            ("b.workspace = true", "b = \"1\"", "the version of b is its own"),
            ("[lints]\n        workspace = true", "", "lints are its own"),
            ("bench = false", "bench = true", "a lib or bin target is benched"),
            ("[lib]\n        bench = false", "", "no [lib] or [[bin]]"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let found = messages("crates/a/Cargo.toml", &GOOD.replace(from, to));
            assert_eq!(found.len(), 1, "{to}: {found:?}");
            assert!(found[0].starts_with(message), "{to}: {found:?}");
        }
    }

    #[test]
    fn dependencies_of_one_target_are_seen() {
        let text = format!("{GOOD}\n[target.'cfg(unix)'.dependencies]\ne = \"1\"\n");
        assert!(messages("crates/a/Cargo.toml", &text)[0].contains("version of e"));
    }

    #[test]
    fn the_root_keeps_licence_and_edition() {
        let text = "[workspace.package]\nlicense = \"GPL-3.0-only\"\nedition = \"2024\"\n";
        assert!(messages("Cargo.toml", text)[0].contains("license has drifted"));
    }

    #[test]
    fn other_workspaces_have_versions_of_their_own() {
        let text = "[package]\nname = \"a\"\nedition = \"2024\"\n[dependencies]\nb = \"1\"\n";
        assert!(messages("peers/Cargo.toml", text).is_empty());
    }
}
