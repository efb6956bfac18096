//! Paths and words as JSON (pure): a string, or `{"bytes": BASE64}` if it is not UTF-8.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::LEDGER_DIRECTORY;

/// Maximum length of a path of an entry. Trees may be deeper than one call can name.
const MAX_PATH_BYTES: usize = 1 << 20;

/// Maximum length of a root: `PATH_MAX` without the terminating zero (`linux/limits.h`).
const MAX_ROOT_BYTES: usize = 4095;

/// Maximum length of a name (`NAME_MAX`).
const MAX_NAME_BYTES: usize = 255;

/// Rule that a path breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// A path of an entry begins with a slash.
    #[error("it is absolute, and must be relative to its root")]
    Absolute,
    /// A root does not begin with a slash.
    #[error("it is relative, and must be absolute")]
    Relative,
    /// A component is `.`, `..` or empty.
    #[error("one of its components is empty, \".\" or \"..\"")]
    Component,
    /// It contains a zero byte.
    #[error("it contains a zero byte")]
    Zero,
    /// It is longer than any path.
    #[error("it is too long")]
    TooLong,
    /// It lies in the directory of ledgers.
    #[error("it lies in {LEDGER_DIRECTORY}, which holds the ledgers of the destination")]
    InLedger,
}

/// Path of an entry below the roots, or the roots themselves. It never leads out of them by its components; links in it
/// are the business of whoever opens it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(OsString);

impl RelativePath {
    /// Returns the path of the roots themselves, written `.`.
    #[must_use]
    pub fn root() -> RelativePath {
        RelativePath(".".into())
    }

    /// Checks a path.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(path: impl Into<OsString>) -> Result<RelativePath, PathProblem> {
        let path = path.into();
        check_relative(path.as_bytes())?;
        Ok(RelativePath(path))
    }

    /// Whether it stands for the roots themselves.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0 == "."
    }

    /// Returns the path; of the roots themselves, `.`.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Returns the names from the root on; none for the roots themselves.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &OsStr> {
        let names = self.0.as_bytes().split(|byte| *byte == b'/').map(OsStr::from_bytes);
        names.filter(|name| *name != ".")
    }
}

fn check_relative(path: &[u8]) -> Result<(), PathProblem> {
    match path {
        b"" => return Err(PathProblem::Empty),
        b"." => return Ok(()),
        [b'/', ..] => return Err(PathProblem::Absolute),
        _ if path.len() > MAX_PATH_BYTES => return Err(PathProblem::TooLong),
        _ if path.contains(&0) => return Err(PathProblem::Zero),
        _ => {}
    }
    for (number, name) in path.split(|byte| *byte == b'/').enumerate() {
        match name {
            b"" | b"." | b".." => return Err(PathProblem::Component),
            _ if name.len() > MAX_NAME_BYTES => return Err(PathProblem::TooLong),
            _ if number == 0 && name == LEDGER_DIRECTORY.as_bytes() => {
                return Err(PathProblem::InLedger);
            }
            _ => {}
        }
    }
    Ok(())
}

/// A source or destination: an absolute path on the machines that plan and work, or a place on another machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Root(Where);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Where {
    Here(OsString),
    There(OsString),
}

impl Root {
    /// Checks a path.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(path: impl Into<OsString>) -> Result<Root, PathProblem> {
        let path = path.into();
        check_root(path.as_bytes())?;
        match path.as_bytes() {
            [b'/', ..] => Ok(Root(Where::Here(path))),
            _ => Err(PathProblem::Relative),
        }
    }

    /// Takes over a place on another machine, as the program writes it. Whoever logs in there parses and checks it.
    ///
    /// # Errors
    /// No program writes it so.
    pub fn on_another_machine(place: impl Into<OsString>) -> Result<Root, PathProblem> {
        let place = place.into();
        check_root(place.as_bytes())?;
        Ok(Root(Where::There(place)))
    }

    /// Returns the path, or the place as people know it.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        match &self.0 {
            Where::Here(path) | Where::There(path) => Path::new(path),
        }
    }

    /// Returns the path, if it is one of this machine.
    #[must_use]
    pub fn here(&self) -> Option<&Path> {
        match &self.0 {
            Where::Here(path) => Some(Path::new(path)),
            Where::There(_) => None,
        }
    }

    /// Returns the place, if it is on another machine.
    #[must_use]
    pub fn there(&self) -> Option<&OsStr> {
        match &self.0 {
            Where::Here(_) => None,
            Where::There(place) => Some(place),
        }
    }
}

fn check_root(bytes: &[u8]) -> Result<(), PathProblem> {
    match bytes {
        b"" => Err(PathProblem::Empty),
        bytes if bytes.contains(&0) => Err(PathProblem::Zero),
        bytes if bytes.len() > MAX_ROOT_BYTES => Err(PathProblem::TooLong),
        _ => Ok(()),
    }
}

/// Word of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Word(pub OsString);

/// Bytes that are not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded<'a> {
    #[serde(borrow)]
    bytes: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Bytes(#[serde(borrow)] Encoded<'a>),
}

fn serialize<S: Serializer>(name: &OsStr, serializer: S) -> Result<S::Ok, S::Error> {
    match name.to_str() {
        Some(text) => serializer.serialize_str(text),
        None => Encoded { bytes: STANDARD.encode(name.as_bytes()).into() }.serialize(serializer),
    }
}

fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OsString, D::Error> {
    match Written::deserialize(deserializer)? {
        Written::Text(text) => Ok(OsString::from(text.into_owned())),
        Written::Bytes(encoded) => {
            let bytes = STANDARD.decode(encoded.bytes.as_bytes()).map_err(D::Error::custom)?;
            if std::str::from_utf8(&bytes).is_ok() {
                return Err(D::Error::custom("a name that is UTF-8 must be written as a string"));
            }
            Ok(OsString::from_vec(bytes))
        }
    }
}

macro_rules! written_as_a_name {
    ($($type:ident: $make:expr),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serialize(&self.0, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let name = deserialize(deserializer)?;
                let make: fn(OsString) -> Result<$type, PathProblem> = $make;
                make(name).map_err(|problem| D::Error::custom(format_args!("a path is not usable: {problem}")))
            }
        }
    )*};
}

written_as_a_name!(RelativePath: RelativePath::new, Word: |name| Ok(Word(name)));

/// A root as JSON: a path, or a place on another machine.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenRoot {
    There(WrittenPlace),
    Here(Word),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPlace {
    place: Word,
}

impl Serialize for Root {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Where::Here(path) => serialize(path, serializer),
            Where::There(place) => {
                WrittenPlace { place: Word(place.clone()) }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Root {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Root, D::Error> {
        let root = match WrittenRoot::deserialize(deserializer)? {
            WrittenRoot::Here(Word(path)) => Root::new(path),
            WrittenRoot::There(WrittenPlace { place: Word(place) }) => {
                Root::on_another_machine(place)
            }
        };
        root.map_err(|problem| D::Error::custom(format_args!("a root is not usable: {problem}")))
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_path().display().fmt(f)
    }
}

impl From<Root> for PathBuf {
    fn from(root: Root) -> PathBuf {
        root.as_path().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_entries_stay_beneath_their_root() {
        let long_name = "n".repeat(256);
        let long_path = "n/".repeat(600_000) + "n";
        for (path, expected) in [
            ("a", Ok(())),
            (".", Ok(())),
            ("a/b/.c/..d/...", Ok(())),
            ("a/.uncopy-ledger/b", Ok(())),
            (".uncopy-ledgers", Ok(())),
            ("\u{0}", Err(PathProblem::Zero)),
            ("", Err(PathProblem::Empty)),
            ("/", Err(PathProblem::Absolute)),
            ("/a", Err(PathProblem::Absolute)),
            ("..", Err(PathProblem::Component)),
            ("./a", Err(PathProblem::Component)),
            ("a/.", Err(PathProblem::Component)),
            ("a/../b", Err(PathProblem::Component)),
            ("a/..", Err(PathProblem::Component)),
            ("a//b", Err(PathProblem::Component)),
            ("a/", Err(PathProblem::Component)),
            (&long_name, Err(PathProblem::TooLong)),
            (&long_path, Err(PathProblem::TooLong)),
            (".uncopy-ledger", Err(PathProblem::InLedger)),
            (".uncopy-ledger/x", Err(PathProblem::InLedger)),
        ] {
            assert_eq!(RelativePath::new(path).map(|_| ()), expected, "{path:.40}");
        }
        assert_eq!(RelativePath::root().names().count(), 0);
        let names: Vec<_> =
            RelativePath::new("a/b").unwrap().names().map(OsStr::to_owned).collect();
        assert_eq!(names, ["a", "b"]);
        for (path, expected) in [
            ("/", Ok(())),
            ("/a/../b", Ok(())),
            ("a", Err(PathProblem::Relative)),
            ("", Err(PathProblem::Empty)),
            ("/\u{0}", Err(PathProblem::Zero)),
            (&format!("/{}", "a".repeat(4095)), Err(PathProblem::TooLong)),
        ] {
            assert_eq!(Root::new(path).map(|_| ()), expected, "{path:.40}");
        }
    }

    #[test]
    fn roots_are_paths_or_places() {
        for place in [&b"h:/a"[..], b"u@h:\xff", b"ssh://[::1]:22/a\n"] {
            let root = Root::on_another_machine(OsStr::from_bytes(place)).unwrap();
            let json = serde_json::to_string(&root).unwrap();
            assert!(json.starts_with(r#"{"place":"#), "{json}");
            assert_eq!(serde_json::from_str::<Root>(&json).unwrap(), root, "{json}");
            assert_eq!((root.here(), root.there().unwrap().as_bytes()), (None, place));
        }
        let here = serde_json::from_str::<Root>(r#""/a""#).unwrap();
        assert_eq!((here.here(), here.there()), (Some(Path::new("/a")), None));
        for json in [
            r#""a""#,
            r#"{"place":""}"#,
            r#"{"place":"h:/a","more":1}"#,
            r#"{"place":"\u0000"}"#,
            r#"{"place":["h"]}"#,
            r"{}",
        ] {
            assert!(serde_json::from_str::<Root>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn names_of_any_bytes_come_back_and_have_one_spelling() {
        for bytes in [&b"a"[..], b"a\n\"\\\x7f", b"\xff/b", "\u{fffd}".as_bytes(), b"caf\xe9"] {
            let path = RelativePath::new(OsStr::from_bytes(bytes)).unwrap();
            let json = serde_json::to_string(&path).unwrap();
            assert!(!json.contains('\n'), "{json}");
            assert_eq!(serde_json::from_str::<RelativePath>(&json).unwrap(), path, "{json}");
            assert_eq!(json.starts_with('{'), std::str::from_utf8(bytes).is_err(), "{json}");
        }
        for json in [
            r#"{"bytes":"YQ=="}"#,
            r#"{"bytes":"/w"}"#,
            r#"{"bytes":"/w==","more":1}"#,
            r#"{"bytes":"Ly7/"}"#,
            r"{}",
            "1",
            r#"["a"]"#,
            r#""..""#,
        ] {
            assert!(serde_json::from_str::<RelativePath>(json).is_err(), "{json}");
        }
    }
}
