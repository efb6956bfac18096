//! `uncopy audit`.

use std::path::PathBuf;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy cp -r --audit copies.jsonl src /srv   one record a file, and the hash of the last one
  uncopy audit verify copies.jsonl             whether the log is as it was written";

/// Check an audit log.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditArgs {
    /// Follow the chain of hashes: records that were changed or removed break it
    ///
    /// Whoever can rewrite the whole file can make a new chain. Keep the last hash elsewhere, and
    /// name it with --hash.
    Verify {
        /// The log
        file: PathBuf,

        /// The hash of its last record, as the copy printed it
        #[arg(long)]
        hash: Option<String>,
    },
}
