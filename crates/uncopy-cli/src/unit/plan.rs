//! `uncopy unit plan`.

use std::borrow::Cow;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use clap::ArgMatches;
use indicatif::{BinaryBytes, HumanDuration};
use serde::Serialize;
use uncopy::copy::job::Links;
use uncopy::copy::peer::Peer;
use uncopy::unit::UnitError;
use uncopy::unit::format::{Options, Plan, Time};
use uncopy::unit::plan::{
    Beginning, CheckpointPace, DEFAULT_BYTES, Deletion, EntryProblem, PlanError, PlanEvent,
    PlanRequest, PlanRoot, PlanTotals, plan,
};

use super::roots::{self, Sides};
use super::status::since;
use super::{advice, failed, is_lost, words};
use crate::exit::Exit;
use crate::flags::between::Direction;
use crate::flags::unit::PlanArgs;
use crate::job_control::JobControl;
use crate::progress::JobBar;
use crate::remote::{NotServed, Served};
use crate::report::human::counted;
use crate::report::json::{SCHEMA, base64_name, line};
use crate::report::{self, quoted};
use crate::stop::{self, Stop};

/// Plans.
///
/// # Errors
/// A flag or a setting has no valid meaning.
pub(super) fn run(flags: &PlanArgs, given: &ArgMatches) -> Result<Exit, clap::Error> {
    let sides = Sides::of_operands(&flags.from, &flags.to)?;
    let options = words::of(given, &flags.to, sides.direction())?;
    let here = |root: &PathBuf| PlanRoot::Here(root.clone());
    let control = JobControl::new();
    let Some(place) = sides.place() else {
        return make(flags, options, None, [here(&flags.from), here(&flags.to)], &control);
    };
    let connection = words::connection(given, flags.quiet)?;
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    let mut roots = vec![OsString::from(&place.path)];
    if let (Sides::Destination(_), Some(above)) = (&sides, place.path.parent()) {
        roots.push(above.into());
    }
    let served = match Served::begin(&connection, &place.machine, &roots, &stop) {
        Ok(served) => served,
        Err(NotServed::Stopped(by)) => {
            report::say(&format!("stopped by {}; there is no plan", by.name()));
            return Ok(by.end());
        }
        Err(NotServed::Failed(failure)) => return Ok(roots::not_reached(&failure)),
    };
    let there = PlanRoot::There {
        place: place.machine.with_path(&place.path),
        peer: served.source() as Arc<dyn Peer>,
    };
    let roots = match sides {
        Sides::Destination(_) => [here(&flags.from), there],
        _ => [there, here(&flags.to)],
    };
    let exit = make(flags, options, sides.direction(), roots, &control)?;
    Ok(served.end(exit))
}

/// Makes a plan between these roots.
fn make(
    flags: &PlanArgs,
    options: Options,
    between: Option<Direction>,
    [source, destination]: [PlanRoot; 2],
    control: &JobControl,
) -> Result<Exit, clap::Error> {
    let job = words::read(&options, between)?;
    let delete =
        job.delete.map(|delete| Deletion { most: delete.most, empty_source: delete.empty_source });
    let usual = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let request = PlanRequest {
        source,
        destination,
        directory: flags.out.clone(),
        options,
        selection: job.selection,
        one_filesystem: job.one_filesystem,
        skip_links: job.links == Links::Skip,
        specials: job.specials,
        update: job.update,
        compare: job.compare,
        delete,
        files: flags.files.get(),
        bytes: flags.bytes.unwrap_or(DEFAULT_BYTES),
        threads: job.jobs.unwrap_or_else(usual),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        checkpoints: CheckpointPace::Usual,
    };
    let bar = Mutex::new(JobBar::new(!flags.quiet, false, control.clock()));
    let resumed = AtomicU64::new(0);
    let made = plan(&request, &|event| match event {
        PlanEvent::Begun(beginning) => {
            if let Beginning::Resumed { entries, .. } = beginning {
                resumed.store(*entries, Ordering::Relaxed);
            }
            if !flags.quiet {
                let words = beginning_words(&flags.out, beginning, uncopy::unit::now());
                words.iter().for_each(|text| report::say(text));
            }
        }
        PlanEvent::Found(totals) => {
            // Whoever has it draws for the others.
            if let Ok(bar) = bar.try_lock() {
                bar.draw_found(totals.entries, totals.bytes);
            }
        }
        _ => {}
    });
    drop(bar);
    Ok(match made {
        Ok((plan, totals)) => planned(flags, &plan, totals, resumed.into_inner()),
        Err(error) => refused(&error, &flags.out),
    })
}

/// Reports a plan.
fn planned(flags: &PlanArgs, plan: &Plan, totals: PlanTotals, resumed: u64) -> Exit {
    let text = match (flags.json, flags.quiet) {
        (true, _) => json(&flags.out, plan, totals, resumed),
        (false, true) => String::new(),
        (false, false) => words_of(&flags.out, plan, totals, resumed),
    };
    report::print(&text).map_or_else(|error| report::output_failed(&error), |()| Exit::Success)
}

/// Says from where a plan is made, unless that is from the roots as usual.
fn beginning_words(directory: &Path, beginning: &Beginning, now: Time) -> Option<String> {
    let directory = quoted(directory);
    match beginning {
        Beginning::Resumed { entries, made } => {
            let entries = counted(*entries, "entry", "entries");
            let mut text = format!("{directory}: goes on from a checkpoint with {entries}");
            if let Some(age) = since(*made, now) {
                text.push_str(&format!(", made {:#} ago", HumanDuration(age)));
            }
            Some(text)
        }
        Beginning::Anew(reason) => Some(format!("{directory}: begins anew, since {reason}")),
        _ => None,
    }
}

fn words_of(directory: &Path, plan: &Plan, totals: PlanTotals, resumed: u64) -> String {
    let mut text = format!(
        "{}: {} with {} and {}",
        quoted(directory),
        counted(plan.units.into(), "unit", "units"),
        counted(plan.entries, "entry", "entries"),
        BinaryBytes(plan.bytes),
    );
    let further = [
        (totals.deletions, "to delete"),
        (totals.left_out, "left out"),
        (totals.unchanged, "unchanged"),
    ];
    for (count, what) in further {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    if resumed > 0 {
        text.push_str(&format!("; {resumed} of them until a checkpoint from which it went on"));
    }
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Planned<'a> {
    schema: u32,
    event: &'static str,
    directory: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory_base64: Option<String>,
    plan: String,
    units: u32,
    entries: u64,
    bytes: u64,
    deletions: u64,
    left_out: u64,
    unchanged: u64,
    /// Entries until the checkpoint from which the plan went on; 0: it was made in one go.
    resumed: u64,
}

fn json(directory: &Path, plan: &Plan, totals: PlanTotals, resumed: u64) -> String {
    line(&Planned {
        schema: SCHEMA,
        event: "planned",
        directory: directory.to_string_lossy(),
        directory_base64: base64_name(directory),
        plan: plan.id.to_string(),
        units: plan.units,
        entries: plan.entries,
        bytes: plan.bytes,
        deletions: plan.deletions,
        left_out: totals.left_out,
        unchanged: totals.unchanged,
        resumed,
    })
}

/// Reports why there is no plan.
fn refused(error: &PlanError, directory: &Path) -> Exit {
    match error {
        PlanError::Unit(UnitError::System(error)) if !is_lost(error) => {
            report::say(&advice::of_plan(error, directory));
        }
        PlanError::Unit(error) => return failed(error),
        PlanError::Entries { first, total } => {
            for problem in first {
                match problem {
                    EntryProblem::System(error) => {
                        report::say(&advice::of_plan(error, directory));
                    }
                    problem => report::say(&problem.to_string()),
                }
            }
            let entries = counted(*total, "entry", "entries");
            report::say(&format!(
                "{entries} cannot be planned, so there is no plan; remove the cause, or leave them out with \
                 --exclude, and plan again"
            ));
        }
        PlanError::EmptySource { .. } => report::say(&format!(
            "{error}; mount it if it is not mounted, or pass --delete-empty-source"
        )),
        PlanError::TooManyDeletions { .. } => report::say(&format!(
            "{error}; look whether SRC and DST are the right ones, or raise --max-delete"
        )),
        PlanError::OtherRequest { directory, .. } => report::say(&format!(
            "{error}; give that command again to go on with it, name another directory, or remove {}",
            quoted(directory)
        )),
        PlanError::TooManyUnits => report::say(&format!("{error}, with --files and --bytes")),
        error => report::say(&error.to_string()),
    }
    Exit::Failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use uncopy::unit::plan::AnewReason;

    #[test]
    fn says_from_where_a_plan_is_made() {
        let changed = AnewReason::Changed { directory: "/s/d".into() };
        let resumed = |entries| Beginning::Resumed { entries, made: Time(1_000, 0) };
        for (beginning, expected) in [
            (Beginning::New, None),
            (resumed(1), Some("goes on from a checkpoint with 1 entry, made 5m ago")),
            (
                Beginning::Anew(changed),
                Some("begins anew, since /s/d has changed since the checkpoint"),
            ),
        ] {
            let found = beginning_words(Path::new("plan"), &beginning, Time(1_300, 0));
            assert_eq!(found.is_some(), expected.is_some());
            let (found, expected) = (found.unwrap_or_default(), expected.unwrap_or_default());
            assert!(found.contains(expected), "{found}");
        }
        let found = beginning_words(Path::new("plan"), &resumed(2), Time(900, 0)).unwrap();
        assert!(found.ends_with("with 2 entries"), "{found}");
    }
}
