//! Says which flag of `uncopy cp` is obeyed between machines (pure): one table for the refusals and for the book.

use std::fmt;

use super::copy::{CacheArg, CopyArgs, IfChangedArg, Method, PreferArg, ReflinkArg, RequireArg};
use super::links::Following;
use uncopy::Mechanism;

/// Direction of a copy between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The destination is on the other machine.
    Push,
    /// The sources are on the other machine.
    Pull,
}

/// Whether a flag is obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    /// As on one machine.
    Honoured,
    /// Refused by name, before anything is changed.
    Refused(Why),
}

/// Reason for which a flag is refused between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Bytes that come over a network pass through memory.
    NoCheaperWay,
    /// The other side only shows its files.
    SourceIsOnlyRead,
    /// Two machines have no file in common.
    NothingToShare,
    /// Nobody is asked on the other machine.
    NoTerminalThere,
    /// It looks into the memory of the source's machine.
    MemoryOfOneMachine,
    /// The other side shows nothing outside what was named.
    OutsideIsNotShown,
    /// The directories above a source are no part of what was named.
    AboveIsNotShown,
    /// A named source is shown with all that is below it, and no list cuts it down.
    SourcesAreShownWhole,
    /// It could be done, and is not yet.
    NotBuilt,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::NoCheaperWay => "bytes that come over a network pass through memory",
            Why::SourceIsOnlyRead => "the side with the source only shows it",
            Why::NothingToShare => "two machines share no file",
            Why::NoTerminalThere => "nobody answers on the other machine",
            Why::MemoryOfOneMachine => "it looks at the page cache of one machine",
            Why::OutsideIsNotShown => "nothing outside the sources is shown",
            Why::AboveIsNotShown => "the directories above the sources are not shown",
            Why::SourcesAreShownWhole => {
                "a source is shown whole, and --include and --exclude select what is copied"
            }
            Why::NotBuilt => "not built yet",
        })
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Support::Honoured => f.write_str("honoured"),
            Support::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

/// Flags, or values of them, that are treated alike between machines.
pub(crate) struct BetweenRow {
    /// Ids of the flags.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare them with the parser"))]
    ids: &'static [&'static str],
    /// Flags and values as people write them.
    words: &'static str,
    /// Whether flags or settings ask for it.
    is_asked: fn(&CopyArgs) -> bool,
    push: Support,
    pull: Support,
}

impl BetweenRow {
    fn support(&self, direction: Direction) -> Support {
        match direction {
            Direction::Push => self.push,
            Direction::Pull => self.pull,
        }
    }
}

const fn honoured(ids: &'static [&'static str], words: &'static str) -> BetweenRow {
    let yes = Support::Honoured;
    BetweenRow { ids, words, is_asked: |_| false, push: yes, pull: yes }
}

const fn refused(
    ids: &'static [&'static str],
    words: &'static str,
    is_asked: fn(&CopyArgs) -> bool,
    why: Why,
) -> BetweenRow {
    let no = Support::Refused(why);
    BetweenRow { ids, words, is_asked, push: no, pull: no }
}

const fn refused_in_push(
    ids: &'static [&'static str],
    words: &'static str,
    is_asked: fn(&CopyArgs) -> bool,
    why: Why,
) -> BetweenRow {
    BetweenRow { ids, words, is_asked, push: Support::Refused(why), pull: Support::Honoured }
}

/// Every flag, in the order of the help.
pub(crate) static ROWS: [BetweenRow; 48] = [
    honoured(
        &["paths", "source", "dest", "target_directory", "no_target_directory"],
        "--source, --dest, -t, -T",
    ),
    honoured(&["strip_trailing_slashes"], "--strip-trailing-slashes"),
    refused(&["parents"], "--parents", |f| f.parents, Why::AboveIsNotShown),
    refused(
        &["files_from", "from0"],
        "--files-from and --from0",
        |f| f.files_from.is_some(),
        Why::SourcesAreShownWhole,
    ),
    honoured(&["no_clobber"], "--no-clobber"),
    refused_in_push(&["interactive"], "--interactive", |f| f.interactive, Why::NoTerminalThere),
    honoured(&["force", "remove_destination"], "--force, --remove-destination"),
    honoured(&["backup", "suffix"], "--backup, --suffix"),
    refused(&["link"], "--link", |f| f.link, Why::NothingToShare),
    honoured(&["attributes_only"], "--attributes-only"),
    refused(&["in_place"], "--in-place", |f| f.in_place, Why::NotBuilt),
    refused(&["copy_contents"], "--copy-contents", |f| f.copy_contents, Why::NotBuilt),
    honoured(&["recursive", "archive"], "--recursive, --archive"),
    honoured(
        &["links", "no_dereference", "dereference_named", "no_dereference_preserve_links"],
        "--links, -P, -H, -d",
    ),
    refused(
        &["dereference"],
        "-L",
        |f| f.tree.links.symbolic == Some(Following::Always),
        Why::OutsideIsNotShown,
    ),
    refused(
        &["follow_outside"],
        "--follow-outside",
        |f| f.tree.follow_outside,
        Why::OutsideIsNotShown,
    ),
    honoured(&["one_file_system"], "--one-file-system"),
    honoured(&["specials"], "--specials"),
    honoured(&["include", "exclude", "exclude-from"], "--include, --exclude, --exclude-from"),
    honoured(&["update"], "--update"),
    honoured(&["checksum", "size_only"], "--checksum, --size-only"),
    honoured(&["link_dest"], "--link-dest"),
    refused(
        &["remove_source_files"],
        "--remove-source-files",
        |f| f.tree.remove_source_files,
        Why::SourceIsOnlyRead,
    ),
    honoured(
        &["delete", "delete_empty_source", "max_delete"],
        "--delete, --delete-empty-source, --max-delete",
    ),
    honoured(&["dry_run"], "--dry-run"),
    honoured(&["retries", "on_error"], "--retries, --on-error"),
    honoured(&["resume"], "--resume"),
    honoured(&["jobs"], "--jobs"),
    honoured(&["progress"], "--progress"),
    refused(
        &["method"],
        "--method, other than auto and read-write",
        |f| !matches!(f.method, Method::Auto | Method::Only(Mechanism::ReadWrite)),
        Why::NoCheaperWay,
    ),
    honoured(&["zero_copy", "no_zero_copy"], "--zero-copy, --no-zero-copy"),
    refused(
        &["require", "require_zero_copy", "no_user_copy"],
        "--require, --require-zero-copy and --no-user-copy",
        |f| f.requirement() != RequireArg::None,
        Why::NoCheaperWay,
    ),
    refused(
        &["reflink"],
        "--reflink=always",
        |f| f.reflink == Some(ReflinkArg::Always),
        Why::NothingToShare,
    ),
    refused(&["prefer"], "--prefer=cpu", |f| f.prefer == PreferArg::Cpu, Why::NoCheaperWay),
    honoured(&["sparse"], "--sparse"),
    refused(
        &["cache"],
        "--cache=keep and --cache=skip",
        |f| f.cache != CacheArg::Auto,
        Why::NotBuilt,
    ),
    honoured(&["max_bandwidth"], "--max-bandwidth"),
    refused(
        &["compress", "decompress"],
        "--compress and --decompress",
        |f| f.compress.is_some() || f.decompress,
        Why::NotBuilt,
    ),
    honoured(&["no_compress"], "--no-compress"),
    refused(
        &["zero_copy_min", "direct_min", "direct_cpu_min"],
        "--zero-copy-min, --direct-min and --direct-cpu-min",
        |f| f.zero_copy_min.is_some() || f.direct_min.is_some() || f.direct_cpu_min.is_some(),
        Why::NoCheaperWay,
    ),
    honoured(&["buffer_size"], "--buffer-size"),
    honoured(
        &["preserve", "no_preserve", "chmod", "chown"],
        "--preserve, --no-preserve, --chmod, --chown",
    ),
    honoured(&["durable", "no_durable"], "--durable, --no-durable"),
    refused(
        &["if_changed"],
        "--if-changed=fail and --if-changed=retry, which flush the source,",
        |f| matches!(f.if_changed, Some(IfChangedArg::Fail | IfChangedArg::Retry)),
        Why::MemoryOfOneMachine,
    ),
    honoured(
        &["verify", "no_verify", "trust_shared_extents", "digest", "no_digest"],
        "--verify, --digest and what goes with them",
    ),
    honoured(
        &["verbose", "quiet", "json", "config", "rsh", "remote_program"],
        "--verbose, --quiet, --json, --config, --rsh, --remote-program",
    ),
    honoured(&["data", "connections", "data_ports"], "--data, --connections, --data-ports"),
    honoured(&["audit", "manifest"], "--audit, --manifest"),
];

/// Describes what is refused of these flags and settings, if something is.
pub(crate) fn refusal(flags: &CopyArgs, direction: Direction) -> Option<String> {
    let asked = ROWS.iter().filter(|row| (row.is_asked)(flags));
    let refused: Vec<String> = asked
        .filter_map(|row| match row.support(direction) {
            Support::Honoured => None,
            Support::Refused(why) => Some(format!("{} ({why})", row.words.trim_end_matches(','))),
        })
        .collect();
    (!refused.is_empty())
        .then(|| format!("between machines these are not obeyed: {}", refused.join("; ")))
}

/// Returns whether a flag, or a flag with this value, is obeyed.
#[cfg(test)]
pub(crate) fn support_of(word: &str, direction: Direction) -> Support {
    let is_named = |row: &&BetweenRow| {
        let mut words = row.words.split([' ', ',']).filter(|named| named.starts_with("--"));
        words.any(|named| {
            named == word || word.split_once('=').is_some_and(|(flag, _)| flag == named)
        })
    };
    ROWS.iter().find(is_named).map_or(Support::Honoured, |row| row.support(direction))
}

/// Next step after a refusal.
pub(crate) const NEXT_STEP: &str =
    "leave them out, and out of the settings (`uncopy config show` prints their origins)";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;

    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn parse(line: &str) -> CopyArgs {
        let words = std::iter::once("cp").chain(line.split_whitespace());
        let matches = CopyArgs::augment_args(Command::new("cp")).get_matches_from(words);
        CopyArgs::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn every_flag_has_one_row() {
        let command = CopyArgs::augment_args(Command::new("cp"));
        let mut rows = BTreeMap::<&str, usize>::new();
        for id in ROWS.iter().flat_map(|row| row.ids) {
            *rows.entry(id).or_default() += 1;
        }
        for flag in command.get_arguments() {
            let found = rows.remove(flag.get_id().as_str());
            assert_eq!(found, Some(1), "{}", flag.get_id());
        }
        assert!(rows.is_empty(), "no flags: {rows:?}");
    }

    #[test]
    fn the_words_of_a_row_are_its_flags() {
        let mut command = CopyArgs::augment_args(Command::new("cp"));
        command.build();
        for row in &ROWS {
            for word in row.words.split([' ', ',']).filter_map(|word| word.strip_prefix("--")) {
                let name = word.split('=').next().unwrap();
                let flag = command.get_arguments().find(|flag| flag.get_long() == Some(name));
                let id = flag.unwrap_or_else(|| panic!("--{name}")).get_id().as_str();
                assert!(row.ids.contains(&id), "--{name} is in the row of {:?}", row.ids);
            }
        }
    }

    /// For each row a way to ask for it, or several.
    #[test]
    fn what_is_refused_is_named() {
        let both = [true, true];
        for (flags, expected, [push, pull]) in [
            ("--parents", "--parents (the directories above the sources are not shown)", both),
            ("--files-from l", "--files-from and --from0 (a source is shown whole, and ", both),
            ("-i", "--interactive (nobody answers on the other machine)", [true, false]),
            ("-l", "--link (two machines share no file)", both),
            ("--in-place", "--in-place (", both),
            ("--copy-contents", "--copy-contents (", both),
            ("-rL", "-L (nothing outside the sources is shown)", both),
            ("-r --links=follow --follow-outside", "--follow-outside (", both),
            ("-r --remove-source-files", "--remove-source-files (", both),
            ("--method=splice", "--method, other than auto and read-write (bytes", both),
            ("--require=moved", "--require, --require-zero-copy and --no-user-copy (", both),
            ("--require-zero-copy", "--require, --require-zero-copy and --no-user-copy (", both),
            ("--no-user-copy", "--require, --require-zero-copy and --no-user-copy (", both),
            ("--reflink", "--reflink=always (", both),
            ("--prefer=cpu", "--prefer=cpu (", both),
            ("--cache=skip", "--cache=keep and --cache=skip (", both),
            ("--compress=zstd", "--compress and --decompress (", both),
            ("--decompress", "--compress and --decompress (", both),
            ("--zero-copy-min=4Ki", "--zero-copy-min, ", both),
            ("--direct-min=4Mi", "--zero-copy-min, ", both),
            ("--direct-cpu-min=4Mi", "--zero-copy-min, ", both),
            ("--if-changed=retry", "--if-changed=fail and --if-changed=retry, which flush", both),
            ("--if-changed=fail", "--if-changed=fail and --if-changed=retry, which flush", both),
        ] {
            let flags = parse(&format!("{flags} a b"));
            for (direction, is_refused) in [(Direction::Push, push), (Direction::Pull, pull)] {
                let found = refusal(&flags, direction);
                assert_eq!(found.is_some(), is_refused, "{expected} {direction:?}");
                let is_named = found.is_none_or(|found| {
                    found.starts_with(&format!("between machines these are not obeyed: {expected}"))
                });
                assert!(is_named, "{expected}");
            }
        }
        let two = refusal(&parse("-l --in-place a b"), Direction::Push).unwrap();
        assert!(
            two.contains("--link (two machines share no file); --in-place (not built"),
            "{two}"
        );
    }

    #[test]
    fn every_row_that_refuses_was_asked_for_above_and_defaults_are_honoured() {
        let refusing = ROWS.iter().filter(|row| row.push != Support::Honoured).count();
        assert_eq!(refusing, 17, "add a line to the test above");
        for flags in [
            "",
            "-a",
            "-ru --delete --resume",
            "--method=auto",
            "--method=read-write",
            "--reflink=never",
            "--reflink=auto",
            "--prefer=time",
            "--cache=auto",
            "--if-changed=accept",
            "--no-compress",
            "--require=none",
            "-r --links=follow",
            "-rH",
            "--audit=f --manifest=g",
        ] {
            let flags = parse(&format!("{flags} a b"));
            for direction in [Direction::Push, Direction::Pull] {
                assert_eq!(refusal(&flags, direction), None);
            }
        }
    }

    #[test]
    fn the_book_has_the_table() {
        let mut table = String::from("| `uncopy cp` | push | pull |\n|---|---|---|\n");
        for BetweenRow { words, push, pull, .. } in &ROWS {
            writeln!(table, "| `{}` | {push} | {pull} |", words.trim_end_matches(',')).unwrap();
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/remote.md");
        let book = std::fs::read_to_string(path).unwrap();
        assert!(book.contains(&table), "docs/remote.md lacks this table:\n{table}");
    }
}
