//! Which entries of a tree are copied: patterns as `gitignore(5)` has them.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A list of patterns, of which the last one that matches decides.
///
/// A pattern without a slash (but at its end) matches names at any depth; one with a slash matches
/// paths from the root of the source. A slash at its end lets it match directories alone. `*` and
/// `?` match no slash, `**` matches any number of directories. An entry that nothing matches is
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
/// # Ok::<(), uncopy::copy::job::PatternError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Selection {
    rules: Vec<Rule>,
    globs: GlobSet,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    pattern: String,
    include: bool,
    directories_only: bool,
}

/// A pattern that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the pattern {pattern:?} makes no sense: {reason}; write a special character as [*] or \\*"
)]
pub struct PatternError {
    pattern: String,
    reason: String,
}

impl PartialEq for Selection {
    fn eq(&self, other: &Selection) -> bool {
        self.rules == other.rules
    }
}

impl Eq for Selection {}

impl Selection {
    /// Copies what matches, even if a pattern before this one excludes it.
    ///
    /// # Errors
    /// The pattern makes no sense.
    pub fn include(&mut self, pattern: &str) -> Result<(), PatternError> {
        self.add(pattern, true)
    }

    /// Leaves out what matches.
    ///
    /// # Errors
    /// The pattern makes no sense.
    pub fn exclude(&mut self, pattern: &str) -> Result<(), PatternError> {
        self.add(pattern, false)
    }

    fn add(&mut self, pattern: &str, include: bool) -> Result<(), PatternError> {
        let directories_only = pattern.ends_with('/');
        let rule = Rule { pattern: pattern.to_owned(), include, directories_only };
        let mut rules = self.rules.clone();
        rules.push(rule);
        let mut globs = GlobSetBuilder::new();
        let fail = |reason: String| PatternError { pattern: pattern.to_owned(), reason };
        for rule in &rules {
            let anchored = anchored(&rule.pattern).ok_or_else(|| fail("it is empty".into()))?;
            let glob = GlobBuilder::new(&anchored).literal_separator(true).build();
            globs.add(glob.map_err(|error| fail(error.kind().to_string()))?);
        }
        self.globs = globs.build().map_err(|error| fail(error.kind().to_string()))?;
        self.rules = rules;
        Ok(())
    }

    /// Everything is copied.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether an entry is copied, by its path from the root of its source; a directory that is not
    /// is not looked into.
    #[must_use]
    pub fn selects(&self, path: &Path, is_directory: bool) -> bool {
        let Some(first) = self.rules.first() else { return true };
        let matches = self.globs.matches(path).into_iter().rev();
        let mut rules = matches.map(|place| &self.rules[place]);
        let decisive = rules.find(|rule| is_directory || !rule.directories_only);
        decisive.map_or(is_directory || !first.include, |rule| rule.include)
    }
}

/// The pattern as it is matched against paths from the root.
fn anchored(pattern: &str) -> Option<String> {
    let trimmed = pattern.strip_suffix('/').unwrap_or(pattern);
    let path = trimmed.strip_prefix('/');
    if path.unwrap_or(trimmed).is_empty() {
        return None;
    }
    Some(match path {
        Some(path) => path.to_owned(),
        None if trimmed.contains('/') => trimmed.to_owned(),
        None => format!("**/{trimmed}"),
    })
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
            ("-{x,y}.c", "y.c", false),
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
    fn patterns_without_sense_are_refused() {
        for pattern in ["", "/", "//", "[a", "{a"] {
            let error = Selection::default().exclude(pattern).unwrap_err();
            assert!(error.to_string().contains("makes no sense"), "{error}");
        }
    }
}
