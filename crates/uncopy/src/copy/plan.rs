//! Which mechanism comes next: pure functions of facts.
//!
//! There is no system call here, so that tables of facts and error numbers test every decision.

use super::experience::Alike;
use super::options::{Allow, Cache, Prefer, Sparse};
use super::tuning::{Origin, Threshold, Tuning};
use crate::capabilities::Filesystem;
use crate::error::{Errno, Reason};
use crate::receipt::{Mechanism, Refusal};

/// Everything the choice depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Bytes to copy; `None`: not known before the end is met (pseudo files, pipes, devices).
    pub(crate) size: Option<u64>,
    /// Bytes of it that are no holes, as far as its blocks tell.
    pub(crate) data_bytes: u64,
    /// The source has holes.
    pub(crate) has_holes: bool,
    pub(crate) source: Filesystem,
    pub(crate) destination: Filesystem,
    /// The destination is no regular file: only `write` makes sense.
    pub(crate) destination_is_stream: bool,
    /// What `O_DIRECT` would do on the destination.
    pub(crate) direct: DirectPath,
    /// Read with `O_DIRECT` too: the source is not in the page cache and is to stay out of it.
    /// Elsewhere its mapped pages are quicker also when they are still to be read, because the
    /// kernel reads ahead of them.
    pub(crate) direct_reads: bool,
    /// Most of the source is still to be read from its device. Looked up only where it matters.
    pub(crate) source_is_cold: bool,
    /// Bytes that the kernel lets lie dirty before it makes writers wait.
    pub(crate) dirty_budget_bytes: u64,
    /// The bytes are changed on their way (compression).
    pub(crate) transforms: bool,
    /// The bytes are hashed on their way: their source cannot be read again to verify them.
    pub(crate) hashes: bool,
    pub(crate) in_place: bool,
    pub(crate) durable: bool,
    pub(crate) allow: Allow,
    pub(crate) prefer: Prefer,
    pub(crate) sparse: Sparse,
    pub(crate) cache: Cache,
    pub(crate) tuning: Tuning,
}

impl Facts {
    /// The files of a job that this one is compared with.
    pub(crate) fn alike(&self, size: u64) -> Alike {
        Alike::new((self.source, self.destination), self.durable, size)
    }
}

/// What `O_DIRECT` writes to the destination are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectPath {
    /// The filesystem gives no alignment for them (`STATX_DIOALIGN`).
    None,
    /// They are taken, and somewhere below the bytes are copied all the same.
    Copies,
    /// They are taken; whether a device below copies is not known (loop, dm, md, network).
    Unknown,
    /// A disk reads the pages themselves.
    Moves,
}

/// As [`Tuning::direct_cpu_min`], for a source that is still to be read: the kernel reads ahead into few large folios,
/// which are cheap to pin, only in a longer file.
pub(crate) const DIRECT_SAVES_COLD_MIN_BYTES: u64 = 64 << 20;

/// From this size on a copy in small pieces, as the kernel's own loop makes them, overlaps with the
/// reads of a source that is still to be read; two such pieces.
pub(crate) const COLD_MATTERS_MIN_BYTES: u64 = 128 << 10;

/// From this size on blocks are reserved before they are written.
pub(crate) const RESERVE_MIN_BYTES: u64 = 128 << 10;

/// Smaller pieces are moved by one thread: making another takes its time.
pub(crate) const RANGES_MIN_BYTES: u64 = 4 << 20;

/// Two threads move a piece of this length clearly quicker than one. On ext4 and XFS one reads and
/// looks for zeros while the other writes; the kernel's own copies hold the lock of the destination
/// all the time, and one direct write hands the device all it can take (`docs/copy.md`).
pub(crate) fn gains_by_ranges(facts: &Facts, mechanism: Mechanism, piece_bytes: u64) -> bool {
    mechanism == Mechanism::ReadWrite
        && [Filesystem::EXT4, Filesystem::XFS].contains(&facts.destination)
        && !facts.source.is_network()
        && !facts.source.is_user()
        && facts.prefer == Prefer::WallTime
        // A mixture of old and new is to have as few seams as may be.
        && !facts.in_place
        && piece_bytes >= RANGES_MIN_BYTES
}

/// A mechanism that has been tried, and what stopped it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempted {
    pub(crate) mechanism: Mechanism,
    pub(crate) errno: Option<Errno>,
    pub(crate) moved_bytes: u64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Try(Mechanism),
    /// Nothing is left that the options allow.
    GiveUp,
}

/// The next mechanism: the first in the order of [`order`] that has not been stopped yet.
pub(crate) fn next(facts: &Facts, attempted: &[Attempted]) -> Step {
    order(facts)
        .into_iter()
        .find(|m| excluded(facts, *m).is_none() && !attempted.iter().any(|a| a.mechanism == *m))
        .map_or(Step::GiveUp, Step::Try)
}

/// Mechanisms between which only the clock can decide: buffered copies that rank next to each
/// other, from the next one on.
pub(crate) fn rivals(facts: &Facts, attempted: &[Attempted]) -> Vec<Mechanism> {
    use Mechanism::{CopyFileRange, ReadWrite, Splice};
    order(facts)
        .into_iter()
        .filter(|m| excluded(facts, *m).is_none() && !attempted.iter().any(|a| a.mechanism == *m))
        .take_while(|m| *m != Mechanism::Direct)
        .filter(|m| [CopyFileRange, Splice, ReadWrite].contains(m))
        .collect()
}

/// Ways that files of a job can be compared by, the preferred first: what wall time alone decides
/// between. Direct writes count where they must reach the device anyway.
pub(crate) fn comparable(facts: &Facts, attempted: &[Attempted]) -> Vec<Mechanism> {
    let by_time = facts.allow == Allow::Any
        && facts.prefer == Prefer::WallTime
        && facts.sparse != Sparse::Always
        && !facts.transforms
        && facts.size.is_some();
    if !by_time || is_small(facts) {
        return Vec::new();
    }
    let mut ways = order(facts).to_vec();
    ways.retain(|m| {
        ![Mechanism::Reflink, Mechanism::Sendfile].contains(m)
            && excluded(facts, *m).is_none()
            && !attempted.iter().any(|a| a.mechanism == *m)
    });
    if ways.last() == Some(&Mechanism::Direct) {
        ways.pop();
    }
    ways
}

/// Thresholds that are not built in, and without which another mechanism would be the first.
pub(crate) fn decisive(facts: &Facts, attempted: &[Attempted]) -> Vec<(&'static str, Threshold)> {
    let (tuning, usual) = (facts.tuning, Tuning::BUILT_IN);
    let rows = [
        (
            "zero-copy-min",
            tuning.zero_copy_min,
            Tuning { zero_copy_min: usual.zero_copy_min, ..tuning },
        ),
        ("direct-min", tuning.direct_min, Tuning { direct_min: usual.direct_min, ..tuning }),
        (
            "direct-cpu-min",
            tuning.direct_cpu_min,
            Tuning { direct_cpu_min: usual.direct_cpu_min, ..tuning },
        ),
    ];
    let rows = rows.into_iter().filter(|(_, threshold, _)| threshold.origin != Origin::BuiltIn);
    rows.filter(|(_, _, without)| {
        next(facts, attempted) != next(&Facts { tuning: *without, ..facts.clone() }, attempted)
    })
    .map(|(name, threshold, _)| (name, threshold))
    .collect()
}

/// A threshold that decided, for people: `direct-min 256 KiB (tuned)`.
pub(crate) fn told((name, threshold): (&'static str, Threshold)) -> String {
    let origin = if threshold.origin == Origin::Tuned { "tuned" } else { "given" };
    format!("{name} {threshold} ({origin})")
}

/// All mechanisms, the one that touches the bytes least first. Where `copy_file_range` may share, it
/// stands before direct writes.
pub(crate) fn by_cost(facts: &Facts) -> [Mechanism; 6] {
    use Mechanism::{CopyFileRange, Direct, ReadWrite, Reflink, Sendfile, Splice};
    if facts.destination.copies_by_splice() {
        [Reflink, Direct, CopyFileRange, Sendfile, Splice, ReadWrite]
    } else {
        [Reflink, CopyFileRange, Direct, Sendfile, Splice, ReadWrite]
    }
}

/// The mechanism among `used` that touches the bytes most.
pub(crate) fn costliest(facts: &Facts, used: impl Iterator<Item = Mechanism>) -> Option<Mechanism> {
    let order = by_cost(facts);
    used.max_by_key(|m| order.iter().position(|o| o == m))
}

/// Orders refusals as [`by_cost`] does.
pub(crate) fn sort(facts: &Facts, refusals: &mut [Refusal]) {
    let order = by_cost(facts);
    refusals.sort_by_key(|r| order.iter().position(|o| *o == r.mechanism));
}

/// Why every mechanism that stands before `used` in cost was not used, before anything was tried.
pub(crate) fn refusals(facts: &Facts, used: Option<Mechanism>) -> Vec<Refusal> {
    by_cost(facts)
        .into_iter()
        .take_while(|m| used != Some(*m))
        .filter_map(|mechanism| {
            let reason = excluded(facts, mechanism)
                .or_else(|| used.and_then(|used| outranked(facts, mechanism, used)))?;
            Some(Refusal { mechanism, reason, errno: None })
        })
        .collect()
}

/// Why nothing is left: what the kernel refused, and what was ruled out before.
pub(crate) fn no_mechanism(facts: &Facts, refused: &[Refusal]) -> Reason {
    let mut all = refused.to_vec();
    all.extend(
        refusals(facts, None)
            .into_iter()
            .filter(|r| !refused.iter().any(|known| known.mechanism == r.mechanism)),
    );
    sort(facts, &mut all);
    Reason::NoMechanism { refusals: all }
}

/// All mechanisms, the preferred first.
fn order(facts: &Facts) -> [Mechanism; 6] {
    use Mechanism::{CopyFileRange, Direct, ReadWrite, Reflink, Sendfile, Splice};
    let mut order = match facts.prefer {
        Prefer::CpuTime if direct_saves_cpu_time(facts) => {
            [Reflink, Direct, CopyFileRange, Sendfile, Splice, ReadWrite]
        }
        Prefer::WallTime if direct_is_faster(facts) => {
            [Reflink, Direct, CopyFileRange, Splice, Sendfile, ReadWrite]
        }
        // The kernel's own loop behind copy_file_range splices too, through a smaller pipe.
        _ if facts.destination.copies_by_splice() && !facts.source_is_cold => {
            [Reflink, Splice, CopyFileRange, Sendfile, ReadWrite, Direct]
        }
        _ => [Reflink, CopyFileRange, Splice, Sendfile, ReadWrite, Direct],
    };
    if is_small(facts) && facts.allow == Allow::Any {
        // One read and one write: nothing that needs setting up is quicker, but for sharing.
        let place = order.iter().position(|m| *m == ReadWrite).unwrap_or(0);
        order[1..=place].rotate_right(1);
    }
    order
}

/// One `read` and one `write` are the quickest copy.
fn is_small(facts: &Facts) -> bool {
    facts.size.is_some_and(|size| size < facts.tuning.small_bytes())
}

/// Direct writes cost the least processor time where there is enough to write.
fn direct_saves_cpu_time(facts: &Facts) -> bool {
    let from = match facts.source_is_cold {
        true => facts.tuning.direct_cpu_min.bytes.max(DIRECT_SAVES_COLD_MIN_BYTES),
        false => facts.tuning.direct_cpu_min.bytes,
    };
    facts.allow == Allow::ZeroCopy || facts.data_bytes >= from
}

/// Direct writes win by the clock where the bytes must reach the device anyway.
fn direct_is_faster(facts: &Facts) -> bool {
    let is_beyond_budget = facts.data_bytes > facts.dirty_budget_bytes;
    facts.durable || facts.cache == Cache::Skip || is_beyond_budget
}

/// Why the options or the kind of file rule a mechanism out.
fn excluded(facts: &Facts, mechanism: Mechanism) -> Option<String> {
    if mechanism == Mechanism::ReadWrite {
        return match facts.allow {
            Allow::Any | Allow::ReadWrite | Allow::Only(Mechanism::ReadWrite) => None,
            _ => Some("the options do not allow copying through the program".into()),
        };
    }
    by_options(facts, mechanism).map(Into::into).or_else(|| by_file(facts, mechanism))
}

fn by_options(facts: &Facts, mechanism: Mechanism) -> Option<&'static str> {
    use Mechanism::{CopyFileRange, Direct, Reflink, Sendfile, Splice};
    match (facts.allow, mechanism) {
        (Allow::ReadWrite, _) => Some("--no-zero-copy"),
        (Allow::Only(only), other) if only != other => Some("--method names another"),
        (Allow::ZeroCopy, Sendfile | Splice) => Some("--require-zero-copy: it copies"),
        (Allow::ZeroCopy, CopyFileRange) if !shares_by_copy_file_range(facts.destination) => {
            Some("--require-zero-copy: it copies on this filesystem")
        }
        (Allow::ZeroCopy, Direct) if facts.direct != DirectPath::Moves => {
            Some("--require-zero-copy: O_DIRECT is not known to keep from copying here")
        }
        (_, Direct) if facts.cache == Cache::Keep => {
            Some("--cache=keep: it bypasses the page cache")
        }
        _ if facts.transforms => Some("the bytes are transformed on their way"),
        _ if facts.hashes => Some("the bytes are hashed on their way: they come only once"),
        _ if facts.sparse == Sparse::Always => Some("--sparse=always looks at every byte"),
        (_, Reflink | CopyFileRange) if facts.sparse == Sparse::Never && facts.has_holes => {
            Some("--sparse=never: it may keep holes")
        }
        _ => None,
    }
}

fn by_file(facts: &Facts, mechanism: Mechanism) -> Option<String> {
    if facts.destination_is_stream && to_the_end(facts, mechanism).is_some() {
        return Some("the destination is not a regular file".into());
    }
    let Some(size) = facts.size else {
        return to_the_end(facts, mechanism).map(Into::into);
    };
    if mechanism != Mechanism::Direct {
        return (size == 0).then(|| "there is nothing to copy".into());
    }
    let direct_min = facts.tuning.direct_min;
    match facts.allow {
        Allow::Only(Mechanism::Direct) | Allow::ZeroCopy => {}
        _ if facts.source.is_network() || facts.source.is_user() => {}
        _ if size < direct_min.bytes => {
            let below = direct_min.reason("direct-min");
            return Some(format!("too small to pay for O_DIRECT{below}"));
        }
        _ => {}
    }
    by_path(facts).map(Into::into)
}

/// Why direct writes do not lead from this source to this destination.
fn by_path(facts: &Facts) -> Option<&'static str> {
    if facts.source.is_network() || facts.source.is_user() {
        return Some("pages of a network or FUSE source are not mapped");
    }
    match facts.direct {
        _ if facts.allow == Allow::Only(Mechanism::Direct) => None,
        DirectPath::None => Some("the destination's filesystem gives no alignment for O_DIRECT"),
        DirectPath::Copies => Some("the destination's filesystem copies in spite of O_DIRECT"),
        DirectPath::Unknown | DirectPath::Moves => None,
    }
}

/// On these filesystems `copy_file_range` shares extents where it can (`remap_file_range`).
pub(crate) fn shares_by_copy_file_range(filesystem: Filesystem) -> bool {
    filesystem == Filesystem::XFS || filesystem == Filesystem::BTRFS
}

/// What is read to its end is read, unless the options ask for the kernel's own copies.
fn to_the_end(facts: &Facts, mechanism: Mechanism) -> Option<&'static str> {
    let asked_for = matches!(facts.allow, Allow::NoUserCopy | Allow::Only(_));
    let able = matches!(mechanism, Mechanism::Sendfile | Mechanism::Splice);
    (!asked_for || !able).then_some("the size of the source is not known before its end")
}

/// Why `used` went before `mechanism`, which would have copied less.
fn outranked(facts: &Facts, mechanism: Mechanism, used: Mechanism) -> Option<String> {
    let order = order(facts);
    let place = |m| order.iter().position(|o| *o == m);
    if place(mechanism) < place(used) {
        return None;
    }
    let (small, pinned) = (facts.tuning.zero_copy_min, facts.tuning.direct_cpu_min);
    let text = match mechanism {
        Mechanism::Direct if facts.prefer == Prefer::CpuTime => {
            let below = pinned.reason("direct-cpu-min");
            let text = "the file is so small that pinning its pages costs more than copying them";
            return Some(format!("{text}{below}"));
        }
        Mechanism::Direct => {
            "slower by the clock unless the copy must be durable; --prefer=cpu chooses it"
        }
        _ if is_small(facts) => {
            let below = small.reason("zero-copy-min");
            let text = "the file is so small that one read and one write are quicker";
            return Some(format!("{text}{below}"));
        }
        Mechanism::CopyFileRange => {
            "on this filesystem it is the kernel's own splice loop, with a smaller pipe"
        }
        _ => "slower by the clock where others work",
    };
    Some(text.into())
}

/// What an error number from a mechanism means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The same call again.
    Retry,
    /// Not this mechanism: the next one goes on where the bytes stopped.
    Unsupported,
    /// A real error.
    Failed,
}

/// Classifies `errno`, which `mechanism` met after it had moved `moved_bytes`.
pub(crate) fn classify(mechanism: Mechanism, errno: Errno, moved_bytes: u64) -> Verdict {
    match errno {
        Errno::EINTR => Verdict::Retry,
        _ if mechanism == Mechanism::ReadWrite => Verdict::Failed,
        // No such call or no such combination: kernel < 4.5 or gVisor; another superblock; no
        // implementation in this filesystem; a combination it does not take (O_APPEND and sendfile,
        // nodatacow and FICLONE, character devices); no such ioctl.
        Errno::ENOSYS | Errno::EXDEV | Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOTTY => {
            Verdict::Unsupported
        }
        // seccomp profiles and immutable files; O_APPEND destinations and some FUSE servers; active
        // swap files; sizes that this call cannot express; fuse-overlayfs on a 0444 destination.
        Errno::EPERM | Errno::EBADF | Errno::ETXTBSY | Errno::EOVERFLOW | Errno::EACCES => {
            Verdict::Unsupported
        }
        // CIFS servers answer like this to calls they do not support. A real EIO comes again from
        // the next mechanism, and `read_write` reports it.
        Errno::EIO | Errno::ENOENT if moved_bytes == 0 && mechanism != Mechanism::Direct => {
            Verdict::Unsupported
        }
        // Direct I/O pins pages: too many of them, or pages that are no memory.
        Errno::EFAULT | Errno::ENOMEM | Errno::EAGAIN if mechanism == Mechanism::Direct => {
            Verdict::Unsupported
        }
        _ => Verdict::Failed,
    }
}

/// Why a mechanism stopped with this error number, for people.
pub(crate) fn explain(mechanism: Mechanism, errno: Errno, facts: &Facts) -> String {
    match (mechanism, errno) {
        (_, Errno::EXDEV) => "source and destination lie on different filesystems".into(),
        (Mechanism::Reflink, Errno::EOPNOTSUPP | Errno::ENOTTY) => {
            format!("{} has no reflinks, or not for this file", facts.destination)
        }
        (Mechanism::Reflink, Errno::EINVAL) => {
            "extents of these two files cannot be shared (nodatacow, alignment, encryption)".into()
        }
        (_, Errno::ENOSYS) => "this kernel, or a filter before it, does not know the call".into(),
        (_, Errno::EPERM) => "forbidden (a seccomp filter or an immutable file)".into(),
        (_, Errno::ETXTBSY) => "the source is an active swap file".into(),
        (_, Errno::EBADF) => "the destination is open for appending, or its server refuses".into(),
        (Mechanism::Direct, Errno::EFAULT | Errno::ENOMEM) => {
            "the pages cannot be pinned for the device".into()
        }
        (_, Errno::EIO | Errno::ENOENT) => "the server does not support the call".into(),
        _ => "the kernel does not support it for these files".into(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
