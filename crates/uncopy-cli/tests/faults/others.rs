//! Commands that copy no file.

use std::net::UdpSocket;

use testbed::{Case, Fault, Intercept, Need, Place, Program, Scratch};

use crate::faults::{Scene, cannot_tidy, ends_for_want_of_memory, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] doctor_of_a_path,
        [] doctor_of_the_network,
        [] capabilities,
        [] configuration_shown,
        [] verification,
        [] verification_by_a_manifest,
        [] a_manifest_is_written,
    ];
    for mode in ["copy", "msg-zerocopy", "ring", "ring-registered", "auto"] {
        let (name, needs) = (format!("faults::others::send::{mode}"), [Need::LockedMemory(1)]);
        cases.push(Case::new(name, &needs, move || send(mode)));
    }
    cases
}

/// It ends, with an exit code and with words, and leaves nothing in the directory that it looks at.
fn ends(program: Program, directory: Option<(&Scratch, &[&str])>, most: usize, ends: &[i32]) {
    let strangers = || directory.map_or(Vec::new(), |(place, own)| place.strangers(own));
    let reset = || {
        for name in strangers() {
            std::fs::remove_file(directory.unwrap().0.join(name)).unwrap();
        }
    };
    let check = |intercept: &Intercept, fault: &Fault| {
        let run = &intercept.run;
        let silent = run.stdout.is_empty() && run.stderr.is_empty();
        assert!(!silent || fault.call().name() == "write", "{fault}: without a word: {run:?}");
        let left = strangers();
        let excused = cannot_tidy(fault) || ends_for_want_of_memory(intercept, fault);
        assert!(left.is_empty() || excused, "{fault}: {left:?}");
    };
    Scene { reset: &reset, check: &check, most, ends, ..Scene::new(program) }.each();
}

const VERDICTS: &[i32] = &[0, 6, 7, 8];

fn doctor_of_a_path() {
    let directory = Place::Disk.scratch();
    let file = directory.join("source");
    std::fs::write(&file, vec![7; 100_000]).unwrap();
    let program = uncopy().args(["doctor", "--json"]).args([&file, &directory.join("copy")]);
    ends(program, Some((&directory, &["source"])), 12, VERDICTS);
}

fn doctor_of_the_network() {
    ends(uncopy().args(["doctor", "--json"]), None, 4, VERDICTS);
}

fn capabilities() {
    let directory = Place::Disk.scratch();
    let program = uncopy().arg("capabilities").arg(directory.path());
    ends(program, Some((&directory, &[])), 40, &[0]);
}

fn configuration_shown() {
    ends(uncopy().args(["config", "show"]), None, usize::MAX, &[0]);
}

/// Two trees, of which the second has another file.
fn unlike_twins() -> Scratch {
    let directory = Place::Disk.scratch();
    for side in ["a", "b"] {
        std::fs::create_dir_all(directory.join(side).join("below")).unwrap();
        std::fs::write(directory.join(side).join("below/same"), "same").unwrap();
        std::fs::write(directory.join(side).join("file"), side).unwrap();
        std::os::unix::fs::symlink("file", directory.join(side).join("link")).unwrap();
    }
    directory
}

/// Whatever fails: a difference that was not seen is not called the same.
fn never_the_same(program: Program) {
    let check = |intercept: &Intercept, fault: &Fault| {
        let run = &intercept.run;
        assert_ne!(run.status.code(), Some(0), "{fault}: {run:?}");
    };
    Scene { check: &check, most: 12, ends: &[3], ..Scene::new(program) }.each();
}

fn verification() {
    let directory = unlike_twins();
    let program = uncopy().args(["verify", "--strict", "--json", "--jobs=2"]);
    never_the_same(program.args([directory.join("a"), directory.join("b")]));
}

fn verification_by_a_manifest() {
    let directory = unlike_twins();
    let sums = "0000000000000000000000000000000000000000000000000000000000000000  file\n";
    std::fs::write(directory.join("sums"), sums).unwrap();
    let program = uncopy().args(["verify", "--strict", "--json", "--jobs=2", "--manifest"]);
    never_the_same(program.args([directory.join("sums"), directory.join("b")]));
}

/// Whatever fails: under its name there is the old manifest or a whole one.
fn a_manifest_is_written() {
    let directory = unlike_twins();
    let (sums, copy) = (directory.join("sums"), directory.join("copy"));
    let program = uncopy().args(["cp", "-rT", "--jobs=1", "--manifest"]).arg(&sums);
    let program = program.arg(directory.join("a")).arg(&copy);
    let reset = || {
        let _ = std::fs::remove_dir_all(&copy);
        std::fs::write(&sums, "old").unwrap();
    };
    reset();
    assert!(program.run().status.success());
    let whole = std::fs::read_to_string(&sums).unwrap();
    assert_eq!(whole.lines().count(), 2, "{whole}");
    let check = |intercept: &Intercept, fault: &Fault| {
        let (run, found) = (&intercept.run, std::fs::read_to_string(&sums).unwrap());
        let is_whole = found.is_empty() || found.ends_with('\n');
        let is_true = is_whole && found.lines().all(|line| whole.lines().any(|l| l == line));
        assert!(found == "old" || is_true, "{fault}: {found:?}: {run:?}");
        assert!(!run.status.success() || found == whole, "{fault}: {found:?}: {run:?}");
        let aside = directory.strangers(&["a", "b", "sums", "copy"]);
        let left = aside.iter().any(|name| name.starts_with(".uncopy-new"));
        assert!(!left || cannot_tidy(fault), "{fault}: {aside:?}");
    };
    Scene { reset: &reset, check: &check, most: 12, ..Scene::new(program) }.each();
}

/// Sends go on for some milliseconds: any number of calls.
fn send(mode: &str) {
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = receiver.local_addr().unwrap().port().to_string();
    let words = ["bench", "send", "-4", "udp", "-D", "127.0.0.1", "-t", "0.004", "-s", "3000"];
    let program = uncopy().args(words).args(["-p", &port, "--json", "--mode", mode]);
    let check = |intercept: &Intercept, fault: &Fault| {
        if !intercept.run.status.success() {
            return;
        }
        let said: serde_json::Value = serde_json::from_str(&intercept.run.stdout).unwrap();
        let number = |key: &str| said[key].as_u64().unwrap();
        // Loopback copies, whatever was asked for, and nobody says otherwise.
        assert_eq!(said["zero_copy"], false, "{fault}: {said}");
        assert!(number("bytes") <= number("sends") * 3000, "{fault}: {said}");
    };
    Scene { check: &check, most: 5, ..Scene::new(program) }.each();
}
