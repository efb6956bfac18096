//! Flags of the program.

use std::ffi::OsString;
use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use crate::exit;

const EXAMPLES: &str = "\
Examples:
  uncopy fleet slurm plan -- --partition=io --time=2:00:00     submit an array job
  uncopy fleet submit plan --server nats://queue               queue all units that are not done
  uncopy fleet work plan --server nats://queue                 do units until the queue is empty
  uncopy fleet status plan --server nats://queue               show ledger and queue

`uncopy unit plan` makes a plan, and `uncopy unit status` shows how far it is, whatever does the units.";

const SLURM_EXAMPLES: &str = "\
Examples:
  uncopy fleet slurm plan                                      one element of the array for each unit
  uncopy fleet slurm plan --together 20                        twenty units for each element, one after the other
  uncopy fleet slurm plan -- --partition=io --time=8:00:00   further options of sbatch
  uncopy fleet slurm plan --dry-run                            print script and commands";

const NATS_EXAMPLES: &str = "\
Examples:
  nats-server -js -sd /srv/queue -c server.conf                start a server that keeps its queue on disk
  uncopy fleet submit plan --server nats://queue:4222
  uncopy fleet work plan --server tls://queue --tls-ca ca.pem --credentials worker.creds";

const MAN_EXAMPLES: &str = "\
Examples:
  uncopy fleet man work | man -l -
  uncopy fleet man --out ~/.local/share/man/man1";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  uncopy fleet completions bash > ~/.local/share/bash-completion/completions/uncopy-fleet
  uncopy fleet completions zsh > ~/.zfunc/_uncopy-fleet
  uncopy fleet completions fish > ~/.config/fish/completions/uncopy-fleet.fish

The program is completed by its own name, uncopy-fleet.";

/// Give units of work to an engine that distributes work
///
/// The plan and the ledger at its destination are those of `uncopy unit`. An engine only names units; each is done by a
/// process of `uncopy unit run`. A unit with a record in the ledger is never done again, whatever a queue says, and each of
/// these commands may be repeated at any time.
#[derive(Debug, Parser)]
#[command(
    name = "uncopy-fleet",
    bin_name = "uncopy fleet",
    version,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{}", exit::TABLE)
)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: FleetCommand,
}

/// Commands: for engines, and for what is installed beside the program.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Submit the units that are not done to Slurm, as an array job
    ///
    /// Writes a script and a list of units below DIR/slurm, and submits them with sbatch: an array job whose elements are
    /// requeued when their node fails, and a job for the last unit that begins when the array has ended, however it ended.
    /// An element ends with the exit code of `uncopy unit run`. DIR, source and destination must have the same paths on all
    /// nodes, or the same names if one of the two is on another machine.
    Slurm(SlurmFlags),

    /// Queue the units that are not done, on a server of NATS with JetStream
    ///
    /// Makes a stream and a consumer for the plan if there are none. A unit that is in the queue is not queued twice.
    /// Submit again after a loss of the queue, or when the reasons why units were given up are gone.
    Submit(SubmitFlags),

    /// Do units from the queue until it is empty
    ///
    /// Takes one unit at a time for each of --jobs, checks that the file of the unit is the one that was submitted, runs
    /// `uncopy unit run`, and takes the unit out of the queue when the ledger has its record. A unit that failed is tried
    /// again later, by any worker. Run as many workers as you like, anywhere the plan is mounted, and source and destination
    /// are mounted or can be reached.
    Work(WorkFlags),

    /// Show ledger and queue
    Status(StatusFlags),

    /// Print a completion script for a shell
    Completions(CompletionsFlags),

    /// Print a manual page, or write all of them
    Man(ManFlags),
}

/// Flags of `slurm`.
#[derive(Debug, Args)]
#[command(after_help = SLURM_EXAMPLES)]
pub(crate) struct SlurmFlags {
    /// Directory of the plan
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,

    /// Number of units that an element of the array does, one after the other; more if the array would be too large for
    /// the cluster
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) together: NonZeroU32,

    /// Print script and commands, and submit nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// The program uncopy on the nodes [default: the one beside this program]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) program: Option<PathBuf>,

    /// Options of sbatch, for both jobs
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    pub(crate) options: Vec<OsString>,
}

/// Flags that lead to a server of NATS.
#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// Directory of the plan
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,

    /// Address of the server: nats://HOST or nats://HOST:PORT, or tls:// to insist on TLS; several with commas
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,

    /// File with a user's JWT and seed, as `nsc generate creds` writes it, or with the seed of an nkey alone
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) credentials: Option<PathBuf>,

    /// File with certificates (PEM) of authorities that the server's certificate may be from, beside those of the system
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// Flags of `submit`.
#[derive(Debug, Args)]
#[command(after_help = NATS_EXAMPLES)]
pub(crate) struct SubmitFlags {
    #[command(flatten)]
    pub(crate) server: ServerFlags,

    /// Maximum number of units that are handed out at once
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) workers: NonZeroU32,

    /// Time without a sign of life after which a unit is handed out again; 1s to 30days
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = ack_wait)]
    pub(crate) ack_wait: Duration,

    /// Number of servers that keep the queue
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) replicas: u8,

    /// The program uncopy, which reads a ledger on another machine [default: the one beside this program]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) program: Option<PathBuf>,
}

/// Flags of `work`.
#[derive(Debug, Args)]
#[command(after_help = NATS_EXAMPLES)]
pub(crate) struct WorkFlags {
    #[command(flatten)]
    pub(crate) server: ServerFlags,

    /// Number of units at once
    #[arg(short, long, value_name = "N", default_value = "1")]
    pub(crate) jobs: NonZeroU16,

    /// Number of tries after which a unit is given up
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) max_deliver: NonZeroU64,

    /// Time that an unreachable server is waited for, once it was there; at most 365days
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = patience)]
    pub(crate) patience: Duration,

    /// The program uncopy [default: the one beside this program]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) program: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Flags of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    pub(crate) server: ServerFlags,

    /// Print one JSON object for the ledger and one for the queue, each on a line (`uncopy help json`)
    #[arg(long)]
    pub(crate) json: bool,

    /// The program uncopy [default: the one beside this program]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) program: Option<PathBuf>,
}

/// Flags of `completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsFlags {
    /// Shell that will read the script
    pub(crate) shell: Shell,
}

/// Flags of `man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManFlags {
    /// Command whose page is printed; without it, the page of the program
    #[arg(conflicts_with = "out")]
    pub(crate) command: Option<String>,

    /// Write the pages of all commands into this directory, which is made if it does not exist
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
}

/// The server keeps it as nanoseconds in 64 bits, and who waits for months waits for ever.
fn ack_wait(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(1), 30)
}

fn patience(text: &str) -> Result<Duration, String> {
    within(text, Duration::ZERO, 365)
}

fn within(text: &str, least: Duration, most_days: u32) -> Result<Duration, String> {
    let most = Duration::from_secs(86_400) * most_days;
    match humantime::parse_duration(text).map_err(|error| error.to_string())? {
        time if time < least => Err(format!("at least {} s", least.as_secs())),
        time if time > most => Err(format!("at most {most_days} days")),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Flags::command().debug_assert();
    }

    #[test]
    fn times_are_bounded() {
        for (text, expected) in [
            ("1s", Some(1)),
            ("999ms", None),
            ("0s", None),
            ("30days", Some(30 * 86_400)),
            ("31days", None),
            ("300y", None),
            ("18446744073709551615s", None),
            ("99999999999999999999s", None),
            ("x", None),
        ] {
            let found = super::ack_wait(text).ok().map(|time| time.as_secs());
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(super::patience("0s").ok().map(|time| time.as_secs()), Some(0));
        assert_eq!(super::patience("365days").ok().map(|time| time.as_secs()), Some(31_536_000));
        assert!(super::patience("366days").is_err() && super::patience("300y").is_err());
    }
}
