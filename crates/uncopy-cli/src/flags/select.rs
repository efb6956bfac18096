//! `--include`, `--exclude` and `--exclude-from` in the order of the command line: the last match decides, so two
//! separate lists would not do.

use std::path::PathBuf;

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint, value_parser,
};

/// Patterns of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Patterns {
    pub in_order: Vec<Pattern>,
}

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pattern {
    Include(String),
    Exclude(String),
    ExcludeFrom(PathBuf),
}

impl Args for Patterns {
    fn augment_args(command: Command) -> Command {
        let pattern = |name: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .action(ArgAction::Append)
                .requires("whole")
                .help_heading(super::tree::TREES)
        };
        command
            .arg(pattern("exclude").help(
                "Leave out entries that match, as a line of .gitignore does; the last matching pattern decides",
            ))
            .arg(pattern("include").help(
                "Copy entries that match; if it is the first pattern, only included entries are copied",
            ))
            .arg(
                pattern("exclude-from")
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .value_hint(ValueHint::FilePath)
                    .help("Leave out what the lines of FILE match, as those of a .gitignore do"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Patterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut patterns = Patterns::default();
        patterns.update_from_arg_matches(matches)?;
        Ok(patterns)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let of = |name: &str, make: fn(String) -> Pattern| {
            let places = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten();
            places
                .zip(values)
                .map(|(place, value)| (place, make(value.clone())))
                .collect::<Vec<_>>()
        };
        let mut all = of("include", Pattern::Include);
        all.extend(of("exclude", Pattern::Exclude));
        let files = matches.get_many::<PathBuf>("exclude-from").into_iter().flatten();
        let places = matches.indices_of("exclude-from").into_iter().flatten();
        all.extend(
            places.zip(files).map(|(place, file)| (place, Pattern::ExcludeFrom(file.clone()))),
        );
        all.sort_by_key(|(place, _)| *place);
        self.in_order = all.into_iter().map(|(_, pattern)| pattern).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_keep_their_order() {
        let flag = clap::Arg::new("whole").long("recursive").action(ArgAction::SetTrue);
        let command = Patterns::augment_args(Command::new("cp").arg(flag));
        let line = "cp --recursive --exclude a --include b --exclude-from=f --exclude=c";
        let matches = command.get_matches_from(line.split(' '));
        let found = Patterns::from_arg_matches(&matches).unwrap().in_order;
        let [a, b, c] = ["a", "b", "c"].map(String::from);
        let file = Pattern::ExcludeFrom("f".into());
        assert_eq!(found, [Pattern::Exclude(a), Pattern::Include(b), file, Pattern::Exclude(c)]);
    }
}
