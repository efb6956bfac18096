//! A source that somebody stores into through a mapping while it is copied.
//!
//! The writer stores a growing number all over the file, in order, so that every copy tells whether the
//! file ever was like that. `UNCOPY_TEST_FULL=soak` makes 200 rounds of each kind.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::Value;
use testbed::{
    Case, KernelFeature, MappedWriter, Need, Place, Program, Receipt, Run, Stores, is_of_one_moment,
};

use crate::cp::witnessed::Pair;
use crate::cp::{COPY_FILE_RANGE, DIRECT, EVERYWHERE, REFLINK, cp, cp_by};

const PLACES: [Place; 3] = [Place::Ext4, Place::Xfs, Place::Btrfs];

/// Stores are noticed by pages that become dirty.
const DIRTY_PAGES: Need = Need::Kernel(KernelFeature::CacheState);

/// Several pieces.
const LENGTH: u64 = 12 << 20;

/// The state of the file when the copy begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// Every page is on the disk.
    Clean,
    /// The writer is at work, and the program is given an instruction.
    Dirty(&'static str),
}

const BEGINS: [(&str, Begin); 3] = [
    ("clean", Begin::Clean),
    ("dirty_and_fail", Begin::Dirty("--if-changed=fail")),
    ("dirty_and_retry", Begin::Dirty("--if-changed=retry")),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        let on = format!("on_{}", format!("{place:?}").to_lowercase());
        for (name, begin) in BEGINS {
            let name = |what| format!("cp::mapping::{what}::{name}::{on}");
            let needs = [Need::At(place), DIRTY_PAGES];
            cases.push(Case::new(name("files"), &needs, move || files(place, begin)));
            cases.push(Case::new(name("trees"), &needs, move || trees(place, begin)));
        }
        let name = |what| format!("cp::mapping::{what}::{on}");
        let needs = [Need::At(place), DIRTY_PAGES];
        cases.push(Case::new(name("small_files_whose_times_are_old"), &needs, move || old(place)));
        cases.push(Case::new(name("a_quiet_writer"), &needs, move || quiet(place)));
    }
    cases.append(&mut testbed::cases![
        [Need::At(Place::Tmpfs)] nothing_is_claimed_where_nothing_can_be_known,
        [Need::At(Place::Ext4), Need::Tool("setpriv"), DIRTY_PAGES] nothing_is_claimed_of_the_files_of_others,
        [Need::At(Place::Ext4), DIRTY_PAGES] dirty_pages_are_reported,
    ]);
    cases
}

fn rounds() -> u32 {
    testbed::by_extent([5, 20, 200])
}

/// Outcomes of the rounds.
#[derive(Debug, Default)]
struct Tally {
    of_one_moment: u32,
    refused: u32,
    /// The writer came before the program, which did not claim that nobody wrote.
    not_claimed: u32,
    flushes: u64,
    mixtures: Vec<String>,
}

impl Tally {
    fn end(self, what: &str) {
        if testbed::Extent::from_env() == testbed::Extent::Soak {
            println!("{what}: {self:?}");
        }
        assert!(self.mixtures.is_empty(), "{what}: {self:#?}");
        let counted = self.of_one_moment + self.refused;
        assert!(counted >= self.not_claimed, "hardly anything was put to the test: {self:?}");
    }

    /// Takes in what was copied under the receipt `said`, or nothing.
    fn take(&mut self, said: &Value, copy: Option<&[u8]>, round: &str) {
        self.flushes += said["source_flushes"].as_u64().unwrap_or(0);
        match copy {
            None => self.refused += 1,
            Some(bytes) if is_of_one_moment(bytes) => self.of_one_moment += 1,
            Some(_) if said["mapped_writes"] == "unknown" => {
                let reason = &said["mapped_writes_unknown"];
                let excused = reason == "dirty_pages" && !round.contains("--if-changed");
                if excused {
                    self.not_claimed += 1;
                } else {
                    self.mixtures.push(format!("{round}: {said}"));
                }
            }
            Some(_) => self.mixtures.push(format!("{round}: {said}")),
        }
    }
}

fn fresh(path: &Path, length: u64) {
    std::fs::write(path, vec![0; usize::try_from(length).unwrap()]).unwrap();
    settle(path);
}

/// Every page of it is on the disk.
fn settle(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// Begins to store into clean files, at another moment in every round, or into dirty ones.
fn writer(files: &[&Path], begin: Begin, round: u32) -> MappedWriter {
    match begin {
        Begin::Clean => {
            files.iter().for_each(|path| settle(path));
            let delay = Duration::from_micros(u64::from(round * 7919 % 97) * 60);
            MappedWriter::start(files, Stores::AfterOpen(delay)).unwrap()
        }
        Begin::Dirty(_) => {
            let stores = match round % 3 {
                0 => Stores::Steadily,
                1 => Stores::Every(Duration::from_millis(1)),
                _ => Stores::Every(Duration::from_millis(20)),
            };
            let writer = MappedWriter::start(files, stores).unwrap();
            std::thread::sleep(Duration::from_millis(3));
            writer
        }
    }
}

fn with_flag_of(program: Program, begin: Begin) -> Program {
    match begin {
        Begin::Clean => program,
        Begin::Dirty(flag) => program.arg(flag),
    }
}

/// Every way that a single file is copied.
fn programs(place: Place, begin: Begin) -> Vec<(&'static str, Program)> {
    let mut programs = vec![
        ("default", cp()),
        ("verify", cp_by(COPY_FILE_RANGE).arg("--verify=xxh3")),
        ("direct", cp_by(DIRECT)),
        ("durable", cp_by(COPY_FILE_RANGE).arg("--durable")),
        ("cache=skip", cp_by(COPY_FILE_RANGE).arg("--cache=skip")),
        ("slowly", cp_by(COPY_FILE_RANGE).arg("--max-bandwidth=1Gi")),
        ("sparse=always", cp().arg("--sparse=always")),
    ];
    programs.extend(EVERYWHERE.map(|method| (method.flag, cp_by(method))));
    if place.has_reflinks() {
        programs.push(("reflink", cp_by(REFLINK)));
        programs.push(("reflink, verify", cp_by(REFLINK).arg("--verify=xxh3")));
    }
    // Bytes written to a stream or in place cannot be taken back.
    if begin != Begin::Dirty("--if-changed=retry") {
        programs.push(("stream", cp().arg("--copy-contents")));
        programs.push(("in place", cp_by(COPY_FILE_RANGE).arg("--in-place")));
    }
    if cfg!(feature = "compress") {
        programs.push(("compress", cp().arg("--compress=zstd")));
    }
    programs.into_iter().map(|(name, program)| (name, with_flag_of(program, begin))).collect()
}

fn files(place: Place, begin: Begin) {
    let pair = Pair::empty(place, place);
    let programs = programs(place, begin);
    fresh(&pair.source, LENGTH);
    let mut tally = Tally::default();
    for round in 0..rounds() {
        let ways = programs.len() as u32;
        let (way, program) = &programs[(round % ways) as usize];
        let name = format!("{way}, {begin:?}, round {round}");
        let copy = pair.to.join(round.to_string());
        if *way == "in place" {
            std::fs::write(&copy, b"old").unwrap();
        }
        let read = (*way == "stream").then(|| read_by_fifo(&copy));
        let writer = writer(&[&pair.source], begin, round);
        let run = program.clone().arg(&pair.source).arg(&copy).run();
        drop(writer);
        let read = read.map(|thread| thread.join().unwrap());
        if run.status.success() {
            let bytes = read.unwrap_or_else(|| contents(&copy, way));
            assert_eq!(bytes.len() as u64, LENGTH, "{name}");
            tally.take(run.receipt().value(), Some(&bytes), &name);
        } else {
            // Where changes cannot be detected, as the writer was first, the digests may differ.
            let is_reported = run.status.code() == Some(4)
                || (way.contains("verify")
                    && run.status.code() == Some(3)
                    && run.stderr.contains("the source may have changed")
                    && begin == Begin::Clean);
            assert!(is_reported, "{name}: {}{}", run.stderr, run.stdout);
            assert!(read.is_some() || *way == "in place" || !copy.exists(), "{name}");
            tally.take(&Value::Null, None, &name);
        }
        let _ = std::fs::remove_file(&copy);
    }
    tally.end(&format!("{place:?}, {begin:?}"));
}

/// Returns the bytes of a copy, decompressed if it was compressed.
fn contents(copy: &Path, way: &str) -> Vec<u8> {
    if way != "compress" {
        return std::fs::read(copy).unwrap();
    }
    let plain = copy.with_extension("plain");
    let run = cp().arg("--decompress").arg(copy).arg(&plain).run();
    assert!(run.status.success(), "{}", run.stderr);
    let bytes = std::fs::read(&plain).unwrap();
    std::fs::remove_file(plain).unwrap();
    bytes
}

/// A FIFO of this name, and a thread that reads it to its end.
fn read_by_fifo(path: &Path) -> std::thread::JoinHandle<Vec<u8>> {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let path = path.to_owned();
    std::thread::spawn(move || std::fs::read(path).unwrap())
}

/// A tree of some small files and one of several pieces.
struct Tree {
    pair: Pair,
    files: Vec<PathBuf>,
}

impl Tree {
    fn new(place: Place, small: usize) -> Tree {
        let pair = Pair::empty(place, place);
        std::fs::create_dir(&pair.source).unwrap();
        let mut files: Vec<PathBuf> =
            (0..small).map(|number| pair.source.join(number.to_string())).collect();
        files.iter().for_each(|path| fresh(path, 16 << 10));
        files.push(pair.source.join("large"));
        fresh(&pair.source.join("large"), LENGTH);
        Tree { pair, files }
    }

    fn paths(&self) -> Vec<&Path> {
        self.files.iter().map(PathBuf::as_path).collect()
    }

    fn copy(&self, program: Program, round: &str, tally: &mut Tally) -> Run {
        let run = program.arg(&self.pair.source).arg(&self.pair.destination).run();
        self.judge(&run, round, tally);
        let _ = std::fs::remove_dir_all(&self.pair.destination);
        run
    }

    fn judge(&self, run: &Run, round: &str, tally: &mut Tally) {
        let lines = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        for path in &self.files {
            let name = path.file_name().unwrap();
            let copy = std::fs::read(self.pair.destination.join(name)).ok();
            let says = |line: &&Value| {
                let source = line["source"].as_str().map(Path::new).and_then(Path::file_name);
                source == Some(name) && line["event"] == "copied"
            };
            let said = lines.iter().find(says).unwrap_or(&Value::Null);
            let round = format!("{} of {round}", OsStr::display(name));
            tally.take(said, copy.as_deref(), &round);
            let is_whole = run.status.success();
            assert!(!is_whole || copy.is_some(), "{round}: a file is missing: {}", run.stdout);
        }
    }
}

fn trees(place: Place, begin: Begin) {
    let tree = Tree::new(place, 6);
    let cp_r = |json: bool, more: &[&str]| {
        let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "-r"]).args(more);
        if json { program.arg("--json") } else { program }
    };
    let by = "--method=read-write";
    let mut programs = vec![
        ("default, reported", cp_r(true, &[])),
        ("read, reported", cp_r(true, &[by])),
        ("kept, reported", cp_r(true, &[by, "--resume"])),
        ("verified, reported", cp_r(true, &["--method=sendfile", "--verify=xxh3"])),
    ];
    // Nothing says what was claimed of each.
    if begin != Begin::Clean {
        programs.push(("default", cp_r(false, &[])));
        programs.push(("read", cp_r(false, &[by])));
    }
    let mut tally = Tally::default();
    for round in 0..rounds() {
        let (way, program) = &programs[round as usize % programs.len()];
        let writer = writer(&tree.paths(), begin, round);
        let flag = if let Begin::Dirty(flag) = begin { flag } else { "" };
        let name = format!("{way} {flag}, round {round}");
        tree.copy(with_flag_of(program.clone(), begin), &name, &mut tally);
        drop(writer);
    }
    tally.end(&format!("trees, {place:?}, {begin:?}"));
}

/// Stores into pages that have been dirty for seconds, as the ways see them that go by the times of a
/// file when they decide what has to be looked at.
fn old(place: Place) {
    let tree = Tree::new(place, 60);
    let mut tally = Tally::default();
    // Only until they are flushed for the first time.
    let writer = MappedWriter::start(&tree.paths(), Stores::Steadily).unwrap();
    std::thread::sleep(Duration::from_secs(6));
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy"));
    let flag = "--if-changed=fail";
    let program = program.args(["cp", "-r", "--jobs=1", "--method=read-write", flag]);
    tree.copy(program, flag, &mut tally);
    drop(writer);
    tally.end(&format!("old, {place:?}"));
}

/// Dirty pages that nobody stores into any more are flushed, and the receipt says so.
fn quiet(place: Place) {
    let pair = Pair::empty(place, place);
    fresh(&pair.source, LENGTH);
    let set_up = |program: Program, by: &str| match by {
        "flag" => program.arg("--if-changed=retry"),
        "variable" => program.env("UNCOPY_IF_CHANGED", "fail"),
        "file" => {
            let file = pair.from.join("config.toml");
            std::fs::write(&file, "if-changed = 'retry'\n").unwrap();
            program.arg("--config").arg(file)
        }
        _ => program,
    };
    for by in ["flag", "variable", "file", "nothing"] {
        let receipt = copy_of_dirty_pages(
            || drop(MappedWriter::start(&[&pair.source], Stores::Steadily).unwrap()),
            || pair.copy(set_up(cp_by(COPY_FILE_RANGE), by)),
        );
        let said = receipt.value();
        if by == "nothing" {
            assert_eq!(said["mapped_writes"], "unknown", "{by}: {said}");
            assert_eq!(said["mapped_writes_unknown"], "dirty_pages", "{by}: {said}");
            assert_eq!(said.get("source_flushes"), None, "{by}: {said}");
        } else {
            assert_eq!(said["mapped_writes"], "none_seen", "{by}: {said}");
            assert_eq!(said["source_flushes"], 1, "{by}: {said}");
            assert!(said["source_flush_us"].as_u64() > Some(0), "{by}: {said}");
        }
        std::fs::remove_file(&pair.destination).unwrap();
    }
}

/// Copies again where somebody else flushed the whole filesystem before the copy began.
fn copy_of_dirty_pages(write: impl Fn(), copy: impl Fn() -> Receipt) -> Receipt {
    let mut tries = 5;
    loop {
        write();
        let receipt = copy();
        let said = receipt.value();
        let was_dirty =
            said["mapped_writes_unknown"] == "dirty_pages" || said["source_flushes"] == 1;
        tries -= 1;
        if was_dirty || tries == 0 {
            return receipt;
        }
    }
}

/// tmpfs has no dirty pages, whoever writes.
fn nothing_is_claimed_where_nothing_can_be_known() {
    let pair = Pair::empty(Place::Tmpfs, Place::Tmpfs);
    fresh(&pair.source, 100_000);
    for program in [cp(), cp().arg("--if-changed=fail"), cp().arg("--if-changed=retry")] {
        let receipt = pair.copy(program);
        let said = receipt.value();
        assert_eq!(said["mapped_writes"], "unknown", "{said}");
        assert_eq!(said["mapped_writes_unknown"], "filesystem", "{said}");
        assert_eq!(said["source_changed"], false, "{said}");
    }
}

/// The kernel answers only who owns a file or may write to it (`can_do_cachestat` in `mm/filemap.c`).
fn nothing_is_claimed_of_the_files_of_others() {
    let pair = Pair::empty(Place::Ext4, Place::Tmpfs);
    fresh(&pair.source, 100_000);
    std::os::unix::fs::chown(pair.to.path(), Some(crate::cp::NOBODY), None).unwrap();
    let own = pair.copy(cp());
    assert_eq!(own.value()["mapped_writes"], "none_seen", "{}", own.value());
    std::fs::remove_file(&pair.destination).unwrap();
    for flag in ["--if-changed=accept", "--if-changed=fail", "--if-changed=retry"] {
        let receipt = pair.copy(crate::cp::cp_as_nobody().arg(flag));
        let said = receipt.value();
        assert_eq!(said["mapped_writes"], "unknown", "{said}");
        assert_eq!(said["mapped_writes_unknown"], "refused", "{said}");
    }
}

fn dirty_pages_are_reported() {
    let pair = Pair::empty(Place::Ext4, Place::Ext4);
    let dirty = copy_of_dirty_pages(
        || {
            // ext4 writes out an existing file that was truncated when it is closed.
            let _ = std::fs::remove_file(&pair.source);
            std::fs::write(&pair.source, [7; 5000]).unwrap();
        },
        || pair.copy(cp().arg("--if-changed=accept")),
    );
    assert_eq!(dirty.value()["mapped_writes_unknown"], "dirty_pages", "{}", dirty.value());
    settle(&pair.source);
    let clean = pair.copy(cp());
    assert_eq!(clean.value()["mapped_writes"], "none_seen", "{}", clean.value());
    assert_eq!(clean.value().get("mapped_writes_unknown"), None, "{}", clean.value());
}
