//! Decides which mechanism is used next, by pure functions of facts about the files.
//!
//! There is no system call here, so that tables of facts and error numbers test every decision.

use super::options::{Allow, Cache, Prefer, Require, Sparse};
use super::tuning::{Origin, Tuning};
use uncopy_core::{
    Choice, Decision, Errno, Exclusion, Mechanism, Obstacle, Reason, Refusal, RefusalReason,
};
use uncopy_os::capabilities::Filesystem;

/// Everything the choice depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFacts {
    /// Bytes to copy; `None`: not known before the end is met (pseudo files, pipes, devices).
    pub size: Option<u64>,
    /// Bytes outside holes, by its number of blocks.
    pub data_bytes: u64,
    /// The source has holes.
    pub has_holes: bool,
    /// The source is on another machine: only the program can write what comes from there.
    pub is_elsewhere: bool,
    /// Filesystem of the source.
    pub source: Filesystem,
    /// Filesystem of the destination.
    pub destination: Filesystem,
    /// The destination is no regular file: only `write` makes sense.
    pub destination_is_stream: bool,
    /// Effect of `O_DIRECT` on the destination.
    pub direct: DirectPath,
    /// The source can be read with `O_DIRECT`, and should be: it is not in the page cache and is to stay out
    /// of it, or the options name [`Mechanism::DirectRing`].
    pub direct_reads: bool,
    /// Most of the source is still to be read from its device. Looked up only where it matters.
    pub source_is_cold: bool,
    /// A second thread may move blocks at the same time. Looked up only where it matters.
    pub has_second_thread: bool,
    /// Bytes that the kernel lets lie dirty before it makes writers wait.
    pub dirty_budget_bytes: u64,
    /// The bytes are changed on their way (compression).
    pub transforms: bool,
    /// The bytes are hashed on their way: their source cannot be read again to verify them.
    pub hashes: bool,
    /// The digest of the bytes is wanted: they pass through the program unless their blocks are shared.
    pub digests: bool,
    /// [`CopyOptions::in_place`](super::options::CopyOptions::in_place).
    pub in_place: bool,
    /// [`CopyOptions::durable`](super::options::CopyOptions::durable).
    pub durable: bool,
    /// Mechanisms that may be used.
    pub allow: Allow,
    /// Condition that the bytes must meet.
    pub require: Require,
    /// Meaning of "cheapest".
    pub prefer: Prefer,
    /// Treatment of holes and runs of zeros.
    pub sparse: Sparse,
    /// Treatment of the page cache.
    pub cache: Cache,
    /// Sizes at which something else is done.
    pub tuning: Tuning,
}

impl CopyFacts {
    /// Facts of a file without holes, from ext4 to ext4, in the page cache, with default options.
    #[must_use]
    pub fn ordinary(bytes: u64) -> CopyFacts {
        CopyFacts {
            size: Some(bytes),
            data_bytes: bytes,
            has_holes: false,
            is_elsewhere: false,
            source: Filesystem::EXT4,
            destination: Filesystem::EXT4,
            destination_is_stream: false,
            direct: DirectPath::Moves,
            direct_reads: false,
            source_is_cold: false,
            has_second_thread: false,
            dirty_budget_bytes: u64::MAX,
            transforms: false,
            hashes: false,
            digests: false,
            in_place: false,
            durable: false,
            allow: Allow::Any,
            require: Require::Nothing,
            prefer: Prefer::WallTime,
            sparse: Sparse::Auto,
            cache: Cache::Auto,
            tuning: Tuning::BUILT_IN,
        }
    }

    /// Whether the bytes pass through the program because of their digest: that takes one pass where a
    /// copy inside the kernel and reading it take two. Processor time would be saved by direct writes.
    fn reads_for_digest(&self) -> bool {
        self.digests && self.prefer == Prefer::WallTime && self.require == Require::Nothing
    }
}

/// Effect of `O_DIRECT` writes to the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectPath {
    /// The filesystem gives no alignment for them (`STATX_DIOALIGN`).
    None,
    /// They are accepted, but a lower layer copies the bytes anyway.
    Copies,
    /// They are accepted; whether a lower device copies is not known (loop, dm, md, network).
    Unknown,
    /// A disk reads the pages themselves.
    Moves,
}

/// Minimum size for direct writes from a source that is still to be read, unless the options want them. The kernel reads
/// ahead into few large folios, which are cheap to pin, only in a longer file; and a shorter one is read before much of
/// it can be written (`compare mechanisms`, `4MiB/cold, durable` and `16MiB/cold, durable`).
pub(crate) const DIRECT_COLD_MIN_BYTES: u64 = 64 << 20;

/// From this size on a copy in small pieces, as the kernel's own loop makes them, overlaps with the
/// reads of a source that is still to be read; two such pieces.
pub(crate) const COLD_MATTERS_MIN_BYTES: u64 = 128 << 10;

/// From this size on a pipe of our own, and larger than the kernel's, is worth making.
pub(crate) const SPLICE_MIN_BYTES: u64 = 1 << 20;

/// From this size on blocks are reserved before they are written.
pub(crate) const RESERVE_MIN_BYTES: u64 = 128 << 10;

/// Smaller pieces are moved by one thread: making another takes its time.
pub(crate) const RANGES_MIN_BYTES: u64 = 4 << 20;

/// Minimum size for two threads that read and write without a trial, if the source lies in memory: its pages are
/// single ones, which a copy inside the kernel takes one by one.
const MEMORY_RANGES_MIN_BYTES: u64 = 16 << 20;

/// Minimum size for a trial of two threads, whose probes are long.
pub(crate) const PARALLEL_TRIAL_MIN_BYTES: u64 = 512 << 20;

/// Two threads move a piece of this length clearly quicker than one. On ext4 and XFS one reads and
/// looks for zeros while the other writes; the kernel's own copies hold the lock of the destination
/// all the time, and one direct write hands the device all it can take (`docs/copy.md`).
pub(crate) fn gains_by_ranges(facts: &CopyFacts, mechanism: Mechanism, piece_bytes: u64) -> bool {
    mechanism == Mechanism::ReadWrite
        && !facts.is_elsewhere
        && [Filesystem::EXT4, Filesystem::XFS].contains(&facts.destination)
        && !facts.source.is_network()
        && !facts.source.is_user()
        && facts.prefer == Prefer::WallTime
        // An interrupted in-place copy should mix old and new bytes as little as possible.
        && !facts.in_place
        && piece_bytes >= RANGES_MIN_BYTES
}

/// Whether [`CopyFacts::has_second_thread`] can matter.
pub(crate) fn may_gain_by_ranges_from_memory(facts: &CopyFacts) -> bool {
    let sizes = MEMORY_RANGES_MIN_BYTES..PARALLEL_TRIAL_MIN_BYTES;
    facts.source.is_memory()
        && !facts.has_holes
        && excluded(facts, Mechanism::ReadWrite).is_none()
        && facts.size.is_some_and(|size| {
            sizes.contains(&size) && gains_by_ranges(facts, Mechanism::ReadWrite, size)
        })
}

/// Two threads read and write quicker than the kernel copies (`compare mechanisms`, from tmpfs).
fn ranges_are_faster(facts: &CopyFacts) -> bool {
    facts.has_second_thread && may_gain_by_ranges_from_memory(facts)
}

/// A mechanism that has been tried, and what stopped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempted {
    pub(crate) mechanism: Mechanism,
    pub(crate) errno: Option<Errno>,
    pub(crate) moved_bytes: u64,
}

/// The next step of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanStep {
    Try(Mechanism),
    /// No mechanism is left that the options allow.
    GiveUp,
}

/// The next mechanism: the first in the order of [`order`] that has not been stopped yet.
pub(crate) fn next(facts: &CopyFacts, attempted: &[Attempted]) -> PlanStep {
    order(facts)
        .find(|m| excluded(facts, *m).is_none() && !attempted.iter().any(|a| a.mechanism == *m))
        .map_or(PlanStep::GiveUp, PlanStep::Try)
}

/// Mechanisms between which only a trial can decide, from the next one on. By wall time: buffered copies that rank
/// next to each other. By processor time: direct writes and a copy inside the kernel, if the source lies in memory, where
/// its pages may be single ones. Those of a page cache are folios that cost little to pin, and a trial would cost more
/// than the copy (`compare mechanisms`, 64 MiB).
pub(crate) fn rivals(facts: &CopyFacts, attempted: &[Attempted]) -> Vec<Mechanism> {
    use Mechanism::{CopyFileRange, Direct, ReadWrite, Splice};
    let mut open = order(facts)
        .filter(|m| excluded(facts, *m).is_none() && !attempted.iter().any(|a| a.mechanism == *m));
    match facts.prefer {
        Prefer::WallTime if ranges_are_faster(facts) => Vec::new(),
        Prefer::WallTime => open
            .take_while(|m| !m.is_direct())
            .filter(|m| [CopyFileRange, Splice, ReadWrite].contains(m))
            .collect(),
        Prefer::CpuTime => match open.next() {
            Some(Direct) if facts.source.is_memory() => {
                std::iter::once(Direct).chain(open.find(|m| *m == Splice)).collect()
            }
            _ => Vec::new(),
        },
    }
}

/// Thresholds that are not built in, and without which another mechanism would be the first.
pub(crate) fn decisive(facts: &CopyFacts, attempted: &[Attempted]) -> Vec<Decision> {
    let (tuning, usual) = (facts.tuning, Tuning::BUILT_IN);
    let rows = [
        (
            Choice::ZeroCopyMin,
            tuning.zero_copy_min,
            Tuning { zero_copy_min: usual.zero_copy_min, ..tuning },
        ),
        (Choice::DirectMin, tuning.direct_min, Tuning { direct_min: usual.direct_min, ..tuning }),
        (
            Choice::DirectCpuMin,
            tuning.direct_cpu_min,
            Tuning { direct_cpu_min: usual.direct_cpu_min, ..tuning },
        ),
    ];
    let rows = rows.into_iter().filter(|(_, threshold, _)| threshold.origin != Origin::BuiltIn);
    rows.filter(|(_, _, without)| {
        next(facts, attempted) != next(&CopyFacts { tuning: *without, ..facts.clone() }, attempted)
    })
    .map(|(choice, threshold, _)| Decision { choice, threshold })
    .collect()
}

/// All mechanisms, the one that touches the bytes least first. Where `copy_file_range` may share, it
/// stands before direct writes.
pub(crate) fn by_cost(facts: &CopyFacts) -> impl Iterator<Item = Mechanism> + Clone {
    use Mechanism::{CopyFileRange, Direct, DirectRing, ReadWrite, Reflink, Sendfile, Splice};
    let all = if facts.destination.copies_by_splice() {
        [Reflink, DirectRing, Direct, CopyFileRange, Sendfile, Splice, ReadWrite]
    } else {
        [Reflink, CopyFileRange, DirectRing, Direct, Sendfile, Splice, ReadWrite]
    };
    considered(facts, all)
}

/// Leaves [`Mechanism::DirectRing`] out where nothing asks for reads past the page cache: pages that are in it
/// are there to be written, and pages that are not are read ahead quicker by the kernel. No system call but `write`
/// takes bytes that come from another machine.
fn considered(
    facts: &CopyFacts,
    all: [Mechanism; 7],
) -> impl Iterator<Item = Mechanism> + Clone + use<> {
    let with_ring = facts.direct_reads || facts.allow == Allow::Only(Mechanism::DirectRing);
    let is_here = !facts.is_elsewhere;
    all.into_iter().filter(move |m| match m {
        Mechanism::ReadWrite => true,
        Mechanism::DirectRing => is_here && with_ring,
        _ => is_here,
    })
}

/// Returns the mechanism among `used` that touches the bytes most.
pub(crate) fn costliest(
    facts: &CopyFacts,
    used: impl Iterator<Item = Mechanism>,
) -> Option<Mechanism> {
    used.max_by_key(|m| by_cost(facts).position(|o| o == *m))
}

/// Orders refusals as [`by_cost`] does.
pub(crate) fn sort(facts: &CopyFacts, refusals: &mut [Refusal]) {
    refusals.sort_by_key(|r| by_cost(facts).position(|o| o == r.mechanism));
}

/// Returns why every mechanism that is cheaper than `used` was not used, before anything was tried.
pub(crate) fn refusals(facts: &CopyFacts, used: Option<Mechanism>) -> Vec<Refusal> {
    by_cost(facts)
        .take_while(|m| used != Some(*m))
        .filter_map(|mechanism| {
            let reason = excluded(facts, mechanism)
                .or_else(|| used.and_then(|used| outranked(facts, mechanism, used)))?;
            Some(Refusal { mechanism, reason, errno: None })
        })
        .collect()
}

/// Returns why no mechanism is left: what the kernel refused, and what was ruled out before.
pub(crate) fn no_mechanism(facts: &CopyFacts, refused: &[Refusal]) -> Reason {
    let mut all = refused.to_vec();
    all.extend(
        refusals(facts, None)
            .into_iter()
            .filter(|r| !refused.iter().any(|known| known.mechanism == r.mechanism)),
    );
    sort(facts, &mut all);
    Reason::NoMechanism { refusals: all }
}

/// Returns all mechanisms, the preferred first.
fn order(facts: &CopyFacts) -> impl Iterator<Item = Mechanism> + Clone + use<> {
    use Mechanism::{CopyFileRange, Direct, DirectRing, ReadWrite, Reflink, Sendfile, Splice};
    let mut order = match facts.prefer {
        Prefer::CpuTime if direct_saves_cpu_time(facts) => {
            [Reflink, DirectRing, Direct, CopyFileRange, Sendfile, Splice, ReadWrite]
        }
        Prefer::WallTime if direct_is_faster(facts) => {
            [Reflink, DirectRing, Direct, CopyFileRange, Splice, Sendfile, ReadWrite]
        }
        _ if ranges_are_faster(facts) => {
            [Reflink, ReadWrite, Splice, CopyFileRange, Sendfile, DirectRing, Direct]
        }
        // The kernel's own loop behind copy_file_range and sendfile splices too, through a smaller pipe, which it
        // has already.
        _ if facts.destination.copies_by_splice()
            && !facts.source_is_cold
            && facts.size.is_none_or(|size| size >= SPLICE_MIN_BYTES) =>
        {
            [Reflink, Splice, CopyFileRange, Sendfile, ReadWrite, DirectRing, Direct]
        }
        _ if facts.size.is_some_and(|size| size < SPLICE_MIN_BYTES) => {
            [Reflink, CopyFileRange, Sendfile, Splice, ReadWrite, DirectRing, Direct]
        }
        _ => [Reflink, CopyFileRange, Splice, Sendfile, ReadWrite, DirectRing, Direct],
    };
    let may_choose = matches!(facts.allow, Allow::Any | Allow::Unshared);
    if is_small(facts) && may_choose && facts.require == Require::Nothing {
        // One read and one write: nothing that needs setting up is quicker, but for sharing.
        let place = order.iter().position(|m| *m == ReadWrite).unwrap_or(0);
        order[1..=place].rotate_right(1);
    }
    considered(facts, order)
}

/// One `read` and one `write` are the quickest copy.
fn is_small(facts: &CopyFacts) -> bool {
    facts.size.is_some_and(|size| size < facts.tuning.small_bytes())
}

/// Direct writes cost the least processor time where there is enough to write.
fn direct_saves_cpu_time(facts: &CopyFacts) -> bool {
    let from = match facts.source_is_cold {
        true => facts.tuning.direct_cpu_min.bytes.max(DIRECT_COLD_MIN_BYTES),
        false => facts.tuning.direct_cpu_min.bytes,
    };
    facts.require.may_move() || facts.data_bytes >= from
}

/// Direct writes win by the clock where the bytes must reach the device anyway, and do not have to be read first.
fn direct_is_faster(facts: &CopyFacts) -> bool {
    let is_beyond_budget = facts.data_bytes > facts.dirty_budget_bytes;
    let is_ready = !facts.source_is_cold || facts.data_bytes >= DIRECT_COLD_MIN_BYTES;
    facts.cache == Cache::Skip || is_beyond_budget || facts.durable && is_ready
}

/// Whether options and kind of file leave a mechanism.
pub(crate) fn is_allowed(facts: &CopyFacts, mechanism: Mechanism) -> bool {
    excluded(facts, mechanism).is_none()
}

/// Returns why the options or the kind of file rule a mechanism out.
fn excluded(facts: &CopyFacts, mechanism: Mechanism) -> Option<RefusalReason> {
    if mechanism == Mechanism::ReadWrite {
        let is_allowed = facts.require == Require::Nothing
            && matches!(
                facts.allow,
                Allow::Any | Allow::Unshared | Allow::ReadWrite | Allow::Only(Mechanism::ReadWrite)
            );
        return (!is_allowed).then_some(RefusalReason::ExcludedBy(Exclusion::UserCopies));
    }
    by_options(facts, mechanism).or_else(|| by_file(facts, mechanism))
}

fn by_options(facts: &CopyFacts, mechanism: Mechanism) -> Option<RefusalReason> {
    use Mechanism::{CopyFileRange, Reflink};
    let named = match facts.allow {
        Allow::ReadWrite => Some(Exclusion::ReadWriteOnly),
        Allow::Only(only) if !only.includes(mechanism) => Some(Exclusion::AnotherNamed),
        Allow::Unshared if mechanism == Reflink => Some(Exclusion::SharesBlocks),
        Allow::Unshared
            if mechanism == CopyFileRange && shares_by_copy_file_range(facts.destination) =>
        {
            Some(Exclusion::SharesBlocks)
        }
        _ => by_requirement(facts, mechanism),
    };
    if let Some(exclusion) = named {
        return Some(RefusalReason::ExcludedBy(exclusion));
    }
    let exclusion = match mechanism {
        direct if direct.is_direct() && facts.cache == Cache::Keep => Exclusion::BypassesCache,
        _ if facts.transforms => return Some(RefusalReason::Transformed),
        _ if facts.hashes => return Some(RefusalReason::Hashed),
        other if facts.allow == Allow::Any && facts.reads_for_digest() && other != Reflink => {
            Exclusion::BytesNotSeen
        }
        _ if facts.sparse == Sparse::Always => Exclusion::CannotSeeZeros,
        Reflink | CopyFileRange if facts.sparse == Sparse::Never && facts.has_holes => {
            Exclusion::MayKeepHoles
        }
        _ => return None,
    };
    Some(RefusalReason::ExcludedBy(exclusion))
}

/// Returns why bytes that go by the mechanism cannot meet the requirement.
fn by_requirement(facts: &CopyFacts, mechanism: Mechanism) -> Option<Exclusion> {
    use Mechanism::{CopyFileRange, Direct, DirectRing, Reflink, Sendfile, Splice};
    Some(match (facts.require, mechanism) {
        (Require::Nothing | Require::NoUserCopy, _) | (Require::Reflink, Reflink) => return None,
        (_, Sendfile | Splice) => Exclusion::Copies,
        (Require::Reflink, _) => Exclusion::NoReflink,
        (_, CopyFileRange) if !shares_by_copy_file_range(facts.destination) => {
            Exclusion::CopiesHere
        }
        (Require::Moved, Reflink | CopyFileRange) => Exclusion::Shares,
        (Require::Shared, Direct | DirectRing) => Exclusion::Moves,
        (_, CopyFileRange) if facts.in_place => Exclusion::KnownAfterwards,
        (_, Direct | DirectRing) if facts.direct == DirectPath::Unknown => Exclusion::MayCopy,
        _ => return None,
    })
}

fn by_file(facts: &CopyFacts, mechanism: Mechanism) -> Option<RefusalReason> {
    let to_the_end = to_the_end(facts, mechanism);
    if facts.destination_is_stream && to_the_end.is_some() {
        return Some(RefusalReason::StreamDestination);
    }
    let Some(size) = facts.size else { return to_the_end };
    if !mechanism.is_direct() {
        return (size == 0).then_some(RefusalReason::Empty);
    }
    if mechanism == Mechanism::DirectRing && !facts.direct_reads {
        return Some(RefusalReason::NoDirectReads);
    }
    let direct_min = facts.tuning.direct_min;
    match facts.allow {
        Allow::Only(only) if only.is_direct() => {}
        _ if facts.require.may_move() => {}
        _ if facts.source.is_network() || facts.source.is_user() => {}
        _ if size < direct_min.bytes => return Some(RefusalReason::TooSmallForDirect(direct_min)),
        _ => {}
    }
    by_path(facts)
}

/// Returns why direct writes cannot be used from this source to this destination.
fn by_path(facts: &CopyFacts) -> Option<RefusalReason> {
    if facts.source.is_network() || facts.source.is_user() {
        return Some(RefusalReason::SourceNotMapped);
    }
    match facts.direct {
        _ if matches!(facts.allow, Allow::Only(only) if only.is_direct())
            && !facts.require.may_move() =>
        {
            None
        }
        DirectPath::None => Some(RefusalReason::NoAlignment),
        DirectPath::Copies => Some(RefusalReason::DirectCopies),
        DirectPath::Unknown | DirectPath::Moves => None,
    }
}

/// On these filesystems `copy_file_range` shares extents where it can (`remap_file_range`).
pub(crate) fn shares_by_copy_file_range(filesystem: Filesystem) -> bool {
    filesystem == Filesystem::XFS || filesystem == Filesystem::BTRFS
}

/// FIEMAP shows whether extents are shared, also through overlayfs, which asks its upper filesystem (`ovl_fiemap`).
/// Others do not say, as a server's clones on CIFS.
pub(crate) fn extents_show_sharing(filesystem: Filesystem) -> bool {
    shares_by_copy_file_range(filesystem) || filesystem == Filesystem::OVERLAYFS
}

/// Whether a flush of the directory also keeps how many names its new files have. Others may do that as well, but are not
/// known for it.
pub(crate) fn logs_links(filesystem: Filesystem, has_journal: impl FnOnce() -> bool) -> bool {
    match filesystem {
        Filesystem::EXT4 => has_journal(),
        Filesystem::XFS | Filesystem::BTRFS | Filesystem::F2FS | Filesystem::ZFS => true,
        other => other.is_memory(),
    }
}

/// Excludes mechanisms for sources without a known size: those are read, unless the options name copies
/// in the kernel.
fn to_the_end(facts: &CopyFacts, mechanism: Mechanism) -> Option<RefusalReason> {
    let asked_for = facts.require == Require::NoUserCopy || matches!(facts.allow, Allow::Only(_));
    let able = matches!(mechanism, Mechanism::Sendfile | Mechanism::Splice);
    (!asked_for || !able).then_some(RefusalReason::SizeUnknown)
}

/// Returns why `used` was preferred to `mechanism`, which would have copied less.
fn outranked(facts: &CopyFacts, mechanism: Mechanism, used: Mechanism) -> Option<RefusalReason> {
    let place = |m| order(facts).position(|o| o == m);
    if place(mechanism) < place(used) {
        return None;
    }
    let tuning = &facts.tuning;
    Some(match mechanism {
        direct if direct.is_direct() && facts.prefer == Prefer::CpuTime => {
            RefusalReason::TooSmallForPinning(tuning.direct_cpu_min)
        }
        direct if direct.is_direct() && !facts.durable => RefusalReason::SlowerUnlessDurable,
        _ if is_small(facts) => RefusalReason::TooSmallForSetup(tuning.zero_copy_min),
        Mechanism::CopyFileRange | Mechanism::Sendfile if used == Mechanism::Splice => {
            RefusalReason::SmallerPipe
        }
        _ => RefusalReason::SlowerByTheClock,
    })
}

/// Meaning of an error number from a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// Repeat the same call.
    Retry,
    /// This mechanism does not work; the next one continues where the bytes stopped.
    Unsupported,
    /// A real error.
    Failed,
}

/// Classifies `errno`, which `mechanism` met after it had moved `moved_bytes`.
pub(crate) fn classify(mechanism: Mechanism, errno: Errno, moved_bytes: u64) -> ErrorClass {
    match errno {
        Errno::EINTR => ErrorClass::Retry,
        _ if mechanism == Mechanism::ReadWrite => ErrorClass::Failed,
        // No such call or no such combination: kernel < 4.5 or gVisor; another superblock; no
        // implementation in this filesystem; a combination it does not take (O_APPEND and sendfile,
        // nodatacow and FICLONE, character devices); no such ioctl.
        Errno::ENOSYS | Errno::EXDEV | Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOTTY => {
            ErrorClass::Unsupported
        }
        // seccomp profiles and immutable files; O_APPEND destinations and some FUSE servers; active
        // swap files; sizes that this call cannot express; fuse-overlayfs on a 0444 destination.
        Errno::EPERM | Errno::EBADF | Errno::ETXTBSY | Errno::EOVERFLOW | Errno::EACCES => {
            ErrorClass::Unsupported
        }
        // CIFS servers answer like this to calls they do not support. A real EIO comes again from
        // the next mechanism, and `read_write` reports it.
        Errno::EIO | Errno::ENOENT if moved_bytes == 0 && !mechanism.is_direct() => {
            ErrorClass::Unsupported
        }
        // Direct I/O pins pages: too many of them, or pages that are no memory.
        Errno::EFAULT | Errno::ENOMEM | Errno::EAGAIN if mechanism.is_direct() => {
            ErrorClass::Unsupported
        }
        _ => ErrorClass::Failed,
    }
}

/// Explains why a mechanism failed with this error number.
pub(crate) fn explain(mechanism: Mechanism, errno: Errno, facts: &CopyFacts) -> Obstacle {
    match (mechanism, errno) {
        // io_uring is switched off, filtered or unknown, or too little memory may be locked.
        (
            Mechanism::DirectRing,
            Errno::ENOSYS | Errno::EPERM | Errno::EACCES | Errno::ENOMEM | Errno::EAGAIN,
        ) => Obstacle::NoRing,
        (_, Errno::EXDEV) => Obstacle::OtherFilesystem,
        (Mechanism::Reflink, Errno::EOPNOTSUPP | Errno::ENOTTY) => {
            Obstacle::NoReflinks(facts.destination)
        }
        (Mechanism::Reflink, Errno::EINVAL) => Obstacle::ExtentsNotShared,
        (_, Errno::ENOSYS) => Obstacle::UnknownCall,
        (_, Errno::EPERM) => Obstacle::Forbidden,
        (_, Errno::ETXTBSY) => Obstacle::SwapFile,
        (_, Errno::EBADF) => Obstacle::NotWritable,
        (Mechanism::Direct, Errno::EFAULT | Errno::ENOMEM) => Obstacle::NotPinned,
        (_, Errno::EIO | Errno::ENOENT) => Obstacle::NotOnServer,
        _ => Obstacle::NotSupported,
    }
}

/// Returns the refusal of a mechanism that failed with this error number after it had moved some
/// bytes; `None`: it had moved no more since.
pub(crate) fn stopped(
    mechanism: Mechanism,
    errno: Option<Errno>,
    after_bytes: u64,
    facts: &CopyFacts,
) -> Refusal {
    let obstacle = errno.map_or(Obstacle::MovedNothing, |errno| explain(mechanism, errno, facts));
    let reason = RefusalReason::StoppedBy { obstacle, after_bytes };
    Refusal { mechanism, reason, errno }
}

#[cfg(test)]
mod allocations;
#[cfg(test)]
pub(crate) mod tests;
