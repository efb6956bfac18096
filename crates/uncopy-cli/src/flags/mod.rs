//! Every flag, defined once: parser, help, man page and completions come from here.

pub(crate) mod absent;
pub(crate) mod advice;
pub(crate) mod audit;
#[cfg(target_os = "linux")]
pub(crate) mod bench;
#[cfg(all(feature = "remote", target_os = "linux"))]
pub(crate) mod between;
pub(crate) mod capabilities;
pub(crate) mod choice;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod conflict;
pub(crate) mod copy;
#[cfg(target_os = "linux")]
pub(crate) mod doctor;
pub(crate) mod elsewhere;
#[cfg(all(feature = "unit", target_os = "linux"))]
pub(crate) mod fleet;
pub(crate) mod help;
pub(crate) mod links;
pub(crate) mod man;
pub(crate) mod naming;
pub(crate) mod number;
pub(crate) mod operand;
pub(crate) mod ports;
pub(crate) mod rate;
pub(crate) mod select;
#[cfg(all(feature = "remote", target_os = "linux"))]
pub(crate) mod serve;
pub(crate) mod short;
pub(crate) mod single;
pub(crate) mod tree;
#[cfg(target_os = "linux")]
pub(crate) mod tune;
#[cfg(all(feature = "unit", target_os = "linux"))]
pub(crate) mod unit;
#[cfg(target_os = "linux")]
pub(crate) mod verify;
#[cfg(target_os = "linux")]
pub(crate) mod words;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, Command, Subcommand as _};

use crate::exit;
use crate::report::printable;
use audit::AuditArgs;
use capabilities::CapabilitiesArgs;
use completions::CompletionsArgs;
use config::ConfigArgs;
use copy::CopyArgs;
use help::HelpArgs;
use man::ManArgs;
use single::SingleArgs;

/// A subcommand: its name, its one line in the list, and its flags.
struct Subcommand {
    name: &'static str,
    about: &'static str,
    /// Whether people type it, so that the list shows it.
    is_listed: bool,
    flags: fn(Command) -> Command,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "cp",
        about: "Copy files the cheapest correct way",
        is_listed: true,
        flags: |command| {
            CopyArgs::augment_args(command)
                .mut_args(repeatable)
                .override_usage(copy::USAGE)
                .after_help(copy::EXAMPLES)
                .after_long_help(format!(
                    "{}\n\n{}\n\n{}",
                    copy::EXAMPLES,
                    copy::ENVIRONMENT,
                    exit::TABLE
                ))
        },
    },
    Subcommand {
        name: "capabilities",
        about: "Show what this kernel and the filesystems of PATHs really support",
        is_listed: true,
        flags: |command| CapabilitiesArgs::augment_args(command).after_help(capabilities::EXAMPLES),
    },
    #[cfg(target_os = "linux")]
    Subcommand {
        name: "doctor",
        about: "Explain why bytes are copied, or not, on a path",
        is_listed: true,
        flags: |command| {
            doctor::DoctorArgs::augment_args(command)
                .after_help(doctor::EXAMPLES)
                .after_long_help(format!("{}\n\n{}", doctor::EXAMPLES, doctor::EXIT_CODES))
        },
    },
    #[cfg(target_os = "linux")]
    Subcommand {
        name: "bench",
        about: "Measure the gain of sending without copying on a network path",
        is_listed: true,
        flags: |command| bench::BenchArgs::augment_args(command).after_help(bench::EXAMPLES),
    },
    #[cfg(target_os = "linux")]
    Subcommand {
        name: "tune",
        about: "Measure which mechanism is fastest at which size on a filesystem",
        is_listed: true,
        flags: |command| tune::TuneArgs::augment_args(command).after_help(tune::EXAMPLES),
    },
    #[cfg(target_os = "linux")]
    Subcommand {
        name: "verify",
        about: "Compare files and trees with their copies, or with a manifest",
        is_listed: true,
        flags: |command| {
            verify::VerifyArgs::augment_args(command)
                .override_usage(verify::USAGE)
                .after_help(verify::EXAMPLES)
                .after_long_help(format!("{}\n\n{}", verify::EXAMPLES, verify::EXIT_CODES))
        },
    },
    #[cfg(all(feature = "remote", target_os = "linux"))]
    Subcommand {
        name: "serve",
        about: "Be the other end of `uncopy cp` on another machine",
        is_listed: false,
        flags: |command| serve::ServeArgs::augment_args(command).after_help(serve::EXAMPLES),
    },
    #[cfg(all(feature = "unit", target_os = "linux"))]
    Subcommand {
        name: "unit",
        about: "Cut a large copy into units of work, and follow what is done",
        is_listed: true,
        flags: |command| {
            unit::augment(command).arg_required_else_help(true).after_help(unit::EXAMPLES)
        },
    },
    #[cfg(all(feature = "unit", target_os = "linux"))]
    Subcommand {
        name: "fleet",
        about: "Give units of work to Slurm or NATS, by the program uncopy-fleet",
        is_listed: true,
        flags: fleet::augment,
    },
    #[cfg(not(all(feature = "unit", target_os = "linux")))]
    Subcommand { name: "unit", about: absent::ABOUT, is_listed: false, flags: absent::augment },
    #[cfg(not(all(feature = "unit", target_os = "linux")))]
    Subcommand { name: "fleet", about: absent::ABOUT, is_listed: false, flags: absent::augment },
    Subcommand {
        name: "audit",
        about: "Check or sum up audit logs",
        is_listed: true,
        flags: |command| {
            let command = AuditArgs::augment_subcommands(command).after_help(audit::EXAMPLES);
            command.arg_required_else_help(true)
        },
    },
    Subcommand {
        name: "config",
        about: "Show the settings of cp",
        is_listed: true,
        flags: |command| {
            let command = ConfigArgs::augment_subcommands(command).after_help(config::EXAMPLES);
            command.arg_required_else_help(true)
        },
    },
    Subcommand {
        name: "completions",
        about: "Print a completion script for a shell",
        is_listed: true,
        flags: |command| CompletionsArgs::augment_args(command).after_help(completions::EXAMPLES),
    },
    Subcommand {
        name: "man",
        about: "Print a manual page, or write all of them",
        is_listed: true,
        flags: |command| ManArgs::augment_args(command).after_help(man::EXAMPLES),
    },
    Subcommand {
        name: "help",
        about: "Show a page about a topic, or the help of a command",
        is_listed: true,
        flags: |command| HelpArgs::augment_args(command).after_help(help::EXAMPLES),
    },
];

/// Shown below the commands.
const EXAMPLES: &str = "\
Examples:
  uncopy cp -v disk.img backup.img          # copies a file, and says how
  uncopy cp -r --resume tree /mnt/copy      # copies a tree; an interrupted copy goes on
  uncopy cp --durable --verify a.db b.db    # on the disk, and read back from it
  uncopy doctor disk.img /mnt/backup.img    # why bytes would be copied, and what helps
  uncopy capabilities /data                 # mechanisms of this kernel and filesystem

See `uncopy cp --help` for more examples and for exit codes, and `uncopy help` for topics.";

/// Defines the whole command line, from which parser, help, man pages and completions are made.
///
/// The flags of a subcommand are built only when it is used: starting the program takes about as
/// long as a small copy.
#[must_use]
pub fn command() -> Command {
    with_subcommands(SUBCOMMANDS.iter().map(|subcommand| (subcommand, subcommand.flags)))
}

/// Defines the command line as completions offer it: without commands that people do not type.
pub(crate) fn completed_command() -> Command {
    let listed = SUBCOMMANDS.iter().filter(|subcommand| subcommand.is_listed);
    with_subcommands(listed.map(|subcommand| match subcommand.name {
        "help" => (subcommand, help::completed as fn(Command) -> Command),
        _ => (subcommand, subcommand.flags),
    }))
}

/// Defines the program with these subcommands and their flags.
fn with_subcommands(
    subcommands: impl Iterator<Item = (&'static Subcommand, fn(Command) -> Command)>,
) -> Command {
    let root = SingleArgs::augment_args(Command::new("uncopy"))
        .mut_args(repeatable)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Copies files with the fewest copies the system allows, and reports what happened")
        .override_usage(single::USAGE)
        .subcommand_negates_reqs(true)
        .disable_help_subcommand(true)
        .args_conflicts_with_subcommands(true)
        .arg_required_else_help(true)
        .after_help(EXAMPLES);
    subcommands.fold(root, |root, (subcommand, flags)| {
        let command = Command::new(subcommand.name).about(subcommand.about);
        let command = command.hide(!subcommand.is_listed);
        root.subcommand(command.defer(flags))
    })
}

/// Lets a flag be given again, as by an alias and by hand: one without a value means the same, and of
/// `--backup` the last one counts, as in `cp(1)`.
pub(crate) fn repeatable(flag: Arg) -> Arg {
    let is_switch = matches!(flag.get_action(), ArgAction::SetTrue);
    let id = flag.get_id().clone();
    if is_switch || id == "backup" { flag.overrides_with(id) } else { flag }
}

/// Makes a usage error of `subcommand`, or of the program if there is none of that name, in the form
/// of the parser's own errors.
pub(crate) fn usage_error(subcommand: &str, kind: ErrorKind, message: &str) -> clap::Error {
    let message = printable(message);
    let mut root = command();
    root.build();
    match root.find_subcommand_mut(subcommand) {
        Some(command) => command.error(kind, message),
        None => root.error(kind, message),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_sound() {
        super::command().debug_assert();
    }
}
