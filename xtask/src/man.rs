//! `cargo xtask man`: man pages from the definition that also parses the command line.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// Arguments of `cargo xtask man`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to put the pages; made if it does not exist.
    directory: PathBuf,
}

/// Renders one page per command.
///
/// # Errors
/// If a page cannot be written.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    clap_mangen::generate_to(uncopy_cli::command(), directory)
        .with_context(|| format!("cannot write man pages to {}", directory.display()))?;
    println!("man pages are in {}", directory.display());
    Ok(())
}
