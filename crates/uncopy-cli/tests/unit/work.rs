//! Plans that are run: trees, units, and how runs ended.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use testbed::{Compared, Place, Program, Run, Scratch, assert_same_tree, seeded};

pub(super) fn uncopy() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy"))
}

/// A source, a destination and a plan of a copy between them.
pub(super) struct Work {
    pub(super) scratch: Scratch,
}

impl Work {
    pub(super) fn new() -> Work {
        Work::at(Place::Disk)
    }

    pub(super) fn at(place: Place) -> Work {
        let work = Work { scratch: place.scratch() };
        fs::create_dir(work.source()).unwrap();
        work
    }

    pub(super) fn source(&self) -> PathBuf {
        self.scratch.join("source")
    }

    pub(super) fn destination(&self) -> PathBuf {
        self.scratch.join("destination")
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.scratch.join("plan")
    }

    pub(super) fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        put(&self.source().join(path), bytes);
    }

    /// Makes files in several directories, links, and a file that is cut.
    pub(super) fn fill(&self, files: usize) {
        for number in 0..files {
            let path = format!("d{}/e{}/f{number}", number % 7, number % 3);
            self.write(path, seeded(number as u64, 0, 1 + number as u64 % 5000));
        }
        self.write("large", seeded(99, 0, (5 << 20) + 1234));
        self.write("d0/several", "several names");
        for name in ["d1/twin", "d2/e2/twin"] {
            let name = self.source().join(name);
            fs::create_dir_all(name.parent().unwrap()).unwrap();
            fs::hard_link(self.source().join("d0/several"), name).unwrap();
        }
        std::os::unix::fs::symlink("../large", self.source().join("d0/link")).unwrap();
        fs::create_dir_all(self.source().join("empty/deep")).unwrap();
    }

    pub(super) fn plan(&self, flags: &[&str]) {
        let run = uncopy()
            .args(["unit", "plan", "-a", "--bytes=1Mi", "--out"])
            .arg(self.directory())
            .args(flags)
            .arg(self.source())
            .arg(self.destination())
            .run();
        assert!(run.status.success(), "{}{}", run.stderr, run.stdout);
    }

    /// Files of the units, in order.
    pub(super) fn units(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory().join("units")).unwrap();
        let mut units: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        units.sort();
        units
    }

    /// Returns the unit that has a file, the first part of one that is cut.
    pub(super) fn unit_of(&self, path: &str) -> PathBuf {
        let is_in = |unit: &PathBuf| {
            fs::read_to_string(unit).unwrap().contains(&format!("\"path\":\"{path}\""))
        };
        self.units().into_iter().find(is_in).unwrap()
    }

    pub(super) fn ledger(&self) -> PathBuf {
        let ledgers = self.destination().join(".uncopy-ledger");
        fs::read_dir(ledgers).unwrap().next().unwrap().unwrap().path()
    }

    /// Runs all units; each must be done.
    pub(super) fn run_all(&self) {
        for unit in self.units() {
            let run = run_unit(&unit);
            assert!(run.status.success(), "{}: {}", unit.display(), run.stderr);
        }
    }

    /// Checks that all is done and the copy is whole.
    pub(super) fn assert_done(&self) {
        let status = uncopy().args(["unit", "status"]).arg(self.directory()).run();
        assert!(status.status.success(), "{}{}", status.stdout, status.stderr);
        self.assert_same(Compared::wholly());
    }

    pub(super) fn assert_same(&self, compared: Compared) {
        // The source has no ledger.
        let modified = fs::metadata(self.destination()).unwrap().modified().unwrap();
        fs::remove_dir_all(self.destination().join(".uncopy-ledger")).unwrap();
        File::open(self.destination()).unwrap().set_modified(modified).unwrap();
        let destination = fs::canonicalize(self.destination()).unwrap();
        assert_same_tree(&self.source(), &destination, compared);
    }
}

pub(super) fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

pub(super) fn of_unit(unit: &Path) -> Program {
    uncopy().args(["unit", "run", "--json"]).arg(unit)
}

pub(super) fn run_unit(unit: &Path) -> Run {
    of_unit(unit).run()
}

/// Returns the object that a run printed.
pub(super) fn printed(run: &Run) -> serde_json::Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}{}", run.stdout, run.stderr))
}

/// Returns the kinds of the failures that a run printed.
pub(super) fn kinds(run: &Run) -> Vec<String> {
    let printed = printed(run);
    let reasons = printed["failure"]["reasons"].as_array().unwrap().clone();
    reasons.iter().map(|reason| reason["kind"].as_str().unwrap().to_owned()).collect()
}
