//! Checks what a copy to another machine reaches there: all that its names and its options name, also behind links, as on one
//! machine.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use testbed::{Case, Compared, Place, Program, assert_same_tree};

use super::{Machines, UNCOPY, succeeded};

/// Sources `a`, `b` (`a` by another name) and `src`; a directory `d` with links to files and directories beside it, of
/// which one leads through another link.
fn make(at: &Path) {
    for directory in ["src/sub", "d", "o", "far/way", "earlier/src/sub", "earlier/d"] {
        fs::create_dir_all(at.join(directory)).unwrap();
    }
    for name in ["a", "src/f", "src/sub/g", "earlier/a", "earlier/src/f", "earlier/src/sub/g"] {
        fs::write(at.join(name), b"new contents").unwrap();
        let file = File::options().write(true).open(at.join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    }
    fs::hard_link(at.join("a"), at.join("b")).unwrap();
    fs::write(at.join("o/f"), b"old").unwrap();
    fs::write(at.join("far/way/end"), b"older").unwrap();
    for (link, to) in [
        ("d/a", "../o/f"),
        ("d/b", "../o/chain"),
        ("o/chain", "../far/way/end"),
        ("d/src", "../far"),
        ("file", "d/b"),
        ("nowhere", "o/none"),
        ("directory", "d"),
    ] {
        symlink(to, at.join(link)).unwrap();
    }
}

/// Runs `uncopy cp` with these words on one machine, and to another one; `@` begins the destination. Both must do the same.
#[track_caller]
fn is_as_here(words: &str, expected: i32) {
    let machines = Machines::new();
    let here = Place::Disk.scratch();
    for place in [here.path(), machines.near.path(), machines.far.path()] {
        make(place);
    }
    // Words that begin so are paths of the machine with the destination.
    let words_at = |at: &Path, to: &str| {
        let words = words.replace('@', to).replace("%", &at.display().to_string());
        words.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let local = Program::new(UNCOPY).arg("cp").args(words_at(&here, "./")).current_dir(&here);
    let local = local.run();
    let remote = machines.cp().args(words_at(&machines.far, "far:")).run();
    let what = format!("{words}: {}here: {}", remote.stderr, local.stderr);
    assert_eq!(
        (local.status.code(), remote.status.code()),
        (Some(expected), Some(expected)),
        "{what}"
    );
    assert_same_tree(here.path(), machines.far.path(), Compared::default());
    for note in ["EACCES", "EXDEV"] {
        assert_eq!(local.stderr.contains(note), remote.stderr.contains(note), "{what}");
    }
}

fn files_behind_links_are_written() {
    for (words, expected) in [
        ("a @d", 0),
        ("a b @d", 0),
        ("-r a src/f @d", 0),
        ("-d --preserve=links a b @d", 0),
        ("--resume a @d/", 0),
        ("-t @directory a", 0),
        ("a @file", 0),
        ("-T a @d/b", 0),
        ("--backup=numbered a b @d", 0),
        ("--remove-destination a @file", 0),
        ("-n a @d", 0),
        ("-P src @d", 1),
        // A directory follows none at its name, and a link that leads nowhere is not written through.
        ("-r src @d", 1),
        ("a @nowhere", 1),
        ("-T a @directory", 1),
    ] {
        is_as_here(words, expected);
    }
}

fn the_journal_of_a_tree_that_is_there_lies_beside_it() {
    for (words, expected) in [
        ("-r --resume src/. @d", 0),
        ("-rT --resume src @o", 0),
        ("-r --resume src/. @directory/", 0),
        ("-r --resume src @new", 0),
    ] {
        is_as_here(words, expected);
    }
}

fn earlier_copies_are_linked_wherever_they_lie() {
    for words in [
        "-a --link-dest %/earlier src @new",
        "-a --link-dest ../earlier src a @o",
        "-aT --link-dest %/earlier/src src @new",
        "-aT --link-dest ../earlier/src src @new",
        "-a --link-dest ../missing --link-dest ../earlier a @o",
        "-a --link-dest ../earlier a @far/way",
        "-a --link-dest ../../earlier a @far/way",
        "-a --link-dest earlier a @new",
    ] {
        is_as_here(words, 0);
    }
    let machines = Machines::new();
    make(&machines.near);
    make(&machines.far);
    let earlier = machines.far.join("earlier");
    let run = machines.cp().args(["-a", "--link-dest"]).arg(&earlier).args(["src", "a", "far:o"]);
    succeeded(&run.run());
    for name in ["src/f", "src/sub/g", "a"] {
        let names = fs::metadata(machines.far.join("o").join(name)).unwrap().nlink();
        assert_eq!(names, 2, "{name}");
    }
}

/// A pipe or a socket that is a source lies in no directory, and needs no rule of the kernel.
fn a_pipe_as_source_is_served_by_a_confined_thread() {
    let machines = Machines::new();
    fs::write(machines.near.join("a"), b"bytes").unwrap();
    for flags in [&[][..], &["-r"], &["-r", "--specials"]] {
        let mut child = machines
            .command()
            .args(flags)
            .args(["/dev/stdin", "a", "far:."])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("Landlock"), "{flags:?}: {said}");
        assert_eq!(fs::read(machines.far.join("a")).unwrap(), b"bytes", "{flags:?}: {said}");
    }
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] files_behind_links_are_written,
        [] the_journal_of_a_tree_that_is_there_lies_beside_it,
        [] earlier_copies_are_linked_wherever_they_lie,
        [] a_pipe_as_source_is_served_by_a_confined_thread,
    ]
}
