//! Makes unlinked files for data that a job cannot keep in memory; they vanish with their
//! descriptor.

use std::os::fd::{AsFd, OwnedFd};

use crate::stale;
use uncopy_core::Errno;
use uncopy_os::{Sys, name};

/// Makes an empty unlinked file on the filesystem of this directory. Without support for
/// `O_TMPFILE` it gets a temporary name with `what` in it, which is removed at once.
pub(super) fn file(directory: impl AsFd, what: &str) -> Sys<OwnedFd> {
    match name::create_unnamed(&directory, 0o600) {
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => {
            let temporary = stale::temporary_name(what.as_ref(), stale::Kind::File)?;
            let file = name::create_new(&directory, &temporary, 0o600)?;
            name::unlink(&directory, &temporary)?;
            Ok(file)
        }
        other => other,
    }
}
