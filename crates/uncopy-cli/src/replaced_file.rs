//! Writes a file beside its final name, and replaces what has that name in one step.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Replaces what has this name, or makes the file.
pub(crate) fn replace(
    file: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let aside = file.with_file_name(format!(".uncopy-new.{}", std::process::id()));
    // Left by a killed run with the same process id.
    let _ = fs::remove_file(&aside);
    let written = File::create_new(&aside).and_then(|new| {
        let mut new = BufWriter::new(new);
        write(&mut new)?;
        new.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&aside, file)
    });
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        for text in ["first", "second"] {
            replace(&file, |new| new.write_all(text.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        let failed = replace(&file, |new| {
            new.write_all(b"third")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(replace(directory.path(), |_| Ok(())).is_err());
    }
}
