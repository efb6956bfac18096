//! Values of options that explanations speak of.

use std::fmt;

use crate::CopyOption;

macro_rules! choices {
    ($($(#[doc = $doc:literal])* $choice:ident, $option:ident = $name:literal,)*) => {
        /// A choice of the caller that decides how a file is copied: an option, and its value where that
        /// matters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Choice {
            $($(#[doc = $doc])* $choice,)*
        }

        impl Choice {
            /// Every choice.
            pub const ALL: &[Choice] = &[$(Choice::$choice),*];

            /// Returns the option that was chosen.
            #[must_use]
            pub const fn option(self) -> CopyOption {
                match self {
                    $(Choice::$choice => CopyOption::$option,)*
                }
            }

            /// Returns the neutral name, with the value: `cache=keep`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Choice::$choice => $name,)*
                }
            }
        }
    };
}

choices! {
    /// Only `read` and `write` are allowed.
    ReadWriteOnly, Allow = "allow=read_write",
    /// One mechanism is named.
    OneMechanism, Allow = "allow=only",
    /// Only what touches no byte is allowed.
    ZeroCopyOnly, Allow = "allow=zero_copy",
    /// The copy is to be in the page cache.
    CacheKeep, Cache = "cache=keep",
    /// The copy is to leave the page cache alone.
    CacheSkip, Cache = "cache=skip",
    /// Runs of zeros are to become holes.
    SparseAlways, Sparse = "sparse=always",
    /// Holes are to be filled.
    SparseNever, Sparse = "sparse=never",
    /// The least processor time is wanted.
    PreferCpuTime, Prefer = "prefer=cpu_time",
    /// The existing file is to be written into.
    InPlace, InPlace = "in_place",
    /// The copy is to survive a power cut.
    Durable, Durable = "durable",
    /// The copy is to be compared with its source.
    Verify, Verify = "verify",
    /// The size from which on a file is more than one read and one write.
    ZeroCopyMin, ZeroCopyMin = "zero-copy-min",
    /// The size from which on direct writes are taken.
    DirectMin, DirectMin = "direct-min",
    /// The size from which on direct writes are taken to save processor time.
    DirectCpuMin, DirectCpuMin = "direct-cpu-min",
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
