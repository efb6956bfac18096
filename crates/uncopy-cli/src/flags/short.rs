//! Short flags of `cp(1)` that `uncopy cp` does not have: each is refused with an explanation.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::usage_error;

/// A letter of `cp(1)` (coreutils 9), its meaning there, and what to write here.
struct Letter {
    letter: char,
    meaning: &'static str,
    next_step: &'static str,
}

const fn letter(letter: char, meaning: &'static str, next_step: &'static str) -> Letter {
    Letter { letter, meaning, next_step }
}

const LETTERS: [Letter; 12] = [
    letter(
        'a',
        "an archive of everything in cp",
        "--recursive --preserve=all keeps links, and all metadata that can be preserved",
    ),
    letter(
        'b',
        "a backup of each destination in cp",
        "--no-clobber never replaces a file; without it the old file stays until the new one \
         is complete",
    ),
    letter(
        'd',
        "\"keep links as links\" in cp",
        "--recursive --links=preserve recreates links; the destination is named last, or by --dest",
    ),
    letter(
        'H',
        "\"follow links that are named\" in cp",
        "--recursive --links=follow follows links; a single file is always read through them",
    ),
    letter('i', "\"ask before overwriting\" in cp", "--no-clobber never replaces a file"),
    letter(
        'l',
        "\"make hard links\" in cp",
        "--method=reflink shares the blocks, where the filesystem can",
    ),
    letter(
        'L',
        "\"follow every link\" in cp",
        "--recursive --links=follow --follow-outside follows links; a single file is always read \
         through them",
    ),
    letter(
        'P',
        "\"follow no link\" in cp",
        "--recursive --links=preserve, the default, recreates links",
    ),
    letter(
        's',
        "\"make symbolic links\" in cp",
        "--method=reflink shares the blocks, where the filesystem can; a source is named first, or \
         by --source",
    ),
    letter(
        'S',
        "the suffix of backups in cp",
        "--no-clobber never replaces a file; without it the old file stays until the new one \
         is complete",
    ),
    letter(
        'x',
        "\"stay on one filesystem\" in cp",
        "--exclude leaves out directories with other filesystems mounted on them",
    ),
    letter(
        'Z',
        "the usual SELinux context in cp",
        "--preserve=xattr gives the copy the context of its source, where that is permitted",
    ),
];

/// Replaces an error of the parser of `uncopy cp` by an explanation if its cause is a letter of
/// `cp(1)`.
pub(crate) fn explained(error: clap::Error) -> clap::Error {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => flag,
        _ => return error,
    };
    let known = LETTERS.iter().find(|known| {
        let bare = unknown.strip_prefix('-');
        bare.is_some_and(|bare| bare.chars().eq([known.letter]))
    });
    let Some(Letter { letter, meaning, next_step }) = known else { return error };
    let message = format!("-{letter} is {meaning}, which is not supported here; {next_step}");
    usage_error("cp", ErrorKind::UnknownArgument, &message)
}

/// Returns the error of the whole command line, [`explained`] if the subcommand is `cp`.
pub(crate) fn explained_on(line: &[OsString], error: clap::Error) -> clap::Error {
    if line.get(1).is_some_and(|subcommand| subcommand == "cp") { explained(error) } else { error }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;
    use crate::flags::copy::CopyArgs;

    /// `getopt_long` of coreutils 9.5, `src/cp.c`.
    const OF_CP: &str = "abdfHilLnprst:uvxPRS:TZ";

    /// Letters that both have, with the same meaning.
    const SHARED: &str = "fnprtuvRT";

    /// Letters that `cp` does not have.
    const OWN: &str = "hjq";

    fn letters() -> Vec<char> {
        let mut command = CopyArgs::augment_args(Command::new("cp"));
        command.build();
        command
            .get_arguments()
            .flat_map(|flag| flag.get_short_and_visible_aliases().unwrap_or_default())
            .collect()
    }

    #[test]
    fn each_letter_of_cp_means_the_same_or_is_refused() {
        let mut here = letters();
        for letter in OF_CP.chars().filter(|letter| *letter != ':') {
            let refused = LETTERS.iter().any(|known| known.letter == letter);
            let shared = SHARED.contains(letter);
            assert_eq!(here.contains(&letter), shared, "-{letter}");
            assert!(refused != shared, "-{letter}");
        }
        let mut known: Vec<char> = SHARED.chars().chain(OWN.chars()).collect();
        known.sort_unstable();
        here.sort_unstable();
        assert_eq!(here, known, "a letter that was never compared with cp's");
    }

    #[test]
    fn a_letter_is_explained_wherever_it_stands() {
        for (line, expected) in [
            ("-d a b", Some('d')),
            ("a b -s", Some('s')),
            ("-vd a b", Some('d')),
            ("-dv a b", Some('d')),
            ("-rS.bak a b", Some('S')),
            ("-fax a b", Some('a')),
            ("-y a b", None),
            ("--d a b", None),
            ("--deference a b", None),
            ("-r\u{e9} a b", None),
        ] {
            let command = CopyArgs::augment_args(Command::new("cp"));
            let words = std::iter::once("cp").chain(line.split(' '));
            let error = explained(command.try_get_matches_from(words).unwrap_err());
            assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{line}");
            let text = error.to_string();
            let found = text.strip_prefix("error: -").filter(|_| text.contains("not supported"));
            assert_eq!(found.and_then(|text| text.chars().next()), expected, "{line}: {text}");
        }
    }
}
