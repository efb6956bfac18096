//! Modules of a library crate form no cycles: whoever reads one reads what is below it, and no more.
//!
//! Looked at are the modules that stand directly below the crate's root, with all that is in them, and
//! likewise those directly below each module that has modules of its own; but for tests. The file of such a
//! module and those below it stand together: they may use each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Item, UseTree};

use super::source::Source;
use crate::finding::RuleFinding;

/// Crates that are looked at.
const CRATES: [&str; 6] =
    ["uncopy-channel", "uncopy-copy", "uncopy-core", "uncopy-doctor", "uncopy-os", "uncopy-send"];

/// Modules that still hang together, and the one that they are below: none may join them, and who leaves
/// takes it off the list.
const KNOWN: [(&str, &[&str]); 1] = [
    // A handle may be a channel, which has messages, which have handles: three public types.
    (
        "uncopy-channel/channel",
        &["call", "cycle", "endpoint", "handle", "message", "packing", "queue"],
    ),
];

/// The modules directly below one, and which of them use which.
#[derive(Default)]
struct Modules {
    /// The way to that module from the crate's root.
    way: Vec<String>,
    names: BTreeSet<String>,
    /// Items that have a name in that module, and the module below it that has them.
    given: BTreeMap<String, String>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

/// Where a path of the source has led so far.
#[derive(Clone, Copy)]
enum At {
    /// Somewhere else, or there is none.
    Elsewhere,
    /// Number of modules above the file, still below the module that is looked at.
    Above(usize),
    /// Number of modules below the crate's root, on the way to the module that is looked at.
    OnTheWay(usize),
}

/// Checks the crates that have files among `files`.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn check(files: &[PathBuf], findings: &mut Vec<RuleFinding>) -> Result<()> {
    for name in CRATES {
        let root = Path::new("crates").join(name).join("src");
        let is_source = |path: &&PathBuf| {
            path.starts_with(&root) && path.extension().is_some_and(|extension| extension == "rs")
        };
        let sources: Result<Vec<Source>> =
            files.iter().filter(is_source).map(|path| Source::read(path)).collect();
        let places: Vec<Place> =
            sources?.into_iter().map(|source| Place::of(&root, source)).collect();
        for way in ways(&places) {
            let place = Path::new(name).join(way.iter().collect::<PathBuf>());
            let known = KNOWN.iter().find(|(of, _)| Path::new(of) == place);
            let known = known.map_or(&[][..], |(_, known)| known);
            let own = places.iter().find(|place| place.way == way);
            let path = own.map_or_else(|| root.join("lib.rs"), |own| own.source.path.clone());
            for message in faults(&Modules::of(&way, &places), known) {
                findings.push(RuleFinding { path: path.clone(), line: 1, message });
            }
        }
    }
    Ok(())
}

/// A file, and the way to its module from the crate's root.
struct Place {
    way: Vec<String>,
    source: Source,
}

impl Place {
    fn of(root: &Path, source: Source) -> Place {
        let path = source.path.strip_prefix(root).unwrap_or(&source.path).with_extension("");
        let mut way: Vec<String> =
            path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        way.pop_if(|last| last == "mod" || last == "lib");
        Place { way, source }
    }

    fn is_test(&self) -> bool {
        self.way.iter().any(|part| part == "tests" || part == "model")
    }
}

/// The crate's root, and the modules that have others below them.
fn ways(places: &[Place]) -> BTreeSet<Vec<String>> {
    let above = |place: &Place| place.way.split_last().map(|(_, above)| above.to_vec());
    let real = places.iter().filter(|place| !place.is_test());
    real.filter_map(above).chain([Vec::new()]).collect()
}

/// Modules that hang together and are not known to, and those that are listed and do not.
fn faults(modules: &Modules, known: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut met = BTreeSet::new();
    for cycle in modules.cycles() {
        met.extend(cycle.iter().cloned());
        if cycle.iter().any(|name| !known.contains(&name.as_str())) {
            let cycle = cycle.join(", ");
            faults.push(format!(
                "modules hang together in a cycle: {cycle}; move what both need into one below"
            ));
        }
    }
    for name in known.iter().filter(|name| !met.contains(**name)) {
        faults
            .push(format!("{name} hangs in no cycle any more: take it off the list in cycles.rs"));
    }
    faults
}

impl Modules {
    /// The modules directly below the one at `way`.
    fn of(way: &[String], places: &[Place]) -> Modules {
        let mut modules = Modules { way: way.to_vec(), ..Modules::default() };
        let inside = |place: &&Place| place.way.len() > way.len() && place.way.starts_with(way);
        modules
            .names
            .extend(places.iter().filter(inside).map(|place| place.way[way.len()].clone()));
        for own in places.iter().filter(|place| place.way == way) {
            modules.read_own(&own.source.syntax.items);
        }
        for place in places.iter().filter(inside).filter(|place| !place.is_test()) {
            let depth = place.way.len() - way.len();
            let mut known = BTreeSet::new();
            modules.read(tokens_without_tests(&place.source), depth, At::Elsewhere, &mut known);
            let name = &place.way[way.len()];
            known.remove(name);
            modules.edges.entry(name.clone()).or_default().extend(known);
        }
        modules
    }

    /// Reads the names that the file of the module itself gives to items of the modules below.
    fn read_own(&mut self, items: &[Item]) {
        for item in items {
            if let Item::Use(item) = item {
                self.give(&item.tree, &mut Vec::new());
            }
        }
    }

    fn give(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.give(&tree.tree, path);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.give(tree, path)),
            UseTree::Name(name) => self.give_name(name.ident.to_string(), path),
            UseTree::Rename(rename) => {
                let path = if path.is_empty() { &mut vec![rename.ident.to_string()] } else { path };
                self.give_name(rename.rename.to_string(), path);
            }
            UseTree::Glob(_) => {}
        }
    }

    fn give_name(&mut self, name: String, path: &[String]) {
        let path = match path {
            [root, path @ ..] if root == "crate" => path.strip_prefix(&self.way[..]),
            [own, path @ ..] if own == "self" => Some(path),
            path => Some(path),
        };
        let first = path.and_then(<[String]>::first);
        if let Some(module) = first.filter(|module| self.names.contains(*module)) {
            self.given.insert(name, module.clone());
        }
    }

    /// Adds to `known` the modules that paths lead to from `depth` modules below. Each begins at `start`.
    fn read(&self, tokens: TokenStream, depth: usize, start: At, known: &mut BTreeSet<String>) {
        let mut tokens = tokens.into_iter().peekable();
        let mut at = start;
        while let Some(token) = tokens.next() {
            at = match (token, at) {
                (TokenTree::Group(group), _) => {
                    self.read(group.stream(), depth, at, known);
                    At::Elsewhere
                }
                (TokenTree::Punct(colon), _) if colon.as_char() == ':' => continue,
                (TokenTree::Punct(comma), _) if comma.as_char() == ',' => {
                    at = start;
                    continue;
                }
                (TokenTree::Ident(word), At::Elsewhere) if word == "crate" => At::OnTheWay(0),
                (TokenTree::Ident(word), _) if word == "super" => self.above(at, depth),
                (TokenTree::Ident(name), At::OnTheWay(passed)) => match self.way.get(passed) {
                    Some(next) if name == next => At::OnTheWay(passed + 1),
                    Some(_) => At::Elsewhere,
                    None => {
                        self.note(&name.to_string(), known);
                        At::Elsewhere
                    }
                },
                _ => At::Elsewhere,
            };
            let goes_on = matches!(tokens.peek(), Some(TokenTree::Punct(p)) if p.as_char() == ':');
            if !goes_on {
                at = At::Elsewhere;
            }
        }
    }

    /// Where `super` leads from there.
    fn above(&self, at: At, depth: usize) -> At {
        let ups = match at {
            At::Elsewhere => 1,
            At::Above(ups) => ups + 1,
            At::OnTheWay(passed) => {
                return passed.checked_sub(1).map_or(At::Elsewhere, At::OnTheWay);
            }
        };
        if ups == depth { At::OnTheWay(self.way.len()) } else { At::Above(ups) }
    }

    fn note(&self, name: &str, known: &mut BTreeSet<String>) {
        let module = self.names.get(name).or_else(|| self.given.get(name));
        known.extend(module.cloned());
    }

    /// Sets of more than one module of which each leads to each.
    fn cycles(&self) -> Vec<Vec<String>> {
        let reach: BTreeMap<&String, BTreeSet<&String>> =
            self.names.iter().map(|name| (name, self.reachable(name))).collect();
        let mut cycles = BTreeSet::new();
        for name in &self.names {
            let both = |other: &&&String| reach[**other].contains(name);
            let cycle: BTreeSet<&String> = reach[name].iter().filter(both).copied().collect();
            if cycle.len() > 1 {
                cycles.insert(cycle.into_iter().cloned().collect::<Vec<_>>());
            }
        }
        cycles.into_iter().collect()
    }

    fn reachable(&self, from: &str) -> BTreeSet<&String> {
        let mut found = BTreeSet::new();
        let mut left: Vec<&str> = vec![from];
        while let Some(name) = left.pop() {
            for next in self.edges.get(name).into_iter().flatten() {
                if found.insert(next) {
                    left.push(next);
                }
            }
        }
        found
    }
}

/// The items of a file that are no tests.
fn tokens_without_tests(source: &Source) -> TokenStream {
    let is_test = |item: &&Item| {
        let (Item::Mod(syn::ItemMod { attrs, .. }) | Item::Use(syn::ItemUse { attrs, .. })) = item
        else {
            return false;
        };
        attrs.iter().any(|attribute| attribute.to_token_stream().to_string() == "# [cfg (test)]")
    };
    let items = source.syntax.items.iter().filter(|item| !is_test(item));
    items.map(ToTokens::to_token_stream).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(files: &[(&str, &str)], known: &[&str]) -> Vec<String> {
        faults_below(&[], files, known)
    }

    fn faults_below(way: &[&str], files: &[(&str, &str)], known: &[&str]) -> Vec<String> {
        let read = |&(path, text): &(&str, &str)| {
            Place::of(Path::new("src"), Source::parse(path, text).unwrap())
        };
        let places: Vec<Place> = files.iter().map(read).collect();
        let way: Vec<String> = way.iter().map(|&part| part.to_owned()).collect();
        assert!(ways(&places).contains(&way));
        faults(&Modules::of(&way, &places), known)
    }

    #[test]
    fn cycles_are_found_however_a_module_is_named() {
        for there in [
            "use crate::b::B;",
            "use crate::{b, c};",
            "use crate::{c::C, b::{B, D}};",
            "use super::b::B;",
            "use super::{c, b};",
            "use crate::B;",
            "fn f() { crate::b::g() }",
            "fn f() { if true { super::b::g() } }",
            "fn f(x: &super::B) {}",
        ] {
            let root = ("src/lib.rs", "mod a;\nmod b;\nmod c;\npub use b::B;\nuse b::{D, E as F};");
            let files =
                [root, ("src/a.rs", there), ("src/b.rs", "use super::a;"), ("src/c.rs", "")];
            let found = faults_of(&files, &[]);
            assert_eq!(found.len(), 1, "{there}: {found:?}");
            assert!(found[0].contains("cycle: a, b;"), "{found:?}");
        }
    }

    #[test]
    fn arrows_one_way_and_tests_are_no_cycle() {
        for there in [
            "",
            "use crate::c;",
            "use super::super::b;",
            "use other::b;",
            "fn f() { b::g() }",
            "#[cfg(test)]\nmod tests { use crate::b; }",
            "#[cfg(test)]\nuse crate::b;",
            "mod inner { use super::b; }",
        ] {
            let files = [
                ("src/lib.rs", "mod a;\nmod b;\nmod c;"),
                ("src/a/mod.rs", there),
                ("src/a/deep.rs", "use super::b;"),
                ("src/a/tests.rs", "use crate::b;"),
                ("src/b.rs", "use crate::a::A;"),
                ("src/c.rs", ""),
            ];
            // In `inner`, `super` is the module `a`, which has no `b`: the depth is that of the file.
            let expected = usize::from(there.starts_with("mod inner"));
            assert_eq!(faults_of(&files, &[]).len(), expected, "{there}");
        }
    }

    #[test]
    fn modules_below_another_one_are_looked_at_too() {
        for (there, expected) in [
            ("use super::y;", 1),
            ("use crate::a::b::y::Y;", 1),
            ("use crate::a::{b::y, c};", 1),
            ("use super::super::b::y;", 1),
            ("fn f() { super::Given::new() }", 1),
            ("use super::super::y;", 0),
            ("use crate::y;", 0),
            ("pub(in crate::a::b) struct X;", 0),
            ("pub(super) struct X;\nfn y() {}", 0),
            ("#[cfg(test)]\nmod tests { use super::super::y; }", 0),
        ] {
            for root in ["src/a/b/mod.rs", "src/a/b.rs"] {
                let files = [
                    ("src/lib.rs", "mod a;"),
                    ("src/a/mod.rs", "mod b;\nmod c;"),
                    (root, "mod x;\nmod y;\npub(super) use x::run;\nuse crate::a::b::y::Given;"),
                    ("src/a/b/x.rs", there),
                    ("src/a/b/y.rs", "use super::run;"),
                    ("src/a/c.rs", ""),
                ];
                let found = faults_below(&["a", "b"], &files, &[]);
                assert_eq!(found.len(), expected, "{there}: {found:?}");
                assert!(found.iter().all(|found| found.contains("cycle: x, y;")), "{found:?}");
            }
        }
    }
}
