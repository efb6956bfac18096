//! Writes and reads lines of manifests, as `b3sum`, `sha256sum` and `xxhsum` have them (pure).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::options::Digest;

/// A line that names a file and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestLine {
    /// The digest's algorithm. `None`: 64 digits, of BLAKE3 or SHA-256.
    pub algorithm: Option<Digest>,
    /// Whether the line names it, as `SHA256 (name) = …` does: else it follows from the number of digits.
    pub is_named: bool,
    /// Value, in lowercase hexadecimal.
    pub value: String,
    /// Name of the file, as bytes.
    pub name: OsString,
}

/// Returns the line for a file, with its line end.
///
/// A name with a line break begins its line with a backslash and is escaped. The programs differ:
/// `sha256sum` also escapes a backslash and a carriage return, `b3sum` a backslash; `xxhsum` before 0.8.2
/// knows no escapes, so that only a line break or carriage return is escaped for it.
#[must_use]
pub fn manifest_line(algorithm: Digest, value: &str, name: &OsStr) -> Vec<u8> {
    let name = name.as_bytes();
    let (escaped, forces): (&[u8], &[u8]) = match algorithm {
        Digest::Sha256 => (b"\\\n\r", b"\\\n\r"),
        Digest::Blake3 => (b"\\\n", b"\\\n"),
        Digest::Xxh3 => (b"\\\n\r", b"\n\r"),
    };
    let is_escaped = name.iter().any(|byte| forces.contains(byte));
    let mut line = Vec::with_capacity(value.len() + name.len() + 4);
    line.extend(is_escaped.then_some(b'\\'));
    line.extend_from_slice(value.as_bytes());
    line.extend_from_slice(b"  ");
    for byte in name {
        match byte {
            _ if !is_escaped || !escaped.contains(byte) => line.push(*byte),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            other => line.extend_from_slice(&[b'\\', *other]),
        }
    }
    line.push(b'\n');
    line
}

impl ManifestLine {
    /// Reads a line without its line end: digits and a name, or `SHA256 (name) = digits`. `None`: it is
    /// neither.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<ManifestLine> {
        let (is_escaped, line) = match line.strip_prefix(b"\\") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let named = tagged(line);
        let is_named = named.is_some();
        let (algorithm, value, name) = named.or_else(|| plain(line))?;
        let name = if is_escaped { unescape(name)? } else { name.to_vec() };
        let is_valid = !name.is_empty() && !name.contains(&0);
        is_valid.then(|| ManifestLine {
            algorithm,
            is_named,
            value,
            name: OsString::from_vec(name),
        })
    }
}

/// Algorithm, value and name of a line, the name still escaped.
type Parts<'a> = (Option<Digest>, String, &'a [u8]);

fn plain(line: &[u8]) -> Option<Parts<'_>> {
    let end = line.iter().position(|byte| *byte == b' ')?;
    let (value, name) = (digits(&line[..end])?, line.get(end + 2..)?);
    // A space for text mode, a star for binary mode.
    if !matches!(line[end + 1], b' ' | b'*') {
        return None;
    }
    match value.len() {
        32 => Some((Some(Digest::Xxh3), value, name)),
        64 => Some((None, value, name)),
        _ => None,
    }
}

fn tagged(line: &[u8]) -> Option<Parts<'_>> {
    const TAGS: [(&[u8], Digest, usize); 3] = [
        (b"BLAKE3 (", Digest::Blake3, 64),
        (b"SHA256 (", Digest::Sha256, 64),
        (b"XXH128 (", Digest::Xxh3, 32),
    ];
    let (rest, algorithm, length) = TAGS.into_iter().find_map(|(tag, algorithm, length)| {
        line.strip_prefix(tag).map(|rest| (rest, algorithm, length))
    })?;
    let (name, value) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
    Some((Some(algorithm), digits(value)?, name.strip_suffix(b") = ")?))
}

fn digits(text: &[u8]) -> Option<String> {
    let is_hexadecimal = !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit);
    is_hexadecimal.then(|| text.iter().map(|byte| byte.to_ascii_lowercase() as char).collect())
}

fn unescape(name: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = name.iter();
    let mut plain = Vec::with_capacity(name.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            byte => *byte,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALGORITHMS: [Digest; 3] = [Digest::Blake3, Digest::Sha256, Digest::Xxh3];

    fn value(algorithm: Digest) -> String {
        "0f".repeat(if algorithm == Digest::Xxh3 { 16 } else { 32 })
    }

    #[test]
    fn names_are_escaped_as_by_the_program_of_each_digest() {
        for (name, blake3, sha256, xxh3) in [
            ("a b", "D  a b", "D  a b", "D  a b"),
            (" *-", "D   *-", "D   *-", "D   *-"),
            ("a\\n", "\\D  a\\\\n", "\\D  a\\\\n", "D  a\\n"),
            ("a\nb", "\\D  a\\nb", "\\D  a\\nb", "\\D  a\\nb"),
            ("a\rb", "D  a\rb", "\\D  a\\rb", "\\D  a\\rb"),
            ("\\\n", "\\D  \\\\\\n", "\\D  \\\\\\n", "\\D  \\\\\\n"),
        ] {
            for (algorithm, expected) in ALGORITHMS.into_iter().zip([blake3, sha256, xxh3]) {
                let line = manifest_line(algorithm, "D", OsStr::new(name));
                assert_eq!(line, format!("{expected}\n").into_bytes(), "{name:?} {algorithm:?}");
            }
        }
        let bytes = OsStr::from_bytes(b"\xff");
        assert_eq!(manifest_line(Digest::Blake3, "D", bytes), b"D  \xff\n");
    }

    #[test]
    fn lines_of_the_programs_are_read() {
        let (long, short) = (value(Digest::Sha256), value(Digest::Xxh3));
        for (line, algorithm, name) in [
            (format!("{long}  a"), None, "a"),
            (format!("{long} *a"), None, "a"),
            (format!("{}  a", long.to_uppercase()), None, "a"),
            (format!("{long}  *a"), None, "*a"),
            (format!("{short}  a\\b"), Some(Digest::Xxh3), "a\\b"),
            (format!("\\{short}  a\\\\b\\n"), Some(Digest::Xxh3), "a\\b\n"),
            (format!("SHA256 (a) = b) = {long}"), Some(Digest::Sha256), "a) = b"),
            (format!("BLAKE3 (a) = {long}"), Some(Digest::Blake3), "a"),
            (format!("\\XXH128 (a\\n) = {short}"), Some(Digest::Xxh3), "a\n"),
        ] {
            let found = ManifestLine::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((found.algorithm, &*found.name), (algorithm, OsStr::new(name)), "{line}");
            assert!(found.value == long || found.value == short);
        }
    }

    #[test]
    fn other_lines_are_refused() {
        let (long, short) = (value(Digest::Sha256), value(Digest::Xxh3));
        for line in [
            String::new(),
            long.clone(),
            format!("{long} "),
            format!("{long}  "),
            format!("{long} a"),
            format!("{long}\ta"),
            format!("{long}0  a"),
            format!("{}  a", &long[1..]),
            format!("g{}  a", &long[1..]),
            format!("\\{long}  a\\x"),
            format!("\\{long}  a\\"),
            format!("\\\\{long}  a"),
            format!("{long}  a\0b"),
            format!("SHA256 (a) = {short}"),
            format!("MD5 (a) = {short}"),
            format!("XXH128 () = {short}"),
            String::from("# comment"),
        ] {
            assert_eq!(ManifestLine::parse(line.as_bytes()), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in "[^/\0]{1,20}", which in 0..3_usize) {
            let algorithm = ALGORITHMS[which];
            let line = manifest_line(algorithm, &value(algorithm), OsStr::new(&name));
            let (last, rest) = line.split_last().unwrap();
            prop_assert_eq!(*last, b'\n');
            prop_assert!(!rest.contains(&b'\n'));
            let found = ManifestLine::parse(rest).unwrap();
            prop_assert_eq!(&*found.name, OsStr::new(&name));
            prop_assert_eq!(found.value, value(algorithm));
        }

        #[test]
        fn no_bytes_make_it_panic(line: Vec<u8>) {
            let _ = ManifestLine::parse(&line);
        }
    }
}
