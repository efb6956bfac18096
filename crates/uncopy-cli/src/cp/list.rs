//! Reads lists of names and patterns from files.

use std::io::{self, Read};
use std::path::Path;

use uncopy::follow;

use crate::report::{describe, of_file};

/// Maximum size of a list; a larger one may be a device by mistake.
const MAX_BYTES: u64 = 256 << 20;

/// Reads the lines of a file, or of standard input for `-`; empty ones are left out. `separator` ends a
/// line.
///
/// # Errors
/// A sentence for people: the file cannot be read.
pub(super) fn lines(path: &Path, separator: u8) -> Result<Vec<Vec<u8>>, String> {
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
