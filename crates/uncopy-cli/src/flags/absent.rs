//! Commands that this build does not have: they are refused by name, with a way to get them.

use clap::error::ErrorKind;

use super::usage_error;

/// Shown in the help of such a command.
#[cfg(not(all(feature = "unit", target_os = "linux")))]
pub(super) const ABOUT: &str = "Not in this build";

/// Takes whatever words follow, so that the answer is always [`refusal`].
#[cfg(any(test, not(all(feature = "unit", target_os = "linux"))))]
pub(super) fn augment(command: clap::Command) -> clap::Command {
    use clap::{Arg, ArgAction, value_parser};

    let words = Arg::new("words").action(ArgAction::Append).num_args(0..).trailing_var_arg(true);
    let words = words.allow_hyphen_values(true).value_parser(value_parser!(std::ffi::OsString));
    command.disable_help_flag(true).arg(words)
}

/// Says how to get what a feature of this crate adds.
pub(crate) fn how_to_get(feature: &str) -> String {
    format!(
        "packages have it; from the sources, on Linux: cargo install --path crates/uncopy-cli --features {feature}"
    )
}

/// Says that this build lacks a command, which only a build with the feature `unit` has.
pub(crate) fn refused(command: &str) -> String {
    format!("this build has no `uncopy {command}`: {}", how_to_get("unit"))
}

/// Refuses such a command.
pub(crate) fn refusal(command: &str) -> clap::Error {
    usage_error(command, ErrorKind::InvalidSubcommand, &refused(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_command_takes_all_words_and_says_how_to_get_it() {
        for words in ["unit", "unit plan a b", "unit --help", "unit run -q -- -x"] {
            let command = augment(clap::Command::new("unit"));
            command.try_get_matches_from(words.split(' ')).unwrap();
        }
        let error = refusal("unit").to_string();
        assert!(error.contains("this build has no `uncopy unit`"), "{error}");
        assert!(error.contains("--features unit"), "{error}");
    }
}
