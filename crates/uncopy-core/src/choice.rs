//! Values of options that explanations refer to.

use std::fmt;

use crate::CopyOption;

macro_rules! choices {
    ($($(#[doc = $doc:literal])* $choice:ident, $option:ident = $name:literal,)*) => {
        /// A choice of the caller that affects how a file is copied: an option, with its value
        /// where that matters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Choice {
            $($(#[doc = $doc])* $choice,)*
        }

        impl Choice {
            /// Every choice.
            pub const ALL: &[Choice] = &[$(Choice::$choice),*];

            /// Returns the option.
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
    /// One mechanism is selected.
    OneMechanism, Allow = "allow=only",
    /// The bytes must go in a certain way.
    Require, Require = "require",
    /// The copy must not share blocks with its source.
    Unshared, Allow = "allow=unshared",
    /// The copy should stay in the page cache.
    CacheKeep, Cache = "cache=keep",
    /// The copy should not use the page cache.
    CacheSkip, Cache = "cache=skip",
    /// Runs of zeros should become holes.
    SparseAlways, Sparse = "sparse=always",
    /// Holes should be filled.
    SparseNever, Sparse = "sparse=never",
    /// Minimal processor time is preferred.
    PreferCpuTime, Prefer = "prefer=cpu_time",
    /// The existing file is overwritten in place.
    InPlace, InPlace = "in_place",
    /// The copy must survive a power failure.
    Durable, Durable = "durable",
    /// The copy is compared with its source.
    Verify, Verify = "verify",
    /// The digest of the bytes is computed.
    Digest, Digest = "digest",
    /// Minimum size for more than one read and one write.
    ZeroCopyMin, ZeroCopyMin = "zero-copy-min",
    /// Minimum size for direct writes.
    DirectMin, DirectMin = "direct-min",
    /// Minimum size for direct writes to save processor time.
    DirectCpuMin, DirectCpuMin = "direct-cpu-min",
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
