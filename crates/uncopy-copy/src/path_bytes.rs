//! Decodes names that were kept as bytes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Returns the name that has these bytes ([`OsStr::as_encoded_bytes`](std::ffi::OsStr::as_encoded_bytes)).
pub(crate) fn decode(bytes: &[u8]) -> Option<OsString> {
    Some(OsString::from_vec(bytes.to_vec()))
}
