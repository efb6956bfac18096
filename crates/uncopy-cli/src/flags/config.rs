//! `uncopy config`.

use std::path::PathBuf;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy config show                each lasting setting, and where it comes from
  uncopy config show --json         the same as one JSON object
  UNCOPY_JOBS=2 uncopy config show  what a variable changes";

/// Show the lasting settings of `uncopy cp`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigArgs {
    /// Print each setting, its value, and its origin: a variable, the file, or built in
    Show {
        /// Read the settings from FILE, which must exist
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,

        /// Print one JSON object instead of a table
        #[arg(long)]
        json: bool,
    },
}
