//! Predicts a copy without making it: tries mechanisms on temporary files, and asks the plan.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::context::CopyContext;
use super::destination::{Destination, ExistingEntry};
use super::facts;
use super::mechanism::{self, Ends};
use super::options::{Allow, CopyOptions, Require, Sparse};
use super::overlay;
use super::plan::{self, Attempted, ErrorClass, PlanStep};
pub use super::plan::{CopyFacts, DirectPath};
use super::source::Source;
use super::sparse::Segment;
use super::trial::Trial;
use uncopy_core::{Cost, Errno, Mechanism, RefusalReason, Result};
use uncopy_os::capabilities::{Answer, AnswerReason, Device, Sharing, TrialFiles, sharing};
use uncopy_os::file::{self, DirectAlign};
use uncopy_os::{Sys, transfer};

/// Bytes moved to try a mechanism: a multiple of every block size.
const TRIAL_BYTES: u64 = 64 << 10;

/// Prediction of a copy.
#[derive(Debug, Clone)]
pub struct Forecast {
    pub facts: CopyFacts,
    /// Length of the source as reported, reliable or not.
    pub source_bytes: u64,
    /// Whether the source is reliably empty.
    pub is_empty: bool,
    /// Whether the source has no data (`SEEK_DATA`), and the copy is to have none either.
    pub is_one_hole: bool,
    /// Bytes of the source in the page cache. `None`: the kernel does not report it.
    pub cached_bytes: Option<u64>,
    pub source_device: Device,
    pub destination_device: Device,
    /// Target of direct writes, for people.
    pub written_to: String,
    pub destination_align: Option<DirectAlign>,
    /// Every mechanism, in rising order of touching the bytes.
    pub mechanisms: Vec<MechanismForecast>,
    /// First mechanism of the copy, with its cost. `None`: none works that the options allow.
    pub choice: Option<(Mechanism, Cost)>,
    /// Candidates of the copy's own trial.
    pub rivals: Vec<Mechanism>,
}

impl Forecast {
    /// Returns the result of trying `mechanism`.
    #[must_use]
    pub fn mechanism(&self, mechanism: Mechanism) -> Option<&MechanismForecast> {
        self.mechanisms.iter().find(|tried| tried.mechanism == mechanism)
    }

    /// Whether the copy will share its blocks with the source.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.choice.is_some_and(|(_, cost)| cost == Cost::Shared)
    }
}

/// Mechanism with the result of trying it between the two places.
#[derive(Debug, Clone)]
pub struct MechanismForecast {
    pub mechanism: Mechanism,
    pub answer: Answer<Cost>,
    /// Description of the attempt and its result; empty without an attempt.
    pub proof: String,
    /// Why the copy will not use it, although it works or was not tried.
    pub passed_over: Option<RefusalReason>,
}

/// Examines the files, and tries every mechanism on temporary files in their directories.
///
/// # Errors
/// Errors of a copy that cannot begin: the source cannot be opened, is a directory, or is the
/// destination.
pub fn forecast(
    source_path: &Path,
    destination_path: &Path,
    options: &CopyOptions,
) -> Result<Forecast> {
    let mut source = Source::open(source_path, options)?;
    source.is_foreseen = true;
    let destination = Destination::resolve(destination_path, &source, options)?;
    let directory = destination.directory();
    let mut facts = facts::gather(&source, &destination, directory, options);
    // Kernels without cachestat(2) have mincore(2).
    let by_mapping = || source.resident_bytes(0..source.stat.size);
    let cached_bytes = source.cached_bytes(0, source.stat.size).or_else(by_mapping);
    let files = trial_files(&destination, facts.in_place);
    let written = files
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|files| files.create().map_err(AnswerReason::Inconclusive));
    if let Ok(written) = &written {
        facts::refine(&mut facts, &source, written.as_fd(), &CopyContext::new());
    }
    let (source_device, destination_device) = (device_of(source.fd()?), device_of(directory));
    let align = written.as_ref().ok().and_then(|fd| file::stat(fd).ok()).and_then(|s| s.direct);
    let mut mechanisms = match (&files, facts.size) {
        _ if facts.destination_is_stream || facts.size.is_none() => untried(&facts),
        (Ok(files), _) => try_all(&source, files, &facts),
        (Err(reason), _) => impossible(&facts, reason),
    };
    let attempted: Vec<Attempted> = mechanisms.iter().filter_map(stopped).collect();
    let is_one_hole = is_one_hole(&source, &facts);
    let choice = match is_one_hole {
        // Only a clone of the whole file can fail: the other mechanisms have nothing to move.
        true => {
            let clone = mechanisms.iter().filter(|tried| tried.mechanism == Mechanism::Reflink);
            let clone: Vec<_> = clone.cloned().collect();
            choose(&facts, &clone).map(|(mechanism, _)| (mechanism, Cost::Hole))
        }
        false => choose(&facts, &mechanisms),
    };
    let chosen = choice.map(|(mechanism, _)| mechanism);
    let rivals = plan::rivals(&facts, &attempted);
    let is_race = !is_one_hole
        && chosen.is_some_and(|chosen| rivals.first() == Some(&chosen))
        && Trial::new(&facts, &rivals, || false).is_some();
    for refusal in plan::refusals(&facts, chosen) {
        if let Some(tried) =
            mechanisms.iter_mut().find(|tried| tried.mechanism == refusal.mechanism)
        {
            tried.passed_over = Some(refusal.reason);
        }
    }
    Ok(Forecast {
        source_bytes: source.stat.size,
        is_empty: source.has_reliable_size() && source.stat.size == 0,
        is_one_hole,
        cached_bytes,
        source_device,
        written_to: written_to(&destination_device, &facts, destination.path()),
        destination_device,
        destination_align: align,
        choice,
        rivals: if is_race { rivals } else { Vec::new() },
        mechanisms,
        facts,
    })
}

/// Tries every mechanism from the source, or a file beside it that may stand for it, to temporary files.
pub(crate) fn try_all(
    source: &Source<'_>,
    files: &TrialFiles,
    facts: &CopyFacts,
) -> Vec<MechanismForecast> {
    Bench::new(source, files, facts).try_all()
}

/// Returns the first mechanism of a copy, with its cost. `None`: none works that the options allow.
pub(crate) fn choose(
    facts: &CopyFacts,
    mechanisms: &[MechanismForecast],
) -> Option<(Mechanism, Cost)> {
    let attempted: Vec<Attempted> = mechanisms.iter().filter_map(stopped).collect();
    match plan::next(facts, &attempted) {
        PlanStep::Try(mechanism) => Some((mechanism, cost_of(mechanisms, mechanism))),
        PlanStep::GiveUp => None,
    }
}

/// Whether a copy of the source is a hole. In place the old bytes may have to be written over.
fn is_one_hole(source: &Source<'_>, facts: &CopyFacts) -> bool {
    let keeps_holes = facts.has_holes && facts.sparse == Sparse::Auto;
    let size = source.size().unwrap_or(0);
    keeps_holes
        && !facts.in_place
        && !facts.destination_is_stream
        && size > 0
        && matches!(source.file.segment(0, size), Segment::Hole { end, .. } if end == size)
}

/// Opens the directory of the destination for trials with files that are like those that the copy writes to.
fn trial_files(
    destination: &Destination<'_>,
    in_place: bool,
) -> std::result::Result<TrialFiles, AnswerReason> {
    let directory = directory_of(destination.path());
    let found = destination.found.as_ref().filter(|_| in_place && !destination.is_stream());
    match found {
        None => TrialFiles::open(&directory),
        // It may be a file of another filesystem.
        Some(ExistingEntry { stat, .. }) if stat.mount_root => {
            Err(AnswerReason::OtherFilesystem { directory })
        }
        Some(_) => {
            let existing = destination.open_found().map_err(AnswerReason::Inconclusive)?;
            Ok(TrialFiles::open(&directory)?.like(existing))
        }
    }
}

fn directory_of(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Names the device below the destination. An overlay has no device; its writes go to the device of its
/// upper directory.
fn written_to(device: &Device, facts: &CopyFacts, path: &Path) -> String {
    if !device.name.is_empty() {
        return device.name.clone();
    }
    let filesystem = facts.destination;
    match overlay::device_below(&directory_of(path)) {
        Some(below) => format!("{}, below {filesystem}", below.name),
        None => format!("a device below {filesystem} that cannot be named"),
    }
}

fn device_of(fd: BorrowedFd<'_>) -> Device {
    let (major, minor) = file::stat(fd).map_or((0, 0), |stat| stat.device);
    Device::with_number(major, minor)
}

/// Returns the cost of a mechanism, tried or not.
fn cost_of(mechanisms: &[MechanismForecast], mechanism: Mechanism) -> Cost {
    match mechanisms.iter().find(|tried| tried.mechanism == mechanism).map(|tried| &tried.answer) {
        Some(Answer::Yes(cost)) => *cost,
        _ if mechanism == Mechanism::ReadWrite => Cost::UserCopied,
        _ if matches!(mechanism, Mechanism::Sendfile | Mechanism::Splice) => Cost::KernelCopied,
        _ => Cost::Unknown,
    }
}

/// Returns the error of a mechanism that the copy will find not to work.
fn stopped(tried: &MechanismForecast) -> Option<Attempted> {
    match tried.answer {
        Answer::No { errno, .. } => {
            Some(Attempted { mechanism: tried.mechanism, errno, moved_bytes: 0 })
        }
        _ => None,
    }
}

/// Describes mechanisms without trying them: the source has no size, or the destination is no regular
/// file.
fn untried(facts: &CopyFacts) -> Vec<MechanismForecast> {
    let forecast = |mechanism| MechanismForecast {
        mechanism,
        answer: match mechanism {
            Mechanism::ReadWrite => Answer::Yes(Cost::UserCopied),
            Mechanism::Sendfile | Mechanism::Splice => Answer::Yes(Cost::KernelCopied),
            _ => Answer::No { errno: None, reason: AnswerReason::NotTwoFiles },
        },
        proof: String::new(),
        passed_over: None,
    };
    plan::by_cost(facts).map(forecast).collect()
}

fn impossible(facts: &CopyFacts, reason: &AnswerReason) -> Vec<MechanismForecast> {
    let forecast = |mechanism| MechanismForecast {
        mechanism,
        answer: Answer::unknown(reason.clone()),
        proof: String::new(),
        passed_over: None,
    };
    plan::by_cost(facts).map(forecast).collect()
}

/// Files on which mechanisms are tried.
struct Bench<'a> {
    source: &'a Source<'a>,
    files: &'a TrialFiles,
    /// Facts of the trial: nothing is forbidden, and only the filesystems count.
    facts: CopyFacts,
    /// Whether the source may be read: the time of its last access stays as it is.
    may_read: bool,
    /// File with data beside the source; in the directory of the destination if none can be created there and the source
    /// may not be read.
    stand_in: Sys<OwnedFd>,
    /// Its place, in words.
    stand_in_place: &'static str,
}

impl<'a> Bench<'a> {
    fn new(source: &'a Source<'a>, files: &'a TrialFiles, facts: &CopyFacts) -> Bench<'a> {
        let may_read = source.keeps_access_time();
        let beside = TrialFiles::open(&directory_of(source.path.as_ref()))
            .ok()
            .and_then(|files| files.create_with_data().ok());
        let (stand_in, stand_in_place) = match beside {
            None if !may_read => (files.create_with_data(), "beside the destination"),
            beside => (beside.ok_or(Errno::EACCES), "beside the source"),
        };
        let written = files.create().ok().and_then(|fd| file::stat(fd).ok());
        let direct = written
            .map_or(plan::DirectPath::None, |stat| facts::direct_path(&stat, facts.destination));
        let facts = CopyFacts {
            size: Some(TRIAL_BYTES),
            direct,
            direct_reads: false,
            allow: Allow::Any,
            require: Require::Nothing,
            sparse: Sparse::Auto,
            ..facts.clone()
        };
        Bench { source, files, facts, may_read, stand_in, stand_in_place }
    }

    fn try_all(&self) -> Vec<MechanismForecast> {
        plan::by_cost(&self.facts).map(|mechanism| self.try_one(mechanism)).collect()
    }

    fn try_one(&self, mechanism: Mechanism) -> MechanismForecast {
        let tried = match mechanism {
            Mechanism::Reflink => self.reflink(),
            _ => self.try_moving(mechanism),
        };
        let (did, came) = self.describe_attempt(mechanism);
        let (answer, said) = match tried {
            Ok((cost, said)) => (Answer::Yes(cost), said),
            Err(errno) => (self.refused(mechanism, errno), errno.to_string()),
        };
        let proof = format!("{did} {came}: {said}");
        MechanismForecast { mechanism, answer, proof, passed_over: None }
    }

    fn refused(&self, mechanism: Mechanism, errno: Errno) -> Answer<Cost> {
        match plan::classify(mechanism, errno, 0) {
            ErrorClass::Unsupported => {
                let obstacle = plan::explain(mechanism, errno, &self.facts);
                Answer::No { errno: Some(errno), reason: AnswerReason::StoppedBy(obstacle) }
            }
            _ => Answer::unknown(AnswerReason::Inconclusive(errno)),
        }
    }

    /// Describes an attempt and its target.
    fn describe_attempt(&self, mechanism: Mechanism) -> (String, String) {
        let to = format!("an unnamed file in {}", self.files.directory().display());
        if mechanism == Mechanism::Reflink {
            return ("FICLONERANGE of the first bytes of the source".into(), format!("to {to}"));
        }
        let length = self.length(mechanism);
        let from = match self.reads_source(mechanism) {
            true => "the source".to_owned(),
            false => format!("a temporary file {}", self.stand_in_place),
        };
        (format!("{mechanism} of {length} bytes of {from}"), format!("to {to}"))
    }

    /// Whether the source itself is read, and not the file that stands for it. `copy_file_range` reads it where it may: it
    /// shares blocks where a reflink of the very source does, and copies nothing from another filesystem. A source need not
    /// be like the files beside it (a lower layer of an overlay, a file that is mounted, nodatacow, an active swap file).
    fn reads_source(&self, mechanism: Mechanism) -> bool {
        self.may_read && (mechanism == Mechanism::CopyFileRange || self.stand_in.is_err())
    }

    fn length(&self, mechanism: Mechanism) -> u64 {
        match self.reads_source(mechanism) {
            true => TRIAL_BYTES.min(self.source.stat.size),
            false => TRIAL_BYTES,
        }
    }

    /// Tries to reflink the source itself, since its attributes matter; reads nothing.
    fn reflink(&self) -> Result<(Cost, String), Errno> {
        let copy = self.files.create()?;
        let source = self.source.file.fd()?;
        transfer::clone_beginning(source, &copy, self.source.stat.size, TRIAL_BYTES)?;
        Ok((Cost::Shared, "it was shared".into()))
    }

    fn try_moving(&self, mechanism: Mechanism) -> Result<(Cost, String), Errno> {
        let copy = self.files.create()?;
        let source = self.source.file.fd()?;
        let from = match &self.stand_in {
            _ if self.reads_source(mechanism) => source,
            Ok(stand_in) => stand_in.as_fd(),
            Err(errno) => return Err(*errno),
        };
        if mechanism == Mechanism::CopyFileRange && !self.may_read {
            // The kernel refuses the two filesystems or the file also where there is nothing to read.
            transfer::copy_file_range(source, &copy, 0, 0)?;
        }
        let ends = Ends { source: from, destination: copy.as_fd() };
        let setting = facts::setting(&self.facts, self.source, copy.as_fd(), mechanism);
        let mut mover = mechanism::mover(mechanism, ends, &self.facts, setting)?;
        let moved = mover.step(ends, 0, self.length(mechanism))?;
        if moved.bytes == 0 {
            // Happens on some network filesystems, and on overlays before Linux 5.19.
            return Err(Errno::EOPNOTSUPP);
        }
        drop(mover);
        let said = format!("{} bytes", moved.bytes);
        Ok(match (mechanism, moved.cost) {
            (Mechanism::CopyFileRange, Cost::Unknown)
                if !plan::extents_show_sharing(self.facts.destination) =>
            {
                (Cost::Unknown, format!("{said}, and FIEMAP is no evidence here"))
            }
            (Mechanism::CopyFileRange, Cost::Unknown) => match sharing(copy.as_fd()) {
                Sharing::Shared => (Cost::Shared, format!("{said}, FIEMAP shows them shared")),
                Sharing::Copied => (Cost::KernelCopied, format!("{said}, FIEMAP shows a copy")),
                Sharing::Unknown => (Cost::Unknown, format!("{said}, no FIEMAP")),
            },
            (Mechanism::Direct, cost) => (cost, self.direct_proof(&said)),
            (_, cost) => (cost, said),
        })
    }

    fn direct_proof(&self, said: &str) -> String {
        match self.facts.direct {
            plan::DirectPath::None => format!("{said}, and no STATX_DIOALIGN: it was copied"),
            plan::DirectPath::Copies => format!("{said}, which this filesystem copies"),
            plan::DirectPath::Unknown => format!("{said}, above a device that may copy"),
            plan::DirectPath::Moves => format!("{said}, above a disk"),
        }
    }
}
