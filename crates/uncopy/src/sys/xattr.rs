//! Extended attributes of open files (`xattr(7)`).

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use rustix::fs::{self, XattrFlags};

use super::Sys;
use crate::error::Errno;

/// The largest value and the largest list of names (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const MAX_BYTES: usize = 64 << 10;

/// The names of all attributes that the caller may see.
pub(crate) fn names(file: impl AsFd) -> Sys<Vec<CString>> {
    if fs::flistxattr(&file, &mut [0u8; 0])? == 0 {
        return Ok(Vec::new());
    }
    let mut list = vec![0u8; MAX_BYTES];
    let n = fs::flistxattr(file, &mut list[..])?;
    Ok(list[..n].split_inclusive(|b| *b == 0).filter_map(owned).collect())
}

fn owned(bytes: &[u8]) -> Option<CString> {
    CStr::from_bytes_with_nul(bytes).ok().map(CStr::to_owned)
}

/// The value of an attribute; `None` if there is none of this name.
pub(crate) fn get(file: impl AsFd, name: &CStr) -> Sys<Option<Vec<u8>>> {
    let mut value = vec![0u8; 256];
    loop {
        match fs::fgetxattr(&file, name, &mut value[..]).map_err(Errno::from) {
            Ok(n) => {
                value.truncate(n);
                return Ok(Some(value));
            }
            Err(Errno::ERANGE) if value.len() < MAX_BYTES => value.resize(MAX_BYTES, 0),
            Err(Errno::ENODATA) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

pub(crate) fn set(file: impl AsFd, name: &CStr, value: &[u8]) -> Sys<()> {
    Ok(fs::fsetxattr(file, name, value, XattrFlags::empty())?)
}

pub(crate) fn remove(file: impl AsFd, name: &CStr) -> Sys<()> {
    Ok(fs::fremovexattr(file, name)?)
}
