//! Merges into directories that fold names: on vfat, and in a directory of ext4 that is marked so.

use anyhow::{Result, ensure};

use super::said::{Said, find};

/// A merge: its name, its exit code, entries afterwards, names that were refused, and what files say.
type Row = (&'static str, u64, u64, u64, &'static str);

const BOTH: [Row; 6] = [
    // Entries under a name in another case are not deleted.
    ("mirrored", 0, 2, 0, "newnew"),
    ("planned", 0, 3, 0, "newnew"),
    // One of two names is copied, and the other reported; the next run keeps to that.
    ("doubled/1", 1, 3, 2, ""),
    ("doubled/2", 1, 3, 2, ""),
    ("doubled/3", 1, 3, 2, ""),
    ("single", 0, 3, 0, "d/y foo "),
];

/// Fails where an entry was lost, or was replaced by another one without a word.
pub(super) fn judge(said: &[Said]) -> Result<()> {
    let unlike = |filesystem| match filesystem {
        // It takes these for four names.
        "vfat" => ("accents", 0, 4, 0, ""),
        _ => ("accents", 1, 2, 2, ""),
    };
    for filesystem in ["vfat", "ext4"] {
        for (name, code, entries, refused, read) in BOTH.into_iter().chain([unlike(filesystem)]) {
            let name = format!("folding/{filesystem}/{name}");
            let found = find(said, &name)?;
            let seen = &found.json;
            ensure!(
                found.number == code
                    && seen["entries"] == entries
                    && seen["refused"] == refused
                    && (read.is_empty() || seen["read"] == read),
                "{name}: {code}, {entries} entries, {refused} refused and {read:?} were expected, and it \
                 said {found:?}"
            );
        }
        let read = |run: u32| find(said, &format!("folding/{filesystem}/doubled/{run}"));
        ensure!(
            read(1)?.json["read"] == read(2)?.json["read"]
                && read(2)?.json["read"] == read(3)?.json["read"],
            "{filesystem}: another of the two names was copied the next time: {said:?}"
        );
    }
    println!("folding: 14 merges into directories that fold names, as expected");
    Ok(())
}
