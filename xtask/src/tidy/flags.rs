//! Flags are named by the program alone.
//!
//! Works on tokens, so that the bodies of macros and `#[error(…)]` are seen too.

use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::source::Source;
use crate::finding::RuleFinding;

/// Crates that a program uses whose flags they cannot know.
const CRATES: [&str; 10] = [
    "crates/uncopy-channel",
    "crates/uncopy-copy",
    "crates/uncopy-core",
    "crates/uncopy-doctor",
    "crates/uncopy-fidl",
    "crates/uncopy-fidl-channel",
    "crates/uncopy-fidl-derive",
    "crates/uncopy-os",
    "crates/uncopy-send",
    "crates/uncopy-zx",
];

pub(super) fn check(source: &Source, findings: &mut Vec<RuleFinding>) {
    if is_library(&source.path) && !is_test(&source.path) {
        check_tokens(source, source.tokens.clone(), findings);
    }
}

fn is_library(path: &Path) -> bool {
    CRATES.iter().any(|root| path.starts_with(Path::new(root).join("src")))
}

/// A file of tests alone.
fn is_test(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "tests.rs")
        || path.components().any(|part| part.as_os_str() == "tests")
}

fn check_tokens(source: &Source, tokens: TokenStream, findings: &mut Vec<RuleFinding>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        if let Some(after) = after_skipped(&tokens[place..]) {
            place += after;
            continue;
        }
        match token {
            TokenTree::Group(group) => check_tokens(source, group.stream(), findings),
            TokenTree::Literal(literal) if names_flag(&literal.to_string()) => {
                let message = "a text of a library names a flag: give a typed reason or step whose \
                               words name the option, and put the flag into the program's table \
                               (crates/uncopy-cli/src/flags/naming.rs)";
                findings.push(source.finding(literal.span(), message));
            }
            _ => {}
        }
        place += 1;
    }
}

/// How many tokens are to be passed over here: an attribute of documentation, or an item for tests.
fn after_skipped(tokens: &[TokenTree]) -> Option<usize> {
    let [TokenTree::Punct(mark), rest @ ..] = tokens else { return None };
    let inner = matches!(rest, [TokenTree::Punct(bang), ..] if bang.as_char() == '!');
    let Some(TokenTree::Group(attribute)) = rest.get(usize::from(inner)) else { return None };
    let length = 2 + usize::from(inner);
    let words: Vec<String> =
        attribute.stream().into_iter().map(|token| token.to_string()).collect();
    match (mark.as_char(), words.first().map(String::as_str)) {
        ('#', Some("doc")) => Some(length),
        ('#', Some("cfg")) if words.get(1).is_some_and(|condition| condition == "(test)") => {
            let ends = |token: &TokenTree| match token {
                TokenTree::Punct(mark) => mark.as_char() == ';',
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                _ => false,
            };
            let item = tokens[length..].iter().position(ends);
            Some(item.map_or(tokens.len(), |end| length + end + 1))
        }
        _ => None,
    }
}

/// Whether a string, as it is written, has a word that begins with two dashes and a letter.
fn names_flag(literal: &str) -> bool {
    let Some((_, text)) = literal.split_once('"') else { return false };
    let starts = text.match_indices("--").map(|(at, _)| at);
    let mut found = starts.filter(|at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + 2..].chars().next();
        before.is_none_or(|before| before.is_whitespace() || "`('=/,".contains(before))
            && after.is_some_and(|after| after.is_ascii_lowercase())
    });
    found.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::super::source::messages;
    use super::check;

    const FILE: &str = "crates/uncopy-copy/src/staging.rs";

    fn count(path: &str, text: &str) -> usize {
        messages(path, text, check).len()
    }

    #[test]
    fn texts_that_name_flags_are_found() {
        for text in [
            "const A: &str = \"--in-place contradicts\";",
            "const A: &str = \"pass --links=skip\";",
            "const A: &str = \"the probe (`--probe`) sent\";",
            "const A: &str = \"so that \\\n    --in-place writes\";",
            "#[error(\"pass --links\")]\nenum A {}",
            "table! { A = \"a\", \"Pass --probe.\"; }",
            "fn a() { f(format!(\"{b}; --in-place\")) }",
            "const A: &str = r\"pass --links\";",
        ] {
            assert_eq!(count(FILE, text), 1, "{text}");
        }
    }

    #[test]
    fn what_is_no_flag_is_left_alone() {
        for text in [
            "const A: &str = \"a -- b, a--b, --2, ---\";",
            "/// With `--links=skip`.\nfn a() {}",
            "//! With `--links=skip`.\nfn a() {}",
            "// --links\nfn a() { b -= --c; }",
            "const A: char = '\"';",
        ] {
            assert_eq!(count(FILE, text), 0, "{text}");
        }
    }

    #[test]
    fn tests_may_name_flags() {
        let text = "#[cfg(test)]\nmod tests { const A: &str = \"--links\"; }\n";
        assert_eq!(count(FILE, text), 0);
        let text = "#[cfg(test)]\nmod tests;\nconst A: &str = \"--links\";\n";
        assert_eq!(count(FILE, text), 1);
        let bare = "const A: &str = \"--links\";";
        assert_eq!(count("crates/uncopy-copy/src/portable/tests.rs", bare), 0);
        assert_eq!(count("crates/uncopy-copy/tests/a.rs", bare), 0);
    }

    #[test]
    fn programs_name_their_flags() {
        let text = "const A: &str = \"--links\";";
        assert_eq!(count("crates/uncopy-cli/src/flags/naming.rs", text), 0);
        assert_eq!(count("crates/uncopy-doctor/src/finding.rs", text), 1);
    }
}
