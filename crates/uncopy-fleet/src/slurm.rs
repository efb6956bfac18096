//! Slurm: an array job for the units that are not done, and a job for the last one.
//!
//! The array has one element for each unit, or for several. Paths go to the script as arguments, so that the script is the
//! same for every plan and nothing has to be quoted for a shell. The job of the last unit depends on the end of the array,
//! not on its success (`afterany`): the unit itself asks the ledger whether all others are done, which knows more than one
//! array job does, and a job that waits for a success that never comes would stay in the queue until somebody removes it.

mod command;
mod layout;
mod submission;

use std::ffi::OsStr;
use std::process::Command;

use crate::error::FleetError;
use crate::exit::Exit;
use crate::flags::SlurmFlags;
use crate::plan::PlannedWork;
use crate::{program, report};
use command::Sbatch;
use layout::{Layout, Limits};
use submission::{SCRIPT, Submission};

/// Place of a dry run, which makes no directory.
const DRY: &str = "NUMBER";

/// Submits what is left of a plan.
pub(crate) fn run(flags: &SlurmFlags) -> Result<Exit, FleetError> {
    if let Some(option) = command::contradiction(&flags.options) {
        let option = option.to_string_lossy();
        return Err(FleetError::Usage(format!(
            "the option {option} would make other jobs of these; leave it out, --together says how many units a job does"
        )));
    }
    let work = PlannedWork::read(&flags.directory, flags.program.as_deref())?;
    let left = work.left()?;
    if left.is_empty() {
        report::print("all units are done\n");
        return Ok(Exit::Success);
    }
    let uncopy = program::find(flags.program.as_deref())?;
    let limits = limits(flags.dry_run)?;
    let count = u64::try_from(left.before_the_last.len()).unwrap_or(u64::MAX);
    let layout = Layout::new(count, flags.together, limits).ok_or_else(no_arrays)?;
    let sbatch = |submission: &Submission| Sbatch {
        work: &work,
        uncopy: &uncopy,
        submission: submission.path().to_owned(),
        options: &flags.options,
    };
    if flags.dry_run {
        let place = Submission::unmade(&work.directory, OsStr::new(DRY));
        let sbatch = sbatch(&place);
        let mut text = format!("{SCRIPT}\n");
        if let Some(layout) = &layout {
            text.push_str(&sbatch.array(layout).shown());
        }
        if let Some(last) = left.last {
            let after = layout.is_some().then_some("JOB");
            text.push_str(&sbatch.last(last, after).shown());
        }
        return Ok(if report::print(&text) { Exit::Success } else { Exit::Failure });
    }
    let submission = Submission::make(&work.directory, &left.before_the_last)?;
    let sbatch = sbatch(&submission);
    let mut array = None;
    if let Some(layout) = &layout {
        let job = submit(sbatch.array(layout))?;
        let together = match layout.together.get() {
            1 => String::new(),
            many => format!(", {many} for each of {} elements", layout.elements),
        };
        report::print(&format!("job {job}: {}{together}\n", report::units(count)));
        array = Some(job);
    }
    if let Some(last) = left.last {
        let job = submit(sbatch.last(last, array.as_deref()))?;
        let when = array.map_or(String::new(), |array| format!(", after job {array}"));
        report::print(&format!("job {job}: the last unit{when}\n"));
    }
    Ok(Exit::Success)
}

/// Asks the cluster for its limits. A dry run does without one.
fn limits(is_dry: bool) -> Result<Limits, FleetError> {
    let asked = Command::new("scontrol").args(["show", "config"]).output();
    match asked {
        Ok(output) if output.status.success() => {
            Ok(Limits::parse(&String::from_utf8_lossy(&output.stdout)))
        }
        _ if is_dry => {
            report::say(
                "the cluster cannot be asked for its limits; those of Slurm's defaults are taken",
            );
            Ok(Limits::default())
        }
        Ok(output) => Err(FleetError::Engine {
            problem: format!(
                "the cluster does not answer: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ),
            next: "look with `scontrol ping` whether slurmctld runs",
        }),
        Err(error) => Err(FleetError::Engine {
            problem: format!("cannot start scontrol: {error}"),
            next: "run this on a node that submits jobs",
        }),
    }
}

fn no_arrays() -> FleetError {
    FleetError::Engine {
        problem: "this cluster allows no array jobs (MaxArraySize)".to_owned(),
        next: "raise the limit, or run `uncopy unit run` in jobs of your own",
    }
}

/// Runs sbatch, and returns the number of the job.
fn submit(command: command::SbatchCommand) -> Result<String, FleetError> {
    let output = command.into_command().output().map_err(|error| FleetError::Engine {
        problem: format!("cannot start sbatch: {error}"),
        next: "run this on a node that submits jobs",
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(FleetError::Engine {
            problem: format!("sbatch refused the job: {}", said.trim()),
            next: "change the options behind `--`, or ask who runs the cluster",
        });
    }
    if !said.trim().is_empty() {
        report::say(said.trim());
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    // `--parsable` prints the job, and behind a semicolon its cluster.
    Ok(printed.trim().split(';').next().unwrap_or_default().to_owned())
}
