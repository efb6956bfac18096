//! Addresses of other machines.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::RemoteError;

/// A machine, and how to log in to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name or number of the machine.
    pub host: OsString,
    /// Name of the user there; `None`: as the remote shell decides.
    pub user: Option<OsString>,
    /// Port; `None`: as the remote shell decides.
    pub port: Option<u16>,
}

impl Address {
    /// Checks that no part of it can be taken for an option or for several words.
    ///
    /// # Errors
    /// [`RemoteError::BadAddress`].
    pub fn check(&self) -> Result<(), RemoteError> {
        check("the host", &self.host)?;
        self.user.as_ref().map_or(Ok(()), |user| check("the user", user))
    }
}

fn check(what: &'static str, given: &OsStr) -> Result<(), RemoteError> {
    let bytes = given.as_bytes();
    let why = match bytes.first() {
        None => "it is empty",
        Some(b'-') => "it begins with a dash, as an option does",
        _ if bytes.iter().any(|byte| byte.is_ascii_control() || *byte == b' ') => {
            "it holds a space or a control character"
        }
        _ => return Ok(()),
    };
    Err(RemoteError::BadAddress { what, given: given.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_is_an_option_or_several_words() {
        let address = |host: &[u8], user: Option<&[u8]>| {
            let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            Address { host: text(host), user: user.map(text), port: None }.check().is_ok()
        };
        for (host, user) in
            [(&b"host"[..], None), (b"::1", Some(&b"user"[..])), (b"h\xff", Some(b"a@b"))]
        {
            assert!(address(host, user), "{host:?} {user:?}");
        }
        for (host, user) in [
            (&b""[..], None),
            (b"-oProxyCommand=x", None),
            (b"a b", None),
            (b"a\nb", None),
            (b"a\0", None),
            (b"host", Some(&b""[..])),
            (b"host", Some(b"-l")),
            (b"host", Some(b"a\x7f")),
        ] {
            assert!(!address(host, user), "{host:?} {user:?}");
        }
    }
}
