//! Paths of files, for messages and records.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The path of a file, begun as the caller named it: at hand, or put together when somebody asks,
/// which for most files of a tree nobody does.
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

/// A path that nobody has asked for yet, and how to find it.
pub(crate) struct LazyPath<'a> {
    path: OnceLock<PathBuf>,
    find: &'a (dyn Fn() -> PathBuf + Sync),
}

impl<'a> LazyPath<'a> {
    pub(crate) fn new(find: &'a (dyn Fn() -> PathBuf + Sync)) -> LazyPath<'a> {
        LazyPath { path: OnceLock::new(), find }
    }
}
