//! `uncopy config`.

use std::path::PathBuf;

use super::operand::here_parser;

/// Next step for a path on another machine.
const THERE: &str = "run `uncopy config show PATH` there by ssh";

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy config show                show each setting and its origin
  uncopy config show /srv           include values that were measured on /srv
  uncopy config show --json         print one JSON object
  UNCOPY_JOBS=2 uncopy config show  show the effect of a variable";

/// Show the settings of `uncopy cp`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigArgs {
    /// Print each setting, its value and its origin: a variable, the file, measured, or built in
    Show {
        /// Directory to copy into: includes values that `uncopy tune` measured there [default: the
        /// current directory]
        #[arg(
            value_name = "PATH",
            value_parser = here_parser(THERE),
            default_value = ".",
            hide_default_value = true
        )]
        path: PathBuf,

        /// Read the settings from FILE, which must exist
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,

        /// Print one JSON object instead of a table
        #[arg(long)]
        json: bool,
    },
}
