//! The suite `mechanisms`: the default beside each mechanism alone, within this process, by size, filesystem and
//! cache. Its targets say whether the default is the best of them.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};
use uncopy::Mechanism;
use uncopy::copy::job::{JobOptions, copy_trees};
use uncopy::copy::{Allow, CopyOptions, Prefer, copy_file};

use super::cases::{GIB, KIB, MIB, size_name};
use super::contents::{check_equal, contents, warm};
use super::place::{Place, Places};
use crate::compare::case::{Action, Case, Fixture, Role, Subject, Suite, Trial};
use crate::compare::machine;
use crate::compare::memory::touch_free_memory;
use crate::compare::metric::{CPU, Metric, Sample, WALL};
use crate::compare::rounds::name_again;
use crate::compare::timing::processor_time;
use crate::compare::verdict::{Against, Target};

/// The default, by wall time and by processor time.
const AUTO: &str = "auto";
const AUTO_CPU: &str = "auto, cpu";

/// Two runs of the same mechanism may differ by so much.
const BAND: f64 = 0.03;

/// Files of less than this are copied several times in a run.
const SEVERAL_BELOW: u64 = MIB;
const SEVERAL: usize = 16;

/// Copies from here on take up memory that is written to before, and are removed right afterwards.
const LARGE: u64 = MIB;

/// Files that are copied side by side.
const FILES: usize = 100;
const FILE_BYTES: u64 = 4 * MIB;

/// Sizes of files from one device to another.
const TWO_DEVICES: [u64; 3] = [16 * MIB, 128 * MIB, GIB];

/// Only a few subjects and rounds for longer files.
const HUGE: u64 = 4 * GIB;

/// The suite.
pub(in crate::compare) fn suite(disk: PathBuf, quick: bool, rounds: Option<usize>) -> Suite {
    let notes = [
        "wall, cpu: one copy within this process, or one job of 100 files; value: median over rounds",
        "rounds are interleaved in an order shuffled anew in each; every destination has a new name; nothing is \
         flushed where the case does not say durable, and copies from 1 MiB on are removed right after their run, outside the time",
        "files below 1 MiB are copied sixteen times in a run, each timed by itself",
        "warm: the source is read before each copy; cold: it is dropped from the page cache before each copy",
        "before a copy of 1 MiB and more, as much free memory as it will take up is written to and given back",
        "each mechanism runs twice in a round; target: the default takes no more than the mechanism whose second \
         runs had the smallest median, by its first runs; noise: the larger of 3 % and the spread of those two",
        "xfs and btrfs lie in images on loop devices with direct I/O",
    ];
    let setting = Setting { places: Rc::new(Places::new(disk)), quick, rounds };
    Suite {
        name: "mechanisms",
        notes: notes.map(str::to_owned).to_vec(),
        absent: Vec::new(),
        cases: setting.cases(),
    }
}

struct Setting {
    places: Rc<Places>,
    quick: bool,
    rounds: Option<usize>,
}

/// A copy, or a job of copies, under some conditions.
#[derive(Debug, Clone, Copy)]
struct Errand {
    from: Place,
    to: Place,
    bytes: u64,
    files: usize,
    cold: bool,
    durable: bool,
}

impl Errand {
    fn copies(self) -> usize {
        if self.bytes < SEVERAL_BELOW { SEVERAL } else { 1 }
    }

    /// Bytes that one run copies.
    fn all_bytes(self) -> u64 {
        self.bytes * (self.files * self.copies()) as u64
    }
}

impl Setting {
    fn cases(&self) -> Vec<Case> {
        let all = [
            4 * KIB,
            16 * KIB,
            64 * KIB,
            256 * KIB,
            MIB,
            4 * MIB,
            10 * MIB,
            16 * MIB,
            64 * MIB,
            128 * MIB,
            512 * MIB,
            GIB,
        ];
        let (warm, both) = (&[false][..], &[false, true][..]);
        let groups = [
            (Place::Ext4, Place::Ext4, &all[..], both),
            (Place::Xfs, Place::Xfs, &all, both),
            (Place::Btrfs, Place::Btrfs, &all, both),
            (Place::Tmpfs, Place::Ext4, &all, warm),
            // Two devices, where what matters is that both work at once.
            (Place::Ext4, Place::Xfs, &TWO_DEVICES, &[true]),
        ];
        let mut cases = Vec::new();
        for (from, to, sizes, caches) in groups {
            for &cold in caches {
                let errand = |bytes, files| Errand { from, to, bytes, files, cold, durable: false };
                cases.extend(sizes.iter().map(|&bytes| self.case(errand(bytes, 1))));
                cases.push(self.case(errand(FILE_BYTES, FILES)));
            }
        }
        let (from, to) = (Place::Ext4, Place::Ext4);
        for (bytes, files) in [(16 * MIB, 1), (128 * MIB, 1), (GIB, 1), (FILE_BYTES, FILES)] {
            for cold in [false, true] {
                cases.push(self.case(Errand { from, to, bytes, files, cold, durable: true }));
            }
        }
        let huge = Errand { from, to, bytes: 10 * GIB, files: 1, cold: false, durable: false };
        cases.push(self.case(huge));
        cases
    }

    fn case(&self, errand: Errand) -> Case {
        let errand = match self.quick && errand.bytes > 64 * MIB {
            true => Errand { bytes: errand.bytes / 64, ..errand },
            false => errand,
        };
        let name = case_name(errand);
        let mechanisms = mechanisms(errand);
        let plain = || CopyOptions::new().durable(errand.durable);
        let sources = Rc::new(RefCell::new(Vec::new()));
        let mut subjects = vec![
            subject(AUTO, errand, &sources, plain()),
            subject(AUTO_CPU, errand, &sources, plain().prefer(Prefer::CpuTime)),
        ];
        for mechanism in &mechanisms {
            let options = plain().allow(Allow::Only(*mechanism));
            let name = mechanism.name();
            subjects.push(subject(name, errand, &sources, options.clone()));
            subjects.push(subject(&name_again(name), errand, &sources, options));
        }
        let names: Vec<String> = mechanisms.iter().map(|m| m.name().to_owned()).collect();
        let target = |subject: &str, metric: Metric| Target {
            subject: subject.to_owned(),
            metric,
            against: Against::BestOfSecondRuns(names.clone()),
            limit: 1.0 + BAND,
            band: BAND,
        };
        let targets = vec![target(AUTO, WALL), target(AUTO_CPU, CPU)];
        let fixture = MechanismFixture {
            errand,
            places: Rc::clone(&self.places),
            sources,
            directory: PathBuf::new(),
            folder: format!("case-{}", name.replace(['/', ' '], "-")),
            quick: self.quick,
        };
        let usual = if errand.bytes <= MIB {
            21
        } else if errand.bytes <= GIB {
            7
        } else {
            3
        };
        Case {
            name,
            rounds: self.rounds.unwrap_or(if self.quick { 2 } else { usual }),
            baseline: AUTO,
            again: AUTO,
            subjects,
            targets: if self.quick { Vec::new() } else { targets },
            fixture: Box::new(fixture),
        }
    }
}

/// The mechanisms that work there, and are no hopeless loss of time.
fn mechanisms(errand: Errand) -> Vec<Mechanism> {
    use Mechanism::{CopyFileRange, Direct, DirectRing, ReadWrite, Reflink, Sendfile, Splice};
    let mut all = vec![Reflink, CopyFileRange, DirectRing, Direct, Sendfile, Splice, ReadWrite];
    let same = errand.from == errand.to;
    let shared_by_range = same && errand.to.shares() && errand.bytes >= MIB;
    all.retain(|mechanism| match mechanism {
        // Where a kernel call shares the blocks, whoever moves these bytes is far behind.
        DirectRing | Direct | Sendfile | Splice if shared_by_range => false,
        Reflink => same && errand.to.shares(),
        CopyFileRange => same,
        // btrfs gives no alignment for direct writes.
        Direct => errand.to != Place::Btrfs,
        // Where the source is in memory, its pages are quicker.
        DirectRing => {
            errand.cold
                && errand.from == Place::Ext4
                && matches!(errand.to, Place::Ext4 | Place::Xfs)
        }
        Sendfile => errand.bytes < HUGE,
        _ => true,
    });
    all
}

fn case_name(errand: Errand) -> String {
    let places = match errand.from == errand.to {
        true => errand.to.name().to_owned(),
        false => format!("{}-{}", errand.from.name(), errand.to.name()),
    };
    let size = size_name(errand.bytes);
    let what = if errand.files == 1 { size } else { format!("{} files of {size}", errand.files) };
    let cache = if errand.cold { "cold" } else { "warm" };
    format!("{places}/{what}/{cache}{}", if errand.durable { ", durable" } else { "" })
}

type Sources = Rc<RefCell<Vec<PathBuf>>>;

fn subject(name: &str, errand: Errand, sources: &Sources, options: CopyOptions) -> Subject {
    let sources = Rc::clone(sources);
    let action = Action::Closure(Box::new(move |trial: &Trial| {
        let sources = sources.borrow();
        if errand.files > 1 {
            let directory = sources[0].parent().context("files lie in a directory")?;
            for source in sources.iter() {
                ready(source, errand)?;
            }
            return timed(1, || {
                let options = JobOptions::new().copy(options.clone());
                let summary = copy_trees([(directory, &trial.path)], &options)?;
                anyhow::ensure!(summary.failed == 0, "{} files failed", summary.failed);
                Ok(())
            });
        }
        let mut total = Sample::new();
        for copy in 0..errand.copies() {
            ready(&sources[0], errand)?;
            let path = match copy {
                0 => trial.path.clone(),
                copy => trial.path.with_extension(copy.to_string()),
            };
            let one =
                timed(errand.copies(), || Ok(copy_file(&sources[0], path, &options).map(drop)?))?;
            for (metric, value) in one {
                *total.entry(metric).or_default() += value;
            }
        }
        Ok(total)
    }));
    Subject { name: name.to_owned(), role: Role::Own, action }
}

/// Brings the source into the page cache, or out of it.
fn ready(source: &Path, errand: Errand) -> Result<()> {
    if errand.cold {
        let file = File::open(source)?;
        return Ok(fadvise(&file, 0, None, Advice::DontNeed)?);
    }
    warm(source)
}

/// The costs of `operation`, divided by the number of times that it is run.
fn timed(times: usize, operation: impl FnOnce() -> Result<()>) -> Result<Sample> {
    let (wall, cpu) = (Instant::now(), processor_time());
    operation()?;
    let each = |time: Duration| time.as_secs_f64() / times as f64;
    let cost = [(WALL, each(wall.elapsed())), (CPU, each(processor_time().saturating_sub(cpu)))];
    Ok(Sample::from(cost))
}

struct MechanismFixture {
    errand: Errand,
    places: Rc<Places>,
    sources: Sources,
    directory: PathBuf,
    /// Name of the folders of this case.
    folder: String,
    quick: bool,
}

impl MechanismFixture {
    fn home(&self) -> Result<PathBuf> {
        let sources = self.sources.borrow();
        let home = sources.first().and_then(|source| source.parent());
        home.map(Path::to_owned).context("the case is not prepared")
    }
}

impl Fixture for MechanismFixture {
    fn prepare(&mut self) -> Result<Option<String>> {
        let (from, to) = match [self.errand.from, self.errand.to].map(|p| self.places.directory(p))
        {
            [Ok(Ok(from)), Ok(Ok(to))] => (from, to),
            [Ok(Err(reason)), _] | [_, Ok(Err(reason))] => return Ok(Some(reason)),
            [Err(error), _] | [_, Err(error)] => return Err(error),
        };
        let home = from.join(format!("{}-source", self.folder));
        self.directory = to.join(&self.folder);
        for directory in [&home, &self.directory] {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        for number in 0..self.errand.files {
            let source = home.join(format!("source-{number}"));
            let file = contents(self.errand.bytes, self.errand.bytes).write(&source);
            file.sync_all().context("cannot flush the source")?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
            self.sources.borrow_mut().push(source);
        }
        Ok(None)
    }

    fn directory(&self) -> PathBuf {
        self.directory.clone()
    }

    fn before(&mut self, _: &[OsString]) -> Result<()> {
        let bytes = self.errand.all_bytes();
        if bytes < LARGE { Ok(()) } else { touch_free_memory(bytes) }
    }

    fn after(&mut self, trial: &Trial) -> Result<Sample> {
        let sources = self.sources.borrow();
        let whole = trial.round == 0;
        if self.errand.files == 1 {
            check_equal(&sources[0], &trial.path, whole)?;
        } else {
            for source in sources.iter() {
                let name = source.file_name().context("a source has a name")?;
                check_equal(source, &trial.path.join(name), whole)?;
            }
        }
        if self.errand.bytes >= LARGE {
            match self.errand.files {
                1 => fs::remove_file(&trial.path)?,
                _ => fs::remove_dir_all(&trial.path)?,
            }
        }
        if self.errand.bytes >= HUGE {
            machine::settle(self.places.disk(), self.quick)?;
        }
        Ok(Sample::new())
    }

    fn between_rounds(&mut self, _: usize) -> Result<()> {
        machine::settle(self.places.disk(), self.quick)
    }

    fn finish(&mut self) -> Result<()> {
        let home = self.home()?;
        for directory in [&home, &self.directory] {
            fs::remove_dir_all(directory)
                .with_context(|| format!("cannot remove {}", directory.display()))?;
        }
        machine::settle(self.places.disk(), self.quick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::case::assert;

    fn setting(quick: bool) -> Setting {
        Setting { places: Rc::new(Places::new("/nonexistent".into())), quick, rounds: None }
    }

    #[test]
    fn every_default_is_set_against_mechanisms_that_run_twice() {
        let cases = setting(false).cases();
        assert::sound(&cases);
        for case in &cases {
            assert_eq!(case.targets.len(), 2, "{}", case.name);
            for target in &case.targets {
                let Against::BestOfSecondRuns(names) = &target.against else { unreachable!() };
                assert!(names.len() >= 3, "{}: {names:?}", case.name);
                for name in names {
                    for name in [name.clone(), name_again(name)] {
                        assert!(
                            case.subjects.iter().any(|s| s.name == name),
                            "{}: {name}",
                            case.name
                        );
                    }
                }
            }
        }
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        for expected in ["ext4/4KiB/cold", "btrfs/512MiB/warm", "tmpfs-ext4/100 files of 4MiB/warm"]
        {
            assert!(names.contains(&expected), "{expected}: {names:?}");
        }
    }

    #[test]
    fn quick_runs_are_small_and_judge_nothing() {
        for case in setting(true).cases() {
            assert!(case.targets.is_empty() && !case.name.contains("GiB"), "{}", case.name);
        }
    }
}
