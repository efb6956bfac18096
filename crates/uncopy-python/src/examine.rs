//! Capabilities and the doctor's reports, as dictionaries that the Python half makes objects of.

use std::net::ToSocketAddrs;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use uncopy::Errno;
use uncopy::capabilities::{Answer, storage};
use uncopy::copy::CopyOptions;
use uncopy::doctor::{DoctorFinding, Options, Report, Target, examine};

use crate::ending::without_lock;
use crate::failure;
use crate::path::{PathArgument, text};

/// Returns what filesystem and device of a path can do, found out by trying.
#[pyfunction]
pub(crate) fn capabilities<'py>(path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = path.py();
    let path = PathArgument::of(path)?;
    let found = without_lock(py, || storage(&path.path));
    let found = found.map_err(|error| failure::of_copy(py, &error, &path, &path))?;
    let facts = PyDict::new(py);
    facts.set_item("path", text(py, &found.path)?)?;
    facts.set_item("directory", text(py, &found.directory)?)?;
    facts.set_item("filesystem", found.filesystem.to_string())?;
    let device = PyDict::new(py);
    device.set_item("name", &found.device.name)?;
    device.set_item("kind", found.device.kind.name())?;
    device.set_item("rotational", found.device.rotational)?;
    device.set_item("transport", found.device.transport)?;
    facts.set_item("device", device)?;
    let sharing = match &found.copy_file_range {
        Answer::Yes(sharing) => Some(sharing.name()),
        _ => None,
    };
    let copy_file_range = answer(py, &found.copy_file_range)?;
    copy_file_range.set_item("sharing", sharing)?;
    facts.set_item("copy_file_range", copy_file_range)?;
    let direct = answer(py, &found.direct_write)?;
    let alignment = found.direct_alignment.as_ref();
    direct.set_item("memory_alignment_bytes", alignment.map(|a| a.memory_bytes))?;
    direct.set_item("offset_alignment_bytes", alignment.map(|a| a.offset_bytes))?;
    facts.set_item("direct", direct)?;
    for (name, found) in [
        ("reflink", &found.reflink),
        ("holes", &found.holes),
        ("seek_hole", &found.seek_hole),
        ("punch_hole", &found.punch_hole),
        ("fallocate", &found.fallocate),
        ("unnamed_files", &found.unnamed_files),
        ("rename_noreplace", &found.rename_noreplace),
    ] {
        facts.set_item(name, answer(py, found)?)?;
    }
    Ok(facts)
}

/// Makes a dictionary of an answer: `works` is a boolean, or None where it is unknown.
fn answer<'py, T>(py: Python<'py>, answer: &Answer<T>) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    let (works, errno, reason) = match answer {
        Answer::Yes(_) => (Some(true), None, None),
        Answer::No { errno, reason } => (Some(false), *errno, Some(reason)),
        Answer::Unknown { reason } => (None, None, Some(reason)),
    };
    facts.set_item("works", works)?;
    facts.set_item("errno", errno.map(Errno::raw))?;
    facts.set_item("code", reason.map(|reason| reason.code()))?;
    facts.set_item("reason", reason.map(ToString::to_string))?;
    Ok(facts)
}

/// Returns why the bytes of a copy are copied or not.
#[pyfunction]
pub(crate) fn doctor<'py>(
    src: &Bound<'py, PyAny>,
    dst: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = src.py();
    let (source, destination) = (PathArgument::of(src)?, PathArgument::of(dst)?);
    let target = Target::Copy {
        source: source.path.clone(),
        destination: destination.path.clone(),
        options: CopyOptions::new(),
    };
    let report = without_lock(py, || examine(&target, &Options::new()));
    let report = report.map_err(|error| failure::of_copy(py, &error, &source, &destination))?;
    report_facts(py, &report)
}

/// Returns why what is sent over TCP to an address, "host:port", is copied or not. Nothing is sent.
#[pyfunction]
pub(crate) fn doctor_tcp<'py>(py: Python<'py>, address: &str) -> PyResult<Bound<'py, PyDict>> {
    let found = without_lock(py, || address.to_socket_addrs().map(|mut found| found.next()));
    let to = match found {
        Ok(Some(to)) => to,
        Ok(None) => return Err(PyValueError::new_err(format!("{address} has no address"))),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
            let words = format!("{address:?} is no host and port: {error}");
            return Err(PyValueError::new_err(words));
        }
        Err(error) => return Err(error.into()),
    };
    let report = without_lock(py, || examine(&Target::Tcp(to), &Options::new()));
    report_facts(py, &report.map_err(|error| failure::of_socket(py, &error))?)
}

fn report_facts<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("target", &report.target)?;
    facts.set_item("verdict", report.verdict.name())?;
    facts.set_item("headline", &report.headline)?;
    let findings = PyList::empty(py);
    for finding in &report.findings {
        findings.append(finding_facts(py, finding)?)?;
    }
    facts.set_item("findings", findings)?;
    let examined = PyList::empty(py);
    for fact in &report.facts {
        let row = PyDict::new(py);
        row.set_item("name", fact.name)?;
        row.set_item("value", &fact.value)?;
        examined.append(row)?;
    }
    facts.set_item("facts", examined)?;
    let mechanisms = PyList::empty(py);
    for tried in &report.mechanisms {
        let row = answer(py, &tried.answer)?;
        row.set_item("mechanism", tried.mechanism.name())?;
        let cost = match &tried.answer {
            Answer::Yes(cost) => Some(cost.name()),
            _ => None,
        };
        row.set_item("cost", cost)?;
        row.set_item("proof", &tried.proof)?;
        row.set_item("passed_over", tried.passed_over.map(|reason| reason.code()))?;
        mechanisms.append(row)?;
    }
    facts.set_item("mechanisms", mechanisms)?;
    Ok(facts)
}

fn finding_facts<'py>(py: Python<'py>, finding: &DoctorFinding) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("id", finding.condition.id)?;
    facts.set_item("severity", finding.severity.name())?;
    facts.set_item("summary", finding.summary.to_string())?;
    facts.set_item("effect", finding.effect.to_string())?;
    facts.set_item("next_step", finding.next_step.as_ref().map(ToString::to_string))?;
    facts.set_item("needs_root", finding.needs_root)?;
    let evidence = PyList::empty(py);
    for seen in &finding.evidence {
        let row = PyDict::new(py);
        row.set_item("source", seen.source)?;
        row.set_item("found", &seen.found)?;
        evidence.append(row)?;
    }
    facts.set_item("evidence", evidence)?;
    Ok(facts)
}
