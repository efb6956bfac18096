//! `SHA256SUMS`: digests of all packages in a directory, for `sha256sum -c`.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use ring::digest;

/// Name of the file.
const SUMS: &str = "SHA256SUMS";

/// Writes the digests of the files in `directory`, sorted by name, in place of earlier ones.
///
/// # Errors
/// If a file cannot be read or written.
pub(super) fn write(directory: &Path) -> Result<()> {
    let path = directory.join(SUMS);
    let aside = directory.join(format!(".{SUMS}"));
    fs::write(&aside, sums(directory)?)
        .and_then(|()| fs::rename(&aside, &path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Lines of digests and names, as `sha256sum` prints them.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn sums(directory: &Path) -> Result<String> {
    let mut names = Vec::new();
    let cannot_list = || format!("cannot list {}", directory.display());
    for entry in fs::read_dir(directory).with_context(cannot_list)? {
        let entry = entry.with_context(cannot_list)?;
        let name = entry.file_name().into_string().ok().context("a name is not UTF-8")?;
        if entry.file_type()?.is_file() && name != SUMS && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    names.iter().map(|name| Ok(format!("{}  {name}\n", sha256(&directory.join(name))?))).collect()
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// If it cannot be read.
fn sha256(path: &Path) -> Result<String> {
    let mut digest = Digesting(digest::Context::new(&digest::SHA256));
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    std::io::copy(&mut file, &mut digest)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(digest.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Takes bytes into a digest.
struct Digesting(digest::Context);

impl std::io::Write for Digesting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{sums, write};

    #[test]
    fn digests_are_as_sha256sum_prints_them() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("b"), "abc").unwrap();
        std::fs::write(directory.path().join("a"), "").unwrap();
        let expected = "\
            e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
            ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b\n";
        write(directory.path()).unwrap();
        write(directory.path()).unwrap();
        assert_eq!(sums(directory.path()).unwrap(), expected);
        let written = std::fs::read_to_string(directory.path().join("SHA256SUMS")).unwrap();
        assert_eq!(written, expected);
    }
}
