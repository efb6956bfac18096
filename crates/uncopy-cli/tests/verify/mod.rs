//! `uncopy verify`, as a black box.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use testbed::witness::Strace;
use testbed::{
    CallPattern, Case, Intercepted, Need, Place, Program, Run, Scratch, SystemCall, by_extent,
    run_tool,
};
use uncopy::Errno;

use crate::both::digest::{ALGORITHMS, B3SUM, SHA256SUM, XXHSUM};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] sizes_of_generated_files_mean_nothing,
        [] what_differs_has_exit_code_3,
        [Need::Root] device_files_are_compared_by_number,
        [] extra_entries_are_found_if_asked_for,
        [] what_cannot_be_read_has_exit_code_1,
        [] a_difference_decides_whatever_cannot_be_read,
        [] files_are_compared_where_cp_puts_them,
        [] the_number_of_threads_changes_nothing,
        [] trees_of_any_depth,
        [] special_files_and_loops_are_not_opened,
        [B3SUM, SHA256SUM, XXHSUM] manifests_of_the_standard_tools_are_read,
        [SHA256SUM] a_changed_file_is_found_by_its_manifest,
        [SHA256SUM, Need::Tool("strace")] names_of_a_manifest_lead_nowhere_else,
        [] lines_that_are_none_are_counted,
        [Need::Tool("md5sum"), XXHSUM] digests_of_md5_are_doubted,
        [SHA256SUM] files_that_no_line_names,
        [] misuse_has_exit_code_2,
        [] words_for_people,
        [Need::Tool("sha256sum")] large_files_take_no_more_memory,
    ]
}

fn verify<I: IntoIterator<Item: AsRef<OsStr>>>(words: I) -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["verify", "--json"]).args(words)
}

/// Two trees that are the same, `a` and `b`.
fn twins() -> Scratch {
    let scratch = Place::Disk.scratch();
    for side in ["a", "b"] {
        let side = scratch.join(side);
        fs::create_dir_all(side.join("d/e")).unwrap();
        for number in 0..40 {
            fs::write(side.join(format!("d/{number}")), format!("{number}")).unwrap();
        }
        fs::write(side.join("large"), testbed::seeded(1, 0, 700_000)).unwrap();
        fs::write(side.join(OsStr::from_bytes(b"\xff\n")), "x").unwrap();
        symlink("d/1", side.join("link")).unwrap();
        symlink("nowhere", side.join("dangling")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            side.join("fifo"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
    }
    scratch
}

fn of(scratch: &Scratch, flags: &[&str]) -> Run {
    verify(flags).arg(scratch.join("a")).arg(scratch.join("b")).run()
}

/// Events, of which the last is the summary.
fn events(run: &Run) -> (Vec<Value>, Value) {
    let mut events: Vec<Value> = run.receipts().iter().map(|event| event.value().clone()).collect();
    let summary = events.pop().unwrap_or_else(|| panic!("{}", run.stderr));
    assert_eq!(summary["event"], "compared", "{summary}");
    (events, summary)
}

/// Checks that the run found this one difference.
#[track_caller]
fn assert_found(run: &Run, name: &str, difference: &str) {
    assert_eq!(run.status.code(), Some(3), "{}{}", run.stdout, run.stderr);
    let (events, summary) = events(run);
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    let found = (event["event"].as_str(), event["name"].as_str(), event["difference"].as_str());
    assert_eq!(found, (Some("differs"), Some(name), Some(difference)));
    assert_eq!(summary["same"], false);
}

fn sizes_of_generated_files_mean_nothing() {
    let scratch = Place::Disk.scratch();
    let copy = scratch.join("copy");
    let contents = fs::read("/proc/version").unwrap();
    for (copied, expected) in
        [(&contents[..], 0), (&contents[1..], 3), (b"", 3), (&[&contents[..], b"x"].concat(), 3)]
    {
        fs::write(&copy, copied).unwrap();
        let (generated, copy) = (Path::new("/proc/version"), copy.as_path());
        for (one, other) in [(generated, copy), (copy, generated)] {
            let run = verify(["--strict"]).arg(one).arg(other).run();
            assert_eq!(run.status.code(), Some(expected), "{}{}", run.stdout, run.stderr);
        }
    }
}

fn what_differs_has_exit_code_3() {
    let same = twins();
    let run = of(&same, &["--strict"]);
    assert_eq!(run.status.code(), Some(0), "{}", run.stdout);
    let (found, summary) = events(&run);
    assert!(found.is_empty() && summary["same"] == true, "{found:?}");
    // The root, d, d/e, 40 files, two more, two links, a FIFO.
    assert_eq!(summary["entries"], 48, "{summary}");
    type Change = fn(&Path);
    let rows: [(&str, &str, Change); 13] = [
        ("d/7", "content", |b| fs::write(b.join("d/7"), "8").unwrap()),
        ("d/7", "content", |b| fs::write(b.join("d/7"), "70").unwrap()),
        ("d/7", "content", |b| fs::write(b.join("d/7"), "").unwrap()),
        ("large", "content", |b| {
            let mut bytes = fs::read(b.join("large")).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(b.join("large"), bytes).unwrap();
        }),
        ("d/7", "missing", |b| fs::remove_file(b.join("d/7")).unwrap()),
        ("d/e", "missing", |b| fs::remove_dir(b.join("d/e")).unwrap()),
        ("link", "missing", |b| fs::remove_file(b.join("link")).unwrap()),
        ("d/e", "type", |b| {
            fs::remove_dir(b.join("d/e")).unwrap();
            fs::write(b.join("d/e"), "").unwrap();
        }),
        ("d/e", "type", |b| {
            fs::remove_dir(b.join("d/e")).unwrap();
            symlink(".", b.join("d/e")).unwrap();
        }),
        ("large", "type", |b| {
            fs::rename(b.join("large"), b.join("../large")).unwrap();
            symlink("../large", b.join("large")).unwrap();
        }),
        ("fifo", "type", |b| {
            fs::remove_file(b.join("fifo")).unwrap();
            fs::write(b.join("fifo"), "").unwrap();
        }),
        ("link", "link_target", |b| {
            fs::remove_file(b.join("link")).unwrap();
            symlink("d/2", b.join("link")).unwrap();
        }),
        ("link", "type", |b| {
            fs::remove_file(b.join("link")).unwrap();
            fs::write(b.join("link"), "1").unwrap();
        }),
    ];
    for (name, difference, change) in rows {
        let scratch = twins();
        change(&scratch.join("b"));
        assert_found(&of(&scratch, &[]), name, difference);
    }
    // Times and modes are no difference.
    let scratch = twins();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(scratch.join("b/large"), mode).unwrap();
    assert_eq!(of(&scratch, &[]).status.code(), Some(0));
    // A name that is not UTF-8.
    fs::remove_file(scratch.join("b").join(OsStr::from_bytes(b"\xff\n"))).unwrap();
    let (found, _) = events(&of(&scratch, &[]));
    assert_eq!(found[0]["name_base64"], "/wo=", "{found:?}");
}

fn device_files_are_compared_by_number() {
    let scratch = Place::Tmpfs.scratch();
    for (side, minor) in [("a", 3), ("b", 3), ("c", 5)] {
        fs::create_dir(scratch.join(side)).unwrap();
        let (kind, device) = (rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, minor));
        let path = scratch.join(side).join("device");
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o600.into(), device).unwrap();
    }
    let run = |to: &str| verify([""; 0]).arg(scratch.join("a")).arg(scratch.join(to)).run();
    assert_eq!(run("b").status.code(), Some(0));
    assert_found(&run("c"), "device", "device");
}

fn extra_entries_are_found_if_asked_for() {
    for (name, make) in [
        ("d/more", (|path| fs::write(path, "").unwrap()) as fn(&Path)),
        ("d/e/more", |path| fs::create_dir_all(path.join("below")).unwrap()),
        ("more", |path| symlink("/", path).unwrap()),
    ] {
        let scratch = twins();
        make(&scratch.join("b").join(name));
        assert_eq!(of(&scratch, &[]).status.code(), Some(0));
        assert_found(&of(&scratch, &["--strict"]), name, "extra");
    }
}

fn what_cannot_be_read_has_exit_code_1() {
    for (call, path) in [
        (SystemCall::PREAD64, "a/large"),
        (SystemCall::PREAD64, "b/large"),
        (SystemCall::GETDENTS64, "a/d"),
    ] {
        let scratch = twins();
        let program = verify([""; 0]).arg(scratch.join("a")).arg(scratch.join("b"));
        let fault = CallPattern::of(&[call]).on(scratch.join(path)).fails(Errno::EIO);
        let run = Intercepted::new(&program).inject(fault).run().run;
        assert_eq!(run.status.code(), Some(1), "{path}: {}{}", run.stdout, run.stderr);
        let (found, summary) = events(&run);
        assert_eq!(found[0]["event"], "unreadable", "{found:?}");
        assert_eq!(found[0]["errno_name"], "EIO", "{found:?}");
        assert!(found[0]["subject"].as_str().unwrap().ends_with(path), "{found:?}");
        assert_eq!((&summary["unreadable"], &summary["same"]), (&1.into(), &false.into()));
    }
    // The source is not there at all; a missing destination is a difference.
    let scratch = twins();
    let run = verify([""; 0]).arg(scratch.join("none")).arg(scratch.join("b")).run();
    run.failed(1);
    let run = verify([""; 0]).arg(scratch.join("a")).arg(scratch.join("none")).run();
    assert_found(&run, "", "missing");
    let run = verify(["--manifest"]).arg(scratch.join("none")).arg(scratch.join("b")).run();
    run.failed(1);
    let run = verify(["--manifest"]).arg(scratch.join("a/large")).arg(scratch.join("none")).run();
    run.failed(1);
}

fn a_difference_decides_whatever_cannot_be_read() {
    let scratch = twins();
    fs::write(scratch.join("b/d/7"), "8").unwrap();
    let program = verify([""; 0]).arg(scratch.join("a")).arg(scratch.join("b"));
    let fault =
        CallPattern::of(&[SystemCall::PREAD64]).on(scratch.join("a/large")).fails(Errno::EIO);
    let run = Intercepted::new(&program).inject(fault).run().run;
    assert_eq!(run.status.code(), Some(3), "{}", run.stdout);
    let (_, summary) = events(&run);
    assert_eq!((&summary["unreadable"], &summary["different"]), (&1.into(), &1.into()));
}

fn files_are_compared_where_cp_puts_them() {
    let scratch = twins();
    let run =
        |from: &str, to: &str| verify([""; 0]).arg(scratch.join(from)).arg(scratch.join(to)).run();
    assert_eq!(run("a/large", "b/large").status.code(), Some(0));
    assert_eq!(run("a/large", "b").status.code(), Some(0));
    assert_eq!(run("a/link", "b/d/1").status.code(), Some(0));
    assert_found(&run("a/large", "b/d/1"), "", "content");
    assert_found(&run("a/large", "b/d"), "", "missing");
    assert_found(&run("a", "b/large"), "", "type");
    run("a/fifo", "b/fifo").failed(1);
}

fn the_number_of_threads_changes_nothing() {
    let scratch = twins();
    for number in [3, 17, 39] {
        fs::write(scratch.join(format!("b/d/{number}")), "other").unwrap();
    }
    let mut all = Vec::new();
    for jobs in ["1", "2", "16"] {
        let (found, summary) = events(&of(&scratch, &["--jobs", jobs]));
        let mut names: Vec<String> = found.iter().map(|event| event["name"].to_string()).collect();
        names.sort();
        all.push((names, summary["entries"].clone(), summary["bytes"].clone()));
    }
    assert_eq!(all[0].0, ["\"d/17\"", "\"d/3\"", "\"d/39\""]);
    assert!(all[0] == all[1] && all[1] == all[2], "{all:?}");
}

fn trees_of_any_depth() {
    let scratch = Place::Disk.scratch();
    let depth = by_extent([800, 3000, 3000]);
    for side in ["a", "b"] {
        let mut at = rustix::fs::open(
            scratch.path(),
            rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        for number in 0..depth {
            let name = if number == 0 { side } else { "directory" };
            rustix::fs::mkdirat(&at, name, 0o700.into()).unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
            at = rustix::fs::openat(&at, name, flags, rustix::fs::Mode::empty()).unwrap();
        }
        let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
        let file = rustix::fs::openat(&at, "file", flags, 0o600.into()).unwrap();
        rustix::io::write(file, side.as_bytes()).unwrap();
    }
    let run = of(&scratch, &[]);
    assert_eq!(run.status.code(), Some(3), "{}", run.stderr);
    let (found, summary) = events(&run);
    assert!(found[0]["name"].as_str().unwrap().ends_with("directory/file"));
    assert_eq!(summary["entries"], depth + 1);
}

fn special_files_and_loops_are_not_opened() {
    let scratch = twins();
    for side in ["a", "b"] {
        symlink("..", scratch.join(side).join("d/up")).unwrap();
        symlink("self", scratch.join(side).join("self")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(scratch.join(side).join("socket")).unwrap());
    }
    assert_eq!(of(&scratch, &["--strict"]).status.code(), Some(0));
    let (sums, value) = (scratch.join("sums"), "0".repeat(64));
    for name in ["fifo", "socket", "link", "self", "d", "d/up/large"] {
        fs::write(&sums, format!("{value}  {name}\n")).unwrap();
        let run = verify(["--manifest"]).arg(&sums).arg(scratch.join("a")).run();
        assert_found(&run, name, "type");
    }
}

fn manifests_of_the_standard_tools_are_read() {
    for (algorithm, tool) in ALGORITHMS {
        let tags: &[&[&str]] = match algorithm {
            "blake3" => &[&[]],
            _ => &[&[], &["--tag"]],
        };
        for tag in tags {
            let scratch = twins();
            let line = format!(
                "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 {} {} > ../sums",
                tool.join(" "),
                tag.join(" "),
            );
            fs::remove_file(scratch.join("b").join(OsStr::from_bytes(b"\xff\n"))).unwrap();
            fs::write(scratch.join("b/back\\slash"), "x").unwrap();
            let made = Program::new("sh").args(["-c", &line]).current_dir(&scratch.join("b")).run();
            assert!(made.status.success(), "{}", made.stderr);
            let digest = format!("--digest={algorithm}");
            for flags in [&["--strict"][..], &["--strict", &digest]] {
                let run = verify(flags).arg("--manifest").arg(scratch.join("sums"));
                let run = run.arg(scratch.join("b")).run();
                assert_eq!(run.status.code(), Some(0), "{algorithm} {tag:?}: {}", run.stdout);
                assert_eq!(events(&run).1["entries"], 42);
            }
            let wrong = if algorithm == "blake3" { "sha256" } else { "blake3" };
            let run = verify(["--digest", wrong, "--manifest"]).arg(scratch.join("sums"));
            assert!([Some(1), Some(3)].contains(&run.arg(scratch.join("b")).run().status.code()));
        }
    }
}

/// Writes the digests of files of `b`, named from there.
fn sums(scratch: &Scratch, names: &[&str]) {
    let line = format!("sha256sum {} > ../sums", names.join(" "));
    let made = Program::new("sh").args(["-c", &line]).current_dir(&scratch.join("b")).run();
    assert!(made.status.success(), "{}", made.stderr);
}

fn by_manifest(scratch: &Scratch, flags: &[&str]) -> Run {
    verify(flags).arg("--manifest").arg(scratch.join("sums")).arg(scratch.join("b")).run()
}

fn a_changed_file_is_found_by_its_manifest() {
    for (change, difference) in [
        ((|path| fs::write(path, "other").unwrap()) as fn(&Path), "content"),
        (|path| fs::remove_file(path).unwrap(), "missing"),
        (
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
            "type",
        ),
    ] {
        let scratch = twins();
        sums(&scratch, &["large", "d/7", "d/8"]);
        change(&scratch.join("b/d/7"));
        assert_found(&by_manifest(&scratch, &[]), "d/7", difference);
    }
    // Its directory is gone, or is a file.
    let scratch = twins();
    sums(&scratch, &["d/7"]);
    fs::remove_dir_all(scratch.join("b/d")).unwrap();
    assert_found(&by_manifest(&scratch, &[]), "d/7", "missing");
    fs::write(scratch.join("b/d"), "").unwrap();
    assert_found(&by_manifest(&scratch, &[]), "d/7", "type");
}

/// The author of the manifest, and the owner of the directory, want to know what is in a file outside.
fn names_of_a_manifest_lead_nowhere_else() {
    let scratch = twins();
    let secret = scratch.join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink("../secret", scratch.join("b/to secret")).unwrap();
    symlink("..", scratch.join("b/up")).unwrap();
    symlink(scratch.path(), scratch.join("b/absolute")).unwrap();
    let value = run_tool("sha256sum", [&secret]);
    let value = value.split(' ').next().unwrap();
    for (name, event) in [
        ("../secret".to_owned(), "outside"),
        ("d/../../secret".to_owned(), "outside"),
        ("d/../large".to_owned(), "outside"),
        (secret.display().to_string(), "outside"),
        ("to secret".to_owned(), "differs"),
        ("up/secret".to_owned(), "differs"),
        ("absolute/secret".to_owned(), "differs"),
        ("./d/./..//../secret".to_owned(), "outside"),
    ] {
        fs::write(scratch.join("sums"), format!("{value}  {name}\n")).unwrap();
        let program = verify(["--manifest"]).arg(scratch.join("sums")).arg(scratch.join("b"));
        let (run, trace) = Strace::new(&program).run();
        let (found, summary) = events(&run);
        assert_eq!((found.len(), &found[0]["event"]), (1, &event.into()), "{name}: {found:?}");
        let code = if event == "outside" { 1 } else { 3 };
        assert_eq!(run.status.code(), Some(code), "{name}: {summary}");
        let opened = trace.named(&["openat", "openat2", "open"]).into_iter();
        let opened =
            opened.filter(|call| call.value().is_some() && call.arguments.contains("secret"));
        assert_eq!(opened.count(), 0, "{name}");
    }
}

/// Files that are good were said to differ, without a word about MD5.
fn digests_of_md5_are_doubted() {
    let scratch = twins();
    let sums = |tool: &str, flags: &[&str]| {
        let names = ["d/1", "d/2", "large"].map(|name| name.to_owned());
        let mut command = std::process::Command::new(tool);
        let command = command.args(flags).args(names).current_dir(scratch.join("b"));
        let output = command.output().unwrap();
        fs::write(scratch.join("sums"), output.stdout).unwrap();
        let program = verify(["--manifest"]).arg(scratch.join("sums")).arg(scratch.join("b"));
        program.run()
    };
    const NOTE: &str = "MD5 writes as many, and is not known here";
    let md5 = sums("md5sum", &[]);
    assert!(md5.failed(3).contains(NOTE), "{}", md5.stderr);
    assert_eq!(events(&md5).1["doubted"], "xxh3");
    let xxh3 = sums("xxhsum", &["-H128"]);
    assert!(xxh3.status.success() && xxh3.stderr.is_empty(), "{}", xxh3.stderr);
    // One file that agrees shows the algorithm.
    fs::write(scratch.join("b/large"), "other").unwrap();
    let program = verify(["--manifest"]).arg(scratch.join("sums")).arg(scratch.join("b"));
    let changed = program.run();
    assert!(!changed.failed(3).contains(NOTE), "{}", changed.stderr);
    assert!(events(&changed).1.get("doubted").is_none());
    // So does a line that names it, and a flag.
    for (lines, flags) in [
        ("XXH128 (d/1) = 00000000000000000000000000000000\n", &[][..]),
        ("00000000000000000000000000000000  d/1\n", &["--digest=xxh3"]),
    ] {
        fs::write(scratch.join("sums"), lines).unwrap();
        let program = verify(flags).arg("--manifest").arg(scratch.join("sums"));
        let run = program.arg(scratch.join("b")).run();
        assert!(!run.failed(3).contains(NOTE), "{lines}: {}", run.stderr);
    }
}

fn lines_that_are_none_are_counted() {
    let scratch = twins();
    let value = "0".repeat(64);
    for (text, malformed, code) in [
        (String::new(), 1, 1),
        (String::from("# comment\n"), 1, 1),
        (String::from("nonsense\n"), 1, 1),
        (format!("{value}  d/7"), 0, 3),
        (format!("{value}  d/7\nnonsense\n{value} d/8\n"), 2, 3),
        (format!("{}\n", "x".repeat(3 << 20)), 1, 1),
        (format!("{value}  {}\n", "x".repeat(300)), 0, 1),
    ] {
        fs::write(scratch.join("sums"), &text).unwrap();
        let run = by_manifest(&scratch, &["--jobs=1"]);
        let start: String = text.chars().take(80).collect();
        assert_eq!(run.status.code(), Some(code), "{start}: {}", run.stdout);
        let (found, _) = events(&run);
        let count = found.iter().filter(|event| event["event"] == "malformed").count();
        assert_eq!(count, malformed, "{start}");
    }
    fs::write(scratch.join("sums"), format!("\n{value}  d/7\n")).unwrap();
    let (found, _) = events(&by_manifest(&scratch, &["--jobs=1"]));
    assert_eq!((&found[0]["event"], &found[0]["line"]), (&"malformed".into(), &1.into()));
}

fn files_that_no_line_names() {
    let scratch = twins();
    for name in ["d", "fifo"] {
        run_tool("rm", ["-r".as_ref(), scratch.join("b").join(name).as_os_str()]);
    }
    fs::remove_file(scratch.join("b").join(OsStr::from_bytes(b"\xff\n"))).unwrap();
    sums(&scratch, &["./large"]);
    // The manifest itself is none of them, wherever it lies.
    fs::rename(scratch.join("sums"), scratch.join("b/sums")).unwrap();
    let run = || {
        verify(["--strict", "--manifest"]).arg(scratch.join("b/sums")).arg(scratch.join("b")).run()
    };
    assert_eq!(run().status.code(), Some(0), "{}", run().stdout);
    fs::create_dir(scratch.join("b/new")).unwrap();
    fs::write(scratch.join("b/new/file"), "").unwrap();
    assert_found(&run(), "new/file", "extra");
}

fn misuse_has_exit_code_2() {
    for words in [
        &[][..],
        &["a"],
        &["a", "b", "c"],
        &["--manifest", "m", "a", "b"],
        &["--digest=sha256", "a", "b"],
        &["--digest=md5", "--manifest", "m"],
        &["--jobs=0", "a", "b"],
    ] {
        verify(words).run().failed(2);
    }
}

fn words_for_people() {
    let scratch = twins();
    let run = |flags: &[&str]| {
        let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("verify").args(flags);
        program.arg(scratch.join("a")).arg(scratch.join("b")).run()
    };
    let same = run(&[]);
    assert!(
        same.stdout.contains("48 entries") && same.stdout.contains("all the same"),
        "{}",
        same.stdout
    );
    assert_eq!(run(&["-q"]).stdout, "");
    fs::write(scratch.join("b/d/7"), "8").unwrap();
    fs::remove_file(scratch.join("b").join(OsStr::from_bytes(b"\xff\n"))).unwrap();
    let differs = run(&["-q", "--jobs=1"]);
    assert!(differs.failed(3).contains("1 different, 1 missing"), "{}", differs.stderr);
    let mut lines: Vec<&str> = differs.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["d/7: the contents differ", "\u{fffd}\\n: it is missing"]);
    // Names of the command line itself are shown as its paths.
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["verify", "-q"]);
    let gone = program.arg(scratch.join("a")).arg(scratch.join("gone")).run();
    assert!(gone.failed(3).contains("1 missing"), "{}", gone.stderr);
    assert_eq!(gone.stdout, format!("{}: it is missing\n", scratch.join("gone").display()));
}

fn large_files_take_no_more_memory() {
    let scratch = Place::Disk.scratch();
    for side in ["a", "b"] {
        fs::create_dir(scratch.join(side)).unwrap();
        fs::File::create(scratch.join(side).join("large")).unwrap().set_len(256 << 20).unwrap();
    }
    // Digests take seconds here.
    let lines = by_extent([1, 2, 2]);
    if lines > 1 {
        sums(&scratch, &["large"]);
    }
    let (uncopy, to) = (env!("CARGO_BIN_EXE_uncopy"), scratch.path().display());
    let commands = [
        format!("ulimit -v 200000; {uncopy} verify -j 2 {to}/a {to}/b"),
        format!("ulimit -v 200000; {uncopy} verify -j 2 --manifest {to}/sums {to}/b"),
    ];
    for line in commands.into_iter().take(lines) {
        let run = Program::new("sh").args(["-c", &line]).run();
        assert_eq!(run.status.code(), Some(0), "{}{}", run.stdout, run.stderr);
    }
}
