//! Selects the entries of a tree to copy, by patterns as in `gitignore(5)`.

mod wildmatch;

use std::path::Path;

use uncopy_core::{Error, Objection, Reason, Result};
use wildmatch::Glob;

/// List of patterns; the last one that matches decides.
///
/// They match as the lines of a `.gitignore` at the root of the source do, byte by byte: a pattern
/// without a slash (but at its end) matches names at any depth; one with a slash matches paths from
/// the root. A slash at its end lets it match directories alone. `*`, `?` and sets (`[a-z]`,
/// `[[:alpha:]]`) match no slash, `**` matches any number of directories. A backslash takes the meaning of
/// what follows; blanks at the end do not count without one. An entry that nothing matches is
/// copied, unless the first pattern is an [include](Selection::include): then only what is included
/// is, and directories are gone through to find it. What lies in an excluded directory is never
/// looked at.
///
/// ```
/// use std::path::Path;
/// use uncopy::copy::job::Selection;
/// let mut selection = Selection::default();
/// selection.exclude("*.o")?;
/// selection.exclude("/target/")?;
/// selection.include("keep.o")?;
/// assert!(selection.selects(Path::new("src/main.rs"), false));
/// assert!(!selection.selects(Path::new("src/main.o"), false));
/// assert!(selection.selects(Path::new("src/keep.o"), false));
/// assert!(!selection.selects(Path::new("target"), true));
/// # Ok::<(), uncopy::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    rules: Vec<Rule>,
    /// The first pattern was an include.
    starts_empty: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    glob: Glob,
    include: bool,
}

impl Selection {
    /// Adds a pattern of entries to copy, even if an earlier pattern excludes them: a line of `.gitignore`
    /// with `!` before it.
    ///
    /// # Errors
    /// The pattern cannot match anything.
    pub fn include(&mut self, pattern: &str) -> Result<()> {
        let glob = glob(pattern, pattern)?;
        self.starts_empty |= self.rules.is_empty();
        self.rules.push(Rule { glob, include: true });
        Ok(())
    }

    /// Adds a pattern of entries to leave out; with `!` at its beginning, of entries to copy all the same.
    ///
    /// # Errors
    /// The pattern cannot match anything, or is a comment (`#`).
    pub fn exclude(&mut self, pattern: &str) -> Result<()> {
        if pattern.starts_with('#') {
            let reason = "it is a comment".into();
            return Err(refused(pattern, reason));
        }
        let negated = pattern.strip_prefix('!');
        let glob = glob(negated.unwrap_or(pattern), pattern)?;
        self.rules.push(Rule { glob, include: negated.is_some() });
        Ok(())
    }

    /// Whether everything is copied.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether an entry is copied, by its path from the root of its source. A directory that is not copied
    /// is not searched.
    #[must_use]
    pub fn selects(&self, path: &Path, is_directory: bool) -> bool {
        let path = path.as_os_str().as_encoded_bytes();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let matches = |rule: &&Rule| {
            (is_directory || !rule.glob.directories_only) && rule.glob.matches(path, name)
        };
        let decisive = self.rules.iter().rev().find(matches);
        decisive.map_or(is_directory || !self.starts_empty, |rule| rule.include)
    }
}

/// Parses `line`, which is a part of the caller's `pattern`.
fn glob(line: &str, pattern: &str) -> Result<Glob> {
    Glob::new(line.as_bytes()).map_err(|reason| refused(pattern, reason))
}

/// Makes the error for a pattern that cannot match anything. git ignores such lines.
fn refused(pattern: &str, reason: String) -> Error {
    Error::new("use the pattern", pattern, Reason::Refused(Objection::Pattern { reason }))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// `-pattern` excludes, `+pattern` includes.
    fn selection(rules: &str) -> Selection {
        let mut selection = Selection::default();
        for rule in rules.split_whitespace() {
            match rule.split_at(1) {
                ("+", pattern) => selection.include(pattern).unwrap(),
                (_, pattern) => selection.exclude(pattern).unwrap(),
            }
        }
        selection
    }

    #[test]
    fn the_last_pattern_that_matches_decides() {
        // Rules, path (a directory with a slash at its end), copied.
        for (rules, path, expected) in [
            ("", "a", true),
            ("-*.o", "a.o", false),
            ("-*.o", "a/b/c.o", false),
            ("-*.o", "a.c", true),
            ("-*.o +keep.o", "a/keep.o", true),
            ("+keep.o -*.o", "keep.o", false),
            ("-/a", "a", false),
            ("-/a", "b/a", true),
            ("-a/b", "a/b", false),
            ("-a/b", "c/a/b", true),
            ("-**/a/b", "c/a/b", false),
            ("-a/**", "a/b/c", false),
            ("-a/**", "a", true),
            ("-a/*", "a/b/c", true),
            ("-target/", "x/target/", false),
            ("-target/", "x/target", true),
            ("-?", "ab", true),
            ("-[ab]", "b", false),
            ("-{x,y}.c", "y.c", true),
            ("-{x,y}.c", "{x,y}.c", false),
            ("-[[:alpha:]]", "x", false),
            ("-[[:alpha:]]", "1", true),
            ("-[!a]", "a", true),
            ("-[]a]", "]", false),
            ("-[[:a]", ":", false),
            ("-\\#c", "#c", false),
            ("-\\!c", "!c", false),
            ("-* -!c", "c", true),
            ("-!c", "d", true),
            ("+!c", "!c", true),
            ("+#c", "#c", true),
            ("-a\\*", "a*", false),
            ("-a\\*", "ab", true),
            ("-**", "a/b", false),
            ("-a/**/b", "a/b", false),
            ("-a/**/b", "a/x/y/b", false),
            ("-a/*/b", "a/x/y/b", true),
            ("+*.c", "a/b.c", true),
            ("+*.c", "a/b.h", false),
            ("+*.c", "a/", true),
            ("+*.c -/a/", "a/", false),
            ("-.*", ".git/", false),
        ] {
            let (path, is_directory) =
                path.strip_suffix('/').map_or((path, false), |path| (path, true));
            let found = selection(rules).selects(Path::new(path), is_directory);
            assert_eq!(found, expected, "{rules} {path}");
        }
    }

    #[test]
    fn names_that_are_not_utf_8_are_matched_too() {
        let path = Path::new(OsStr::from_bytes(b"a/\xff.o"));
        assert!(!selection("-*.o").selects(path, false));
        assert!(selection("-*.c").selects(path, false));
    }

    #[test]
    fn patterns_that_match_nothing_are_refused() {
        for pattern in ["", " ", "/", "//", "!", "!/", "[a", "[]", "[[:letter:]]", "a\\", "#c", "#"]
        {
            let error = Selection::default().exclude(pattern).unwrap_err();
            assert!(error.to_string().contains("makes no sense"), "{error}");
        }
        for pattern in ["", "/", "[a", "a\\"] {
            Selection::default().include(pattern).unwrap_err();
        }
    }

    #[test]
    fn blanks_at_the_end_do_not_count_without_a_backslash() {
        for (pattern, name, expected) in [
            ("a  ", "a", true),
            ("a  ", "a  ", false),
            ("a\\ ", "a ", true),
            ("a\\  ", "a ", true),
            ("a b ", "a b", true),
            ("a\t", "a\t", true),
            ("a/ ", "a", false),
        ] {
            let mut selection = Selection::default();
            selection.exclude(pattern).unwrap();
            let found = !selection.selects(Path::new(name), false);
            assert_eq!(found, expected, "{pattern:?} {name:?}");
        }
    }
}
