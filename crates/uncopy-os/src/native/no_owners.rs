//! Owners, where files have none that the standard library knows.

use std::fs::File;
use std::io;
use std::path::Path;

use super::native::unsupported;

/// Not available on this system.
pub(crate) fn set_owner(_: &File, _: Option<u32>, _: Option<u32>) -> io::Result<()> {
    unsupported()
}

/// Not available on this system.
pub(crate) fn set_owner_of_name(_: &Path, _: Option<u32>, _: Option<u32>) -> io::Result<()> {
    unsupported()
}
