//! Owner that copies get, whoever owns their source.

use std::ffi::CString;
use std::fmt;

use crate::setters::setters;
use crate::user_names;
use uncopy_core::{Errno, MetadataPart};

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

    /// Returns what a file of the owner `now` lacks of this owner, and of the `wanted` one where this says nothing: user
    /// and group.
    pub(crate) fn lacking(self, wanted: Option<(u32, u32)>, now: (u32, u32)) -> Owner {
        let user = self.user.or(wanted.map(|wanted| wanted.0)).filter(|user| now.0 != *user);
        let group = self.group.or(wanted.map(|wanted| wanted.1)).filter(|group| now.1 != *group);
        Owner { user, group }
    }

    /// Gives a file what it lacks, by `set`. Returns the part that it could not get and that nobody asked for.
    ///
    /// # Errors
    /// It could not get what this owner asks for.
    pub(crate) fn give<E>(
        self,
        lacking: Owner,
        mut set: impl FnMut(Option<u32>, Option<u32>) -> Result<(), E>,
    ) -> Result<Option<(MetadataPart, E)>, E> {
        let Owner { user, group } = lacking;
        if lacking == Owner::default() {
            return Ok(None);
        }
        let Err(error) = set(user, group) else { return Ok(None) };
        // A group that the caller belongs to may be given even where the owner may not.
        let given_group = group.map_or(Ok(()), |group| set(None, Some(group)));
        let lacks_user = user.is_some() && self.user.is_some();
        if lacks_user || (given_group.is_err() && self.group.is_some()) {
            return Err(error);
        }
        let what = match (user, given_group) {
            (Some(_), Ok(())) => MetadataPart::Owner,
            (None, _) => MetadataPart::Group,
            (Some(_), Err(_)) => MetadataPart::OwnerAndGroup,
        };
        Ok(Some((what, error)))
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
    fn what_is_asked_for_is_given_or_an_error_and_the_rest_a_note() {
        use MetadataPart::{Group, OwnerAndGroup};
        let owner = |user, group| Owner { user, group };
        let nothing = owner(None, None);
        let (me, others) = ((1, 10), Some((2, 20)));
        // Asked for, wanted, owner now; lacking; what an attempt becomes that may change nothing, and one that may change
        // the group.
        for (asked, wanted, now, lacking, none_allowed, group_allowed) in [
            (nothing, None, me, nothing, Ok(None), Ok(None)),
            (nothing, Some(me), me, nothing, Ok(None), Ok(None)),
            (
                nothing,
                others,
                me,
                owner(Some(2), Some(20)),
                Ok(Some(OwnerAndGroup)),
                Ok(Some(MetadataPart::Owner)),
            ),
            (nothing, Some((1, 20)), me, owner(None, Some(20)), Ok(Some(Group)), Ok(None)),
            (owner(Some(2), None), None, me, owner(Some(2), None), Err(()), Err(())),
            (owner(Some(1), None), others, me, owner(None, Some(20)), Ok(Some(Group)), Ok(None)),
            (owner(None, Some(20)), others, me, owner(Some(2), Some(20)), Err(()), {
                Ok(Some(MetadataPart::Owner))
            }),
            (owner(None, Some(10)), None, me, nothing, Ok(None), Ok(None)),
            (owner(Some(3), Some(30)), others, me, owner(Some(3), Some(30)), Err(()), Err(())),
        ] {
            assert_eq!(asked.lacking(wanted, now), lacking, "{asked:?} {wanted:?}");
            let part = |given: Result<Option<(MetadataPart, ())>, ()>| {
                given.map(|note| note.map(|(what, ())| what))
            };
            assert_eq!(part(asked.give(lacking, |_, _| Err(()))), none_allowed, "{asked:?}");
            let of_groups = |user: Option<u32>, _| if user.is_some() { Err(()) } else { Ok(()) };
            assert_eq!(part(asked.give(lacking, of_groups)), group_allowed, "{asked:?}");
            assert_eq!(part(asked.give(lacking, |_, _| Ok(()))), Ok(None));
        }
    }

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
