//! Examines copies of files.

mod directory;
mod findings;

use std::path::Path;

use super::Options;
use super::report::{Report, ReportFact, TriedMechanism};
use uncopy_copy::CopyOptions;
use uncopy_copy::follow;
use uncopy_copy::forecast::{Forecast, forecast};
use uncopy_core::{Error, Reason, Result};
use uncopy_os::capabilities::{Device, DeviceKind};

/// Examines a copy of a file or directory.
///
/// # Errors
/// The copy cannot start.
pub(super) fn copy(
    source: &Path,
    destination: &Path,
    how: &CopyOptions,
    options: &Options,
) -> Result<Report> {
    how.check().map_err(|found| Error::new("write to", destination, Reason::Options(found)))?;
    if follow::metadata(source).is_ok_and(|found| found.is_dir()) {
        return directory::copy(source, destination, how, options);
    }
    let found = forecast(source, destination, how)?;
    Ok(of(source, destination, &found, how, options))
}

fn of(
    source: &Path,
    destination: &Path,
    found: &Forecast,
    how: &CopyOptions,
    options: &Options,
) -> Report {
    let target = format!("{} -> {}", source.display(), destination.display());
    let findings = findings::findings(found, how.verify.is_some(), &options.settings);
    let subject = format!("{} to {}", source.display(), destination.display());
    let mut report = Report::conclude(target, &subject, findings, report_facts(found));
    report.mechanisms = found.mechanisms.iter().map(tried_mechanism).collect();
    report
}

fn tried_mechanism(tried: &uncopy_copy::forecast::MechanismForecast) -> TriedMechanism {
    TriedMechanism {
        mechanism: tried.mechanism,
        answer: tried.answer.clone(),
        proof: tried.proof.clone(),
        passed_over: tried.passed_over,
    }
}

/// Returns the examined facts for the report.
fn report_facts(found: &Forecast) -> Vec<ReportFact> {
    let facts = &found.facts;
    let cached = found.cached_bytes.map(|bytes| bytes.min(found.source_bytes));
    let cached = cached.map_or("not known".to_owned(), |bytes| format!("{bytes} bytes"));
    let source = format!(
        "{} bytes, {} of them stored, {cached} in the page cache; {}{}",
        found.source_bytes,
        facts.data_bytes.min(found.source_bytes),
        facts.source,
        on(&found.source_device)
    );
    let align =
        found.destination_align.map_or("none".to_owned(), |a| format!("{} bytes", a.offset));
    let destination = format!(
        "{}{}; alignment of direct writes: {align}",
        facts.destination,
        on(&found.destination_device)
    );
    let choice = match found.choice {
        _ if found.is_empty => "nothing".to_owned(),
        None => "none".to_owned(),
        Some(_) if !found.mechanisms.iter().any(|tried| tried.answer.is_yes()) => {
            "unknown, as nothing could be tried".to_owned()
        }
        Some(_) if !found.rivals.is_empty() => {
            let names: Vec<&str> = found.rivals.iter().map(|rival| rival.name()).collect();
            format!("the quickest of {}, by a short trial on the file itself", names.join(", "))
        }
        Some((mechanism, cost)) => format!("{mechanism} ({cost})"),
    };
    vec![
        ReportFact { name: "source", value: source },
        ReportFact { name: "into", value: destination },
        ReportFact { name: "way", value: choice },
    ]
}

/// Describes the block device of a filesystem.
fn on(device: &Device) -> String {
    if device.kind == DeviceKind::Anonymous {
        return String::new();
    }
    let spins = match device.rotational {
        Some(true) => ", rotational",
        Some(false) => ", not rotational",
        None => "",
    };
    let transport = device.transport.map(|name| format!(", {name}")).unwrap_or_default();
    format!(" on {} ({}{transport}{spins})", device.name, device.kind.name())
}
