//! Plans: one walk through source and destination, cut into units.
//!
//! Memory is bounded: waiting directories are limited as in jobs, units and the last unit are written as they are found, and
//! entries with several names go through scratch files, of which one is in memory at a time. A directory has a whole
//! plan when it has `plan.json`; a plan that was killed goes on from its last checkpoint.

mod checkpoint;
mod cut;
mod directory;
mod links;
mod pace;
mod resume;
mod units;
mod walk;

use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::UnitError;
use crate::format::{FormatError, Options, Plan, PlanId, RelativePath, Root, Time, schema_of};
use checkpoint::RequestKey;
use directory::PlanDirectory;
use links::LinkSpill;
use pace::Pacer;
use resume::{Saver, Start};
use serde::{Deserialize, Serialize};
use uncopy_copy::job::{Compare, Selection, lies_within};
use uncopy_copy::peer::Peer;
use uncopy_core::Error;
use uncopy_os::name;
use units::Units;
use walk::{Roots, Walk};

pub use cut::{DEFAULT_BYTES, DEFAULT_FILES, MIN_BYTES};
pub use directory::{PLAN_FILE, UNITS_DIRECTORY, digest_of_unit, read_plan, unit_file};
pub use pace::CheckpointPace;

/// Maximum number of problems that are kept; the others are counted.
const MAX_PROBLEMS: usize = 100;

/// Treatment of deletions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "made by callers")]
pub struct Deletion {
    /// Maximum number of entries to delete.
    pub most: Option<u64>,
    /// Whether an empty source is meant, and no disk that is not mounted.
    pub empty_source: bool,
}

/// Source or destination of a plan.
#[derive(Debug, Clone)]
#[allow(clippy::exhaustive_enums, reason = "made by callers")]
pub enum PlanRoot {
    /// A directory of this machine.
    Here(PathBuf),
    /// A directory of another machine.
    There {
        /// Place by which programs and people know it.
        place: PathBuf,
        /// The machine, which has it as its first root. The second root, if there is one, is the directory above: a
        /// destination that does not exist is to be made there and nowhere else.
        peer: Arc<dyn Peer>,
    },
}

impl PlanRoot {
    /// Returns its path, or its place.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        let (PlanRoot::Here(path) | PlanRoot::There { place: path, .. }) = self;
        path
    }

    /// Returns the root as plans have it.
    fn written(&self) -> Result<Root, PlanError> {
        let written = match self {
            PlanRoot::Here(path) => {
                Root::new(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
            }
            PlanRoot::There { place, .. } => Root::on_another_machine(place),
        };
        written.map_err(|problem| PlanError::Root { path: self.as_path().to_owned(), problem })
    }

    fn here(&self) -> Option<&Path> {
        match self {
            PlanRoot::Here(path) => Some(path),
            PlanRoot::There { .. } => None,
        }
    }
}

/// Choices of a plan.
#[derive(Debug, Clone)]
#[allow(clippy::exhaustive_structs, reason = "made by callers")]
pub struct PlanRequest {
    /// Directory whose contents are copied.
    pub source: PlanRoot,
    /// Directory that gets them; it need not exist.
    pub destination: PlanRoot,
    /// Directory for the plan; it need not exist.
    pub directory: PathBuf,
    /// Options that workers get.
    pub options: Options,
    /// Entries to copy.
    pub selection: Selection,
    /// Whether directories of other filesystems are left empty.
    pub one_filesystem: bool,
    /// Whether symbolic links are left out.
    pub skip_links: bool,
    /// Whether FIFOs, sockets and devices are copied; otherwise they are left out.
    pub specials: bool,
    /// Whether entries are left out that are at least as new at the destination.
    pub update: bool,
    /// Comparison that shows that a file is unchanged.
    pub compare: Compare,
    /// Whether entries are deleted that the source does not have.
    pub delete: Option<Deletion>,
    /// Maximum number of entries of a unit.
    pub files: u64,
    /// Number of bytes from which on a unit is full, and files are cut.
    pub bytes: u64,
    /// Number of threads.
    pub threads: NonZeroUsize,
    /// Version of the program. Another one does not go on with the plan.
    pub version: String,
    /// Distance between checkpoints.
    pub checkpoints: CheckpointPace,
}

/// Progress of a plan, and its totals at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PlanTotals {
    /// Entries of the source, directories included.
    pub entries: u64,
    /// Bytes of files; of a file with several names, once.
    pub bytes: u64,
    /// Entries to delete.
    pub deletions: u64,
    /// Entries that were left out: links and special files that the options do not copy.
    pub left_out: u64,
    /// Entries that are not planned, since the options say that they are unchanged at the destination.
    pub unchanged: u64,
}

/// Event of a plan.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlanEvent<'a> {
    /// The walk begins.
    Begun(&'a Beginning),
    /// The walk is so far.
    Found(PlanTotals),
}

/// Point from which a plan is made.
#[derive(Debug)]
#[non_exhaustive]
pub enum Beginning {
    /// The roots: the directory had no checkpoint.
    New,
    /// The roots: the checkpoint in the directory cannot be used, and was removed.
    Anew(AnewReason),
    /// The last checkpoint of a plan that was killed.
    Resumed {
        /// Entries that were planned until then.
        entries: u64,
        /// Time when it was made.
        made: Time,
    },
}

/// Reason why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnewReason {
    /// It is not as it was written.
    #[error("the checkpoint is damaged: {error}")]
    Damaged {
        /// The first thing that is wrong with it.
        error: FormatError,
    },
    /// A directory whose listing was not ended is another one, or has got or lost entries since.
    #[error("{} has changed since the checkpoint, and its listing was not ended", .directory.display())]
    Changed {
        /// The directory.
        directory: PathBuf,
    },
    /// A file is gone, or shorter than it was.
    #[error("{} lacks what the checkpoint speaks of", .file.display())]
    Missing {
        /// The file, or the directory of units.
        file: PathBuf,
    },
}

/// Difference between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestDifference {
    /// The source or the destination.
    Roots,
    /// An option, the size of units, or the version of the program.
    Options,
}

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The directory of the plan cannot be used.
    #[error("cannot plan in {}: {problem}", .directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Reason.
        problem: DirectoryProblem,
    },
    /// The directory has the unfinished plan of another request. It was not touched.
    #[error("{} has an unfinished plan of a copy from {} to {}{}", .directory.display(), .from.display(), .to.display(), .difference.words())]
    OtherRequest {
        /// The directory.
        directory: PathBuf,
        /// Source of that plan.
        from: PathBuf,
        /// Destination of that plan.
        to: PathBuf,
        /// Part in which they differ.
        difference: RequestDifference,
    },
    /// Source, destination and directory of the plan lie in each other.
    #[error("{} lies in {}: {}", .inner.display(), .outer.display(), .overlap.why())]
    Overlap {
        /// Path within the other one.
        inner: PathBuf,
        /// The other one.
        outer: PathBuf,
        /// Which of them they are.
        overlap: Overlap,
    },
    /// A root cannot be written down.
    #[error("cannot use {} in a plan: {problem}", .path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// Rule that it breaks.
        problem: crate::format::PathProblem,
    },
    /// Some entries cannot be planned. Nothing was planned.
    #[error("{} entries cannot be planned; the first: {}", .total, .first.first().map(ToString::to_string).unwrap_or_default())]
    Entries {
        /// The first problems.
        first: Vec<EntryProblem>,
        /// Number of problems.
        total: u64,
    },
    /// Everything at the destination would be deleted.
    #[error("{} has no entries to copy, and everything at the destination would be deleted", .source_root.display())]
    EmptySource {
        /// The source.
        source_root: PathBuf,
    },
    /// More would be deleted than is allowed.
    #[error("{found} entries would be deleted, and at most {most} may be")]
    TooManyDeletions {
        /// Number of entries to delete.
        found: u64,
        /// Maximum.
        most: u64,
    },
    /// The plan has more units than their numbers allow.
    #[error("the plan has too many units: allow more entries and bytes in each")]
    TooManyUnits,
    /// Another error.
    #[error(transparent)]
    Unit(#[from] UnitError),
}

impl From<Error> for PlanError {
    fn from(error: Error) -> PlanError {
        PlanError::Unit(error.into())
    }
}

/// Reason why a directory cannot be used for a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryProblem {
    /// It has a finished plan.
    #[error("it holds a finished plan; name another directory, or remove that plan")]
    HasPlan,
    /// It holds other things.
    #[error("it is not empty; name a new directory")]
    NotEmpty,
    /// Its path goes up from a directory that does not exist.
    #[error(
        "its path goes up by \"..\" from a directory that does not exist; name it without that"
    )]
    GoesUp,
    /// Another process plans in it now.
    #[error("another process is planning there; wait for its end, or name another directory")]
    Busy,
}

/// Paths that lie in each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overlap {
    /// The source and the destination.
    Roots,
    /// The plan and the source.
    PlanInSource,
    /// The plan and the destination.
    PlanInDestination,
}

impl Overlap {
    fn why(self) -> &'static str {
        match self {
            Overlap::Roots => "the copy would change what it copies",
            Overlap::PlanInSource => {
                "the plan would be a part of what it plans; put it outside the source"
            }
            Overlap::PlanInDestination => {
                "the plan is no part of the copy; put it outside the destination"
            }
        }
    }
}

impl RequestDifference {
    fn words(self) -> &'static str {
        match self {
            RequestDifference::Roots => "",
            RequestDifference::Options => " with other options, or of another version",
        }
    }
}

/// An entry that cannot be planned.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EntryProblem {
    /// It cannot be examined or listed.
    #[error(transparent)]
    System(#[from] Error),
    /// It has another kind at the destination.
    #[error("{} is a directory on one side alone; remove or rename one of them", .path)]
    KindDiffers {
        /// The entry.
        path: RelativePath,
    },
    /// It has a name that no plan can hold.
    #[error("cannot write {} in a plan: {problem}", .path.display())]
    Name {
        /// The entry.
        path: PathBuf,
        /// Rule that it breaks.
        problem: crate::format::PathProblem,
    },
}

/// Counters and problems that all threads share.
#[derive(Debug, Default)]
struct Shared {
    entries: AtomicU64,
    bytes: AtomicU64,
    deletions: AtomicU64,
    left_out: AtomicU64,
    unchanged: AtomicU64,
    problems: Mutex<Vec<EntryProblem>>,
    problem_count: AtomicU64,
    /// Error that ends the walk.
    fatal: Mutex<Option<PlanError>>,
    is_over: AtomicBool,
}

impl Shared {
    fn has_problems(&self) -> bool {
        self.problem_count.load(Ordering::Relaxed) > 0
    }

    fn totals(&self) -> PlanTotals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PlanTotals {
            entries: read(&self.entries),
            bytes: read(&self.bytes),
            deletions: read(&self.deletions),
            left_out: read(&self.left_out),
            unchanged: read(&self.unchanged),
        }
    }

    /// Adds what one thread has found.
    fn add(&self, found: PlanTotals) {
        for (counter, more) in [
            (&self.entries, found.entries),
            (&self.bytes, found.bytes),
            (&self.deletions, found.deletions),
            (&self.left_out, found.left_out),
            (&self.unchanged, found.unchanged),
        ] {
            counter.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn report(&self, problem: EntryProblem) {
        self.problem_count.fetch_add(1, Ordering::Relaxed);
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < MAX_PROBLEMS {
            problems.push(problem);
        }
    }

    fn end_with(&self, error: PlanError) {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Makes a plan, or goes on with one that was killed. `watch` is called when it begins, and now and then.
///
/// # Errors
/// There is no plan then: the directory has no `plan.json`. If an operation failed, the same call goes on from the last
/// checkpoint; otherwise it begins anew.
pub fn plan(
    request: &PlanRequest,
    watch: &(dyn Fn(PlanEvent<'_>) + Sync),
) -> Result<(Plan, PlanTotals), PlanError> {
    refuse_overlaps(request)?;
    let (source, destination) = (request.source.written()?, request.destination.written()?);
    let random = name::random_bytes()
        .map_err(|errno| Error::system("draw a random number for", &request.directory, errno))?;
    let id = PlanId::from_random(random);
    // The roots are looked at before anything is made.
    let roots = walk::open_roots(request)?;
    let directory = PlanDirectory::begin(&request.directory)?;
    let key = RequestKey::of(request, &source, &destination);
    let start = resume::start(&directory, &key, &roots)?;
    watch(PlanEvent::Begun(&start.beginning));
    let id = start.checkpoint.as_ref().map_or(id, |checkpoint| checkpoint.plan);
    let made = Making { request, id, key, roots: &roots, watch }.run(&directory, start);
    match made {
        Ok((plan, totals)) => {
            directory.finish(&plan)?;
            Ok((plan, totals))
        }
        Err(error) => {
            let is_passing = matches!(error, PlanError::Unit(UnitError::System(_)));
            if !(is_passing && directory.has_checkpoint()) {
                // It may have filled the disk. Whatever stays is removed by the next one.
                let _ = directory.clear();
            }
            Err(error)
        }
    }
}

/// A plan that is being made.
struct Making<'a> {
    request: &'a PlanRequest,
    id: PlanId,
    key: RequestKey,
    roots: &'a Roots,
    watch: &'a (dyn Fn(PlanEvent<'_>) + Sync),
}

impl Making<'_> {
    /// Writes all units.
    fn run(self, directory: &PlanDirectory, start: Start) -> Result<(Plan, PlanTotals), PlanError> {
        let Making { request, id, key, roots, watch } = self;
        let Start { checkpoint, devices, .. } = start;
        let shared = &Shared::default();
        shared.add(checkpoint.as_ref().map_or_else(PlanTotals::default, |found| found.totals));
        let key_roots = (&key.source, &key.destination);
        let state = checkpoint.as_ref().map(|found| &found.units);
        // A destination that was made meanwhile is not the one that a checkpoint is about.
        let seen = checkpoint.as_ref().map_or(roots.seen, |found| found.seen);
        let units = Units::open(directory, id, key_roots, seen, request, state)?;
        let state = checkpoint.as_ref().map(|found| &found.links);
        let links = &LinkSpill::open(directory, devices, state)?;
        let written_out = state.map_or(0, |state| state.written_out);
        let pacer = &Pacer::new(request.checkpoints);
        let units_of = &units;
        let saver =
            &Saver { directory, key: &key, plan: id, roots, units: units_of, links, shared, pacer };
        let tasks = checkpoint.map(|found| found.tasks);
        Walk { request, roots, units: units_of, links, shared, saver, watch }.run(tasks);
        let ended = shared.fatal.lock().unwrap_or_else(PoisonError::into_inner).take();
        ended.map_or(Ok(()), Err)?;
        // A question that was not answered is no answer.
        roots.check_connected()?;
        refuse_problems(shared)?;
        links.write_out(written_out, &units, shared, |number| match pacer.passed(1) {
            true => saver.save(Some(&[]), number),
            false => Ok(()),
        })?;
        let totals = shared.totals();
        refuse_deletions(request, totals)?;
        let PlanTotals { entries, bytes, deletions, .. } = totals;
        let plan = Plan {
            schema: schema_of(&key.source, &key.destination),
            id,
            source: key.source.clone(),
            destination: key.destination.clone(),
            seen,
            options: request.options.clone(),
            units: units.finish()?,
            entries,
            bytes,
            deletions,
            version: request.version.clone(),
            finished: true,
        };
        Ok((plan, totals))
    }
}

fn refuse_deletions(request: &PlanRequest, totals: PlanTotals) -> Result<(), PlanError> {
    let Some(delete) = request.delete else { return Ok(()) };
    let is_empty = totals.entries <= 1 && totals.unchanged == 0;
    if is_empty && !delete.empty_source && totals.deletions > 0 {
        return Err(PlanError::EmptySource { source_root: request.source.as_path().to_owned() });
    }
    match delete.most.filter(|most| totals.deletions > *most) {
        Some(most) => Err(PlanError::TooManyDeletions { found: totals.deletions, most }),
        None => Ok(()),
    }
}

fn refuse_problems(shared: &Shared) -> Result<(), PlanError> {
    let first =
        std::mem::take(&mut *shared.problems.lock().unwrap_or_else(PoisonError::into_inner));
    if first.is_empty() {
        return Ok(());
    }
    Err(PlanError::Entries { first, total: shared.problem_count.load(Ordering::Relaxed) })
}

/// Whether a path has `..` behind a name that does not exist: where it would lead, nobody knows before that is made.
fn goes_up_from_nowhere(path: &Path) -> bool {
    let is_there = |above: &&Path| above.as_os_str().is_empty() || above.exists();
    let exists = path.ancestors().find(is_there).unwrap_or(Path::new(""));
    let rest = path.strip_prefix(exists).unwrap_or(path);
    rest.components().any(|name| name == Component::ParentDir)
}

fn refuse_overlaps(request: &PlanRequest) -> Result<(), PlanError> {
    let (source, destination) = (request.source.here(), request.destination.here());
    if goes_up_from_nowhere(&request.directory) {
        let (directory, problem) = (request.directory.clone(), DirectoryProblem::GoesUp);
        return Err(PlanError::Directory { directory, problem });
    }
    let directory = Some(request.directory.as_path());
    let pairs = [
        (destination, source, Overlap::Roots),
        (source, destination, Overlap::Roots),
        (directory, source, Overlap::PlanInSource),
        (directory, destination, Overlap::PlanInDestination),
    ];
    for (inner, outer, overlap) in pairs {
        // Those of two machines do not lie in each other.
        if let (Some(inner), Some(outer)) = (inner, outer)
            && lies_within(inner, outer)
        {
            let (inner, outer) = (inner.to_owned(), outer.to_owned());
            return Err(PlanError::Overlap { inner, outer, overlap });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
