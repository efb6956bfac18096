//! Servers that answer what no server answers: the caller's questions end with the loss of the connection, and its memory
//! is bounded.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use uncopy_copy::peer::{Peer, PeerContents, PeerError, PeerHandle};
use uncopy_remote::RemoteSource;
use uncopy_wire::{
    Call, End, Entry, Frame, FrameKind, Frames, Greeting, GreetingSearch, Job, Kind, Message, Page,
    PageEntry, Received, Server, Session, Status, Versions,
};

use crate::support::{long, name, never, of_socket, read_range, up_to};
use uncopy_remote::pull;

/// Answer of a server that may send anything.
pub(crate) type Answer = dyn Fn(&mut Server, u32, &Call) -> Vec<Frame> + Send;

/// Answer to a message of the near end.
pub(crate) type Reply = dyn FnMut(Message) -> Vec<Message> + Send;

/// Serves by a function, and ends when the caller does.
pub(crate) fn run(mut stream: UnixStream, answer: &Answer, reply: &mut Reply) {
    let greeting = Greeting { versions: Versions::OWN, program: "hostile".into() };
    let _ = stream.write_all(&greeting.encode());
    let (mut search, mut frames) = (Some(GreetingSearch::default()), Frames::default());
    let mut session = Session::new(End::Far);
    let mut server = Server::new(1);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
        match &mut search {
            Some(found) => {
                if let Some((_, behind)) = found.feed(&buffer[..count]).unwrap() {
                    frames.feed(&behind);
                    search = None;
                }
            }
            None => frames.feed(&buffer[..count]),
        }
        while let Some(frame) = frames.next().unwrap() {
            let answers = match session.take(frame).unwrap() {
                Received::Message(Message::Job(Job::Serve { .. })) => {
                    vec![session.send(&Message::Accepted { is_confined: true }).unwrap()]
                }
                Received::Message(message) => {
                    let replies = reply(message);
                    replies.iter().map(|message| session.send(message).unwrap()).collect()
                }
                Received::Answer(_) => vec![],
                Received::Call(frame) => {
                    let request = server.take(&frame).unwrap();
                    answer(&mut server, request.id, &request.call)
                }
            };
            for frame in answers {
                if stream.write_all(&frame.encode()).is_err() {
                    return;
                }
            }
        }
    }
}

fn with_server(answer: Box<Answer>, ask: impl FnOnce(&RemoteSource)) {
    let (near, far) = UnixStream::pair().unwrap();
    let far = thread::spawn(move || run(far, &*answer, &mut |_| vec![]));
    let begun = pull(of_socket(near), &long(), None, &["x".into()], &never).unwrap();
    ask(&begun.source());
    drop(begun);
    far.join().unwrap();
}

fn status(kind: Kind, size: u64) -> Status {
    Status { kind, size, ..Status::default() }
}

/// Opens roots as directories, and everything else as files of this size.
fn opened(server: &mut Server, id: u32, call: &Call) -> Option<Vec<Frame>> {
    match call {
        Call::Root { .. } => Some(vec![server.opened(id, &status(Kind::Directory, 0)).unwrap().1]),
        Call::Open { .. } => Some(vec![server.opened(id, &status(Kind::File, 1 << 62)).unwrap().1]),
        _ => None,
    }
}

fn is_lost<T: std::fmt::Debug>(answer: &Result<T, PeerError>) {
    assert!(matches!(answer, Err(PeerError::Lost { .. })), "{answer:?}");
}

/// Answers every call but those that open with this frame.
fn raw(kind: FrameKind, payload: Vec<u8>) -> Box<Answer> {
    Box::new(move |server, id, call| {
        opened(server, id, call)
            .unwrap_or_else(|| vec![Frame { kind, call: id, payload: payload.clone() }])
    })
}

#[test]
fn more_than_was_asked_for_is_no_answer() {
    // A byte more than wanted, a size that is none, a wrong errno, ranges out of order, an empty page that is not last.
    let range = |from: u64, to: u64| [from.to_le_bytes(), to.to_le_bytes()].concat();
    let backwards = [vec![1], range(10, 20), range(5, 7)].concat();
    let directory_and_file = |source: &RemoteSource| {
        let directory = source.open_root(0, false).unwrap().handle;
        (directory, source.open(directory, name("f"), false).unwrap().handle)
    };
    with_server(raw(FrameKind::Answer, vec![7; 11]), |source| {
        let (_, file) = directory_and_file(source);
        is_lost(&read_range(source, file, 0..10));
        // From then on nothing is answered.
        is_lost(&source.open_root(0, false));
    });
    with_server(raw(FrameKind::Answer, vec![0xff; 200]), |source| {
        let (_, file) = directory_and_file(source);
        is_lost(&source.examine(file));
    });
    with_server(raw(FrameKind::Failed, vec![0, 0]), |source| {
        let (_, file) = directory_and_file(source);
        is_lost(&source.attributes(file));
    });
    with_server(raw(FrameKind::Answer, backwards), |source| {
        let (_, file) = directory_and_file(source);
        is_lost(&source.data_ranges(file, 0));
    });
    with_server(raw(FrameKind::Answer, vec![0]), |source| {
        let (directory, _) = directory_and_file(source);
        is_lost(&source.list(directory, PeerContents::default()));
    });
    with_server(raw(FrameKind::Call, vec![1, 0, 0, 0, 0, 0]), |source| {
        let (directory, _) = directory_and_file(source);
        is_lost(&source.list(directory, PeerContents::default()));
    });
    for kind in [FrameKind::Exit, FrameKind::Output, FrameKind::Job, FrameKind::Stop] {
        with_server(raw(kind, vec![1]), |source| {
            let (directory, _) = directory_and_file(source);
            is_lost(&source.look(directory, name("a")));
        });
    }
}

#[test]
fn names_of_a_listing_that_lead_elsewhere_are_lost_connections() {
    for bad in [&b".."[..], b"a/b", b"/etc/passwd", b"", b"a\0"] {
        let entry = Entry {
            name: bad.to_vec(),
            status: status(Kind::File, 0),
            target: None,
            contents: None,
            attributes: None,
        };
        let answer: Box<Answer> = Box::new(move |server, id, call| {
            opened(server, id, call).unwrap_or_else(|| {
                let mut page = Page::default();
                page.push(&PageEntry::Seen(entry.clone()));
                vec![server.page(id, &page, true, 0).unwrap()]
            })
        });
        with_server(answer, |source| {
            let directory = source.open_root(0, false).unwrap().handle;
            is_lost(&source.list(directory, PeerContents::default()));
        });
    }
}

/// Returns the memory of this process in bytes, without pages that files share.
fn memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let mut fields = statm.split(' ').map(|field| field.parse::<u64>().unwrap());
    let (resident, shared) = (fields.nth(1).unwrap(), fields.next().unwrap());
    (resident - shared) * 4096
}

#[test]
fn answers_ahead_take_bounded_memory_however_many_ask() {
    let answer: Box<Answer> = Box::new(|server, id, call| {
        opened(server, id, call).unwrap_or_else(|| match call {
            Call::Read { bytes, .. } => vec![server.data(id, vec![7; *bytes as usize]).unwrap()],
            Call::List { .. } | Call::ListFrom { .. } => {
                // Pages of the longest entries, without end.
                let mut page = Page::default();
                while !page.is_full() {
                    page.push(&PageEntry::Seen(Entry {
                        name: vec![b'n'; 1024],
                        status: status(Kind::File, 1 << 18),
                        target: None,
                        contents: Some(vec![1; 1 << 18]),
                        attributes: None,
                    }));
                }
                vec![server.page(id, &page, false, 0).unwrap()]
            }
            _ => vec![server.failed(id, 5).unwrap()],
        })
    });
    let before = memory();
    with_server(answer, |source| {
        let directory = source.open_root(0, false).unwrap().handle;
        let file = source.open(directory, name("f"), false).unwrap().handle;
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(move || {
                    // Everyone waits in the middle of a long read, so that all may be ahead.
                    let mut parts = 0;
                    let read = source.read(file, 0..1 << 40, 0, &mut |_| {
                        thread::sleep(Duration::from_millis(100));
                        parts += 1;
                        parts < 4
                    });
                    assert_eq!(read.unwrap(), 4 << 18);
                });
            }
            for _ in 0..8 {
                scope.spawn(move || {
                    let directory = source.open_root(0, false).unwrap().handle;
                    for _ in 0..20 {
                        let page = source.list(directory, up_to(1 << 18)).unwrap();
                        assert!(!page.is_last && page.entries.len() == 1);
                    }
                    source.close(directory);
                });
            }
            thread::sleep(Duration::from_millis(400));
            let taken = memory().saturating_sub(before);
            assert!(taken < 100 << 20, "{taken}");
        });
    });
}

#[test]
fn the_same_handle_twice_is_a_lost_connection() {
    let answer: Box<Answer> = Box::new(|_, id, _| {
        let mut other = Server::new(1);
        let root = [1, 0, 0, 0, 0, 0].to_vec();
        let call = Frame { kind: FrameKind::Call, call: id, payload: root };
        other.take(&call).unwrap();
        vec![other.opened(id, &status(Kind::Directory, 0)).unwrap().1]
    });
    with_server(answer, |source| {
        assert_eq!(source.open_root(0, false).unwrap().handle, PeerHandle(0));
        is_lost(&source.open_root(0, false));
    });
}
