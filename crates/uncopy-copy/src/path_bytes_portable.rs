//! Decodes names that were kept as bytes, where names are not bytes.

use std::ffi::OsString;

/// Returns the name that has these bytes. `None`: they are no Unicode.
pub(crate) fn decode(bytes: &[u8]) -> Option<OsString> {
    std::str::from_utf8(bytes).ok().map(OsString::from)
}
