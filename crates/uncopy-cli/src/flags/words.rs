//! Flags of `uncopy cp` written as words, which another process reads: on another machine, or in a unit of work (pure).

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};

use super::copy::CopyArgs;
use super::select::Pattern;

/// A setting of the machine of the command line: NAME=VALUE.
const SETTING: &str = "setting";

/// Writes the flags of a command line anew, in their order. Only those with an id for which `is_written` is true.
pub(crate) fn of_flags(given: &ArgMatches, is_written: impl Fn(&str) -> bool) -> Vec<OsString> {
    let command = CopyArgs::augment_args(Command::new("cp"));
    let mut words: Vec<(usize, OsString)> = Vec::new();
    for flag in command.get_arguments() {
        let id = flag.get_id().as_str();
        if !is_written(id) || !is_given(given, id) {
            continue;
        }
        let places = given.indices_of(id).into_iter().flatten();
        if flag.get_action().takes_values() {
            let values = given.get_raw(id).into_iter().flatten();
            words.extend(places.zip(values).map(|(place, value)| {
                let mut word = name_of(flag);
                word.push("=");
                word.push(value);
                (place, word)
            }));
        } else {
            words.extend(places.last().map(|place| (place, name_of(flag))));
        }
    }
    words.sort_by_key(|(place, _)| *place);
    words.into_iter().map(|(_, word)| word).collect()
}

/// Whether a flag is on a command line.
pub(crate) fn is_given(given: &ArgMatches, id: &str) -> bool {
    // Not every command has every flag.
    given.try_contains_id(id).is_ok() && given.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns the name by which a flag is written.
pub(crate) fn name_of(flag: &Arg) -> OsString {
    match (flag.get_long(), flag.get_short()) {
        (Some(long), _) => format!("--{long}").into(),
        (None, short) => short.map(|short| format!("-{short}")).unwrap_or_default().into(),
    }
}

/// Writes patterns, without the files that contain some: those must have been read.
pub(crate) fn of_patterns(patterns: &[Pattern]) -> impl Iterator<Item = OsString> {
    patterns.iter().filter_map(|pattern| match pattern {
        Pattern::Include(pattern) => Some(format!("--include={pattern}").into()),
        Pattern::Exclude(pattern) => Some(format!("--exclude={pattern}").into()),
        Pattern::ExcludeFrom(_) => None,
    })
}

/// Writes a setting.
pub(crate) fn of_setting(name: &str, value: &str) -> OsString {
    format!("--{SETTING}={name}={value}").into()
}

/// Adds what settings are read by to a command. Whoever wrote its words gets no help and no version from it.
pub(crate) fn with_settings(command: Command) -> Command {
    let command = command.disable_help_flag(true).disable_version_flag(true);
    command.arg(Arg::new(SETTING).long(SETTING).action(ArgAction::Append).hide(true))
}

/// Returns the settings among words.
///
/// # Errors
/// A sentence for people: one of them has no value.
pub(crate) fn settings(matches: &ArgMatches) -> Result<Vec<(&str, &str)>, &'static str> {
    let settings = matches.get_many::<String>(SETTING).into_iter().flatten();
    let settings: Option<Vec<(&str, &str)>> =
        settings.map(|setting| setting.split_once('=')).collect();
    settings.ok_or("a setting has no value")
}
