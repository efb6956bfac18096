//! Names of what can be asked of a copy.

use std::fmt;

macro_rules! options {
    ($($(#[doc = $doc:literal])* $option:ident = $name:literal,)*) => {
        /// An option of `CopyOptions`, as errors name it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CopyOption {
            $($(#[doc = $doc])* $option,)*
        }

        impl CopyOption {
            /// Every option that a system other than Linux may not have.
            pub const ALL: &[CopyOption] = &[$(CopyOption::$option),*];

            /// The field: `preserve.mode`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(CopyOption::$option => $name,)*
                }
            }
        }
    };
}

options! {
    /// `allow`.
    Allow = "allow",
    /// `prefer`.
    Prefer = "prefer",
    /// `sparse`.
    Sparse = "sparse",
    /// `cache`.
    Cache = "cache",
    /// `if_changed`.
    IfChanged = "if_changed",
    /// `flush_source`.
    FlushSource = "flush_source",
    /// `mode` of what is preserved.
    PreserveMode = "preserve.mode",
    /// `ownership` of what is preserved.
    PreserveOwnership = "preserve.ownership",
    /// `timestamps` of what is preserved.
    PreserveTimestamps = "preserve.timestamps",
    /// `xattr` of what is preserved.
    PreserveXattr = "preserve.xattr",
    /// `acl` of what is preserved.
    PreserveAcl = "preserve.acl",
    /// `verify`.
    Verify = "verify",
    /// `durable`.
    Durable = "durable",
    /// `in_place`.
    InPlace = "in_place",
    /// `copy_contents`.
    CopyContents = "copy_contents",
    /// `read_streams`, for a source that is one.
    ReadStreams = "read_streams",
    /// `zero_copy_min` of the sizes.
    ZeroCopyMin = "tuning.zero_copy_min",
    /// `direct_min` of the sizes.
    DirectMin = "tuning.direct_min",
    /// `direct_cpu_min` of the sizes.
    DirectCpuMin = "tuning.direct_cpu_min",
    /// `transform`.
    Transform = "transform",
}

impl fmt::Display for CopyOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
