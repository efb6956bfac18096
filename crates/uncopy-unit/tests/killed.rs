//! Processes that plan are killed at any moment, until every plan is whole.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufReader;
use std::num::NonZeroUsize;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use uncopy_copy::job::{Compare, Selection};
use uncopy_unit::format::{Kind, Options, UnitNumber, UnitReader};
use uncopy_unit::plan::{
    CheckpointPace, DEFAULT_BYTES, PlanRequest, PlanRoot, plan, read_plan, unit_file,
};

/// Names the directory of the plan to a process that is to be killed.
const DIRECTORY: &str = "UNCOPY_TEST_PLAN";

/// Number of processes that are killed.
const KILLS: u32 = 24;

fn request(directory: &Path) -> PlanRequest {
    let place = directory.ancestors().nth(2).unwrap();
    PlanRequest {
        source: PlanRoot::Here(place.join("s")),
        destination: PlanRoot::Here(place.join("d")),
        directory: directory.to_owned(),
        options: Options::default(),
        selection: Selection::default(),
        one_filesystem: false,
        skip_links: false,
        specials: true,
        update: false,
        compare: Compare::default(),
        delete: None,
        files: 60,
        bytes: DEFAULT_BYTES,
        threads: NonZeroUsize::new(2).unwrap(),
        version: "0".to_owned(),
        checkpoints: CheckpointPace::Names(300),
    }
}

fn start(directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "every_entry_is_planned_once"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn make(root: &Path) {
    for number in 0..2_500 {
        let directory = match number % 3 {
            0 => root.join("flat"),
            _ => root.join(format!("d{}/e{}", number % 7, number % 50)),
        };
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join(number.to_string());
        File::create(&file).unwrap();
        if number % 20 == 0 {
            fs::hard_link(file, root.join(format!("link {number}"))).unwrap();
        }
    }
}

/// Walks by the standard library.
fn walk(root: &Path, below: &Path, found: &mut BTreeSet<PathBuf>) {
    found.insert(if below.as_os_str().is_empty() { ".".into() } else { below.to_owned() });
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => walk(root, &path, found),
            false => drop(found.insert(path)),
        }
    }
}

/// Compares a plan with what a walk finds.
fn check(directory: &Path, expected: &BTreeSet<PathBuf>) {
    let plan = read_plan(directory).unwrap();
    assert_eq!(plan.entries, expected.len() as u64);
    let mut found = BTreeMap::new();
    let mut names: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for number in 0..plan.units {
        let number = UnitNumber::new(number).unwrap();
        let file = File::open(unit_file(directory, number)).unwrap();
        let mut reader = UnitReader::new(BufReader::new(file)).unwrap();
        assert_eq!((reader.header().unit, reader.header().plan), (number, plan.id));
        while let Some(entry) = reader.next_entry().unwrap() {
            *found.entry(entry.path.as_path().to_owned()).or_insert(0) += 1;
            if entry.kind != Kind::Directory {
                names.entry(entry.source.unwrap().inode).or_default().insert(number.get());
            }
        }
    }
    assert_eq!(fs::read_dir(directory.join("units")).unwrap().count(), plan.units as usize);
    assert!(found.values().all(|times| *times == 1), "planned more than once");
    assert_eq!(&found.into_keys().collect::<BTreeSet<_>>(), expected);
    assert!(names.values().all(|units| units.len() == 1), "names of one file in two units");
}

#[test]
fn every_entry_is_planned_once() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        plan(&request(Path::new(&directory)), &|_| {}).unwrap();
        return;
    }
    let place = tempfile::tempdir().unwrap();
    // In memory where there is one, since each checkpoint is flushed.
    let plans = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    symlink(plans.path(), place.path().join("plans")).unwrap();
    make(&place.path().join("s"));
    let mut expected = BTreeSet::new();
    walk(&place.path().join("s"), Path::new(""), &mut expected);
    let to = |number: u32| place.path().join(format!("plans/{number}"));
    let begun = Instant::now();
    assert!(start(&to(0)).wait().unwrap().success());
    check(&to(0), &expected);
    // Any moment of what one that is not killed takes.
    let whole = begun.elapsed();
    let (mut number, mut kills, mut dice) = (1, 0, 1_u32);
    while kills < KILLS {
        let mut process = start(&to(number));
        dice = dice.wrapping_mul(0x9e37_79b1).wrapping_add(1);
        thread::sleep(whole.mul_f64(f64::from(dice >> 8) / f64::from(1 << 24)));
        let _ = process.kill();
        kills += u32::from(!process.wait().unwrap().success());
        if read_plan(&to(number)).is_ok() {
            check(&to(number), &expected);
            number += 1;
        }
    }
    if read_plan(&to(number)).is_err() {
        assert!(start(&to(number)).wait().unwrap().success());
    }
    check(&to(number), &expected);
}
