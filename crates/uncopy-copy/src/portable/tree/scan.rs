//! Counts entries and bytes ahead of the copy, so that the remaining work is known.

use std::fs;
use std::path::{Path, PathBuf};

use super::tally::Tally;
use crate::Control;
use crate::jobs::JobOptions;

/// Maximum number of waiting directories; with more the total stays unknown, because it is not worth more memory.
const MAX_WAITING: usize = 50_000;

/// Counts the contents of the sources. No error is reported: the copy will meet the same errors.
pub(super) fn run(tally: &mut Tally<'_>, pairs: &[(PathBuf, PathBuf)], options: &JobOptions) {
    let mut waiting: Vec<(PathBuf, PathBuf)> = Vec::new();
    for (root, _) in pairs {
        count(tally, root);
        if fs::symlink_metadata(root).is_ok_and(|found| found.is_dir()) {
            waiting.push((root.clone(), PathBuf::new()));
        }
        while let Some((directory, way)) = waiting.pop() {
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                let (name, is_directory) =
                    (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
                let way = super::walk::below(&way, &name);
                if !options.selection.selects(&way, is_directory) {
                    continue;
                }
                count(tally, &entry.path());
                if is_directory {
                    waiting.push((entry.path(), way));
                }
            }
            if waiting.len() > MAX_WAITING || tally.ask() == Control::Stop {
                return;
            }
        }
    }
    tally.progress.scanned = true;
}

fn count(tally: &mut Tally<'_>, path: &Path) {
    tally.progress.total_entries += 1;
    if let Ok(found) = fs::symlink_metadata(path)
        && found.is_file()
    {
        tally.progress.total_bytes += found.len();
    }
}
