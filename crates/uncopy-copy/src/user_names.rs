//! Looks up users and groups.

use std::ffi::CString;

use uncopy_core::Errno;
use uncopy_os::account;

pub(crate) fn user_id(name: &CString) -> Result<Option<u32>, Errno> {
    account::user_id(name)
}

pub(crate) fn group_id(name: &CString) -> Result<Option<u32>, Errno> {
    account::group_id(name)
}
