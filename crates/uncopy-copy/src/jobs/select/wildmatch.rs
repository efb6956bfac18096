//! Matches patterns byte by byte, as git does (`wildmatch.c` and `dir.c` of git 2.39).
//!
//! Libraries of globs differ from it: they know `{a,b}`, take characters for bytes, refuse or lack
//! `[[:alpha:]]`, and have other rules for `**` beside a name.

/// Result of an attempt to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Match,
    NoMatch,
    /// No match, and no longer text can match.
    Abort,
    /// No match, unless an earlier `**` takes a slash.
    AbortToStarStar,
}

/// Line of a `.gitignore` without its `!`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    /// Without a slash at its end.
    pattern: Vec<u8>,
    /// Length of the literal prefix.
    literal: usize,
    /// Whether a slash ended it.
    pub(super) directories_only: bool,
    /// Whether it has no slash, and so matches names at any depth.
    is_name: bool,
}

impl Glob {
    /// # Errors
    /// The reason why it cannot match anything; git ignores such lines.
    pub(super) fn new(line: &[u8]) -> Result<Glob, String> {
        let line = without_trailing_blanks(line);
        let directories_only = line.ends_with(b"/");
        let pattern = &line[..line.len() - usize::from(directories_only)];
        if pattern.is_empty() || pattern == b"/" {
            return Err(String::from("it is empty"));
        }
        check(pattern)?;
        let is_literal = |byte: &u8| !is_special(*byte);
        let literal = pattern.iter().take_while(|byte| is_literal(byte)).count();
        let is_name = !pattern.contains(&b'/');
        Ok(Glob { pattern: pattern.to_vec(), literal, directories_only, is_name })
    }

    /// Whether it matches a path from the root; `name` is what stands behind its last slash.
    pub(super) fn matches(&self, path: &[u8], name: &[u8]) -> bool {
        if self.is_name {
            // A name has no slash that `*` could stop at.
            return wildmatch(&self.pattern, name, false) == Outcome::Match;
        }
        let (mut pattern, mut literal) = (&self.pattern[..], self.literal);
        if pattern[0] == b'/' {
            (pattern, literal) = (&pattern[1..], literal - 1);
        }
        // The literal prefix is removed first, as in `match_pathname`: a `**` after it then stands at the
        // beginning.
        let rest = path.strip_prefix(&pattern[..literal]);
        rest.is_some_and(|rest| wildmatch(&pattern[literal..], rest, true) == Outcome::Match)
    }
}

/// Removes blanks at the end, unless a backslash stands before them (`trim_trailing_spaces`).
fn without_trailing_blanks(line: &[u8]) -> &[u8] {
    let (mut end, mut at) = (0, 0);
    while at < line.len() {
        let length = if line[at] == b'\\' { 2 } else { 1 };
        if line[at] != b' ' {
            end = (at + length).min(line.len());
        }
        at += length;
    }
    &line[..end]
}

/// Checks that a pattern can match something.
///
/// # Errors
/// The reason why it cannot.
fn check(pattern: &[u8]) -> Result<(), String> {
    let mut at = 0;
    while let Some(byte) = pattern.get(at) {
        at = match byte {
            b'\\' if at + 1 == pattern.len() => {
                return Err(String::from("a backslash at its end has nothing to stand before"));
            }
            b'\\' => at + 2,
            // The byte does not matter: a set is malformed for all bytes or for none.
            b'[' => match set(pattern, at, b'a') {
                Some((_, end)) => end,
                None => {
                    return Err(String::from("a [ has no ], or names a class that there is not"));
                }
            },
            _ => at + 1,
        };
    }
    Ok(())
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b'\\')
}

/// Matches a whole text (git's `dowild`). With `is_path` neither `*` nor `?` nor a set matches a slash, and `**` matches directories.
fn wildmatch(pattern: &[u8], text: &[u8], is_path: bool) -> Outcome {
    let (mut at, mut place) = (0, 0);
    while let Some(byte) = pattern.get(at).copied() {
        let next = text.get(place).copied();
        if next.is_none() && byte != b'*' {
            return Outcome::Abort;
        }
        match byte {
            b'*' => match star(pattern, at, text, place, is_path) {
                Ok(slashes) => (at, place) = slashes,
                Err(outcome) => return outcome,
            },
            b'?' if is_path && next == Some(b'/') => return Outcome::NoMatch,
            b'?' => {}
            b'[' => match set(pattern, at, next.unwrap_or_default()) {
                Some((is_in, end)) => {
                    if !is_in || (is_path && next == Some(b'/')) {
                        return Outcome::NoMatch;
                    }
                    at = end - 1;
                }
                None => return Outcome::Abort,
            },
            b'\\' => {
                at += 1;
                if pattern.get(at).copied() != next {
                    return Outcome::NoMatch;
                }
            }
            _ if next != Some(byte) => return Outcome::NoMatch,
            _ => {}
        }
        at += 1;
        place += 1;
    }
    if place < text.len() { Outcome::NoMatch } else { Outcome::Match }
}

/// Matches the `*` or `**` at `at` of the pattern. `Ok`: it takes no slash and is followed by one, so it took
/// the text up to the next slash; returns the places of both slashes.
fn star(
    pattern: &[u8],
    at: usize,
    text: &[u8],
    place: usize,
    is_path: bool,
) -> Result<(usize, usize), Outcome> {
    let stars = pattern[at..].iter().take_while(|byte| **byte == b'*').count();
    let rest = &pattern[at + stars..];
    let text = &text[place..];
    let mut takes_slashes = !is_path;
    if is_path && stars > 1 {
        let begins = at == 0 || pattern[at - 1] == b'/';
        let ends = rest.is_empty() || rest[0] == b'/' || rest.starts_with(b"\\/");
        if begins && ends {
            // No directory at all: foo/**/bar matches foo/bar.
            if let Some((b'/', behind)) = rest.split_first()
                && wildmatch(behind, text, is_path) == Outcome::Match
            {
                return Err(Outcome::Match);
            }
            takes_slashes = true;
        }
    }
    let slash = text.iter().position(|byte| *byte == b'/');
    match rest.first() {
        None if !takes_slashes && slash.is_some() => return Err(Outcome::NoMatch),
        None => return Err(Outcome::Match),
        Some(b'/') if !takes_slashes => {
            return slash.map(|slash| (at + stars, place + slash)).ok_or(Outcome::NoMatch);
        }
        Some(_) => {}
    }
    for taken in 0..text.len() {
        match wildmatch(rest, &text[taken..], is_path) {
            Outcome::NoMatch if !takes_slashes && text[taken] == b'/' => {
                return Err(Outcome::AbortToStarStar);
            }
            Outcome::NoMatch => {}
            Outcome::AbortToStarStar if takes_slashes => {}
            outcome => return Err(outcome),
        }
    }
    Err(Outcome::Abort)
}

/// Returns whether the set at `at` of the pattern contains the byte, and where the set ends. `None`: it has
/// no end, or names an unknown class.
fn set(pattern: &[u8], at: usize, byte: u8) -> Option<(bool, usize)> {
    let mut at = at + 1;
    let is_negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(is_negated);
    // 0: the byte before cannot begin a range.
    let (mut is_in, mut before) = (false, 0);
    // A ] that comes first stands for itself.
    let mut current = *pattern.get(at)?;
    loop {
        let mut is_single = true;
        match current {
            b'\\' => {
                at += 1;
                current = *pattern.get(at)?;
            }
            b'-' if before != 0 && pattern.get(at + 1).is_some_and(|next| *next != b']') => {
                at += if pattern[at + 1] == b'\\' { 2 } else { 1 };
                let last = *pattern.get(at)?;
                is_in |= (before..=last).contains(&byte);
                is_single = false;
            }
            b'[' if pattern.get(at + 1) == Some(&b':') => {
                let name = &pattern[at + 2..];
                let length = name.iter().position(|byte| *byte == b']')?;
                if let Some(name) = name[..length].strip_suffix(b":") {
                    is_in |= is_of_class(name, byte)?;
                    at += 2 + length;
                    is_single = false;
                }
            }
            _ => {}
        }
        if is_single {
            is_in |= byte == current;
        }
        before = if is_single { current } else { 0 };
        at += 1;
        current = *pattern.get(at)?;
        if current == b']' {
            return Some((is_in != is_negated, at + 1));
        }
    }
}

/// Whether a byte belongs to a named class. `None`: unknown class.
fn is_of_class(name: &[u8], byte: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        // git's own table (`ctype.c`) has no form feed and no vertical tab.
        b"space" => matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}
