//! Flags of `uncopy cp` by what they choose.

use uncopy::Choice;

/// Returns the flag, with its value where that matters.
pub(crate) fn flag(choice: Choice) -> &'static str {
    match choice {
        Choice::ReadWriteOnly => "--no-zero-copy",
        Choice::OneMechanism => "--method or --reflink",
        Choice::Require => "--require",
        Choice::Unshared => "--reflink=never",
        Choice::CacheKeep => "--cache=keep",
        Choice::CacheSkip => "--cache=skip",
        Choice::SparseAlways => "--sparse=always",
        Choice::SparseNever => "--sparse=never",
        Choice::PreferCpuTime => "--prefer=cpu",
        Choice::InPlace => "--in-place",
        Choice::Durable => "--durable",
        Choice::Verify => "--verify",
        Choice::Digest => "--digest",
        Choice::ZeroCopyMin => "--zero-copy-min",
        Choice::DirectMin => "--direct-min",
        Choice::DirectCpuMin => "--direct-cpu-min",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;
    use crate::flags::copy::CopyArgs;

    #[test]
    fn every_choice_has_a_flag_that_there_is() {
        let command = CopyArgs::augment_args(Command::new("cp"));
        for choice in Choice::ALL {
            for flag in flag(*choice).split(" or ") {
                let flag = flag.strip_prefix("--").unwrap_or_else(|| panic!("{choice}"));
                let (name, value) =
                    flag.split_once('=').map_or((flag, None), |(n, v)| (n, Some(v)));
                let known = command.get_arguments().find(|known| known.get_long() == Some(name));
                let known = known.unwrap_or_else(|| panic!("{choice}: --{name}"));
                let takes = |value: &str| {
                    known.get_possible_values().iter().any(|v| v.matches(value, false))
                };
                assert!(value.is_none_or(takes), "{choice}: {flag}");
            }
        }
    }
}
