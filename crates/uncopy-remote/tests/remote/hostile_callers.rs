//! Callers that send what no caller sends: they see nothing outside the roots.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use testbed::by_extent;
use uncopy_copy::peer::Peer;
use uncopy_remote::{RemoteError, Restriction};
use uncopy_wire::{
    End, Frame, FrameKind, Frames, Greeting, GreetingSearch, Job, Message, Received, Session,
    Versions, Violation,
};

use crate::support::{FarThread, Line, Pulled, name, of_socket, serve};

/// Near end that sends frames as it likes.
pub(crate) struct Raw {
    stream: UnixStream,
    session: Session,
    frames: Frames,
    far: FarThread,
}

impl Raw {
    fn new(roots: &[&Path]) -> Raw {
        Raw::with(roots, Restriction::default())
    }

    pub(crate) fn with(roots: &[&Path], restriction: Restriction) -> Raw {
        let (mut stream, far) = UnixStream::pair().unwrap();
        let far = serve(of_socket(far), restriction);
        let greeting = Greeting { versions: Versions::OWN, program: "raw".into() };
        stream.write_all(&greeting.encode()).unwrap();
        let mut search = GreetingSearch::default();
        let mut frames = Frames::default();
        loop {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            if let Some((_, behind)) = search.feed(&byte).unwrap() {
                frames.feed(&behind);
                break;
            }
        }
        let mut session = Session::new(End::Near);
        let roots = roots.iter().map(|root| root.to_str().unwrap().into()).collect();
        let job = session.send(&Message::Job(Job::Serve { roots })).unwrap();
        let mut raw = Raw { stream, session, frames, far };
        raw.send(&job);
        let machine = raw.hear().unwrap();
        assert!(matches!(machine, Message::Machine(_)), "{machine:?}");
        assert_eq!(raw.hear(), Some(Message::Accepted { is_confined: true }));
        raw
    }

    fn send(&mut self, frame: &Frame) {
        // The far end may have closed the connection.
        let _ = self.stream.write_all(&frame.encode());
    }

    /// Waits for a frame; `None`: the far end has closed the connection.
    fn next(&mut self) -> Option<Frame> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(frame) = self.frames.next().unwrap() {
                return Some(frame);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.frames.feed(&buffer[..count]),
            }
        }
    }

    /// Sends a message, as far as it may be sent.
    pub(crate) fn say(&mut self, message: &Message) {
        let frame = self.session.send(message).unwrap();
        self.send(&frame);
    }

    /// Waits for a message; `None`: the far end has closed the connection.
    pub(crate) fn hear(&mut self) -> Option<Message> {
        let frame = self.next()?;
        match self.session.take(frame).unwrap() {
            Received::Message(message) => Some(message),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn call(&mut self, id: u32, payload: &[u8]) -> Option<Frame> {
        self.send(&Frame { kind: FrameKind::Call, call: id, payload: payload.to_vec() });
        self.next()
    }

    /// Returns the error with which the far end has ended.
    pub(crate) fn end(self) -> Result<(), RemoteError> {
        drop(self.stream);
        self.far.join().unwrap()
    }
}

/// Opens the root, as the handle 0.
const ROOT: [u8; 6] = [1, 0, 0, 0, 0, 0];

fn open(name: &[u8], follows: bool) -> Vec<u8> {
    let length = (name.len() as u32).to_le_bytes();
    [&[2, 0, 0, 0, 0, u8::from(follows)][..], &length, name].concat()
}

fn look(name: &[u8]) -> Vec<u8> {
    let length = (name.len() as u32).to_le_bytes();
    [&[4, 0, 0, 0, 0][..], &length, name].concat()
}

#[test]
fn names_that_lead_elsewhere_end_the_session() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir_all(root.join("d")).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    let long = [b'n'; 1025];
    for bad in [&b".."[..], b".", b"", b"d/x", b"../secret", b"/etc/passwd", b"d\0", &long] {
        for call in [open(bad, false), open(bad, true), look(bad)] {
            let mut raw = Raw::new(&[&root]);
            assert_eq!(raw.call(0, &ROOT).unwrap().kind, FrameKind::Answer);
            assert_eq!(raw.call(1, &call), None, "{bad:?}");
            assert_eq!(raw.end(), Err(RemoteError::Violation(Violation::BadName)), "{bad:?}");
        }
    }
    // Names that are too long for the filesystem are errors of the entry.
    let mut raw = Raw::new(&[&root]);
    raw.call(0, &ROOT).unwrap();
    for (id, name) in [(1, [b'n'; 256].to_vec()), (2, [b'n'; 1024].to_vec())] {
        let answer = raw.call(id, &look(&name)).unwrap();
        assert_eq!((answer.kind, &answer.payload[..]), (FrameKind::Failed, &[36, 0][..]));
    }
    raw.end().unwrap();
}

#[test]
fn handles_and_roots_of_others_end_the_session() {
    let root = tempfile::tempdir().unwrap();
    for (call, expected) in [
        (vec![1, 1, 0, 0, 0, 0], Violation::BadRoot { number: 1 }),
        (vec![5, 9, 0, 0, 0], Violation::BadHandle { handle: 9 }),
        (vec![9, 3, 0, 0, 0], Violation::BadHandle { handle: 3 }),
        (vec![99], Violation::Malformed { what: "call" }),
        (vec![], Violation::Malformed { what: "call" }),
    ] {
        let mut raw = Raw::new(&[root.path()]);
        raw.call(0, &ROOT).unwrap();
        assert_eq!(raw.call(1, &call), None);
        assert_eq!(raw.end(), Err(RemoteError::Violation(expected)));
    }
    // Frames of the other side, and of no kind.
    for kind in [FrameKind::Answer, FrameKind::Exit, FrameKind::Accepted, FrameKind::Job] {
        let mut raw = Raw::new(&[root.path()]);
        raw.send(&Frame { kind, call: 0, payload: vec![0] });
        assert_eq!(raw.next(), None);
        assert!(matches!(raw.end(), Err(RemoteError::Violation(_))), "{kind:?}");
    }
    let mut raw = Raw::new(&[root.path()]);
    raw.stream.write_all(&[0xff; 9]).unwrap();
    assert_eq!(raw.next(), None);
    let too_long = Violation::FrameTooLong { bytes: u32::MAX };
    assert_eq!(raw.end(), Err(RemoteError::Violation(too_long)));
}

#[test]
fn a_million_calls_at_once_end_the_session_or_are_answered() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), vec![1; 1 << 20]).unwrap();
    let mut raw = Raw::new(&[root.path()]);
    raw.call(0, &ROOT).unwrap();
    raw.call(1, &open(b"f", false)).unwrap();
    let read = [&[7, 1, 0, 0, 0][..], &[0; 8], &(1_u32 << 20).to_le_bytes()].concat();
    let call = |id| Frame { kind: FrameKind::Call, call: id, payload: read.clone() }.encode();
    let many: Vec<u8> = (0..10_000).flat_map(call).collect();
    // Nothing is read meanwhile, so that answers cannot get away; nor is it at the far end in the end.
    raw.stream.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    for _ in 0..100 {
        if raw.stream.write_all(&many).is_err() {
            break;
        }
    }
    let violation = raw.end().unwrap_err();
    let expected = [Violation::TooManyCalls, Violation::CallTwice { call: 0 }];
    assert!(
        matches!(violation, RemoteError::Violation(found) if expected.contains(&found)),
        "{violation:?}"
    );
}

#[test]
fn a_caller_that_vanishes_ends_the_serving_end_and_its_descriptors() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..50 {
        fs::write(root.path().join(format!("kept-open-{number}")), "x").unwrap();
    }
    let of_root = || {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap();
        let is_of_root = |path: &std::path::PathBuf| path.starts_with(root.path());
        descriptors
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .filter(is_of_root)
            .count()
    };
    let mut raw = Raw::new(&[root.path()]);
    raw.call(0, &ROOT).unwrap();
    for number in 0..50 {
        let name = format!("kept-open-{number}");
        raw.call(number + 1, &open(name.as_bytes(), false)).unwrap();
    }
    assert_eq!(of_root(), 51);
    raw.end().unwrap();
    for _ in 0..1000 {
        if of_root() == 0 {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{} descriptors are left", of_root());
}

#[test]
fn links_that_are_planted_meanwhile_lead_nowhere() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir_all(root.join("d")).unwrap();
    fs::create_dir_all(outer.path().join("outside")).unwrap();
    fs::write(outer.path().join("outside/f"), "outside").unwrap();
    fs::write(root.join("d/f"), "inside").unwrap();
    symlink("../outside", root.join("swapped")).unwrap();
    symlink("swapped", root.join("link")).unwrap();
    let stop = AtomicBool::new(false);
    let pulled = Pulled::new(Line::Socket, &[&root]);
    let source = pulled.source();
    thread::scope(|scope| {
        scope.spawn(|| {
            let exchange = |a: &str, b: &str| {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let cwd = rustix::fs::CWD;
                rustix::fs::renameat_with(cwd, root.join(a), cwd, root.join(b), flags).unwrap();
            };
            while !stop.load(Ordering::Relaxed) {
                exchange("d", "swapped");
            }
        });
        let top = source.open_root(0, false).unwrap().handle;
        let (mut opened, mut failed) = (0, 0);
        for _ in 0..by_extent([300, 2000, 20_000]) {
            for (directory, follows) in [("d", false), ("d", true), ("link", true)] {
                let Ok(found) = source.open(top, name(directory), follows) else {
                    failed += 1;
                    continue;
                };
                for follows in [false, true] {
                    if let Ok(file) = source.open(found.handle, name("f"), follows) {
                        assert_eq!(file.stat.size, 6, "it is the file outside");
                        source.close(file.handle);
                        opened += 1;
                    }
                }
                if let Ok(looked) = source.look(found.handle, name("f")) {
                    assert_eq!(looked.stat.size, 6, "it is the file outside");
                }
                source.close(found.handle);
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(opened > 0 && failed > 0, "{opened} {failed}");
    });
    pulled.end();
}

#[test]
fn the_serving_threads_can_open_nothing_outside_even_by_mistake() {
    // The kernel confines even a thread of the serving end that opens by path.
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir_all(&root).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    fs::write(root.join("f"), "inside").unwrap();
    let (_near, far) = UnixStream::pair().unwrap();
    let (inside, secret) = (root.join("f"), outer.path().join("secret"));
    // A pipe and a socket lie in no directory: the kernel takes no rule for them.
    let (pipe, _kept) = std::io::pipe().unwrap();
    let (socket, _also_kept) = UnixStream::pair().unwrap();
    let nowhere = [pipe.as_raw_fd(), socket.as_raw_fd()].map(|fd| format!("/proc/self/fd/{fd}"));
    let mut roots: Vec<Vec<u8>> = vec![root.to_str().unwrap().into()];
    roots.extend(nowhere.map(String::into_bytes));
    thread::spawn(move || {
        let mut session = Session::new(End::Near);
        let job = session.send(&Message::Job(Job::Serve { roots })).unwrap();
        let greeting = Greeting { versions: Versions::OWN, program: "x".into() };
        let sent = [greeting.encode(), job.encode()].concat();
        let streams = uncopy_remote::Streams::new(std::io::Cursor::new(sent), far);
        let limits = crate::support::long();
        let accepted = uncopy_remote::accept(streams, &limits, &Restriction::default());
        let Ok(uncopy_remote::Accepted::Serve(request)) = accepted else { panic!() };
        request.serve().unwrap();
        // The thread that served stays confined.
        assert_eq!(fs::read(inside).unwrap(), b"inside");
        assert_eq!(fs::read(secret).unwrap_err().raw_os_error(), Some(13));
        assert_eq!(fs::read("/etc/passwd").unwrap_err().raw_os_error(), Some(13));
        assert!(fs::write(root.join("new"), "x").is_err());
    })
    .join()
    .unwrap();
}
