//! Extended attributes: as many and as long ones as a filesystem holds, and those of links.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use testbed::{Case, Compared, Need, Place, Program, assert_same_tree};

use super::{Direction, Machines, UNCOPY, succeeded};

/// Copies with all metadata, and compares with a copy on one machine.
fn check(machines: &Machines, direction: Direction) {
    let (from, to) = (machines.source(direction), machines.destination(direction));
    let [here, there] = ["here", "there"].map(|name| to.join(name));
    succeeded(&Program::new(UNCOPY).args(["cp", "-a"]).arg(from.join("src")).arg(&here).run());
    let remote = machines.cp().args(["-a", "--json"]).arg(direction.source("src"));
    let remote = remote.arg(direction.destination("there")).run();
    succeeded(&remote);
    assert!(!remote.stdout.contains("not_kept"), "{}", remote.stdout);
    assert_same_tree(&here, &there, Compared::wholly());
    assert_same_tree(&from.join("src"), &there, Compared::wholly());
}

/// Values of one file that are longer together than any frame.
fn many_and_long_ones(place: Place, value_bytes: usize, files: &[(&str, usize)]) {
    for direction in Direction::BOTH {
        let machines = Machines::on(place);
        let source = machines.source(direction).join("src");
        fs::create_dir_all(source.join("directory")).unwrap();
        for (name, count) in files {
            let path = source.join(name);
            if *name != "directory" {
                fs::write(&path, name).unwrap();
            }
            for number in 0..*count {
                let value: Vec<u8> = (0..value_bytes).map(|at| (at * 7 + number) as u8).collect();
                let name = format!("user.{number:03}");
                lsetxattr(&path, name, &value, XattrFlags::empty()).unwrap();
            }
        }
        check(&machines, direction);
    }
}

/// As long values as the system takes (`XATTR_SIZE_MAX`).
fn on_xfs() {
    many_and_long_ones(Place::Xfs, 64 << 10, &[("one", 1), ("many", 40), ("directory", 20)]);
}

/// A value fits a leaf of the tree of attributes.
fn on_btrfs() {
    many_and_long_ones(Place::Btrfs, 16_000, &[("one", 1), ("many", 150), ("directory", 70)]);
}

/// All values of a file share a block.
fn on_ext4() {
    many_and_long_ones(Place::Ext4, 900, &[("one", 1), ("many", 4), ("directory", 3)]);
}

/// Links have attributes of the system alone (`xattr(7)`).
fn those_of_links() {
    const NAME: &str = "trusted.note";
    for direction in Direction::BOTH {
        let machines = Machines::on(Place::Ext4);
        let (from, to) = (machines.source(direction), machines.destination(direction));
        fs::create_dir(from.join("src")).unwrap();
        for (name, target) in
            [("src/a", "nowhere"), ("src/b", "."), ("src/plain", "a"), ("root", "x")]
        {
            symlink(target, from.join(name)).unwrap();
            if name != "src/plain" {
                let value = name.as_bytes();
                lsetxattr(from.join(name), NAME, value, XattrFlags::empty()).unwrap();
            }
        }
        let run = |destination: &str, flags: &[&str]| {
            let directory = to.subdirectory(destination, 0o755);
            let run = machines.cp().args(flags).arg(direction.source("src"));
            let run =
                run.arg(direction.source("root")).arg(direction.destination(destination)).run();
            succeeded(&run);
            let value = |path: &Path| {
                let mut value = [0; 100];
                let found = lgetxattr(path, NAME, &mut value[..]);
                found.ok().map(|length| value[..length].to_vec())
            };
            ["src/a", "src/b", "src/plain", "root"].map(|name| value(&directory.join(name)))
        };
        let names = ["src/a", "src/b", "", "root"].map(|name| name.as_bytes().to_vec());
        let expected = names.map(|name| (!name.is_empty()).then_some(name));
        assert_eq!(run("kept", &["-a"]), expected, "{direction:?}");
        assert_eq!(run("not", &["-a", "--no-preserve=xattr"]), [None, None, None, None]);
        let names: Vec<OsString> = super::names_in(&to.join("kept"));
        assert_eq!(names, ["root", "src"]);
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let place = |cases: Vec<Case>, place: Place| {
        let needs = |case: Case| place.needs().iter().fold(case, |case, need| case.needing(*need));
        cases.into_iter().map(needs).collect::<Vec<Case>>()
    };
    let cases = [
        place(testbed::cases![[] on_xfs], Place::Xfs),
        place(testbed::cases![[] on_btrfs], Place::Btrfs),
        place(testbed::cases![[Need::Root] on_ext4, [Need::Root] those_of_links], Place::Ext4),
    ];
    cases.into_iter().flatten().collect()
}
