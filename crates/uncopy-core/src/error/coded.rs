//! A macro for lists of facts with stable codes, texts and next steps.

/// Defines an enum of facts, each with a stable code, a text and what to do about it, which use the library's option
/// names.
macro_rules! coded {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident $({ $($(#[$of_field:meta])* $field:ident: $type:ty),+ $(,)? })?
                    = $code:literal, $text:literal $(, $step:literal)?;
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
                f.write_str(&self.reason())?;
                self.next_step().map_or(Ok(()), |step| write!(f, "; {step}"))
            }
        }

        impl std::error::Error for $name {}

        impl $name {
            /// Every code, in the order of the list.
            pub const CODES: &[&str] = &[$($code),*];

            /// Every code, with the number of its next steps.
            #[cfg(test)]
            pub(crate) const STEPS: &[(&str, usize)] =
                &[$(($code, <[&str]>::len(&[$($step)?]))),*];

            /// Returns the reason alone: "its permissions forbid writing (EACCES)".
            #[must_use]
            #[allow(unused_variables, reason = "not every text has every field")]
            pub fn reason(&self) -> String {
                match self {
                    $($name::$variant $({ $($field),+ })? => {
                        $($(let $field = $crate::error::coded::Shown::shown($field);)+)?
                        format_args!($text).to_string()
                    })*
                }
            }

            /// Returns what the user can do about it: "existing = Force replaces it anyway".
            #[must_use]
            #[allow(unused_variables, reason = "not every text has every field")]
            pub fn next_step(&self) -> Option<String> {
                match self {
                    $($name::$variant $({ $($field),+ })? => {
                        $($(let $field = $crate::error::coded::Shown::shown($field);)+)?
                        let step: Option<String> = None;
                        $(let step = Some(format_args!($step).to_string());)?
                        step
                    })*
                }
            }

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
use crate::{FileKind, Mechanism};

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
shown_as_they_are!(&'static str, Errno, FileKind, Mechanism, String, u64);
