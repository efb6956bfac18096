//! Examples on the pages: code that a test compiles, and commands that the programs take.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Command;
use clap::error::ErrorKind;

use super::page::{Block, Page};
use crate::finding::RuleFinding;

/// Pages with Rust code that no test includes, which are all but those in `included`.
pub(super) fn check_code(
    page: &Page,
    included: &BTreeSet<PathBuf>,
    findings: &mut Vec<RuleFinding>,
) {
    let is_rust = |block: &&Block| block.language.split(',').next() == Some("rust");
    if let Some(block) = page.blocks.iter().find(is_rust)
        && !included.contains(&page.path)
    {
        let message = "code that no test runs; include the page in a crate's documentation";
        findings.push(page.finding(block.line, message));
    }
}

/// Pages that a source file includes: the argument of every `include_str!` that ends in `.md`.
pub(super) fn included(path: &std::path::Path, source: &str) -> Vec<PathBuf> {
    source
        .split("include_str!(\"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"'))
        .filter(|(target, _)| target.ends_with(".md"))
        .filter_map(|(target, _)| match super::links::resolve(path, target) {
            super::links::Place::File { path, .. } => Some(path),
            _ => None,
        })
        .collect()
}

/// Blocks of C whose lines are not, in their order, in one of the C tests.
pub(super) fn check_c(page: &Page, tests: &[String], findings: &mut Vec<RuleFinding>) {
    for block in page.blocks.iter().filter(|block| block.language == "c") {
        if !tests.iter().any(|test| has_lines(test, &block.text)) {
            let message = "C that no test compiles; put these lines into one of uncopy-zx's tests";
            findings.push(page.finding(block.line, message));
        }
    }
}

/// Whether the lines of `part` are in `whole`, in order, however they are indented.
fn has_lines(whole: &str, part: &str) -> bool {
    let mut lines = whole.lines().map(str::trim);
    part.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .all(|line| lines.any(|it| it == line))
}

/// Commands in blocks marked `console` that a program would not take.
pub(super) fn check_commands(page: &Page, programs: &Programs, findings: &mut Vec<RuleFinding>) {
    for block in page.blocks.iter().filter(|block| block.language == "console") {
        for (index, line) in block.text.lines().enumerate() {
            let Some(line) = line.strip_prefix("$ ") else { continue };
            for words in commands(line) {
                if let Some(message) = programs.refusal(&words) {
                    findings.push(page.finding(block.line + 1 + index, message));
                }
            }
        }
    }
}

/// The programs whose command lines are known.
pub(super) struct Programs {
    pub(super) uncopy: Command,
    pub(super) xtask: Command,
}

impl Programs {
    /// The error in a command, if it is one of these programs'.
    fn refusal(&self, words: &[String]) -> Option<String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (program, arguments) = match &*words {
            ["uncopy", arguments @ ..] => (&self.uncopy, arguments),
            ["cargo", "run", "--release", "--", arguments @ ..] => (&self.uncopy, arguments),
            ["cargo", "xtask", arguments @ ..] => (&self.xtask, arguments),
            _ => return None,
        };
        let all =
            std::iter::once(&program.get_name()).chain(arguments).copied().collect::<Vec<_>>();
        let error = program.clone().try_get_matches_from(all).err()?;
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
            _ => Some(format!(
                "the program does not take this: {}",
                error.to_string().lines().next().unwrap_or_default()
            )),
        }
    }
}

/// The commands of a line, without `sudo`, variables and what goes to files.
fn commands(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line).unwrap_or_default();
    let is_end = |word: &String| ["|", "||", "&&", ";", "&"].contains(&&**word);
    words
        .split(is_end)
        .map(|command| {
            let is_variable = |word: &&String| {
                word.split_once('=').is_some_and(|(name, _)| {
                    name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
                })
            };
            let command = command.iter().skip_while(|word| *word == "sudo" || is_variable(word));
            command.take_while(|word| !word.starts_with('>')).cloned().collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use clap::{Arg, ArgAction, Command};

    use super::{Page, Programs, check_c, check_code, check_commands, commands, included};

    #[test]
    fn lines_come_apart_into_commands() {
        for (line, expected) in [
            ("uncopy cp a b     # copies", "uncopy cp a b"),
            ("A_B=1 sudo uncopy cp 'a b' c >x", "uncopy cp a b c"),
            ("uncopy bench recv -4 udp &", "uncopy bench recv -4 udp|"),
            ("mkdir d && uncopy cp a d", "mkdir d|uncopy cp a d"),
        ] {
            let found: Vec<_> = commands(line).iter().map(|words| words.join(" ")).collect();
            assert_eq!(found.join("|"), expected);
        }
    }

    #[test]
    fn flags_that_there_are_not_are_found() {
        let cp = Command::new("cp")
            .arg(Arg::new("v").short('v').action(ArgAction::SetTrue))
            .arg(Arg::new("names").num_args(2));
        let programs = Programs {
            uncopy: Command::new("uncopy").subcommand(cp),
            xtask: Command::new("cargo xtask"),
        };
        let text = "# A\n```console\n$ uncopy cp -v a b\na -> b\n$ uncopy cp -w a b\n$ uncopy mv a\n\
                    $ cp -w\n$ uncopy --help\n```\n```text\n$ uncopy mv\n```\n";
        let mut findings = Vec::new();
        check_commands(&Page::parse("docs/a.md", text), &programs, &mut findings);
        let lines: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [5, 6], "{findings:?}");
    }

    #[test]
    fn c_belongs_to_a_test() {
        let page = Page::parse("docs/a.md", "# A\n```c\n#include <x.h>\n\nf(1);\n```\n");
        for (test, count) in [
            ("#include <x.h>\nint main(void) {\n  f(1);\n}\n", 0),
            ("int main(void) {\n  f(1);\n}\n#include <x.h>\n", 1),
            ("#include <x.h>\n", 1),
        ] {
            let mut findings = Vec::new();
            check_c(&page, &[test.to_owned()], &mut findings);
            assert_eq!(findings.len(), count, "{test}");
        }
    }

    #[test]
    fn code_belongs_to_a_test() {
        let page = Page::parse("docs/a.md", "# A\n```rust,no_run\nmain()\n```\n");
        let source = "#[doc = include_str!(\"../../../docs/a.md\")]\nstruct Book;\n";
        let included = included(Path::new("crates/x/src/lib.rs"), source);
        for (included, count) in [(BTreeSet::from_iter(included), 0), (BTreeSet::new(), 1)] {
            let mut findings = Vec::new();
            check_code(&page, &included, &mut findings);
            assert_eq!(findings.len(), count, "{findings:?}");
        }
    }
}
