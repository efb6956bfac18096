//! Flags of `uncopy cp` that contradict each other before they become options of the library, which
//! has contradictions of its own ([`uncopy::copy::CopyOptions::check`]).

use std::fmt;

use crate::flags::copy::{Attribute, CopyArgs, Method, ReflinkArg, RequireArg};

/// Two flags that cannot both be obeyed, and what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conflict {
    first: &'static str,
    second: &'static str,
    next_step: &'static str,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} contradicts {}; {}", self.first, self.second, self.next_step)
    }
}

const ONE_RULE: &str = "name the mechanism or the rule, not both";
const ONE_OF_THEM: &str = "leave one of them out";

/// The first contradiction, if there is one.
pub(crate) fn find(flags: &CopyArgs) -> Option<Conflict> {
    let named = flags.method != Method::Auto;
    let into_directory = flags.target_directory.is_some();
    let shares = flags.reflink == Some(ReflinkArg::Always);
    let unshared = flags.reflink == Some(ReflinkArg::Never);
    let (verifying, manifest) = (flags.verify.is_some(), flags.manifest.is_some());
    let rows = [
        (named && flags.no_zero_copy, "--method", "--no-zero-copy", ONE_RULE),
        (flags.zero_copy && flags.no_zero_copy, "--zero-copy", "--no-zero-copy", ONE_OF_THEM),
        (
            flags.require_zero_copy && flags.no_zero_copy,
            "--require-zero-copy",
            "--no-zero-copy",
            ONE_OF_THEM,
        ),
        (flags.no_user_copy && flags.no_zero_copy, "--no-user-copy", "--no-zero-copy", ONE_OF_THEM),
        (
            flags.require != RequireArg::None && flags.no_zero_copy,
            "--require",
            "--no-zero-copy",
            ONE_OF_THEM,
        ),
        (flags.force && flags.no_clobber, "--force", "--no-clobber", ONE_OF_THEM),
        (flags.interactive && flags.no_clobber, "--interactive", "--no-clobber", ONE_OF_THEM),
        (
            flags.interactive && flags.tree.jobs.is_some_and(|jobs| jobs.get() > 1),
            "--interactive",
            "--jobs",
            "questions come from one worker; leave one of them out",
        ),
        (
            flags.interactive && flags.json,
            "--interactive",
            "--json",
            "a program cannot answer; leave one of them out",
        ),
        (
            flags.remove_destination && flags.no_clobber,
            "--remove-destination",
            "--no-clobber",
            ONE_OF_THEM,
        ),
        (
            flags.parents && flags.files_from.is_some(),
            "--parents",
            "--files-from",
            "paths of a list are kept in any case; leave out --parents",
        ),
        (
            flags.keeps_paths() && flags.no_target_directory,
            if flags.parents { "--parents" } else { "--files-from" },
            "--no-target-directory",
            "paths are kept below a directory; leave one of them out",
        ),
        (
            flags.interactive && flags.files_from.as_deref().is_some_and(|list| list == "-"),
            "--interactive",
            "--files-from=-",
            "standard input is one or the other; name the list as a file",
        ),
        (
            flags.lists_on_standard_input() > 1,
            "--exclude-from=-",
            if flags.files_from.as_deref().is_some_and(|list| list == "-") {
                "--files-from=-"
            } else {
                "another --exclude-from=-"
            },
            "standard input is one list; name the other as a file",
        ),
        (flags.tree.checksum && flags.tree.size_only, "--checksum", "--size-only", ONE_OF_THEM),
        (
            into_directory && flags.dest.is_some(),
            "--target-directory",
            "--dest",
            "give one destination",
        ),
        (
            into_directory && flags.no_target_directory,
            "--target-directory",
            "--no-target-directory",
            ONE_OF_THEM,
        ),
        (
            flags.tree.archive && flags.no_preserve.contains(&Attribute::All),
            "--archive",
            "--no-preserve",
            "pass --recursive, or --no-preserve=LIST",
        ),
        (flags.reflink.is_some() && named, "--reflink", "--method", ONE_RULE),
        (shares && flags.no_zero_copy, "--reflink", "--no-zero-copy", ONE_OF_THEM),
        (
            unshared && matches!(flags.require, RequireArg::Shared | RequireArg::Reflink),
            "--reflink=never",
            "--require",
            ONE_OF_THEM,
        ),
        (unshared && flags.require_zero_copy, "--reflink=never", "--require-zero-copy", ONE_RULE),
        (unshared && flags.no_user_copy, "--reflink=never", "--no-user-copy", ONE_RULE),
        (verifying && flags.no_verify, "--verify", "--no-verify", ONE_OF_THEM),
        (flags.digest.is_some() && flags.no_digest, "--digest", "--no-digest", ONE_OF_THEM),
        (manifest && flags.no_digest, "--manifest", "--no-digest", ONE_OF_THEM),
        (
            manifest && flags.copy_contents,
            "--manifest",
            "--copy-contents",
            "a device or FIFO cannot be checked; leave one of them out",
        ),
        (
            manifest && flags.tree.dry_run,
            "--manifest",
            "--dry-run",
            "nothing is copied that it could name; leave one of them out",
        ),
        (flags.durable && flags.no_durable, "--durable", "--no-durable", ONE_OF_THEM),
        (flags.compress.is_some() && flags.decompress, "--compress", "--decompress", ONE_OF_THEM),
        (flags.compress.is_some() && flags.no_compress, "--compress", "--no-compress", ONE_OF_THEM),
        (flags.decompress && flags.no_compress, "--decompress", "--no-compress", ONE_OF_THEM),
        (
            !flags.preserve.is_empty() && flags.no_preserve.contains(&Attribute::All),
            "--preserve",
            "--no-preserve",
            ONE_OF_THEM,
        ),
        (
            flags.trust_shared_extents && flags.no_verify,
            "--trust-shared-extents",
            "--no-verify",
            "it only says how --verify is to be done; leave one of them out",
        ),
        (
            flags.verbose && flags.quiet,
            "--verbose",
            "--quiet",
            "leave one of them out; without both only errors and notes are printed",
        ),
        (
            flags.verbose && flags.json,
            "--verbose",
            "--json",
            "leave out --verbose; the JSON says all that it says",
        ),
    ];
    rows.into_iter().find(|(both, ..)| *both).map(|(_, first, second, next_step)| Conflict {
        first,
        second,
        next_step,
    })
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn conflict_of(line: &str) -> Option<String> {
        let arguments = std::iter::once("cp").chain(line.split(' '));
        let matches = CopyArgs::augment_args(clap::Command::new("cp")).get_matches_from(arguments);
        find(&CopyArgs::from_arg_matches(&matches).unwrap())
            .map(|found| format!("{} {}", found.first, found.second))
    }

    #[test]
    fn contradictions_are_found() {
        for (line, expected) in [
            ("--method read-write --no-zero-copy a b", "--method --no-zero-copy"),
            ("--zero-copy --no-zero-copy a b", "--zero-copy --no-zero-copy"),
            ("--require-zero-copy --no-zero-copy a b", "--require-zero-copy --no-zero-copy"),
            ("--no-user-copy --no-zero-copy a b", "--no-user-copy --no-zero-copy"),
            ("--require=shared --no-zero-copy a b", "--require --no-zero-copy"),
            ("-nf a b", "--force --no-clobber"),
            ("-in a b", "--interactive --no-clobber"),
            ("-ri -j2 a b", "--interactive --jobs"),
            ("-i --json a b", "--interactive --json"),
            ("--parents --files-from l a b", "--parents --files-from"),
            ("--parents -T a b", "--parents --no-target-directory"),
            ("--files-from l -T a b", "--files-from --no-target-directory"),
            ("-i --files-from - a b", "--interactive --files-from=-"),
            ("-r --exclude-from - --files-from - a b", "--exclude-from=- --files-from=-"),
            (
                "-r --exclude-from - --exclude-from=- a b",
                "--exclude-from=- another --exclude-from=-",
            ),
            ("-n --remove-destination a b", "--remove-destination --no-clobber"),
            ("-r --checksum --size-only a b", "--checksum --size-only"),
            ("-t x --dest y a", "--target-directory --dest"),
            ("-Tt x a", "--target-directory --no-target-directory"),
            ("--verify --no-verify a b", "--verify --no-verify"),
            ("--digest --no-digest a b", "--digest --no-digest"),
            ("--manifest m --no-digest a b", "--manifest --no-digest"),
            ("--manifest m --copy-contents a b", "--manifest --copy-contents"),
            ("--manifest m -r --dry-run a b", "--manifest --dry-run"),
            ("--durable --no-durable a b", "--durable --no-durable"),
            ("-p --no-preserve a b", "--preserve --no-preserve"),
            ("-a --no-preserve a b", "--archive --no-preserve"),
            ("--reflink --method=direct a b", "--reflink --method"),
            ("--reflink --no-zero-copy a b", "--reflink --no-zero-copy"),
            ("--reflink=never --require=shared a b", "--reflink=never --require"),
            ("--reflink=never --require-zero-copy a b", "--reflink=never --require-zero-copy"),
            ("--reflink=never --no-user-copy a b", "--reflink=never --no-user-copy"),
            ("--compress=zstd --decompress a b", "--compress --decompress"),
            ("--compress=zstd --no-compress a b", "--compress --no-compress"),
            ("--decompress --no-compress a b", "--decompress --no-compress"),
            ("--trust-shared-extents --no-verify a b", "--trust-shared-extents --no-verify"),
            ("-vq a b", "--verbose --quiet"),
            ("-v --json a b", "--verbose --json"),
        ] {
            assert_eq!(conflict_of(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn flags_that_agree_are_accepted() {
        for line in [
            "a b",
            "-ri -j1 a b",
            "-if a b",
            "-i --files-from l a b",
            "-r --exclude-from - --files-from l a b",
            "-r --exclude-from l --files-from - a b",
            "--parents -t d a b",
            "--method auto --require-zero-copy a b",
            "--zero-copy --require-zero-copy a b",
            "--zero-copy --method direct a b",
            "--require-zero-copy --no-user-copy a b",
            "--require=none --no-zero-copy a b",
            "--require=moved --method direct a b",
            "--cache=keep a b",
            "--cache=skip --method direct a b",
            "--trust-shared-extents --verify a b",
            "-T --dest b a",
            "-q --json a b",
            "-u --checksum a b",
            "--size-only -u a b",
            "-a --no-preserve=ownership a b",
            "--reflink=never --no-zero-copy a b",
            "--reflink=auto --require-zero-copy a b",
        ] {
            assert_eq!(conflict_of(line), None, "{line}");
        }
    }
}
