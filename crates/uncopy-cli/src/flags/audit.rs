//! `uncopy audit`.

use std::path::PathBuf;

use super::operand::here_parser;

/// Next step for a log on another machine.
const THERE: &str = "run the command there by ssh, or copy the log here";

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy cp -r --audit copies.jsonl src /srv   write one record per file
  uncopy audit verify copies.jsonl             check that the log was not changed
  uncopy audit stats copies.jsonl              sum up each job, and all of them
  uncopy audit stats --json log.1 log          the same for programs, of two logs";

/// Shown below the flags of `stats`.
pub(crate) const STATS_NOTES: &str = "\
Examples:
  uncopy audit stats copies.jsonl              sum up each job, and all of them
  uncopy audit stats --json log.2 log.1 log    the same for programs, of a rotated log

Exit codes:
  0  every chain is unbroken (a job without a summary is still running, or was killed)
  1  a chain is broken, or a file cannot be read
  2  the command line makes no sense";

/// Check or sum up audit logs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditArgs {
    /// Check the chain of hashes, which is broken where records were changed or removed
    ///
    /// Someone who can rewrite the whole file can make a new chain. Keep the last hash elsewhere, and
    /// pass it with --hash.
    Verify {
        /// Audit log
        #[arg(value_parser = here_parser(THERE))]
        file: PathBuf,

        /// Hash of the last record, as the copy printed it
        #[arg(long, value_parser = hash)]
        hash: Option<String>,
    },

    /// Sum up each job and all jobs: files, bytes by mechanism and cost, refusals, guesses, time
    ///
    /// Follows the chain as verify does, and counts what is before a break. A file may continue the one
    /// named before it.
    #[command(after_help = STATS_NOTES)]
    Stats {
        /// Audit logs, the oldest first
        #[arg(required = true, value_name = "FILE", value_parser = here_parser(THERE))]
        files: Vec<PathBuf>,

        /// Print one JSON object for each job and each problem, and one for all jobs (`uncopy help json`)
        #[arg(long)]
        json: bool,
    },
}

/// Reads the hash of a record.
fn hash(text: &str) -> Result<String, &'static str> {
    match text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(
            "a hash has 64 hexadecimal digits; copy the one that the run with --audit printed at its end",
        ),
    }
}
