//! `uncopy unit run`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ArgMatches;
use indicatif::BinaryBytes;
use serde::Serialize;
use serde_json::Value;
use uncopy::Leftovers;
use uncopy::copy::Control;
use uncopy::copy::job::{EntryOutcome, JobObserver, JobOptions, JobProgress, Record, Summary};
use uncopy::copy::peer::Peer;
use uncopy::unit::UnitError;
use uncopy::unit::format::{Header, PlanId, RelativePath, Root, UnitNumber};
use uncopy::unit::ledger::{self, Failure, FailureKind};
use uncopy::unit::plan::{PLAN_FILE, read_plan};
use uncopy::unit::run::{Ran, Unit};

use super::notes::{NoteCounts, has_notes};
use super::roots::{self, Sides};
use super::{advice, failed, words};
use crate::cp::Signals;
use crate::exit::Exit;
use crate::flags::between::Direction;
use crate::flags::unit::RunArgs;
use crate::job_control::JobControl;
use crate::progress::JobBar;
use crate::remote::{NotServed, Served, UnitJob};
use crate::report;
use crate::report::human::counted;
use crate::report::json::{self, SCHEMA};
use crate::stop::{self, Stop};

/// Does a unit.
///
/// # Errors
/// The options of the unit make no sense to this version.
pub(super) fn run(flags: &RunArgs, given: &ArgMatches) -> Result<Exit, clap::Error> {
    let unit = match Unit::read(&flags.unit) {
        Ok(unit) => unit,
        Err(UnitError::System(error)) if error.is_not_found() => {
            report::say(&advice::of_missing_unit(&error));
            return Ok(Exit::Failure);
        }
        Err(error) => return Ok(failed(&error)),
    };
    let header = unit.header();
    let sides = Sides::of_roots(&header.source, &header.destination)?;
    let options = match options_of(header, sides.direction(), &flags.unit) {
        Ok(options) => options,
        Err(exit) => return Ok(exit),
    };
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    let control = JobControl::new();
    let signals = Signals { stop: &stop, control: &control };
    let Some(place) = sides.place() else {
        return Ok(do_unit(&unit, None, &options, flags, signals));
    };
    if let Err(exit) = beside_plan(&flags.unit, header) {
        return Ok(exit);
    }
    let connection = words::connection(given, flags.quiet)?;
    if let Sides::Destination(place) = &sides {
        let job = UnitJob {
            digest: unit.digest().to_owned(),
            destination: place.path.clone(),
            json: flags.json,
            quiet: flags.quiet,
        };
        let source = header.source.as_path();
        return Ok(job.push(&connection, &place.machine, source, &flags.unit, &stop));
    }
    let served = match Served::begin(&connection, &place.machine, &[(&place.path).into()], &stop) {
        Ok(served) => served,
        Err(NotServed::Stopped(by)) => {
            report::say(&format!("stopped by {}; nothing was copied", by.name()));
            return Ok(by.end());
        }
        Err(NotServed::Failed(failure)) => return Ok(roots::not_reached(&failure)),
    };
    let source: Arc<dyn Peer> = served.source();
    let exit = do_unit(&unit, Some(&source), &options, flags, signals);
    Ok(served.end(exit))
}

/// Does a unit on the machine of its destination, for the one that has its source and its file. `shown` names that for
/// people.
pub(crate) fn do_for_other_machine(
    job: &UnitJob,
    source: &Arc<dyn Peer>,
    shown: &Path,
    stop: &Stop,
) -> Exit {
    let absolute =
        std::path::absolute(&job.destination).unwrap_or_else(|_| job.destination.clone());
    let destination = match Root::new(absolute) {
        Ok(destination) => destination,
        Err(problem) => {
            report::say(&format!("cannot use {}: {problem}", report::quoted(&job.destination)));
            return Exit::Usage;
        }
    };
    let unit = match Unit::read_from(source, 1, shown, destination) {
        Ok(unit) => unit,
        Err(error) => return failed(&error),
    };
    if unit.digest() != job.digest {
        report::say(&format!("{} was replaced meanwhile; run it again", report::quoted(shown)));
        return Exit::Failure;
    }
    let options = match options_of(unit.header(), Some(Direction::Push), shown) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    let flags = RunArgs { unit: shown.to_owned(), quiet: job.quiet, json: job.json };
    let signals = Signals { stop, control: &JobControl::new() };
    do_unit(&unit, Some(source), &options, &flags, signals)
}

/// Reads the options of a unit. What is wrong with them is reported: nobody gave them on this command line.
fn options_of(
    header: &Header,
    between: Option<Direction>,
    unit: &Path,
) -> Result<JobOptions, Exit> {
    words::read(&header.options, between).map_err(|error| {
        let text = error.render().to_string();
        let reason = text.lines().next().unwrap_or_default();
        report::say(&format!(
            "cannot use the options of {}: {}; use the uncopy that made the plan, or make the plan anew",
            report::quoted(unit),
            reason.trim_start_matches("error: ")
        ));
        Exit::Usage
    })
}

/// Refuses a unit with a root on another machine that does not lie beside its plan: whoever can write a file
/// somewhere must not lead a worker to a machine that no plan names.
fn beside_plan(unit: &Path, header: &Header) -> Result<(), Exit> {
    let absolute = std::path::absolute(unit).unwrap_or_else(|_| unit.to_owned());
    let directory = absolute.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let plan = read_plan(directory).map_err(|error| failed(&error))?;
    let is_of_plan = (plan.id, &plan.source, &plan.destination)
        == (header.plan, &header.source, &header.destination);
    match is_of_plan {
        true => Ok(()),
        false => {
            report::say(&format!(
                "{} names another plan or other roots than {}; a unit with a root on another machine is done \
                 beside its plan: make the plan anew",
                report::quoted(unit),
                report::quoted(&directory.join(PLAN_FILE))
            ));
            Err(Exit::Usage)
        }
    }
}

/// Does a unit whose destination is here, and reports it.
fn do_unit(
    unit: &Unit,
    source: Option<&Arc<dyn Peer>>,
    options: &JobOptions,
    flags: &RunArgs,
    signals: Signals<'_>,
) -> Exit {
    let Signals { stop, control } = signals;
    stop.listen();
    control.listen();
    let bar = JobBar::new(!flags.quiet && !flags.json, false, control.clock());
    let digests = options.copy.digest.is_some().then(Mutex::default);
    let root = unit.header().source.as_path().to_owned();
    let (notes, leftovers) = (Mutex::default(), Mutex::default());
    let watch = Watch { stop, control, bar, source: root, digests, notes, leftovers };
    let receipt = |summary: &Summary| watch.receipt(summary);
    let ran = unit.run(source, options, &watch, &receipt, &advice::of_entry);
    let Watch { bar, notes, leftovers, .. } = watch;
    drop(bar);
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => return failed(&error),
    };
    let text = match (flags.json, flags.quiet) {
        (true, _) => json(unit, &ran),
        (false, true) => String::new(),
        (false, false) => words_of(&ran, unit.header().unit),
    };
    let printed = report::print(&text);
    if !flags.json && !flags.quiet {
        let notes: NoteCounts = notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        notes.lines().for_each(|line| report::say(&line));
    }
    if !flags.json {
        report::warn_about(&leftovers.into_inner().unwrap_or_else(PoisonError::into_inner));
        explain(&ran, unit.header().unit);
    }
    if let Some(signal) = stop.requested() {
        return signal.end();
    }
    let exit = exit_of(&ran);
    printed.map_or_else(|error| exit.and(report::output_failed(&error)), |()| exit)
}

/// Watches the copies of a unit.
struct Watch<'a> {
    stop: &'a Stop,
    control: &'a JobControl,
    bar: JobBar,
    source: std::path::PathBuf,
    digests: Option<Mutex<Vec<DigestOf>>>,
    notes: Mutex<NoteCounts>,
    /// Entries that look like leftovers of earlier copies, and stay.
    leftovers: Mutex<Leftovers>,
}

/// Digest of a file, as the record of a unit keeps it.
#[derive(Serialize)]
struct DigestOf {
    path: RelativePath,
    algorithm: &'static str,
    digest: String,
}

impl JobObserver for Watch<'_> {
    fn progress(&self, progress: JobProgress) -> Control {
        if self.stop.requested().is_some() {
            return Control::Stop;
        }
        self.control.handle_signals();
        if self.control.take_status_request() {
            self.bar.print_status(progress);
        }
        self.bar.draw(progress);
        Control::Continue
    }

    fn wants_records(&self) -> bool {
        true
    }

    fn finished(&self, record: &Record) {
        // The path is only made for what is kept.
        let digest = match (&self.digests, &record.outcome) {
            (Some(digests), EntryOutcome::Copied(receipt)) => {
                receipt.source_digest.as_ref().map(|digest| (digests, digest))
            }
            _ => None,
        };
        if digest.is_none() && !has_notes(&record.outcome) {
            return;
        }
        let path = record.source.strip_prefix(&self.source).ok().map(|below| match below {
            below if below == Path::new("") => Ok(RelativePath::root()),
            below => RelativePath::new(below),
        });
        let Some(Ok(path)) = path else { return };
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.add(&path, &record.outcome);
        drop(notes);
        if let Some((digests, digest)) = digest {
            let (algorithm, digest) = (digest.algorithm, digest.value.clone());
            let mut digests = digests.lock().unwrap_or_else(PoisonError::into_inner);
            digests.push(DigestOf { path, algorithm, digest });
        }
    }
}

impl Watch<'_> {
    /// Makes what the record keeps: the summary as `uncopy cp --json` prints it, notes, and digests.
    fn receipt(&self, summary: &Summary) -> Value {
        let leftovers = summary.leftovers.clone();
        *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner) = leftovers;
        let mut receipt = serde_json::from_str(&json::summary(summary, None)).unwrap_or_default();
        if let Value::Object(receipt) = &mut receipt {
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).put_into(receipt);
        }
        if let (Value::Object(receipt), Some(digests)) = (&mut receipt, &self.digests) {
            let digests = &*digests.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(digests) = serde_json::to_value(digests)
                && !digests.as_array().is_some_and(Vec::is_empty)
            {
                receipt.insert("digests".to_owned(), digests);
            }
        }
        receipt
    }
}

/// Decides how the program ends.
fn exit_of(ran: &Ran) -> Exit {
    match ran {
        Ran::Done(_) | Ran::DoneBefore(_) => Exit::Success,
        Ran::NotYet { .. } | Ran::Overtaken => Exit::NotFinished,
        Ran::Failed(failure) => {
            let of_kinds = failure.reasons.iter().map(|reason| match reason.kind {
                FailureKind::SourceChanged => Exit::SourceChanged,
                FailureKind::Verification => Exit::VerificationFailed,
                FailureKind::NotYet => Exit::NotFinished,
                _ => Exit::Failure,
            });
            of_kinds.reduce(Exit::and).unwrap_or(Exit::Failure)
        }
    }
}

fn words_of(ran: &Ran, unit: UnitNumber) -> String {
    match ran {
        Ran::Done(record) => {
            let ledger::Record { done, attempt, .. } = &**record;
            let mut text = format!(
                "unit {unit}: {}, {}",
                counted(done.entries, "entry", "entries"),
                BinaryBytes(done.bytes)
            );
            if done.deleted > 0 {
                text.push_str(&format!(", {} deleted", done.deleted));
            }
            if let Some(changed) = record.receipt["source_directories_changed"].as_u64() {
                text.push_str(&format!(
                    ", {} of the source changed since the plan: what came since is not copied",
                    counted(changed, "directory", "directories")
                ));
            }
            if *attempt > 1 {
                text.push_str(&format!(", by attempt {attempt}"));
            }
            text.push('\n');
            text
        }
        Ran::DoneBefore(record) => {
            format!("unit {unit}: already done on {}\n", report::printable(&record.worker.host))
        }
        Ran::Failed(_) | Ran::NotYet { .. } | Ran::Overtaken => String::new(),
    }
}

/// Says why the unit is not done.
fn explain(ran: &Ran, unit: UnitNumber) {
    match ran {
        Ran::Done(_) | Ran::DoneBefore(_) => {}
        Ran::Failed(failure) => {
            for reason in &failure.reasons {
                report::say(&reason.message);
            }
            let further = failure.failed.saturating_sub(failure.reasons.len() as u64);
            let more = if further > 0 { format!(" ({further} not shown)") } else { String::new() };
            let needs_plan =
                |kind| matches!(kind, FailureKind::SourceChanged | FailureKind::Conflict);
            let rest = match failure.reasons.iter().all(|reason| needs_plan(reason.kind)) {
                true => "a new plan takes up the rest",
                false => "another run goes on from there",
            };
            report::say(&format!(
                "unit {unit} is not done: {} failed{more}; what was copied stays, and {rest}",
                counted(failure.failed, "entry", "entries")
            ));
        }
        Ran::NotYet { missing, first } => {
            let named: Vec<String> = first.iter().map(ToString::to_string).collect();
            let dots = if *missing > first.len() as u64 { ", …" } else { "" };
            report::say(&format!(
                "unit {unit} is the last one, and {} must be done before: {}{dots}",
                counted(*missing, "unit", "units"),
                named.join(", ")
            ));
        }
        Ran::Overtaken => report::say(&format!(
            "unit {unit} was begun by another worker since, which goes on with it; `uncopy unit status` shows who"
        )),
    }
}

#[derive(Serialize)]
struct OfUnit<'a> {
    schema: u32,
    event: &'static str,
    plan: PlanId,
    unit: UnitNumber,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a ledger::Record>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<u64>,
    #[serde(skip_serializing_if = "<[UnitNumber]>::is_empty")]
    missing_units: &'a [UnitNumber],
}

fn json(unit: &Unit, ran: &Ran) -> String {
    let (state, record, failure, missing, missing_units) = match ran {
        Ran::Done(record) => ("done", Some(&**record), None, None, &[][..]),
        Ran::DoneBefore(record) => ("done_before", Some(&**record), None, None, &[][..]),
        Ran::Failed(failure) => ("failed", None, Some(&**failure), None, &[][..]),
        Ran::NotYet { missing, first } => ("not_yet", None, None, Some(*missing), &first[..]),
        Ran::Overtaken => ("overtaken", None, None, None, &[][..]),
    };
    let header = unit.header();
    let (plan, unit) = (header.plan, header.unit);
    let (schema, event) = (SCHEMA, "unit");
    json::line(&OfUnit {
        schema,
        event,
        plan,
        unit,
        state,
        record,
        failure,
        missing,
        missing_units,
    })
}
