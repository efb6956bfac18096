//! No module whose name says nothing about what is in it.

use std::path::Path;

use syn::visit::{self, Visit};

use super::source::Source;
use crate::finding::RuleFinding;

/// Names, and what to do instead.
const BANNED: [(&[&str], &str); 4] = [
    (&["util", "utils", "utilities"], "name it after the noun its functions take"),
    (&["common", "shared", "base"], "move each item to the part that owns it"),
    (&["helper", "helpers", "misc", "stuff"], "put the function beside its one caller"),
    (&["manager", "managers", "handler", "handlers"], "name what it holds or what it does"),
];

fn instead_of(name: &str) -> Option<&'static str> {
    BANNED.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead)
}

/// Names of files and folders.
pub(super) fn check_path(path: &Path, findings: &mut Vec<RuleFinding>) {
    let is_source = path.extension().is_some_and(|extension| extension == "rs");
    let parents = path.parent().into_iter().flat_map(Path::iter);
    let own = if is_source { path.file_stem() } else { None };
    for name in parents.chain(own).filter_map(|name| name.to_str()) {
        if let Some(instead) = instead_of(name) {
            findings.push(RuleFinding {
                path: path.to_owned(),
                line: 1,
                message: format!("the name {name} says nothing: {instead}"),
            });
        }
    }
}

/// Names of modules inside a file; those that are files are found by their path.
pub(super) fn check_modules(source: &Source, findings: &mut Vec<RuleFinding>) {
    Modules { source, findings }.visit_file(&source.syntax);
}

struct Modules<'a> {
    source: &'a Source,
    findings: &'a mut Vec<RuleFinding>,
}

impl<'a> Visit<'a> for Modules<'_> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let name = module.ident.to_string();
        if let (Some(_), Some(instead)) = (&module.content, instead_of(&name)) {
            let message = format!("the module name {name} says nothing: {instead}");
            self.findings.push(self.source.finding(module.ident.span(), message));
        }
        visit::visit_item_mod(self, module);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::source::messages;
    use super::{check_modules, check_path};

    #[test]
    fn inline_modules() {
        let found = messages("a.rs", "mod outer {\n    mod helpers {}\n}\n", check_modules);
        assert!(found[0].starts_with("2: the module name helpers"), "{found:?}");
        assert!(messages("a.rs", "mod plan {}\nmod tests {}\n", check_modules).is_empty());
    }

    #[test]
    fn files_and_folders() {
        for (path, count) in [
            ("crates/a/src/util.rs", 1),
            ("crates/a/tests/common/mod.rs", 1),
            ("crates/a/src/utility_bill.rs", 0),
            ("docs/common.md", 0),
        ] {
            let mut findings = Vec::new();
            check_path(Path::new(path), &mut findings);
            assert_eq!(findings.len(), count, "{path}: {findings:?}");
        }
    }
}
