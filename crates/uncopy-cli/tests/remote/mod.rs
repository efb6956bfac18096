//! `uncopy cp` between machines, as a black box. Both are this one: a script takes the place of the remote shell, and a
//! real `sshd` in some.

mod attributes;
mod data;
mod doctor;
mod ending;
mod failing;
mod lost;
mod memory;
mod names;
mod one_machine;
mod reached;
mod recorded;
mod restricted;
mod same;
mod secrets;
mod settings;
mod shells;
mod slow_line;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::{Case, Place, Program, Run, Scratch};

const UNCOPY: &str = env!("CARGO_BIN_EXE_uncopy");

/// Runs the command that follows the host, as a login shell would. `$1` of its `sh` is the command's line.
const SHELL: &str = r#"#!/bin/sh
while :; do case $1 in -l | -p) shift 2 ;; --) shift ;; *) break ;; esac; done
shift
echo "$*" >>@LOG@
cd @HOME@ && export HOME=@HOME@
@BEFORE@
exec sh -c "$*"
"#;

/// Two machines: the one of the command line, and the one where a remote shell logs in.
pub(crate) struct Machines {
    near: Scratch,
    far: Scratch,
    aside: Scratch,
}

impl Machines {
    pub(crate) fn new() -> Machines {
        Machines::on(Place::Disk)
    }

    /// Both machines have their files on this filesystem.
    fn on(place: Place) -> Machines {
        let machines =
            Machines { near: place.scratch(), far: place.scratch(), aside: Place::Disk.scratch() };
        machines.log_in_with("");
        machines
    }

    /// Has the login run these lines of a shell before anything else.
    pub(crate) fn log_in_with(&self, before: &str) {
        let script = SHELL
            .replace("@LOG@", self.log().to_str().unwrap())
            .replace("@HOME@", self.far.to_str().unwrap())
            .replace("@BEFORE@", before);
        fs::write(self.shell(), script).unwrap();
        fs::set_permissions(self.shell(), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn shell(&self) -> PathBuf {
        self.aside.join("rsh")
    }

    fn log(&self) -> PathBuf {
        self.aside.join("log")
    }

    /// `uncopy cp` on the near machine.
    pub(crate) fn cp(&self) -> Program {
        self.serving(UNCOPY)
    }

    /// As [`Machines::cp`], with this program on the far machine.
    fn serving(&self, program: &str) -> Program {
        Program::new(UNCOPY)
            .arg("cp")
            .arg("-e")
            .arg(self.shell())
            .args(["--remote-program", program])
            .current_dir(&self.near)
    }

    /// As [`Machines::cp`], to be killed or watched.
    fn command(&self) -> Command {
        let mut command = Command::new(UNCOPY);
        command.arg("cp").arg("-e").arg(self.shell()).args(["--remote-program", UNCOPY]);
        command.current_dir(self.near.path()).env("UNCOPY_CONFIG", "/dev/null").env("LC_ALL", "C");
        command
    }

    /// The machine that has the sources.
    pub(crate) fn source(&self, direction: Direction) -> &Scratch {
        match direction {
            Direction::Push => &self.near,
            Direction::Pull => &self.far,
        }
    }

    /// The machine that has the destination.
    pub(crate) fn destination(&self, direction: Direction) -> &Scratch {
        match direction {
            Direction::Push => &self.far,
            Direction::Pull => &self.near,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Push,
    Pull,
}

impl Direction {
    pub(crate) const BOTH: [Direction; 2] = [Direction::Push, Direction::Pull];

    /// An operand of the sources.
    fn source(self, path: impl AsRef<OsStr>) -> OsString {
        operand(self == Direction::Pull, path.as_ref())
    }

    /// An operand of the destination.
    fn destination(self, path: impl AsRef<OsStr>) -> OsString {
        operand(self == Direction::Push, path.as_ref())
    }
}

fn operand(is_far: bool, path: &OsStr) -> OsString {
    let mut operand = OsString::from(if is_far { "far:" } else { "./" });
    operand.push(path);
    operand
}

/// Checks that a run succeeded, and that nothing was left behind.
#[track_caller]
fn succeeded(run: &Run) {
    assert!(run.status.success(), "{}: {}{}", run.status, run.stderr, run.stdout);
}

/// Names in a directory, those of temporary files too.
fn names_in(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

pub(crate) fn cases() -> Vec<Case> {
    [
        attributes::cases(),
        data::cases(),
        doctor::cases(),
        ending::cases(),
        failing::cases(),
        lost::cases(),
        memory::cases(),
        names::cases(),
        one_machine::cases(),
        reached::cases(),
        recorded::cases(),
        restricted::cases(),
        same::cases(),
        secrets::cases(),
        settings::cases(),
        shells::cases(),
        slow_line::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
