//! `uncopy tune`, as a black box: what it leaves, what it keeps, and what copies make of it.

mod kept;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testbed::{Case, Filesystem, Mount, Need, Place, Program, Scratch, SystemCall, wait_for};

pub(crate) fn cases() -> Vec<Case> {
    let own = testbed::cases![
        [Need::At(Place::Ext4)] ext4_is_measured,
        [Need::At(Place::Btrfs)] btrfs_is_measured,
        [] an_interrupt_leaves_nothing,
        [] where_nothing_can_be_saved_nothing_is_measured,
        [] what_a_killed_run_left_is_removed,
        [Need::Root] what_takes_the_name_of_its_directory_is_left_alone,
        [Need::Root] a_filesystem_that_cannot_be_written_to_is_refused,
    ];
    // ext4 stands for these.
    let longer = testbed::cases![
        [Need::At(Place::Xfs)] xfs_is_measured,
        [] results_are_reported_in_words,
    ];
    let longer = longer.into_iter().map(Case::only_in_full);
    own.into_iter().chain(longer).chain(kept::cases()).collect()
}

/// It measured for as long as ever, and then said so.
fn where_nothing_can_be_saved_nothing_is_measured() {
    let (home, scratch) = (Place::Disk.scratch(), Place::Disk.scratch());
    fs::write(home.join("file"), "").unwrap();
    fs::create_dir_all(home.join("taken/uncopy/tuned.toml")).unwrap();
    fs::create_dir(home.join("in-the-way")).unwrap();
    fs::write(home.join("in-the-way/uncopy"), "in the way").unwrap();
    for (variables, expected) in [
        (&[("XDG_CONFIG_HOME", ""), ("HOME", "")][..], "set HOME or XDG_CONFIG_HOME"),
        (&[("XDG_CONFIG_HOME", home.join("file").to_str().unwrap())], "(ENOTDIR)"),
        (&[("XDG_CONFIG_HOME", home.join("taken").to_str().unwrap())], "it is no regular file"),
        (&[("XDG_CONFIG_HOME", home.join("in-the-way").to_str().unwrap())], "tuned.toml: "),
        (&[("XDG_CONFIG_HOME", "/proc/self")], "cannot write /proc/self/uncopy/tuned.toml"),
    ] {
        let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["tune", "--save"]);
        let program = variables.iter().fold(program, |p, (name, value)| p.env(name, value));
        let begun = std::time::Instant::now();
        let run = program.arg(scratch.path()).run();
        let said = run.failed(1);
        assert!(said.contains(expected) && run.stdout.is_empty(), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}

/// `uncopy` with settings of its own.
fn uncopy(home: &Scratch, words: &[&str]) -> Program {
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(words);
    program.env("XDG_CONFIG_HOME", home.path())
}

fn measured(program: &Program) -> Value {
    let run = program.run();
    assert!(run.status.success(), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

fn is_measured(place: Place, filesystem: &str) {
    let (home, scratch) = (Place::Disk.scratch(), place.scratch());
    let path = scratch.path().to_str().unwrap();
    let said = measured(&uncopy(&home, &["tune", "--json", "--save", path]));
    assert!(scratch.strangers(&[]).is_empty(), "{:?}", scratch.strangers(&[]));
    assert_eq!(said["filesystem"], filesystem);
    let identity = said["identity"].as_str().unwrap();
    // btrfs has no FS_IOC_GETFSUUID.
    let by = if filesystem == "btrfs" { "fsid" } else { "uuid" };
    assert!(identity.starts_with(&format!("{filesystem} {by} ")), "{identity}");
    let duration = Duration::from_micros(said["duration_us"].as_u64().unwrap());
    assert!(duration > Duration::from_millis(1), "{duration:?}");
    let settings = said["settings"].as_array().unwrap();
    let keys: Vec<&str> = settings.iter().map(|s| s["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["zero-copy-min", "direct-min", "direct-cpu-min", "buffer-size", "jobs"]);
    for setting in settings {
        let rounds = setting["compared"].as_array().unwrap();
        assert!(!rounds.is_empty() || setting["missing"].is_string(), "{setting}");
    }
    // Direct writes on tmpfs and btrfs would show nothing.
    let takes_direct =
        settings[1]["missing"] != "direct writes are not taken here, or copied all the same";
    assert_eq!(takes_direct, filesystem != "btrfs", "{}", settings[1]);

    // A copy to this filesystem uses the kept values, and a copy to another does not.
    assert_eq!(said["saved"], home.join("uncopy/tuned.toml").to_str().unwrap());
    let shown = measured(&uncopy(&home, &["config", "show", "--json", path]));
    for setting in settings {
        let shown = shown["settings"].as_array().unwrap().clone();
        let shown = shown.into_iter().find(|shown| shown["key"] == setting["key"]).unwrap();
        if setting["value"] == setting["built_in"] {
            assert_eq!((&shown["origin"], &shown["value"]), (&"built_in".into(), &"auto".into()));
        } else {
            assert_eq!(shown["value"], setting["value"].to_string(), "{shown}");
            assert_eq!(shown["origin"], "tuned");
            assert_eq!(shown["filesystem"], identity);
        }
    }
    let elsewhere = measured(&uncopy(&home, &["config", "show", "--json", "/proc"]));
    assert!(!elsewhere.to_string().contains("tuned"), "{elsewhere}");
}

fn ext4_is_measured() {
    is_measured(Place::Ext4, "ext4");
}

fn xfs_is_measured() {
    is_measured(Place::Xfs, "xfs");
}

fn btrfs_is_measured() {
    is_measured(Place::Btrfs, "btrfs");
}

fn results_are_reported_in_words() {
    let (home, scratch) = (Place::Disk.scratch(), Place::Disk.scratch());
    let path = scratch.path().to_str().unwrap();
    let run = uncopy(&home, &["tune", "--save", path]).run();
    assert!(run.status.success(), "{}", run.stderr);
    let kept = format!("\nsaved in {}\n", home.join("uncopy/tuned.toml").display());
    assert!(run.stdout.contains(&kept), "{kept:?} in {}", run.stdout);
    check_words(&run.stdout);
}

fn check_words(report: &str) {
    for words in ["\nzero-copy-min  ", "\ndirect-min  ", "\njobs  ", "rounds"] {
        assert!(report.contains(words), "{words:?} in {report}");
    }
}

/// Starts to measure, waits until copies are made, and sends a signal; returns which one it died of.
fn ended_by(signal: Signal, home: &Scratch, scratch: &Scratch) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let mut child = Command::new(env!("CARGO_BIN_EXE_uncopy"))
        .args(["tune", "--save"])
        .arg(scratch.path())
        .env("XDG_CONFIG_HOME", home.path())
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("copies", || {
        let strangers = scratch.strangers(&[]);
        let mut made = strangers.iter().map(|name| std::fs::read_dir(scratch.join(name)));
        made.any(|made| made.is_ok_and(|entries| entries.count() > 20))
    });
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait().unwrap().signal()
}

fn an_interrupt_leaves_nothing() {
    let (home, scratch) = (Place::Disk.scratch(), Place::Disk.scratch());
    assert_eq!(ended_by(Signal::INT, &home, &scratch), Some(2));
    assert!(scratch.strangers(&[]).is_empty(), "{:?}", scratch.strangers(&[]));
    assert!(!home.join("uncopy").exists(), "nothing was measured to its end");
}

fn what_a_killed_run_left_is_removed() {
    let (home, scratch) = (Place::Disk.scratch(), Place::Disk.scratch());
    assert_eq!(ended_by(Signal::KILL, &home, &scratch), Some(9));
    let left = scratch.strangers(&[]);
    // The measured files, and the record that says which directory that is.
    assert!(left.len() == 2 && left.iter().all(|name| name.starts_with(".uncopy-")), "{left:?}");
    // The next one begins by removing it, and removes its own when it is stopped.
    let gone = || left.iter().all(|name| !scratch.join(name).exists());
    let mut child = Command::new(env!("CARGO_BIN_EXE_uncopy"))
        .arg("tune")
        .arg(scratch.path())
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("end of what was left", gone);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(scratch.strangers(&[]).is_empty(), "{:?}", scratch.strangers(&[]));
}

/// Whoever owns the directory that is measured in may rename what is in it.
fn what_takes_the_name_of_its_directory_is_left_alone() {
    // Before what was made is opened, and afterwards.
    for (call, nth) in [(SystemCall::MKDIRAT, 1), (SystemCall::FLOCK, 2)] {
        let (home, scratch) = (Place::Disk.scratch(), Place::Disk.scratch());
        let path = scratch.path().to_str().unwrap();
        let stopped = uncopy(&home, &["tune", "--json", path]).stop_after(call, nth);
        let entries = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().path());
        let ours: Vec<_> = entries.filter(|path| path.is_dir()).collect();
        assert_eq!(ours.len(), 1, "{ours:?}");
        fs::rename(&ours[0], scratch.join("away")).unwrap();
        fs::create_dir(&ours[0]).unwrap();
        fs::set_permissions(&ours[0], fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(ours[0].join("kept"), "kept").unwrap();
        let elsewhere = scratch.join("elsewhere");
        symlink(&elsewhere, ours[0].join("source-4096")).unwrap();
        let run = stopped.resume_with(Signal::INT).run;
        let kept = fs::read_to_string(ours[0].join("kept"));
        assert!(kept.is_ok_and(|kept| kept == "kept"), "{}: {run:?}", call.name());
        assert!(!elsewhere.exists(), "{}: a file was made through the link: {run:?}", call.name());
    }
}

#[track_caller]
fn refused(path: &Path) -> String {
    let home = Place::Disk.scratch();
    let run = uncopy(&home, &["tune", "--save", path.to_str().unwrap()]).run();
    assert!(!home.join("uncopy").exists(), "nothing was measured");
    run.failed(1).to_owned()
}

fn a_filesystem_that_cannot_be_written_to_is_refused() {
    let small = Mount::tmpfs(64);
    let said = refused(small.path());
    assert!(said.contains("MiB of room") && said.contains("free some"), "{said}");
    assert_eq!(std::fs::read_dir(small.path()).unwrap().count(), 0);

    let readable = Mount::image(Filesystem::Ext4, 64);
    readable.remount("ro");
    let said = refused(readable.path());
    assert!(said.contains("EROFS") && said.contains("name another"), "{said}");

    let said = refused(&small.path().join("missing"));
    assert!(said.contains("ENOENT"), "{said}");
}
