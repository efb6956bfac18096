//! Which system it runs on is asked in few places, each a file behind a name.

use proc_macro2::{TokenStream, TokenTree};

use super::source::Source;
use crate::finding::RuleFinding;

/// Files and folders of the library that may ask for the platform: the crate's root and the one
/// place of each part where the portable way is chosen.
const PLATFORM_FILES: [&str; 2] = ["src/lib.rs", "src/capabilities/mod.rs"];

/// Crates that other systems have too, or that are empty there.
const CRATES: [&str; 7] = [
    "crates/uncopy",
    "crates/uncopy-channel",
    "crates/uncopy-copy",
    "crates/uncopy-core",
    "crates/uncopy-doctor",
    "crates/uncopy-os",
    "crates/uncopy-send",
];

const PLATFORM_WORDS: [&str; 5] = ["target_os", "target_family", "target_env", "unix", "windows"];

pub(super) fn check(source: &Source, findings: &mut Vec<RuleFinding>) {
    let inside = CRATES.iter().find_map(|root| source.path.strip_prefix(root).ok());
    let in_library = inside.filter(|inside| inside.starts_with("src"));
    let may_ask = |inside| PLATFORM_FILES.iter().any(|file| inside == std::path::Path::new(file));
    if in_library.is_some_and(|inside| !may_ask(inside)) {
        check_tokens(source, source.tokens.clone(), findings);
    }
}

fn check_tokens(source: &Source, tokens: TokenStream, findings: &mut Vec<RuleFinding>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for pair in tokens.windows(2) {
        if let [TokenTree::Ident(word), TokenTree::Group(condition)] = pair
            && (word == "cfg" || word == "cfg_attr")
            && asks_for_platform(condition.stream())
        {
            let message = "asks for the platform: put the Linux way and the others into a file \
                           each, and choose in the crate's lib.rs";
            findings.push(source.finding(word.span(), message));
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            check_tokens(source, group.stream(), findings);
        }
    }
}

fn asks_for_platform(condition: TokenStream) -> bool {
    condition.into_iter().any(|token| match token {
        TokenTree::Ident(word) => PLATFORM_WORDS.iter().any(|platform| word == platform),
        TokenTree::Group(group) => asks_for_platform(group.stream()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::messages;
    use super::check;

    #[test]
    fn only_the_roots_ask_for_the_platform() {
        let text = "#[cfg(all(test, not(target_os = \"linux\")))]\nmod a;\n";
        for (path, count) in [
            ("crates/uncopy-copy/src/run.rs", 1),
            ("crates/uncopy-copy/src/lib.rs", 0),
            ("crates/uncopy-copy/tests/a.rs", 0),
            ("crates/uncopy-os/src/capabilities/mod.rs", 0),
            ("crates/uncopy-cli/src/lib.rs", 0),
        ] {
            assert_eq!(messages(path, text, check).len(), count, "{path}");
        }
        let other = "#[cfg(test)]\nmod a { fn unix() {} }\n";
        assert!(messages("crates/uncopy-copy/src/run.rs", other, check).is_empty());
    }
}
