//! Changes of permission bits, as `chmod(1)` reads them (pure).

use std::fmt;
use std::str::FromStr;

const ALL: u32 = 0o7777;
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const EXECUTE: u32 = 0o111;

/// Changes of the permission bits of copies, parsed from the words of `chmod(1)`.
///
/// Clauses are separated by commas: an octal number (`644`), or `[ugoa]*([-+=]([rwxXst]*|[ugo]))+`
/// (`u=rwX,go-w`). Each may begin with `D`, for directories alone, or `F`, for everything else, as for
/// `rsync --chmod`. Where nobody is named (`+x`), the bits of the umask are left out. A directory keeps
/// setuid and setgid unless a clause names them.
///
/// ```
/// use uncopy::copy::ModeChanges;
/// let changes: ModeChanges = "D755,F644,u+x".parse().unwrap();
/// assert_eq!(changes.apply(0o600, false, 0o022), 0o744);
/// assert_eq!(changes.apply(0o700, true, 0o022), 0o755);
/// assert!("u~x".parse::<ModeChanges>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeChanges {
    changes: Vec<Change>,
}

/// Text that describes no changes of permission bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidMode {
    clause: String,
}

impl fmt::Display for InvalidMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clause = &self.clause;
        write!(
            f,
            "{clause:?} is no mode; write an octal number or u=rwX,go-w, with D or F before it"
        )
    }
}

impl std::error::Error for InvalidMode {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Directories,
    Others,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Set,
    Add,
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    kind: Kind,
    operation: Operation,
    /// Bits of those who are named; 0: nobody is, and the umask applies.
    affected: u32,
    bits: u32,
    /// `X`: execution is added for directories and for what somebody may execute.
    execute_if_any: bool,
    /// Bits of the user, the group or others, which are given to those who are named.
    copied_from: Option<u32>,
    /// Setuid and setgid of directories are changed only where they are among these.
    mentioned: u32,
}

impl FromStr for ModeChanges {
    type Err = InvalidMode;

    fn from_str(text: &str) -> Result<ModeChanges, InvalidMode> {
        let mut changes = Vec::new();
        for clause in text.split(',') {
            parse(clause, &mut changes).ok_or_else(|| InvalidMode { clause: clause.to_owned() })?;
        }
        Ok(ModeChanges { changes })
    }
}

/// Parses one clause; `None`: it is not valid.
fn parse(clause: &str, changes: &mut Vec<Change>) -> Option<()> {
    let (kind, rest) = match clause.strip_prefix('D') {
        Some(rest) => (Kind::Directories, rest),
        None => clause.strip_prefix('F').map_or((Kind::Any, clause), |rest| (Kind::Others, rest)),
    };
    let nothing = Change {
        kind,
        operation: Operation::Set,
        affected: ALL,
        bits: 0,
        execute_if_any: false,
        copied_from: None,
        mentioned: ALL,
    };
    if rest.starts_with(|first: char| first.is_ascii_digit()) {
        let bits = u32::from_str_radix(rest, 8).ok().filter(|bits| *bits <= ALL)?;
        // Five digits also say what is not set, as for chmod.
        let mentioned = if rest.len() > 4 { ALL } else { bits | 0o777 };
        changes.push(Change { bits, mentioned, ..nothing });
        return Some(());
    }
    let is_who = |letter: char| "ugoa".contains(letter);
    let names = rest.find(|letter| !is_who(letter))?;
    let affected = rest[..names].chars().fold(0, |affected, letter| affected | whose(letter));
    let mut rest = &rest[names..];
    while let Some(first) = rest.chars().next() {
        let operation = match first {
            '=' => Operation::Set,
            '+' => Operation::Add,
            '-' => Operation::Remove,
            _ => return None,
        };
        let end = rest[1..].find(['=', '+', '-']).map_or(rest.len(), |end| end + 1);
        let mut change = Change { operation, affected, ..nothing };
        match &rest[1..end] {
            from @ ("u" | "g" | "o") => change.copied_from = Some(whose(first_of(from)) & 0o777),
            letters => {
                for letter in letters.chars() {
                    match letter {
                        'r' => change.bits |= 0o444,
                        'w' => change.bits |= 0o222,
                        'x' => change.bits |= EXECUTE,
                        'X' => change.execute_if_any = true,
                        's' => change.bits |= SETUID | SETGID,
                        't' => change.bits |= STICKY,
                        _ => return None,
                    }
                }
            }
        }
        let named = if affected == 0 { ALL } else { affected };
        change.mentioned = change.bits & named;
        changes.push(change);
        rest = &rest[end..];
    }
    Some(())
}

fn first_of(text: &str) -> char {
    text.chars().next().unwrap_or_default()
}

/// Returns the bits of a letter of those who are named.
fn whose(letter: char) -> u32 {
    match letter {
        'u' => SETUID | 0o700,
        'g' => SETGID | 0o070,
        'o' => STICKY | 0o007,
        _ => ALL,
    }
}

impl ModeChanges {
    /// Adds the changes of another, which are applied after these.
    #[must_use]
    pub fn then(mut self, more: ModeChanges) -> ModeChanges {
        self.changes.extend(more.changes);
        self
    }

    /// Returns the permission bits that `mode` becomes, of a directory or of another kind of file.
    #[must_use]
    pub fn apply(&self, mode: u32, is_directory: bool, umask: u32) -> u32 {
        self.changes.iter().fold(mode & ALL, |mode, change| match change.kind {
            Kind::Directories if !is_directory => mode,
            Kind::Others if is_directory => mode,
            _ => change.apply(mode, is_directory, umask),
        })
    }
}

impl Change {
    /// The rules of `mode_adjust` in gnulib (`lib/modechange.c`), which `chmod(1)` uses.
    fn apply(self, mode: u32, is_directory: bool, umask: u32) -> u32 {
        let kept = if is_directory { (SETUID | SETGID) & !self.mentioned } else { 0 };
        let mut bits = match self.copied_from {
            Some(from) => {
                let found = mode & from;
                let has = |bits: u32| found & bits != 0;
                [0o444, 0o222, EXECUTE].into_iter().filter(|bits| has(*bits)).sum()
            }
            None => self.bits,
        };
        if self.execute_if_any && (is_directory || mode & EXECUTE != 0) {
            bits |= EXECUTE;
        }
        bits &= if self.affected == 0 { !umask } else { self.affected } & !kept;
        match self.operation {
            Operation::Set => {
                let others = if self.affected == 0 { 0 } else { !self.affected };
                mode & (others | kept) & ALL | bits
            }
            Operation::Add => mode | bits,
            Operation::Remove => mode & !bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_those_of_chmod() {
        for (text, mode, is_directory, umask, expected) in [
            ("644", 0o777, false, 0o022, 0o644),
            ("0", 0o7777, false, 0o022, 0),
            ("4755", 0, false, 0o022, 0o4755),
            ("755", 0o2700, true, 0o022, 0o2755),
            ("00755", 0o2700, true, 0o022, 0o755),
            ("2755", 0o4700, true, 0o022, 0o6755),
            ("u=rwx,g=rx,o=", 0o666, false, 0, 0o750),
            ("a+x", 0o644, false, 0o077, 0o755),
            ("+x", 0o644, false, 0o077, 0o744),
            ("=", 0o644, false, 0o022, 0),
            ("=rw", 0o755, false, 0o027, 0o640),
            ("-w", 0o777, false, 0o022, 0o577),
            ("go=u", 0o640, false, 0o022, 0o666),
            ("g=o", 0o604, false, 0o022, 0o644),
            ("u+X", 0o644, false, 0o022, 0o644),
            ("a+X", 0o744, false, 0o022, 0o755),
            ("a+X", 0o600, true, 0o022, 0o711),
            ("u+s,g+s", 0o755, false, 0o022, 0o6755),
            ("+t", 0o755, true, 0o022, 0o1755),
            ("ug-s", 0o6755, true, 0o022, 0o755),
            ("u=rwx", 0o4755, true, 0o022, 0o4755),
            ("u+w-x", 0o555, false, 0o022, 0o655),
            ("D700,F600", 0o777, true, 0o022, 0o700),
            ("D700,F600", 0o777, false, 0o022, 0o600),
            ("Dg+s,Fa-x", 0o755, true, 0o022, 0o2755),
            ("Dg+s,Fa-x", 0o755, false, 0o022, 0o644),
        ] {
            let changes: ModeChanges = text.parse().unwrap();
            let found = changes.apply(mode, is_directory, umask);
            assert_eq!(found, expected, "{text} {mode:o} {is_directory}: {found:o}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            ",",
            "644,",
            "8",
            "77777",
            "u",
            "ugo",
            "x",
            "u~x",
            "u+y",
            "DF644",
            "D",
            "+u+g+",
            "a+ug",
            "644x",
            "-",
            "+",
            "rwx",
            "u=rwx go=",
            "é",
        ] {
            let valid = matches!(text, "-" | "+" | "+u+g+");
            assert_eq!(text.parse::<ModeChanges>().is_ok(), valid, "{text:?}");
        }
    }
}
