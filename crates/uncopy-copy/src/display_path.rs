//! Defines paths of files for messages and records.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The path of a file, starting as the caller named it: already known, or joined on first use,
/// which most files of a tree never need.
#[derive(Clone, Copy)]
pub(crate) enum DisplayPath<'a> {
    Path(&'a Path),
    Lazy(&'a LazyPath<'a>),
}

impl AsRef<Path> for DisplayPath<'_> {
    fn as_ref(&self) -> &Path {
        match self {
            DisplayPath::Path(path) => path,
            DisplayPath::Lazy(lazy) => lazy.path.get_or_init(lazy.find),
        }
    }
}

/// A path that is not joined yet, and how to join it.
pub(crate) struct LazyPath<'a> {
    path: OnceLock<PathBuf>,
    find: &'a (dyn Fn() -> PathBuf + Sync),
}

impl<'a> LazyPath<'a> {
    pub(crate) fn new(find: &'a (dyn Fn() -> PathBuf + Sync)) -> LazyPath<'a> {
        LazyPath { path: OnceLock::new(), find }
    }
}
