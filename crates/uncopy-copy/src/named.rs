//! What files are called when something is said of them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The path of a file, begun as the caller named it: at hand, or put together when somebody asks,
/// which for most files of a tree nobody does.
#[derive(Clone, Copy)]
pub(crate) enum Named<'a> {
    Path(&'a Path),
    Late(&'a Late<'a>),
}

impl AsRef<Path> for Named<'_> {
    fn as_ref(&self) -> &Path {
        match self {
            Named::Path(path) => path,
            Named::Late(late) => late.path.get_or_init(late.find),
        }
    }
}

/// A path that nobody has asked for yet, and how to find it.
pub(crate) struct Late<'a> {
    path: OnceLock<PathBuf>,
    find: &'a (dyn Fn() -> PathBuf + Sync),
}

impl<'a> Late<'a> {
    pub(crate) fn new(find: &'a (dyn Fn() -> PathBuf + Sync)) -> Late<'a> {
        Late { path: OnceLock::new(), find }
    }
}
