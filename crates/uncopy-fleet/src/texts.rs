//! `uncopy fleet man|completions`: manual pages and completion scripts, from the definition that also parses the command
//! line.

use std::io::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::error::FleetError;
use crate::exit::Exit;
use crate::flags::{CompletionsFlags, Flags, ManFlags};
use crate::report;

/// Prints one page, or writes all.
///
/// # Errors
/// There is no such command, or the pages cannot be written.
pub(crate) fn manual(flags: &ManFlags) -> Result<Exit, FleetError> {
    match &flags.out {
        Some(directory) => write_pages(directory),
        None => print_page(flags.command.as_deref()),
    }
}

/// Prints a script that completes the program by its own name.
///
/// # Errors
/// There is none.
pub(crate) fn completions(flags: &CompletionsFlags) -> Result<Exit, FleetError> {
    let mut command = Flags::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut command, name, &mut script);
    Ok(exit(report::print_by(|output| output.write_all(&script))))
}

fn write_pages(directory: &Path) -> Result<Exit, FleetError> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(documented(), directory))
        .map_err(FleetError::system(
            "write the manual pages into",
            directory,
            "name a directory that you may write to",
        ))?;
    Ok(Exit::Success)
}

fn print_page(name: Option<&str>) -> Result<Exit, FleetError> {
    let mut root = documented();
    root.build();
    let page = match name {
        None => Some(&root),
        Some(name) => root.find_subcommand(name),
    };
    let Some(page) = page else {
        let name = name.unwrap_or_default();
        let message = format!("there is no command {name:?}; `uncopy fleet --help` lists them");
        return Err(FleetError::Usage(message));
    };
    let page = Man::new(page.clone());
    Ok(exit(report::print_by(|output| page.render(output))))
}

/// Defines the command line as manual pages show it: `help` has no page.
fn documented() -> Command {
    Flags::command().disable_help_subcommand(true)
}

fn exit(is_printed: bool) -> Exit {
    if is_printed { Exit::Success } else { Exit::Failure }
}
