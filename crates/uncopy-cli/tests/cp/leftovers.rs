//! Leftovers of a killed run, and which run removes them.
//!
//! `kill -9` in each of the system calls of a copy: there is the old file or the new one, and at
//! most one recognisable temporary file, perhaps with a record that shows whose it is. With one the next
//! run removes both, unless somebody holds a lock; without, it names the file and leaves it alone.

use std::path::{Path, PathBuf};

use testbed::witness::Strace;
use testbed::{
    CallPattern, Case, Content, Fault, Intercept, Intercepted, Need, Place, Program, Run,
    SystemCall, WatchedCall, assert_same,
};
use uncopy::Errno;

use crate::cp::witnessed::{Pair, RENAME_CALLS, WRITE_CALLS};
use crate::cp::{COPY_FILE_RANGE, DIRECT, Method, READ_WRITE, SPLICE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] kill_in_each_call_over_an_old_file,
        [] kill_in_each_call_of_a_durable_verified_copy,
        [] kill_in_each_call_to_a_new_name,
        [] kill_in_each_call_with_temporary_names,
        [] kill_in_the_middle_of_each_method,
        [] a_leftover_of_another_copy_stays,
        [] a_leftover_without_a_record_stays_and_is_named,
        [] only_own_leftovers_are_removed,
        [] what_another_run_has_put_in_place_is_no_leftover,
        [Need::Tool("strace")] a_directory_of_many_files_is_listed_once,
        [] leftovers_of_each_file_are_found_in_one_listing,
    ]
}

const LENGTH: u64 = 300_001;

/// Temporary files in a directory: `.uncopy-<16 hex digits>-<random>.tmp`.
pub(crate) fn temporaries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| is_temporary(&path.file_name().unwrap().to_string_lossy())).collect()
}

fn is_temporary(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(".uncopy-") else { return false };
    let Some((digest, random)) = rest.strip_suffix(".tmp").and_then(|rest| rest.split_once('-'))
    else {
        return false;
    };
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digest.len() == 16 && hex(digest) && random.len() >= 16 && hex(random)
}

/// Calls from the first on a file of the test to the last one, those of memory and threads left out.
pub(crate) fn calls_of_the_copy(pair: &Pair, program: &Program) -> Vec<WatchedCall> {
    let Intercept { run, log, .. } = Intercepted::new(&pair.command(program.clone())).record();
    assert!(run.status.success(), "{}", run.stderr);
    let touches =
        |call: &WatchedCall| call.touches(pair.from.path()) || call.touches(pair.to.path());
    let first = log.iter().position(touches).expect("it opens the source");
    let last = log.iter().rposition(touches).expect("it opens the source");
    let elsewhere = [
        SystemCall::MMAP,
        SystemCall::MPROTECT,
        SystemCall::MADVISE,
        SystemCall::MREMAP,
        SystemCall::CLONE3,
        SystemCall::CLOSE,
        // Keys of the standard library's hash tables, no matter of the copy.
        SystemCall::GETRANDOM,
        SystemCall::RT_SIGACTION,
    ];
    let own = |call: &WatchedCall| {
        let can_fail = !call.call.errnos().is_empty();
        can_fail
            && (!elsewhere.contains(&call.call) || call.call == SystemCall::MMAP && touches(call))
    };
    log[first..=last].iter().filter(|call| own(call)).cloned().collect()
}

/// Kills the program in each of its calls, one run each; the state after each run is checked.
fn kill_in_each_call(program: &Program, old: bool) {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let old_bytes = old.then(|| pair.old_destination());
    let calls = calls_of_the_copy(&pair, program);
    assert!(calls.len() > 8, "{calls:?}");
    for call in calls.iter().step_by(testbed::by_extent([5, 1, 1])) {
        let _ = std::fs::remove_file(&pair.destination);
        if old {
            pair.old_destination();
        }
        let kill = CallPattern::of(&[call.call]).nth(call.nth).kills();
        let run = pair.command(program.clone()).run_with([kill]).run;
        let context = format!("killed in {} number {}", call.call.name(), call.nth);
        assert!(!run.status.success(), "{context}: it was not");
        assert_old_or_new(&pair, old_bytes.as_deref(), &context);
        let left = temporaries(pair.to.path());
        assert!(left.len() <= 1, "{context}: {left:?}");
        assert_eq!(pair.to.strangers(&["destination"]).len(), left.len(), "{context}");
        let run = pair.command(program.clone()).run();
        assert_eq!(take_what_is_named(&pair, &run), left.len(), "{context}");
        pair.assert_copied();
    }
}

/// Removes what the run found and left alone, all of which it named: how many there are.
#[track_caller]
fn take_what_is_named(pair: &Pair, run: &Run) -> usize {
    let receipt = run.receipt();
    let named = receipt.value()["leftovers"].as_array().cloned().unwrap_or_default();
    let left = pair.to.strangers(&["destination"]);
    for name in &left {
        let path = pair.to.join(name);
        assert!(named.iter().any(|one| one["path"] == *path.to_string_lossy()), "{name}");
        assert!(run.stderr.contains(name.as_str()), "{}", run.stderr);
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(named.len(), left.len(), "{named:?}");
    left.len()
}

fn assert_old_or_new(pair: &Pair, old: Option<&[u8]>, context: &str) {
    match std::fs::read(&pair.destination) {
        Ok(bytes) if Some(bytes.as_slice()) == old => {}
        Ok(bytes) => {
            let new = std::fs::read(&pair.source).unwrap();
            assert!(bytes == new, "{context}: neither the old nor the new file");
        }
        Err(error) => assert!(old.is_none(), "{context}: {error}"),
    }
}

fn kill_in_each_call_over_an_old_file() {
    kill_in_each_call(&cp().arg("-p"), true);
}

fn kill_in_each_call_of_a_durable_verified_copy() {
    kill_in_each_call(&cp().args(["--durable", "--verify"]), true);
}

fn kill_in_each_call_to_a_new_name() {
    kill_in_each_call(&cp(), false);
}

/// As on a filesystem without O_TMPFILE: a temporary name is there from the beginning.
fn kill_in_each_call_with_temporary_names() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let program = pair.command(cp());
    let refuse = no_unnamed_files(Errno::EOPNOTSUPP);
    let recorded = Intercepted::new(&program).inject(refuse.clone()).record();
    let _ = recorded.run.receipt();
    let (mut kills, mut named) = (0, 0);
    for call in recorded.log.iter().filter(|call| call.touches(pair.to.path())) {
        pair.old_destination();
        // The call that was refused is met by the kill then.
        let kill = CallPattern::of(&[call.call]).nth(call.nth).kills();
        let run = program.run_with([kill, refuse.clone()]).run;
        let context = format!("killed in {} number {}", call.call.name(), call.nth);
        assert!(!run.status.success(), "{context}: it was not");
        assert_old_or_new(&pair, Some(&old), &context);
        let left = temporaries(pair.to.path());
        assert!(left.len() <= 1, "{context}: {left:?}");
        kills += left.len();
        named += take_what_is_named(&pair, &program.run());
        pair.assert_copied();
    }
    assert!(kills > 2, "no kill left a temporary file; this tested nothing");
    // Between being made and being noted.
    assert!(named * 2 < kills, "{named} of {kills}");
}

/// As on filesystems that cannot make a file without a name (`O_TMPFILE`).
pub(crate) fn no_unnamed_files(errno: Errno) -> Fault {
    CallPattern::of(&[SystemCall::OPENAT]).when(WatchedCall::makes_unnamed_file).fails(errno)
}

fn kill_in_the_middle_of_each_method() {
    let methods: [(Method, &[SystemCall]); 4] = [
        (COPY_FILE_RANGE, &[SystemCall::COPY_FILE_RANGE]),
        (SPLICE, &[SystemCall::SPLICE]),
        (READ_WRITE, &WRITE_CALLS),
        (DIRECT, &[SystemCall::WRITE, SystemCall::PWRITE64, SystemCall::IO_URING_ENTER]),
    ];
    for (method, calls) in methods {
        let pair = Pair::at(Place::Disk, &Content::dense(2 << 20));
        let old = pair.old_destination();
        let supported = pair.command(cp_by(method)).run().status.success();
        if method == DIRECT && !supported {
            continue;
        }
        pair.old_destination();
        pair.stopped_in(&cp_by(method), calls, 1, pair.to.path()).kill();
        assert_old_or_new(&pair, Some(&old), method.name);
        assert!(temporaries(pair.to.path()).len() <= 1);
        let _ = pair.command(cp_by(method)).run().receipt();
        pair.assert_copied();
    }
}

/// A run that was killed between giving the new file its temporary name and the rename.
pub(crate) fn leave_one(pair: &Pair) -> PathBuf {
    let _ = pair.command(cp()).run_with([CallPattern::of(&RENAME_CALLS).kills()]);
    let left = temporaries(pair.to.path());
    assert_eq!(left.len(), 1, "this kill leaves a temporary file");
    left[0].clone()
}

/// The same where files cannot be made without a name: it has one for long, and a record shows that.
pub(crate) fn leave_one_with_a_record(pair: &Pair) -> PathBuf {
    let kill = CallPattern::of(&RENAME_CALLS).kills();
    let _ = pair.command(cp()).run_with([no_unnamed_files(Errno::EOPNOTSUPP), kill]);
    let left = temporaries(pair.to.path());
    assert_eq!(left.len(), 1, "this kill leaves a temporary file");
    assert_eq!(pair.to.strangers(&["destination"]).len(), 2, "and a record");
    left[0].clone()
}

/// A run to another destination cannot know that nobody wants it.
fn a_leftover_of_another_copy_stays() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let left = leave_one_with_a_record(&pair);
    for _ in 0..2 {
        let _ = cp().arg(&pair.source).arg(pair.to.join("other")).run().receipt();
        assert!(left.exists());
    }
}

fn a_leftover_without_a_record_stays_and_is_named() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let left = leave_one(&pair);
    for quiet in [false, true] {
        let run = pair.command(if quiet { cp().arg("--quiet") } else { cp() }).run();
        let named = left.file_name().unwrap().to_str().unwrap();
        assert_eq!(run.stderr.contains(named), !quiet, "{}", run.stderr);
        assert!(run.stdout.contains(named), "{}", run.stdout);
        assert!(left.exists());
    }
}

fn only_own_leftovers_are_removed() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let left = leave_one_with_a_record(&pair);
    let name = left.file_name().unwrap().to_str().unwrap();
    let others = [
        ".uncopy-notes.txt".to_owned(),
        ".uncopy-0123456789abcdef-0123456789abcdef.tmp".to_owned(),
        name.replace(".tmp", ".bak"),
        format!("{name}.keep"),
    ];
    for other in &others {
        std::fs::write(pair.to.join(other), b"mine").unwrap();
    }
    // The exact name, and no regular file.
    let other = |digit: char| {
        let random = name.rsplit_once('-').unwrap().0;
        pair.to.join(format!("{random}-{}.tmp", digit.to_string().repeat(32)))
    };
    let (link, directory, file) = (other('0'), other('1'), other('2'));
    std::os::unix::fs::symlink("destination", &link).unwrap();
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(&file, "mine").unwrap();

    let run = pair.command(cp()).run();
    assert_eq!(run.receipt().value()["leftovers"].as_array().unwrap().len(), 3, "{}", run.stdout);
    assert_same(&pair.source, &pair.destination);
    assert!(!left.exists(), "the leftover is still there");
    for other in &others {
        assert!(pair.to.join(other).exists(), "{other} was removed");
    }
    assert!(link.is_symlink() && directory.is_dir() && file.is_file());
}

/// A file that another run was still writing when the directory was listed is gone when it is looked at.
fn what_another_run_has_put_in_place_is_no_leftover() {
    for call in [SystemCall::STATX, SystemCall::OPENAT, SystemCall::FLOCK] {
        let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
        pair.old_destination();
        let left = leave_one(&pair);
        let stop = CallPattern::of(&[call]).on(&left).nth(1);
        let stopped = Intercepted::new(&pair.command(cp())).stop_in(stop);
        std::fs::remove_file(&left).unwrap();
        let run = stopped.resume().run;
        assert!(run.status.success(), "{}", run.stderr);
        let named = left.file_name().unwrap().to_str().unwrap();
        assert!(!run.stderr.contains(named), "{}: {}", call.name(), run.stderr);
        assert!(!run.stdout.contains(named), "{}: {}", call.name(), run.stdout);
    }
}

/// A directory of a job with many sources, prepared: `s` with files or directories, and `d` with some of their names.
fn sources_over_old(is_tree: bool, count: usize, old: usize) -> (Pair, Vec<String>) {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let names: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
    for (directory, names) in [(&pair.from, &names[..]), (&pair.to, &names[..old])] {
        for name in names {
            let path = directory.join(name);
            let file = if is_tree { path.join("file") } else { path };
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, directory.path().as_os_str().as_encoded_bytes()).unwrap();
        }
    }
    (pair, names)
}

/// One listing ends with an empty answer: two calls.
fn a_directory_of_many_files_is_listed_once() {
    for (flags, is_tree) in
        [(&[][..], false), (&["-p"], false), (&["-d"], false), (&["-a"], false), (&["-r"], true)]
    {
        for old in [12, 0] {
            let (pair, names) = sources_over_old(is_tree, 12, old);
            let sources = names.iter().map(|name| pair.from.join(name));
            let program = cp().args(flags).args(sources).arg(pair.to.path());
            let (run, trace) = Strace::new(&program).run();
            assert!(run.status.success(), "{flags:?}: {}", run.stderr);
            let at = format!("<{}>", pair.to.path().display());
            let listings = trace.named(&["getdents64"]);
            let listings = listings.iter().filter(|call| call.arguments.contains(&at)).count();
            assert!(listings <= 4, "{flags:?} {old}: {listings} listings");
        }
    }
}

/// The names of all temporary files are known after the first file; each is told with its own.
fn leftovers_of_each_file_are_found_in_one_listing() {
    for flags in [&[][..], &["-d"], &["-a"]] {
        let (pair, names) = sources_over_old(false, 3, 3);
        let sources = || names.iter().map(|name| pair.from.join(name));
        for source in sources() {
            let kill = CallPattern::of(&RENAME_CALLS).kills();
            let _ = cp().arg(source).arg(pair.to.path()).run_with([kill]);
        }
        let left = temporaries(pair.to.path());
        assert_eq!(left.len(), 3, "{left:?}");
        let run = cp().args(flags).args(sources()).arg(pair.to.path()).run();
        assert!(run.status.success(), "{}", run.stderr);
        for left in left {
            let named = left.file_name().unwrap().to_str().unwrap();
            assert!(run.stdout.contains(named), "{flags:?} {named}: {}", run.stdout);
            assert!(left.exists());
        }
    }
}
