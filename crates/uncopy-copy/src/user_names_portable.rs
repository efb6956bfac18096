//! See [`crate::Owner`]: only numbers are known.

use std::ffi::CString;

use uncopy_core::Errno;

pub(crate) fn user_id(_: &CString) -> Result<Option<u32>, Errno> {
    Ok(None)
}

pub(crate) fn group_id(_: &CString) -> Result<Option<u32>, Errno> {
    Ok(None)
}
