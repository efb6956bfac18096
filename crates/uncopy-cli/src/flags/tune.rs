//! `uncopy tune`.

use std::path::PathBuf;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy tune /srv           measure the filesystem of /srv, and print a table
  uncopy tune --save /srv    and use what was found for every copy to it from now on
  uncopy config show /srv    what a copy to it uses, and where that comes from";

/// Measure from which sizes on which way is quicker on a filesystem, and with how many workers.
///
/// Takes less than a minute, and up to 256 MiB in a hidden directory in PATH, which is gone
/// afterwards. A value that is built in is only given up for one that wins clearly.
#[derive(Debug, clap::Args)]
pub(crate) struct TuneArgs {
    /// A directory on the filesystem to measure; the current one if left out
    #[arg(value_name = "PATH", default_value = ".", hide_default_value = true)]
    pub path: PathBuf,

    /// Keep what was found for copies to this filesystem (tuned.toml beside the configuration file)
    #[arg(long)]
    pub save: bool,

    /// Print one JSON object instead of a table (docs/json.md)
    #[arg(long)]
    pub json: bool,
}
