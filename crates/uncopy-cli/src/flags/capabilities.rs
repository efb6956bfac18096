//! `uncopy capabilities`.

use std::path::PathBuf;

use super::operand::here_parser;

/// Next step for a path on another machine.
const THERE: &str = "run `uncopy capabilities PATH` there by ssh";

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy capabilities                 show the kernel and its limits
  uncopy capabilities /home /mnt/usb  also show what these two filesystems support
  uncopy capabilities --json .        print one JSON object (`uncopy help json`)";

/// Show what this kernel and the filesystems of PATHs really support.
///
/// Each filesystem is tested with small temporary files in PATH (or the directory of PATH), which
/// are removed afterwards. If PATH is not writable, the report says what could not be tested and
/// why.
#[derive(Debug, clap::Args)]
pub(crate) struct CapabilitiesArgs {
    /// Files or directories on the filesystems to test
    #[arg(value_name = "PATH", value_parser = here_parser(THERE))]
    pub paths: Vec<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}
