//! Calls and attributes that must not reach the main branch.

use proc_macro2::{TokenStream, TokenTree};

use super::source::Source;
use crate::finding::Finding;

/// Macros, and what to do instead.
const BANNED_MACROS: [(&str, &str); 3] = [
    ("todo", "write it, or return an error that says what does not work"),
    ("unimplemented", "write it, or return an error that says what does not work"),
    ("dbg", "assert it in a test, or report it through the receipt"),
];

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    check_tokens(source, source.tokens.clone(), findings);
}

fn check_tokens(source: &Source, tokens: TokenStream, findings: &mut Vec<Finding>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => check_tokens(source, group.stream(), findings),
            TokenTree::Ident(word) if is_punctuation(tokens.get(index + 1), '!') => {
                let name = word.to_string();
                if let Some((_, instead)) = BANNED_MACROS.iter().find(|(banned, _)| *banned == name)
                {
                    let message = format!("{name}! is banned: {instead}");
                    findings.push(source.finding(word.span(), message));
                }
            }
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = tokens.get(index + 1) {
                    check_attribute(source, attribute.stream(), findings);
                }
            }
            _ => {}
        }
    }
}

fn check_attribute(source: &Source, tokens: TokenStream, findings: &mut Vec<Finding>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    if let [TokenTree::Ident(word)] = tokens.as_slice()
        && word == "ignore"
    {
        let message = "an ignored test without a reason: write #[ignore = \"…\"], or better a \
                       test that shows why it skips";
        findings.push(source.finding(word.span(), message));
    }
}

fn is_punctuation(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == wanted)
}

#[cfg(test)]
mod tests {
    use super::super::source::messages;
    use super::check;

    #[test]
    fn banned_macros_name_what_to_do_instead() {
        for name in ["todo", "unimplemented", "dbg"] {
            let found = messages("a.rs", &format!("fn f() {{\n    {name}!();\n}}\n"), check);
            assert!(found[0].starts_with(&format!("2: {name}! is banned: ")), "{found:?}");
        }
        assert!(messages("a.rs", "fn f() { let todo = !dbg; println!(); }", check).is_empty());
    }

    #[test]
    fn ignored_tests_give_a_reason() {
        let bare = messages("a.rs", "#[test]\n#[ignore]\nfn f() {}\n", check);
        assert!(bare[0].starts_with("2: an ignored test"), "{bare:?}");
        let reasoned = "#[test]\n#[ignore = \"needs a disk\"]\nfn f() {}\n";
        assert!(messages("a.rs", reasoned, check).is_empty());
    }
}
