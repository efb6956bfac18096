//! Tests both sides against each other, and against a peer that sends anything.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::prelude::*;
use uncopy_wire::{
    Answer, Attribute, Call, CallId, Caller, Entry, FailedEntry, Frame, FrameKind, Frames, Handle,
    Kind, MAX_CONTENTS_BYTES, MAX_NAMES, MAX_PATH_BYTES, MAX_PAYLOAD_BYTES, MAX_RANGES,
    MAX_READ_BYTES, Page, PageEntry, Request, Server, Status, Time, Violation,
};

const FAILED: u16 = 13;

/// Carries a frame over as bytes, in pieces of this size.
fn carry(frame: &Frame, piece: usize) -> Frame {
    let mut frames = Frames::default();
    for bytes in frame.encode().chunks(piece) {
        assert_eq!(frames.next(), Ok(None));
        frames.feed(bytes);
    }
    frames.next().unwrap().unwrap()
}

/// Both sides.
struct Line {
    caller: Caller,
    server: Server,
}

impl Line {
    fn new() -> Line {
        Line { caller: Caller::new(), server: Server::new(2) }
    }

    fn ask(&mut self, call: &Call) -> (CallId, u32) {
        let (id, frame) = self.caller.call(call).unwrap();
        let request = self.server.take(&carry(&frame, 7)).unwrap();
        assert_eq!(request, Request { id: id.number(), call: call.clone() });
        (id, request.id)
    }

    fn open(&mut self, kind: Kind) -> Handle {
        let (id, request) = self.ask(&Call::Root { number: 1, follows: true });
        let status = status(kind, 10);
        let (handle, frame) = self.server.opened(request, &status).unwrap();
        let handle = handle.unwrap();
        let taken = self.caller.take(carry(&frame, 5));
        assert_eq!(taken, Ok((id, Answer::Opened { handle, status, target: None })));
        handle
    }
}

fn status(kind: Kind, size: u64) -> Status {
    Status {
        kind,
        mode: 0o4755,
        links: 2,
        user: 1000,
        group: u32::MAX,
        size,
        blocks: 8,
        device: 1 << 40,
        inode: u64::MAX,
        special: 5,
        accessed: Time { seconds: -1, nanoseconds: 999_999_999 },
        modified: Time { seconds: i64::MAX, nanoseconds: 0 },
        changed: Time { seconds: i64::MIN, nanoseconds: 1 },
        birth: size.is_multiple_of(2).then_some(Time { seconds: 7, nanoseconds: 8 }),
    }
}

fn entry(name: &[u8], kind: Kind, contents: Option<&[u8]>) -> Entry {
    let status = status(kind, contents.map_or(1 << 50, |bytes| bytes.len() as u64));
    let target = (kind == Kind::Link).then(|| b"../\xff".to_vec());
    let contents = contents.map(<[u8]>::to_vec);
    Entry { name: name.to_vec(), status, target, contents, attributes: None }
}

fn list_from(directory: Handle, contents_up_to: u32, wants_attributes: bool) -> Call {
    Call::ListFrom { directory, position: Some(7), contents_up_to, wants_attributes }
}

fn look_all(directory: Handle, names: &[&[u8]]) -> Call {
    Call::LookAll {
        directory,
        way: vec![b"way".to_vec()],
        names: names.iter().map(|name| name.to_vec()).collect(),
        contents_up_to: 5,
        wants_attributes: true,
    }
}

/// Has a server answer with these entries.
fn named(server: &mut Server, id: u32, entries: &[PageEntry]) -> Result<Frame, Violation> {
    let mut page = Page::with_attributes();
    entries.iter().for_each(|entry| page.push(entry));
    server.named(id, &page)
}

fn page_answer(
    entries: Vec<Entry>,
    failed: Vec<FailedEntry>,
    is_last: bool,
    position: Option<u64>,
) -> Answer {
    Answer::Entries { entries, failed, is_last, position }
}

fn page(mut page: Page, entries: &[Entry]) -> Page {
    entries.iter().for_each(|entry| page.push(&PageEntry::Seen(entry.clone())));
    page
}

#[test]
fn each_call_has_its_answer_in_any_order() {
    let mut line = Line::new();
    let (directory, file) = (line.open(Kind::Directory), line.open(Kind::File));
    assert_ne!(directory, file);
    let entries: Vec<Entry> = Kind::ALL
        .iter()
        .enumerate()
        .map(|(number, kind)| entry(format!("{number}").as_bytes(), *kind, None))
        .chain([
            entry(b"small\xff", Kind::File, Some(b"bytes")),
            entry(b"-", Kind::File, Some(b"")),
        ])
        .collect();
    let attribute = |value| Attribute { name: b"user.a".into(), value };
    let mut attributes = vec![attribute(Some(vec![7; 64 << 10])); 16];
    attributes.push(attribute(None));
    let with_attributes = vec![
        Entry {
            attributes: Some(vec![attribute(Some(vec![7])), attribute(None)]),
            ..entry(b"-", Kind::File, Some(b"bytes"))
        },
        entry(b"0", Kind::Link, None),
    ];
    let failed = vec![FailedEntry { name: b"odd\xff".to_vec(), errno: 5 }; 2];
    let ranges: Vec<Range<u64>> =
        (1..=MAX_RANGES as u64).map(|at| at * 8192..at * 8192 + 4096).collect();
    let bytes: Vec<u8> = (0..MAX_READ_BYTES).map(|at| (at ^ (at >> 8)) as u8).collect();
    let name = b"name".to_vec();
    let looked = entry(&name, Kind::Link, None);
    let opened = status(Kind::File, 4);
    let read = |bytes| Call::Read { file, offset: 3, bytes };
    // Answers are given in the order of their numbers.
    let table: [(Call, usize, Answer); 19] = [
        (
            Call::Open { directory, name: name.clone(), follows: true },
            10,
            Answer::Opened { handle: Handle(2), status: opened, target: None },
        ),
        (
            Call::List { directory, contents_up_to: 5 },
            3,
            page_answer(entries.clone(), failed.clone(), false, None),
        ),
        (Call::List { directory, contents_up_to: 5 }, 4, page_answer(vec![], vec![], true, None)),
        (
            Call::ListFrom {
                directory,
                position: None,
                contents_up_to: 5,
                wants_attributes: false,
            },
            14,
            page_answer(entries.clone(), failed.clone(), false, Some(u64::MAX)),
        ),
        (
            Call::ListFrom {
                directory,
                position: Some(u64::MAX),
                contents_up_to: 5,
                wants_attributes: false,
            },
            15,
            page_answer(vec![], failed.clone(), true, Some(0)),
        ),
        (
            list_from(directory, 5, true),
            17,
            page_answer(with_attributes.clone(), failed.clone(), false, Some(9)),
        ),
        (Call::Look { directory, name }, 2, Answer::Entry { entry: looked.clone() }),
        (Call::Examine { of: file }, 8, Answer::Status { status: opened }),
        (
            Call::Ranges { file, from: 8192 },
            7,
            Answer::Ranges { ranges: ranges.clone(), is_last: false },
        ),
        (read(MAX_READ_BYTES), 1, Answer::Data { bytes: bytes.clone() }),
        (read(100), 6, Answer::Data { bytes: bytes[..99].to_vec() }),
        (Call::Attributes { of: file }, 5, Answer::Attributes { attributes: attributes.clone() }),
        (Call::Examine { of: directory }, 9, Answer::Failed { errno: FAILED }),
        (
            Call::Attribute { of: directory, name: b"user.a".into() },
            11,
            Answer::Attribute { value: Some(vec![9; 64 << 10]) },
        ),
        (
            Call::Attribute { of: directory, name: vec![b'n'; 255] },
            12,
            Answer::Attribute { value: None },
        ),
        (
            Call::Count { directory, one_filesystem: true },
            13,
            Answer::Counted { entries: u64::MAX, bytes: 7, is_last: false },
        ),
        (
            look_all(directory, &[b"-", b"odd\xff", b"0", b"more"]),
            16,
            Answer::Named {
                entries: vec![
                    PageEntry::Seen(with_attributes[0].clone()),
                    PageEntry::Failed(failed[0].clone()),
                    PageEntry::Seen(with_attributes[1].clone()),
                ],
            },
        ),
        (
            Call::Root { number: 0, follows: true },
            18,
            Answer::ForeignLink { link: b"d/\xff".into(), owner: u32::MAX },
        ),
        (Call::Close { of: file }, 0, Answer::Closed),
    ];
    let mut asked: Vec<(usize, CallId, u32)> = (table.iter())
        .map(|(call, order, _)| {
            let (id, request) = line.ask(call);
            (*order, id, request)
        })
        .collect();
    assert_eq!((line.caller.calls(), line.server.calls(), line.server.handles()), (19, 19, 1));
    asked.sort_by_key(|(order, ..)| *order);
    for (order, id, request) in asked {
        let (call, _, answer) = table.iter().find(|(_, number, _)| *number == order).unwrap();
        let server = &mut line.server;
        let frame = match answer.clone() {
            Answer::Opened { status, .. } => server.opened(request, &status).unwrap().1,
            Answer::Entries { entries, failed, is_last, position } => {
                let wants = matches!(call, Call::ListFrom { wants_attributes: true, .. });
                let empty = if wants { Page::with_attributes() } else { Page::default() };
                let mut page = page(empty, &entries);
                failed.iter().for_each(|entry| page.push(&PageEntry::Failed(entry.clone())));
                server.page(request, &page, is_last, position.unwrap_or(77)).unwrap()
            }
            Answer::Attribute { value } => server.attribute(request, value.as_deref()).unwrap(),
            Answer::Counted { entries, bytes, is_last } => {
                server.counted(request, entries, bytes, is_last).unwrap()
            }
            Answer::Entry { entry } => server.entry(request, &entry).unwrap(),
            Answer::Named { entries } => named(server, request, &entries).unwrap(),
            Answer::Status { status } => server.status(request, &status).unwrap(),
            Answer::Ranges { ranges, is_last } => server.ranges(request, &ranges, is_last).unwrap(),
            Answer::Data { bytes } => server.data(request, bytes).unwrap(),
            Answer::Attributes { attributes } => server.attributes(request, &attributes).unwrap(),
            Answer::Closed => server.closed(request).unwrap(),
            Answer::Failed { errno } => server.failed(request, errno).unwrap(),
            Answer::ForeignLink { link, owner } => {
                server.foreign_link(request, &link, owner).unwrap()
            }
            other => panic!("{other:?}"),
        };
        let taken = line.caller.take(carry(&frame, 64 << 10));
        assert!(taken == Ok((id, answer.clone())), "{order}");
        // Nothing is answered twice.
        assert_eq!(line.server.failed(request, 1), Err(Violation::Unasked { call: request }));
        let again = line.caller.take(frame);
        assert_eq!(again, Err(Violation::Unasked { call: request }));
    }
    assert_eq!((line.caller.calls(), line.server.calls(), line.server.handles()), (0, 0, 2));
}

#[test]
fn a_server_gives_no_answer_that_is_not_due() {
    let mut line = Line::new();
    let (directory, file) = (line.open(Kind::Directory), line.open(Kind::File));
    let (_, list) = line.ask(&Call::List { directory, contents_up_to: 0 });
    let (_, whole) = line.ask(&list_from(directory, 0, true));
    let (_, read) = line.ask(&Call::Read { file, offset: 0, bytes: 4 });
    let (_, names) = line.ask(&look_all(directory, &[b"a"]));
    let server = &mut line.server;
    let unasked = |call| Err(Violation::Unasked { call });
    let status = status(Kind::File, 1);
    assert_eq!(server.data(read, vec![0; 5]), unasked(read));
    assert_eq!(server.page(read, &Page::default(), true, 0), unasked(read));
    assert_eq!(server.opened(list, &status).map(|_| ()), Err(Violation::Unasked { call: list }));
    assert_eq!(server.status(list, &status), unasked(list));
    assert_eq!(server.entry(list, &entry(b"a", Kind::File, None)), unasked(list));
    let one = PageEntry::Failed(FailedEntry { name: b"a".to_vec(), errno: 2 });
    assert_eq!(named(server, list, std::slice::from_ref(&one)), unasked(list));
    assert_eq!(named(server, names, &[]), unasked(names));
    // A page has a place for attributes exactly where they are wanted.
    let without = page(Page::default(), &[entry(b"a", Kind::File, None)]);
    assert_eq!(server.named(names, &without), unasked(names));
    assert_eq!(server.page(list, &Page::with_attributes(), true, 0), unasked(list));
    assert_eq!(server.page(whole, &without, true, 0), unasked(whole));
    assert_eq!(named(server, names, &[one.clone(), one]), unasked(names));
    assert_eq!(server.ranges(list, &[], true), unasked(list));
    assert_eq!(server.attributes(list, &[]), unasked(list));
    assert_eq!(server.attribute(list, None), unasked(list));
    assert_eq!(server.counted(list, 0, 0, true), unasked(list));
    assert_eq!(server.data(list, vec![]), unasked(list));
    assert_eq!(server.closed(list), unasked(list));
    assert_eq!(server.foreign_link(list, b"l", 1), unasked(list));
    assert_eq!(server.failed(99, 1), unasked(99));
    assert_eq!(server.calls(), 4);
}

#[test]
fn pages_are_full_before_they_are_too_long_for_a_frame() {
    let contents = vec![7; MAX_CONTENTS_BYTES as usize];
    let name = [b'n'; 1024];
    for contents in [None, Some(&contents[..1]), Some(&contents[..])] {
        let mut page = Page::default();
        while !page.is_full() {
            page.push(&PageEntry::Seen(entry(&name, Kind::File, contents)));
        }
        let count = page.entries();
        assert!(count > 0);
        let mut line = Line::new();
        let directory = line.open(Kind::Directory);
        let (id, request) = line.ask(&Call::List { directory, contents_up_to: MAX_CONTENTS_BYTES });
        let frame = line.server.page(request, &page, false, 0).unwrap();
        assert!(frame.payload.len() <= MAX_PAYLOAD_BYTES);
        let (taken, answer) = line.caller.take(frame).unwrap();
        let Answer::Entries { entries, is_last: false, .. } = answer else { panic!() };
        assert_eq!((taken, entries.len()), (id, count));
    }
    let mut line = Line::new();
    let file = line.open(Kind::File);
    let (id, request) = line.ask(&Call::Attributes { of: file });
    let long = vec![Attribute { name: vec![b'a'; 255], value: Some(vec![0; 64 << 10]) }; 17];
    let frame = line.server.attributes(request, &long).unwrap();
    assert_eq!(line.caller.take(frame), Ok((id, Answer::Failed { errno: 7 })));
    let (id, request) = line.ask(&Call::Root { number: 0, follows: true });
    let frame = line.server.foreign_link(request, &[b'l'; MAX_PATH_BYTES + 1], 1).unwrap();
    assert_eq!(line.caller.take(frame), Ok((id, Answer::Failed { errno: 13 })));
}

#[test]
fn a_root_that_is_a_link_comes_with_its_target_and_nothing_else_does() {
    let long = [b'x'; 4097];
    for (kind, target, is_good) in [
        (Kind::Link, Some(&b"../\xff"[..]), true),
        (Kind::Link, Some(&long[..4096]), true),
        (Kind::Link, None, false),
        (Kind::Link, Some(b""), false),
        (Kind::Link, Some(b"a\0"), false),
        (Kind::Link, Some(&long), false),
        (Kind::File, Some(b"x"), false),
        (Kind::Directory, None, true),
    ] {
        let mut line = Line::new();
        let (id, request) = line.ask(&Call::Root { number: 0, follows: false });
        let status = status(kind, 3);
        let answered = match target {
            Some(target) => line.server.opened_link(request, &status, target),
            None => line.server.opened(request, &status),
        };
        let (handle, frame) = answered.unwrap();
        let (handle, target) = (handle.unwrap(), target.map(<[u8]>::to_vec));
        let expected = match is_good {
            true => Ok((id, Answer::Opened { handle, status, target })),
            false => Err(Violation::Malformed { what: "answer" }),
        };
        assert_eq!(line.caller.take(frame), expected, "{kind:?}");
    }
}

/// Has the server take a call, as a peer that may send anything would send it.
fn serve(server: &mut Server, id: u32, payload: &[u8]) -> Result<Request, Violation> {
    server.take(&Frame { kind: FrameKind::Call, call: id, payload: payload.to_vec() })
}

/// Returns the bytes of a call.
fn encoded(call: &[u8], rest: &[&[u8]]) -> Vec<u8> {
    [&[call], rest].concat().concat()
}

#[test]
fn calls_that_may_not_be_made_are_violations() {
    let mut server = Server::new(1);
    let number = |number: u32| number.to_le_bytes();
    let long = |number: u64| number.to_le_bytes();
    let root = |root| encoded(&[1], &[&number(root), &[0]]);
    assert_eq!(serve(&mut server, 0, &root(1)), Err(Violation::BadRoot { number: 1 }));
    serve(&mut server, 0, &root(0)).unwrap();
    assert_eq!(serve(&mut server, 0, &root(0)), Err(Violation::CallTwice { call: 0 }));
    let directory = server.opened(0, &status(Kind::Directory, 0)).unwrap().0.unwrap();
    serve(&mut server, 0, &root(0)).unwrap();
    let file = server.opened(0, &status(Kind::File, 0)).unwrap().0.unwrap();
    let (d, f, unknown) = (number(directory.0), number(file.0), number(77));
    let open = |handle: &[u8; 4], name: &[u8]| {
        encoded(&[2], &[handle, &[0], &number(name.len() as u32), name])
    };
    let look =
        |handle: &[u8; 4], name: &[u8]| encoded(&[4], &[handle, &number(name.len() as u32), name]);
    let read = |handle: &[u8; 4], offset: u64, bytes: u32| {
        encoded(&[7], &[handle, &long(offset), &number(bytes)])
    };
    let attribute =
        |handle: &[u8; 4], name: &[u8]| encoded(&[10], &[handle, &number(name.len() as u32), name]);
    let handles: [(Vec<u8>, [u8; 4]); 13] = [
        (encoded(&[3], &[&f, &number(0)]), f),
        (open(&f, b"a"), f),
        (open(&unknown, b"a"), unknown),
        (look(&unknown, b"a"), unknown),
        (read(&d, 0, 1), d),
        (encoded(&[6], &[&d, &long(0)]), d),
        (encoded(&[6], &[&unknown, &long(0)]), unknown),
        (encoded(&[5], &[&unknown]), unknown),
        (encoded(&[8], &[&unknown]), unknown),
        (encoded(&[9], &[&unknown]), unknown),
        (attribute(&unknown, b"user.a"), unknown),
        (encoded(&[11], &[&unknown, &[0]]), unknown),
        (encoded(&[11], &[&f, &[0]]), f),
    ];
    for (call, handle) in handles {
        let expected = Err(Violation::BadHandle { handle: u32::from_le_bytes(handle) });
        assert_eq!(serve(&mut server, 1, &call), expected, "{call:?}");
    }
    let names = [&b""[..], b".", b"..", b"a/b", b"/etc/passwd", b"a\0", &[b'x'; 1025]];
    for name in names {
        for call in [open(&d, name), look(&d, name)] {
            assert_eq!(serve(&mut server, 1, &call), Err(Violation::BadName), "{name:?}");
        }
        let mut line = Line::new();
        let directory = line.open(Kind::Directory);
        let call = Call::Look { directory, name: name.to_vec() };
        assert_eq!(line.caller.call(&call), Err(Violation::BadName));
        for (way, of) in [(name, &b"a"[..]), (b"a", name)] {
            let (one, two) = (number(way.len() as u32), number(of.len() as u32));
            let all = encoded(&[14], &[&d, &number(1), &one, way, &number(1), &two, of, &[0; 5]]);
            assert_eq!(serve(&mut server, 1, &all), Err(Violation::BadName), "{name:?}");
        }
        assert_eq!(line.caller.call(&look_all(directory, &[name])), Err(Violation::BadName));
    }
    let whole = look(&d, b"name");
    let many = [&number(1)[..], b"a"].concat().repeat(MAX_NAMES + 1);
    let too_many = number(MAX_NAMES as u32 + 1);
    let mut malformed = vec![
        // No name, too many of them, or of directories, and contents that are too long.
        encoded(&[14], &[&d, &number(0), &number(0), &[0; 5]]),
        encoded(&[14], &[&d, &number(0), &too_many, &many, &[0; 5]]),
        encoded(&[14], &[&d, &too_many, &many, &number(1), &number(1), b"a", &[0; 5]]),
        encoded(&[14], &[&d, &number(0), &number(1), &number(1), b"a", &[0xff; 4], &[0]]),
        encoded(&[14], &[&d, &number(0), &number(u32::MAX)]),
        encoded(&[3], &[&d, &number(MAX_CONTENTS_BYTES + 1)]),
        read(&f, 0, MAX_READ_BYTES + 1),
        read(&f, i64::MAX as u64, 1),
        read(&f, u64::MAX, 1),
        encoded(&[6], &[&f, &long(u64::MAX)]),
        encoded(&[1], &[&number(0), &[2]]),
        encoded(&[0], &[]),
        encoded(&[10], &[&f]),
        attribute(&f, b""),
        attribute(&f, b"a\0b"),
        attribute(&f, &[b'a'; 256]),
        encoded(&[11], &[&d]),
        encoded(&[11], &[&d, &[2]]),
        encoded(&[12], &[&d]),
        encoded(&whole, &[&[0]]),
        // A length that leads beyond the frame.
        encoded(&[4], &[&d, &number(u32::MAX), b"name"]),
    ];
    malformed.extend((0..whole.len()).map(|length| whole[..length].to_vec()));
    for call in malformed {
        let expected = Err(Violation::Malformed { what: "call" });
        assert_eq!(serve(&mut server, 1, &call), expected, "{call:?}");
    }
    let answer = Frame { kind: FrameKind::Answer, call: 1, payload: vec![] };
    assert_eq!(server.take(&answer), Err(Violation::WrongSide));
    // None of these was taken.
    assert_eq!(server.calls(), 0);
    serve(&mut server, 1, &encoded(&[9], &[&f])).unwrap();
    let closed = Err(Violation::BadHandle { handle: file.0 });
    assert_eq!(serve(&mut server, 2, &encoded(&[9], &[&f])), closed);
    for id in 2..1025 {
        serve(&mut server, id, &root(0)).unwrap();
    }
    assert_eq!(serve(&mut server, 2000, &root(0)), Err(Violation::TooManyCalls));
}

#[test]
fn a_caller_makes_no_call_that_no_server_takes() {
    let mut line = Line::new();
    let file = line.open(Kind::File);
    let malformed = Err(Violation::Malformed { what: "call" });
    let bad = Err(Violation::BadHandle { handle: 7 });
    let not_of_kind = Err(Violation::BadHandle { handle: file.0 });
    for (call, expected) in [
        (Call::Read { file, offset: 0, bytes: MAX_READ_BYTES + 1 }, &malformed),
        (Call::Read { file, offset: i64::MAX as u64, bytes: 1 }, &malformed),
        (Call::Send { file, offset: 0, bytes: MAX_READ_BYTES + 1, over: 0 }, &malformed),
        (Call::Send { file, offset: i64::MAX as u64, bytes: 1, over: 0 }, &malformed),
        (Call::Ranges { file, from: u64::MAX }, &malformed),
        (Call::List { directory: file, contents_up_to: u32::MAX }, &malformed),
        (list_from(file, u32::MAX, true), &malformed),
        (Call::Close { of: Handle(7) }, &bad),
        (Call::List { directory: file, contents_up_to: 0 }, &not_of_kind),
        (list_from(file, 0, true), &not_of_kind),
        (look_all(file, &[b"a"]), &not_of_kind),
        (look_all(file, &[]), &malformed),
        (look_all(file, &[&b"a"[..]; MAX_NAMES + 1]), &malformed),
        (Call::Look { directory: file, name: b"a".to_vec() }, &not_of_kind),
        (Call::Read { file: Handle(7), offset: 0, bytes: 1 }, &bad),
        (Call::Send { file: Handle(7), offset: 0, bytes: 1, over: 0 }, &bad),
    ] {
        assert_eq!(line.caller.call(&call), *expected, "{call:?}");
    }
    line.caller.call(&Call::Close { of: file }).unwrap();
    let closed = Err(Violation::BadHandle { handle: file.0 });
    assert_eq!(line.caller.call(&Call::Examine { of: file }), closed);
    let root = Call::Root { number: 0, follows: false };
    for _ in 1..Caller::MAX_CALLS {
        line.caller.call(&root).unwrap();
    }
    assert_eq!(line.caller.call(&root), Err(Violation::TooManyCalls));
}

#[test]
fn too_many_handles_are_refused_and_not_a_violation() {
    let mut server = Server::new(1);
    let root = encoded(&[1], &[&[0; 4], &[0]]);
    for _ in 0..1 << 16 {
        serve(&mut server, 0, &root).unwrap();
        assert!(server.opened(0, &Status::default()).unwrap().0.is_some());
    }
    serve(&mut server, 5, &root).unwrap();
    let (handle, frame) = server.opened(5, &Status::default()).unwrap();
    assert_eq!((handle, frame.kind), (None, FrameKind::Failed));
}

#[test]
fn answers_that_nobody_asked_for_are_violations() {
    let opened = |call: &dyn Fn(Handle) -> Call| {
        let mut line = Line::new();
        let (file, directory) = (line.open(Kind::File), line.open(Kind::Directory));
        let handle = match call(file) {
            Call::List { .. }
            | Call::ListFrom { .. }
            | Call::LookAll { .. }
            | Call::Count { .. } => directory,
            _ => file,
        };
        let (id, _) = line.caller.call(&call(handle)).unwrap();
        (line.caller, id.number())
    };
    let read = |file| Call::Read { file, offset: 0, bytes: 4 };
    let send = |file| Call::Send { file, offset: 0, bytes: 4, over: 0 };
    let close = |of| Call::Close { of };
    let examine = |of| Call::Examine { of };
    let ranges = |file| Call::Ranges { file, from: 10 };
    let list = |directory| Call::List { directory, contents_up_to: 0 };
    let listed = |directory| list_from(directory, 0, false);
    let looked = |directory| look_all(directory, &[b"a", b"b"]);
    let root = |_| Call::Root { number: 0, follows: false };
    let attribute = |of| Call::Attribute { of, name: b"user.a".to_vec() };
    let count = |directory| Call::Count { directory, one_filesystem: false };
    let failed = |name: &[u8], errno: u16| {
        [&[1][..], &(name.len() as u32).to_le_bytes(), name, &[0xff], &errno.to_le_bytes()].concat()
    };
    let range = |from: u64, to: u64| [from.to_le_bytes(), to.to_le_bytes()].concat();
    let with = |flag: u8, ranges: &[Vec<u8>]| [&[flag][..], &ranges.concat()].concat();
    let malformed = Violation::Malformed { what: "answer" };
    let answer = FrameKind::Answer;
    type Make<'a> = &'a dyn Fn(Handle) -> Call;
    let many: Vec<Vec<u8>> =
        (5..=5 + MAX_RANGES as u64).map(|at| range(at * 4, at * 4 + 1)).collect();
    let table: Vec<(Make<'_>, FrameKind, Vec<u8>, Violation)> = vec![
        (&read, FrameKind::Call, vec![], Violation::WrongSide),
        (&read, FrameKind::Ping, vec![], Violation::WrongSide),
        (&read, answer, vec![0; 5], malformed),
        // More than were asked for; no digest, a part of one, and more than one.
        (&send, answer, [&[5, 0, 0, 0][..], &[0; 32]].concat(), malformed),
        (&send, answer, vec![4, 0, 0, 0], malformed),
        (&send, answer, vec![0; 35], malformed),
        (&send, answer, vec![0; 37], malformed),
        (&read, FrameKind::Failed, vec![0, 0], malformed),
        (&read, FrameKind::Failed, vec![0, 16], malformed),
        (&read, FrameKind::Failed, vec![1], malformed),
        // Without a path, with a part of it, with more than it, and in answer to what follows no link.
        (&root, FrameKind::ForeignLink, vec![1, 0, 0, 0], malformed),
        (&root, FrameKind::ForeignLink, vec![1, 0, 0, 0, 2, 0, 0, 0, b'l'], malformed),
        (&root, FrameKind::ForeignLink, vec![1, 0, 0, 0, 1, 0, 0, 0, b'l', b'l'], malformed),
        (&root, FrameKind::ForeignLink, vec![1, 0, 0, 0, 1, 0, 0, 0, 0], malformed),
        (&read, FrameKind::ForeignLink, vec![1, 0, 0, 0, 1, 0, 0, 0, b'l'], malformed),
        (&close, answer, vec![1], malformed),
        (&examine, answer, vec![0; 10], malformed),
        (&ranges, answer, vec![], malformed),
        (&ranges, answer, with(2, &[]), malformed),
        // No range, and yet more to come.
        (&ranges, answer, with(0, &[]), malformed),
        (&ranges, answer, with(1, &[range(9, 12)]), malformed),
        (&ranges, answer, with(1, &[range(12, 12)]), malformed),
        (&ranges, answer, with(1, &[range(13, 12)]), malformed),
        (&ranges, answer, with(1, &[range(12, 20), range(19, 30)]), malformed),
        (&ranges, answer, with(1, &[range(12, u64::MAX)]), malformed),
        (&ranges, answer, with(1, &many), malformed),
        (&list, answer, vec![], malformed),
        (&list, answer, vec![0], malformed),
        (&list, answer, vec![1, 1], malformed),
        // A position that is cut.
        (&listed, answer, vec![1, 0, 0, 0, 0, 0, 0, 0], malformed),
        // An entry that cannot be looked at, without an error or with a name that leads elsewhere.
        (&list, answer, failed(b"a", 0), malformed),
        (&list, answer, failed(b"a", 4096), malformed),
        (&list, answer, failed(b"..", 13), Violation::BadName),
        (&list, answer, failed(b"a/b", 13), Violation::BadName),
        (&list, answer, failed(b"a", 13)[..8].to_vec(), malformed),
        // None of those that were asked for, not in their order, or more.
        (&looked, answer, vec![], malformed),
        (&looked, answer, failed(b"b", 13)[1..].to_vec(), malformed),
        (&looked, answer, failed(b"a", 13)[1..].repeat(2), malformed),
        (&looked, answer, failed(b"a", 0)[1..].to_vec(), malformed),
        (&looked, answer, failed(b"a", 13)[..8].to_vec(), malformed),
        (&attribute, answer, vec![], malformed),
        (&attribute, answer, vec![2], malformed),
        (
            &attribute,
            answer,
            [&[1][..], &65_537u32.to_le_bytes(), &[0; 65_537]].concat(),
            malformed,
        ),
        (&count, answer, vec![1; 16], malformed),
        (&count, answer, vec![2; 17], malformed),
        (&count, answer, vec![1; 18], malformed),
        (&root, answer, vec![0; 3], malformed),
    ];
    for (number, (call, kind, payload, expected)) in table.into_iter().enumerate() {
        let (mut caller, id) = opened(call);
        let taken = caller.take(Frame { kind, call: id, payload });
        assert_eq!(taken, Err(expected), "{number}");
    }
    let (mut caller, id) = opened(&read);
    let other = Frame { kind: answer, call: id + 1, payload: vec![] };
    assert_eq!(caller.take(other), Err(Violation::Unasked { call: id + 1 }));
    // A handle that is open is not given again.
    let mut line = Line::new();
    line.open(Kind::File);
    let (_, first) = line.ask(&Call::Root { number: 0, follows: false });
    let (_, frame) = line.server.opened(first, &status(Kind::File, 0)).unwrap();
    let mut payload = frame.payload;
    payload[..4].fill(0);
    let taken = line.caller.take(Frame { payload, ..frame });
    assert_eq!(taken, Err(Violation::BadHandle { handle: 0 }));
}

#[test]
fn entries_that_lead_elsewhere_or_lie_are_violations() {
    let good = entry(b"a", Kind::File, Some(b"12"));
    let mut cases: Vec<(Entry, Violation)> =
        [&b".."[..], b".", b"", b"a/b", b"/etc/passwd", b"a\0b"]
            .iter()
            .map(|name| (Entry { name: name.to_vec(), ..good.clone() }, Violation::BadName))
            .collect();
    let malformed = Violation::Malformed { what: "answer" };
    let link = entry(b"a", Kind::Link, None);
    let late = Time { seconds: 0, nanoseconds: 1_000_000_000 };
    for bad in [
        Entry { contents: Some(b"123".to_vec()), ..good.clone() },
        Entry { contents: Some(b"1".to_vec()), ..good.clone() },
        Entry { target: Some(b"x".to_vec()), ..good.clone() },
        Entry { target: None, ..link.clone() },
        Entry { target: Some(Vec::new()), ..link.clone() },
        Entry { target: Some(b"a\0".to_vec()), ..link.clone() },
        Entry { target: Some(vec![b'x'; 4097]), ..link.clone() },
        Entry { status: Status { mode: 0o10000, ..good.status }, ..good.clone() },
        Entry { status: Status { size: u64::MAX, ..good.status }, contents: None, ..good.clone() },
        Entry { status: Status { modified: late, ..good.status }, ..good.clone() },
        entry(b"a", Kind::File, Some(b"123456")),
    ] {
        cases.push((bad, malformed));
    }
    for (bad, expected) in cases {
        let mut line = Line::new();
        let directory = line.open(Kind::Directory);
        let (_, request) = line.ask(&Call::List { directory, contents_up_to: 5 });
        let frame = line
            .server
            .page(request, &page(Page::default(), std::slice::from_ref(&bad)), true, 0)
            .unwrap();
        assert_eq!(line.caller.take(frame), Err(expected), "{bad:?}");
    }
    // Contents that are too long, and attributes that were not asked for or come without contents.
    let attribute = Attribute { name: b"user.a".to_vec(), value: None };
    let attributes = Some(vec![attribute]);
    let file = Kind::File;
    for (kind, contents, attributes, wants_attributes, is_good) in [
        (file, Some(&b"12345"[..]), attributes.clone(), true, true),
        (file, Some(b"12345"), None, true, true),
        (file, Some(b"12345"), attributes.clone(), false, false),
        (file, Some(b"123456"), None, true, false),
        (file, None, attributes.clone(), true, false),
        (Kind::Directory, None, attributes.clone(), true, true),
        (Kind::Directory, None, attributes, false, false),
    ] {
        let mut line = Line::new();
        let directory = line.open(Kind::Directory);
        let names = vec![b"a".to_vec()];
        let (way, contents_up_to) = (Vec::new(), 5);
        let call = Call::LookAll { directory, way, names, contents_up_to, wants_attributes };
        let (_, by_name) = line.ask(&call);
        let (_, listed) = line.ask(&list_from(directory, 5, true));
        let entry = Entry { attributes, ..entry(b"a", kind, contents) };
        let frame = named(&mut line.server, by_name, &[PageEntry::Seen(entry.clone())]);
        assert_eq!(line.caller.take(frame.unwrap()).is_ok(), is_good, "{contents:?}");
        if wants_attributes {
            let page = page(Page::with_attributes(), &[entry]);
            let frame = line.server.page(listed, &page, true, 0).unwrap();
            assert_eq!(line.caller.take(frame).is_ok(), is_good, "{contents:?}");
        }
    }
    // One that was looked at is the one that was asked for, without contents.
    for (bad, is_good) in
        [(link.clone(), true), (Entry { name: b"b".to_vec(), ..link }, false), (good, false)]
    {
        let mut line = Line::new();
        let directory = line.open(Kind::Directory);
        let (_, request) = line.ask(&Call::Look { directory, name: b"a".to_vec() });
        let frame = line.server.entry(request, &bad).unwrap();
        assert_eq!(line.caller.take(frame).is_ok(), is_good, "{bad:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_side_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        number in 0usize..FrameKind::ALL.len(),
        id in 0u32..8,
    ) {
        let frame = Frame { kind: FrameKind::ALL[number], call: id, payload: bytes };
        let mut line = Line::new();
        let of = line.open(Kind::Directory);
        let file = line.open(Kind::File);
        for call in [
            Call::Root { number: 0, follows: false },
            Call::List { directory: of, contents_up_to: 100 },
            list_from(of, 100, false),
            list_from(of, 100, true),
            look_all(of, &[b"a", b"b"]),
            Call::Ranges { file, from: 0 },
            Call::Attributes { of },
            Call::Attribute { of, name: b"user.a".to_vec() },
            Call::Count { directory: of, one_filesystem: false },
            Call::Look { directory: of, name: b"a".to_vec() },
            Call::Read { file, offset: 0, bytes: 100 },
        ] {
            line.caller.call(&call).unwrap();
        }
        let _ = line.caller.take(frame.clone());
        let _ = line.server.take(&frame);
    }

    #[test]
    fn reads_arrive_whole_in_any_order(
        sizes in prop::collection::vec(0usize..5000, 1..20),
        order in any::<prop::sample::Index>(),
        piece in 1usize..2000,
    ) {
        let mut line = Line::new();
        let file = line.open(Kind::File);
        let contents: Vec<u8> = (0..5000).map(|at: usize| (at * 7) as u8).collect();
        let mut asked: Vec<(CallId, u32, usize)> = sizes.iter().map(|size| {
            let (id, request) = line.ask(&Call::Read { file, offset: 0, bytes: *size as u32 });
            (id, request, *size)
        }).collect();
        let mut found: BTreeMap<CallId, Vec<u8>> = BTreeMap::new();
        while !asked.is_empty() {
            let (id, request, size) = asked.swap_remove(order.index(asked.len()));
            let frame = line.server.data(request, contents[..size].to_vec()).unwrap();
            let (taken, Answer::Data { bytes }) = line.caller.take(carry(&frame, piece)).unwrap()
            else { panic!() };
            prop_assert_eq!(taken, id);
            prop_assert!(bytes == contents[..size]);
            prop_assert!(found.insert(taken, bytes).is_none());
        }
        prop_assert_eq!((line.caller.calls(), found.len()), (0, sizes.len()));
    }
}

#[test]
fn a_data_connection_reads_and_lists_handles_that_only_the_session_knows() {
    let read = |file| Call::Read { file: Handle(file), offset: 0, bytes: 4 };
    let (mut caller, mut server) = (Caller::of_data(), Server::of_data());
    let (id, asked) = caller.call(&read(77)).unwrap();
    let request = server.take(&asked).unwrap();
    assert_eq!(request, Request { id: id.number(), call: read(77) });
    assert_eq!(server.take(&asked), Err(Violation::CallTwice { call: id.number() }));
    let data = server.data(request.id, vec![1; 4]).unwrap();
    assert_eq!(caller.take(data.clone()), Ok((id, Answer::Data { bytes: vec![1; 4] })));
    assert_eq!(caller.take(data), Err(Violation::Unasked { call: id.number() }));
    let (id, asked) = caller.call(&list_from(Handle(78), 5, true)).unwrap();
    let request = server.take(&asked).unwrap();
    assert_eq!(request, Request { id: id.number(), call: list_from(Handle(78), 5, true) });
    let found = page(Page::with_attributes(), &[entry(b"a", Kind::File, None)]);
    let listed = server.page(request.id, &found, false, 9).unwrap();
    let answer = page_answer(vec![entry(b"a", Kind::File, None)], vec![], false, Some(9));
    assert_eq!(caller.take(listed), Ok((id, answer)));
    // More than was asked for.
    let (id, asked) = caller.call(&read(77)).unwrap();
    server.take(&asked).unwrap();
    assert!(server.data(id.number(), vec![1; 5]).is_err());
    let long = Frame { kind: FrameKind::Answer, call: id.number(), payload: vec![1; 5] };
    assert_eq!(caller.take(long), Err(Violation::Malformed { what: "answer" }));
    for other in [
        Call::Root { number: 0, follows: false },
        Call::Examine { of: Handle(77) },
        Call::Close { of: Handle(77) },
        Call::List { directory: Handle(77), contents_up_to: 0 },
    ] {
        assert_eq!(caller.call(&other).map(drop), Err(Violation::OnlyReads));
        let payload = match &other {
            Call::Root { .. } => vec![1, 0, 0, 0, 0, 0],
            Call::Examine { .. } => vec![5, 77, 0, 0, 0],
            Call::Close { .. } => vec![9, 77, 0, 0, 0],
            _ => vec![3, 77, 0, 0, 0, 0, 0, 0, 0],
        };
        let frame = Frame { kind: FrameKind::Call, call: 9, payload };
        assert_eq!(server.take(&frame), Err(Violation::OnlyReads), "{other:?}");
    }
}
