//! Copies outside of the directory that the names of a manifest begin at: no checker of manifests would look there.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use uncopy::copy::Existing;
use uncopy::copy::job::{JobOptions, Links, Parents, Sources};

use super::target::{Pair, directory_of_names, resolved};

/// A copy that a manifest cannot name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outside {
    source: PathBuf,
    /// Place of the copy, without links.
    place: PathBuf,
    directory: PathBuf,
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [source, place, directory] =
            [&self.source, &self.place, &self.directory].map(|path| path.display());
        write!(
            f,
            "--manifest names files below {directory}, and the copy of {source} would be {place}, which is not there; \
             name another destination for it, or leave out --manifest"
        )
    }
}

/// Checks that a manifest can name all copies. `is_file`: whether a source is a file, followed if it is a link or not.
///
/// # Errors
/// One of them lies outside of the directory of the names.
pub(super) fn check(
    destination: &Path,
    options: &JobOptions,
    pairs: &[Pair],
    is_file: &dyn Fn(&Pair, bool) -> bool,
) -> Result<(), Outside> {
    let directory = directory_of_names(destination);
    let root = resolved(directory);
    for pair in pairs {
        let copy = pair.copy(&options.parents);
        if copy == directory {
            continue;
        }
        let place = place(&copy, is_written_through(pair, options, is_file));
        if !place.starts_with(&root) {
            let (source, directory) = (pair.source.clone(), directory.to_owned());
            return Err(Outside { source, place, directory });
        }
    }
    Ok(())
}

/// Returns the path of a copy without links; a link at its end is kept unless it is `followed`.
fn place(copy: &Path, followed: bool) -> PathBuf {
    match (copy.parent(), copy.file_name()) {
        (Some(parent), Some(name)) if !followed => {
            resolved(if parent.as_os_str().is_empty() { Path::new(".") } else { parent }).join(name)
        }
        _ => resolved(copy),
    }
}

/// Whether a file would be written through a link that has the name of its copy, as by `cp`.
fn is_written_through(
    pair: &Pair,
    options: &JobOptions,
    is_file: &dyn Fn(&Pair, bool) -> bool,
) -> bool {
    let JobOptions { copy, .. } = options;
    let follows_source =
        options.sources == Sources::Files || options.links == Links::Follow || options.follow_roots;
    let replaces_link = matches!(copy.existing, Existing::Keep | Existing::Remove)
        || copy.backup.is_some()
        || options.link
        || options.parents != Parents::Omit;
    !replaces_link && is_file(pair, follows_source)
}

/// Whether a source on this machine is a file.
pub(super) fn is_file(source: &Path, follows: bool) -> bool {
    let found = if follows { fs::metadata(source) } else { fs::symlink_metadata(source) };
    found.is_ok_and(|found| found.is_file())
}
