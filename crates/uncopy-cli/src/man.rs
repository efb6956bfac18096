//! `uncopy man`: manual pages, from the definition that also parses the command line.

use std::io;
use std::path::Path;

use clap::Command;
use clap::error::ErrorKind;
use clap_mangen::Man;

use crate::exit::Exit;
use crate::flags::man::ManArgs;
use crate::flags::usage_error;
use crate::report::{self, quoted};

/// Prints one page, or writes all.
pub(crate) fn run(flags: &ManArgs) -> Result<Exit, clap::Error> {
    let mut root = crate::command();
    root.build();
    if let Some(directory) = &flags.out {
        return Ok(write_all(&root, directory));
    }
    let page = match &flags.command {
        None => Some(root),
        Some(name) => root.find_subcommand(name).cloned(),
    };
    let Some(page) = page else {
        let name = flags.command.as_deref().unwrap_or_default();
        let message = format!("there is no command {name:?}; `uncopy --help` lists them");
        return Err(usage_error("man", ErrorKind::InvalidValue, &message));
    };
    Ok(match Man::new(page).render(&mut io::stdout().lock()) {
        Ok(()) => Exit::Success,
        Err(error) => report::output_failed(&error),
    })
}

fn write_all(root: &Command, directory: &Path) -> Exit {
    let written = std::fs::create_dir_all(directory).and_then(|()| write_page(root, directory));
    match written {
        Ok(()) => Exit::Success,
        Err(error) => report::failed_to(
            &format!("write the manual pages into {}", quoted(directory)),
            &error,
            "name a directory that you may write to",
        ),
    }
}

/// Writes the page of a command, and those of its subcommands.
fn write_page(command: &Command, directory: &Path) -> io::Result<()> {
    Man::new(command.clone()).generate_to(directory)?;
    // `fleet` is another program, which writes its pages itself: `uncopy fleet man`. Of `help` the first is a command
    // that was made here, with topics; those of subcommands are clap's.
    let is_top = command.get_name() == "uncopy";
    let is_page = |subcommand: &&Command| match subcommand.get_name() {
        "fleet" => false,
        "help" => is_top,
        _ => true,
    };
    command.get_subcommands().filter(is_page).try_for_each(|it| write_page(it, directory))
}
