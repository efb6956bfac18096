//! Reasons why cheaper mechanisms were not used.

use std::fmt;

use crate::codes;
use crate::{Choice, Errno, Filesystem, Mechanism, Origin, Threshold};

/// A cheaper mechanism that was not used, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The reason; displayed for users: "ext4 has no reflinks, or not for this file".
    pub reason: RefusalReason,
    /// Error number from the kernel, if the mechanism was tried.
    pub errno: Option<Errno>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            Some(errno) => write!(f, "{}: {errno}: {}", self.mechanism, self.reason),
            None => write!(f, "{}: {}", self.mechanism, self.reason),
        }
    }
}

/// Reason why a mechanism was not used.
///
/// `Display` is for users and names options as in `CopyOptions`
/// ([`named_by`](RefusalReason::named_by) takes other names); [`code`](RefusalReason::code) is for
/// programs. Copying a reason allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// Excluded by the caller's options.
    ExcludedBy(Exclusion),
    /// The bytes are transformed during the copy (compression).
    Transformed,
    /// The bytes are hashed during the copy, because the source cannot be read again.
    Hashed,
    /// The destination is not a regular file.
    StreamDestination,
    /// The size of the source is unknown until its end is reached.
    SizeUnknown,
    /// The source is empty.
    Empty,
    /// Below this size direct writes do not pay.
    TooSmallForDirect(Threshold),
    /// Below this size pinning pages costs more processor time than copying them.
    TooSmallForPinning(Threshold),
    /// Below this size one read and one write are quicker than any mechanism that needs setup.
    TooSmallForSetup(Threshold),
    /// Pages of a source on a network or FUSE filesystem cannot be mapped for direct writes.
    SourceNotMapped,
    /// The source's filesystem gives no alignment for `O_DIRECT` reads, or the device below is not known to do them
    /// without a copy, which must not happen.
    NoDirectReads,
    /// The destination's filesystem gives no alignment for `O_DIRECT`.
    NoAlignment,
    /// The destination's filesystem copies despite `O_DIRECT`.
    DirectCopies,
    /// Direct writes take longer unless the copy must be durable.
    SlowerUnlessDurable,
    /// `copy_file_range` is the kernel's own splice loop on this filesystem, with a smaller pipe.
    SmallerPipe,
    /// Another mechanism that works here is known to take less time.
    SlowerByTheClock,
    /// It was slower in a trial on this file.
    SlowerInTrial {
        /// Speed in bytes per second, rounded to 100 MB/s.
        speed: u64,
        /// Speed of the winner.
        best_speed: u64,
        /// The winner.
        best: Mechanism,
        /// Whether the winner used two threads.
        parallel: bool,
    },
    /// It took more processor time in a trial on this file.
    CostlierInTrial {
        /// The winner.
        best: Mechanism,
    },
    /// The mechanism was tried, and failed at the beginning or later.
    StoppedBy {
        /// The obstacle.
        obstacle: Obstacle,
        /// Bytes moved before; 0: none.
        after_bytes: u64,
    },
    /// A summary has no row left for further reasons.
    Various,
}

/// Conflict between the caller's options and a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exclusion {
    /// Only read and write are allowed.
    ReadWriteOnly,
    /// It shares blocks with the source, which is not allowed.
    SharesBlocks,
    /// Another mechanism is selected.
    AnotherNamed,
    /// It copies, which `require` does not accept.
    Copies,
    /// It copies on this filesystem, which `require` does not accept.
    CopiesHere,
    /// It is not known to avoid copies here, which `require` does not accept.
    MayCopy,
    /// It makes a second copy on the device, and the blocks must be shared.
    Moves,
    /// It shares the blocks, and the copy must have its own.
    Shares,
    /// It is no reflink, which alone is accepted.
    NoReflink,
    /// Whether it shares the blocks is known only when the existing file has changed.
    KnownAfterwards,
    /// It copies through the program's memory, which is not allowed.
    UserCopies,
    /// It bypasses the page cache, and the copy should be cached.
    BypassesCache,
    /// Only read and write can look for zeros in every byte.
    CannotSeeZeros,
    /// Its bytes do not pass through the program, which computes their digest.
    BytesNotSeen,
    /// It may keep holes that should be filled.
    MayKeepHoles,
    /// It is for new files, and an existing one is written.
    NotInPlace,
}

/// Obstacle met by a mechanism that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Source and destination lie on different filesystems.
    OtherFilesystem,
    /// The filesystem does not support reflinks, or not for this file.
    NoReflinks(Filesystem),
    /// Extents of these two files cannot be shared.
    ExtentsNotShared,
    /// The kernel or a seccomp filter does not know the call.
    UnknownCall,
    /// A seccomp filter or an immutable file forbids it.
    Forbidden,
    /// The source is an active swap file.
    SwapFile,
    /// The destination is open for appending, or its server refuses.
    NotWritable,
    /// Pages cannot be pinned for the device.
    NotPinned,
    /// The file server does not support the call.
    NotOnServer,
    /// `io_uring` is not available for reads that bypass the page cache.
    NoRing,
    /// The call moved nothing, although the source has more bytes.
    MovedNothing,
    /// The kernel does not support it for these files.
    NotSupported,
}

codes! { RefusalReason {
    RefusalReason::ExcludedBy(Exclusion::ReadWriteOnly) => "read_write_only",
    RefusalReason::ExcludedBy(Exclusion::SharesBlocks) => "shares_blocks",
    RefusalReason::ExcludedBy(Exclusion::AnotherNamed) => "another_named",
    RefusalReason::ExcludedBy(Exclusion::Copies) => "copies",
    RefusalReason::ExcludedBy(Exclusion::CopiesHere) => "copies_here",
    RefusalReason::ExcludedBy(Exclusion::MayCopy) => "may_copy",
    RefusalReason::ExcludedBy(Exclusion::Moves) => "moves",
    RefusalReason::ExcludedBy(Exclusion::Shares) => "shares",
    RefusalReason::ExcludedBy(Exclusion::NoReflink) => "no_reflink",
    RefusalReason::ExcludedBy(Exclusion::KnownAfterwards) => "known_afterwards",
    RefusalReason::ExcludedBy(Exclusion::UserCopies) => "user_copies",
    RefusalReason::ExcludedBy(Exclusion::BypassesCache) => "bypasses_cache",
    RefusalReason::ExcludedBy(Exclusion::CannotSeeZeros) => "cannot_see_zeros",
    RefusalReason::ExcludedBy(Exclusion::BytesNotSeen) => "bytes_not_seen",
    RefusalReason::ExcludedBy(Exclusion::MayKeepHoles) => "may_keep_holes",
    RefusalReason::ExcludedBy(Exclusion::NotInPlace) => "not_in_place",
    RefusalReason::Transformed => "transformed",
    RefusalReason::Hashed => "hashed",
    RefusalReason::StreamDestination => "stream_destination",
    RefusalReason::SizeUnknown => "size_unknown",
    RefusalReason::Empty => "empty",
    RefusalReason::TooSmallForDirect(_) => "too_small_for_direct",
    RefusalReason::TooSmallForPinning(_) => "too_small_for_pinning",
    RefusalReason::TooSmallForSetup(_) => "too_small_for_setup",
    RefusalReason::SourceNotMapped => "source_not_mapped",
    RefusalReason::NoDirectReads => "no_direct_reads",
    RefusalReason::NoAlignment => "no_alignment",
    RefusalReason::DirectCopies => "direct_copies",
    RefusalReason::SlowerUnlessDurable => "slower_unless_durable",
    RefusalReason::SmallerPipe => "smaller_pipe",
    RefusalReason::SlowerByTheClock => "slower_by_the_clock",
    RefusalReason::SlowerInTrial { .. } => "slower_in_trial",
    RefusalReason::CostlierInTrial { .. } => "costlier_in_trial",
    RefusalReason::StoppedBy { obstacle: Obstacle::OtherFilesystem, .. } => "other_filesystem",
    RefusalReason::StoppedBy { obstacle: Obstacle::NoReflinks(_), .. } => "no_reflinks",
    RefusalReason::StoppedBy { obstacle: Obstacle::ExtentsNotShared, .. } => "extents_not_shared",
    RefusalReason::StoppedBy { obstacle: Obstacle::UnknownCall, .. } => "unknown_call",
    RefusalReason::StoppedBy { obstacle: Obstacle::Forbidden, .. } => "forbidden",
    RefusalReason::StoppedBy { obstacle: Obstacle::SwapFile, .. } => "swap_file",
    RefusalReason::StoppedBy { obstacle: Obstacle::NotWritable, .. } => "not_writable",
    RefusalReason::StoppedBy { obstacle: Obstacle::NotPinned, .. } => "not_pinned",
    RefusalReason::StoppedBy { obstacle: Obstacle::NotOnServer, .. } => "not_on_server",
    RefusalReason::StoppedBy { obstacle: Obstacle::NoRing, .. } => "no_ring",
    RefusalReason::StoppedBy { obstacle: Obstacle::MovedNothing, .. } => "moved_nothing",
    RefusalReason::StoppedBy { obstacle: Obstacle::NotSupported, .. } => "not_supported",
    RefusalReason::Various => "various",
} }

impl RefusalReason {
    /// Returns the caller's choice that alone excludes the mechanism. `None`: there is no such
    /// choice.
    #[must_use]
    pub const fn excluded_by(self) -> Option<Choice> {
        let (threshold, choice) = match self {
            RefusalReason::ExcludedBy(exclusion) => return exclusion.choice(),
            RefusalReason::TooSmallForDirect(least) => (least, Choice::DirectMin),
            RefusalReason::TooSmallForPinning(least) => (least, Choice::DirectCpuMin),
            RefusalReason::TooSmallForSetup(least) => (least, Choice::ZeroCopyMin),
            _ => return None,
        };
        match threshold.origin {
            Origin::BuiltIn => None,
            Origin::Given | Origin::Tuned => Some(choice),
        }
    }

    /// Returns the text for users, with the caller's choices named by `name`: a program's flags,
    /// keys of a configuration file.
    pub fn named_by<'a>(self, name: impl Fn(Choice) -> &'a str) -> impl fmt::Display {
        NamedBy { reason: self, name }
    }

    fn write<'a>(
        self,
        f: &mut fmt::Formatter<'_>,
        name: &dyn Fn(Choice) -> &'a str,
    ) -> fmt::Result {
        match self {
            RefusalReason::ExcludedBy(exclusion) => exclusion.write(f, name),
            RefusalReason::TooSmallForDirect(least) => {
                write!(f, "{}{}", self.plain(), Below(Choice::DirectMin, least))
            }
            RefusalReason::TooSmallForPinning(least) => {
                write!(f, "{}{}", self.plain(), Below(Choice::DirectCpuMin, least))
            }
            RefusalReason::TooSmallForSetup(least) => {
                write!(f, "{}{}", self.plain(), Below(Choice::ZeroCopyMin, least))
            }
            RefusalReason::SlowerUnlessDurable => {
                write!(f, "{}; {} chooses it", self.plain(), name(Choice::PreferCpuTime))
            }
            RefusalReason::SlowerInTrial { speed, best_speed, best, parallel } => write!(
                f,
                "{}: {:.1} against {:.1} GB/s by {best}{}",
                self.plain(),
                gigabytes(speed),
                gigabytes(best_speed),
                if parallel { " with two threads" } else { "" },
            ),
            RefusalReason::StoppedBy { obstacle, after_bytes: 0 } => write!(f, "{obstacle}"),
            RefusalReason::StoppedBy { obstacle, after_bytes } => {
                write!(f, "stopped after {after_bytes} bytes: {obstacle}")
            }
            _ => f.write_str(self.plain()),
        }
    }

    /// Returns the part of the text without variables.
    const fn plain(self) -> &'static str {
        match self {
            RefusalReason::Transformed => "the bytes are transformed on their way",
            RefusalReason::Hashed => "the bytes are hashed on their way: they come only once",
            RefusalReason::StreamDestination => "the destination is not a regular file",
            RefusalReason::SizeUnknown => "the size of the source is not known before its end",
            RefusalReason::Empty => "there is nothing to copy",
            RefusalReason::TooSmallForDirect(_) => "too small to pay for O_DIRECT",
            RefusalReason::TooSmallForPinning(_) => {
                "the file is so small that pinning its pages costs more than copying them"
            }
            RefusalReason::TooSmallForSetup(_) => {
                "the file is so small that one read and one write are quicker"
            }
            RefusalReason::SourceNotMapped => "pages of a network or FUSE source are not mapped",
            RefusalReason::NoDirectReads => "the source cannot be read past the page cache",
            RefusalReason::NoAlignment => {
                "the destination's filesystem gives no alignment for O_DIRECT"
            }
            RefusalReason::DirectCopies => {
                "the destination's filesystem copies in spite of O_DIRECT"
            }
            RefusalReason::SlowerUnlessDurable => {
                "slower by the clock unless the copy must be durable"
            }
            RefusalReason::SmallerPipe => {
                "on this filesystem it is the kernel's own splice loop, with a smaller pipe"
            }
            RefusalReason::SlowerByTheClock => "slower by the clock where others work",
            RefusalReason::SlowerInTrial { .. } => "slower in a trial on this file",
            RefusalReason::CostlierInTrial { .. } => "more processor time in a trial on this file",
            RefusalReason::Various => "various",
            // `Exclusion` and `Obstacle` have texts of their own.
            RefusalReason::ExcludedBy(_) | RefusalReason::StoppedBy { .. } => "",
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &Choice::name)
    }
}

/// A reason with custom names for choices.
struct NamedBy<N> {
    reason: RefusalReason,
    name: N,
}

impl<'a, N: Fn(Choice) -> &'a str> fmt::Display for NamedBy<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.write(f, &self.name)
    }
}

/// Displays the threshold that decided, unless it is the built-in one.
struct Below(Choice, Threshold);

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Below(choice, threshold) = self;
        match threshold.origin {
            Origin::BuiltIn => Ok(()),
            Origin::Given => write!(f, " (below {choice}, {threshold})"),
            Origin::Tuned => {
                write!(f, " (below {choice}, {threshold}, tuned for this filesystem)")
            }
        }
    }
}

impl Exclusion {
    /// Returns the choice that excludes it. `None`: several choices do.
    const fn choice(self) -> Option<Choice> {
        Some(match self {
            Exclusion::ReadWriteOnly => Choice::ReadWriteOnly,
            Exclusion::SharesBlocks => Choice::Unshared,
            Exclusion::AnotherNamed => Choice::OneMechanism,
            Exclusion::Copies
            | Exclusion::CopiesHere
            | Exclusion::MayCopy
            | Exclusion::Moves
            | Exclusion::Shares
            | Exclusion::NoReflink => Choice::Require,
            Exclusion::KnownAfterwards | Exclusion::NotInPlace => Choice::InPlace,
            Exclusion::BypassesCache => Choice::CacheKeep,
            Exclusion::CannotSeeZeros => Choice::SparseAlways,
            Exclusion::BytesNotSeen => Choice::Digest,
            Exclusion::MayKeepHoles => Choice::SparseNever,
            Exclusion::UserCopies => return None,
        })
    }

    fn write<'a>(
        self,
        f: &mut fmt::Formatter<'_>,
        name: &dyn Fn(Choice) -> &'a str,
    ) -> fmt::Result {
        if let Some(choice) = self.choice() {
            f.write_str(name(choice))?;
        }
        f.write_str(match self {
            Exclusion::ReadWriteOnly => "",
            Exclusion::SharesBlocks => ": it shares blocks",
            Exclusion::AnotherNamed => " names another",
            Exclusion::Copies => ": it copies",
            Exclusion::CopiesHere => ": it copies on this filesystem",
            Exclusion::MayCopy => ": it is not known to keep from copying here",
            Exclusion::Moves => ": it makes a second copy on the device",
            Exclusion::Shares => ": it shares the blocks of the source",
            Exclusion::NoReflink => ": it is no reflink",
            Exclusion::KnownAfterwards => {
                ": whether it shares blocks is known only when the file has changed"
            }
            Exclusion::UserCopies => "the options do not allow copying through the program",
            Exclusion::BypassesCache => ": it bypasses the page cache",
            Exclusion::CannotSeeZeros => " looks at every byte",
            Exclusion::BytesNotSeen => " is computed in one pass from the bytes on their way",
            Exclusion::MayKeepHoles => ": it may keep holes",
            Exclusion::NotInPlace => ": it is for new files",
        })
    }
}

impl Obstacle {
    /// Returns the code of a refusal by this obstacle.
    #[must_use]
    pub const fn code(self) -> &'static str {
        RefusalReason::StoppedBy { obstacle: self, after_bytes: 0 }.code()
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::OtherFilesystem => "source and destination lie on different filesystems",
            Obstacle::NoReflinks(filesystem) => {
                return write!(f, "{filesystem} has no reflinks, or not for this file");
            }
            Obstacle::ExtentsNotShared => {
                "extents of these two files cannot be shared (nodatacow, alignment, encryption)"
            }
            Obstacle::UnknownCall => "this kernel, or a filter before it, does not know the call",
            Obstacle::Forbidden => "forbidden (a seccomp filter or an immutable file)",
            Obstacle::SwapFile => "the source is an active swap file",
            Obstacle::NotWritable => "the destination is open for appending, or its server refuses",
            Obstacle::NotPinned => "the pages cannot be pinned for the device",
            Obstacle::NotOnServer => "the server does not support the call",
            Obstacle::NoRing => {
                "io_uring cannot be used, or too little memory may be locked for it"
            }
            Obstacle::MovedNothing => "it moved nothing, although the source has more",
            Obstacle::NotSupported => "the kernel does not support it for these files",
        })
    }
}

fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A compile-time check that a reason owns no memory.
    const _: fn() = || {
        fn owns_no_memory<T: Copy>() {}
        owns_no_memory::<Option<RefusalReason>>();
        owns_no_memory::<Refusal>();
    };

    #[test]
    fn codes_are_different() {
        let mut codes = RefusalReason::CODES.to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), RefusalReason::CODES.len());
    }

    #[test]
    fn words_have_the_names_of_whoever_asks() {
        let cache = RefusalReason::ExcludedBy(Exclusion::BypassesCache);
        assert_eq!(cache.to_string(), "cache=keep: it bypasses the page cache");
        let name = |choice: Choice| match choice {
            Choice::CacheKeep => "the cache",
            other => other.name(),
        };
        assert_eq!(cache.named_by(name).to_string(), "the cache: it bypasses the page cache");
        let only = RefusalReason::ExcludedBy(Exclusion::ReadWriteOnly);
        assert_eq!(only.named_by(name).to_string(), "allow=read_write");
    }

    #[test]
    fn a_threshold_is_named_with_its_origin() {
        for (bytes, origin, expected, choice) in [
            (MIB, Origin::BuiltIn, "", None),
            (MIB, Origin::Given, " (below direct-min, 1 MiB)", Some(Choice::DirectMin)),
            (
                96 << 10,
                Origin::Tuned,
                " (below direct-min, 96 KiB, tuned for this filesystem)",
                Some(Choice::DirectMin),
            ),
            (5000, Origin::Given, " (below direct-min, 5000 bytes)", Some(Choice::DirectMin)),
        ] {
            let reason = RefusalReason::TooSmallForDirect(Threshold { bytes, origin });
            assert_eq!(reason.to_string(), format!("too small to pay for O_DIRECT{expected}"));
            assert_eq!(reason.excluded_by(), choice);
        }
    }

    #[test]
    fn what_stopped_it_comes_after_how_far_it_was() {
        let stopped = |after_bytes| RefusalReason::StoppedBy {
            obstacle: Obstacle::NoReflinks(Filesystem::EXT4),
            after_bytes,
        };
        assert_eq!(stopped(0).to_string(), "ext4 has no reflinks, or not for this file");
        assert_eq!(
            stopped(4096).to_string(),
            "stopped after 4096 bytes: ext4 has no reflinks, or not for this file"
        );
        assert_eq!(stopped(4096).code(), "no_reflinks");
    }
}
