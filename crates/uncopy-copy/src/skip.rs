//! Defines the reasons for skipping an entry.

use std::fmt;

macro_rules! skips {
    ($($(#[doc = $doc:literal])* $skip:ident = $code:literal, $text:literal;)*) => {
        /// Why a file, or an entry of a tree, was left alone.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Skip {
            $($(#[doc = $doc])* $skip,)*
        }

        impl Skip {
            /// Every reason.
            pub const ALL: &[Skip] = &[$(Skip::$skip),*];

            /// The stable name: `exists`.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Skip::$skip => $code,)*
                }
            }

            /// The words: "the destination exists". They name options of the library.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Skip::$skip => $text,)*
                }
            }
        }
    };
}

skips! {
    /// The destination exists, and [`Existing::Keep`](crate::Existing::Keep) is set.
    Exists = "exists", "the destination exists";
    /// The destination was modified when the source was, or later (`JobOptions::update`).
    AsNew = "as_new", "the destination is as new as the source";
    /// The destination is as long as the source (`Compare::Size`).
    SameSize = "same_size", "the destination is as long as the source";
    /// The destination has the same bytes as the source (`Compare::Contents`).
    SameContents = "same_contents", "the destination has the same contents as the source";
    /// The observer did not agree to replacing the destination (`CopyOptions::ask`).
    Declined = "declined", "replacing the destination was declined";
    /// A symbolic link, with `Links::Skip`.
    SymbolicLink = "symbolic_link", "it is a symbolic link (links = Skip)";
    /// A FIFO, socket or device file, without `JobOptions::specials`.
    Special = "special", "it is no file, directory or link (specials makes a new one)";
    /// The directory folds names, and the source has the entry under another writing of its name.
    FoldedName = "folded_name",
        "its directory folds names, and the source has it under one that is written otherwise";
    /// A directory that would be deleted, and holds what the `Selection` leaves out.
    HoldsExcluded = "holds_excluded", "something in it is left out by the selection";
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
