//! Writes a file beside its final name, and replaces what has that name in one step.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// File that is being written beside a name. Dropped without an end, it is removed.
#[derive(Debug)]
pub(crate) struct Replacement {
    file: PathBuf,
    aside: PathBuf,
    new: Option<BufWriter<File>>,
}

impl Replacement {
    /// Begins it. Only a regular file is ever replaced.
    pub(crate) fn begin(file: &Path) -> io::Result<Replacement> {
        check(file)?;
        let aside = file.with_file_name(format!(".uncopy-new.{}", std::process::id()));
        // Left by a killed run with the same process id.
        let _ = fs::remove_file(&aside);
        let new = Some(BufWriter::new(File::create_new(&aside)?));
        Ok(Replacement { file: file.to_owned(), aside, new })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.new.as_mut().map_or(Ok(()), |new| new.write_all(bytes))
    }

    /// Flushes it, and replaces what has its name.
    pub(crate) fn end(mut self) -> io::Result<()> {
        let Some(new) = self.new.take() else { return Ok(()) };
        let flushed = new.into_inner().map_err(io::IntoInnerError::into_error);
        let ended = flushed
            .and_then(|new| new.sync_all())
            .and_then(|()| check(&self.file))
            .and_then(|()| fs::rename(&self.aside, &self.file));
        ended.inspect_err(|_| self.remove())
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.aside);
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.new.take().is_some() {
            self.remove();
        }
    }
}

/// Checks that a file may be replaced: renaming over /dev/stdout, a FIFO or a link would replace that, and whoever reads there
/// would wait for ever.
fn check(file: &Path) -> io::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(found) if found.is_symlink() => {
            Err(io::Error::other("it is a symbolic link, which is not followed here"))
        }
        Ok(found) if !found.is_file() => Err(io::Error::other("it is no regular file")),
        _ => Ok(()),
    }
}

/// Replaces what has this name, or makes the file.
pub(crate) fn replace(file: &Path, contents: &[u8]) -> io::Result<()> {
    let mut new = Replacement::begin(file)?;
    new.write(contents)?;
    new.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        for text in ["first", "second"] {
            replace(&file, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        let mut given_up = Replacement::begin(&file).unwrap();
        given_up.write(b"third").unwrap();
        drop(given_up);
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(replace(directory.path(), b"").is_err());
    }
}
