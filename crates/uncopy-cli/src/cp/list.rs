//! Reads lists of names and patterns from files.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use uncopy::copy::job::Selection;
use uncopy::follow;

use crate::flags::select::Pattern;
use crate::report::{describe, of_file};

/// Maximum size of a list; a larger one may be a device by mistake.
const MAX_BYTES: u64 = 256 << 20;

/// Reads names from a file, or from standard input for `-`, as `rsync` does: each ends in a line feed or carriage
/// return, or in a zero byte if `zeros`, and one that begins with `#` or `;` is a comment.
///
/// # Errors
/// A sentence for people: the file cannot be read, or a name leads out of the directory that it is looked up in.
pub(super) fn names(path: &Path, zeros: bool) -> Result<Vec<PathBuf>, String> {
    let lines = match zeros {
        true => lines(path, b'\0')?,
        false => lines(path, b'\n')?
            .iter()
            .flat_map(|line| line.split(|byte| *byte == b'\r'))
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect(),
    };
    let names = lines.into_iter().filter(|line| !line.starts_with(b"#") && !line.starts_with(b";"));
    names.map(|line| inside(path, name(path, line)?)).collect()
}

/// Returns a line as the name of a file: any bytes are one.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have names of characters")]
fn name(_list: &Path, line: Vec<u8>) -> Result<PathBuf, String> {
    use std::os::unix::ffi::OsStringExt;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(line)))
}

/// Returns a line as the name of a file, which is text.
///
/// # Errors
/// A sentence for people: the line is not UTF-8.
#[cfg(not(unix))]
fn name(list: &Path, line: Vec<u8>) -> Result<PathBuf, String> {
    String::from_utf8(line).map(PathBuf::from).map_err(|error| {
        let line = error.as_bytes().escape_ascii();
        format!("the list {} names {line}, which is not UTF-8; write it as UTF-8", list.display())
    })
}

/// Refuses a name that leads out of the directory that it is looked up in.
fn inside(list: &Path, name: PathBuf) -> Result<PathBuf, String> {
    let leaves = |part: Component<'_>| matches!(part, Component::ParentDir | Component::RootDir);
    if !name.components().any(leaves) {
        return Ok(name);
    }
    Err(format!(
        "the list {} names {}, which may lead out of the source; write names below the source, without `..` and \
         without a slash at the beginning",
        list.display(),
        name.display()
    ))
}

/// Replaces each file of patterns by its patterns.
///
/// # Errors
/// A sentence for people: a file cannot be read, or a pattern in it is invalid.
pub(crate) fn with_files_read(patterns: &[Pattern]) -> Result<Vec<Pattern>, String> {
    let mut all = Vec::with_capacity(patterns.len());
    for pattern in patterns {
        match pattern {
            Pattern::ExcludeFrom(file) => exclude_from(file, &mut all)?,
            pattern => all.push(pattern.clone()),
        }
    }
    Ok(all)
}

/// Adds the lines of a file, but for comments. Like git, it ignores a byte-order mark, and lines of spaces alone.
fn exclude_from(file: &Path, to: &mut Vec<Pattern>) -> Result<(), String> {
    for (number, line) in lines(file, b'\n')?.into_iter().enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let mark = "\u{feff}".as_bytes();
        let line = if number == 0 { line.strip_prefix(mark).unwrap_or(line) } else { line };
        if line.starts_with(b"#") || line.iter().all(|byte| *byte == b' ') {
            continue;
        }
        let at = || format!("{}, pattern {}", file.display(), number + 1);
        let line = std::str::from_utf8(line)
            .map_err(|_| format!("{}: it is not UTF-8; write ? for such a byte", at()))?;
        let checked = Selection::default().exclude(line);
        checked.map_err(|error| format!("{}: {error}", at()))?;
        to.push(Pattern::Exclude(line.to_owned()));
    }
    Ok(())
}

/// Reads the lines of a file, or of standard input for `-`; empty ones are left out. `separator` ends a
/// line.
///
/// # Errors
/// A sentence for people: the file cannot be read.
fn lines(path: &Path, separator: u8) -> Result<Vec<Vec<u8>>, String> {
    let mut text = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut text),
        false => follow::open(path)
            .map_err(|error| of_file(&error))
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text)),
    };
    let read = read.and_then(|bytes| match bytes as u64 > MAX_BYTES {
        true => Err(io::Error::other("it is larger than 256 MiB")),
        false => Ok(()),
    });
    read.map_err(|error| {
        let (path, error) = (path.display(), describe(&error));
        format!("cannot read the list {path}: {error}; name a file that can be read")
    })?;
    Ok(text
        .split(|byte| *byte == separator)
        .filter(|l| !l.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn read(text: &[u8], zeros: bool) -> Result<Vec<Vec<u8>>, String> {
        let list = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(list.path(), text).unwrap();
        let names = names(list.path(), zeros)?;
        Ok(names.iter().map(|name| name.as_os_str().as_bytes().to_vec()).collect())
    }

    #[test]
    fn names_are_read_as_by_rsync() {
        for (text, zeros, expected) in [
            (&b"a\nb/c\n"[..], false, &[&b"a"[..], b"b/c"][..]),
            (b"a\r\n\n\r\nb", false, &[b"a", b"b"]),
            (b"#a\n;b\n./#c\n d \n", false, &[b"./#c", b" d "]),
            (b"a\xff\nb", false, &[b"a\xff", b"b"]),
            (b"a\nb\0\0c\r\0#d\0;e\0", true, &[b"a\nb", b"c\r"]),
            (b"", false, &[]),
        ] {
            assert_eq!(read(text, zeros).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        for text in [&b"../a"[..], b"a/../b", b"a/..", b"..", b"/a", b"b\n/"] {
            let message = read(text, false).unwrap_err();
            assert!(message.contains("may lead out"), "{message}");
        }
        assert_eq!(read(b"..a\na..\n", false).unwrap(), [b"..a", b"a.."]);
    }
}
