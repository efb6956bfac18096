//! Copies between two machines that are one: those into themselves are refused, as without a machine before a path.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use testbed::{Case, Compared, Need, Place, Program, assert_same_tree};

use super::{Direction, Machines, UNCOPY, succeeded};

fn make(at: &Path) {
    fs::create_dir_all(at.join("a/sub/deep")).unwrap();
    for (name, contents) in [("f", "one"), ("f~", "two"), ("a/g", "three"), ("a/sub/h", "four")] {
        fs::write(at.join(name), contents).unwrap();
    }
    fs::hard_link(at.join("f"), at.join("linked")).unwrap();
    symlink("a", at.join("to-a")).unwrap();
    symlink("f", at.join("to-f")).unwrap();
}

fn a_copy_into_itself_is_refused() {
    let place = Place::Disk.scratch();
    let before = Place::Disk.scratch();
    for at in [&place, &before] {
        make(at.path());
    }
    let at = |name: &str| place.join(name).display().to_string();
    for (flags, source, destination) in [
        (&["-r"][..], "a", "a/new"),
        (&["-r"], "a", "a/sub"),
        (&["-r"], "a", "to-a/new"),
        (&["-rH"], "to-a", "a/sub/new"),
        (&["-r", "--resume"], "a", "a/new"),
        (&["-rT"], "a", "a"),
        (&["-rT", "--delete"], "a", "a"),
        (&["-rT", "--delete", "--dry-run"], "a", "a"),
        // The source is not removed, though it lies in the destination.
        (&["-rT", "--delete"], "a/sub", "a"),
        (&[], "f", "f"),
        (&["-r"], "f", "linked"),
        (&["--durable"], "to-f", "f"),
        (&["-r", "-f"], "f", "to-f"),
        (&["-b"], "f~", "f"),
    ] {
        let local = Program::new(UNCOPY).arg("cp").args(flags);
        let local = local.arg(at(source)).arg(at(destination)).run();
        assert_eq!(
            local.status.code(),
            Some(1),
            "{flags:?} {source} {destination}: {}",
            local.stderr
        );
        assert_same_tree(before.path(), place.path(), Compared::default());
        for direction in Direction::BOTH {
            let machines = Machines::new();
            let operand = |is_far: bool, name: &str| match is_far {
                true => format!("far:{}", at(name)),
                false => at(name),
            };
            let run = machines
                .cp()
                .args(flags)
                .arg(operand(direction == Direction::Pull, source))
                .arg(operand(direction == Direction::Push, destination))
                .run();
            let what = format!("{direction:?} {flags:?} {source} {destination}: {}", run.stderr);
            assert_eq!(run.status.code(), Some(1), "{what}here: {}", local.stderr);
            assert_eq!(run.stderr.replace("far:", ""), local.stderr, "{what}");
            assert_same_tree(before.path(), place.path(), Compared::default());
        }
    }
}

/// Two machines may have files with the same numbers, or share them.
fn another_machine_has_its_own_files() {
    let place = Place::Disk.scratch();
    make(place.path());
    for direction in Direction::BOTH {
        let machines = Machines::new();
        machines.log_in_with(
            "exec unshare --uts sh -c 'hostname elsewhere && exec sh -c \"$1\"' sh \"$*\"",
        );
        for (flags, name) in [(&["-rT"][..], "a"), (&[], "f")] {
            let path = place.join(name).display().to_string();
            let far = format!("far:{path}");
            let operands = match direction {
                Direction::Push => [path, far],
                Direction::Pull => [far, path],
            };
            succeeded(&machines.cp().args(flags).args(operands).run());
        }
    }
    assert_eq!(fs::read(place.join("a/sub/h")).unwrap(), b"four");
}

/// `--checksum` reads every file whole over the line.
fn a_rate_counts_for_bytes_that_are_compared() {
    let place = Place::Disk.scratch();
    fs::write(place.join("f"), vec![7; 6 << 20]).unwrap();
    fs::copy(place.join("f"), place.join("same")).unwrap();
    let path = |name: &str| place.join(name).display().to_string();
    for direction in Direction::BOTH {
        let machines = Machines::new();
        let operands = match direction {
            Direction::Push => [path("f"), format!("far:{}", path("same"))],
            Direction::Pull => [format!("far:{}", path("f")), path("same")],
        };
        let begin = Instant::now();
        let run = machines.cp().args(["-rT", "--checksum", "--max-bandwidth=4M", "--json"]);
        let run = run.args(operands).run();
        succeeded(&run);
        assert!(
            run.stdout.contains("\"unchanged\"") || run.stdout.contains("same_contents"),
            "{}",
            run.stdout
        );
        // Less than 1.5 s by what may be saved up; not a tenth of that without the rate.
        assert!(begin.elapsed() > Duration::from_secs(1), "{direction:?} {:?}", begin.elapsed());
    }
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_copy_into_itself_is_refused,
        [Need::Root] another_machine_has_its_own_files,
        [] a_rate_counts_for_bytes_that_are_compared,
    ]
}
