//! Removes what a job made.

use std::path::Path;

use super::calls::TreeCalls;

/// Mode of a directory that its owner can empty.
const PRIVATE: u32 = 0o700;

/// Removes a file or link, as far as possible. On Windows a link to a directory is removed as one.
pub(super) fn remove_entry(calls: &dyn TreeCalls, path: &Path) {
    if calls.remove(path).is_err() {
        let _ = calls.remove_directory(path);
    }
}

/// Removes a tree that this job made, as far as possible, without following links.
pub(super) fn remove_tree(calls: &dyn TreeCalls, root: &Path) {
    let mut open = vec![(root.to_owned(), false)];
    while let Some((path, is_listed)) = open.pop() {
        if is_listed {
            let _ = calls.remove_directory(&path);
            continue;
        }
        // A finished directory may have a mode that forbids emptying it.
        let _ = calls.set_mode(&path, PRIVATE);
        open.push((path.clone(), true));
        for (name, is_directory) in calls.list(&path).unwrap_or_default() {
            match is_directory {
                true => open.push((path.join(name), false)),
                false => remove_entry(calls, &path.join(name)),
            }
        }
    }
}
