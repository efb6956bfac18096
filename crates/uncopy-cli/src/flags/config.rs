//! `uncopy config`.

use std::path::PathBuf;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy config show                each lasting setting, and where it comes from
  uncopy config show /srv           those of copies to /srv, where it was measured
  uncopy config show --json         the same as one JSON object
  UNCOPY_JOBS=2 uncopy config show  what a variable changes";

/// Show the lasting settings of `uncopy cp`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigArgs {
    /// Print each setting, its value, and its origin: a variable, the file, what was measured, or built in
    Show {
        /// What a copy into this directory would use, values measured by `uncopy tune` among it;
        /// the current directory if left out
        #[arg(value_name = "PATH", default_value = ".", hide_default_value = true)]
        path: PathBuf,

        /// Read the settings from FILE, which must exist
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,

        /// Print one JSON object instead of a table
        #[arg(long)]
        json: bool,
    },
}
