//! Which crate may know which: one table, which ARCHITECTURE.md shows.

use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::finding::RuleFinding;

/// Crates of this workspace, and those of them that each may know.
pub(super) const EDGES: [(&str, &[&str]); 18] = [
    ("uncopy-core", &[]),
    ("uncopy-os", &["uncopy-core"]),
    ("uncopy-copy", &["uncopy-core", "uncopy-os"]),
    ("uncopy-send", &["uncopy-core", "uncopy-os"]),
    ("uncopy-channel", &["uncopy-core", "uncopy-os"]),
    ("uncopy-doctor", &["uncopy-copy", "uncopy-core", "uncopy-os", "uncopy-send"]),
    ("uncopy-wire", &[]),
    ("uncopy-remote", &["uncopy-copy", "uncopy-core", "uncopy-os", "uncopy-send", "uncopy-wire"]),
    ("uncopy-unit", &["uncopy-copy", "uncopy-core", "uncopy-os"]),
    (
        "uncopy",
        &[
            "uncopy-channel",
            "uncopy-copy",
            "uncopy-core",
            "uncopy-doctor",
            "uncopy-os",
            "uncopy-remote",
            "uncopy-send",
            "uncopy-unit",
        ],
    ),
    ("uncopy-fidl-derive", &[]),
    ("uncopy-fidl", &["uncopy-fidl-derive"]),
    ("uncopy-fidl-channel", &["uncopy-channel", "uncopy-fidl", "uncopy-fidl-derive"]),
    ("uncopy-zx", &["uncopy-channel"]),
    ("uncopy-cli", &["uncopy"]),
    ("uncopy-python", &["uncopy"]),
    ("uncopy-fleet", &["uncopy-unit"]),
    ("testbed", &["uncopy"]),
];

/// Tables of a manifest whose crates a crate is built with; tests may know others.
const BUILT_WITH: [&str; 2] = ["dependencies", "build-dependencies"];

/// Checks the manifest `text` at `path`.
///
/// # Errors
/// If it is no TOML.
pub(super) fn check(path: &Path, text: &str, findings: &mut Vec<RuleFinding>) -> Result<()> {
    let manifest: Table =
        text.parse().with_context(|| format!("cannot parse {}", path.display()))?;
    let name = manifest.get("package").and_then(|package| package.get("name"));
    let Some(name) = name.and_then(Value::as_str).filter(|_| path.starts_with("crates")) else {
        return Ok(());
    };
    let mut report = |message: String| {
        findings.push(RuleFinding { path: path.to_owned(), line: 1, message });
    };
    let Some((_, allowed)) = EDGES.iter().find(|(of, _)| *of == name) else {
        report(format!("the crate {name} is not in the table of xtask/src/tidy/edges.rs"));
        return Ok(());
    };
    for (known, _) in built_with(&manifest) {
        let is_ours = EDGES.iter().any(|(ours, _)| *ours == known);
        if is_ours && !allowed.contains(&known) {
            report(format!(
                "{name} may not know {known}: move what it needs below both, or into a crate above"
            ));
        }
    }
    Ok(())
}

/// Crates that the crate of a manifest is built with, on any system, and what it says of each.
pub(super) fn built_with(manifest: &Table) -> impl Iterator<Item = (&str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(|targets| targets.values());
    let tables = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let named = |table| {
        BUILT_WITH.iter().filter_map(move |kind| Table::get(table, *kind).and_then(Value::as_table))
    };
    tables.flat_map(named).flatten().map(|(name, value)| (name.as_str(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(Path::new(path), text, &mut findings).unwrap();
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn arrows_point_down_only() {
        let manifest = |name: &str, table: &str, known: &str| {
            format!("[package]\nname = \"{name}\"\n[{table}]\n{known}.workspace = true\n")
        };
        let linux = "target.'cfg(target_os = \"linux\")'.dependencies";
        let table = [
            ("uncopy-send", "dependencies", "uncopy-os", 0),
            ("uncopy-send", "dependencies", "uncopy-channel", 1),
            ("uncopy-send", linux, "uncopy-channel", 1),
            ("uncopy-send", "build-dependencies", "uncopy-copy", 1),
            ("uncopy-send", "dev-dependencies", "uncopy", 0),
            ("uncopy-core", "dependencies", "uncopy-os", 1),
            ("uncopy-fidl", "dependencies", "uncopy-channel", 1),
            ("uncopy-cli", "dependencies", "uncopy", 0),
            ("uncopy-cli", "dependencies", "serde", 0),
            ("uncopy-new", "dependencies", "serde", 1),
        ];
        for (name, kind, known, count) in table {
            let found = messages("crates/x/Cargo.toml", &manifest(name, kind, known));
            assert_eq!(found.len(), count, "{name} {kind} {known}: {found:?}");
        }
        assert!(messages("xtask/Cargo.toml", &manifest("x", "dependencies", "uncopy")).is_empty());
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (at, (name, known)) in EDGES.iter().enumerate() {
            for below in *known {
                let place = EDGES.iter().position(|(of, _)| of == below);
                assert!(place.is_some_and(|place| place < at), "{name} knows {below}");
            }
        }
    }

    #[test]
    fn the_table_of_the_architecture_is_this_one() {
        let page = std::fs::read_to_string(crate::workspace::root().join("ARCHITECTURE.md"));
        let page = page.unwrap();
        for (name, known) in EDGES {
            let listed = match known {
                [] => "–".to_owned(),
                known => known.iter().map(|c| format!("`{c}`")).collect::<Vec<_>>().join(", "),
            };
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            assert!(
                row.is_some_and(|row| row.ends_with(&format!("| {listed} |"))),
                "{name}: {row:?}"
            );
        }
    }
}
