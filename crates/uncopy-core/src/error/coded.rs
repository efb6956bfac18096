//! A macro for lists of facts with stable codes and texts.

/// Defines an enum of facts, each with a stable code and a text that uses the library's option
/// names.
macro_rules! coded {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident $({ $($(#[$of_field:meta])* $field:ident: $type:ty),+ $(,)? })?
                    = $code:literal, $text:literal;
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(
                $(#[$doc])*
                $variant $({ $($(#[$of_field])* $field: $type),+ })?,
            )*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($name::$variant $({ $($field),+ })? => {
                        $($(let $field = $crate::error::coded::Shown::shown($field);)+)?
                        write!(f, $text)
                    })*
                }
            }
        }

        impl std::error::Error for $name {}

        impl $name {
            /// Every code, in the order of the list.
            pub const CODES: &[&str] = &[$($code),*];

            /// Every text, before its fields are filled in.
            #[cfg(test)]
            pub(crate) const TEXTS: &[&str] = &[$($text),*];

            /// Returns the stable name, for programs.
            #[must_use]
            pub const fn code(&self) -> &'static str {
                match self {
                    $($name::$variant { .. } => $code,)*
                }
            }
        }
    };
}
pub(super) use coded;

use std::fmt::Display;
use std::path::{self, PathBuf};

use super::Errno;
use crate::Mechanism;

/// A field, as displayed in a text.
pub(super) trait Shown {
    /// The type that displays it.
    type As<'a>: Display
    where
        Self: 'a;

    fn shown(&self) -> Self::As<'_>;
}

impl Shown for PathBuf {
    type As<'a> = path::Display<'a>;

    fn shown(&self) -> path::Display<'_> {
        self.display()
    }
}

macro_rules! shown_as_they_are {
    ($($field:ty),+) => {
        $(impl Shown for $field {
            type As<'a> = &'a $field;

            fn shown(&self) -> &$field {
                self
            }
        })+
    };
}
shown_as_they_are!(&'static str, Errno, Mechanism, String, u64);
