//! Collects the facts that the plan depends on.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};

use super::context::CopyContext;
use super::destination::Destination;
use super::mechanism::{Setting, Tail};
use super::options::{Allow, Cache, CopyOptions, Require, Transform};
use super::plan::{
    self, Attempted, COLD_MATTERS_MIN_BYTES, CopyFacts, DIRECT_COLD_MIN_BYTES, DirectPath, PlanStep,
};
use super::source::Source;
use super::sparse::{self, Segment};
use uncopy_core::{Errno, Mechanism, Reason};
use uncopy_os::capabilities::{Device, DeviceKind, Filesystem};
use uncopy_os::file::{self, Stat};
use uncopy_os::probe;

/// Below this size no file fills what the kernel lets lie dirty.
const BUDGET_MATTERS_BYTES: u64 = 256 << 20;

/// CopyFacts about this pair of files that cost little to find out: all that a reflink needs.
pub(crate) fn gather(
    source: &Source<'_>,
    destination: &Destination<'_>,
    written: BorrowedFd<'_>,
    options: &CopyOptions,
) -> CopyFacts {
    CopyFacts {
        data_bytes: source.size().unwrap_or(0).min(source.stat.blocks.saturating_mul(512)),
        // To ask is to move the position, from which a stream is copied (lseek(2)).
        has_holes: !destination.is_stream() && has_holes(source),
        destination_is_stream: destination.is_stream(),
        in_place: options.writes_into_existing() && destination.found.is_some(),
        is_elsewhere: source.there().is_some(),
        ..of_dense(source.size(), source.filesystem, destination.filesystem_of(written), options)
    }
}

/// CopyFacts about a file without holes that goes to a new file.
pub(crate) fn of_dense(
    size: Option<u64>,
    source: Filesystem,
    destination: Filesystem,
    options: &CopyOptions,
) -> CopyFacts {
    CopyFacts {
        size,
        data_bytes: size.unwrap_or(0),
        has_holes: false,
        is_elsewhere: false,
        source,
        destination,
        destination_is_stream: false,
        direct: DirectPath::None,
        direct_reads: false,
        source_is_cold: false,
        has_second_thread: false,
        dirty_budget_bytes: u64::MAX,
        transforms: false,
        hashes: false,
        digests: options.digest.is_some(),
        in_place: false,
        durable: options.durable,
        allow: options.allow,
        require: options.require,
        prefer: options.prefer,
        sparse: options.sparse,
        cache: options.cache,
        tuning: options.tuning,
    }
}

/// Whether files between the two filesystems are expected to share their blocks with their copies
/// one after the other, whoever asks for it: to share on btrfs is to write to its one b-tree.
pub(crate) fn are_shared_in_turn(
    source: Filesystem,
    destination: Filesystem,
    options: &CopyOptions,
) -> bool {
    let facts = of_dense(Some(1), source, destination, options);
    source == destination
        && destination == Filesystem::BTRFS
        && options.transform == Transform::None
        && plan::next(&facts, &[]) == PlanStep::Try(Mechanism::Reflink)
}

/// A place for new files, as far as it is known without writing.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) filesystem: Filesystem,
    pub(crate) device: (u32, u32),
    /// Whether files of the source's directory have its device.
    pub(crate) is_of_source: bool,
}

impl Target {
    /// Returns what stops a mechanism for certain, whatever the file is like.
    fn stops(self, source: &Source<'_>, mechanism: Mechanism) -> Option<Errno> {
        let is_elsewhere = self.is_another(source.filesystem);
        match mechanism {
            Mechanism::Reflink if is_elsewhere => Some(Errno::EXDEV),
            Mechanism::Reflink if self.filesystem.copies_by_splice() => Some(Errno::EOPNOTSUPP),
            Mechanism::CopyFileRange if is_elsewhere && !probe::copies_between_filesystems() => {
                Some(Errno::EXDEV)
            }
            _ => None,
        }
    }

    /// Whether it is another filesystem for certain. One can have several devices (btrfs, overlayfs), and a server several
    /// mounts.
    fn is_another(self, source: Filesystem) -> bool {
        let has_one_device = match self.filesystem {
            Filesystem::XFS | Filesystem::F2FS | Filesystem::VFAT | Filesystem::EXFAT => true,
            other => other.copies_by_splice(),
        };
        match source == self.filesystem {
            true => has_one_device && !self.is_of_source,
            false => !source.is_network() || !self.filesystem.is_network(),
        }
    }

    /// Returns the effect of direct writes: that on the source, on one filesystem. `None`: it is not known.
    fn direct(self, source: &Source<'_>) -> Option<DirectPath> {
        let (filesystem, device) = (self.filesystem, self.device);
        if self.is_of_source {
            return Some(direct_path(&source.stat, filesystem));
        }
        match filesystem {
            Filesystem::EXT4 | Filesystem::XFS if probe::shows_direct_alignment() => {
                Some(direct_path_to(device))
            }
            _ if filesystem.is_memory() => Some(DirectPath::None),
            _ => None,
        }
    }
}

/// The mechanism that a file would go by to a new one, as far as is known without writing:
/// whether extents can be shared is known by trying alone, and guessed here by the filesystem.
/// `None`: it has no bytes to move, or it is not known.
///
/// # Errors
/// The options leave no mechanism that could work.
pub(crate) fn foreseen(
    source: &Source<'_>,
    target: Target,
    options: &CopyOptions,
) -> std::result::Result<Option<Mechanism>, Reason> {
    let has_no_bytes = source.has_reliable_size() && (source.stat.size == 0 || is_hole(source));
    if has_no_bytes || options.attributes_only {
        return Ok(None);
    }
    let destination = target.filesystem;
    let mut facts = CopyFacts {
        is_elsewhere: source.there().is_some(),
        data_bytes: source.size().unwrap_or(0).min(source.stat.blocks.saturating_mul(512)),
        has_holes: has_holes(source),
        ..of_dense(source.size(), source.filesystem, destination, options)
    };
    let direct = target.direct(source);
    let context = CopyContext::new();
    refine_by(&mut facts, source, || direct.unwrap_or(DirectPath::None), &context);
    let tried = |mechanism, errno| Attempted { mechanism, errno, moved_bytes: 0 };
    let stops =
        |mechanism| target.stops(source, mechanism).map(|errno| tried(mechanism, Some(errno)));
    let mut attempted: Vec<Attempted> = plan::by_cost(&facts).filter_map(stops).collect();
    // Whatever is not known may work.
    let hopeful = CopyFacts { direct: direct.unwrap_or(DirectPath::Moves), ..facts.clone() };
    if plan::next(&hopeful, &attempted) == PlanStep::GiveUp {
        let refused = attempted.iter().filter(|tried| plan::is_allowed(&facts, tried.mechanism));
        let refused = refused.map(|tried| plan::stopped(tried.mechanism, tried.errno, 0, &facts));
        return Err(plan::no_mechanism(&facts, &refused.collect::<Vec<_>>()));
    }
    let shares = target.is_of_source && plan::shares_by_copy_file_range(destination);
    attempted.extend((!shares).then(|| tried(Mechanism::Reflink, None)));
    let may_be_another = !target.is_of_source && !target.is_another(source.filesystem);
    let step = plan::next(&facts, &attempted);
    if plan::next(&hopeful, &attempted) != step {
        return Ok(None);
    }
    Ok(match step {
        PlanStep::Try(Mechanism::CopyFileRange) if may_be_another => None,
        PlanStep::Try(mechanism) => Some(mechanism),
        PlanStep::GiveUp => None,
    })
}

/// Adds what is looked up in `/sys` and `/proc`, which takes longer than to reflink a file.
pub(crate) fn refine(
    facts: &mut CopyFacts,
    source: &Source<'_>,
    staging: BorrowedFd<'_>,
    context: &CopyContext<'_>,
) {
    let filesystem = facts.destination;
    let direct =
        || file::stat(staging).map_or(DirectPath::None, |stat| direct_path(&stat, filesystem));
    refine_by(facts, source, direct, context);
}

/// [`refine`] for a destination with this effect of direct writes.
fn refine_by(
    facts: &mut CopyFacts,
    source: &Source<'_>,
    direct: impl FnOnce() -> DirectPath,
    context: &CopyContext<'_>,
) {
    let size = facts.size.unwrap_or(0);
    let is_named = matches!(facts.allow, Allow::Only(only) if only.is_direct());
    if size >= facts.tuning.direct_min.bytes || facts.require.may_move() || is_named {
        facts.direct = direct();
        // Mapped pages are moved whatever the source lies on, and reads past the cache by a disk.
        let can_read = source.stat.direct.is_some()
            && (!facts.require.may_move() || is_disk(source.stat.device));
        facts.direct_reads = can_read
            && match facts.allow {
                Allow::Only(Mechanism::DirectRing) => true,
                Allow::Only(only) if only != Mechanism::Direct => false,
                _ => facts.cache == Cache::Skip && is_cold(source),
            };
    }
    if (COLD_MATTERS_MIN_BYTES..DIRECT_COLD_MIN_BYTES).contains(&size) {
        facts.source_is_cold = is_cold(source);
    }
    if plan::may_gain_by_ranges_from_memory(facts) {
        facts.has_second_thread = context.throttle.is_none() && context.has_spare_thread();
    }
    if size >= BUDGET_MATTERS_BYTES {
        facts.dirty_budget_bytes = dirty_budget().unwrap_or(u64::MAX);
    }
}

/// Whether there is no data at all.
fn is_hole(source: &Source<'_>) -> bool {
    let size = source.stat.size;
    sparse::may_have_holes(&source.stat)
        && source.file.segment(0, size) == Segment::Hole { start: 0, end: size }
}

fn has_holes(source: &Source<'_>) -> bool {
    let Some(size) = source.size() else { return false };
    let Some(fd) = source.here() else {
        // Which they are is asked when its bytes are.
        return sparse::may_have_holes(&source.stat);
    };
    // On ZFS it takes a flush to know.
    let may_hide = || source.filesystem != Filesystem::ZFS && sparse::may_hide_holes(&source.stat);
    if !sparse::may_have_holes(&source.stat) && !may_hide() {
        return false;
    }
    if source.filesystem == Filesystem::ZFS {
        // Dirty data of OpenZFS below 2.1.14 and 2.2.2 may be reported as a hole.
        let _ = file::sync_data(fd);
    }
    sparse::segment(&fd, 0, size) != Segment::Data { start: 0, end: size }
}

pub(crate) fn direct_path(written: &Stat, filesystem: Filesystem) -> DirectPath {
    if written.direct.is_none() {
        // btrfs and tmpfs take the flag, give no alignment, and copy.
        return DirectPath::None;
    }
    if filesystem.is_memory() || filesystem == Filesystem::BTRFS {
        return DirectPath::Copies;
    }
    direct_path_to(written.device)
}

fn direct_path_to(device: (u32, u32)) -> DirectPath {
    if is_disk(device) { DirectPath::Moves } else { DirectPath::Unknown }
}

fn is_disk(device: (u32, u32)) -> bool {
    let (major, minor) = device;
    Device::with_number(major, minor).kind == DeviceKind::Disk
}

/// Returns the facts that a mover needs; called only when one is set up.
pub(crate) fn setting(
    facts: &CopyFacts,
    source: &Source<'_>,
    staging: BorrowedFd<'_>,
    mechanism: Mechanism,
) -> Setting {
    let written = mechanism.is_direct().then(|| file::stat(staging.as_fd()).ok()).flatten();
    let reads = mechanism == Mechanism::DirectRing;
    Setting {
        source_align: source.stat.direct.filter(|_| reads),
        destination_align: written.and_then(|s| s.direct),
        source_moves: reads && is_disk(source.stat.device),
        tail: match facts.require {
            Require::ZeroCopy | Require::Moved => Tail::CutOff,
            Require::NoUserCopy => Tail::Sent,
            _ => Tail::Written,
        },
    }
}

/// Most of the source is not in the page cache, as far as samples show. `false` where the
/// kernel does not say, and for files in memory: each of their pages would be looked at.
fn is_cold(source: &Source<'_>) -> bool {
    if source.here().is_none() || source.filesystem.is_memory() {
        return false;
    }
    const SAMPLE_BYTES: u64 = 1 << 20;
    let size = source.stat.size;
    let samples = size.div_ceil(SAMPLE_BYTES).clamp(1, 16);
    let length = SAMPLE_BYTES.min(size).max(1);
    let last = size.saturating_sub(length);
    let cached: u64 = (0..samples)
        .map(|i| source.cached_bytes(last / samples * i, length).unwrap_or(length))
        .sum();
    cached < samples * length / 2
}

/// Bytes that may lie dirty before the kernel makes writers wait for the device: half of
/// `vm.dirty_ratio` of the available memory, where throttling begins
/// (`Documentation/admin-guide/sysctl/vm.rst`, `mm/page-writeback.c`).
fn dirty_budget() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = match number("/proc/sys/vm/dirty_bytes")? {
        0 => number("/proc/sys/vm/dirty_ratio")? * available_memory()? / 100,
        bytes => bytes,
    };
    Some(limit / 2)
}

fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
