//! Owner that copies get, whoever owns their source.

use std::ffi::CString;
use std::fmt;

use crate::setters::setters;
use crate::user_names;
use uncopy_core::Errno;

/// User and group that copies get, whoever owns their source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner {
    /// Number of the user; `None`: as without it.
    pub user: Option<u32>,
    /// Number of the group; `None`: as without it.
    pub group: Option<u32>,
}

setters! {
    Owner { user: Option<u32>, group: Option<u32>, }
}

impl Owner {
    /// Makes an owner that changes nothing: the default.
    #[must_use]
    pub fn new() -> Owner {
        Owner::default()
    }

    /// Reads `USER`, `USER:GROUP` or `:GROUP`, names or numbers. A name that there is wins over its number,
    /// and `+` before a number keeps it one, as for `chown(1)`.
    ///
    /// # Errors
    /// There is no such name, or the names could not be looked up.
    pub fn look_up(text: &str) -> Result<Owner, UnknownOwner> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let found = |what, name: &str, find: fn(&CString) -> Result<Option<u32>, Errno>| match name
        {
            "" => Ok(None),
            name => number(name, find).map_err(|errno| UnknownOwner {
                what,
                name: name.to_owned(),
                errno,
            }),
        };
        let owner = Owner {
            user: found("user", user, user_names::user_id)?,
            group: found("group", group, user_names::group_id)?,
        };
        match owner {
            Owner { user: None, group: None } => {
                Err(UnknownOwner { what: "user", name: String::new(), errno: None })
            }
            owner => Ok(owner),
        }
    }
}

/// Finds the number of a name. `Err(None)`: there is none.
fn number(
    name: &str,
    find: fn(&CString) -> Result<Option<u32>, Errno>,
) -> Result<Option<u32>, Option<Errno>> {
    // The highest number means "no change" to chown(2).
    let parse = |digits: &str| digits.parse().ok().filter(|number| *number != u32::MAX);
    if let Some(digits) = name.strip_prefix('+') {
        return parse(digits).map(Some).ok_or(None);
    }
    let found = CString::new(name).map_err(|_| None).and_then(|name| find(&name).map_err(Some));
    match (found, parse(name)) {
        (Ok(Some(number)), _) | (_, Some(number)) => Ok(Some(number)),
        (Ok(None), None) => Err(None),
        (Err(errno), None) => Err(errno),
    }
}

/// A name of a user or group that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownOwner {
    what: &'static str,
    name: String,
    errno: Option<Errno>,
}

impl fmt::Display for UnknownOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownOwner { what, name, errno } = self;
        match errno {
            Some(errno) => {
                write!(f, "the {what} {name:?} cannot be looked up ({errno}); write its number")
            }
            None => write!(
                f,
                "there is no {what} {name:?}; write USER, USER:GROUP or :GROUP, as names or numbers"
            ),
        }
    }
}

impl std::error::Error for UnknownOwner {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_names_or_numbers() {
        for (text, user, group) in [
            ("0", Some(0), None),
            ("12:34", Some(12), Some(34)),
            ("+12:+34", Some(12), Some(34)),
            (":34", None, Some(34)),
            ("12:", Some(12), None),
            ("root:root", Some(0), Some(0)),
            ("root:7", Some(0), Some(7)),
        ] {
            assert_eq!(Owner::look_up(text), Ok(Owner { user, group }), "{text}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        for text in [
            "",
            ":",
            "no such user",
            "0:no such group",
            "-1",
            "4294967295",
            "+",
            "+root",
            "1:2:3",
            "a\0b",
        ] {
            let error = Owner::look_up(text).unwrap_err();
            assert!(error.to_string().contains("write"), "{text:?}: {error}");
        }
    }
}
