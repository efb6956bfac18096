//! `uncopy help`: topics of the book, and the help of commands.

mod pager;

use std::io::{self, Write};

use clap::Command;
use clap::error::ErrorKind;

use crate::exit::Exit;
use crate::flags::help::HelpArgs;
use crate::flags::usage_error;
use crate::report;

/// A page of the book, as plain text.
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    text: &'static str,
}

/// Pages that are shown, by name. `cargo xtask tidy` checks that their texts are those of `docs/`.
pub(crate) const TOPICS: [Topic; 15] = [
    Topic {
        name: "coming-from",
        about: "What cp, rsync, shutil, liburing and Zircon call it, and what differs",
        text: include_str!("pages/coming-from.txt"),
    },
    Topic {
        name: "compression",
        about: "Compressed copies: when they pay, and how they are read again",
        text: include_str!("pages/compression.txt"),
    },
    Topic {
        name: "configuration",
        about: "Settings from files and the environment, and which one counts",
        text: include_str!("pages/configuration.txt"),
    },
    Topic {
        name: "copy",
        about: "How one file is copied, and each reason against a mechanism",
        text: include_str!("pages/copy.txt"),
    },
    Topic {
        name: "exit-codes",
        about: "Exit codes, for scripts",
        text: include_str!("pages/exit-codes.txt"),
    },
    Topic {
        name: "json",
        about: "JSON output: every event, key and code",
        text: include_str!("pages/json.txt"),
    },
    Topic {
        name: "limits",
        about: "Sizes and numbers that are limited, and what cannot be prevented",
        text: include_str!("pages/limits.txt"),
    },
    Topic {
        name: "receipts",
        about: "How to read what happened to the bytes",
        text: include_str!("pages/receipts.txt"),
    },
    Topic {
        name: "remote",
        about: "Copies between machines, over ssh",
        text: include_str!("pages/remote.txt"),
    },
    Topic {
        name: "remote-data",
        about: "Connections beside the remote shell: when they are made, and their ports",
        text: include_str!("pages/remote-data.txt"),
    },
    Topic {
        name: "systems",
        about: "What works on Linux, macOS, Windows and others",
        text: include_str!("pages/systems.txt"),
    },
    Topic {
        name: "trees",
        about: "Directories with everything in them: links, --resume, --delete",
        text: include_str!("pages/trees.txt"),
    },
    Topic {
        name: "tuning",
        about: "How to find the quickest thresholds and workers for a filesystem",
        text: include_str!("pages/tuning.txt"),
    },
    Topic {
        name: "units",
        about: "Copies that outgrow one machine, cut into units of work",
        text: include_str!("pages/units.txt"),
    },
    Topic {
        name: "ways",
        about: "Mechanisms, their costs, and what decides between them",
        text: include_str!("pages/ways.txt"),
    },
];

/// Shows a topic, the help of a command, or what there is. A command comes before a topic of its name.
pub(crate) fn run(flags: &HelpArgs) -> Result<Exit, clap::Error> {
    let mut root = crate::command();
    let Some(name) = &flags.name else {
        // Not built: then it lists the commands as `--help` does.
        let text = format!("{}\n{}", root.render_help(), list());
        return Ok(exit_of(io::stdout().write_all(text.as_bytes())));
    };
    root.build();
    if let Some(command) = root.find_subcommand_mut(name) {
        let command = subcommand(command, name, &flags.subcommands)?;
        return Ok(exit_of(command.print_long_help()));
    }
    // Every other name was refused by the parser.
    let topic = TOPICS.iter().find(|topic| topic.name == name);
    if let (Some(topic), []) = (topic, &flags.subcommands[..]) {
        return Ok(exit_of(pager::show(topic.text)));
    }
    let message = format!("{name} is a topic and has no commands; `uncopy help {name}` shows it");
    Err(usage_error("help", ErrorKind::InvalidValue, &message))
}

/// Finds the command that `names` lead to.
fn subcommand<'a>(
    mut command: &'a mut Command,
    path: &str,
    names: &[String],
) -> Result<&'a mut Command, clap::Error> {
    let mut path = path.to_owned();
    for name in names {
        if command.find_subcommand(name).is_none() {
            let message =
                format!("{path} has no command {name:?}; `uncopy help {path}` shows what there is");
            return Err(usage_error("help", ErrorKind::InvalidSubcommand, &message));
        }
        path = format!("{path} {name}");
        let found = command.find_subcommand_mut(name);
        command = found.expect("it was found before");
    }
    Ok(command)
}

/// Lists the topics.
fn list() -> String {
    let lines = TOPICS.iter().map(|topic| format!("  {:<14} {}\n", topic.name, topic.about));
    format!("Topics, shown by `uncopy help TOPIC`:\n{}", lines.collect::<String>())
}

fn exit_of(written: io::Result<()>) -> Exit {
    match written {
        Ok(()) => Exit::Success,
        Err(error) => report::output_failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::TOPICS;

    /// They named pages of the repository, which no package had.
    #[test]
    fn help_texts_name_topics_that_there_are() {
        fn check(command: &mut Command, names: &[String]) {
            let text = command.render_long_help().to_string();
            assert!(!text.contains("docs/"), "{text}");
            for named in text.split("`uncopy help ").skip(1) {
                let name = named.split(['`', ' ']).next().unwrap();
                assert!(
                    names.iter().any(|known| known == name) || name == "TOPIC",
                    "{name}: {text}"
                );
            }
            command.get_subcommands_mut().for_each(|command| check(command, names));
        }
        let mut root = crate::command();
        root.build();
        let commands = root.get_subcommands().map(|command| command.get_name().to_owned());
        let names: Vec<_> = commands.chain(TOPICS.map(|topic| topic.name.to_owned())).collect();
        check(&mut root, &names);
    }

    #[test]
    fn topics_are_sorted_and_have_text_that_fits() {
        assert!(TOPICS.is_sorted_by_key(|topic| topic.name));
        for topic in TOPICS {
            assert!(topic.text.lines().count() > 20, "{}", topic.name);
            assert!(format!("  {:<14} {}", topic.name, topic.about).len() <= 90, "{}", topic.name);
        }
    }
}
