//! `uncopy unit`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Arg, ArgGroup, Args as _, Command, Subcommand as _, ValueHint};
use uncopy::unit::plan::{DEFAULT_FILES, MIN_BYTES};

use super::copy::CopyArgs;
use super::number;

/// Shown below the commands.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy unit plan /data/in /data/out --out plan        walk once, and write units into plan/units
  uncopy unit status plan                               show what is done, what failed and what is left
  uncopy unit retry plan                                list the units that are not done
  uncopy unit status plan --metrics /run/plan.prom      write figures for Prometheus

Each unit is a file that a worker can do wherever source and destination are mounted.";

/// Shown below the flags of `plan`.
const PLAN_EXAMPLES: &str = "\
Examples:
  uncopy unit plan -a /data/in /data/out --out plan     plan a copy of everything as it is
  uncopy unit plan in out --out plan --files 1000       make smaller units
  uncopy unit plan in out --out plan --update           leave out what is as new in out
  uncopy unit plan in out --out plan --delete           also delete what only the destination has

Exit codes:
  0  the plan is whole
  1  there is no plan: something could not be read, or the roots or DIR cannot be used
  2  the command line or a setting makes no sense; nothing was touched
  9  the other machine cannot be reached, or the connection to it ended; there is no plan";

/// Shown below the flags of `run`.
const RUN_EXAMPLES: &str = "\
Examples:
  uncopy unit run plan/units/000007.jsonl                         do one unit
  uncopy unit retry plan | xargs -r -n1 -P4 uncopy unit run       do all that are not done, four at a time

Exit codes:
  0   the unit is done, or was done before
  1   entries failed, or the destination has changed since the plan
  2   the options of the unit make no sense to this version; nothing was touched
  3   verification failed: a copy differs from its source, and did not get its name
  4   the source has changed since the plan
  9   the other machine cannot be reached, or the connection to it ended
  10  the last unit must wait for others, or another worker goes on with this one";

/// Shown below the flags of `status`.
const STATUS_EXAMPLES: &str = "\
Examples:
  uncopy unit status plan                        for people
  uncopy unit status --json plan                 one JSON object (`uncopy help json`)
  uncopy unit status --metrics FILE plan         also write figures in the format of OpenMetrics

Exit codes:
  0   every unit is done
  1   a unit has failed, or the plan or its ledger cannot be read
  9   the machine of the destination cannot be reached, or the connection to it ended
  10  no unit has failed, and some are not done yet";

/// Shown below the flags of `retry`.
const RETRY_EXAMPLES: &str = "\
Examples:
  uncopy unit retry plan                         print the files of all units that are not done
  uncopy unit retry --failed plan                print those that failed
  uncopy unit retry -0 plan                      end each name in a zero byte, for xargs -0";

/// Id of `-L`, which units refuse with a reason.
const FOLLOWING: &str = "dereference";

/// Ids of the flags of `uncopy cp` that a plan passes on to its units.
pub(crate) const PASSED_ON: [&str; 40] = [
    "archive",
    "one_file_system",
    "links",
    FOLLOWING,
    "specials",
    "exclude",
    "include",
    "exclude-from",
    "force",
    "update",
    "checksum",
    "size_only",
    "delete",
    "delete_empty_source",
    "max_delete",
    "retries",
    "jobs",
    "method",
    "require",
    "require_zero_copy",
    "no_user_copy",
    "no_zero_copy",
    "reflink",
    "prefer",
    "sparse",
    "cache",
    "max_bandwidth",
    "preserve",
    "no_preserve",
    "chmod",
    "chown",
    "durable",
    "no_durable",
    "if_changed",
    "verify",
    "no_verify",
    "trust_shared_extents",
    "digest",
    "no_digest",
    "config",
];

/// Ids of the flags of `uncopy cp` about connections to other machines.
pub(crate) const CONNECTION: [&str; 6] =
    ["rsh", "remote_program", "data", "connections", "data_ports", "config"];

/// Cut a large copy into units of work, and follow what is done
#[derive(Debug, clap::Subcommand)]
pub(crate) enum UnitArgs {
    /// Walk through SRC once, and write the units of a copy of its contents to DST
    ///
    /// DIR gets plan.json, which is written last, and units/NNNNNN.jsonl. A unit holds at most --files entries and
    /// about --bytes bytes; all names of a file are in one unit; a file above --bytes is cut into ranges, unless it has
    /// several names. The last unit has the directories with their metadata, and deletions: it is done when all
    /// others are. A plan that was killed goes on by the same command. DST need not exist, and nothing is
    /// changed there.
    ///
    /// With --update, --checksum or --size-only, what is unchanged in DST is not in the plan, except for files that
    /// have several names, or are to be read to know that.
    ///
    /// Entries that change in SRC or DST after the plan are left alone: the unit fails, and another plan takes it up.
    /// Copies are flushed unless --no-durable is given.
    Plan(Box<PlanArgs>),

    /// Do a unit, wherever SRC and DST can be reached
    ///
    /// The ledger at DST (.uncopy-ledger) gets a record of what is done: a unit with a record is not done again. Several
    /// workers may run at once, also with the same unit: the last attempt counts, and the others give no names any
    /// more. An entry of the source that changed since the plan is not copied, and one of the destination that changed
    /// is not replaced. Files that an attempt copied before it was killed are not copied again.
    Run(RunArgs),

    /// Show how far a plan is, from the ledger at its destination
    Status(StatusArgs),

    /// List the units without a record: what a queue has to hand out again
    Retry(RetryArgs),
}

/// Flags of `uncopy unit plan` that `uncopy cp` does not have.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    /// Directory whose contents are copied; HOST:PATH on another machine
    #[arg(value_name = "SRC", value_hint = ValueHint::DirPath)]
    pub from: PathBuf,

    /// Directory that gets them; HOST:PATH on another machine, if SRC is not
    #[arg(value_name = "DST", value_hint = ValueHint::DirPath)]
    pub to: PathBuf,

    /// Directory for the plan: a new or empty one, outside of SRC and DST
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,

    /// Maximum number of entries of a unit
    #[arg(long, value_name = "N", default_value_t = NonZeroU64::new(DEFAULT_FILES).unwrap_or(NonZeroU64::MIN), value_parser = number::at_least_one::<NonZeroU64>)]
    pub files: NonZeroU64,

    /// Number of bytes from which on a unit is full, and files are cut; at least 1Mi [default: 8Gi]
    #[arg(long, value_name = "SIZE", value_parser = unit_bytes)]
    pub bytes: Option<u64>,

    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Print one JSON object (`uncopy help json`)
    #[arg(long)]
    pub json: bool,
}

/// Flags of `uncopy unit run`.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// File of the unit
    #[arg(value_name = "UNIT", value_hint = ValueHint::FilePath)]
    pub unit: PathBuf,

    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Print one JSON object (`uncopy help json`)
    #[arg(long)]
    pub json: bool,
}

/// Flags of `uncopy unit status`.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Directory of the plan
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,

    /// Print one JSON object (`uncopy help json`)
    #[arg(long)]
    pub json: bool,

    /// Also write figures to FILE, in the text format of OpenMetrics; it is replaced in one step
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub metrics: Option<PathBuf>,
}

/// Flags of `uncopy unit retry`.
#[derive(Debug, clap::Args)]
#[command(after_help = RETRY_EXAMPLES)]
pub(crate) struct RetryArgs {
    /// Directory of the plan
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,

    /// Only those whose last attempt failed
    #[arg(long)]
    pub failed: bool,

    /// End each name in a zero byte, not a line break
    #[arg(short = '0', long)]
    pub null: bool,
}

/// Parses the number of bytes of a unit.
fn unit_bytes(text: &str) -> Result<u64, String> {
    match super::rate::size(text)? {
        bytes if bytes < MIN_BYTES => Err(String::from("a unit has at least 1Mi")),
        bytes => Ok(bytes),
    }
}

/// Adds the subcommands. `plan` also has flags of `uncopy cp`.
pub(crate) fn augment(command: Command) -> Command {
    let connected = |command: Command| {
        let copy = CopyArgs::augment_args(Command::new("cp"));
        let flags =
            copy.get_arguments().filter(|flag| CONNECTION.contains(&flag.get_id().as_str()));
        command.args(flags.cloned().collect::<Vec<_>>())
    };
    let mut command = UnitArgs::augment_subcommands(command);
    for name in ["run", "status", "retry"] {
        command = command.mut_subcommand(name, connected);
    }
    command.mut_subcommand("plan", |plan| {
        let copy = CopyArgs::augment_args(Command::new("cp")).mut_args(super::repeatable);
        let passed_on = |id: &str| PASSED_ON.contains(&id) || CONNECTION.contains(&id);
        let flags = copy.get_arguments().filter(|flag| passed_on(flag.get_id().as_str()));
        let shown = |flag: Arg| {
            let is_refused = flag.get_id() == FOLLOWING;
            if is_refused { flag.hide(true) } else { flag }
        };
        plan.args(flags.cloned().map(shown).collect::<Vec<_>>())
            // A plan is always about a whole tree, which some of these flags require.
            .group(ArgGroup::new("whole").args(["from", "archive"]).multiple(true))
            .override_usage("uncopy unit plan [OPTIONS] SRC DST --out DIR")
            .after_help(PLAN_EXAMPLES)
    })
}
