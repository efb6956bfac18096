//! Identity of a filesystem.

use std::path::Path;

use rustix::fs::OFlags;

use crate::capabilities::{Filesystem, Identity};
use crate::{file, follow};
use uncopy_core::{Errno, Error, Result};

/// Implements [`crate::capabilities::identity`].
pub(crate) fn identity(path: &Path) -> Result<Identity> {
    let fail = |operation| move |errno: Errno| Error::system(operation, path, errno);
    // An ioctl needs more than O_PATH; NONBLOCK, so that opening a FIFO does not block.
    let found = follow::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
        .or_else(|_| follow::open(path, OFlags::PATH))
        .map_err(|stopped| stopped.error("open", path))?;
    let magic = file::filesystem_magic(&found).map_err(fail("examine the filesystem of"))?;
    let filesystem = Filesystem::from_magic(magic);
    let uuid = file::filesystem_uuid(&found).unwrap_or_default();
    let number = file::filesystem_number(&found).map_err(fail("examine the filesystem of"))?;
    let id = format_id(&uuid, number)
        .ok_or_else(|| fail("identify the filesystem of")(Errno::EOPNOTSUPP))?;
    Ok(Identity { id: format!("{filesystem} {id}"), filesystem })
}

/// Formats a UUID or an id; `None` if both are zero, which identifies nothing.
fn format_id(uuid: &[u8], number: u64) -> Option<String> {
    if uuid.iter().any(|byte| *byte != 0) {
        let digits = uuid.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        return Some(format!("uuid {digits}"));
    }
    (number != 0).then(|| format!("fsid {number:016x}"))
}

#[cfg(test)]
mod tests {
    use super::format_id;

    #[test]
    fn a_uuid_is_preferred_to_an_id_and_zeros_are_none() {
        for (uuid, number, expected) in [
            (&[0xab, 1][..], 7, Some("uuid ab01")),
            (&[0, 0], 7, Some("fsid 0000000000000007")),
            (&[], 0xdead, Some("fsid 000000000000dead")),
            (&[], 0, None),
            (&[0; 16], 0, None),
        ] {
            assert_eq!(format_id(uuid, number).as_deref(), expected, "{uuid:?} {number}");
        }
    }
}
