//! `uncopy capabilities`.

use std::path::PathBuf;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy capabilities                 the kernel and its limits
  uncopy capabilities /home /mnt/usb  also what these two filesystems do
  uncopy capabilities --json .        one JSON object, documented in docs/json.md";

/// Show what this kernel and the filesystems of PATHs really offer.
///
/// Each filesystem is asked by doing: with small temporary files in PATH (or the directory of
/// PATH), which are gone afterwards. Where PATH cannot be written to, the report says which
/// question stays open and why.
#[derive(Debug, clap::Args)]
pub(crate) struct CapabilitiesArgs {
    /// Files or directories on the filesystems to try
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}
