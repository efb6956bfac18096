//! FIFOs and descriptors that are named as sources: read to their end, and waited for.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use testbed::witness::allocated_bytes;
use testbed::{Case, Content, Need, Place, Program, Run, patterned, wait_for};

use crate::both::metadata::{mode, set_mode};
use crate::cp::special::fifo;
use crate::cp::witnessed::Pair;
use crate::cp::{ACROSS, READ_WRITE, SPLICE, cp, cp_as_nobody, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_fifo_is_read_to_its_end_with_every_option,
        [] each_way_that_is_asked_for_is_taken_or_refused,
        [] a_verified_stream_is_hashed_as_it_comes,
        [] a_verified_stream_goes_through_memory_or_not_at_all,
        [] zeros_of_a_stream_become_holes,
        [] several_sources_come_in_turn,
        [] a_writer_that_says_nothing_makes_an_empty_file,
        [] a_signal_ends_the_wait_for_a_writer,
        [] a_signal_ends_the_wait_for_more,
        [] a_signal_leaves_a_part_in_a_fifo_and_says_so,
        [] a_kill_in_the_wait_leaves_nothing,
        [] a_fifo_whose_copy_is_not_wanted_is_not_opened,
        [] a_fifo_in_a_tree_is_no_stream,
        [] standard_input_by_all_its_names,
        [Need::Tool("bash")] a_process_substitution_is_a_source,
        [] a_closed_standard_input_is_no_empty_file,
        [] a_socket_is_read_to_its_end,
        [] a_socket_that_keeps_messages_apart_is_refused,
        [Need::Tool("script")] a_terminal_is_read_to_its_end,
        [Need::Root] a_pipe_of_another_user_is_read,
        [] devices_by_their_own_name_are_refused,
        [] a_single_file_without_a_subcommand_may_be_a_stream,
    ]
}

/// Runs `program` while another thread writes these bytes into the FIFO `source`.
fn fed(program: &Program, source: &Path, bytes: &[u8]) -> Run {
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = File::options().write(true).open(source).unwrap();
            // Fails if the program refuses and goes; the exit status tells.
            let _ = writer.write_all(bytes);
        });
        let run = program.run();
        // Lets a writer go that nobody read from.
        let _ = File::options().read(true).write(true).open(source);
        run
    })
}

/// A FIFO as the source, and nothing else.
fn waiting_pair() -> Pair {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    fifo(&pair.from, "source");
    pair
}

fn a_fifo_is_read_to_its_end_with_every_option() {
    let bytes = patterned(0, 300_001);
    for words in [
        &[][..],
        &["--verify"],
        &["--verify=xxh3", "--durable"],
        &["--verify=sha256", "--sparse=always", "-p"],
        &["--durable"],
        &["--sparse=always"],
        &["--sparse=never"],
        &["--if-changed=retry"],
        &["--if-changed=accept"],
        &["--cache=skip"],
        &["--cache=keep"],
        &["--prefer=cpu"],
        &["--no-zero-copy"],
        &["--no-user-copy"],
        &["--max-bandwidth=100M"],
        &["--preserve=all"],
        &["--copy-contents"],
        &["-f"],
        &["-n"],
        &["--in-place"],
        &["--in-place", "--verify"],
    ] {
        for replaces in [false, true] {
            if replaces && words.contains(&"-n") {
                continue;
            }
            let pair = waiting_pair();
            if replaces {
                std::fs::write(&pair.destination, patterned(3, 900_000)).unwrap();
            }
            let run = fed(&pair.command(cp().args(words)), &pair.source, &bytes);
            let receipt = run.receipt();
            assert!(std::fs::read(&pair.destination).unwrap() == bytes, "{words:?}");
            assert_eq!(receipt.bytes(), bytes.len() as u64, "{words:?}");
            let way = if words.contains(&"--no-user-copy") { "splice" } else { "read_write" };
            let by = receipt.by(way);
            assert_eq!(by, bytes.len() as u64, "{words:?}: {}", receipt.value());
            let verified = words.iter().any(|word| word.starts_with("--verify"));
            assert_eq!(receipt.value()["verified"], verified, "{words:?}");
            assert_eq!(receipt.value()["durable"], words.contains(&"--durable"), "{words:?}");
            assert_eq!(receipt.value()["source_changed"], false);
            pair.assert_no_strangers();
        }
    }
}

fn each_way_that_is_asked_for_is_taken_or_refused() {
    let bytes = patterned(0, 200_001);
    for method in ACROSS {
        let pair = waiting_pair();
        let run = fed(&pair.command(cp_by(method)), &pair.source, &bytes);
        if run.status.code() == Some(5) {
            // sendfile(2) wants a source that can be mapped.
            assert_eq!(method.flag, "sendfile", "{}", run.stderr);
            pair.assert_nothing_left();
            continue;
        }
        assert_eq!(run.receipt().by(method.name), bytes.len() as u64);
        assert!(std::fs::read(&pair.destination).unwrap() == bytes);
    }
    for method in ["reflink", "copy-file-range", "direct-ring", "direct"] {
        let pair = waiting_pair();
        let program = cp().args(["--method", method]);
        let run = fed(&pair.command(program), &pair.source, &bytes);
        let _ = run.failed(5);
        pair.assert_nothing_left();
    }
}

/// The digest is that of the same bytes in a file.
fn a_verified_stream_is_hashed_as_it_comes() {
    for length in [1, 4096, 300_001, 3 << 20] {
        for algorithm in ["blake3", "sha256", "xxh3"] {
            let verify = format!("--verify={algorithm}");
            let file = Pair::at(Place::Disk, &Content::dense(length));
            let expected = file.copy(cp().arg(&verify));
            let bytes = std::fs::read(&file.source).unwrap();
            let pair = waiting_pair();
            let run = fed(&pair.command(cp().arg(&verify)), &pair.source, &bytes);
            let receipt = run.receipt();
            for key in ["digest", "algorithm", "verified", "verified_from"] {
                assert_eq!(receipt.value()[key], expected.value()[key], "{length} {algorithm}");
            }
            let notes = receipt.value()["notes"].to_string();
            assert!(notes.contains("cannot be read again"), "{notes}");
            assert!(!expected.value()["notes"].to_string().contains("again"));
        }
    }
}

fn a_verified_stream_goes_through_memory_or_not_at_all() {
    let bytes = patterned(0, 100_000);
    let pair = waiting_pair();
    let by_splice = cp_by(SPLICE).arg("--verify");
    let run = fed(&pair.command(by_splice), &pair.source, &bytes);
    assert!(run.failed(5).contains("hashed on their way"), "{}", run.stderr);
    pair.assert_nothing_left();
    // Another FIFO: a process that another test is just starting may hold this one open, with the
    // bytes that nobody read.
    let pair = waiting_pair();
    let by_memory = cp_by(READ_WRITE).arg("--verify");
    let run = fed(&pair.command(by_memory), &pair.source, &bytes);
    assert_eq!(run.receipt().by("read_write"), 100_000);
    // A destination that is a stream cannot be read back; nothing says that it was.
    let run = fed(
        &cp().args(["--verify", "--copy-contents"]).arg(&pair.source).arg("/dev/null"),
        &pair.source,
        &bytes,
    );
    assert_eq!(run.receipt().value()["verified"], false);
}

fn zeros_of_a_stream_become_holes() {
    for tail in [0, 1, 4096, 1 << 20] {
        let mut bytes = patterned(0, 100_000);
        bytes.resize(3 << 20, 0);
        bytes.extend(patterned(0, 50_000));
        bytes.resize(bytes.len() + tail, 0);
        for in_place in [false, true] {
            let pair = waiting_pair();
            let mut program = cp().arg("--sparse=always");
            if in_place {
                std::fs::write(&pair.destination, patterned(9, 5 << 20)).unwrap();
                program = program.arg("--in-place");
            }
            let run = fed(&pair.command(program), &pair.source, &bytes);
            let receipt = run.receipt();
            assert!(std::fs::read(&pair.destination).unwrap() == bytes, "{tail} {in_place}");
            assert_eq!(receipt.bytes(), bytes.len() as u64);
            assert!(receipt.at("zeros") > 2 << 20, "{}", receipt.value());
            let allocated = allocated_bytes(&pair.destination);
            assert!(allocated < 1 << 20, "{tail} {in_place}: {allocated}");
        }
    }
}

fn several_sources_come_in_turn() {
    let pair = waiting_pair();
    let other = fifo(&pair.from, "other");
    std::fs::write(pair.from.join("file"), "file").unwrap();
    let program = cp().arg("-t").arg(pair.to.path());
    let program = program.arg(&pair.source).arg(pair.from.join("file")).arg(&other);
    let run = thread::scope(|scope| {
        for (path, bytes) in [(&other, b"second"), (&pair.source, b"first!")] {
            scope.spawn(move || std::fs::write(path, bytes).unwrap());
        }
        program.run()
    });
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(run.receipts().len(), 3);
    for (name, bytes) in [("source", "first!"), ("file", "file"), ("other", "second")] {
        assert_eq!(std::fs::read_to_string(pair.to.join(name)).unwrap(), bytes);
    }
}

fn a_writer_that_says_nothing_makes_an_empty_file() {
    for words in [&[][..], &["--verify"], &["--durable"], &["--sparse=always"]] {
        let pair = waiting_pair();
        let run = fed(&pair.command(cp().args(words)), &pair.source, b"");
        assert_eq!(run.receipt().bytes(), 0, "{words:?}");
        assert_eq!(std::fs::metadata(&pair.destination).unwrap().len(), 0);
    }
}

/// Started with what a test needs beyond a [`Program`]: its streams, and its life.
fn start(words: &[&Path], input: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uncopy"));
    command.arg("cp").args(words).stdin(input).stdout(Stdio::null()).stderr(Stdio::piped());
    command.env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent");
    command.spawn().unwrap()
}

/// It waits in poll(2), with handlers for its signals.
fn is_waiting(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
    let interrupt = u64::from_str_radix(caught, 16).unwrap() & (1 << 1) != 0;
    interrupt && status.contains("State:\tS")
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn a_signal_ends_the_wait_for_a_writer() {
    use std::os::unix::process::ExitStatusExt;
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        for old in [false, true] {
            for by_descriptor in [false, true] {
                let pair = waiting_pair();
                let old = old.then(|| pair.old_destination());
                let (end, _kept) = std::io::pipe().unwrap();
                let stdin = Path::new("/dev/stdin");
                let mut child = match by_descriptor {
                    true => start(&[stdin, &pair.destination], Stdio::from(end)),
                    false => start(&[&pair.source, &pair.destination], Stdio::null()),
                };
                wait_for("a copy that waits", || is_waiting(&child));
                // Nothing has been made while nothing has come.
                let strangers = pair.to.strangers(&["destination"]);
                assert!(strangers.is_empty(), "{strangers:?}");
                send(&child, signal);
                let status = child.wait().unwrap();
                assert_eq!(status.signal(), Some(number), "{status}");
                match old {
                    Some(old) => pair.assert_kept(&old),
                    None => pair.assert_nothing_left(),
                }
            }
        }
    }
}

/// Some bytes have come, and the writer keeps the FIFO open.
fn a_signal_ends_the_wait_for_more() {
    use std::os::unix::process::ExitStatusExt;
    let pair = waiting_pair();
    let old = pair.old_destination();
    let mut child = start(&[&pair.source, &pair.destination], Stdio::null());
    let mut writer = File::options().write(true).open(&pair.source).unwrap();
    writer.write_all(&[7; 1000]).unwrap();
    wait_for("a copy that waits", || is_waiting(&child));
    send(&child, Signal::INT);
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(2), "{status}");
    pair.assert_kept(&old);
}

/// It said that every destination is unchanged or complete.
fn a_signal_leaves_a_part_in_a_fifo_and_says_so() {
    use std::io::Read;
    let pair = Pair::empty(Place::Disk, Place::Disk);
    std::fs::write(&pair.source, patterned(0, 1 << 20)).unwrap();
    fifo(&pair.to, "destination");
    let flag = Path::new("--copy-contents");
    let child = start(&[flag, &pair.source, &pair.destination], Stdio::null());
    let mut reader = File::open(&pair.destination).unwrap();
    reader.read_exact(&mut [0; 1000]).unwrap();
    // The pipe is full.
    wait_for("a copy that waits", || is_waiting(&child));
    send(&child, Signal::INT);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < (1 << 20) - 1000);
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("has a part of its source"), "{said}");
}

fn a_kill_in_the_wait_leaves_nothing() {
    let pair = waiting_pair();
    let mut child = start(&[&pair.source, &pair.destination], Stdio::null());
    wait_for("a copy that waits", || is_waiting(&child));
    child.kill().unwrap();
    child.wait().unwrap();
    pair.assert_nothing_left();
}

/// A writer that waits for a reader would be let go, and its bytes lost.
fn a_fifo_whose_copy_is_not_wanted_is_not_opened() {
    let pair = waiting_pair();
    let old = pair.old_destination();
    let read = thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = File::options().write(true).open(&pair.source).unwrap();
            writer.write_all(b"kept").unwrap();
        });
        let run = pair.command(cp().arg("-n")).run();
        assert_eq!(run.receipt().value()["event"], "skipped");
        std::fs::read(&pair.source).unwrap()
    });
    assert_eq!(read, b"kept");
    pair.assert_kept(&old);
}

fn a_fifo_in_a_tree_is_no_stream() {
    let pair = waiting_pair();
    for (program, made) in [(cp().arg("-r"), false), (cp().args(["-r", "--specials"]), true)] {
        let run = program.clone().arg(pair.from.path()).arg(pair.to.join("tree")).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(pair.to.join("tree/source").exists(), made);
        let run = pair.command(program).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(pair.destination.exists(), made);
        std::fs::remove_dir_all(pair.to.join("tree")).unwrap();
    }
}

/// `uncopy cp --json` in the middle of a command line of a shell, where `$0 "$@"` stands for it.
fn through_shell(shell: &str, line: &str, words: &[&str], pair: &Pair) -> Program {
    let program = cp().args(words).through([shell, "-c", line]);
    program.env("SOURCE", &pair.source).env("DESTINATION", &pair.destination)
}

fn standard_input_by_all_its_names() {
    let bytes = patterned(0, 200_001);
    let pair = Pair::empty(Place::Disk, Place::Disk);
    std::fs::write(&pair.source, &bytes).unwrap();
    for name in
        ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/proc/thread-self/fd/0", "/dev//stdin"]
    {
        for (line, expected) in [
            ("cat \"$SOURCE\" | \"$0\" \"$@\" \"$DESTINATION\"", &bytes[..]),
            ("\"$0\" \"$@\" \"$DESTINATION\" < \"$SOURCE\"", &bytes),
            ("\"$0\" \"$@\" \"$DESTINATION\" < /dev/null", b""),
            ("(cat \"$SOURCE\"; cat \"$SOURCE\") | \"$0\" \"$@\" \"$DESTINATION\"", &[]),
        ] {
            let twice = [&bytes[..], &bytes].concat();
            let expected = if line.starts_with('(') { &twice[..] } else { expected };
            for words in [&[][..], &["--verify"]] {
                let words = [words, &[name]].concat();
                let run = through_shell("sh", line, &words, &pair).run();
                let receipt = run.receipt();
                assert_eq!(receipt.bytes(), expected.len() as u64, "{name}: {line}");
                assert_eq!(receipt.value()["source"], name);
                assert!(std::fs::read(&pair.destination).unwrap() == expected, "{name}: {line}");
                std::fs::remove_file(&pair.destination).unwrap();
            }
        }
    }
    let by_number =
        "exec 9< \"$SOURCE\"; cat \"$SOURCE\" | { \"$0\" \"$@\" \"$DESTINATION\" 8<&0; }";
    let run = through_shell("sh", by_number, &["/dev/fd/8"], &pair).run();
    assert_eq!(run.receipt().by("read_write"), bytes.len() as u64);
    let run = through_shell("sh", by_number, &["/dev/fd/7"], &pair).run();
    assert!(run.failed(1).contains("/dev/fd/7"), "{}", run.stderr);
}

fn a_process_substitution_is_a_source() {
    let bytes = patterned(0, 200_001);
    let pair = Pair::empty(Place::Disk, Place::Disk);
    std::fs::write(&pair.source, &bytes).unwrap();
    let line = "\"$0\" \"$@\" <(cat \"$SOURCE\") \"$DESTINATION\"";
    let run = through_shell("bash", line, &["--verify", "-p"], &pair).run();
    assert_eq!(run.receipt().bytes(), bytes.len() as u64);
    assert!(std::fs::read(&pair.destination).unwrap() == bytes);
}

fn a_closed_standard_input_is_no_empty_file() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let line = "\"$0\" \"$@\" \"$DESTINATION\" <&-";
    let run = through_shell("sh", line, &["/dev/stdin"], &pair).run();
    assert!(run.failed(1).contains("/dev/stdin"), "{}", run.stderr);
    pair.assert_nothing_left();
}

/// As a program gets it from ssh or inetd. Sockets cannot be opened by a name.
fn a_socket_is_read_to_its_end() {
    let bytes = patterned(0, 500_001);
    for nonblocking in [false, true] {
        let pair = Pair::empty(Place::Disk, Place::Disk);
        let (mut here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(nonblocking).unwrap();
        let kept = there.try_clone().unwrap();
        let input = Stdio::from(OwnedFd::from(there));
        let mut child = start(&[Path::new("/dev/stdin"), &pair.destination], input);
        for piece in bytes.chunks(33_333) {
            here.write_all(piece).unwrap();
        }
        drop(here);
        assert!(child.wait().unwrap().success());
        assert!(std::fs::read(&pair.destination).unwrap() == bytes);
        // Nobody executes it for the mode of a socket.
        assert_eq!(mode(&pair.destination) & 0o111, 0);
        let flags = rustix::fs::fcntl_getfl(&kept).unwrap();
        assert_eq!(flags.contains(rustix::fs::OFlags::NONBLOCK), nonblocking, "flags changed");
    }
}

fn a_socket_that_keeps_messages_apart_is_refused() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let (_here, there) = UnixDatagram::pair().unwrap();
    let input = Stdio::from(OwnedFd::from(there));
    let child = start(&[Path::new("/dev/stdin"), &pair.destination], input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("keeps messages apart"), "{said}");
    pair.assert_nothing_left();
}

fn a_terminal_is_read_to_its_end() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let line = format!(
        "printf 'one\\ntwo\\n\\004' | script -qec '{} cp /dev/stdin {}' /dev/null",
        env!("CARGO_BIN_EXE_uncopy"),
        pair.destination.display()
    );
    let run = Program::new("sh").args(["-c", &line]).run();
    assert!(run.status.success(), "{} {}", run.stdout, run.stderr);
    assert_eq!(std::fs::read_to_string(&pair.destination).unwrap(), "one\ntwo\n");
}

/// Opening it by a name is forbidden (`proc_pid_fd(5)`); reading it is not.
fn a_pipe_of_another_user_is_read() {
    let pair = Pair::empty(Place::Tmpfs, Place::Tmpfs);
    set_mode(pair.to.path(), 0o777);
    let program = cp_as_nobody().arg("/dev/stdin").arg(&pair.destination);
    let run = program.through(["sh", "-c", "echo bytes | \"$0\" \"$@\""]).run();
    assert_eq!(run.receipt().bytes(), 6);
}

fn devices_by_their_own_name_are_refused() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    for device in ["/dev/zero", "/dev/null", "/dev/tty"] {
        let run = cp().arg(device).arg(&pair.destination).run();
        let message = run.failed(1);
        assert!(message.contains(device), "{message}");
        pair.assert_nothing_left();
    }
    // To write to a FIFO has to be asked for, also from one.
    let pair = waiting_pair();
    let destination = fifo(&pair.to, "destination");
    let run = fed(&pair.command(cp()), &pair.source, b"bytes");
    let message = run.failed(1);
    assert!(message.contains("FIFO") && message.contains("--copy-contents"), "{message}");
    assert!(!std::fs::metadata(destination).unwrap().is_file());
    for program in [cp(), cp().arg("--copy-contents"), cp().arg("-f")] {
        let run = program.arg(&pair.source).arg(&pair.source).run();
        assert!(run.failed(1).contains("the same file"), "{}", run.stderr);
    }
}

fn a_single_file_without_a_subcommand_may_be_a_stream() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let uncopy = |words: &[&str]| -> Program {
        let destination: PathBuf = pair.destination.clone();
        let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["-v", "-s", "/dev/stdin"]);
        let program = program.arg("-d").arg(destination).args(words);
        program.through(["sh", "-c", "echo bytes | \"$0\" \"$@\""])
    };
    for (words, verified) in [(&[][..], true), (&["--no-verify"], false)] {
        let run = uncopy(words).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(run.stdout.contains("verified: blake3"), verified, "{}", run.stdout);
        assert_eq!(run.stderr.contains("cannot be read again"), verified, "{}", run.stderr);
        assert_eq!(std::fs::read(&pair.destination).unwrap(), b"bytes\n");
    }
}
