//! Tests of the command line: targets, explanations, errors.

use std::fs::FileTimes;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use testbed::{Case, Need, Place, cases};

use crate::doctor::{finding, report, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        [] the_verdict_is_the_first_line,
        [] several_targets_have_one_exit_code,
        [] a_datagram_that_cannot_be_sent_is_not_copied,
        [] findings_are_explained,
        [] refusals_end_in_a_next_step,
        [] json_says_the_same,
        [] without_a_target_the_machine_is_examined,
        [] a_copy_is_judged_with_the_flags_of_cp,
        [] settings_are_named_with_their_origin,
        [] a_directory_is_judged_by_its_largest_file,
        [] a_destination_that_is_not_there_is_named_so,
        [Need::Tool("prlimit")] a_limit_on_the_size_of_files_is_an_answer,
        [Need::Root, Need::Tool("setpriv")] a_directory_without_write_permission_is_not_judged,
        [Need::Tool("setpriv"), Need::At(Place::Ext4), Need::At(Place::Overlay)]
            a_forecast_leaves_the_time_of_the_last_access,
        [Need::Tool("sh"), Need::Tool("grep")] the_flags_of_an_inherited_source_stay,
    ]
}

fn the_verdict_is_the_first_line() {
    let run = uncopy("doctor udp://127.0.0.1:9").run();
    assert_eq!(run.status.code(), Some(6), "{}", run.stderr);
    let first = run.stdout.lines().next().unwrap();
    assert_eq!(
        first,
        "UDP to 127.0.0.1:9 through lo will be copied: 127.0.0.1:9 is on this machine"
    );
    assert!(!run.stdout.contains('\x1b'), "colours are for terminals: {}", run.stdout);
}

fn several_targets_have_one_exit_code() {
    let run = uncopy("doctor tcp://[::1]:9 nonesuch0 udp://127.0.0.1:9").run();
    assert_eq!(run.status.code(), Some(1), "one of them is not there: {}", run.stderr);
    assert!(run.stderr.contains("cannot find the network device nonesuch0"), "{}", run.stderr);
    assert_eq!(run.stdout.matches("will be copied").count(), 2, "{}", run.stdout);
}

/// It was to be copied.
fn a_datagram_that_cannot_be_sent_is_not_copied() {
    for (words, expected) in [
        ("--size 65507 udp://127.0.0.1:9", 6),
        ("--size 65508 udp://127.0.0.1:9", 7),
        ("--size 65527 udp://[::1]:9", 6),
        ("--size 65528 udp://[::1]:9", 7),
        ("--size 70000 tcp://127.0.0.1:9", 6),
        ("--size 65507 --segment 1400 udp://127.0.0.1:9", 6),
        ("--size 65508 --segment 1400 udp://127.0.0.1:9", 7),
        ("--size 64000 --segment 500 udp://127.0.0.1:9", 6),
        ("--size 65000 --segment 500 udp://127.0.0.1:9", 7),
        ("--size 1000 --segment 65508 udp://127.0.0.1:9", 6),
        ("--segment 65507 udp://127.0.0.1:9", 6),
        ("--segment 65508 udp://127.0.0.1:9", 7),
    ] {
        let run = uncopy(&format!("doctor --json {words}")).run();
        let report = report(&run, expected);
        let found = finding(&report, "datagram-too-long");
        assert_eq!(found.is_some(), expected == 7, "{words}: {report}");
    }
}

fn findings_are_explained() {
    let run = uncopy("doctor --explain tap-eth-p-all").run();
    assert!(run.status.success());
    assert!(run.stdout.starts_with("### `tap-eth-p-all`: A packet tap sees outgoing packets\n"));
    let all = uncopy("doctor --explain all").run().stdout;
    assert!(all.contains(&run.stdout));
    let unknown = uncopy("doctor --explain nonesuch").run();
    assert!(unknown.failed(2).contains("loopback, "), "{}", unknown.stderr);
}

fn refusals_end_in_a_next_step() {
    for (words, expected) in [
        ("doctor tcp://127.0.0.1", "write tcp://127.0.0.1:PORT"),
        ("doctor http://127.0.0.1:80", "write tcp:// or udp://"),
        ("doctor tcp://no.such.host.invalid:80", "is not an address (failed to lookup"),
        ("doctor --size 0 udp://127.0.0.1:9", "--size"),
        ("doctor --explain loopback lo", "cannot be used with"),
        ("doctor lo -- --durable", "name SRC and DST"),
        ("doctor /tmp", "for a copy name SRC and DST"),
        ("doctor a b -- --no-such-flag", "--no-such-flag"),
        ("doctor --trace 0", "a number of seconds"),
        ("doctor --stacks lo", "--trace"),
        ("doctor --probe lo", "--probe needs an address"),
        ("doctor a b -- c", "only flags of cp"),
        ("doctor a b -- --prefer=cpu --sparse=always --require-zero-copy", "--sparse=always"),
    ] {
        let run = uncopy(words).run();
        assert!(run.failed(2).contains(expected), "{words}: {}", run.stderr);
    }
    let run = uncopy("doctor --pid 4194305").run();
    assert!(run.failed(1).contains("cannot find the process 4194305"), "{}", run.stderr);
}

fn json_says_the_same() {
    let run = uncopy("doctor --json tcp://127.0.0.1:9").run();
    let report = report(&run, 6);
    assert_eq!((&report["schema"], &report["verdict"]), (&1.into(), &"copied".into()));
    let loopback = finding(&report, "loopback").unwrap();
    for key in ["topic", "severity", "summary", "effect", "next_step"] {
        assert!(loopback[key].is_string(), "{key}: {loopback}");
    }
    assert_eq!(loopback["needs_root"], false);
    assert_eq!(report["facts"][0]["name"], "route");
}

fn a_copy_is_judged_with_the_flags_of_cp() {
    let scratch = Place::Disk.scratch();
    let directory = scratch.path();
    std::fs::write(directory.join("source"), [7; 100_000]).unwrap();
    std::fs::create_dir(directory.join("into")).unwrap();
    let doctor = |words: &str| {
        let words = format!("doctor --json source into {words}");
        report_of(&uncopy(&words).current_dir(directory).env("UNCOPY_VERIFY", "sha256"))
    };
    let plain = doctor("-- --no-zero-copy");
    assert_eq!(plain["target"], "source -> into/source");
    assert_eq!(plain["verdict"], "copied", "{plain}");
    let setting = finding(&plain, "setting-refuses").unwrap();
    assert_eq!(setting["evidence"][0]["found"], "the flag: --no-zero-copy");
    let verification = finding(&plain, "verification").unwrap();
    assert_eq!(verification["evidence"][0]["found"], "UNCOPY_VERIFY in the environment");
    assert_eq!(plain["ways"].as_array().unwrap().len(), 6);
    assert_eq!(plain["ways"][0]["mechanism"], "reflink");
    let unverified = doctor("-- --no-verify");
    assert!(finding(&unverified, "verification").is_none(), "{unverified}");
    let left: Vec<_> = std::fs::read_dir(directory.join("into")).unwrap().collect();
    assert!(left.is_empty(), "nothing was copied: {left:?}");
}

/// The same setting from each place where it can be set.
fn settings_are_named_with_their_origin() {
    let scratch = Place::Disk.scratch();
    let directory = scratch.path();
    std::fs::write(directory.join("source"), [7; 100_000]).unwrap();
    let file = directory.join("lasting.toml");
    std::fs::write(&file, "jobs = 2\nmethod = 'no-zero-copy'\nverify = 'xxh3'\n").unwrap();
    let file = file.display().to_string();
    let in_file = format!("{file}, line 2");
    for (flags, variable, origin) in [
        ("-- --no-zero-copy".to_owned(), "", "the flag"),
        ("".to_owned(), "no-zero-copy", "UNCOPY_METHOD in the environment"),
        (format!("-- --config {file}"), "", in_file.as_str()),
        // A flag overrides the file.
        (format!("-- --config {file} --no-zero-copy"), "", "the flag"),
        (format!("-- --config {file}"), "no-zero-copy", "UNCOPY_METHOD in the environment"),
    ] {
        let words = format!("doctor --json source copy {flags}");
        let program = uncopy(&words).current_dir(directory).env("UNCOPY_METHOD", variable);
        let report = report_of(&program);
        let setting = finding(&report, "setting-refuses").unwrap();
        let found = setting["evidence"][0]["found"].as_str().unwrap();
        assert_eq!(found, format!("{origin}: --no-zero-copy"), "{words}");
        let step = setting["next_step"].as_str().unwrap();
        assert_eq!(step.contains(origin), origin != "the flag", "{step}");
        let verification = finding(&report, "verification");
        let verification = verification.map(|found| found["evidence"][0]["found"].clone());
        let expected = words.contains("--config").then(|| format!("{file}, line 3").into());
        assert_eq!(verification, expected, "{words}");
    }
    let without = report_of(&uncopy("doctor --json source copy").current_dir(directory));
    assert!(finding(&without, "setting-refuses").is_none(), "{without}");
}

fn report_of(program: &testbed::Program) -> serde_json::Value {
    let run = program.run();
    assert!(run.stderr.is_empty(), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// It was called a directory.
fn a_destination_that_is_not_there_is_named_so() {
    let scratch = Place::Disk.scratch();
    std::fs::write(scratch.join("source"), "x").unwrap();
    for destination in ["nosuch/", "nosuch/."] {
        let run = uncopy(&format!("doctor source {destination}")).current_dir(scratch.path()).run();
        assert!(run.failed(1).contains("ENOENT"), "{destination}: {}", run.stderr);
    }
}

/// The signal killed it.
fn a_limit_on_the_size_of_files_is_an_answer() {
    let scratch = Place::Disk.scratch();
    std::fs::write(scratch.join("source"), [7; 10_000]).unwrap();
    for (words, codes) in [("doctor source copy", &[0, 6, 7][..]), ("capabilities .", &[0])] {
        let program = uncopy(words).current_dir(scratch.path());
        let run = program.through(["prlimit", "--fsize=16384"]).run();
        let code = run.status.code().unwrap_or_else(|| panic!("{words}: {}", run.status));
        assert!(codes.contains(&code), "{words}: {code} {}", run.stderr);
    }
}

fn a_directory_is_judged_by_its_largest_file() {
    let scratch = Place::Disk.scratch();
    let directory = scratch.path();
    for (name, length) in [("large", 3 << 20), ("a", 10), ("b", 10)] {
        std::fs::write(directory.join(name), vec![7; length]).unwrap();
    }
    std::fs::create_dir(directory.join("into")).unwrap();
    let report = report_of(&uncopy("doctor --json . into").current_dir(directory));
    for id in ["many-small-files", "bytes-in-large-files"] {
        assert!(finding(&report, id).is_some(), "{id}: {report}");
    }
    assert!(report["facts"].to_string().contains("./large"), "{report}");
}

fn a_directory_without_write_permission_is_not_judged() {
    let scratch = Place::Disk.scratch();
    let directory = scratch.path();
    std::fs::write(directory.join("source"), [7; 100_000]).unwrap();
    let words = format!("doctor --json {0}/source {0}/copy", directory.display());
    let run = uncopy(&words).as_user(65534).run();
    let report = report(&run, 7);
    let finding = finding(&report, "not-tried").unwrap();
    assert!(finding["evidence"][0]["found"].as_str().unwrap().contains("EACCES"), "{finding}");
    report_of(&uncopy(&words));
}

/// To map a file is to access it, and so is to copy its first bytes.
fn a_forecast_leaves_the_time_of_the_last_access() {
    const LENGTH: u64 = 1 << 20;
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let places = [
        (Place::Ext4, Place::Ext4),
        (Place::Ext4, Place::Tmpfs),
        (Place::Tmpfs, Place::Ext4),
        (Place::Overlay, Place::Overlay),
        (Place::Overlay, Place::Ext4),
    ];
    for (from, to) in places {
        for (user, mode) in [(0, 0o755), (65534, 0o755), (65534, 0o777)] {
            let (scratch, other) = (from.scratch(), to.scratch());
            let (from_path, to_path) =
                (scratch.subdirectory("from", mode), other.subdirectory("to", 0o777));
            let source = from_path.join("f");
            std::fs::write(&source, "beginning").unwrap();
            let file = std::fs::File::options().write(true).open(&source).unwrap();
            file.write_all_at(b"end", LENGTH - 3).unwrap();
            file.set_times(FileTimes::new().set_accessed(long_ago)).unwrap();
            drop(file);
            let [from_text, to_text] = [&from_path, &to_path].map(|path| path.display());
            for words in [
                format!("doctor --json {from_text}/f {to_text}/new"),
                format!("doctor --json {from_text} {to_text}"),
                format!("cp --json -r --dry-run --cache=skip {from_text}/f {to_text}/new"),
                format!("cp --json --dry-run --cache=skip -rT {from_text} {to_text}/tree"),
            ] {
                let program = uncopy(&words);
                let run = if user == 0 { program.run() } else { program.as_user(user).run() };
                let context = format!("{from:?} {to:?} {user} {mode:o} {words}");
                let code = run.status.code();
                assert!(![None, Some(1), Some(2)].contains(&code), "{context}: {}", run.stderr);
                let found = std::fs::metadata(&source).unwrap().accessed().unwrap();
                assert_eq!(found, long_ago, "{context}: {}", run.stdout);
                if words.starts_with("doctor") {
                    let report = report(&run, code.unwrap());
                    for way in report["ways"].as_array().unwrap() {
                        let expected = match way["mechanism"].as_str().unwrap() {
                            "copy_file_range" if from != to => "no",
                            "copy_file_range" | "sendfile" | "splice" | "read_write" => "yes",
                            _ => continue,
                        };
                        assert_eq!(way["answer"], expected, "{context}: {report}");
                    }
                }
            }
        }
    }
}

/// `O_NOATIME` was set on the open file that the caller goes on to use.
fn the_flags_of_an_inherited_source_stay() {
    let scratch = Place::Disk.scratch();
    let script = "flags() { grep flags /proc/self/fdinfo/0; }; flags; \
                  \"$0\" doctor /dev/stdin copy >said; flags";
    let open = |path| std::fs::File::open(path).unwrap();
    std::fs::write(scratch.join("file"), "contents").unwrap();
    let pipe = std::io::pipe().unwrap().0;
    for (name, stdin) in [
        ("device", Stdio::from(open(std::path::Path::new("/dev/zero")))),
        ("file", Stdio::from(open(&scratch.join("file")))),
        ("pipe", Stdio::from(pipe)),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_uncopy")]).stdin(stdin);
        let output = shell.current_dir(scratch.path()).output().unwrap();
        let flags = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<_> = flags.lines().collect();
        assert!(lines.len() == 2 && lines[0] == lines[1], "{name}: {lines:?}");
        assert!(std::fs::metadata(scratch.join("said")).unwrap().len() > 0, "{name}");
    }
}

fn without_a_target_the_machine_is_examined() {
    let few = uncopy("doctor --json").through(["sh", "-c", "ulimit -n 100; exec \"$0\" \"$@\""]);
    let many = uncopy("doctor --json").through(["sh", "-c", "ulimit -n 1024; exec \"$0\" \"$@\""]);
    let report = |program: &testbed::Program| report_of(program);
    let (few, many) = (report(&few), report(&many));
    assert_eq!(few["target"], "this machine");
    let finding_of = |report| finding(report, "open-files").cloned();
    assert_eq!(finding_of(&few).unwrap()["severity"], "limits");
    assert!(finding_of(&many).is_none(), "{many}");
    assert!(finding(&many, "channel-transports").is_some(), "{many}");
}
