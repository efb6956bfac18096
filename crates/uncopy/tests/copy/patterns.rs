//! Patterns of trees, held against git's own answers.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testbed::{Case, Need, Place, by_extent};
use uncopy::copy::job::Selection;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![[Need::Tool("git")] patterns_mean_what_they_mean_to_git]
}

/// Fragments that patterns are built from.
const PARTS: [&str; 52] = [
    "a", "b", "c", "foo", "bar", ".c", ".", "-", "1", "A", "_", "é", "{a,b}", "{", ",", "^", "*",
    "*", "*", "**", "***", "?", "?", "/", "/", "/", "**/", "/**", "/**/", "[ab]", "[!a]", "[^a]",
    "[a-c]", "[c-a]", "[]a]", "[a-]", "[!-]", "[\\]]", "[\\a-c]", "[a\\-c]", "[/]", "[é]", "\\",
    "\\*", "\\a", "\\ ", "\\#", "\\!", " ", "#", "!", "[",
];

/// Sets by class, also such as there are not.
const CLASSES: [&str; 16] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit", "letter", "", "alpha:", "Alpha",
];

/// Fragments that names are built from, and whole names.
const NAMES: [&[u8]; 40] = [
    b"a",
    b"b",
    b"c",
    b"ab",
    b"abc",
    b"foo",
    b"bar",
    b"foobar",
    b"fooa",
    b"a.c",
    b".c",
    b"b.c",
    b"A",
    b"B1",
    b"1",
    b"_",
    b"-",
    b"a b",
    b"a ",
    b" a",
    b"foo ",
    b"#",
    b"#c",
    b"!",
    b"!a",
    b"a*",
    b"*",
    b"?",
    b"[a]",
    b"]",
    b"\\",
    b"a\\",
    b"\\a",
    b"{a,b}",
    b"\xc3\xa9",
    b"\xc3",
    b"\xff",
    b"a\x0b",
    b"\ta",
    b"x^y",
];

/// Numbers that look random and are the same each time (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((word ^ (word >> 31)) % bound as u64).unwrap()
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    /// A pattern that is like a path of the tree, or like nothing.
    fn pattern(&mut self, tree: &[(PathBuf, bool)]) -> String {
        let mut pattern = String::new();
        if let Some(path) = tree[self.below(tree.len())].0.to_str()
            && self.one_in(2)
        {
            let from =
                if self.one_in(2) { path.rfind('/').map_or(0, |slash| slash + 1) } else { 0 };
            for letter in path[from..].chars() {
                match self.below(14) {
                    0 => pattern.push('?'),
                    1 => pattern.push('*'),
                    2 => pattern.push_str("**"),
                    3 => pattern.extend(['[', letter, ']']),
                    4 => pattern.extend(['\\', letter]),
                    5 => pattern.push_str(self.set().as_str()),
                    6 => {}
                    7 => pattern.extend([letter, '*']),
                    _ => pattern.push(letter),
                }
            }
            return self.ended(pattern);
        }
        for (chance, begin) in [(8, "!"), (16, "#"), (6, "/"), (12, "**/")] {
            if self.one_in(chance) {
                pattern.push_str(begin);
            }
        }
        for _ in 0..1 + self.below(5) {
            match self.one_in(6) {
                true => pattern.push_str(&self.set()),
                false => pattern.push_str(PARTS[self.below(PARTS.len())]),
            }
        }
        self.ended(pattern)
    }

    fn set(&mut self) -> String {
        let class = CLASSES[self.below(CLASSES.len())];
        let frames = ["[[:C:]]", "[![:C:]]", "[a[:C:]-z]", "[[:C]]", "[[:C:]"];
        frames[self.below(frames.len())].replace('C', class)
    }

    fn ended(&mut self, mut pattern: String) -> String {
        for (chance, end) in [(6, "/"), (10, " "), (16, "  "), (16, "\\ ")] {
            if self.one_in(chance) {
                pattern.push_str(end);
            }
        }
        pattern
    }

    /// Paths, and whether each is a directory. What lies in one that is listed is listed after it.
    fn tree(&mut self) -> Vec<(PathBuf, bool)> {
        let mut directories = vec![PathBuf::new()];
        let mut found: Vec<(PathBuf, bool)> = Vec::new();
        for _ in 0..36 {
            let above = &directories[self.below(directories.len())];
            let path = above.join(OsStr::from_bytes(NAMES[self.below(NAMES.len())]));
            if found.iter().any(|(known, _)| *known == path) {
                continue;
            }
            let is_directory = self.one_in(3) && path.components().count() < 4;
            if is_directory {
                directories.push(path.clone());
            }
            found.push((path, is_directory));
        }
        found
    }
}

/// Lines of one `.gitignore`, with the selection that should mean the same, and a tree to judge.
struct Question {
    lines: Vec<String>,
    selection: Selection,
    tree: Vec<(PathBuf, bool)>,
}

impl Question {
    fn new(dice: &mut Dice, patterns: usize) -> Question {
        let mut selection = Selection::default();
        // A selection that begins with an include is no `.gitignore`.
        selection.exclude("zzz").unwrap();
        let mut lines = vec![String::from("zzz")];
        let tree = dice.tree();
        for _ in 0..patterns {
            let pattern = dice.pattern(&tree);
            // A refused pattern matches nothing, so git may be given the line.
            if dice.one_in(4) {
                let _ = selection.include(&pattern);
                lines.push(format!("!{pattern}"));
            } else {
                let _ = selection.exclude(&pattern);
                lines.push(pattern);
            }
        }
        Question { lines, selection, tree }
    }

    fn is_left_out(&self, path: &Path, is_directory: bool) -> bool {
        let mut above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        above.any(|above| !self.selection.selects(above, true))
            || !self.selection.selects(path, is_directory)
    }
}

/// The paths that git ignores, of those that are asked about.
fn ignored(repository: &Path, asked: &[PathBuf]) -> HashSet<PathBuf> {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(words).current_dir(repository).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
        command
    };
    assert!(git(&["init", "-q"]).status().unwrap().success());
    let mut child = git(&["check-ignore", "--no-index", "--stdin", "-z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = Vec::new();
    for path in asked {
        lines.extend_from_slice(path.as_os_str().as_bytes());
        lines.push(0);
    }
    let writer = std::thread::spawn(move || input.write_all(&lines));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "git check-ignore: {}", output.status);
    let paths = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

/// 2,000 patterns, alone and in lists, each list in a directory of its own; 500 in the short extent.
fn patterns_mean_what_they_mean_to_git() {
    let mut dice = Dice(20);
    let lists = by_extent([62, 250, 250]);
    let sizes = std::iter::repeat_n(1, 4 * lists).chain(std::iter::repeat_n(4, lists));
    let questions: Vec<Question> = sizes.map(|size| Question::new(&mut dice, size)).collect();
    let scratch = Place::Disk.scratch();
    let mut asked = Vec::new();
    for (number, question) in questions.iter().enumerate() {
        let root = PathBuf::from(format!("q{number}"));
        let directory = scratch.join(&root);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(".gitignore"), question.lines.join("\n") + "\n").unwrap();
        for (path, is_directory) in &question.tree {
            if *is_directory {
                fs::create_dir(directory.join(path)).unwrap();
            }
            asked.push(root.join(path));
        }
    }
    let ignored = ignored(scratch.path(), &asked);
    let mut differences = Vec::new();
    for (number, question) in questions.iter().enumerate() {
        for (path, is_directory) in &question.tree {
            let expected = ignored.contains(&PathBuf::from(format!("q{number}")).join(path));
            let found = question.is_left_out(path, *is_directory);
            if found != expected {
                let slash = if *is_directory { "/" } else { "" };
                let (lines, path) = (&question.lines[1..], path.display());
                differences.push(format!("{lines:?} {path}{slash}: git ignores it: {expected}"));
            }
        }
    }
    let (all, wrong) = (asked.len(), differences.len());
    differences.truncate(20);
    assert!(wrong == 0, "{wrong} of {all} answers differ:\n{}", differences.join("\n"));
    // A test that nothing matches, or all does, would say little.
    assert!(ignored.len() > all / 20 && ignored.len() < all / 2, "{} of {all}", ignored.len());
}
