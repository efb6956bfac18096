//! Extended attributes of open files (`xattr(7)`) and of `O_PATH` handles. The calls refuse a handle with
//! `EBADF` (`open(2)`); then it is named through `/proc`.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use rustix::fs::{self, XattrFlags};
use rustix::io::Errno as Refused;

use super::Sys;
use super::file::path_of;
use uncopy_core::Errno;

/// The attribute that holds an access ACL (`acl(5)`).
pub const ACCESS_ACL: &CStr = c"system.posix_acl_access";

/// Maximum size of a value and of a list of names (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const MAX_BYTES: usize = 64 << 10;

/// Returns the names of all attributes that the caller may see.
pub fn names(file: impl AsFd) -> Sys<Vec<CString>> {
    // With an empty buffer rustix returns 0 whatever the kernel returns.
    let list = read(|buffer| match fs::flistxattr(&file, &mut *buffer) {
        Err(Refused::BADF) => fs::listxattr(path_of(file.as_fd()), buffer),
        other => other,
    })?;
    Ok(list.split_inclusive(|b| *b == 0).filter_map(owned).collect())
}

/// Returns the bytes that `call` writes. The first buffer is small, as most lists and values fit.
fn read(call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> Sys<Vec<u8>> {
    let mut bytes = vec![0; 256];
    loop {
        match call(&mut bytes).map_err(Errno::from) {
            Ok(n) => {
                bytes.truncate(n);
                return Ok(bytes);
            }
            Err(Errno::ERANGE) if bytes.len() < MAX_BYTES => bytes.resize(MAX_BYTES, 0),
            Err(errno) => return Err(errno),
        }
    }
}

fn owned(bytes: &[u8]) -> Option<CString> {
    CStr::from_bytes_with_nul(bytes).ok().map(CStr::to_owned)
}

/// Returns the value of an attribute; `None` if it does not exist.
pub fn get(file: impl AsFd, name: &CStr) -> Sys<Option<Vec<u8>>> {
    let value = read(|buffer| match fs::fgetxattr(&file, name, &mut *buffer) {
        Err(Refused::BADF) => fs::getxattr(path_of(file.as_fd()), name, buffer),
        other => other,
    });
    match value {
        Ok(value) => Ok(Some(value)),
        Err(Errno::ENODATA) => Ok(None),
        Err(errno) => Err(errno),
    }
}

pub fn set(file: impl AsFd, name: &CStr, value: &[u8]) -> Sys<()> {
    Ok(match fs::fsetxattr(&file, name, value, XattrFlags::empty()) {
        Err(Refused::BADF) => fs::setxattr(path_of(file.as_fd()), name, value, XattrFlags::empty()),
        other => other,
    }?)
}

pub fn remove(file: impl AsFd, name: &CStr) -> Sys<()> {
    Ok(match fs::fremovexattr(&file, name) {
        Err(Refused::BADF) => fs::removexattr(path_of(file.as_fd()), name),
        other => other,
    }?)
}
