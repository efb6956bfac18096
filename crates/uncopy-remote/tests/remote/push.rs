//! Jobs that run at the far end with sources of the near end, and restricted logins.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uncopy_copy::peer::{Peer, PeerError};
use uncopy_remote::{
    Accepted, FarEvent, JobState, Limits, Output, OutputStream, Refusal, RemoteError, RemoteSource,
    Restriction, RunJob, Streams, accept, pull, push,
};

use crate::support::{
    Line, connection, errno, list_all, long, name, never, of_socket, read_range, serve,
};

/// Events of the far end, as far as they can be kept.
#[derive(Debug, Default, PartialEq)]
struct Events {
    output: Vec<u8>,
    errors: Vec<u8>,
    progress: Vec<JobState>,
    notes: usize,
}

impl Events {
    fn take(&mut self, event: &FarEvent<'_>) {
        match event {
            FarEvent::Output { stream: OutputStream::Standard, bytes } => {
                self.output.extend_from_slice(bytes);
            }
            FarEvent::Output { bytes, .. } => self.errors.extend_from_slice(bytes),
            FarEvent::Progress(state) => self.progress.push(**state),
            _ => self.notes += 1,
        }
    }
}

fn job(arguments: &[&str]) -> RunJob {
    let words = |words: &[&str]| words.iter().map(OsString::from).collect();
    RunJob { arguments: words(arguments), sources: words(&["name for people"]) }
}

type Ran = Result<u8, RemoteError>;

/// Runs a job at a far end of this process.
fn run(
    line: Line,
    sources: &[PathBuf],
    restriction: &Restriction,
    writable: &[PathBuf],
    stop: &dyn Fn() -> bool,
    work: impl FnOnce(Arc<RemoteSource>, &Output) -> u8 + Send,
) -> (Ran, Ran, Events) {
    let (near, far) = connection(line);
    let mut events = Events::default();
    thread::scope(|scope| {
        let far = scope.spawn(|| match accept(far, &long(), restriction)? {
            Accepted::Run(request) => {
                assert_eq!(request.arguments(), ["cp", "-r\n'"]);
                assert_eq!(request.sources(), ["name for people"]);
                request.run(writable, work)
            }
            Accepted::Serve(_) => panic!("a job is to be run"),
        });
        let on_event = &mut |event: FarEvent<'_>| events.take(&event);
        let near = push(near, &long(), None, &job(&["cp", "-r\n'"]), sources, stop, on_event);
        (near, far.join().unwrap(), events)
    })
}

fn everywhere() -> Restriction {
    Restriction::default()
}

#[test]
fn a_job_gets_the_sources_and_its_output_and_exit_code_come_back_in_order() {
    let root = tempfile::tempdir().unwrap();
    let destination = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("d")).unwrap();
    let contents: Vec<u8> = (0..3_000_000_u32).map(|at| (at >> 3) as u8).collect();
    fs::write(root.path().join("d/f"), &contents).unwrap();
    let sources = [root.path().to_owned(), root.path().join("d/f")];
    let state =
        JobState { entries: 1, bytes: 2, total_entries: 3, total_bytes: 4, is_total_final: true };
    for line in [Line::Socket, Line::Pipes, Line::Chopped(100)] {
        let writable = [destination.path().to_owned()];
        let (near, far, events) =
            run(line, &sources, &everywhere(), &writable, &never, |source, output| {
                output.write(OutputStream::Standard, &[7; 200_000]).unwrap();
                output.progress(&state);
                let root = source.open_root(0, false).unwrap().handle;
                let entries = list_all(&source, root, 0).unwrap();
                assert_eq!(entries.iter().map(|entry| &entry.name).collect::<Vec<_>>(), ["d"]);
                let file = source.open_root(1, false).unwrap();
                let bytes = read_range(&source, file.handle, 0..file.stat.size).unwrap();
                fs::write(destination.path().join("copy"), &bytes).unwrap();
                output.writer(OutputStream::Error).write_all(b"error\xff").unwrap();
                assert!(!output.is_stopping() && output.traffic().received > 3_000_000);
                output.write(OutputStream::Standard, b"").unwrap();
                output.write(OutputStream::Standard, b"end").unwrap();
                217
            });
        assert_eq!((near, far), (Ok(217), Ok(217)));
        let output = [&[7; 200_000][..], b"end"].concat();
        let expected =
            Events { output, errors: b"error\xff".to_vec(), progress: vec![state], notes: 0 };
        assert!(events == expected);
        assert!(fs::read(destination.path().join("copy")).unwrap() == contents);
    }
}

#[test]
fn a_job_writes_beneath_its_directories_alone() {
    let root = tempfile::tempdir().unwrap();
    let (inside, outside) = (root.path().join("in"), root.path().join("out"));
    for directory in [&inside, &outside] {
        fs::create_dir_all(directory.join("d")).unwrap();
        fs::write(directory.join("old"), "old").unwrap();
    }
    let (near, far, events) = run(
        Line::Socket,
        std::slice::from_ref(&inside),
        &everywhere(),
        std::slice::from_ref(&inside),
        &never,
        |_, _| {
            // As the engine does: written aside, renamed into other directories, linked.
            fs::write(inside.join("new"), "new").unwrap();
            fs::rename(inside.join("new"), inside.join("d/new")).unwrap();
            fs::hard_link(inside.join("d/new"), inside.join("linked")).unwrap();
            symlink("x", inside.join("link")).unwrap();
            fs::create_dir(inside.join("made")).unwrap();
            fs::write(inside.join("old"), "changed").unwrap();
            fs::remove_file(inside.join("old")).unwrap();
            let denied = |result: std::io::Result<()>| {
                let kind = result.unwrap_err().raw_os_error();
                assert!(matches!(kind, Some(13 | 18)), "{kind:?}");
            };
            denied(fs::write(outside.join("new"), "x"));
            denied(fs::write(outside.join("old"), "x"));
            denied(fs::remove_file(outside.join("old")));
            denied(fs::create_dir(outside.join("made")));
            denied(fs::rename(inside.join("d/new"), outside.join("new")));
            denied(symlink("x", outside.join("link")));
            // So are threads that it starts, which read anywhere.
            thread::scope(|scope| {
                scope.spawn(|| denied(fs::write(outside.join("new"), "x")));
                scope.spawn(|| assert_eq!(fs::read(outside.join("old")).unwrap(), b"old"));
            });
            0
        },
    );
    assert_eq!((near, far, events.notes), (Ok(0), Ok(0), 0));
    let mut left: Vec<_> =
        fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["d", "old"]);
    // The thread of this test is free.
    fs::write(outside.join("new"), "x").unwrap();
}

/// Files of an earlier copy get further names, and nothing else becomes of them.
#[test]
fn a_job_links_from_its_directories_alone() {
    let root = tempfile::tempdir().unwrap();
    let place = |name: &str| root.path().join(name);
    for directory in ["in", "earlier/d", "out"] {
        fs::create_dir_all(place(directory)).unwrap();
    }
    for file in ["earlier/d/old", "out/old"] {
        fs::write(place(file), "old").unwrap();
    }
    let (near, far) = connection(Line::Socket);
    thread::scope(|scope| {
        let far = scope.spawn(|| {
            let Ok(Accepted::Run(request)) = accept(far, &long(), &everywhere()) else { panic!() };
            request.linking_from(vec![place("earlier")]).run(&[place("in")], |_, _| {
                fs::hard_link(place("earlier/d/old"), place("in/new")).unwrap();
                let denied = |result: std::io::Result<()>| {
                    let kind = result.unwrap_err().raw_os_error();
                    assert!(matches!(kind, Some(13 | 18)), "{kind:?}");
                };
                denied(fs::hard_link(place("out/old"), place("in/other")));
                denied(fs::hard_link(place("in/new"), place("earlier/new")));
                denied(fs::rename(place("earlier/d/old"), place("in/moved")));
                denied(fs::remove_file(place("earlier/d/old")));
                denied(fs::write(place("earlier/new"), "x"));
                denied(fs::create_dir(place("earlier/made")));
                denied(symlink("x", place("earlier/link")));
                0
            })
        });
        let sources = [root.path().to_owned()];
        let near = push(near, &long(), None, &job(&[]), &sources, &never, &mut |_| ());
        assert_eq!((near, far.join().unwrap()), (Ok(0), Ok(0)));
    });
    assert_eq!(fs::metadata(place("earlier/d/old")).unwrap().nlink(), 2);
}

#[test]
fn a_request_to_stop_reaches_the_job_once() {
    let root = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let requested = || stop.load(Ordering::Relaxed);
    let (near, far, events) = run(
        Line::Socket,
        &[root.path().to_owned()],
        &everywhere(),
        &[],
        &requested,
        |_, output| {
            assert!(!output.is_stopping());
            stop.store(true, Ordering::Relaxed);
            while !output.is_stopping() {
                assert!(begin.elapsed() < Duration::from_secs(20));
                thread::sleep(Duration::from_millis(1));
            }
            output.write(OutputStream::Error, b"stopped").unwrap();
            thread::sleep(Duration::from_millis(300));
            130
        },
    );
    assert_eq!((near, far, events.errors), (Ok(130), Ok(130), b"stopped".to_vec()));
}

#[test]
fn a_job_whose_near_end_dies_is_stopped_and_its_questions_are_answered() {
    let root = tempfile::tempdir().unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let cut = near.try_clone().unwrap();
    let sources = [root.path().to_owned()];
    thread::scope(|scope| {
        let far = scope.spawn(|| match accept(of_socket(far), &long(), &everywhere())? {
            Accepted::Run(request) => request.run(&[], |source, output| {
                source.open_root(0, false).unwrap();
                cut.shutdown(std::net::Shutdown::Both).unwrap();
                while !output.is_stopping() {
                    thread::sleep(Duration::from_millis(1));
                }
                for _ in 0..3 {
                    let asked = source.open_root(0, false);
                    assert!(matches!(asked, Err(PeerError::Lost { .. })), "{asked:?}");
                }
                assert!(output.write(OutputStream::Standard, b"x").is_err());
                output.progress(&JobState::default());
                1
            }),
            Accepted::Serve(_) => panic!(),
        });
        let near = push(of_socket(near), &long(), None, &job(&[]), &sources, &never, &mut |_| ());
        assert!(matches!(near, Err(RemoteError::Lost { .. })), "{near:?}");
        let far = far.join().unwrap();
        assert!(matches!(far, Err(RemoteError::Lost { .. })), "{far:?}");
    });
}

#[test]
fn output_waits_for_a_near_end_that_does_not_take_it() {
    let root = tempfile::tempdir().unwrap();
    let (near, far) = connection(Line::Socket);
    let sources = [root.path().to_owned()];
    let written = std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let Ok(Accepted::Run(request)) = accept(far, &long(), &everywhere()) else { panic!() };
            let ran = request.run(&[], |_, output| {
                for _ in 0..1000 {
                    output.write(OutputStream::Standard, &[1; 64 << 10]).unwrap();
                    written.fetch_add(64 << 10, Ordering::Relaxed);
                }
                0
            });
            assert_eq!(ran, Ok(0));
        });
        let (mut received, mut is_first) = (0, true);
        let code = push(near, &long(), None, &job(&[]), &sources, &never, &mut |event| {
            if std::mem::take(&mut is_first) {
                thread::sleep(Duration::from_millis(500));
                let ahead = written.load(Ordering::Relaxed);
                assert!(ahead < 8 << 20, "{ahead}");
            }
            if let FarEvent::Output { bytes, .. } = event {
                received += bytes.len();
            }
        });
        assert_eq!((code, received), (Ok(0), 1000 * (64 << 10)));
    });
}

#[test]
fn a_job_that_is_refused_does_not_begin() {
    let root = tempfile::tempdir().unwrap();
    let (inside, outside) = (root.path().join("in"), root.path().join("out"));
    fs::create_dir_all(&inside).unwrap();
    fs::create_dir_all(&outside).unwrap();
    symlink("../out", inside.join("link")).unwrap();
    let within = |read_only| Restriction {
        directory: Some(inside.clone()),
        read_only,
        ..Restriction::default()
    };
    let outside_of = |path: &Path| Refusal::Outside { path: path.to_str().unwrap().into() };
    let parent = inside.join("..");
    let link = inside.join("link");
    let nowhere = inside.join("nowhere");
    for (restriction, writable, refusal) in [
        (Restriction { read_only: true, ..Restriction::default() }, &inside, Refusal::ReadOnly),
        (within(true), &inside, Refusal::ReadOnly),
        (within(false), &outside, outside_of(&outside)),
        (within(false), &parent, outside_of(&parent)),
        (within(false), &link, outside_of(&link)),
        (within(false), &nowhere, outside_of(&nowhere)),
    ] {
        let sources = [root.path().to_owned()];
        let (near, far, events) = run(
            Line::Socket,
            &sources,
            &restriction,
            std::slice::from_ref(writable),
            &never,
            |_, _| panic!("it begins"),
        );
        let refused = RemoteError::Refused(refusal);
        assert!(!refused.to_string().is_empty());
        let expected = Err(refused);
        assert_eq!((&near, &far, events), (&expected, &expected, Events::default()));
    }
    // By the program.
    let (near, far) = connection(Line::Socket);
    thread::scope(|scope| {
        scope.spawn(|| {
            let Ok(Accepted::Run(request)) = accept(far, &long(), &everywhere()) else { panic!() };
            let refusal = Refusal::Arguments { message: "unknown flag --x".into() };
            assert!(request.refuse(refusal).is_err());
        });
        let sources = [root.path().to_owned()];
        let near = push(near, &long(), None, &job(&["--x"]), &sources, &never, &mut |_| ());
        let error = near.unwrap_err().to_string();
        assert!(error.contains("unknown flag --x"), "{error}");
    });
}

#[test]
fn a_restricted_job_reads_and_writes_in_its_directory_alone() {
    let root = tempfile::tempdir().unwrap();
    let (inside, outside) = (root.path().join("in"), root.path().join("out"));
    fs::create_dir_all(inside.join("d")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    let restriction = Restriction { directory: Some(inside.clone()), ..Restriction::default() };
    let sources = [root.path().to_owned()];
    let (near, far, _) =
        run(Line::Socket, &sources, &restriction, &[inside.join("d")], &never, |_, _| {
            fs::write(inside.join("d/f"), "f").unwrap();
            assert_eq!(fs::read(inside.join("d/f")).unwrap(), b"f");
            fs::rename(inside.join("d/f"), inside.join("f")).unwrap();
            // Facts about the system stay readable, as the engine needs them.
            fs::read("/proc/self/status").unwrap();
            for path in [outside.join("secret"), "/etc/shadow".into(), "/etc/hostname".into()] {
                let error = fs::read(&path).unwrap_err();
                assert!(matches!(error.raw_os_error(), Some(13 | 2)), "{path:?} {error}");
            }
            assert!(fs::read_dir(&outside).is_err());
            assert!(fs::write(outside.join("new"), "x").is_err());
            0
        });
    assert_eq!((near, far), (Ok(0), Ok(0)));
}

#[test]
fn a_restricted_login_serves_its_directory_alone() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("in");
    fs::create_dir_all(inside.join("d")).unwrap();
    fs::write(inside.join("d/f"), "inside").unwrap();
    fs::write(root.path().join("secret"), "secret").unwrap();
    symlink("../secret", inside.join("out")).unwrap();
    symlink(root.path().join("secret"), inside.join("absolute")).unwrap();
    symlink("..", inside.join("up")).unwrap();
    symlink("d", inside.join("link")).unwrap();
    let restriction = |read_only| Restriction {
        directory: Some(inside.clone()),
        read_only,
        ..Restriction::default()
    };
    let begin = |roots: &[&Path], read_only| {
        let (near, far) = connection(Line::Socket);
        let far = serve(far, restriction(read_only));
        let roots: Vec<OsString> = roots.iter().map(|root| root.into()).collect();
        (pull(near, &long(), None, &roots, &never), far)
    };
    for outside in [
        Path::new("/"),
        Path::new("/etc/passwd"),
        Path::new(".."),
        Path::new("d/../.."),
        Path::new("d/.."),
        &root.path().join("secret"),
        &root.path().join("in/../secret"),
        &root.path().join("inn"),
    ] {
        let (begun, far) = begin(&[Path::new("d"), outside], true);
        let path = outside.to_str().unwrap().into();
        let refused = RemoteError::Refused(Refusal::Outside { path });
        assert_eq!(begun.unwrap_err(), refused);
        assert_eq!(far.join().unwrap(), Err(refused));
    }
    for read_only in [false, true] {
        let names =
            ["", ".", "d", "d/f", "link", "link/", "out", "absolute", "up", "up/secret", "link/f"];
        let mut roots: Vec<&Path> = names.iter().map(Path::new).collect();
        let whole = inside.join("d/f");
        roots.push(&whole);
        roots.push(&inside);
        let (begun, far) = begin(&roots, read_only);
        let begun = begun.unwrap();
        let source = begun.source();
        let open = |root: &str, follows| {
            let number = names.iter().position(|name| *name == root).unwrap();
            source.open_root(number as u32, follows)
        };
        for root in ["", ".", "d", "d/f", "link", "link/", "link/f"] {
            for follows in [false, true] {
                open(root, follows).unwrap();
            }
        }
        for number in [names.len(), names.len() + 1] {
            source.open_root(number as u32, false).unwrap();
        }
        for root in ["out", "absolute", "up"] {
            open(root, false).unwrap();
            assert_eq!(errno(open(root, true)), 18, "{root}");
        }
        assert_eq!(errno(open("up/secret", false)), 18);
        assert_eq!(errno(open("up/secret", true)), 18);
        let top = open(".", false).unwrap().handle;
        let file = source.open(top, name("link"), true).unwrap().handle;
        let file = source.open(file, name("f"), false).unwrap().handle;
        assert_eq!(read_range(&source, file, 0..10).unwrap(), b"inside");
        assert_eq!(errno(source.open(top, name("up"), true)), 18);
        begun.end().unwrap();
        far.join().unwrap().unwrap();
    }
}

/// Streams whose other end neither reads nor writes, or only greets.
fn silent() -> (Streams, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    (of_socket(near), far)
}

#[test]
fn a_peer_that_is_silent_is_taken_for_dead_and_one_that_pings_is_not() {
    let root = tempfile::tempdir().unwrap();
    let short = Limits { ping: Duration::from_millis(50), silence: Duration::from_millis(400) };
    // Both are alive, and have nothing to say for long.
    let (near, far) = connection(Line::Socket);
    thread::scope(|scope| {
        scope.spawn(|| {
            let Ok(Accepted::Run(request)) = accept(far, &short, &everywhere()) else { panic!() };
            let ran = request.run(&[], |_, output| {
                thread::sleep(Duration::from_millis(1500));
                u8::from(output.is_stopping())
            });
            assert_eq!(ran, Ok(0));
        });
        let sources = [root.path().to_owned()];
        let code = push(near, &short, None, &job(&[]), &sources, &never, &mut |_| ());
        assert_eq!(code, Ok(0));
    });
    // The other end greets and is silent from then on, reads nothing, and keeps the streams open.
    let greeting =
        uncopy_wire::Greeting { versions: uncopy_wire::Versions::OWN, program: "x".into() };
    let sources = [root.path().to_owned()];
    for begins in 0..2 {
        let (near, mut far) = silent();
        far.write_all(&greeting.encode()).unwrap();
        let begin = Instant::now();
        let error = match begins {
            0 => push(near, &short, None, &job(&[]), &sources, &never, &mut |_| ()).unwrap_err(),
            _ => pull(near, &short, None, &["x".into()], &never).unwrap_err(),
        };
        assert!(error.to_string().contains("nothing has come"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(10));
        drop(far);
    }
    // Questions wait no longer either.
    let (near, mut far) = silent();
    far.write_all(&greeting.encode()).unwrap();
    let accepted = uncopy_wire::Session::new(uncopy_wire::End::Far);
    let mut accepted = accepted;
    let request = uncopy_wire::Message::Job(uncopy_wire::Job::Serve { roots: vec![b"x".to_vec()] });
    let request = uncopy_wire::Session::new(uncopy_wire::End::Near).send(&request).unwrap();
    accepted.take(request).unwrap();
    let frame = accepted.send(&uncopy_wire::Message::Accepted { is_confined: true }).unwrap();
    far.write_all(&frame.encode()).unwrap();
    let begun = pull(near, &short, None, &["x".into()], &never).unwrap();
    let source = begun.source();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let asked = source.open_root(0, false);
                assert!(matches!(asked, Err(PeerError::Lost { .. })), "{asked:?}");
            });
        }
    });
    assert!(begun.end().is_err());
    drop(far);
}

/// Its signs of life are taken for the rest of a frame whose length was damaged.
#[test]
fn a_frame_that_does_not_end_is_not_waited_for() {
    let short = Limits { ping: Duration::from_millis(50), silence: Duration::from_millis(400) };
    let greeting =
        uncopy_wire::Greeting { versions: uncopy_wire::Versions::OWN, program: "x".into() };
    let (near, mut far) = silent();
    far.write_all(&greeting.encode()).unwrap();
    let alive = thread::spawn(move || {
        let mut session = uncopy_wire::Session::new(uncopy_wire::End::Far);
        let mut damaged = session.send(&uncopy_wire::Message::Ping).unwrap().encode();
        let ping = damaged.clone();
        damaged[..4].copy_from_slice(&100_000_u32.to_le_bytes());
        far.write_all(&damaged).unwrap();
        // Until the other end gives up.
        while far.write_all(&ping).is_ok() {
            thread::sleep(short.ping);
        }
    });
    let error = pull(near, &short, None, &["x".into()], &never).unwrap_err();
    // On a busy machine its signs of life may be late too.
    let said = error.to_string();
    assert!(["has not come", "nothing has come"].iter().any(|end| said.contains(end)), "{said}");
    alive.join().unwrap();
}

/// Stream that takes a number of writes, and then fails.
struct Failing {
    to: UnixStream,
    left: usize,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.to.write(bytes)
            }
            None => Err(std::io::Error::from_raw_os_error(5)),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Its own stream may be held by another process, so that the other end sees nothing.
#[test]
fn an_end_that_cannot_write_fails_at_once() {
    let versions = uncopy_wire::Versions::OWN;
    let greeting = uncopy_wire::Greeting { versions, program: "x".into() }.encode();
    let message = |session: &mut uncopy_wire::Session, message| {
        session.send(&uncopy_wire::Message::Job(message)).unwrap().encode()
    };
    let streams = |left| {
        let (own, other) = UnixStream::pair().unwrap();
        (Streams::new(own.try_clone().unwrap(), Failing { to: own, left }), other)
    };
    let begin = Instant::now();
    let check = |error: RemoteError| {
        assert!(error.to_string().contains("writing to it failed"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(20));
    };
    // The far end: all but the greeting, or only its exit code.
    for left in 1..3 {
        let (far, mut near) = streams(left);
        near.write_all(&greeting).unwrap();
        let run = uncopy_wire::Job::Run { arguments: vec![], sources: vec![b"/".into()] };
        near.write_all(&message(&mut uncopy_wire::Session::new(uncopy_wire::End::Near), run))
            .unwrap();
        let Ok(Accepted::Run(request)) = accept(far, &long(), &everywhere()) else { panic!() };
        let ran = request.run(&[], |_, _| {
            // Writes the frames before on their own.
            thread::sleep(Duration::from_millis(200));
            0
        });
        check(ran.unwrap_err());
        drop(near);
    }
    let (far, mut near) = streams(1);
    near.write_all(&greeting).unwrap();
    let serve = uncopy_wire::Job::Serve { roots: vec![b"/".into()] };
    near.write_all(&message(&mut uncopy_wire::Session::new(uncopy_wire::End::Near), serve))
        .unwrap();
    let Ok(Accepted::Serve(request)) = accept(far, &long(), &everywhere()) else { panic!() };
    check(thread::spawn(|| request.serve().unwrap_err()).join().unwrap());
    // The near end: its job.
    let sources = [PathBuf::from("/")];
    for pushes in [true, false] {
        let (near, mut far) = streams(1);
        far.write_all(&greeting).unwrap();
        check(match pushes {
            true => {
                push(near, &long(), None, &job(&[]), &sources, &never, &mut |_| ()).unwrap_err()
            }
            false => pull(near, &long(), None, &["x".into()], &never).unwrap_err(),
        });
        drop(far);
    }
    drop(near);
}

#[test]
fn an_end_that_lives_and_does_not_take_the_job_is_given_up() {
    let short = Limits { ping: Duration::from_millis(50), silence: Duration::from_millis(300) };
    let versions = uncopy_wire::Versions::OWN;
    let greeting = uncopy_wire::Greeting { versions, program: "x".into() }.encode();
    let sources = [PathBuf::from("/")];
    for pushes in [true, false] {
        let (near, mut far) = silent();
        far.write_all(&greeting).unwrap();
        let pings = thread::spawn(move || {
            let mut session = uncopy_wire::Session::new(uncopy_wire::End::Far);
            let job = uncopy_wire::Job::Serve { roots: vec![b"x".to_vec()] };
            let job = uncopy_wire::Message::Job(job);
            let job = uncopy_wire::Session::new(uncopy_wire::End::Near).send(&job).unwrap();
            session.take(job).unwrap();
            let ping = session.send(&uncopy_wire::Message::Ping).unwrap().encode();
            while far.write_all(&ping).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let since = Instant::now();
        let error = match pushes {
            true => push(near, &short, None, &job(&[]), &sources, &never, &mut |_| ()).unwrap_err(),
            false => pull(near, &short, None, &["x".into()], &never).unwrap_err(),
        };
        assert_eq!(error, RemoteError::NotTaken { limit: short.silence * 2 });
        assert!(since.elapsed() >= short.silence * 2, "{:?}", since.elapsed());
        pings.join().unwrap();
    }
}

#[test]
fn an_end_that_does_not_begin_is_taken_for_dead() {
    let short = Limits { ping: Duration::from_millis(50), silence: Duration::from_millis(300) };
    let versions = uncopy_wire::Versions::OWN;
    let greeting = uncopy_wire::Greeting { versions, program: "x".into() }.encode();
    let silent_error = |awaited| RemoteError::Silent { awaited, silence: short.silence };
    // The far end, before the greeting and behind it, and in the middle of either.
    for begin in [&b""[..], &greeting[..5], &greeting, &[&greeting[..], &[9, 0]].concat()] {
        let (far, mut near) = silent();
        near.write_all(begin).unwrap();
        let since = Instant::now();
        assert_eq!(accept(far, &short, &everywhere()).unwrap_err(), silent_error("job"));
        assert!(since.elapsed() >= short.silence);
        drop(near);
    }
    // It says nothing but that it lives.
    let (far, mut near) = silent();
    near.write_all(&greeting).unwrap();
    let mut session = uncopy_wire::Session::new(uncopy_wire::End::Near);
    let ping = session.send(&uncopy_wire::Message::Ping).unwrap().encode();
    let pings = thread::spawn(move || {
        for _ in 0..1000 {
            if near.write_all(&ping).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(accept(far, &short, &everywhere()).unwrap_err(), silent_error("job"));
    drop(pings);
    // The near end, which has patience with a login until something comes.
    let sources = [PathBuf::from("/")];
    for begin in [&b"Welcome"[..], &greeting[..20]] {
        for pushes in [true, false] {
            let (near, mut far) = silent();
            let login = short.silence * 3;
            let begin = begin.to_vec();
            let logs_in = thread::spawn(move || {
                thread::sleep(login);
                far.write_all(&begin).unwrap();
                far
            });
            let since = Instant::now();
            let error = match pushes {
                true => {
                    push(near, &short, None, &job(&[]), &sources, &never, &mut |_| ()).unwrap_err()
                }
                false => pull(near, &short, None, &["x".into()], &never).unwrap_err(),
            };
            assert_eq!(error, silent_error("greeting"));
            assert!(since.elapsed() >= login + short.silence, "{:?}", since.elapsed());
            drop(logs_in.join().unwrap());
        }
    }
}

/// Each part comes within the limit, and all of them together do not.
#[test]
fn a_slow_beginning_is_waited_for() {
    let limits = Limits { ping: Duration::from_millis(50), silence: Duration::from_millis(500) };
    let (far, mut near) = silent();
    let slow = thread::spawn(move || {
        let versions = uncopy_wire::Versions::OWN;
        let mut bytes = uncopy_wire::Greeting { versions, program: "x".into() }.encode();
        let job = uncopy_wire::Message::Job(uncopy_wire::Job::Serve { roots: vec![b"/".into()] });
        let job = uncopy_wire::Session::new(uncopy_wire::End::Near).send(&job).unwrap();
        bytes.extend(job.encode());
        for part in bytes.chunks(8) {
            near.write_all(part).unwrap();
            thread::sleep(Duration::from_millis(200));
        }
        near
    });
    assert!(matches!(accept(far, &limits, &everywhere()), Ok(Accepted::Serve(_))));
    drop(slow.join().unwrap());
}

#[test]
fn a_session_is_given_up_while_the_other_end_is_waited_for() {
    let stop = AtomicBool::new(false);
    let requested = || stop.swap(true, Ordering::Relaxed);
    let (near, far) = silent();
    let sources = [PathBuf::from("/")];
    let pushed = push(near, &long(), None, &job(&[]), &sources, &requested, &mut |_| ());
    assert_eq!(pushed, Err(RemoteError::Stopped));
    drop(far);
    stop.store(false, Ordering::Relaxed);
    let (near, mut far) = silent();
    let versions = uncopy_wire::Versions::OWN;
    let greeting = uncopy_wire::Greeting { versions, program: "x".into() };
    far.write_all(&greeting.encode()).unwrap();
    let pulled = pull(near, &long(), None, &["x".into()], &requested);
    assert_eq!(pulled.unwrap_err(), RemoteError::Stopped);
}

#[test]
fn far_ends_that_are_no_uncopy_or_another_version_are_named() {
    let sources = [PathBuf::from("/")];
    let begin = |bytes: &[u8]| {
        let (near, mut far) = silent();
        let bytes = bytes.to_vec();
        let far = thread::spawn(move || {
            let _ = far.write_all(&bytes);
            let _ = far.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut far, &mut std::io::sink());
        });
        let error =
            push(near, &long(), None, &job(&[]), &sources, &never, &mut |_| ()).unwrap_err();
        far.join().unwrap();
        error
    };
    let banner = b"\n  Welcome \x1b[1m!\n".to_vec();
    let error = begin(&banner);
    assert_eq!(error, RemoteError::NoGreeting { shown: banner });
    assert!(error.to_string().contains("Welcome [1m!"), "{error}");
    let long_banner = vec![b'x'; 70 << 10];
    assert!(matches!(begin(&long_banner), RemoteError::NotUncopy { .. }));
    let versions = uncopy_wire::Versions { min: 7, max: 9 };
    let greeting = uncopy_wire::Greeting { versions, program: "9.9".into() };
    let error = begin(&greeting.encode());
    assert_eq!(error, RemoteError::Versions { program: "9.9".into(), min: 7, max: 9 });
    // More names than a job takes.
    let (near, far) = connection(Line::Socket);
    let far = thread::spawn(move || accept(far, &long(), &everywhere()).map(|_| ()));
    let names = vec![OsString::from("n".repeat(4000)); 400];
    let many = RunJob { arguments: vec![], sources: names };
    let error = push(near, &long(), None, &many, &sources, &never, &mut |_| ()).unwrap_err();
    assert_eq!(error, RemoteError::TooManyNames);
    assert!(matches!(far.join().unwrap(), Err(RemoteError::Lost { .. })));
}
