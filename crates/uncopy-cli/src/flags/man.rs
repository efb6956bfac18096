//! `uncopy man`.

use std::path::PathBuf;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy man cp | man -l -
  uncopy man --out ~/.local/share/man/man1";

/// Print a manual page, or write all of them.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Command whose page is printed; without it, the page of the program
    #[arg(conflicts_with = "out")]
    pub command: Option<String>,
    /// Write the pages of all commands into this directory, which is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
