//! Plain words: how comments begin, which names are banned, no tuples taken apart as parameters.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Pat, Type};

use super::source::Source;
use crate::finding::RuleFinding;

/// First words of a comment that make the reader guess.
const OPENINGS: [&str; 5] = ["Of", "So many", "What", "Who", "That"];

/// Names that stand nowhere in the code, and plain ones.
const BANNED: [(&str, &str); 18] = [
    ("Bell", "PollTarget"),
    ("Clapper", "PollDescriptor"),
    ("Giver", "MetadataWriter"),
    ("admits", "wait_for_budget"),
    ("bury", "drop_outside_lock"),
    ("by_two", "parallel"),
    ("copy_swiftly", "fast_path"),
    ("hire", "spawn_worker"),
    ("is_told", "has_reliable_size or report_is_reliable"),
    ("nameless", "unlinked"),
    ("settle_small", "flush_small_counts"),
    ("spoil_burst", "invalidate_sample"),
    ("swift", "fast_path"),
    ("swiftly", "on the fast path"),
    ("tell", "describe, render, report or notify"),
    ("tells", "describes, renders, reports or notifies"),
    ("toil", "heavy"),
    ("told", "described, rendered, reported or notified"),
];

/// Beginnings of names, and plain ones.
const BANNED_PREFIXES: [(&str, &str); 2] = [("MOST_", "MAX_"), ("LEAST_", "MIN_")];

/// Names that nothing may be defined by (a type, a trait, a function, a module), and plain ones.
const BANNED_DEFINITIONS: [(&str, &str); 26] = [
    ("Above", "Parent"),
    ("Asked", "Admission, or CachedAnswer"),
    ("Book", "OperationTable"),
    ("Born", "CreationDefaults"),
    ("Facts", FACET),
    ("Finding", FACET),
    ("Flight", "InFlight"),
    ("Happened", "PendingEvent"),
    ("Joined", "CoalescedReports"),
    ("Landed", "Completed"),
    ("Late", "LazyPath"),
    ("Named", "DisplayPath"),
    ("Siblings", "DirectoryDefaults"),
    ("State", FACET),
    ("Step", FACET),
    ("Verdict", FACET),
    ("Way", FACET),
    ("Witness", "CompletionSink"),
    ("accounts", "socket_state"),
    ("asked", "cached_answer"),
    ("beside", "second_mover"),
    ("born", "creation_defaults"),
    ("experience", "history"),
    ("lot", "orphans"),
    ("numbered", "sequence_map"),
    ("prices", "cost_model"),
];

const FACET: &str = "say of what, as in StreamState, PlanStep, PathFacts, TrialVerdict";

pub(super) fn check(source: &Source, findings: &mut Vec<RuleFinding>) {
    check_comments(source, findings);
    check_names(source, source.tokens.clone(), findings);
    Parameters { source, findings }.visit_file(&source.syntax);
}

/// The first word of each paragraph of a comment.
fn check_comments(source: &Source, findings: &mut Vec<RuleFinding>) {
    let mut above = None;
    for (index, line) in source.text.lines().enumerate() {
        let comment = comment(line);
        let begins = above.is_none_or(|(kind, text): (&str, &str)| {
            text.is_empty() || comment.is_some_and(|(own, _)| own != kind)
        });
        if let Some((_, text)) = comment.filter(|_| begins)
            && let Some(word) = OPENINGS.iter().find(|word| begins_with_word(text, word))
        {
            findings.push(RuleFinding {
                path: source.path.clone(),
                line: index + 1,
                message: format!("a comment begins with {word:?}: begin with a verb or a noun"),
            });
        }
        above = comment;
    }
}

/// The mark and the text of a line that is nothing but a comment.
fn comment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let mark = ["///", "//!", "//"].into_iter().find(|mark| line.starts_with(mark))?;
    Some((mark, line[mark.len()..].trim()))
}

fn begins_with_word(text: &str, word: &str) -> bool {
    let rest = text.strip_prefix(word);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
}

fn check_names(source: &Source, tokens: TokenStream, findings: &mut Vec<RuleFinding>) {
    const DEFINES: [&str; 7] = ["struct", "enum", "union", "type", "trait", "mod", "fn"];
    let mut defines = false;
    for token in tokens {
        let word = match &token {
            TokenTree::Group(group) => {
                check_names(source, group.stream(), findings);
                None
            }
            TokenTree::Ident(word) => Some(word),
            _ => None,
        };
        if let Some(word) = word
            && let Some(instead) = instead_of(word, defines)
        {
            let message = format!("the name {word}: write {instead}");
            findings.push(source.finding(word.span(), message));
        }
        defines = word.is_some_and(|word| DEFINES.iter().any(|defining| word == defining));
    }
}

fn instead_of(word: &Ident, is_defined: bool) -> Option<&'static str> {
    let banned = BANNED.iter().chain(BANNED_DEFINITIONS.iter().filter(|_| is_defined));
    let text = word.to_string();
    // A word of a longer name counts too: `what_is_told`.
    let is_part = |name: &str| name.starts_with("t") && text.split('_').any(|part| part == name);
    let whole = banned.copied().find(|(name, _)| word == name || is_part(name));
    let begun = BANNED_PREFIXES.iter().copied().find(|(prefix, _)| text.starts_with(prefix));
    whole.or(begun).map(|(_, instead)| instead)
}

/// Parameters of functions; those of closures and of other crates' traits are as they must be.
struct Parameters<'a> {
    source: &'a Source,
    findings: &'a mut Vec<RuleFinding>,
}

impl Parameters<'_> {
    fn check(&mut self, signature: &syn::Signature) {
        for input in &signature.inputs {
            let syn::FnArg::Typed(parameter) = input else { continue };
            let mut finding = |message| {
                let span = signature.ident.span();
                let name = &signature.ident;
                self.findings.push(self.source.finding(span, format!("fn {name}: {message}")));
            };
            if matches!(&*parameter.pat, Pat::Tuple(_)) {
                finding("a parameter is taken apart as a tuple: make it two, or a struct");
            } else if is_of_booleans(&parameter.ty) {
                finding("a parameter is a tuple of booleans: make it a struct with names");
            }
        }
    }
}

/// Whether it is a tuple with two booleans or more, behind references or not.
fn is_of_booleans(parameter: &Type) -> bool {
    let is_bool = |part: &&Type| matches!(part, Type::Path(path) if path.path.is_ident("bool"));
    match parameter {
        Type::Reference(reference) => is_of_booleans(&reference.elem),
        Type::Slice(slice) => is_of_booleans(&slice.elem),
        Type::Tuple(tuple) => tuple.elems.iter().filter(is_bool).count() > 1,
        _ => false,
    }
}

impl<'a> Visit<'a> for Parameters<'_> {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.check(&function.sig);
        visit::visit_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        for function in item.items.iter().filter(|_| item.trait_.is_none()) {
            if let syn::ImplItem::Fn(function) = function {
                self.check(&function.sig);
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_trait_item_fn(&mut self, function: &'a syn::TraitItemFn) {
        self.check(&function.sig);
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::messages;
    use super::check;

    fn count(text: &str) -> usize {
        messages("a.rs", text, check).len()
    }

    #[test]
    fn comments_begin_with_a_verb_or_a_noun() {
        for text in [
            "/// Of what is sent.\nfn f() {}\n",
            "/// Sends.\n///\n/// That may fail.\nfn f() {}\n",
            "//! What sends.\n",
            "fn f() {\n    // So many at most.\n}\n",
            "/// Sends.\n// Who waits.\nfn f() {}\n",
        ] {
            assert_eq!(count(text), 1, "{text}");
        }
        for text in [
            "/// Offers.\nfn f() {}\n",
            "/// Sends, so that\n/// That goes on.\nfn f() {}\n",
            "const A: &str = \"// Of\";\n",
        ] {
            assert_eq!(count(text), 0, "{text}");
        }
    }

    #[test]
    fn names_are_plain() {
        for text in [
            "fn f() { let told = 1; }",
            "const MOST_FILES: u8 = 1;",
            "enum Step {}",
            "type Way = u8;",
            "mod lot {}",
            "m! { x.bury() }",
        ] {
            assert_eq!(count(text), 1, "{text}");
        }
        for text in ["enum PlanStep { Way }", "fn f(s: network::Step) {}", "fn f() -> Landed {}"] {
            assert_eq!(count(text), 0, "{text}");
        }
    }

    #[test]
    fn parameters_have_names() {
        for text in [
            "fn f((a, b): (u8, u16)) {}",
            "fn f(a: (bool, bool)) {}",
            "fn f(a: &[(u8, bool, bool)]) {}",
            "impl T { fn f((a, b): (u8, u16)) {} }",
            "trait T { fn f(a: (bool, bool)); }",
        ] {
            assert_eq!(count(text), 1, "{text}");
        }
        for text in [
            "impl From<(u8, u8)> for T { fn from((a, b): (u8, u8)) -> T { T(a) } }",
            "fn f(a: (u8, bool)) { g(|(a, b)| a) }",
        ] {
            assert_eq!(count(text), 0, "{text}");
        }
    }
}
