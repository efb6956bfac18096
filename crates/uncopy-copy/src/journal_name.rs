//! Names journals (pure).

use std::ffi::{OsStr, OsString};

use xxhash_rust::xxh3::xxh3_64;

/// Beginning of every name that this program makes for itself.
pub(crate) const BEGIN: &str = ".uncopy-";
/// Suffix of journal names.
pub(crate) const JOURNAL: &str = ".journal";
/// Length of [`name_digest`].
pub(crate) const DIGEST_DIGITS: usize = 16;

/// Returns the name of the journal beside a destination; each destination has its own.
pub(crate) fn journal_name(destination: &OsStr) -> OsString {
    format!("{BEGIN}{}{JOURNAL}", name_digest(destination)).into()
}

/// Returns a name's XXH3 digest, 64 bits, as hexadecimal. Nothing is removed because of it.
pub(crate) fn name_digest(name: &OsStr) -> String {
    format!("{:0DIGEST_DIGITS$x}", xxh3_64(name.as_encoded_bytes()))
}
