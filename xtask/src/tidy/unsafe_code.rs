//! Unsafe code only in its homes, and never without its proof.
//!
//! Works on tokens, so that the bodies of macros are seen too.

use std::path::{Path, PathBuf};

use anyhow::Result;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::source::Source;
use crate::finding::RuleFinding;

/// Folders that may hold unsafe code.
const HOMES: [&str; 6] = [
    "crates/testbed/src/sys",
    "crates/uncopy-channel/src/memory",
    "crates/uncopy-os/src",
    "crates/uncopy-python/src/sys",
    "crates/uncopy-send/src/room",
    "crates/uncopy-zx/src/sys",
];

/// Folders in them that may not.
const EXCEPT: [&str; 1] = ["crates/uncopy-os/src/capabilities"];

/// The entry point that the C library calls: an exported symbol, which Rust counts as unsafe.
const ENTRY: &str = "crates/uncopy-cli/src/entry.rs";

const INSTEAD: &str = "call a safe function, or put a thin safe one into uncopy-os";

fn is_home(path: &Path) -> bool {
    if path == Path::new(ENTRY) {
        return true;
    }
    HOMES.iter().any(|home| path.starts_with(home))
        && !EXCEPT.iter().any(|other| path.starts_with(other))
}

/// Arguments of `cargo xtask unsafe-code`.
#[derive(clap::Args)]
pub(crate) struct InventoryArguments {}

/// Prints every place that says `unsafe` in code, with its proof or contract.
///
/// # Errors
/// If the files cannot be read.
pub(crate) fn run(_: &InventoryArguments) -> Result<()> {
    let mut places = Vec::new();
    for path in crate::workspace::tracked_files()? {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let source = Source::read(&path)?;
            inventory(&source, source.tokens.clone(), &mut places);
        }
    }
    for (path, line, proof) in &places {
        println!("{}:{line}: {proof}", path.display());
    }
    let mut files: Vec<&PathBuf> = places.iter().map(|(path, ..)| path).collect();
    files.dedup();
    println!("{} places in {} files", places.len(), files.len());
    Ok(())
}

fn inventory(source: &Source, tokens: TokenStream, places: &mut Vec<(PathBuf, usize, String)>) {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => inventory(source, group.stream(), places),
            TokenTree::Ident(word) if word == "unsafe" => {
                if let Some((mark, _)) = proof_asked(tokens.clone()) {
                    let proof = source.comment_with(word.span(), mark);
                    let line = word.span().start().line;
                    places.push((source.path.clone(), line, proof.unwrap_or("no proof".into())));
                }
            }
            _ => {}
        }
    }
}

pub(super) fn check(source: &Source, findings: &mut Vec<RuleFinding>) {
    check_tokens(source, source.tokens.clone(), findings);
}

fn check_tokens(source: &Source, tokens: TokenStream, findings: &mut Vec<RuleFinding>) {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => check_tokens(source, group.stream(), findings),
            TokenTree::Ident(word) if word == "unsafe" => {
                let span = word.span();
                if !is_home(&source.path) {
                    let message = format!("unsafe code outside its homes: {INSTEAD}");
                    findings.push(source.finding(span, message));
                }
                if let Some((mark, instead)) = proof_asked(tokens.clone())
                    && !source.comment_says(span, mark)
                {
                    let message = format!("unsafe without a proof: {instead}");
                    findings.push(source.finding(span, message));
                }
            }
            _ => {}
        }
    }
}

/// How many blocks, functions and items are unsafe.
pub(super) fn count(source: &Source) -> usize {
    count_tokens(source.tokens.clone())
}

fn count_tokens(tokens: TokenStream) -> usize {
    let mut tokens = tokens.into_iter();
    let mut count = 0;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => count += count_tokens(group.stream()),
            TokenTree::Ident(word) if word == "unsafe" => {
                count += usize::from(proof_asked(tokens.clone()).is_some());
            }
            _ => {}
        }
    }
    count
}

/// Returns the mark that a comment must contain where `next` follows the word `unsafe`, and advice.
fn proof_asked(next: impl Iterator<Item = TokenTree>) -> Option<(&'static str, &'static str)> {
    let mut next = next.filter(|token| !matches!(token, TokenTree::Literal(_))).peekable();
    let is_extern = |token: &TokenTree| matches!(token, TokenTree::Ident(w) if w == "extern");
    let has_abi = next.next_if(is_extern).is_some();
    let what = next.next()?;
    let named = next.next().is_some_and(|token| matches!(token, TokenTree::Ident(_)));
    match what {
        // The type of a pointer.
        TokenTree::Ident(word) if word == "fn" && !named => None,
        TokenTree::Group(_) if has_abi => Some(("SAFETY:", "write `// SAFETY: …` above the item")),
        TokenTree::Ident(word) if word == "fn" || word == "trait" => {
            Some(("# Safety", "say in a `# Safety` section what the caller must guarantee"))
        }
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            Some(("SAFETY:", "write `// SAFETY: …` above the block"))
        }
        _ => Some(("SAFETY:", "write `// SAFETY: …` above the item")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::messages;
    use super::check;

    const HOME: &str = "crates/uncopy-os/src/file.rs";

    #[test]
    fn a_block_wants_its_proof() {
        let proven = "fn f() {\n    // SAFETY: g has no contract.\n    unsafe { g() }\n}\n";
        assert!(messages(HOME, proven, check).is_empty());
        let bare = messages(HOME, "fn f() {\n    // faster\n    unsafe { g() }\n}\n", check);
        assert!(bare[0].starts_with("3: unsafe without a proof"), "{bare:?}");
    }

    #[test]
    fn the_proof_may_stand_above_the_statement_or_on_its_line() {
        let above = "fn f() {\n    // SAFETY: fine.\n    let a =\n        unsafe { g() };\n}\n";
        assert!(messages(HOME, above, check).is_empty());
        let beside = "fn f() {\n    unsafe { g() } // SAFETY: fine.\n}\n";
        assert!(messages(HOME, beside, check).is_empty());
    }

    #[test]
    fn a_function_wants_its_contract() {
        let written =
            "/// Does.\n///\n/// # Safety\n/// Never twice.\n#[inline]\nunsafe fn f() {}\n";
        assert!(messages(HOME, written, check).is_empty());
        let of_c = "/// # Safety\n/// Never twice.\npub unsafe extern \"C\" fn f() {}\n";
        assert!(messages(HOME, of_c, check).is_empty());
        let silent = messages(HOME, "unsafe extern \"C\" fn f() {}\n", check);
        assert!(silent[0].contains("`# Safety`"), "{silent:?}");
        let types = "type A = unsafe fn(u8);\ntype B = unsafe extern \"C\" fn(u8) -> u8;\n";
        assert!(messages(HOME, types, check).is_empty());
        let block = messages(HOME, "unsafe extern \"C\" { fn f(); }\n", check);
        assert!(block[0].contains("`// SAFETY: …`"), "{block:?}");
        let silent = messages(HOME, "/// Does.\nunsafe fn f() {}\n", check);
        assert!(silent[0].contains("`# Safety`"), "{silent:?}");
    }

    #[test]
    fn the_inventory_has_the_whole_proof() {
        let text = "fn f() {\n    // Quick.\n    // SAFETY: g has no\n    // contract.\n    \
                    unsafe { g() }\n}\ntype A = unsafe fn(u8);\n";
        let source = super::Source::parse(HOME, text).unwrap();
        let mut places = Vec::new();
        super::inventory(&source, source.tokens.clone(), &mut places);
        assert_eq!(places.len(), 1);
        assert_eq!((places[0].1, places[0].2.as_str()), (5, "SAFETY: g has no contract."));
    }

    #[test]
    fn bodies_of_macros_are_looked_into() {
        let found = messages(HOME, "macro_rules! m { () => { unsafe { g() } } }\n", check);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn only_its_homes_may_hold_it() {
        let proven = "fn f() {\n    // SAFETY: fine.\n    unsafe { g() }\n}\n";
        for (path, count) in [
            ("crates/uncopy-channel/src/memory/pool.rs", 0),
            ("crates/uncopy-os/src/capabilities/device.rs", 1),
            ("crates/uncopy-cli/src/entry.rs", 0),
            ("crates/uncopy-cli/src/main.rs", 1),
            ("crates/uncopy-copy/src/run.rs", 1),
            ("crates/uncopy-send/src/rooms.rs", 1),
            ("xtask/src/sys/file.rs", 1),
        ] {
            assert_eq!(messages(path, proven, check).len(), count, "{path}");
        }
    }

    #[test]
    fn what_needs_a_proof_is_counted() {
        let count = |text: &str| super::count(&super::Source::parse("a.rs", text).unwrap());
        assert_eq!(count("fn f() { unsafe { g() }; m!(unsafe { h() }) }\nunsafe fn k() {}\n"), 3);
        assert_eq!(count("type A = unsafe fn(u8);\n// unsafe { }\n"), 0);
    }

    #[test]
    fn the_word_in_text_is_no_code() {
        let text = "// unsafe { }\nconst A: &str = \"unsafe { }\";\n";
        assert!(messages("crates/uncopy/src/lib.rs", text, check).is_empty());
    }
}
