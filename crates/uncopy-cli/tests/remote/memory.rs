//! Memory of both ends, for a million entries.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use testbed::{Case, by_extent, descendants};

use super::{Direction, Machines};

/// Limit of each end, for a million entries.
const LIMIT: u64 = 64 << 20;
const MILLION: u64 = 1_000_000;

/// Form of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Directories of 1,000 files.
    Deep,
    /// All in one directory.
    Flat,
}

/// Largest resident memory of the near end and of the far end.
#[derive(Debug, Clone, Copy, Default)]
struct Peaks {
    near: u64,
    far: u64,
}

/// Reads the highest resident memory of a process so far (`proc_pid_status(5)`).
fn peak(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

fn is_uncopy(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim() == "uncopy")
}

/// Watches both ends until the near one has ended.
fn watch(mut child: Child) -> Peaks {
    let mut peaks = Peaks::default();
    while child.try_wait().unwrap().is_none() {
        peaks.near = peaks.near.max(peak(child.id()).unwrap_or(0));
        let far = descendants(child.id()).into_iter().filter(|id| is_uncopy(*id));
        peaks.far = peaks.far.max(far.filter_map(peak).max().unwrap_or(0));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
    peaks
}

fn copy(direction: Direction, form: Form, entries: u64) -> Peaks {
    let machines = Machines::new();
    let source = machines.source(direction).join("src");
    for number in 0..entries {
        let directory = match form {
            Form::Deep => source.join(format!("{}", number / 1000)),
            Form::Flat => source.clone(),
        };
        if form == Form::Deep && number % 1000 == 0 || number == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        File::create(directory.join(format!("a file with the number {number}"))).unwrap();
    }
    // Threads that happen to allocate at the same time add a few MiB to one run.
    let runs = ["first", "second"].map(|destination| {
        let child = machines
            .command()
            .arg("-r")
            .arg(direction.source("src"))
            .arg(direction.destination(destination))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        watch(child)
    });
    let least = |of: fn(&Peaks) -> u64| runs.iter().map(of).min().unwrap_or(0);
    let peaks = Peaks { near: least(|run| run.near), far: least(|run| run.far) };
    assert!(peaks.near > 0 && peaks.far > 0, "{runs:?}");
    peaks
}

/// Two sizes, whose difference says how much a million takes: what grows grows in proportion, the names of one directory
/// too, which are in a tree: pages of it that are half full make the small sizes of one directory too uncertain to conclude
/// from. Each direction has an end that asks and one that serves.
fn a_million_entries_fit(direction: Direction, form: Form) {
    let (few, many) = match (direction, form) {
        (Direction::Push, Form::Deep) => {
            by_extent([(1_000, 5_000), (20_000, 100_000), (20_000, 400_000)])
        }
        _ => by_extent([(1_000, 5_000), (10_000, 40_000), (100_000, 1_000_000)]),
    };
    let (less, more) = (copy(direction, form, few), copy(direction, form, many));
    let million = |less: u64, more: u64| {
        let each = more.saturating_sub(less) as f64 / (many - few) as f64;
        more + (each * (MILLION - many) as f64) as u64
    };
    let (near, far) = (million(less.near, more.near), million(less.far, more.far));
    let what = format!("{direction:?} {form:?}: {less:?} {more:?}, for a million {near} {far}");
    eprintln!("{what}");
    assert!(more.near.max(more.far) <= LIMIT, "{what}");
    // Threads that wait for a processor keep up to 10 MiB more of what is on its way: that would count tenfold where the
    // sizes are small.
    let may_conclude = many >= 400_000;
    assert!(!may_conclude || near.max(far) <= LIMIT, "{what}");
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for direction in [Direction::Push, Direction::Pull] {
        for (form, name) in [(Form::Deep, "deep"), (Form::Flat, "flat")] {
            let name = format!("remote::memory::a_million_entries_fit::{direction:?}::{name}")
                .to_lowercase();
            cases.push(Case::new(name, &[], move || a_million_entries_fit(direction, form)));
        }
    }
    cases
}
