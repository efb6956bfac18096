//! Finds whether a path leads out of a directory by its text and by that of links in the directory alone: nothing outside is
//! looked at, so that the answer is the same whatever is there.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

/// Maximum number of links on the way (`MAXSYMLINKS`, `include/linux/namei.h`).
const MAX_LINKS: usize = 40;

/// Treatment of a link that is the last name of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    Followed,
    /// It is what the path names.
    Named,
}

/// Whether a path leads out of a directory, of which `only` is the path without links. A relative path begins there.
pub(super) fn leads_out(only: &Path, path: &Path, last: LastLink) -> bool {
    let mut waiting = VecDeque::new();
    if !put_before(&mut waiting, only, path) {
        return true;
    }
    let (mut at, mut depth, mut links) = (only.to_owned(), 0_usize, 0);
    while let Some(name) = waiting.pop_front() {
        if name == ".." {
            if depth == 0 {
                return true;
            }
            depth -= 1;
            at.pop();
            continue;
        }
        at.push(&name);
        depth += 1;
        if waiting.is_empty() && last == LastLink::Named {
            break;
        }
        // Something else, or nothing, leads nowhere.
        let Ok(target) = at.read_link() else { continue };
        links += 1;
        if links > MAX_LINKS {
            // The kernel follows no more either.
            break;
        }
        at.pop();
        depth -= 1;
        if target.is_absolute() {
            (at, depth) = (only.to_owned(), 0);
        }
        if !put_before(&mut waiting, only, &target) {
            return true;
        }
    }
    false
}

/// Puts the names of a path before those that wait; an absolute one begins behind `only`. `false`: it does not lie there.
fn put_before(waiting: &mut VecDeque<OsString>, only: &Path, path: &Path) -> bool {
    let inner = match path.is_absolute() {
        true => path.strip_prefix(only),
        false => Ok(path),
    };
    let Ok(inner) = inner else { return false };
    for part in inner.components().rev() {
        match part {
            Component::Normal(name) => waiting.push_front(name.to_owned()),
            Component::ParentDir => waiting.push_front(OsStr::new("..").to_owned()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Also for what is there outside, and for what is not.
    #[test]
    fn links_that_lead_out_are_known_by_their_text() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let only = root.join("only");
        fs::create_dir_all(only.join("d/e")).unwrap();
        fs::create_dir(root.join("outside")).unwrap();
        fs::write(only.join("file"), "x").unwrap();
        for (link, to) in [
            ("there", "../outside".to_owned()),
            ("missing", "../nothing".to_owned()),
            ("etc", "/etc/passwd".to_owned()),
            ("no-etc", "/etc/no such file".to_owned()),
            ("whole", root.join("outside").display().to_string()),
            ("beside", format!("{}-beside", only.display())),
            ("chain", "d/chain".to_owned()),
            ("d/chain", "../missing".to_owned()),
            ("d/up", "..".to_owned()),
            ("d/in", "../file".to_owned()),
            ("in", only.join("d/e").display().to_string()),
            ("back", format!("{}/../only/file", only.display())),
            ("dangling", "d/none".to_owned()),
            ("self", "self".to_owned()),
            ("slash", "d/e/".to_owned()),
        ] {
            symlink(to, only.join(link)).unwrap();
        }
        let inside = only.join("d/new").display().to_string();
        for (path, followed, named) in [
            ("", false, false),
            (".", false, false),
            ("d/e/new", false, false),
            (&inside, false, false),
            ("none/at/all", false, false),
            ("file/x", false, false),
            ("..", true, true),
            ("d/../../only", true, true),
            ("/", true, true),
            ("there", true, false),
            ("missing", true, false),
            ("etc", true, false),
            ("no-etc", true, false),
            ("whole", true, false),
            ("beside", true, false),
            ("chain", true, false),
            ("back", true, false),
            ("there/z", true, true),
            ("missing/z", true, true),
            ("chain/z", true, true),
            ("d/up/missing", true, false),
            ("d/up/d/in", false, false),
            ("in/new", false, false),
            ("dangling", false, false),
            ("dangling/z", false, false),
            ("self", false, false),
            ("slash/..", false, false),
            ("slash/../../..", true, true),
        ] {
            let path = Path::new(path);
            let found =
                [LastLink::Followed, LastLink::Named].map(|last| leads_out(&only, path, last));
            assert_eq!(found, [followed, named], "{path:?}");
        }
    }
}
