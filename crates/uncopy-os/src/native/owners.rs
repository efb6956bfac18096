//! Gives files and links owners on Unix, by the standard library.

use std::fs::File;
use std::io;
use std::os::unix::fs::{fchown, lchown};
use std::path::Path;

pub(crate) fn set_owner(file: &File, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
    fchown(file, user, group)
}

pub(crate) fn set_owner_of_name(
    name: &Path,
    user: Option<u32>,
    group: Option<u32>,
) -> io::Result<()> {
    lchown(name, user, group)
}
