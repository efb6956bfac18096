//! `-P`, `-d`, `-L`, `-H` and `--links`, of which the last one decides: separate flags would not show
//! their order.

use clap::builder::EnumValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum};

use super::tree::TREES;

/// Treatment of symbolic links and hard links on a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkArgs {
    pub symbolic: Option<Following>,
    /// Treatment of symbolic links in trees without a flag, by the settings.
    pub of_trees: LinksArg,
    /// `-d`: hard links are kept between single files too.
    pub keeps_hard_links: bool,
}

/// Treatment of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Following {
    /// `-P`, `-d`, `-a`.
    Never,
    /// `-L`.
    Always,
    /// `-H`: those that are named.
    Named,
    /// `--links`.
    As(LinksArg),
}

/// `--links`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinksArg {
    /// Recreate links as they are
    #[default]
    Preserve,
    /// Copy the target of a link, if it lies in the tree
    Follow,
    /// Leave links out
    Skip,
}

const KEEP: &str = "no_dereference_preserve_links";
const NEVER: &str = "no_dereference";
const ALWAYS: &str = "dereference";
const NAMED: &str = "dereference_named";
const LINKS: &str = "links";

/// Ids of the flags that decide about symbolic links.
pub(crate) const IDS: &[&str] = &[LINKS, KEEP, NEVER, ALWAYS, NAMED, "archive"];

impl Args for LinkArgs {
    fn augment_args(command: Command) -> Command {
        let flag = |id: &'static str, short: char, help: &'static str| {
            Arg::new(id).short(short).action(ArgAction::SetTrue).help(help).help_heading(TREES)
        };
        command
            .arg(
                Arg::new(LINKS)
                    .long(LINKS)
                    .value_name("HOW")
                    .value_parser(EnumValueParser::<LinksArg>::new())
                    .action(ArgAction::Append)
                    .help_heading(TREES)
                    .help(
                        "Symbolic links: recreate them (preserve), copy their targets (follow), or leave them out (skip)",
                    ),
            )
            .arg(
                flag(NEVER, 'P', "Recreate symbolic links, also those that are named (the default for trees)")
                    .long("no-dereference"),
            )
            .arg(
                flag(ALWAYS, 'L', "Copy what symbolic links lead to, also outside the tree (the default for single files)")
                    .long(ALWAYS),
            )
            .arg(flag(NAMED, 'H', "Follow symbolic links that are named, and recreate those in trees"))
            .arg(flag(KEEP, 'd', "Recreate symbolic links and keep hard links: -P --preserve=links"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LinkArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut links = LinkArgs::default();
        links.update_from_arg_matches(matches)?;
        Ok(links)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let is_given = |id: &str| {
            matches.try_contains_id(id).is_ok()
                && matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        let place = |id: &str| matches.indices_of(id).into_iter().flatten().max();
        let last = IDS.iter().filter(|id| is_given(id)).max_by_key(|id| place(id));
        self.symbolic = last.map(|last| match *last {
            ALWAYS => Following::Always,
            NAMED => Following::Named,
            LINKS => {
                let values = matches.get_many::<LinksArg>(LINKS).into_iter().flatten();
                Following::As(values.last().copied().unwrap_or_default())
            }
            _ => Following::Never,
        });
        self.keeps_hard_links = is_given(KEEP);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::copy::CopyArgs;

    fn parsed(line: &str) -> LinkArgs {
        let words = std::iter::once("cp").chain(line.split(' '));
        let matches = CopyArgs::augment_args(Command::new("cp")).get_matches_from(words);
        CopyArgs::from_arg_matches(&matches).unwrap().tree.links
    }

    #[test]
    fn the_last_flag_about_symbolic_links_decides() {
        for (line, expected) in [
            ("a b", None),
            ("-P a b", Some(Following::Never)),
            ("-L a b", Some(Following::Always)),
            ("-H a b", Some(Following::Named)),
            ("-d a b", Some(Following::Never)),
            ("-a a b", Some(Following::Never)),
            ("-aL a b", Some(Following::Always)),
            ("-La a b", Some(Following::Never)),
            ("-PLH a b", Some(Following::Named)),
            ("-L a b -P", Some(Following::Never)),
            ("-L --links=skip a b", Some(Following::As(LinksArg::Skip))),
            ("--links=skip -H a b", Some(Following::Named)),
            ("--links=skip --links=follow a b", Some(Following::As(LinksArg::Follow))),
        ] {
            assert_eq!(parsed(line).symbolic, expected, "{line}");
        }
        assert!(parsed("-d a b").keeps_hard_links && !parsed("-P a b").keeps_hard_links);
    }
}
