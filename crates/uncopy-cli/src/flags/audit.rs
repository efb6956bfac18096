//! `uncopy audit`.

use std::path::PathBuf;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy cp -r --audit copies.jsonl src /srv   write one record per file
  uncopy audit verify copies.jsonl             check that the log was not changed";

/// Check an audit log.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditArgs {
    /// Check the chain of hashes, which is broken where records were changed or removed
    ///
    /// Someone who can rewrite the whole file can make a new chain. Keep the last hash elsewhere, and
    /// pass it with --hash.
    Verify {
        /// Audit log
        file: PathBuf,

        /// Hash of the last record, as the copy printed it
        #[arg(long)]
        hash: Option<String>,
    },
}
