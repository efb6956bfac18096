//! The program as a process: its exit codes, its streams, and how it takes signals.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{PipeWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The program, not minding the environment of whoever runs the tests.
fn uncopy() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uncopy"));
    command.env_remove("UNCOPY_VERIFY").env("UNCOPY_CONFIG", "/dev/null");
    command
}

/// A directory of its own, gone after the test.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(name.as_ref())
    }

    fn file(&self, name: impl AsRef<OsStr>, contents: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        path
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }

    fn names(&self) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Starts a copy out of a FIFO. It has its signal handlers, and waits for bytes, when the FIFO
/// could be opened for writing.
fn start_copy_from(fifo: &Path, destination: &Path) -> (Child, File) {
    let child = uncopy()
        .args(["cp", "--copy-contents"])
        .args([fifo, destination])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let writer = OpenOptions::new().write(true).open(fifo).unwrap();
    (child, writer)
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn the_first_signal_stops_the_copy_and_leaves_nothing_behind() {
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        let scratch = Scratch::new();
        let (fifo, destination) = (scratch.fifo("fifo"), scratch.path("destination"));
        let (child, mut writer) = start_copy_from(&fifo, &destination);
        writer.write_all(b"first").unwrap();
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        drop(writer);
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{}", stderr(&output));
        assert!(stderr(&output).contains("stopped by SIG"), "{}", stderr(&output));
        assert_eq!(scratch.names(), ["fifo"]);
    }
}

/// `timeout` signals its command and then the group of that, and a service manager sends `SIGHUP` behind `SIGTERM`.
fn signals_of_one_moment_are_one() {
    for both in [[Signal::TERM, Signal::HUP], [Signal::INT, Signal::TERM]] {
        let scratch = Scratch::new();
        let (fifo, destination) = (scratch.fifo("fifo"), scratch.path("destination"));
        let (child, writer) = start_copy_from(&fifo, &destination);
        // Both arrive before the program can look at the first.
        send(&child, Signal::STOP);
        while testbed::state(child.id()) != 'T' {
            std::thread::yield_now();
        }
        both.into_iter().chain([Signal::CONT]).for_each(|signal| send(&child, signal));
        let output = child.wait_with_output().unwrap();
        drop(writer);
        let numbers = both.map(Signal::as_raw);
        assert!(output.status.signal().is_some_and(|it| numbers.contains(&it)), "{output:?}");
        assert!(stderr(&output).contains("stopped by SIG"), "{}", stderr(&output));
        assert_eq!(scratch.names(), ["fifo"]);
    }
}

fn a_later_signal_kills_at_once() {
    let scratch = Scratch::new();
    let (fifo, destination) = (scratch.fifo("fifo"), scratch.path("destination"));
    // The program waits here when it says that it was stopped.
    let (full, message) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&message).unwrap();
    rustix::fs::fcntl_setfl(&message, flags | OFlags::NONBLOCK).unwrap();
    while (&message).write(&[0; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&message, flags).unwrap();
    let mut child = uncopy()
        .args(["cp", "--copy-contents"])
        .args([&fifo, &destination])
        .stderr(message)
        .spawn()
        .unwrap();
    let writer = OpenOptions::new().write(true).open(&fifo).unwrap();
    send(&child, Signal::TERM);
    // The temporary file is gone by then.
    while scratch.names() != ["fifo"] {
        std::thread::yield_now();
    }
    assert_eq!(child.try_wait().unwrap(), None, "the message was written");
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let _ = kill_process(Pid::from_child(&child), Signal::HUP);
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.signal(), Some(Signal::HUP.as_raw()));
    drop((writer, full));
    assert!(!destination.exists());
}

fn a_signal_that_the_parent_ignores_stays_ignored() {
    let scratch = Scratch::new();
    let (fifo, destination) = (scratch.fifo("fifo"), scratch.path("destination"));
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_uncopy")])
        .args(["cp", "--copy-contents"])
        .args([&fifo, &destination])
        .env_remove("UNCOPY_VERIFY")
        .env("UNCOPY_CONFIG", "/dev/null")
        .spawn()
        .unwrap();
    let mut writer = OpenOptions::new().write(true).open(&fifo).unwrap();
    send(&child, Signal::HUP);
    writer.write_all(b"all of it").unwrap();
    drop(writer);
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read(&destination).unwrap(), b"all of it");
}

fn a_source_that_changes_meanwhile_has_its_own_exit_code() {
    let scratch = Scratch::new();
    // More than a pipe holds: the copy waits for the reader.
    let source = scratch.file("source", &vec![7; 4 << 20]);
    let fifo = scratch.fifo("fifo");
    let child = uncopy()
        .args(["cp", "--json", "--copy-contents"])
        .args([&source, &fifo])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = File::open(&fifo).unwrap();
    reader.read_exact(&mut [0; 1]).unwrap();
    OpenOptions::new().append(true).open(&source).unwrap().write_all(b"more").unwrap();
    std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let event: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&event["event"], &event["kind"]), (&"failed".into(), &"source_changed".into()));
}

#[cfg(not(feature = "compress"))]
fn a_build_without_compression_names_the_feature_and_how_to_build_with_it() {
    let scratch = Scratch::new();
    let source = scratch.file("a", b"contents");
    for flag in ["--compress=zstd", "--compress=zstd:19", "--decompress"] {
        let output = uncopy().args(["cp", flag]).arg(&source).arg(scratch.path("b")).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("lacks the feature `compress`"), "{message}");
        assert!(message.contains("cargo install --path crates/uncopy-cli --features compress"));
        assert!(!scratch.path("b").exists());
    }
}

fn several_failures_of_one_kind_keep_their_exit_code() {
    let scratch = Scratch::new();
    let directory = scratch.path("directory");
    fs::create_dir(&directory).unwrap();
    let copy = |sources: &[&str]| {
        let mut command = uncopy();
        command.args(["cp", "-q", "--require-zero-copy", "-t"]).arg(&directory).args(sources);
        command.output().unwrap().status.code()
    };
    assert_eq!(copy(&["/proc/version", "/proc/uptime"]), Some(5));
    assert_eq!(copy(&["/proc/version", "/nonexistent/x"]), Some(1));
}

fn two_sources_with_one_target_touch_nothing() {
    let scratch = Scratch::new();
    let directory = scratch.path("directory");
    fs::create_dir(&directory).unwrap();
    let source = scratch.file("source", b"1");
    let output = uncopy().arg("cp").args([&source, &source, &directory]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

fn a_file_that_this_run_wrote_is_not_written_again_under_another_name() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.file("one", b"1"), scratch.file("two", b"2"));
    let directory = scratch.path("directory");
    fs::create_dir(&directory).unwrap();
    let target = directory.join("one");
    fs::write(&target, b"").unwrap();
    std::os::unix::fs::symlink("one", directory.join("two")).unwrap();
    let output = uncopy().arg("cp").args([&one, &two, &directory]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("an earlier source of this command"), "{}", stderr(&output));
    assert_eq!(fs::read(&target).unwrap(), b"1");
}

fn names_that_are_not_utf8_are_copied_and_reported_in_full() {
    let scratch = Scratch::new();
    let name = OsString::from_vec(b"na\xffme\n".to_vec());
    let source = scratch.file(&name, b"odd");
    let destination = scratch.path(OsStr::from_bytes(b"\xfe"));
    let output = uncopy().args(["cp", "--json"]).args([&source, &destination]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(&destination).unwrap(), b"odd");
    let event: Value = serde_json::from_slice(&output.stdout).unwrap();
    let decode = |key: &str| {
        use base64::Engine;
        let text = event[key].as_str().unwrap();
        base64::engine::general_purpose::STANDARD.decode(text).unwrap()
    };
    assert_eq!(decode("source_base64"), source.as_os_str().as_bytes());
    assert_eq!(decode("destination_base64"), destination.as_os_str().as_bytes());

    let output = uncopy().args(["cp", "-v"]).args([&source, &destination]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("na\u{fffd}me\\n -> "), "{text}");
}

fn a_report_that_cannot_be_written_is_an_error_after_all_copies() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.file("one", b"1"), scratch.file("two", b"2"));
    let directory = scratch.path("directory");
    fs::create_dir(&directory).unwrap();
    let output = uncopy()
        .args(["cp", "-v"])
        .args([&one, &two, &directory])
        .stdout(OpenOptions::new().write(true).open("/dev/full").unwrap())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write to standard output"), "{}", stderr(&output));
    assert_eq!(fs::read(directory.join("two")).unwrap(), b"2");
}

/// The lost report made it exit with 1.
fn a_difference_decides_although_its_report_is_lost() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.file("one", b"1"), scratch.file("two", b"2"));
    for (flags, destination, code) in
        [(&[][..], &two, 3), (&["--json"], &two, 3), (&["-q"], &two, 3), (&["--json"], &one, 1)]
    {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = uncopy();
        command.arg("verify").args(flags).args([&one, destination]).stdout(full);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("cannot write to standard output"), "{flags:?}");
    }
}

/// They were looked for on this machine.
fn paths_on_other_machines_are_refused_where_none_is_asked() {
    let scratch = Scratch::new();
    let here = scratch.file("here", b"1");
    let here = here.to_str().unwrap();
    for (arguments, next) in [
        (&["verify", here, "web:/srv/f"][..], "pass --verify to the copy"),
        (&["verify", "ssh://web/srv", here], "pass --verify to the copy"),
        (&["verify", "--json", "--manifest", here, "web:srv"], "uncopy verify --manifest FILE DIR"),
        (&["verify", "--manifest", "web:SUMS", here], "uncopy verify --manifest FILE DIR"),
        (&["capabilities", here, "me@web:/srv"], "run `uncopy capabilities PATH` there"),
        (&["tune", "web:/srv"], "run `uncopy tune PATH` there"),
        (&["config", "show", "web:/srv"], "run `uncopy config show PATH` there"),
        (&["audit", "verify", "web:log"], "run the command there"),
        (&["audit", "stats", here, "web:log"], "run the command there"),
    ] {
        let output = uncopy().args(arguments).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(
            said.contains("on another machine") && said.contains(next),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("write ./ before it"), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    scratch.file("a:b", b"1");
    let mut command = uncopy();
    let output = command.current_dir(scratch.0.path()).args(["verify", "./a:b", "here"]).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
}

/// Their `message` ended in what to do about them, and `next_step` was null.
fn refusals_say_what_to_do_apart_from_why() {
    let scratch = Scratch::new();
    scratch.file("file", b"1");
    fs::create_dir(scratch.path("empty")).unwrap();
    fs::create_dir_all(scratch.path("tree/below")).unwrap();
    symlink("nowhere", scratch.path("dangling")).unwrap();
    symlink("/etc/hostname", scratch.path("tree/out")).unwrap();
    for entry in ["full/one", "full/two", "few/one", "few/two"] {
        fs::create_dir_all(scratch.path(entry)).unwrap();
    }
    for (arguments, code, why, next) in [
        (
            "-r tree file",
            "not_directory",
            "it is not a directory, and the source is one",
            "remove it first",
        ),
        (
            "file dangling",
            "link_to_nothing",
            "it is a symbolic link to nothing",
            "remove the link, or",
        ),
        (
            "-r tree tree/x",
            "inside_source",
            "it is tree itself or lies in it",
            "name a destination outside",
        ),
        (
            "-r --links=follow tree new",
            "leads_outside",
            "or by an absolute path",
            "pass --follow-outside",
        ),
        ("-rT --delete empty full", "empty_source", "would go", "pass --delete-empty-source"),
        (
            "-rT --delete --delete-empty-source --max-delete=1 empty few",
            "too_many_deleted",
            "--max-delete is reached",
            "raise it, or",
        ),
    ] {
        let log = scratch.path("log");
        let _ = fs::remove_file(&log);
        let mut command = uncopy();
        command.current_dir(scratch.0.path()).args(["cp", "--json", "--audit", "log"]);
        let output = command.args(arguments.split(' ')).output().unwrap();
        let logged = fs::read(&log).unwrap();
        for (form, lines) in [("json", &output.stdout), ("audit", &logged)] {
            let lines = String::from_utf8(lines.clone()).unwrap();
            let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let failed: Vec<Value> = events.filter(|event| event["code"] == code).collect();
            assert!(!failed.is_empty(), "{form} {arguments}: {lines}");
            let (message, step) = (&failed[0]["message"], &failed[0]["next_step"]);
            assert!(message.as_str().unwrap().ends_with(why), "{form} {arguments}: {message}");
            let step = step.as_str().unwrap_or_else(|| panic!("{form} {arguments}: {message}"));
            assert!(step.starts_with(next), "{form} {arguments}: {step}");
        }
        // People read both.
        let said = stderr(&output);
        assert!(said.contains(&format!("{why}; {next}")), "{arguments}: {said}");
    }
}

/// Each named a flag that is refused as well, or one that nobody gave, or a log that says nothing of it.
fn next_steps_can_be_taken() {
    let (here, elsewhere) = (testbed::Place::Disk.scratch(), testbed::Place::Tmpfs.scratch());
    for name in ["file", "other"] {
        fs::write(here.join(name), name).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(here.join("socket")).unwrap();
    let there = elsewhere.join("link");
    let there = there.to_str().unwrap();
    for (arguments, code, expected, wrong) in [
        (&["cp", "socket", "new"][..], 1, "pass --recursive and --specials", "--copy-contents"),
        (&["cp", "--copy-contents", "socket", "new"], 1, "pass --recursive and", "--copy-contents"),
        (&["cp", "-u", "socket", "new"], 1, "pass --recursive and --specials", "--copy-contents"),
        (&["cp", "--link", "file", there], 1, "or leave out --link", "log of the system"),
        (&["cp", "-l", "file", "other"], 1, "pass --force to replace it", "log of the system"),
        (&["cp", "--reflink", "file", there], 5, "--method, --reflink, --require", "-- "),
        (&["verify", "--manifest", ".", "."], 1, "name a file that is no directory", "destination"),
    ] {
        let output = uncopy().current_dir(here.path()).args(arguments).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(expected) && !said.contains(wrong), "{arguments:?}: {said}");
        assert!(!here.join("new").exists(), "{arguments:?}");
    }
    // They can be.
    for arguments in [
        &["cp", "--recursive", "--specials", "socket", "new"][..],
        &["cp", "--link", "--force", "file", "other"],
    ] {
        let output = uncopy().current_dir(here.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    }
}

fn help_and_scripts_that_cannot_be_written_are_errors() {
    for arguments in [
        &["--help"][..],
        &["completions", "bash"],
        &["man", "cp"],
        &["capabilities"],
        &["doctor", "--explain", "all"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = uncopy().args(arguments).stdout(full).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{arguments:?}");
    }
}

fn a_destination_below_a_file_is_refused_by_its_name() {
    let scratch = Scratch::new();
    let (source, file) = (scratch.file("source", b"words"), scratch.file("file", b"old"));
    let output = uncopy().arg("cp").arg(source).arg("-t").arg(file.join("below")).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot copy into ") && said.contains("/file/below: "), "{said}");
    assert!(said.contains("ENOTDIR") && said.contains("; name a directory"), "{said}");
    assert_eq!(fs::read(file).unwrap(), b"old");
}

fn a_reader_that_went_away_is_no_panic() {
    let scratch = Scratch::new();
    let (source, destination) = (scratch.file("source", b"1"), scratch.path("destination"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // A child that another test is about to start has the reader until it is executed.
    while !has_no_reader(&writer) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let output = uncopy()
        .args(["cp", "--json"])
        .args([&source, &destination])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(fs::read(&destination).unwrap(), b"1");
}

/// Whether nobody has the other end of a pipe open (`poll(2)`, POLLERR).
fn has_no_reader(pipe: &PipeWriter) -> bool {
    let mut asked = [PollFd::new(pipe, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default())).unwrap();
    asked[0].revents().contains(PollFlags::ERR)
}

/// Values of flags that take them only behind = were offered as words of their own, and behind = there was nothing.
fn bash_offers_values_where_the_parser_takes_them() {
    let scratch = Scratch::new();
    let script = uncopy().args(["completions", "bash"]).output().unwrap().stdout;
    let script = scratch.file("script", &script);
    // As bash splits them: `=` is a word of its own.
    for (words, offered) in [
        ("cp --verify ''", Some("")),
        ("cp -p ''", Some("")),
        ("cp a ''", Some("")),
        ("cp --no-preserve ''", Some("")),
        ("unit plan --reflink ''", Some("")),
        ("--verify ''", Some("")),
        ("ver", Some("verify")),
        ("cp --verify =", Some("blake3 sha256 xxh3")),
        ("cp --verify = s", Some("sha256")),
        ("cp -p = mo", Some("mode")),
        ("unit plan --reflink = n", Some("never")),
        ("cp --method = re", Some("reflink read-write")),
        ("cp --method re", Some("reflink read-write")),
        ("cp --require = z", Some("zero-copy")),
        ("verify --digest ''", Some("blake3 sha256 xxh3")),
        ("cp --verif", Some("--verify")),
        ("bench send -p ''", None),
    ] {
        let complete = "source \"$0\"; F=$(complete -p uncopy); F=${F##*-F }; F=${F%% *}; \
                        eval \"COMP_WORDS=(uncopy $WORDS)\"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
                        compopt() { :; }; \
                        \"$F\" uncopy \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                        echo \"${COMPREPLY[*]}\"";
        let mut bash = Command::new("bash");
        bash.args(["--norc", "--noprofile", "-c", complete]).arg(&script).env("WORDS", words);
        let output = bash.current_dir(scratch.0.path()).output().unwrap();
        assert!(stderr(&output).is_empty(), "{words}: {}", stderr(&output));
        let found = String::from_utf8(output.stdout).unwrap();
        match offered {
            Some(offered) => assert_eq!(found.trim(), offered, "{words}"),
            // A value of another kind: files, as by the generated script.
            None => assert!(!found.contains("mode"), "{words}: {found}"),
        }
    }
}

fn every_shell_gets_a_completion_script_with_every_flag() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = uncopy().args(["completions", shell]).output().unwrap();
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for flag in ["require-zero-copy", "trust-shared-extents", "if-changed", "dest"] {
            assert!(script.contains(flag), "{shell} does not complete {flag}");
        }
        // Help texts name it.
        let offered = script.lines().filter(|line| shell != "bash" || line.contains("opts="));
        let mut words = offered.flat_map(|line| line.split([' ', '"']));
        let is_offered = shell == "bash" && words.any(|word| word == "serve");
        assert!(!is_offered, "{shell} completes a command that nobody types");
    }
}

fn help_lists_commands_as_the_flag_does() {
    let [by_command, by_flag] = ["help", "--help"].map(|word| {
        let output = uncopy().arg(word).output().unwrap();
        assert!(output.status.success(), "{word}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    });
    let topics = by_command.strip_prefix(&by_flag);
    let topics = topics.unwrap_or_else(|| panic!("{by_command} is not {by_flag}"));
    assert!(topics.starts_with("\nTopics"), "{topics}");
}

fn manual_pages_are_printed_one_by_one_or_written_together() {
    let scratch = Scratch::new();
    let directory = scratch.path("new/man1");
    let output = uncopy().args(["man", "--out"]).arg(&directory).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    let mut names: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for (arguments, name) in [
        (&["man"][..], "uncopy.1"),
        (&["man", "cp"], "uncopy-cp.1"),
        (&["man", "capabilities"], "uncopy-capabilities.1"),
        (&["man", "help"], "uncopy-help.1"),
    ] {
        let printed = uncopy().args(arguments).output().unwrap();
        assert!(printed.status.success(), "{arguments:?}: {}", stderr(&printed));
        assert_eq!(printed.stdout, fs::read(directory.join(name)).unwrap(), "{name}");
        names.retain(|it| it != name);
    }
    let page = fs::read_to_string(directory.join("uncopy-cp.1")).unwrap();
    for part in ["require\\-zero\\-copy", "Examples:", "Exit codes"] {
        assert!(page.contains(part), "{part}");
    }
    for name in ["uncopy-audit-verify.1", "uncopy-audit-stats.1"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    // `uncopy fleet man` writes that of the other program, which another package may have.
    let is_foreign = |name: &String| name.contains("help") || name.contains("fleet");
    assert!(!names.iter().any(is_foreign), "{names:?}");
}

fn manual_pages_that_cannot_be_made_are_errors() {
    let scratch = Scratch::new();
    let file = scratch.file("file", b"old");
    let output = uncopy().args(["man", "--out"]).arg(&file).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot write the manual pages into") && said.contains("; name"),
        "{said}"
    );
    assert_eq!(fs::read(&file).unwrap(), b"old");
    for arguments in [&["man", "mv"][..], &["man", "cp", "--out", "d"]] {
        let output = uncopy().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
    }
    assert!(stderr(&uncopy().args(["man", "mv"]).output().unwrap()).contains("no command \"mv\""));
}

fn capabilities_of_a_directory_are_one_json_object_and_leave_nothing_behind() {
    let scratch = Scratch::new();
    let output =
        uncopy().args(["capabilities", "--json"]).args([scratch.0.path()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout.starts_with(b"{\"schema\":1,"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let path = &report["paths"][0];
    for question in ["reflink", "copy_file_range", "direct", "holes", "rename_noreplace"] {
        let answer = path[question]["answer"].as_str().unwrap();
        assert!(["yes", "no"].contains(&answer), "{question}: {answer}");
    }
    assert!(scratch.names().is_empty());
}

fn capabilities_of_a_missing_path_fail_beside_those_that_are_there() {
    let output = uncopy().args(["capabilities", "/", "/nonexistent/x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot open /nonexistent/x"), "{}", stderr(&output));
    assert!(String::from_utf8(output.stdout).unwrap().contains("\n/: "));
}

/// Every key of every object inside `value`.
fn keys(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.push(key.clone());
                keys(value, found);
            }
        }
        Value::Array(array) => array.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

fn every_json_key_is_documented() {
    let scratch = Scratch::new();
    let odd = scratch.file(OsStr::from_bytes(b"\xff"), b"odd");
    let destination = scratch.path("destination");
    let mut found = Vec::new();
    for arguments in [&["cp", "--json", "--verify"][..], &["cp", "--json", "-n"], &["cp", "--json"]]
    {
        // The last one fails: the destination is a directory by then.
        if arguments.len() == 2 {
            fs::remove_file(&destination).unwrap();
            fs::create_dir(&destination).unwrap();
        }
        let mut command = uncopy();
        command.args(arguments).arg("-T").args([&odd, &destination]);
        let output = command.output().unwrap();
        keys(&serde_json::from_slice(&output.stdout).unwrap(), &mut found);
    }
    let output = uncopy().args(["capabilities", "--json", "/", "/nonexistent/x"]).output().unwrap();
    keys(&serde_json::from_slice(&output.stdout).unwrap(), &mut found);
    assert!(
        ["digest", "reason", "next_step", "sharing"].iter().all(|k| found.contains(&(*k).into()))
    );

    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let text = fs::read_to_string(text).unwrap();
    for key in found {
        let ends = ["`{}`", ".{}`", "`{}.", "`{}[]"].map(|end| end.replace("{}", &key));
        assert!(
            ends.iter().any(|end| text.contains(end.as_str())),
            "docs/json.md does not explain {key}"
        );
    }
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    #[allow(unused_mut, reason = "one more without compression")]
    let mut cases = testbed::cases![
        [] the_first_signal_stops_the_copy_and_leaves_nothing_behind,
        [] signals_of_one_moment_are_one,
        [] a_later_signal_kills_at_once,
        [] a_signal_that_the_parent_ignores_stays_ignored,
        [] a_source_that_changes_meanwhile_has_its_own_exit_code,
        [] several_failures_of_one_kind_keep_their_exit_code,
        [] two_sources_with_one_target_touch_nothing,
        [] a_file_that_this_run_wrote_is_not_written_again_under_another_name,
        [] names_that_are_not_utf8_are_copied_and_reported_in_full,
        [] a_report_that_cannot_be_written_is_an_error_after_all_copies,
        [] a_difference_decides_although_its_report_is_lost,
        [] paths_on_other_machines_are_refused_where_none_is_asked,
        [] refusals_say_what_to_do_apart_from_why,
        [testbed::Need::Root] next_steps_can_be_taken,
        [] help_and_scripts_that_cannot_be_written_are_errors,
        [testbed::Need::Tool("bash")] bash_offers_values_where_the_parser_takes_them,
        [] a_destination_below_a_file_is_refused_by_its_name,
        [] a_reader_that_went_away_is_no_panic,
        [] every_shell_gets_a_completion_script_with_every_flag,
        [] help_lists_commands_as_the_flag_does,
        [] manual_pages_are_printed_one_by_one_or_written_together,
        [] manual_pages_that_cannot_be_made_are_errors,
        [] capabilities_of_a_directory_are_one_json_object_and_leave_nothing_behind,
        [] capabilities_of_a_missing_path_fail_beside_those_that_are_there,
        [] every_json_key_is_documented,
    ];
    #[cfg(not(feature = "compress"))]
    cases.extend(testbed::cases![
        [] a_build_without_compression_names_the_feature_and_how_to_build_with_it,
    ]);
    cases
}
