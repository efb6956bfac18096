//! `uncopy unit plan`.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;

use clap::ArgMatches;
use indicatif::BinaryBytes;
use serde::Serialize;
use uncopy::System;
use uncopy::copy::job::Links;
use uncopy::unit::format::Plan;
use uncopy::unit::plan::{
    DEFAULT_BYTES, Deletion, EntryProblem, PlanError, PlanRequest, PlanTotals, plan,
};

use super::{sentence, words};
use crate::exit::Exit;
use crate::flags::operand::{Operand, Place};
use crate::flags::unit::PlanArgs;
use crate::job_control::JobControl;
use crate::progress::JobBar;
use crate::report::human::counted;
use crate::report::json::{SCHEMA, base64_name, line};
use crate::report::{self, Failure, quoted};

/// Plans.
///
/// # Errors
/// A flag or a setting has no valid meaning.
pub(super) fn run(flags: &PlanArgs, given: &ArgMatches) -> Result<Exit, clap::Error> {
    for root in [&flags.from, &flags.to] {
        refuse_other_machine(root)?;
    }
    let options = words::of(given, &flags.to)?;
    let job = words::read(&options)?;
    let delete =
        job.delete.map(|delete| Deletion { most: delete.most, empty_source: delete.empty_source });
    let usual = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let request = PlanRequest {
        source: flags.from.clone(),
        destination: flags.to.clone(),
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
    };
    let control = JobControl::default();
    let bar = Mutex::new(JobBar::new(!flags.quiet, false, control.clock()));
    let made = plan(&request, &|totals| {
        // Whoever has it draws for the others.
        if let Ok(bar) = bar.try_lock() {
            bar.draw_found(totals.entries, totals.bytes);
        }
    });
    drop(bar);
    Ok(match made {
        Ok((plan, totals)) => planned(flags, &plan, totals),
        Err(error) => refused(&error),
    })
}

/// Refuses a root on another machine: workers open both by their paths.
fn refuse_other_machine(root: &Path) -> Result<(), clap::Error> {
    match Operand::parse(root.as_os_str(), System::HERE) {
        Ok(Operand::Here(_)) => Ok(()),
        Ok(Operand::There(Place { machine, path })) => Err(words::misuse(&format!(
            "{} is on another machine, and units open both roots by their paths: mount it here, or where both \
             are there run `ssh {machine} uncopy unit plan` with {}; `uncopy cp -r` copies between machines",
            root.display(),
            path.display()
        ))),
        Err(bad) => Err(words::misuse(&bad.to_string())),
    }
}

/// Reports a plan.
fn planned(flags: &PlanArgs, plan: &Plan, totals: PlanTotals) -> Exit {
    let text = match (flags.json, flags.quiet) {
        (true, _) => json(&flags.out, plan, totals),
        (false, true) => String::new(),
        (false, false) => words_of(&flags.out, plan, totals),
    };
    report::print(&text).map_or_else(|error| report::output_failed(&error), |()| Exit::Success)
}

fn words_of(directory: &Path, plan: &Plan, totals: PlanTotals) -> String {
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
}

fn json(directory: &Path, plan: &Plan, totals: PlanTotals) -> String {
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
    })
}

/// Reports why there is no plan.
fn refused(error: &PlanError) -> Exit {
    match error {
        PlanError::Unit(error) => report::say(&sentence(error)),
        PlanError::Entries { first, total } => {
            for problem in first {
                match problem {
                    EntryProblem::System(error) => report::say(&Failure::from(error).to_string()),
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
        PlanError::TooManyUnits => report::say(&format!("{error}, with --files and --bytes")),
        error => report::say(&error.to_string()),
    }
    Exit::Failure
}
