//! Units with a root on another machine: a script takes the place of the remote shell, and a real `sshd` in one case.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use testbed::{Case, Compared, Mount, Need, Program, Run, Sshd, seeded, wait_for};

use super::work::{Work, kinds, printed, put, run_unit, uncopy};
use crate::remote::{Direction, Machines};

const UNCOPY: &str = env!("CARGO_BIN_EXE_uncopy");

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] units_make_the_tree_of_another_machine,
        [Need::Tool("sshd"), Need::Tool("ssh")] units_go_through_a_real_login,
        [] what_changed_since_the_plan_stays,
        [] what_became_a_link_since_the_plan_has_changed,
        [] entries_that_are_asked_for_ahead_are_those_of_the_plan,
        [] a_file_that_cannot_be_read_fails_alone,
        [] two_workers_do_two_units_of_one_plan,
        [] deletions_look_again_at_both_machines,
        [Need::Root] deletions_keep_what_is_mounted,
        [] a_killed_worker_is_followed_by_another,
        [] roots_that_cannot_be_meant_are_refused,
        [] a_unit_leads_to_no_other_machine_than_its_plan,
        [] a_machine_that_is_not_reached_is_exit_code_9,
        [] machines_that_are_one,
        [] a_restricted_login_does_units_in_its_directory_alone,
    ]
}

/// A copy whose source or destination is on another machine.
struct Between {
    work: Work,
    direction: Direction,
    remote_shell: OsString,
    remote_program: OsString,
    host: &'static str,
    _machines: Machines,
}

impl Between {
    fn new(direction: Direction) -> Between {
        let machines = Machines::new();
        let remote_shell = machines.shell().into();
        let (work, remote_program, host) = (Work::new(), UNCOPY.into(), "far");
        Between { work, direction, remote_shell, remote_program, host, _machines: machines }
    }

    fn unit<I: IntoIterator<Item: AsRef<OsStr>>>(&self, words: I) -> Program {
        uncopy()
            .env("UNCOPY_RSH", &self.remote_shell)
            .env("UNCOPY_REMOTE_PROGRAM", &self.remote_program)
            .arg("unit")
            .args(words)
    }

    fn root(&self, path: PathBuf, is_there: bool) -> OsString {
        if !is_there {
            return path.into();
        }
        let mut operand = OsString::from(format!("{}:", self.host));
        operand.push(path);
        operand
    }

    fn plan(&self, flags: &[&str]) {
        let files = match flags.iter().any(|flag| flag.starts_with("--files")) {
            true => None,
            false => Some("--files=20"),
        };
        let run = self
            .unit(["plan", "-a", "--bytes=1Mi"])
            .args(files)
            .arg("--out")
            .arg(self.work.directory())
            .args(flags)
            .arg(self.root(self.work.source(), self.direction == Direction::Pull))
            .arg(self.root(self.work.destination(), self.direction == Direction::Push))
            .run();
        assert!(run.status.success(), "{}{}", run.stderr, run.stdout);
    }

    fn run(&self, unit: &Path) -> Run {
        self.unit(["run", "--json"]).arg(unit).run()
    }

    fn run_all(&self) {
        for unit in self.work.units() {
            let run = self.run(&unit);
            assert!(run.status.success(), "{}: {}", unit.display(), run.stderr);
        }
    }

    fn assert_done(&self) {
        let status = self.unit(["status"]).arg(self.work.directory()).run();
        assert!(status.status.success(), "{}{}", status.stdout, status.stderr);
        let retry = self.unit(["retry"]).arg(self.work.directory()).run();
        assert!(retry.status.success() && retry.stdout.is_empty(), "{}", retry.stdout);
        self.work.assert_same(Compared::wholly());
    }
}

const DIRECTIONS: &[Direction] = &Direction::BOTH;

fn fill(work: &Work) {
    work.fill(50);
    work.write(OsStr::from_bytes(b"d1/\xff\n\"odd"), "odd");
    let holes = File::create(work.source().join("holes")).unwrap();
    holes.set_len(5 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holes, b"data", 3 << 20).unwrap();
    File::create(work.source().join("small hole")).unwrap().set_len(60_000).unwrap();
}

fn units_make_the_tree_of_another_machine() {
    for direction in DIRECTIONS {
        let between = Between::new(*direction);
        fill(&between.work);
        between.plan(&["--verify"]);
        assert!(!between.work.destination().exists());
        let units = between.work.units();
        let early = between.run(units.last().unwrap());
        assert_eq!(early.status.code(), Some(10), "{}", early.stderr);
        assert_eq!(printed(&early)["missing"], units.len() - 1);
        let status = between.unit(["status"]).arg(between.work.directory()).run();
        assert_eq!(status.status.code(), Some(10), "{}", status.stderr);
        between.run_all();
        for unit in &units {
            let again = between.run(unit);
            assert!(again.status.success(), "{}", again.stderr);
            assert_eq!(printed(&again)["state"], "done_before");
        }
        // Earlier programs do not take it.
        let header = fs::read_to_string(&units[0]).unwrap();
        assert!(header.starts_with(r#"{"schema":2,"#), "{header:.80}");
        let linked = |name| fs::metadata(between.work.destination().join(name)).unwrap().ino();
        assert_eq!(linked("d0/several"), linked("d2/e2/twin"));
        between.assert_done();
    }
}

fn units_go_through_a_real_login() {
    let sshd = Sshd::start();
    for direction in DIRECTIONS {
        let remote_shell = format!("ssh -F '{}'", sshd.client_config().display()).into();
        let between = Between { remote_shell, host: "[::1]", ..Between::new(*direction) };
        fill(&between.work);
        between.plan(&[]);
        between.run_all();
        between.assert_done();
    }
}

fn what_changed_since_the_plan_stays() {
    for direction in DIRECTIONS {
        let between = Between::new(*direction);
        let work = &between.work;
        work.write("changes", "bytes");
        work.write("stays", "bytes");
        work.write("large", seeded(1, 0, 3 << 20));
        put(&work.destination().join("theirs"), "before");
        work.write("theirs", "ours");
        work.write("new", "ours");
        between.plan(&[]);
        let [small, large] = ["stays", "large"].map(|path| work.unit_of(path));
        work.write("changes", "other bytes");
        put(&work.destination().join("theirs"), "changed");
        put(&work.destination().join("new"), "came");
        let run = between.run(&small);
        assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
        let mut found = kinds(&run);
        found.sort();
        assert_eq!(found, ["conflict", "conflict", "source_changed"], "{}", run.stdout);
        let read = |path: &str| fs::read_to_string(work.destination().join(path));
        assert_eq!(read("stays").unwrap(), "bytes");
        assert_eq!(read("theirs").unwrap(), "changed");
        assert_eq!(read("new").unwrap(), "came");
        assert!(read("changes").is_err());
        let status = between.unit(["status", "--json"]).arg(work.directory()).run();
        assert_eq!(status.status.code(), Some(1), "{}{}", status.stderr, status.stdout);
        assert!(status.stdout.contains("source_changed"), "{}", status.stdout);
        // All parts of a file that is cut fail.
        assert!(between.run(&large).status.success());
        work.write("large", seeded(2, 0, 3 << 20));
        let parts: Vec<PathBuf> = work.units().into_iter().filter(|unit| *unit > large).collect();
        let run = between.run(&parts[0]);
        assert_eq!(run.status.code(), Some(4), "{}", run.stderr);
        assert_eq!(kinds(&run), ["source_changed"]);
        assert!(read("large").is_err());
        let retry = between.unit(["retry"]).arg(work.directory()).run();
        assert!(retry.stdout.contains(large.to_str().unwrap()), "{}", retry.stdout);
    }
}

/// A file that is cut, and one in a directory, gave advice about paths with too many links.
fn what_became_a_link_since_the_plan_has_changed() {
    for direction in [None, Some(Direction::Push), Some(Direction::Pull)] {
        let between = direction.map(Between::new);
        let own = Work::new();
        let work = between.as_ref().map_or(&own, |between| &between.work);
        for path in ["large", "small", "d/large", "d/small"] {
            let bytes = if path.ends_with("large") { 3 << 20 } else { 10 };
            work.write(path, seeded(1, 0, bytes));
        }
        match &between {
            Some(between) => between.plan(&[]),
            None => work.plan(&[]),
        }
        let aside = work.scratch.join("aside");
        fs::create_dir(&aside).unwrap();
        for name in ["large", "small", "d"] {
            // It leads to the very file or directory that the plan saw.
            fs::rename(work.source().join(name), aside.join(name)).unwrap();
            std::os::unix::fs::symlink(aside.join(name), work.source().join(name)).unwrap();
        }
        for path in ["large", "small", "d/large", "d/small"] {
            let unit = work.unit_of(path);
            let run = match &between {
                Some(between) => between.run(&unit),
                None => run_unit(&unit),
            };
            let what = format!("{direction:?} {path}: {}{}", run.stderr, run.stdout);
            assert_eq!(run.status.code(), Some(4), "{what}");
            assert!(kinds(&run).iter().all(|kind| kind == "source_changed"), "{what}");
            for text in ["ELOOP", "ENOTDIR", "fewer symbolic links"] {
                assert!(!what.contains(text), "{what}");
            }
            assert!(what.contains("make a new plan"), "{what}");
        }
        // Directories are finished last.
        let run = match (&between, work.units().last().unwrap()) {
            (Some(between), unit) => between.run(unit),
            (None, unit) => run_unit(unit),
        };
        assert!(!run.stdout.contains("ELOOP") && !run.stdout.contains("ENOTDIR"), "{}", run.stdout);
    }
}

/// Makes a file another one until it is dropped, again and again.
struct Changing {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Changing {
    fn begin(paths: Vec<PathBuf>) -> Changing {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        // In place, so that the length stays.
        let change = move |number: u8| {
            for path in &paths {
                let file = File::options().write(true).open(path).unwrap();
                let bytes = vec![number; file.metadata().unwrap().len() as usize];
                std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
            }
        };
        change(0);
        let thread = std::thread::spawn(move || {
            let mut number = 0_u8;
            while !stopped.load(Ordering::Relaxed) {
                number = number.wrapping_add(1);
                change(number);
            }
        });
        Changing { stop, thread: Some(thread) }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn entries_that_are_asked_for_ahead_are_those_of_the_plan() {
    for direction in DIRECTIONS {
        let between = Between::new(*direction);
        let work = &between.work;
        // More than one answer, in several directories, and files that come without their bytes.
        for number in 0..200 {
            let path = format!("d{}/f{number}", number % 4);
            work.write(path, seeded(number, 0, 1000 + number));
        }
        work.write("d1/long", seeded(1, 0, 100_000));
        work.write("d2/longer", seeded(2, 0, 150_000));
        between.plan(&["--files=1000", "--jobs=1"]);
        let unit = work.unit_of("d1/f1");
        let changing = ["d0/f0", "d1/f1", "d1/long"];
        let own = Changing::begin(changing.iter().map(|path| work.source().join(path)).collect());
        for gone in ["d2/f2", "d2/longer"] {
            fs::remove_file(work.source().join(gone)).unwrap();
        }
        fs::rename(work.source().join("d3/f3"), work.scratch.join("aside")).unwrap();
        std::os::unix::fs::symlink("f7", work.source().join("d3/f3")).unwrap();
        let run = between.run(&unit);
        drop(own);
        assert_eq!(run.status.code(), Some(4), "{}", run.stderr);
        assert_eq!(kinds(&run), ["source_changed"; 6], "{}", run.stdout);
        for missing in ["d0/f0", "d1/f1", "d1/long", "d2/f2", "d2/longer", "d3/f3"] {
            let copy = work.destination().join(missing);
            assert!(fs::symlink_metadata(copy).is_err(), "{missing}");
        }
        for number in 4..200 {
            let path = format!("d{}/f{number}", number % 4);
            let copy = fs::read(work.destination().join(&path)).unwrap();
            assert!(copy == seeded(number, 0, 1000 + number), "{path}");
        }
        let left = fs::read_dir(work.destination().join("d1")).unwrap();
        assert_eq!(left.count(), 49);
    }
}

fn a_file_that_cannot_be_read_fails_alone() {
    for direction in DIRECTIONS {
        let between = Between::new(*direction);
        let work = &between.work;
        for name in ["a", "b", "secret", "z"] {
            work.write(name, name);
        }
        fs::set_permissions(work.source().join("secret"), fs::Permissions::from_mode(0o000))
            .unwrap();
        if File::open(work.source().join("secret")).is_ok() {
            // A process with this right reads everything.
            return;
        }
        between.plan(&[]);
        let run = between.run(&work.units()[0]);
        assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
        assert_eq!(kinds(&run), ["error"], "{}", run.stdout);
        assert!(run.stdout.contains("secret"), "{}", run.stdout);
        for name in ["a", "b", "z"] {
            assert_eq!(fs::read_to_string(work.destination().join(name)).unwrap(), name);
        }
        assert!(!work.destination().join("secret").exists());
    }
}

fn two_workers_do_two_units_of_one_plan() {
    for direction in DIRECTIONS {
        let between = Between::new(*direction);
        let work = &between.work;
        for number in 0..120 {
            work.write(format!("d{}/f{number}", number % 5), seeded(number, 0, 100 * number));
        }
        between.plan(&["--files=60", "--jobs=1"]);
        let mut units = work.units();
        let last = units.pop().unwrap();
        assert_eq!(units.len(), 2);
        std::thread::scope(|scope| {
            for unit in &units {
                scope.spawn(|| {
                    let run = between.run(unit);
                    assert!(run.status.success(), "{}: {}", unit.display(), run.stderr);
                });
            }
        });
        assert!(between.run(&last).status.success());
        between.assert_done();
    }
}

fn deletions_keep_what_is_mounted() {
    for near in [true, false] {
        for direction in DIRECTIONS {
            deletions_keep_mounts_of(near, *direction);
        }
    }
}

fn deletions_keep_mounts_of(are_both_here: bool, direction: Direction) {
    let between = Between::new(direction);
    let work = &between.work;
    let there = |name: &str| work.destination().join(name);
    work.write("kept", "kept");
    for name in ["gone/file", "bound/below/file", "other/below/file"] {
        put(&there(name), "to be deleted");
    }
    let outside = work.scratch.join("outside");
    put(&outside.join("theirs"), "bound");
    // One of the same filesystem, and one of another.
    let _bound = Mount::bind_file(&outside, &there("bound/below"));
    let other = Mount::tmpfs(1);
    fs::write(other.path().join("theirs"), "other").unwrap();
    let _other = Mount::bind_file(other.path(), &there("other/below"));
    let run = |unit: &Path| match are_both_here {
        true => run_unit(unit),
        false => between.run(unit),
    };
    match are_both_here {
        true => work.plan(&["--delete"]),
        false => between.plan(&["--delete"]),
    }
    let units = work.units();
    let (last, files) = units.split_last().unwrap();
    for unit in files {
        let run = run(unit);
        assert!(run.status.success(), "{}", run.stderr);
    }
    let run = run(last);
    assert!(!there("gone").exists(), "{}", run.stderr);
    assert_eq!(fs::read_to_string(there("bound/below/theirs")).unwrap(), "bound");
    assert_eq!(fs::read_to_string(there("other/below/theirs")).unwrap(), "other");
    assert_eq!(run.status.code(), Some(1), "{}{}", run.stdout, run.stderr);
    let found = kinds(&run);
    assert!(!found.is_empty() && found.iter().all(|kind| kind == "conflict"), "{}", run.stdout);
}

fn deletions_look_again_at_both_machines() {
    for direction in DIRECTIONS {
        let between = Between::new(*direction);
        let work = &between.work;
        work.write("kept/file", "kept");
        for name in ["gone/deep/file", "kept/gone", "comes", "changes"] {
            put(&work.destination().join(name), "there");
        }
        between.plan(&["--delete", "--max-delete=6"]);
        work.write("comes", "it is there now");
        put(&work.destination().join("changes"), "changed");
        put(&work.destination().join("gone/new"), "new");
        let mut units = work.units();
        let last = units.pop().unwrap();
        for unit in units {
            assert!(between.run(&unit).status.success());
        }
        let run = between.run(&last);
        assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
        let mut found = kinds(&run);
        found.sort();
        assert_eq!(found, ["conflict", "conflict", "source_changed"], "{}", run.stdout);
        let is_there = |name: &str| work.destination().join(name).exists();
        for name in ["comes", "changes", "gone/new"] {
            assert!(is_there(name), "{name}");
        }
        assert!(!is_there("kept/gone") && !is_there("gone/deep"));
        // Nothing is in the way any more.
        fs::remove_file(work.source().join("comes")).unwrap();
        fs::remove_file(work.destination().join("gone/new")).unwrap();
        fs::remove_file(work.destination().join("changes")).unwrap();
        let run = between.run(&last);
        assert!(run.status.success(), "{}", run.stderr);
        assert!(!is_there("gone") && !is_there("comes"));
        between.assert_done();
    }
}

fn a_killed_worker_is_followed_by_another() {
    for direction in DIRECTIONS {
        let between = Between::new(*direction);
        let work = &between.work;
        for number in 0..8 {
            work.write(format!("f{number}"), seeded(number, 0, 60_000));
        }
        between.plan(&["--max-bandwidth=200k", "--jobs=1"]);
        let unit = work.units().remove(0);
        let mut worker = Command::new(UNCOPY)
            .args(["unit", "run", "-q"])
            .arg(&unit)
            .env("UNCOPY_RSH", &between.remote_shell)
            .env("UNCOPY_REMOTE_PROGRAM", UNCOPY)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("its first copy", || {
            let found = fs::read_dir(work.destination()).into_iter().flatten();
            found.flatten().any(|entry| entry.file_name().as_bytes().starts_with(b"f"))
        });
        worker.kill().unwrap();
        worker.wait().unwrap();
        between.run_all();
        between.assert_done();
    }
}

fn roots_that_cannot_be_meant_are_refused() {
    let between = Between::new(Direction::Pull);
    let here = between.work.source();
    for (from, to, expected) in [
        ("a:x", "b:y", "both roots are on other machines"),
        ("-oProxyCommand=x:y", "d", "a host cannot begin with -"),
        (":y", "d", "no host before the colon"),
        ("-u@h:y", "d", "a user cannot begin with -"),
        ("ssh://h:0/y", "d", "the port is no number"),
    ] {
        let run = between
            .unit(["plan", "--out"])
            .arg(between.work.directory())
            .args(["--", from, to])
            .current_dir(&here)
            .run();
        assert_eq!(run.status.code(), Some(2), "{from} {to}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
    // Flags that copies between machines do not have.
    let run = between
        .unit(["plan", "--require=shared", "--out"])
        .arg(between.work.directory())
        .args(["h:y", "d"])
        .run();
    assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
    assert!(!between.work.directory().exists());
}

/// Rewrites a file by words that are in it.
fn rewrite(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

fn a_unit_leads_to_no_other_machine_than_its_plan() {
    for direction in DIRECTIONS {
        let between = Between::new(*direction);
        between.work.write("file", "bytes");
        between.plan(&[]);
        let unit = between.work.units().remove(0);
        let plan = between.work.directory().join("plan.json");
        // Without its plan.
        let aside = between.work.scratch.join("aside.jsonl");
        fs::copy(&unit, &aside).unwrap();
        assert_eq!(between.run(&aside).status.code(), Some(1));
        // The unit alone names another machine.
        rewrite(&unit, "far:", "elsewhere:");
        let run = between.run(&unit);
        assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
        assert!(run.stderr.contains("beside its plan"), "{}", run.stderr);
        // Both do, in a way that would be a flag of the remote shell.
        for file in [&unit, &plan] {
            rewrite(file, if file == &unit { "elsewhere:" } else { "far:" }, "-oProxyCommand=x:");
        }
        let run = between.run(&unit);
        assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
        assert!(run.stderr.contains("a host cannot begin with -"), "{}", run.stderr);
        assert!(!between.work.destination().exists());
    }
}

fn a_machine_that_is_not_reached_is_exit_code_9() {
    for direction in DIRECTIONS {
        let between = Between::new(*direction);
        between.work.write("file", "bytes");
        between.plan(&[]);
        let lost = Between { remote_shell: "false".into(), ..between };
        let run = lost.run(&lost.work.units()[0]);
        assert_eq!(run.status.code(), Some(9), "{}", run.stderr);
        let plan = lost
            .unit(["plan", "h:x", "d", "--out"])
            .arg(lost.work.scratch.join("other"))
            .current_dir(&lost.work.source())
            .run();
        assert_eq!(plan.status.code(), Some(9), "{}", plan.stderr);
    }
}

fn a_restricted_login_does_units_in_its_directory_alone() {
    let between = Between::new(Direction::Push);
    between.work.write("d/file", "bytes");
    between.plan(&[]);
    let restricted = |flags: &str| {
        let program = between.work.scratch.join("serve");
        fs::write(&program, format!("#!/bin/sh\nexec {UNCOPY} \"$@\" {flags}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    };
    let outside = between.work.scratch.join("outside");
    fs::create_dir(&outside).unwrap();
    let unit = between.work.units().remove(0);
    let run = |flags: String| {
        let program = restricted(&flags);
        between.unit(["run", "--json"]).env("UNCOPY_REMOTE_PROGRAM", program).arg(&unit).run()
    };
    for flags in [format!("--restrict {}", outside.display()), "--read-only".to_owned()] {
        let refused = run(flags);
        assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
        assert!(!between.work.destination().exists());
    }
    // Reading is enough for the plan, and to see what is done.
    let status = between
        .unit(["status"])
        .env("UNCOPY_REMOTE_PROGRAM", restricted("--read-only"))
        .arg(between.work.directory())
        .run();
    assert_eq!(status.status.code(), Some(10), "{}", status.stderr);
    let done = run(format!("--restrict {}", between.work.scratch.display()));
    assert!(done.status.success(), "{}", done.stderr);
}

/// A machine that turns out to be this one has no other files.
fn machines_that_are_one() {
    for direction in DIRECTIONS {
        for (source, destination, flags, expected) in [
            ("a", "a", &[][..], "the copy would change what it copies"),
            ("a", "a/sub", &[], "it is the destination of this copy"),
            ("a/sub", "a", &["--delete"], "it is a source of this copy or holds one"),
        ] {
            let between = Between::new(*direction);
            let at = |name: &str| between.work.scratch.join(name);
            put(&at("a/f"), "f");
            put(&at("a/sub/g"), "g");
            let run = between
                .unit(["plan", "-a", "--out"])
                .arg(between.work.directory())
                .args(flags)
                .arg(between.root(at(source), *direction == Direction::Pull))
                .arg(between.root(at(destination), *direction == Direction::Push))
                .run();
            assert!(run.failed(1).contains(expected), "{source} {destination}: {}", run.stderr);
            assert!(!between.work.directory().join("plan.json").exists());
        }
    }
}
