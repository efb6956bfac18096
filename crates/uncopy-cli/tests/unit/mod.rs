//! `uncopy unit`, as a black box.

mod acl;
mod advice;
mod between;
mod hostile;
mod mounts;
mod notes;
mod planning;
mod run;
mod state;
mod together;
mod work;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use testbed::{Case, Place, Program, Run, Scratch};

pub(crate) fn cases() -> Vec<Case> {
    let cases = [
        acl::cases(),
        advice::cases(),
        planning::cases(),
        state::cases(),
        run::cases(),
        hostile::cases(),
        mounts::cases(),
        notes::cases(),
        together::cases(),
        between::cases(),
    ];
    cases.into_iter().flatten().collect()
}

fn unit<I: IntoIterator<Item: AsRef<OsStr>>>(words: I) -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("unit").args(words)
}

/// Plans a copy of `s` to `d` in `p`.
fn plan(scratch: &Scratch) -> Program {
    unit(["plan"]).arg(scratch.join("s")).arg(scratch.join("d")).arg("--out").arg(scratch.join("p"))
}

/// A tree with files of every kind, names of any bytes, and hard links in several directories.
fn mixed() -> Scratch {
    let scratch = Place::Disk.scratch();
    let source = scratch.join("s");
    for number in 0..60 {
        let directory = source.join(format!("d{}/e{}", number % 5, number % 3));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{number}")), vec![b'x'; number]).unwrap();
    }
    fs::create_dir_all(source.join("empty/directory")).unwrap();
    fs::write(source.join(OsStr::from_bytes(b"d1/\xff\n\"{")), "odd").unwrap();
    symlink("nowhere", source.join("d2/link")).unwrap();
    for name in ["linked", "d3/linked", "d4/e0/linked"] {
        fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
        fs::hard_link(source.join("d0/e0/f0"), source.join(name)).unwrap();
    }
    fs::File::create(source.join("large")).unwrap().set_len(5 << 20).unwrap();
    scratch
}

fn succeeded(run: &Run) {
    assert!(run.status.success(), "{}: {}{}", run.status, run.stderr, run.stdout);
}

/// Writes a file, and makes the directories that it lies in.
fn write(path: impl AsRef<Path>, contents: &str) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

/// Lines of the units of a plan, in order. Each is JSON, and the last of each unit says how many there are.
fn units(directory: &Path) -> Vec<Vec<Value>> {
    let mut names: Vec<_> =
        fs::read_dir(directory.join("units")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let read = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let end = lines.pop().unwrap();
        assert_eq!((&end["end"], &end["entries"]), (&true.into(), &(lines.len() - 1).into()));
        lines
    };
    names.iter().map(read).collect()
}
