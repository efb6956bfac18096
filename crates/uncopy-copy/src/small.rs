//! Copies small files of a tree by one read and one write, without the setup that a large file
//! needs.
//!
//! Unusual cases (a short read, a source that changes, an error) are left to the general path for
//! single files, which starts again with an empty file.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::facts;
use super::mechanism::{Ends, reflink};
use super::options::{Allow, Cache, CopyOptions, Require, Sparse};
use super::peer_file::PeerFile;
use super::plan::{self, Attempted, CopyFacts, ErrorClass, PlanStep};
use super::source;
use super::sparse;
use super::watch::{self, Begin, Watch};
use uncopy_core::Errno;
use uncopy_core::{Cost, Decision, MappedWrites, Mechanism, Refusal, Unseen};
use uncopy_os::capabilities::Filesystem;
use uncopy_os::file::{self, Stat};
use uncopy_os::{clock, transfer};

/// Buffer size: the largest small file, and one byte that shows that there is more.
pub(crate) fn buffer(options: &CopyOptions) -> Vec<u8> {
    vec![0; options.tuning.small_bytes() as usize]
}

/// Returns the size below which files are copied as small ones between these filesystems; 0 if none
/// is.
pub(crate) fn below_bytes(
    source: Filesystem,
    destination: Filesystem,
    options: &CopyOptions,
) -> u64 {
    let is_possible = are_possible(source, destination, options);
    if is_possible { options.tuning.small_bytes() } else { 0 }
}

/// Whether files can be copied as small ones at all.
fn are_possible(source: Filesystem, destination: Filesystem, options: &CopyOptions) -> bool {
    // Servers may report a failed write only on a flush.
    let answers_late = destination.is_network() || destination.is_user();
    !source.is_pseudo()
        && !answers_late
        && matches!(options.allow, Allow::Any | Allow::ReadWrite)
        && options.require == Require::Nothing
        && options.sparse != Sparse::Always
        && options.cache != Cache::Skip
        && options.verify.is_none()
        && !options.durable
        && !options.writes_into_existing()
}

/// How small files are copied from one filesystem to another: found out with the first file, and
/// used for all later ones.
#[derive(Debug)]
pub(crate) struct SmallFilePath {
    filesystems: (Filesystem, Filesystem),
    /// The source is on another machine.
    is_elsewhere: bool,
    /// Error of sharing, if it holds for every file of the two filesystems.
    sharing: Option<Errno>,
    /// First step of every small file that is not empty, once it is known.
    step: Option<PlanStep>,
}

/// Guess about the next file, from the last one: what can be done before its status is known, so that one
/// `fstat` is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum NextSmallFile {
    /// Nothing is done early.
    #[default]
    Unknown,
    /// The file is read early.
    Read,
    /// Its blocks are shared early with a new file of these permissions.
    Share { mode: u32 },
}

impl NextSmallFile {
    /// Makes the guess after a file that was copied by `mechanism`.
    pub(crate) fn after(mechanism: Mechanism, stat: &Stat) -> NextSmallFile {
        match mechanism {
            _ if !is_older(stat, clock::realtime()) || stat.size == 0 => NextSmallFile::Unknown,
            Mechanism::ReadWrite if stat.size <= EarlyRead::MAX_BYTES as u64 => NextSmallFile::Read,
            Mechanism::Reflink => NextSmallFile::Share { mode: stat.permissions() & 0o777 },
            _ => NextSmallFile::Unknown,
        }
    }

    /// Whether times of changes are those of this machine's clock.
    pub(crate) fn is_possible(filesystem: Filesystem) -> bool {
        [Filesystem::EXT4, Filesystem::XFS, Filesystem::BTRFS].contains(&filesystem)
    }
}

/// Contents that were read before the status of the file was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EarlyRead {
    bytes: usize,
    /// Since the epoch, when reading began.
    begun: Duration,
    /// State of its pages when it was read.
    watch: Watch,
}

impl EarlyRead {
    /// Maximum size of files that are read early.
    const MAX_BYTES: usize = 16 << 10;

    /// Reads as much as fits in the buffer.
    pub(crate) fn read(source: BorrowedFd<'_>, buffer: &mut [u8]) -> Option<EarlyRead> {
        let begun = clock::realtime();
        let room = buffer.len().min(EarlyRead::MAX_BYTES);
        let bytes = transfer::read_at(source, &mut buffer[..room], 0).ok()?;
        // Later stores are not part of the bytes read.
        let watch = match bytes {
            0 => Watch::Clean { writing: 0 },
            _ => Watch::after_the_only_read(file::cached_pages(source, 0, room as u64)),
        };
        Some(EarlyRead { bytes, begun, watch })
    }

    /// Whether it is the whole file, by the status looked up afterwards, and unchanged: its last change is
    /// older than the read.
    fn is_all_of(self, stat: &Stat) -> bool {
        self.bytes as u64 == stat.size && is_older(stat, self.begun)
    }
}

/// The last change was clearly before that.
pub(crate) fn is_older(stat: &Stat, time: Duration) -> bool {
    /// Times of files are whole seconds on some filesystems, and of two seconds on others.
    const GRAIN: Duration = Duration::from_secs(4);
    let changed = u64::try_from(stat.changed.seconds).map(Duration::from_secs);
    changed.is_ok_and(|changed| changed + GRAIN < time)
}

/// Result of copying a small file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SmallCopy {
    /// The file is complete.
    Copied(Mechanism, Cost, MappedWrites),
    /// The pages of the source were clean, and a process stored into them; the new file must be
    /// removed.
    StoredInto,
    /// The file was unusual; the new file must be removed.
    Odd,
}

impl SmallFilePath {
    pub(crate) fn new(filesystems: (Filesystem, Filesystem), is_elsewhere: bool) -> SmallFilePath {
        SmallFilePath { filesystems, is_elsewhere, sharing: None, step: None }
    }

    /// Returns the facts of a file of this size.
    fn facts(&self, size: u64, options: &CopyOptions) -> CopyFacts {
        let (source, destination) = self.filesystems;
        let facts = facts::of_dense(Some(size), source, destination, options);
        CopyFacts { is_elsewhere: self.is_elsewhere, ..facts }
    }

    /// Copies `source`, which had the status `stat` when it was opened, to a new file. Bytes that
    /// were read `early` are in the buffer. `wait_for_budget` is called before bytes are submitted,
    /// and may wait; it is not called for shared blocks.
    pub(crate) fn copy(
        &mut self,
        ends: Ends<'_>,
        stat: &Stat,
        options: &CopyOptions,
        buffer: &mut [u8],
        early: Option<EarlyRead>,
        wait_for_budget: impl FnOnce() -> bool,
    ) -> SmallCopy {
        let early = early.filter(|early| early.is_all_of(stat));
        let source = self.filesystems.0;
        let read_and_write = || match wait_for_budget() {
            true => read_and_write(ends, stat, source, options, buffer, early),
            false => SmallCopy::Odd,
        };
        let copied = match self.first(stat, options) {
            PlanStep::Try(Mechanism::Reflink) => match reflink::share(ends) {
                Ok(()) => {
                    let mapped_writes = watch::of_snapshot(source);
                    SmallCopy::Copied(Mechanism::Reflink, Cost::Shared, mapped_writes)
                }
                Err(errno) if self.forget_sharing(errno) => read_and_write(),
                Err(_) => SmallCopy::Odd,
            },
            PlanStep::Try(Mechanism::ReadWrite) => read_and_write(),
            _ => SmallCopy::Odd,
        };
        let unchanged = || match (early, copied) {
            (Some(_), SmallCopy::Copied(Mechanism::ReadWrite, ..)) => true,
            _ => file::stat(ends.source).is_ok_and(|now| source::difference(stat, &now).is_none()),
        };
        match copied {
            SmallCopy::Copied(..) if !unchanged() => SmallCopy::Odd,
            copied => copied,
        }
    }

    fn first(&mut self, stat: &Stat, options: &CopyOptions) -> PlanStep {
        if stat.size == 0 {
            return PlanStep::Try(Mechanism::ReadWrite);
        }
        if let Some(step) = self.step {
            return step;
        }
        let facts = self.facts(stat.size, options);
        let step = plan::next(&facts, self.attempted().as_slice());
        self.step = Some(step);
        step
    }

    /// Returns the refusal of sharing, if it is ruled out.
    fn attempted(&self) -> Option<Attempted> {
        self.sharing.map(|errno| Attempted {
            mechanism: Mechanism::Reflink,
            errno: Some(errno),
            moved_bytes: 0,
        })
    }

    /// Whether an error of sharing rules it out for every file between the two filesystems: one
    /// does not support it, or they are different filesystems.
    fn forget_sharing(&mut self, errno: Errno) -> bool {
        let for_all = matches!(errno, Errno::EOPNOTSUPP | Errno::EXDEV | Errno::ENOSYS);
        let unsupported = plan::classify(Mechanism::Reflink, errno, 0) == ErrorClass::Unsupported;
        if for_all && unsupported {
            self.sharing = Some(errno);
            self.step = None;
        }
        for_all && unsupported
    }

    /// Returns why a file of this size was copied by `used` and not by a cheaper mechanism.
    pub(crate) fn refusals(
        &self,
        size: u64,
        used: Mechanism,
        options: &CopyOptions,
    ) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        if size == 0 {
            // No mechanism is refused for an empty file.
            return refusals;
        }
        let facts = self.facts(size, options);
        if let Some(errno) = self.sharing {
            refusals.push(plan::stopped(Mechanism::Reflink, Some(errno), 0, &facts));
        }
        let known = |refusal: &Refusal| refusal.mechanism == Mechanism::Reflink;
        let left_out = plan::refusals(&facts, Some(used)).into_iter();
        let shared = refusals.iter().any(known);
        refusals.extend(left_out.filter(|refusal| !(shared && known(refusal))));
        plan::sort(&facts, &mut refusals);
        refusals
    }

    /// Returns the thresholds that made a file of this size a small one.
    pub(crate) fn decided_by(&self, size: u64, options: &CopyOptions) -> Vec<Decision> {
        let facts = self.facts(size, options);
        plan::decisive(&facts, self.attempted().as_slice())
    }
}

/// Writes a file of another machine whose contents came with its listing.
pub(crate) fn write_listed(
    source: &PeerFile,
    destination: BorrowedFd<'_>,
    wait_for_budget: impl FnOnce() -> bool,
) -> SmallCopy {
    let Some(contents) = source.contents() else { return SmallCopy::Odd };
    if !wait_for_budget() || transfer::write(destination, contents) != Ok(contents.len()) {
        return SmallCopy::Odd;
    }
    // Only the kernel of the other machine sees stores into its files.
    let mapped_writes = MappedWrites::Unknown(Unseen::NotLooked);
    SmallCopy::Copied(Mechanism::ReadWrite, Cost::UserCopied, mapped_writes)
}

fn read_and_write(
    ends: Ends<'_>,
    stat: &Stat,
    filesystem: Filesystem,
    options: &CopyOptions,
    buffer: &mut [u8],
    early: Option<EarlyRead>,
) -> SmallCopy {
    let look = || file::cached_pages(ends.source, 0, 0);
    let mut watch = match (watch::unseen(stat, filesystem), early) {
        (Some(why), _) => Watch::Blind(why),
        (None, Some(early)) => early.watch,
        // A file without pages has nothing to store into.
        (None, None) if stat.size == 0 => Watch::Clean { writing: 0 },
        (None, None) => match Watch::begin(look(), watch::may_flush(options), 0) {
            (watch, Begin::Go) => watch,
            _ => return SmallCopy::Odd,
        },
    };
    let read = match early {
        Some(early) => Ok(early.bytes),
        None => transfer::read_at(ends.source, buffer, 0),
    };
    let Ok(n) = read else { return SmallCopy::Odd };
    if n as u64 != stat.size {
        return SmallCopy::Odd;
    }
    if early.is_none() && watch.is_open() && n > 0 {
        watch = watch.look(look());
    }
    let mapped_writes = match watch.verdict() {
        MappedWrites::Seen => return SmallCopy::StoredInto,
        // It must be flushed first.
        MappedWrites::Unknown(Unseen::DirtyPages) if watch::may_flush(options) => {
            return SmallCopy::Odd;
        }
        known => known,
    };
    if options.sparse != Sparse::Never && sparse::hides_hole(&ends.source, &buffer[..n]) {
        return SmallCopy::Odd;
    }
    if n > 0 && transfer::write(ends.destination, &buffer[..n]) != Ok(n) {
        return SmallCopy::Odd;
    }
    SmallCopy::Copied(Mechanism::ReadWrite, Cost::UserCopied, mapped_writes)
}
