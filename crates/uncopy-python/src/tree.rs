//! Copying a tree: the engine's workers, watched from the caller's thread.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBool, PyCFunction, PyDict, PyList, PyString, PyTuple};
use uncopy::Error;
use uncopy::copy::Control;
use uncopy::copy::job::{
    EntryKind, EntryOutcome, HardLinks, JobObserver, JobOptions, JobProgress, Links, OnError,
    Record, Remover, copy_trees_observed,
};

use crate::ending::without_lock;
use crate::failure;
use crate::interrupt::{Progress, report, run_beside};
use crate::options::{check_callback, copy_options};
use crate::path::PathArgument;
use crate::receipt::{MAX_NOTES, Receipt, VerifiedFiles};

/// Entry that was not copied: the reason, or none for a special file.
struct Failed {
    source: PathBuf,
    destination: PathBuf,
    error: Option<Error>,
}

/// Reports of the workers.
#[derive(Default)]
struct Reports {
    stop: AtomicBool,
    /// Whether files are verified, which their records show.
    verifies: bool,
    entries: AtomicU64,
    bytes: AtomicU64,
    failed: Mutex<Vec<Failed>>,
    /// Whether all was copied, and files of the source are removed.
    removes: AtomicBool,
    /// Entries of the source that could not be removed.
    stayed: Mutex<Vec<Failed>>,
    verified: Mutex<VerifiedFiles>,
    notes: Mutex<Vec<(&'static str, String)>>,
}

impl JobObserver for Reports {
    fn progress(&self, progress: JobProgress) -> Control {
        self.entries.store(progress.entries, Ordering::Relaxed);
        self.bytes.store(progress.bytes, Ordering::Relaxed);
        if self.stop.load(Ordering::Relaxed) { Control::Stop } else { Control::Continue }
    }

    fn wants_records(&self) -> bool {
        self.verifies
    }

    fn may_remove(&self) -> bool {
        let is_whole = lock(&self.failed).is_empty();
        self.removes.store(is_whole, Ordering::Relaxed);
        is_whole
    }

    fn finished(&self, record: &Record) {
        let failed = |error| Failed {
            source: record.source.clone(),
            destination: record.destination.clone(),
            error,
        };
        let notes = match &record.outcome {
            EntryOutcome::Failed(error) => {
                let is_copied = self.removes.load(Ordering::Relaxed);
                let list = if is_copied { &self.stayed } else { &self.failed };
                lock(list).push(failed(Some(error.clone())));
                return;
            }
            EntryOutcome::Skipped { .. } if record.kind == EntryKind::Special => {
                lock(&self.failed).push(failed(None));
                return;
            }
            EntryOutcome::Copied(receipt) => {
                lock(&self.verified).count(receipt);
                &receipt.notes
            }
            EntryOutcome::Made { notes, .. } => notes,
            _ => return,
        };
        let mut all = lock(&self.notes);
        let room = MAX_NOTES.saturating_sub(all.len());
        let name = record.destination.display();
        all.extend(notes.iter().take(room).map(|note| (note.code(), format!("{name}: {note}"))));
    }
}

/// Locks, also after a panic elsewhere: the lists are whole between any two calls.
fn lock<T>(list: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    list.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Removers that the end of the interpreter waits for, with the process whose threads remove: a child that was forked
/// would wait for ever.
static REMOVING: Mutex<Vec<(u32, Remover)>> = Mutex::new(Vec::new());

/// Waits for the removers of this process, which no Ctrl-C interrupts.
pub(crate) fn wait_for_removers(py: Python<'_>) {
    without_lock(py, || {
        let removing = std::mem::take(&mut *lock(&REMOVING));
        let own = removing.iter().filter(|(process, _)| *process == std::process::id());
        own.for_each(|(_, remover)| remover.wait());
    });
}

/// Has the end of the interpreter wait for the remover, also by a thread of Python: children of `multiprocessing` wait for
/// no more.
fn have_exit_wait(py: Python<'_>, remover: &Remover) -> PyResult<()> {
    let mut removing = lock(&REMOVING);
    removing.retain(|(_, remover)| !remover.is_done());
    removing.push((std::process::id(), remover.clone()));
    drop(removing);
    let remover = remover.clone();
    let wait = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
        without_lock(arguments.py(), || remover.wait());
    };
    let wait = PyCFunction::new_closure(py, None, None, wait)?;
    let (name, is_daemon) = (PyString::new(py, "uncopy removes"), PyBool::new(py, false));
    let options =
        [("target", wait.as_any()), ("name", name.as_any()), ("daemon", is_daemon.as_any())];
    let thread = py.import("threading")?.getattr("Thread")?;
    thread.call((), Some(&options.into_py_dict(py)?))?.call_method0("start").map(drop)
}

/// Returns entries as source, destination and exception (`None` for a special file).
fn listed<'py>(
    py: Python<'py>,
    failed: &Mutex<Vec<Failed>>,
    [src, dst]: [&PathArgument; 2],
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for Failed { source, destination, error } in lock(failed).iter() {
        let (source, destination) = (src.below(py, source)?, dst.below(py, destination)?);
        let error = match error {
            Some(error) => {
                let names = [&source, &destination].map(|name| name.clone().unbind());
                let [source, destination] = names;
                Some(failure::exception(py, error, source, destination)?)
            }
            None => None,
        };
        list.append((source, destination, error))?;
    }
    Ok(list)
}

/// Result of copying a tree: its receipt, the entries that failed, those of the source that could not be removed, and the
/// exception that ended the job, if one did.
type CopiedTree<'py> = (Receipt, Bound<'py, PyList>, Bound<'py, PyList>, Option<Bound<'py, PyAny>>);

/// Copies the tree `src` to `dst`. If it `removes`, the files of `src` are removed as far as they are as they were copied,
/// once all is copied.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "a call of the Python half has them one by one")]
pub(crate) fn copy_tree<'py>(
    src: &Bound<'py, PyAny>,
    dst: &Bound<'py, PyAny>,
    symlinks: bool,
    removes: bool,
    require: Option<&Bound<'py, PyAny>>,
    durable: &Bound<'py, PyAny>,
    verify: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<CopiedTree<'py>> {
    let py = src.py();
    let (source, destination) = (PathArgument::of(src)?, PathArgument::of(dst)?);
    let each = copy_options("stat", require, durable, verify)?;
    check_callback(progress)?;
    let (remover, is_durable) = (Remover::new(), each.durable);
    let reports = Reports { verifies: each.verify.is_some(), ..Reports::default() };
    let options = JobOptions::new()
        .copy(each)
        .links(if symlinks { Links::Preserve } else { Links::Follow })
        .follow_outside(!symlinks)
        .follow_roots(true)
        // As `shutil` goes on: a tree that was left behind under another name would take the space for ever.
        .on_error(OnError::Skip)
        .hard_links(HardLinks::Separate)
        .remove_source(removes)
        .remover(remover.clone());
    let tick = |_: Python<'_>| match progress {
        Some(callback) => {
            let entries = reports.entries.load(Ordering::Relaxed);
            let point = Progress::of_tree(entries, reports.bytes.load(Ordering::Relaxed));
            report(callback, point)
        }
        None => Ok(()),
    };
    let pair = [(&source.path, &destination.path)];
    let job = run_beside(py, &reports.stop, tick, || copy_trees_observed(pair, &options, &reports));
    if !remover.is_done() {
        let is_interrupted = job.as_ref().is_err_and(|stopped| stopped.is_interrupt);
        if !is_interrupted || have_exit_wait(py, &remover).is_err() {
            without_lock(py, || remover.wait());
        }
    }
    let (summary, cause) = match job.map_err(|stopped| stopped.raised)? {
        Ok(summary) => (summary, None),
        Err(ended) => {
            let (summary, cause) = ended.into_parts();
            let source = source.object.clone_ref(py);
            let destination = destination.object.clone_ref(py);
            (summary, Some(failure::exception(py, &cause, source, destination)?))
        }
    };
    let notes = lock(&reports.notes).clone();
    let verified = *lock(&reports.verified);
    let object = destination.object.clone_ref(py);
    let receipt = Receipt::of_tree(object, &summary, is_durable, verified, notes);
    let names = [&source, &destination];
    Ok((receipt, listed(py, &reports.failed, names)?, listed(py, &reports.stayed, names)?, cause))
}
