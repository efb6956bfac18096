//! Published crates: each says what it is, and builds from its own files alone.

use std::path::{Component, Path, PathBuf};

use syn::visit::{self, Visit};
use toml::{Table, Value};

use super::edges;
use super::source::Source;
use crate::finding::RuleFinding;

/// Keys that a published crate inherits beside those of every crate.
const INHERITED: [&str; 2] = ["include", "readme"];

/// Keys by which a published crate is found: inherited, or of its own.
const SEARCHED: [&str; 2] = ["categories", "keywords"];

/// Files of licences that lie in the directory of a published crate, or lead from there to those of the root.
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Crates of which the root names no version: those below `uncopy` test with them, and no registry has them yet when
/// these are published.
const WITHOUT_VERSION: [&str; 2] = ["testbed", "uncopy"];

/// Macros that read a file when a crate is built.
const INCLUDING: [&str; 3] = ["include", "include_bytes", "include_str"];

/// Checks the `manifest` of a crate; `files` are all that belong to the project.
pub(super) fn check_manifest(
    path: &Path,
    manifest: &Table,
    files: &[PathBuf],
    findings: &mut Vec<RuleFinding>,
) {
    let Some(package) = manifest.get("package").filter(|package| is_published(package)) else {
        return;
    };
    let mut report = |message: String| {
        findings.push(RuleFinding { path: path.to_owned(), line: 1, message });
    };
    for key in INHERITED {
        let inherits = package.get(key).and_then(|value| value.get("workspace"));
        if inherits.and_then(Value::as_bool) != Some(true) {
            report(format!("it is published without {key}: write `{key}.workspace = true`"));
        }
    }
    for key in SEARCHED.iter().filter(|key| package.get(**key).is_none()) {
        report(format!("it is published without {key}: inherit them, or write its own"));
    }
    if package.get("description").and_then(Value::as_str).is_none_or(str::is_empty) {
        report("it is published without a description: write what it is for".to_owned());
    }
    let directory = path.parent().unwrap_or(Path::new(""));
    for license in LICENSES {
        if !files.contains(&directory.join(license)) {
            report(format!("it is published without {license}: link it to that of the root"));
        }
    }
    for (name, dependency) in edges::built_with(manifest) {
        let is_ours = dependency.get("path").is_some() || WITHOUT_VERSION.contains(&name);
        if is_ours && dependency.get("version").is_none() {
            report(format!("it is published, and names no version of {name}: write one"));
        }
    }
}

fn is_published(package: &Value) -> bool {
    package.get("publish").and_then(Value::as_bool) != Some(false)
}

/// Checks that a source of a crate reads no file that lies outside of the crate, except in tests.
pub(super) fn check_source(source: &Source, findings: &mut Vec<RuleFinding>) {
    let parts: Vec<Component<'_>> = source.path.components().collect();
    if let [first, _, third, ..] = parts[..]
        && (first.as_os_str(), third.as_os_str()) == ("crates".as_ref(), "src".as_ref())
    {
        Included { source, findings }.visit_file(&source.syntax);
    }
}

/// Looks at files that are included.
struct Included<'a> {
    source: &'a Source,
    findings: &'a mut Vec<RuleFinding>,
}

impl<'a> Visit<'a> for Included<'a> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if !module.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        if !function.attrs.iter().any(is_for_tests) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        let includes = INCLUDING.iter().any(|name| called.path.is_ident(name));
        let file = called.parse_body::<syn::LitStr>();
        if let Some(file) = file.ok().filter(|_| includes)
            && leads_out(&self.source.path, &file.value())
        {
            let message = "a published crate has no file outside of its directory: put it there";
            self.findings.push(self.source.finding(file.span(), message));
        }
    }
}

/// Whether an item is built for tests alone, also those of documentation.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
    let condition = list.tokens.to_string();
    let mut words = condition.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    list.path.is_ident("cfg")
        && !condition.contains("not")
        && words.any(|word| matches!(word, "test" | "doctest"))
}

/// Whether `included`, a path from the directory of the source `path`, leaves `crates/NAME` (pure).
fn leads_out(path: &Path, included: &str) -> bool {
    // `crates/NAME/src/file.rs` lies one directory below that of its crate.
    let mut depth = path.components().count().saturating_sub(3);
    for component in Path::new(included).components() {
        match component {
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::super::source::messages;
    use super::{check_manifest, check_source};

    const GOOD: &str = r#"
        [package]
        name = "a"
        description = "What it is for"
        categories.workspace = true
        include.workspace = true
        keywords.workspace = true
        readme.workspace = true
        [target.'cfg(unix)'.dependencies]
        b = { path = "../b", version = "1" }
    "#;

    fn of_manifest(text: &str, files: &[&str]) -> Vec<String> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let mut findings = Vec::new();
        let path = Path::new("crates/a/Cargo.toml");
        check_manifest(path, &text.parse().unwrap(), &files, &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn published_crates_have_what_a_registry_shows() {
        let licenses = ["crates/a/LICENSE-APACHE", "crates/a/LICENSE-MIT"];
        assert_eq!(of_manifest(GOOD, &licenses), Vec::<String>::new());
        for (from, to, message) in [
            ("include.workspace = true", "", "without include"),
            ("readme.workspace = true", "readme = \"R\"", "without readme"),
            ("keywords.workspace = true", "", "without keywords"),
            ("\"What it is for\"", "\"\"", "without a description"),
            (", version = \"1\"", "", "no version of b"),
            ("b = {", "uncopy.workspace = true\nb = {", "no version of uncopy"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let found = of_manifest(&GOOD.replace(from, to), &licenses);
            assert_eq!(found.len(), 1, "{to}: {found:?}");
            assert!(found[0].contains(message), "{to}: {found:?}");
        }
        assert!(of_manifest(GOOD, &licenses[..1])[0].contains("without LICENSE-MIT"));
        let kept = GOOD.replace("name = \"a\"", "name = \"a\"\npublish = false");
        assert!(of_manifest(&kept, &[]).is_empty());
    }

    #[test]
    fn crates_read_no_file_of_others() {
        for (text, count) in [
            ("const A: &str = include_str!(\"../../README.md\");", 0),
            ("const A: &str = include_str!(\"../../../README.md\");", 1),
            ("const A: &[u8] = include_bytes!(\"b/../../../../c\");", 1),
            ("#[doc = include_str!(\"../../../docs/a.md\")]\nstruct A;", 1),
            (
                "#[cfg(all(doctest, unix))]\nmod a { const A: &str = include_str!(\"../../../b\"); }",
                0,
            ),
            ("#[cfg(not(test))]\nmod a { const A: &str = include_str!(\"../../../b\"); }", 1),
            ("#[test]\nfn a() { include_str!(\"../../../b\"); }", 0),
            ("const A: &str = concat!(\"../../../b\");", 0),
        ] {
            let found = messages("crates/a/src/b/c.rs", text, check_source);
            assert_eq!(found.len(), count, "{text}: {found:?}");
            assert!(messages("xtask/src/b/c.rs", text, check_source).is_empty());
        }
    }
}
