//! Checks names of entries.

use crate::Violation;

/// Maximum length of a name: longer ones are on no filesystem.
pub const MAX_NAME_BYTES: usize = 1024;

/// Whether bytes are the name of one entry of a directory.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    let is_special = matches!(name, b"" | b"." | b"..");
    !is_special && name.len() <= MAX_NAME_BYTES && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

pub(crate) fn check(name: &[u8]) -> Result<(), Violation> {
    if is_name(name) { Ok(()) } else { Err(Violation::BadName) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for good in [&b"a"[..], b"...", b"-rf", b"a b", b"\xff\xfe", b"a\nb", &[b'x'; 1024]] {
            assert!(is_name(good), "{good:?}");
        }
        for bad in [&b""[..], b".", b"..", b"/", b"a/b", b"/etc", b"a\0", &[b'x'; 1025]] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
