//! The far end as a process, started by a remote shell that is a script.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use uncopy_copy::peer::Peer;
use uncopy_remote::{
    Accepted, Address, FarEnd, FarEvent, OutputStream, RemoteError, RemoteShell, Restriction,
    RunJob, ShellEnd, Streams, accept, pull, push,
};

use crate::support::{list_all, long, never, read_range};

/// Variable that makes the test below a far end.
const IS_FAR: &str = "UNCOPY_TEST_IS_FAR_END";

/// Runs in a process of its own: a far end whose harness prints before it greets.
#[test]
fn far_end_process() {
    if std::env::var_os(IS_FAR).is_none() {
        return;
    }
    let streams = Streams::stdio().unwrap();
    // From here on nothing gets into the stream.
    println!("this is for standard error");
    let ended = match accept(streams, &long(), &Restriction::default()).unwrap() {
        Accepted::Serve(request) => request.serve(),
        Accepted::Run(request) => request
            .run(&[], |source, output| {
                // A near end that has gone is part of some tests.
                let root = source.open_root(0, false);
                let Ok(entries) = root.and_then(|root| list_all(&source, root.handle, 0)) else {
                    return 1;
                };
                for entry in entries {
                    let line = [entry.name.as_encoded_bytes(), b"\n"].concat();
                    output.write(OutputStream::Standard, &line).unwrap();
                }
                while !output.is_stopping() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                42
            })
            .map(drop),
    };
    std::process::exit(i32::from(ended.is_err()));
}

/// Folder with a remote shell: a script.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new(script: &str) -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rsh");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Machine { folder }
    }

    /// A machine that runs this test as its far end, and notes its arguments.
    fn good(before: &str) -> Machine {
        let this = std::env::current_exe().unwrap();
        let this = this.to_str().unwrap();
        Machine::new(&format!(
            "for word in \"$@\"; do printf '%s\\n' \"$word\" >> \"$0.words\"; done\n{before}\n\
             export {IS_FAR}=1\n\
             exec '{this}' --exact far_end::far_end_process --nocapture"
        ))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self) -> Result<FarEnd, RemoteError> {
        let shell = RemoteShell::new(Some(self.path("rsh").as_os_str()), None).unwrap();
        FarEnd::start(&shell, &address())
    }
}

fn address() -> Address {
    Address { host: "host.example".into(), user: Some("user".into()), port: Some(22) }
}

fn processes_of(folder: &Path) -> usize {
    let of_folder = |entry: std::io::Result<fs::DirEntry>| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let folder = folder.as_os_str().as_encoded_bytes();
        line.windows(folder.len()).any(|part| part == folder).then_some(())
    };
    fs::read_dir("/proc").unwrap().filter_map(of_folder).count()
}

#[test]
fn a_far_end_is_started_by_its_shell_and_serves_behind_a_banner() {
    let machine = Machine::good("echo 'Welcome to host.example'; yes '' | head -c 60000");
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), "contents").unwrap();
    let mut far = machine.start().unwrap();
    let streams = far.streams().unwrap();
    assert!(matches!(far.streams(), Err(RemoteError::Lost { .. })));
    let begun = pull(streams, &long(), None, &[root.path().into()], &never).unwrap();
    let source = begun.source();
    let directory = source.open_root(0, false).unwrap().handle;
    let file = source.open(directory, OsStr::new("f"), false).unwrap().handle;
    assert_eq!(read_range(&source, file, 0..100).unwrap(), b"contents");
    assert_eq!(far.finish(begun.end()), Ok(()));
    // No path is in the line of the remote shell.
    let words = fs::read_to_string(machine.path("rsh.words")).unwrap();
    let expected = ["-l", "user", "-p", "22", "host.example", "uncopy", "serve", "--stdio"];
    assert_eq!(words.lines().collect::<Vec<_>>(), expected);
    assert_eq!(processes_of(machine.folder.path()), 0);
}

fn run(far: &mut FarEnd, stop: &dyn Fn() -> bool, output: &mut Vec<u8>) -> Result<u8, RemoteError> {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("source"), "").unwrap();
    let job = RunJob { arguments: vec![], sources: vec!["x".into()] };
    let streams = far.streams().unwrap();
    push(streams, &long(), None, &job, &[root.path().to_owned()], stop, &mut |event| {
        if let FarEvent::Output { bytes, .. } = event {
            output.extend_from_slice(bytes);
        }
    })
}

#[test]
fn a_job_of_a_process_is_stopped_in_order() {
    let machine = Machine::good("");
    let mut far = machine.start().unwrap();
    let seen = std::cell::Cell::new(false);
    let stop = || seen.get();
    let mut output = Vec::new();
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("source"), "").unwrap();
    let job = RunJob { arguments: vec![], sources: vec!["x".into()] };
    let streams = far.streams().unwrap();
    let sources = [root.path().to_owned()];
    let code = push(streams, &long(), None, &job, &sources, &stop, &mut |event| {
        if let FarEvent::Output { bytes, .. } = event {
            output.extend_from_slice(bytes);
            seen.set(true);
        }
    });
    assert_eq!((far.finish(code), output), (Ok(42), b"source\n".to_vec()));
}

#[test]
fn a_far_end_that_is_killed_is_a_lost_connection_and_is_waited_for() {
    let machine = Machine::good("echo $$ > \"$0.pid\"");
    let mut far = machine.start().unwrap();
    let pid = machine.path("rsh.pid");
    let killed = std::cell::Cell::new(false);
    let kill = || {
        if !killed.get() && pid.exists() && machine.path("rsh.words").exists() {
            let number: i32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
            let number = rustix::process::Pid::from_raw(number).unwrap();
            rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
            killed.set(true);
        }
        false
    };
    let result = run(&mut far, &kill, &mut Vec::new());
    let result = far.finish(result);
    // The error depends on whether its greeting came before.
    let is_reported = matches!(
        result,
        Err(RemoteError::Lost { .. } | RemoteError::ShellEnded { ended: ShellEnd::Killed(9), .. })
    );
    assert!(is_reported, "{result:?}");
    assert!(killed.get());
    assert_eq!(processes_of(machine.folder.path()), 0);
}

#[test]
fn a_far_end_whose_near_end_goes_away_ends_its_job() {
    let machine = Machine::good("");
    let mut far = machine.start().unwrap();
    let root = tempfile::tempdir().unwrap();
    let begun = pull(far.streams().unwrap(), &long(), None, &[root.path().into()], &never).unwrap();
    // As if this process were killed: the streams go, and nothing is said.
    drop(begun);
    assert_eq!(far.finish(Ok(())), Ok(()));

    let machine = Machine::good("");
    let mut far = machine.start().unwrap();
    let Streams { mut input, mut output } = far.streams().unwrap();
    let greeting =
        uncopy_wire::Greeting { versions: uncopy_wire::Versions::OWN, program: "x".into() };
    output.write_all(&greeting.encode()).unwrap();
    let job = uncopy_wire::Job::Run { arguments: vec![], sources: vec![b"x".to_vec()] };
    let mut session = uncopy_wire::Session::new(uncopy_wire::End::Near);
    let job = session.send(&uncopy_wire::Message::Job(job)).unwrap();
    output.write_all(&job.encode()).unwrap();
    let mut buffer = [0; 4096];
    // Its first question comes: the job runs.
    let question = [1, 0, 0, 0, 0, 0];
    let mut seen = Vec::new();
    while !seen.ends_with(&question) {
        match input.read(&mut buffer).unwrap() {
            0 => panic!("it has ended"),
            count => seen.extend_from_slice(&buffer[..count]),
        }
    }
    drop((input, output));
    let begin = Instant::now();
    let _ = far.finish(Ok(()));
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(processes_of(machine.folder.path()), 0);
}

#[test]
fn a_far_end_that_is_missing_or_another_program_is_named() {
    let begin = |script: &str| {
        let machine = Machine::new(script);
        let mut far = machine.start().unwrap();
        let result = run(&mut far, &never, &mut Vec::new());
        let begin = Instant::now();
        let error = far.finish(result).unwrap_err();
        assert_eq!(processes_of(machine.folder.path()), 0);
        (error, begin.elapsed())
    };
    let missing = RemoteError::FarMissing { host: "host.example".into(), program: "uncopy".into() };
    assert_eq!(begin("echo 'sh: uncopy: not found' >&2; exit 127").0, missing);
    let (host, program) = ("host.example".into(), "uncopy".into());
    assert_eq!(begin("exit 126").0, RemoteError::FarNotRunnable { host, program });
    let unreachable = begin("exit 255").0;
    assert!(matches!(unreachable, RemoteError::Unreachable { status: 255, .. }), "{unreachable}");
    let message = unreachable.to_string();
    assert!(message.ends_with("rsh -l user -p 22 host.example true\""), "{message}");
    let shell_ended = |ended, shown: &[u8]| {
        let (host, shown) = ("host.example".into(), shown.to_vec());
        RemoteError::ShellEnded { host, ended, shown }
    };
    for (script, expected) in [
        (
            "echo 'usage: uncopy cp'; exit 2",
            shell_ended(ShellEnd::Exited(2), b"usage: uncopy cp\n"),
        ),
        ("exit 0", shell_ended(ShellEnd::Exited(0), b"")),
        ("kill -9 $$", shell_ended(ShellEnd::Killed(9), b"")),
        ("kill -15 $$", shell_ended(ShellEnd::Killed(15), b"")),
        ("exec >&-; exec sleep 60", shell_ended(ShellEnd::Closed, b"")),
    ] {
        assert_eq!(begin(script).0, expected, "{script}");
    }
    // A program that prints without end, and does not end by itself.
    let (error, time) = begin("trap '' PIPE TERM; while :; do echo noise; done 2>/dev/null");
    assert!(matches!(error, RemoteError::NotUncopy { .. }), "{error:?}");
    assert!(time < Duration::from_secs(15), "{time:?}");
    // The remote shell itself is missing.
    let shell = RemoteShell::new(Some(OsStr::new("/nowhere/ssh -x")), None).unwrap();
    let error = FarEnd::start(&shell, &address()).unwrap_err();
    let expected = RemoteError::Start {
        program: OsString::from("/nowhere/ssh"),
        errno: uncopy_core::Errno::ENOENT,
    };
    assert_eq!(error, expected);
    let bad = Address { host: "-oProxyCommand=x".into(), ..address() };
    assert!(matches!(FarEnd::start(&shell, &bad), Err(RemoteError::BadAddress { .. })));
    for error in [missing, unreachable, expected] {
        assert!(error.to_string().contains(": "), "{error}");
    }
}

#[test]
fn a_far_end_that_is_dropped_is_killed_and_waited_for() {
    let machine = Machine::new("echo > \"$0.begun\"; exec sleep 100");
    let far = machine.start().unwrap();
    while !machine.path("rsh.begun").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(far);
    assert_eq!(processes_of(machine.folder.path()), 0);
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    assert_eq!(children, "");
}

#[test]
fn a_far_end_ignores_the_interrupt_of_a_terminal() {
    let machine = Machine::new("grep SigIgn /proc/$$/status; exit 3");
    let mut far = machine.start().unwrap();
    let Err(RemoteError::NoGreeting { shown }) = run(&mut far, &never, &mut Vec::new()) else {
        panic!()
    };
    let shown = String::from_utf8(shown).unwrap();
    let mask = u64::from_str_radix(shown.trim().rsplit('\t').next().unwrap(), 16).unwrap();
    // SIGINT and SIGQUIT.
    assert_eq!(mask & 0b110, 0b110, "{shown}");
}
