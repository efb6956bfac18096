//! Names of what can be asked of a copy.

use std::fmt;

macro_rules! options {
    ($($(#[doc = $doc:literal])* $option:ident = $name:literal,)*) => {
        /// An option of [`CopyOptions`](crate::copy::CopyOptions), as errors name it.
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
    /// [`allow`](crate::copy::CopyOptions::allow).
    Allow = "allow",
    /// [`prefer`](crate::copy::CopyOptions::prefer).
    Prefer = "prefer",
    /// [`sparse`](crate::copy::CopyOptions::sparse).
    Sparse = "sparse",
    /// [`cache`](crate::copy::CopyOptions::cache).
    Cache = "cache",
    /// [`if_changed`](crate::copy::CopyOptions::if_changed).
    IfChanged = "if_changed",
    /// [`flush_source`](crate::copy::CopyOptions::flush_source).
    FlushSource = "flush_source",
    /// [`mode`](crate::copy::Preserve::mode) of what is preserved.
    PreserveMode = "preserve.mode",
    /// [`ownership`](crate::copy::Preserve::ownership) of what is preserved.
    PreserveOwnership = "preserve.ownership",
    /// [`timestamps`](crate::copy::Preserve::timestamps) of what is preserved.
    PreserveTimestamps = "preserve.timestamps",
    /// [`xattr`](crate::copy::Preserve::xattr) of what is preserved.
    PreserveXattr = "preserve.xattr",
    /// [`acl`](crate::copy::Preserve::acl) of what is preserved.
    PreserveAcl = "preserve.acl",
    /// [`verify`](crate::copy::CopyOptions::verify).
    Verify = "verify",
    /// [`durable`](crate::copy::CopyOptions::durable).
    Durable = "durable",
    /// [`in_place`](crate::copy::CopyOptions::in_place).
    InPlace = "in_place",
    /// [`copy_contents`](crate::copy::CopyOptions::copy_contents).
    CopyContents = "copy_contents",
    /// [`read_streams`](crate::copy::CopyOptions::read_streams), for a source that is one.
    ReadStreams = "read_streams",
    /// [`zero_copy_min`](crate::copy::Tuning::zero_copy_min) of the sizes.
    ZeroCopyMin = "tuning.zero_copy_min",
    /// [`direct_min`](crate::copy::Tuning::direct_min) of the sizes.
    DirectMin = "tuning.direct_min",
    /// [`direct_cpu_min`](crate::copy::Tuning::direct_cpu_min) of the sizes.
    DirectCpuMin = "tuning.direct_cpu_min",
    /// [`transform`](crate::copy::CopyOptions::transform).
    Transform = "transform",
}

impl fmt::Display for CopyOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
