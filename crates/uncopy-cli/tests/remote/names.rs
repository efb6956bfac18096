//! Names of any bytes arrive as they are, and no shell sees one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::Path;

use testbed::{Case, Compared, Program, assert_same_tree};

use super::{Direction, Machines, UNCOPY, names_in, succeeded};

const ODD: [&[u8]; 13] = [
    b"not\xffutf8",
    b"line\nbreak",
    b"-rf",
    b"--delete",
    b" spaces  and\ttab ",
    b"it's \"quoted\"",
    b"$(touch touched)",
    b"`touch touched`",
    b"; touch touched #",
    b"*",
    b"back\\slash",
    b"colon:in:it",
    b"~",
];

fn names() -> Vec<OsString> {
    let longest = vec![b'n'; 255];
    let names = ODD.iter().map(|name| name.to_vec()).chain([longest]);
    names.map(OsString::from_vec).collect()
}

/// In trees, where both sides of the wire list them.
fn in_trees() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        let source = machines.source(direction).join("src");
        fs::create_dir(&source).unwrap();
        for name in names() {
            fs::create_dir(source.join(&name)).unwrap();
            fs::write(source.join(&name).join(&name), name.as_bytes()).unwrap();
        }
        let run = machines
            .cp()
            .arg("-r")
            .arg(direction.source("src"))
            .arg(direction.destination("copy"))
            .run();
        succeeded(&run);
        let copy = machines.destination(direction).join("copy");
        assert_same_tree(&source, &copy, Compared { modes: true, ..Compared::default() });
        assert!(!copy.join("touched").exists() && !machines.far.join("touched").exists());
    }
}

/// As operands: of the source, and of the destination.
fn as_operands() {
    for direction in Direction::BOTH {
        for name in names() {
            let machines = Machines::new();
            // `~` at the beginning is refused on another machine.
            let mut written = OsString::from("./");
            written.push(&name);
            fs::write(machines.source(direction).join(&name), name.as_bytes()).unwrap();
            let run = machines
                .cp()
                .arg("--")
                .arg(direction.source(&written))
                .arg(direction.destination(&written))
                .run();
            succeeded(&run);
            let destination = machines.destination(direction);
            assert_eq!(fs::read(destination.join(&name)).unwrap(), name.as_bytes(), "{name:?}");
            assert_eq!(names_in(destination), std::slice::from_ref(&name));
            // The line of the remote shell is the same for all.
            let line = fs::read_to_string(machines.log()).unwrap();
            assert_eq!(line, format!("{} serve --stdio\n", super::UNCOPY));
        }
    }
}

/// A colon before a slash names a machine, and one behind it does not.
fn operands_are_places_or_files() {
    let machines = Machines::new();
    fs::write(machines.near.join("far:a"), b"here").unwrap();
    fs::write(machines.far.join("a"), b"there").unwrap();
    succeeded(&machines.cp().args(["./far:a", "from-here"]).run());
    succeeded(&machines.cp().args(["far:a", "from-there"]).run());
    assert_eq!(fs::read(machines.near.join("from-here")).unwrap(), b"here");
    assert_eq!(fs::read(machines.near.join("from-there")).unwrap(), b"there");
    let asked = |operands: &[&OsStr]| {
        let run = machines.cp().args(operands).run();
        run.failed(2).to_owned()
    };
    let lines = fs::read_to_string(machines.log()).unwrap();
    for operands in [
        ["far:a", "other:b"],
        ["-oProxyCommand=touch touched:a", "b"],
        ["far:~/a", "b"],
        [":a", "b"],
        ["a b:c", "d"],
        ["ssh://far:0/a", "b"],
    ] {
        let operands = operands.map(OsStr::new);
        let operands = [OsStr::new("--"), operands[0], operands[1]];
        let message = asked(&operands);
        assert!(message.contains("write ./ before"), "{operands:?}: {message}");
    }
    // Nothing was started.
    assert_eq!(fs::read_to_string(machines.log()).unwrap(), lines);
    let odd = OsStr::from_bytes(b"h\xff:a");
    assert!(asked(&[odd, OsStr::new("b")]).contains("no such character"));
}

/// `HOST:` is the directory of the login, on both sides; directories take sources in, as by `cp`.
fn directories_take_sources_in() {
    let machines = Machines::new();
    fs::write(machines.near.join("a"), b"1").unwrap();
    fs::create_dir(machines.far.join("d")).unwrap();
    for (operand, expected) in
        [("far:", "a"), ("far:d", "d/a"), ("far:d/b", "d/b"), ("far:d/", "d/a")]
    {
        succeeded(&machines.cp().args(["a", operand]).run());
        let copy = machines.far.join(expected);
        assert_eq!(fs::read(&copy).unwrap(), b"1", "{operand}");
        fs::remove_file(copy).unwrap();
    }
    succeeded(&machines.cp().args(["-t", "far:d", "a"]).run());
    assert!(machines.far.join("d/a").exists());
    succeeded(&machines.cp().args(["-r", "far:", "whole"]).run());
    assert!(machines.near.join("whole/d/a").exists());
    // A slash requires a directory, and a missing one is an error that says so.
    let run = machines.cp().args(["a", "far:none/"]).run();
    assert!(
        run.failed(1).contains("cannot copy into far:none/: it does not exist"),
        "{}",
        run.stderr
    );
}

/// Links that are sources themselves, to files, directories and nothing, are copied or followed as on one machine.
fn links_as_operands() {
    const NAMES: [&str; 4] = ["to-file", "to-directory", "to-nothing", "out"];
    for direction in Direction::BOTH {
        for flags in [&["-rP"][..], &["-d"], &["-a"], &["-rH"], &["-r", "--links=skip"], &[]] {
            let machines = Machines::new();
            let (from, to) = (machines.source(direction), machines.destination(direction));
            fs::write(from.join("file"), b"1").unwrap();
            fs::create_dir(from.join("directory")).unwrap();
            for (name, target) in NAMES.iter().zip(["file", "directory", "none", "../../etc"]) {
                symlink(target, from.join(name)).unwrap();
            }
            let [here, there] = ["here", "there"].map(|name| to.subdirectory(name, 0o755));
            for name in NAMES {
                let local = Program::new(UNCOPY).arg("cp").args(flags);
                let local = local.arg(from.join(name)).arg(&here).run();
                let remote = machines.cp().args(flags).arg(direction.source(name));
                let remote = remote.arg(direction.destination("there")).run();
                let what = format!("{direction:?} {flags:?} {name}: {}", remote.stderr);
                assert_eq!(remote.status.code(), local.status.code(), "{what}{}", local.stderr);
                let target = |at: &Path| fs::read_link(at.join(name)).ok();
                assert_eq!(target(&here), target(&there), "{what}");
            }
            assert_same_tree(&here, &there, Compared::default());
        }
    }
}

/// The machine was missing before the name of the copy, and before that of the source.
fn a_slash_that_rsync_reads_otherwise_is_noted_with_the_machine() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::create_dir_all(machines.source(direction).join("d/small")).unwrap();
        fs::create_dir(machines.destination(direction).join("t")).unwrap();
        let run = machines.cp().arg("-r").arg(direction.source("d/small/"));
        let run = run.arg(direction.destination("t")).run();
        succeeded(&run);
        let expected = match direction {
            Direction::Push => {
                "note: ./d/small/ becomes far:t/small, as by cp; for its contents alone, as by rsync, name ./d/small/."
            }
            Direction::Pull => {
                "note: far:d/small/ becomes ./t/small, as by cp; for its contents alone, as by rsync, name far:d/small/."
            }
        };
        assert!(run.stderr.contains(expected), "{direction:?}: {}", run.stderr);
    }
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] in_trees,
        [] as_operands,
        [] links_as_operands,
        [] operands_are_places_or_files,
        [] directories_take_sources_in,
        [] a_slash_that_rsync_reads_otherwise_is_noted_with_the_machine,
    ]
}
