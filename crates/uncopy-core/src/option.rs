//! Names of copy options.

use std::fmt;

macro_rules! options {
    ($($(#[doc = $doc:literal])* $option:ident = $name:literal,)*) => {
        /// An option of `CopyOptions`, or of `JobOptions` for trees, as named in errors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CopyOption {
            $($(#[doc = $doc])* $option,)*
        }

        impl CopyOption {
            /// Every option that may be missing on systems other than Linux.
            pub const ALL: &[CopyOption] = &[$(CopyOption::$option),*];

            /// Returns the name of the field: `preserve.mode`.
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
    /// `require`.
    Require = "require",
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
    /// `existing = Remove`.
    Remove = "existing",
    /// `ask`.
    Ask = "ask",
    /// `backup`.
    Backup = "backup",
    /// `attributes_only`.
    AttributesOnly = "attributes_only",
    /// `preserve.mode`.
    PreserveMode = "preserve.mode",
    /// `preserve.ownership`.
    PreserveOwnership = "preserve.ownership",
    /// `preserve.timestamps`.
    PreserveTimestamps = "preserve.timestamps",
    /// `preserve.xattr`.
    PreserveXattr = "preserve.xattr",
    /// `preserve.acl`.
    PreserveAcl = "preserve.acl",
    /// `mode_changes`.
    ModeChanges = "mode_changes",
    /// `owner`.
    Owner = "owner",
    /// `verify`.
    Verify = "verify",
    /// `digest`.
    Digest = "digest",
    /// `durable`.
    Durable = "durable",
    /// `in_place`.
    InPlace = "in_place",
    /// `copy_contents`.
    CopyContents = "copy_contents",
    /// `read_streams`, if the source is a stream.
    ReadStreams = "read_streams",
    /// `tuning.zero_copy_min`.
    ZeroCopyMin = "tuning.zero_copy_min",
    /// `tuning.direct_min`.
    DirectMin = "tuning.direct_min",
    /// `tuning.direct_cpu_min`.
    DirectCpuMin = "tuning.direct_cpu_min",
    /// `transform`.
    Transform = "transform",
    /// `parents`.
    Parents = "parents",
    /// `specials`.
    Specials = "specials",
    /// `link`.
    Link = "link",
    /// `link_dest`.
    LinkDest = "link_dest",
    /// `delete`.
    Delete = "delete",
    /// `remove_source`.
    RemoveSource = "remove_source",
    /// `jobs`, if there are to be several.
    Jobs = "jobs",
    /// `resume`.
    Resume = "resume",
    /// `links_in_memory`.
    LinksInMemory = "links_in_memory",
}

impl fmt::Display for CopyOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
