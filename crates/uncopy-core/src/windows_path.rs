//! Rules of Windows paths (pure): drive letters, UNC prefixes, reserved names, streams and long names.
//!
//! They serve for messages, and for calls that need a path without a limit on its length. What works is found out by
//! trying.

use std::ops::Range;

use crate::FileKind;

/// Beginning of a path. Paths are UTF-16, as Windows has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowsPrefix {
    /// `a\b`: relative to the current directory.
    None,
    /// `\a`: relative to the root of the current drive.
    Root,
    /// `C:\a`.
    Drive(char),
    /// `C:a`: relative to the current directory of that drive.
    DriveRelative(char),
    /// `\\server\share\a`.
    Unc,
    /// `\\.\a`: a device.
    Device,
    /// `\\?\C:\a`.
    VerbatimDrive(char),
    /// `\\?\UNC\server\share\a`.
    VerbatimUnc,
    /// `\\?\a`: any other name of the object manager.
    Verbatim,
}

const BACKSLASH: u16 = b'\\' as u16;
const COLON: u16 = b':' as u16;

/// Above this length, without the zero at the end, calls need a verbatim path; a directory's own limit is 12 less.
const MAX_PLAIN: usize = 247;

/// Names of devices in every directory. `COM` and `LPT` also take the digits ¹, ² and ³.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

fn is_separator(unit: u16) -> bool {
    unit == BACKSLASH || unit == u16::from(b'/')
}

/// The letter before a colon at the beginning. One letter before a colon is a drive, whatever follows.
fn drive(path: &[u16]) -> Option<char> {
    let [letter, COLON, ..] = *path else { return None };
    let letter = char::from_u32(u32::from(letter))?;
    letter.is_ascii_alphabetic().then_some(letter.to_ascii_uppercase())
}

fn starts_with(path: &[u16], text: &str) -> bool {
    let mut units = path.iter();
    text.encode_utf16().all(|unit| units.next() == Some(&unit))
}

/// Says how a path begins.
#[must_use]
pub fn prefix(path: &[u16]) -> WindowsPrefix {
    // Only backslashes make a verbatim path.
    if starts_with(path, r"\\?\") {
        let rest = &path[4..];
        return match drive(rest) {
            _ if starts_with(rest, r"UNC\") => WindowsPrefix::VerbatimUnc,
            Some(letter) if rest.get(2).is_none_or(|unit| *unit == BACKSLASH) => {
                WindowsPrefix::VerbatimDrive(letter)
            }
            _ => WindowsPrefix::Verbatim,
        };
    }
    match path {
        [a, b, c, d, ..]
            if is_separator(*a)
                && is_separator(*b)
                && (*c == u16::from(b'.') || *c == u16::from(b'?'))
                && is_separator(*d) =>
        {
            WindowsPrefix::Device
        }
        [a, b, ..] if is_separator(*a) && is_separator(*b) => WindowsPrefix::Unc,
        [a, ..] if is_separator(*a) => WindowsPrefix::Root,
        _ => match drive(path) {
            Some(letter) if path.get(2).is_some_and(|unit| is_separator(*unit)) => {
                WindowsPrefix::Drive(letter)
            }
            Some(letter) => WindowsPrefix::DriveRelative(letter),
            None => WindowsPrefix::None,
        },
    }
}

/// Returns the kind of what the last part of a path names, where it is no file of its directory. Verbatim paths have no reserved names.
#[must_use]
pub fn special(path: &[u16]) -> Option<FileKind> {
    let is_verbatim = matches!(
        prefix(path),
        WindowsPrefix::VerbatimDrive(_) | WindowsPrefix::VerbatimUnc | WindowsPrefix::Verbatim
    );
    let name = &path[last_part(path)];
    if name.contains(&COLON) {
        return Some(FileKind::AlternateStream);
    }
    (!is_verbatim && is_reserved(name)).then_some(FileKind::ReservedName)
}

/// Where the last part of a path lies, without a drive before it.
fn last_part(path: &[u16]) -> Range<usize> {
    let begin = path.iter().rposition(|unit| is_separator(*unit)).map_or(0, |at| at + 1);
    let begin = if begin == 0 && drive(path).is_some() { 2 } else { begin };
    begin..path.len()
}

/// Whether a name is that of a device, also with an extension or spaces behind it.
fn is_reserved(name: &[u16]) -> bool {
    let name = String::from_utf16_lossy(name);
    let stem = name.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let stem = stem.to_uppercase();
    let numbered = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    let is_digit = |text: &str| {
        let mut digits = text.chars();
        let digit = digits.next().is_some_and(|digit| "123456789¹²³".contains(digit));
        digit && digits.next().is_none()
    };
    DEVICES.contains(&stem.as_str()) || numbered.is_some_and(is_digit)
}

/// Returns an absolute path in the form that has no limit on its length, if it is so long that calls need that.
/// `None`: it can be used as it is.
///
/// The path must be normalised: a verbatim path has no `.`, `..` and `/`.
#[must_use]
pub fn verbatim(path: &[u16]) -> Option<Vec<u16>> {
    if path.len() < MAX_PLAIN {
        return None;
    }
    let (before, skipped) = match prefix(path) {
        WindowsPrefix::Drive(_) => (r"\\?\", 0),
        WindowsPrefix::Unc => (r"\\?\UNC\", 2),
        _ => return None,
    };
    Some(before.encode_utf16().chain(path[skipped..].iter().copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn prefixes_are_distinguished() {
        use WindowsPrefix::{
            Device, Drive, DriveRelative, None, Root, Unc, Verbatim, VerbatimDrive, VerbatimUnc,
        };
        for (path, expected) in [
            ("", None),
            ("a", None),
            (r"a\b", None),
            ("ab:c", None),
            ("1:a", None),
            (":", None),
            (r"\a", Root),
            ("/a", Root),
            (r"C:\a", Drive('C')),
            ("c:/a", Drive('C')),
            ("C:", DriveRelative('C')),
            ("c:a", DriveRelative('C')),
            ("a:b", DriveRelative('A')),
            (r"\\server\share\a", Unc),
            ("//server/share", Unc),
            (r"\\", Unc),
            (r"\\.\COM1", Device),
            ("//./COM1", Device),
            ("//?/C:/a", Device),
            (r"\\?\C:\a", VerbatimDrive('C')),
            (r"\\?\c:", VerbatimDrive('C')),
            (r"\\?\C:a", Verbatim),
            (r"\\?\UNC\server\share\a", VerbatimUnc),
            (r"\\?\Volume{1}\a", Verbatim),
            (r"\\?\", Verbatim),
        ] {
            assert_eq!(prefix(&units(path)), expected, "{path}");
        }
    }

    #[test]
    fn devices_and_streams_are_no_files() {
        use FileKind::{AlternateStream, ReservedName};
        for (path, expected) in [
            ("NUL", Some(ReservedName)),
            ("nul", Some(ReservedName)),
            (r"C:\a\Nul.txt", Some(ReservedName)),
            ("aux .tar.gz", Some(ReservedName)),
            ("con", Some(ReservedName)),
            ("C:prn", Some(ReservedName)),
            ("COM1", Some(ReservedName)),
            ("lpt9.x", Some(ReservedName)),
            ("com¹", Some(ReservedName)),
            ("CONIN$", Some(ReservedName)),
            ("COM0", None),
            ("COM10", None),
            ("COM", None),
            ("NULL", None),
            ("a.nul", None),
            (r"nul\a", None),
            (r"\\?\C:\nul", None),
            ("a:b", None),
            ("C:a", None),
            ("ab:c", Some(AlternateStream)),
            (r"C:\a:b", Some(AlternateStream)),
            ("c:a:b", Some(AlternateStream)),
            (r"\\?\C:\a:b", Some(AlternateStream)),
            (r"C:\a", None),
            ("C:", None),
            ("", None),
        ] {
            assert_eq!(special(&units(path)), expected, "{path}");
        }
    }

    #[test]
    fn only_long_absolute_paths_become_verbatim() {
        let long = "n".repeat(300);
        let rows = [
            (r"C:\short".to_owned(), None),
            (format!(r"C:\{long}"), Some(format!(r"\\?\C:\{long}"))),
            (format!(r"\\server\share\{long}"), Some(format!(r"\\?\UNC\server\share\{long}"))),
            (format!(r"\\?\C:\{long}"), None),
            (format!(r"\\.\{long}"), None),
            (long.clone(), None),
        ];
        for (path, expected) in rows {
            assert_eq!(verbatim(&units(&path)), expected.as_deref().map(units), "{path}");
        }
        let at = |length: usize| verbatim(&units(&format!(r"C:\{}", "n".repeat(length - 3))));
        assert!(at(246).is_none() && at(247).is_some());
    }
}
