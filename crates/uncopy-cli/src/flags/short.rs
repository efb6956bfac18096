//! Flags of `cp(1)` and `rsync(1)` that `uncopy cp` does not have: each is refused with an explanation.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::usage_error;

/// A letter of `cp(1)` (coreutils 9) or `rsync(1)`, its meaning there, and what to write here.
struct Letter {
    letter: char,
    meaning: &'static str,
    next_step: &'static str,
}

const fn letter(letter: char, meaning: &'static str, next_step: &'static str) -> Letter {
    Letter { letter, meaning, next_step }
}

const LETTERS: [Letter; 3] = [
    letter(
        's',
        "\"make symbolic links\" in cp",
        "--link makes hard links, and --reflink shares the blocks; a source is named first, or by --source",
    ),
    letter(
        'Z',
        "the usual SELinux context in cp",
        "--preserve=xattr gives the copy the context of its source, where that is permitted",
    ),
    letter(
        'z',
        "compression of the connection in rsync",
        "--compress=zstd compresses the copy, and -e 'ssh -C' the connection",
    ),
];

/// A long flag of `cp(1)` or `rsync(1)` that is not supported, and what to write here.
const LONG: [(&str, &str); 61] = [
    ("symbolic-link", "--link makes hard links, and --reflink shares the blocks"),
    ("backup-dir", "--backup keeps the old file beside the new one"),
    (
        "copy-dest",
        "--link-dest makes hard links to unchanged files, and --update copies what has changed",
    ),
    ("context", "--preserve=xattr is the nearest one; the system labels new files"),
    ("keep-directory-symlink", "name the directory that the link leads to as the destination"),
    ("debug", "--verbose says how each file was copied, and why"),
    ("times", "--preserve=timestamps keeps times"),
    ("atimes", "--preserve=timestamps keeps times"),
    ("perms", "--preserve=mode keeps permissions"),
    ("executability", "--preserve=mode keeps permissions"),
    ("owner", "--preserve=ownership keeps owner and group"),
    ("group", "--preserve=ownership keeps owner and group"),
    ("acls", "--preserve=acl keeps access control lists"),
    ("xattrs", "--preserve=xattr keeps extended attributes"),
    (
        "hard-links",
        "trees keep hard links in any case; --preserve=links keeps those of single files",
    ),
    ("devices", "--specials recreates devices, FIFOs and sockets"),
    ("copy-links", "-L copies what links lead to"),
    ("copy-unsafe-links", "--links=follow --follow-outside copies what links lead to"),
    ("safe-links", "--links=follow copies what links in the tree lead to, and fails at others"),
    ("copy-dirlinks", "-L copies what links lead to"),
    ("keep-dirlinks", "name the directory that the link leads to as the destination"),
    ("relative", "--parents keeps the path of each source"),
    ("dirs", "--recursive copies directories with everything in them"),
    ("inplace", "--in-place writes into the existing file"),
    ("append", "--resume continues a file after what is known to be right"),
    ("append-verify", "--resume continues a file after what is known to be right"),
    ("partial", "--resume keeps what was copied, and continues it"),
    ("partial-dir", "--resume keeps what was copied, and continues it"),
    ("temp-dir", "temporary files lie beside their destination, so that they can be renamed"),
    ("bwlimit", "--max-bandwidth limits the rate"),
    ("existing", "--update replaces what is older, and copies what is missing"),
    ("ignore-times", "without --update, --checksum and --size-only every file is copied"),
    ("modify-window", "--update compares times to the nanosecond"),
    ("whole-file", "files are copied whole in any case, without the flag"),
    ("fsync", "--durable flushes the copy"),
    ("stats", "--verbose prints a summary, and --json one for programs"),
    ("itemize-changes", "--json prints an object for each entry"),
    ("log-file", "--audit appends a record for each file"),
    ("out-format", "--json prints an object for each entry"),
    ("human-readable", "sizes are printed for people in any case, without the flag"),
    ("info", "--verbose says more, and --json all"),
    (
        "filter",
        "--exclude and --include select by patterns, of which the last that matches decides",
    ),
    ("cvs-exclude", "--exclude-from .gitignore leaves out what git ignores"),
    ("include-from", "--include adds a pattern, and a line of --exclude-from with ! includes"),
    ("max-size", "--exclude leaves out by name; there is none by size"),
    ("min-size", "--exclude leaves out by name; there is none by size"),
    ("del", "--delete deletes in each directory when its entries are copied"),
    ("delete-before", "--delete deletes in each directory when its entries are copied"),
    ("delete-during", "--delete deletes in each directory when its entries are copied"),
    ("delete-after", "--delete deletes in each directory when its entries are copied"),
    ("delete-excluded", "--delete keeps what is excluded; remove that first"),
    ("force-delete", "--delete replaces directories by other kinds, where the source has these"),
    ("compress-level", "--compress=zstd:LEVEL compresses the copy"),
    ("numeric-ids", "owners are numbers in any case, without the flag"),
    ("rsync-path", "--remote-program names the program on the other machine"),
    ("mkpath", "mkdir -p makes the directory first"),
    ("timeout", "-e 'ssh -o ServerAliveInterval=10' ends a connection whose other end is gone"),
    ("contimeout", "-e 'ssh -o ConnectTimeout=10' gives up on a machine that does not answer"),
    ("port", "-e 'ssh -p PORT' reaches another port"),
    ("protect-args", "names go to the other machine as they are in any case, without the flag"),
    ("fuzzy", "--reflink shares the blocks, where the filesystem can"),
];

/// Replaces an error of the parser of `uncopy cp` by an explanation if its cause is a letter of
/// `cp(1)`, or a long flag of `cp(1)` or `rsync(1)`.
pub(crate) fn explained(error: clap::Error) -> clap::Error {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => flag,
        _ => return error,
    };
    if let Some((flag, next_step)) = LONG.iter().find(|(flag, _)| is_flag(unknown, flag)) {
        let message = format!("--{flag} is not supported here; {next_step}");
        return usage_error("cp", ErrorKind::UnknownArgument, &message);
    }
    let known = LETTERS.iter().find(|known| {
        let bare = unknown.strip_prefix('-');
        bare.is_some_and(|bare| bare.chars().eq([known.letter]))
    });
    let Some(Letter { letter, meaning, next_step }) = known else { return error };
    let message = format!("-{letter} is {meaning}, which is not supported here; {next_step}");
    usage_error("cp", ErrorKind::UnknownArgument, &message)
}

/// Whether the word is this long flag, with or without a value.
fn is_flag(word: &str, flag: &str) -> bool {
    let rest = word.strip_prefix("--").and_then(|word| word.strip_prefix(flag));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
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
    const SHARED: &str = "abdfilnprtuvxHLPRST";

    /// Letters that `cp` does not have.
    const OWN: &str = "0ehjq";

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
            ("-s a b", Some('s')),
            ("a b -s", Some('s')),
            ("-vs a b", Some('s')),
            ("-sv a b", Some('s')),
            ("-rZ a b", Some('Z')),
            ("-az a b", Some('z')),
            ("-faZx a b", Some('Z')),
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

    #[test]
    fn long_flags_of_others_name_the_nearest_one() {
        let command = || CopyArgs::augment_args(Command::new("cp"));
        let known: Vec<String> = command()
            .get_arguments()
            .filter_map(|flag| flag.get_long().map(String::from))
            .collect();
        for (flag, next_step) in LONG {
            assert!(!known.iter().any(|known| known == flag), "--{flag} is supported");
            for word in next_step.split(' ').filter_map(|word| word.strip_prefix("--")) {
                let name = word.split(['=', ',', ';']).next().unwrap();
                assert!(known.iter().any(|known| known == name), "there is no --{name}");
            }
            for word in [format!("--{flag}"), format!("--{flag}=x")] {
                let error = command().try_get_matches_from(["cp", "a", &word, "b"]).unwrap_err();
                let text = explained(error).to_string();
                assert!(text.contains(&format!("--{flag} is not supported here; ")), "{text}");
            }
        }
    }
}
