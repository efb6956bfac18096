//! Which files `--checksum` and `--size-only` take for unchanged.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use testbed::{CallPattern, Case, Intercepted, Need, Place, Program, SystemCall};
use uncopy::Errno;

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] the_comparison_decides,
        [Need::Tool("rsync")] the_comparison_decides_as_in_rsync,
        [] what_was_read_is_reported,
        [] a_copy_that_cannot_be_read_is_replaced,
        [] flags_that_leave_nothing_to_compare_are_refused,
    ]
}

const SOURCE: &[u8] = b"some bytes of a file";

/// Contents of the destination, whether they are those of the source, and whether they are as long.
const CONTENTS: [(&str, &[u8], bool, bool); 4] = [
    ("alike", SOURCE, true, true),
    ("as long", b"some other of a file", false, true),
    ("longer", b"some bytes of a file and more", false, false),
    ("empty", b"", false, false),
];

/// Time of the destination; that of the source is 2000.
const TIMES: [(&str, u64); 3] = [("older", 1000), ("as new", 2000), ("newer", 3000)];

const FLAGS: [&[&str]; 4] =
    [&["--checksum"], &["--size-only"], &["--checksum", "-u"], &["--size-only", "-u"]];

fn set_time(path: &Path, seconds: u64) {
    let times = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(seconds));
    File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

/// Makes a file for each kind of destination, with the inode of that.
fn make(trees: &Trees) -> Vec<(String, u64)> {
    fs::create_dir(trees.destination()).unwrap();
    let mut names = Vec::new();
    for (contents, bytes, ..) in CONTENTS {
        for (age, seconds) in TIMES {
            let name = format!("{contents}, {age}");
            set_time(&trees.file(&name, SOURCE), 2000);
            let copy = trees.destination().join(&name);
            fs::write(&copy, bytes).unwrap();
            set_time(&copy, seconds);
            names.push((name, copy.metadata().unwrap().ino()));
        }
    }
    names
}

/// Checks which files of the destination are new ones.
#[track_caller]
fn check(trees: &Trees, names: &[(String, u64)], flags: &[&str], how: &str) {
    let kinds = CONTENTS.iter().flat_map(|contents| TIMES.map(|time| (contents, time)));
    for ((name, inode), ((_, bytes, is_alike, is_as_long), (_, seconds))) in names.iter().zip(kinds)
    {
        let is_newer = flags.contains(&"-u") && seconds > 2000;
        let is_same = if flags.contains(&"--checksum") { *is_alike } else { *is_as_long };
        let copy = trees.destination().join(name);
        let is_kept = copy.metadata().unwrap().ino() == *inode;
        assert_eq!(is_kept, is_newer || is_same, "{how} {flags:?}: {name}");
        let expected = if is_kept { *bytes } else { SOURCE };
        assert_eq!(fs::read(&copy).unwrap(), expected, "{how} {flags:?}: {name}");
    }
}

fn the_comparison_decides() {
    for flags in FLAGS {
        let trees = Trees::new();
        let names = make(&trees);
        trees.copy(cp().args(["-T", "--dry-run"]).args(flags));
        assert!(names.iter().all(|(name, inode)| {
            trees.destination().join(name).metadata().unwrap().ino() == *inode
        }));
        trees.copy(cp().arg("-T").args(flags));
        check(&trees, &names, flags, "tree");

        let trees = Trees::new();
        let names = make(&trees);
        let single = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp").args(flags);
        let sources = names.iter().map(|(name, _)| trees.source().join(name));
        let run = single.args(sources).arg(trees.destination()).run();
        assert!(run.status.success(), "{}", run.stderr);
        check(&trees, &names, flags, "files");
    }
}

fn the_comparison_decides_as_in_rsync() {
    for flags in FLAGS {
        let trees = Trees::new();
        let names = make(&trees);
        let mut source = trees.source().into_os_string();
        source.push("/");
        let run = Program::new("rsync").arg("-r").args(flags).arg(source).arg(trees.destination());
        let run = run.run();
        assert!(run.status.success(), "{}", run.stderr);
        check(&trees, &names, flags, "rsync");
    }
}

fn what_was_read_is_reported() {
    let trees = Trees::new();
    make(&trees);
    let run = trees.copy(cp().args(["-T", "--checksum", "-u"]));
    let summary = summary(&run);
    // Those that are alike and as long, and not newer.
    assert_eq!(number(&summary, "compared"), 4, "{}", run.stdout);
    // Two are read to their end; the others differ in their first piece.
    let read = number(&summary, "compared_bytes");
    assert_eq!(read, 2 * 2 * SOURCE.len() as u64, "{}", run.stdout);
    let with = |code: &str| {
        let skipped = events(&run, "skipped");
        skipped.iter().filter(|event| event.value()["code"] == code).count()
    };
    assert_eq!((with("same_contents"), with("as_new")), (2, 4), "{}", run.stdout);
    let run = trees.copy(cp().args(["-T", "--size-only"]));
    assert!(run.stdout.contains("\"code\":\"same_size\""), "{}", run.stdout);
    assert!(summary_lacks(&run.stdout, "compared"), "{}", run.stdout);
}

fn summary_lacks(text: &str, key: &str) -> bool {
    !text.lines().last().unwrap().contains(&format!("\"{key}\""))
}

/// A disk that returns errors for the old copy is a reason to copy, and one for the source is a failure.
fn a_copy_that_cannot_be_read_is_replaced() {
    for of_source in [false, true] {
        let trees = Trees::new();
        let file = trees.file("file", SOURCE);
        let copy = trees.destination().join("file");
        fs::create_dir(trees.destination()).unwrap();
        fs::write(&copy, SOURCE).unwrap();
        let inode = copy.metadata().unwrap().ino();
        let broken = if of_source { &file } else { &copy };
        let program = cp().args(["-T", "--checksum"]).arg(trees.source()).arg(trees.destination());
        let fault = CallPattern::of(&[SystemCall::PREAD64]).on(broken).fails(Errno::EIO);
        let intercept = Intercepted::new(&program).inject(fault).run();
        assert_eq!(intercept.run.status.success(), !of_source, "{}", intercept.run.stderr);
        let is_kept = copy.metadata().unwrap().ino() == inode;
        assert_eq!(is_kept, of_source);
        assert_eq!(fs::read(&copy).unwrap(), SOURCE);
    }
}

fn flags_that_leave_nothing_to_compare_are_refused() {
    let place = Place::Disk.scratch();
    fs::write(place.join("a"), "a").unwrap();
    fs::write(place.join("b"), "b").unwrap();
    let other_of = |compare| if compare == "--checksum" { "--size-only" } else { "--checksum" };
    for compare in ["--checksum", "--size-only"] {
        for other in ["-n", "-l", "--attributes-only", other_of(compare)] {
            for form in [&[][..], &["-r"]] {
                let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp").args(form);
                let paths = [place.join("a"), place.join("b")];
                let run = program.args([compare, other]).args(paths).run();
                assert_eq!(run.status.code(), Some(2), "{compare} {other}: {}", run.stderr);
                let words = &run.stderr;
                assert!(words.contains("leave one of them out"), "{words}");
                assert_eq!(fs::read(place.join("b")).unwrap(), b"b");
            }
        }
    }
}
