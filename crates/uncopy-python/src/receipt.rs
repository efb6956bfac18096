//! Receipts as Python objects: bytes by mechanism and by cost, and why nothing cheaper was used.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use uncopy::copy::job::{RefusalCount, Summary};
use uncopy::copy::json::{CopiedFile, PlainWording, WholeJob};
use uncopy::{Cost, Errno, Portion, RefusalReason};

use crate::path::{PathArgument, text};

/// Result of copying a file or a tree. It stands for the path of the copy wherever a path is wanted.
#[pyclass(frozen, weakref, module = "uncopy", name = "Receipt")]
pub(crate) struct Receipt {
    destination: Py<PyAny>,
    action: &'static str,
    details: Details,
    facts: CopyFacts,
}

/// Files of a tree that were verified.
#[derive(Clone, Copy, Default)]
pub(crate) struct VerifiedFiles {
    pub(crate) files: u64,
    /// Algorithm of the digests, if there are any.
    pub(crate) algorithm: Option<&'static str>,
}

impl VerifiedFiles {
    /// Counts a file that was copied.
    pub(crate) fn count(&mut self, receipt: &uncopy::Receipt) {
        if let Some(verification) = &receipt.verification {
            self.files += 1;
            self.algorithm = Some(verification.algorithm);
        }
    }
}

/// All that is known, for `to_dict`.
enum Details {
    File { source: PathBuf, destination: PathBuf, receipt: Box<uncopy::Receipt> },
    Job(Box<Summary>),
}

impl Details {
    /// Returns the object that the program prints.
    fn json(&self) -> serde_json::Result<String> {
        match self {
            Details::File { source, destination, receipt } => {
                serde_json::to_string(&CopiedFile::new(source, destination, receipt, &PlainWording))
            }
            Details::Job(summary) => serde_json::to_string(&WholeJob::new(summary, &PlainWording)),
        }
    }
}

/// CopyFacts of one file, or the totals of many.
#[derive(Clone, Default)]
struct CopyFacts {
    files: u64,
    directories: u64,
    symlinks: u64,
    bytes: u64,
    portions: Vec<Portion>,
    refusals: Vec<RefusalCount>,
    duration: Duration,
    durable: bool,
    verified_files: u64,
    /// Algorithm by which the first of them was verified.
    algorithm: Option<&'static str>,
    /// Digest of the only file.
    digest: Option<String>,
    notes: Vec<(&'static str, String)>,
    /// Number of files that something else copied, of which nothing is known.
    unwatched: u64,
}

impl CopyFacts {
    fn add(&mut self, more: &CopyFacts) {
        self.files += more.files;
        self.directories += more.directories;
        self.symlinks += more.symlinks;
        self.bytes += more.bytes;
        self.verified_files += more.verified_files;
        self.algorithm = self.algorithm.or(more.algorithm);
        self.duration += more.duration;
        self.unwatched += more.unwatched;
        for portion in &more.portions {
            match self
                .portions
                .iter_mut()
                .find(|has| has.mechanism == portion.mechanism && has.cost == portion.cost)
            {
                Some(found) => found.bytes += portion.bytes,
                None => self.portions.push(*portion),
            }
        }
        for refusal in &more.refusals {
            match self.refusals.iter_mut().find(|has| {
                has.mechanism == refusal.mechanism && has.reason.code() == refusal.reason.code()
            }) {
                Some(found) => found.files += refusal.files,
                None => self.refusals.push(*refusal),
            }
        }
        // Those of many files are many, and repeat.
        for note in &more.notes {
            if self.notes.len() < MAX_NOTES && !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }
}

/// Notes that the receipt of a tree keeps.
pub(crate) const MAX_NOTES: usize = 64;

impl Receipt {
    /// Makes the receipt of a copied file.
    pub(crate) fn of_file(
        source: &PathArgument,
        destination: &PathArgument,
        object: Py<PyAny>,
        receipt: &uncopy::Receipt,
    ) -> Receipt {
        let counted = |refusal: &uncopy::Refusal| RefusalCount {
            mechanism: refusal.mechanism,
            reason: refusal.reason,
            errno: refusal.errno,
            files: 1,
        };
        let verification = receipt.verification.as_ref();
        let facts = CopyFacts {
            files: 1,
            bytes: receipt.bytes,
            portions: receipt.portions.clone(),
            refusals: receipt.refusals.iter().map(counted).collect(),
            duration: receipt.duration,
            durable: receipt.durable,
            verified_files: u64::from(verification.is_some()),
            algorithm: verification.map(|proof| proof.algorithm),
            digest: verification.map(|proof| proof.digest.clone()),
            notes: receipt.notes.iter().map(|note| (note.code(), note.to_string())).collect(),
            ..CopyFacts::default()
        };
        let details = Details::File {
            source: source.path.clone(),
            destination: destination.path.clone(),
            receipt: Box::new(receipt.clone()),
        };
        Receipt { destination: object, action: "copied", details, facts }
    }

    /// Makes the receipt of a tree, which was flushed if `durable`.
    pub(crate) fn of_tree(
        destination: Py<PyAny>,
        summary: &Summary,
        durable: bool,
        verified: VerifiedFiles,
        notes: Vec<(&'static str, String)>,
    ) -> Receipt {
        let facts = CopyFacts {
            files: summary.files,
            directories: summary.directories,
            symlinks: summary.symlinks,
            bytes: summary.bytes,
            portions: summary.portions.clone(),
            refusals: summary.refusals.clone(),
            duration: summary.duration,
            durable,
            verified_files: verified.files,
            algorithm: verified.algorithm,
            digest: None,
            notes,
            unwatched: 0,
        };
        let details = Details::Job(Box::new(summary.clone()));
        Receipt { destination, action: "copied", details, facts }
    }

    /// Makes a receipt of totals, as a job has them.
    fn summed_up(destination: Py<PyAny>, action: &'static str, facts: CopyFacts) -> Receipt {
        let mut summary = Summary::default();
        (summary.files, summary.directories) = (facts.files, facts.directories);
        (summary.symlinks, summary.bytes) = (facts.symlinks, facts.bytes);
        summary.portions.clone_from(&facts.portions);
        summary.refusals.clone_from(&facts.refusals);
        summary.duration = facts.duration;
        Receipt { destination, action, details: Details::Job(Box::new(summary)), facts }
    }

    /// Returns the algorithm by which all files were verified, if there are any.
    fn verified_by(&self) -> Option<&'static str> {
        let facts = &self.facts;
        facts.algorithm.filter(|_| facts.verified_files == facts.files && facts.unwatched == 0)
    }

    fn cost(&self, cost: Cost) -> u64 {
        self.facts.portions.iter().filter(|p| p.cost == cost).map(|p| p.bytes).sum()
    }

    fn by_cost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let costs = PyDict::new(py);
        for cost in Cost::ALL {
            if self.cost(cost) > 0 {
                costs.set_item(cost.name(), self.cost(cost))?;
            }
        }
        Ok(costs)
    }
}

#[pymethods]
impl Receipt {
    /// Makes the receipt of something that moved no bytes: a link that was made, a name that was changed. `durable`: it was
    /// flushed.
    #[staticmethod]
    #[pyo3(name = "_without_bytes", signature = (destination, is_renamed, durable = false))]
    fn without_bytes(destination: Py<PyAny>, is_renamed: bool, durable: bool) -> Receipt {
        let symlinks = u64::from(!is_renamed);
        let action = if is_renamed { "renamed" } else { "linked" };
        let facts = CopyFacts { symlinks, durable, ..CopyFacts::default() };
        Receipt::summed_up(destination, action, facts)
    }

    /// Adds up receipts into that of a tree. `unwatched`: number of further files, which something else copied. `flushed`:
    /// whether all else in the tree was flushed; None: there is nothing else.
    #[staticmethod]
    #[pyo3(name = "_total", signature = (destination, receipts, unwatched, flushed = None))]
    fn total(
        destination: Py<PyAny>,
        receipts: &Bound<'_, PyAny>,
        unwatched: u64,
        flushed: Option<bool>,
    ) -> PyResult<Receipt> {
        let mut facts = CopyFacts { durable: true, unwatched, ..CopyFacts::default() };
        for receipt in receipts.try_iter()? {
            let receipt = receipt?;
            let receipt = receipt.cast::<Receipt>()?;
            facts.durable &= receipt.get().facts.durable;
            facts.add(&receipt.get().facts);
        }
        facts.durable &= facts.unwatched == 0 && flushed.unwrap_or(facts.files > 0);
        Ok(Receipt::summed_up(destination, "copied", facts))
    }

    /// Shows the garbage collector the only object of Python in it, which may be of a class of the program.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.destination)
    }

    /// It cannot be changed, so that it is its own copy.
    fn __copy__(this: Bound<'_, Receipt>) -> Bound<'_, Receipt> {
        this
    }

    fn __deepcopy__<'py>(
        this: Bound<'py, Receipt>,
        _memo: &Bound<'py, PyAny>,
    ) -> Bound<'py, Receipt> {
        this
    }

    /// Has another process get a `StoredReceipt`.
    fn __reduce__<'py>(this: &Bound<'py, Receipt>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("uncopy._records")?.getattr("reduced")?.call1((this,))
    }

    /// The path of the copy, as text or bytes.
    fn __fspath__(&self, py: Python<'_>) -> Py<PyAny> {
        self.destination.clone_ref(py)
    }

    fn __str__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.destination.bind(py).cast::<PyBytes>() {
            Ok(bytes) => text(py, Path::new(OsStr::from_bytes(bytes.as_bytes()))),
            Err(_) => Ok(self.destination.bind(py).clone()),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = self.destination.bind(py).repr()?;
        let facts = &self.facts;
        let mut parts = vec![path.to_string_lossy().into_owned()];
        if self.action != "copied" {
            parts.push(self.action.to_owned());
        } else {
            if facts.directories > 0 || facts.files != 1 {
                parts.push(format!("{} files, {} directories", facts.files, facts.directories));
            }
            parts.push(size(facts.bytes));
        }
        let mut portions = facts.portions.clone();
        portions.sort_by_key(|portion| std::cmp::Reverse(portion.bytes));
        parts.extend(portions.iter().map(|portion| {
            let all = if portions.len() == 1 { String::new() } else { size(portion.bytes) + " " };
            format!("{all}{} by {}", portion.cost.name(), portion.mechanism.name())
        }));
        let closest = facts.refusals.first().filter(|_| !self.is_zero_copy());
        if let Some(refusal) = closest {
            parts.push(format!("not by {}: {}", refusal.mechanism.name(), refusal.reason));
        }
        if facts.unwatched > 0 {
            parts.push(format!("{} files copied by something else", facts.unwatched));
        }
        if let Some(algorithm) = self.verified_by() {
            parts.push(format!("verified by {algorithm}"));
        }
        if facts.durable {
            parts.push("durable".to_owned());
        }
        if !facts.notes.is_empty() {
            parts.push(format!("{} notes", facts.notes.len()));
        }
        Ok(format!("<uncopy.Receipt {}>", parts.join("; ")))
    }

    /// The path of the copy, as text or bytes.
    #[getter]
    fn destination(&self, py: Python<'_>) -> Py<PyAny> {
        self.destination.clone_ref(py)
    }

    /// Action that was taken: "copied", "linked" (a symbolic link was made) or "renamed".
    #[getter]
    fn action(&self) -> &'static str {
        self.action
    }

    /// Length of the copy in bytes; of a tree, of all its files.
    #[getter]
    fn bytes(&self) -> u64 {
        self.facts.bytes
    }

    /// Number of files that were copied.
    #[getter]
    fn files(&self) -> u64 {
        self.facts.files
    }

    /// Number of directories that were made or gone through.
    #[getter]
    fn directories(&self) -> u64 {
        self.facts.directories
    }

    /// Number of symbolic links that were made.
    #[getter]
    fn symlinks(&self) -> u64 {
        self.facts.symlinks
    }

    /// Bytes by mechanism: `{"reflink": 4096}`.
    #[getter]
    fn by_mechanism<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mechanisms = PyDict::new(py);
        for portion in &self.facts.portions {
            let name = portion.mechanism.name();
            let before =
                mechanisms.get_item(name)?.map_or(Ok(0), |bytes| bytes.extract::<u64>())?;
            mechanisms.set_item(name, before + portion.bytes)?;
        }
        Ok(mechanisms)
    }

    /// Bytes by cost: `{"shared": 4096}`. The costs are hole, shared, moved, kernel_copied, zeros, user_copied and
    /// unknown.
    #[getter(by_cost)]
    fn bytes_by_cost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.by_cost(py)
    }

    /// Cheaper mechanisms that were not used: dictionaries with mechanism, code, reason, errno and files.
    #[getter]
    fn refusals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for RefusalCount { mechanism, reason, errno, files } in &self.facts.refusals {
            let reason: &RefusalReason = reason;
            let refusal = PyDict::new(py);
            refusal.set_item("mechanism", mechanism.name())?;
            refusal.set_item("code", reason.code())?;
            refusal.set_item("reason", reason.to_string())?;
            refusal.set_item("errno", errno.map(Errno::raw))?;
            refusal.set_item("errno_name", errno.and_then(Errno::name))?;
            refusal.set_item("files", files)?;
            list.append(refusal)?;
        }
        Ok(list)
    }

    /// Whether no processor copied any byte. False if the cost of any byte is unknown, also of a file that another
    /// `copy_function` copied.
    #[getter]
    fn is_zero_copy(&self) -> bool {
        let is_known = self.facts.unwatched == 0;
        is_known && self.facts.portions.iter().all(|portion| portion.cost.is_zero_copy())
    }

    /// Whether data and name were flushed to the device.
    #[getter]
    fn durable(&self) -> bool {
        self.facts.durable
    }

    /// Whether both files were read back, or proved to share their blocks, and are equal; of a tree, whether that holds
    /// for every file that was copied, and there is one.
    #[getter]
    fn verified(&self) -> bool {
        self.verified_by().is_some()
    }

    /// The digest of both files in hexadecimal, if they were verified. None for a tree.
    #[getter]
    fn digest(&self) -> Option<&str> {
        self.facts.digest.as_deref()
    }

    /// Seconds from opening the source until the copy was in place.
    #[getter]
    fn duration(&self) -> f64 {
        self.facts.duration.as_secs_f64()
    }

    /// Notes for people: metadata that could not be kept, further names that keep the old contents.
    #[getter]
    fn notes(&self) -> Vec<&str> {
        self.facts.notes.iter().map(|(_, words)| words.as_str()).collect()
    }

    /// Codes of the notes, for programs.
    #[getter]
    fn note_codes(&self) -> Vec<&'static str> {
        self.facts.notes.iter().map(|(code, _)| *code).collect()
    }

    /// The receipt as a dictionary that `json.dumps` takes: the keys of `uncopy cp --json`, of the event `copied` for a file
    /// and `summary` for a tree, with paths as Python has them; and in both `destination`, `files`, `directories`, `symlinks`,
    /// `is_zero_copy`, `durable`, `verified`, `notes` and `note_codes`. `event` is "linked" or "renamed" if nothing was copied.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = &self.facts;
        let printed =
            self.details.json().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let whole =
            py.import("json")?.getattr("loads")?.call1((printed,))?.cast_into::<PyDict>()?;
        if self.action != "copied" {
            whole.set_item("event", self.action)?;
        }
        // JSON has no bytes that are not UTF-8, whatever the encoding of the filesystem is.
        if let Details::File { source, destination, .. } = &self.details {
            whole.set_item("source", text(py, source)?)?;
            whole.set_item("destination", text(py, destination)?)?;
        }
        whole.set_item("is_zero_copy", self.is_zero_copy())?;
        let default = |key: &str, value: Bound<'py, PyAny>| {
            if whole.contains(key)? { Ok(()) } else { whole.set_item(key, value) }
        };
        default("destination", self.__str__(py)?)?;
        default("files", facts.files.into_bound_py_any(py)?)?;
        default("directories", facts.directories.into_bound_py_any(py)?)?;
        default("symlinks", facts.symlinks.into_bound_py_any(py)?)?;
        default("durable", facts.durable.into_bound_py_any(py)?)?;
        default("verified", self.verified().into_bound_py_any(py)?)?;
        default("notes", self.notes().into_bound_py_any(py)?)?;
        default("note_codes", self.note_codes().into_bound_py_any(py)?)?;
        Ok(whole)
    }
}

/// Writes a number of bytes as people read it.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.2} {}", UNITS[unit]),
    }
}
