//! Contents of sources, and whether a copy has them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use testbed::Content;
use testbed::witness::data_runs;

const PIECE: usize = 1 << 20;

/// `length` bytes of which `data` are no holes, in runs of 1 MiB spread evenly.
pub(super) fn contents(length: u64, data: u64) -> Content {
    if data == length {
        return Content::dense(length);
    }
    let run = PIECE as u64;
    let count = (data / run).max(1);
    let runs: Vec<(u64, u64)> =
        (0..count).map(|index| (index * (length / count), run.min(data))).collect();
    Content::sparse(length, &runs)
}

/// Reads the data of the file, so that it is in the page cache.
///
/// # Errors
/// If it cannot be read.
pub(super) fn warm(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut piece = vec![0; PIECE];
    for (start, length) in data_runs(path) {
        let mut offset = start;
        while offset < start + length {
            let read = file.read_at(&mut piece, offset)?;
            ensure!(read > 0, "{} became shorter", path.display());
            offset += read as u64;
        }
    }
    Ok(())
}

/// Whether `copy` has the length of `source`, and, if `whole`, its bytes.
///
/// # Errors
/// If not, or if one of them cannot be read.
pub(super) fn check_equal(source: &Path, copy: &Path, whole: bool) -> Result<()> {
    let open =
        |path: &Path| File::open(path).with_context(|| format!("cannot open {}", path.display()));
    let (left, right) = (open(source)?, open(copy)?);
    let (expected, found) = (left.metadata()?.len(), right.metadata()?.len());
    ensure!(expected == found, "the copy has {found} bytes instead of {expected}");
    if !whole {
        return Ok(());
    }
    let (mut a, mut b) = (vec![0; PIECE], vec![0; PIECE]);
    for (start, length) in data_runs(source).into_iter().chain(extra_runs(source, copy)) {
        let mut offset = start;
        while offset < start + length {
            let piece = PIECE.min(usize::try_from(start + length - offset)?);
            left.read_exact_at(&mut a[..piece], offset)?;
            right.read_exact_at(&mut b[..piece], offset)?;
            ensure!(a[..piece] == b[..piece], "the copy differs near byte {offset}");
            offset += piece as u64;
        }
    }
    Ok(())
}

/// Data of the copy, unless it has data exactly where the source has.
fn extra_runs(source: &Path, copy: &Path) -> Vec<(u64, u64)> {
    let runs = data_runs(copy);
    if runs == data_runs(source) { Vec::new() } else { runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_contents_have_their_data_inside() {
        let content = contents(256 << 20, 4 << 20);
        assert_eq!(content.data_bytes(), 4 << 20);
        assert_eq!(content.data.len(), 4);
        assert!(content.data.iter().all(|(offset, length)| offset + length <= 256 << 20));
    }

    #[test]
    fn a_copy_that_differs_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
        let content = contents(8 << 20, 2 << 20);
        content.write(&a);
        let file = content.write(&b);
        check_equal(&a, &b, true).unwrap();
        file.write_all_at(b"\0", 5 << 20).unwrap();
        check_equal(&a, &b, true).unwrap();
        file.write_all_at(b"x", 7 << 20).unwrap();
        let error = check_equal(&a, &b, true).unwrap_err().to_string();
        assert!(error.starts_with("the copy differs near byte"), "{error}");
        check_equal(&a, &b, false).unwrap();
        file.set_len(1).unwrap();
        let error = check_equal(&a, &b, false).unwrap_err().to_string();
        assert_eq!(error, format!("the copy has 1 bytes instead of {}", 8 << 20));
    }
}
