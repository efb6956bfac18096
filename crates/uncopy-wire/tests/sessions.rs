//! Tests whole sessions over a transport that does anything, and against the recorded bytes of version 1.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use uncopy_wire::{
    Answer, Attribute, Call, CallId, Caller, DataAnnouncement, DataLoss, DataLost, DataOffer,
    DataRefusal, DataSecurity, DataWish, End, Entry, FailedEntry, Frame, Frames, Greeting, Handle,
    Job, JobState, Kind, MachineMark, Message, OutputStream, Page, PageEntry, Received, Refusal,
    Server, Session, Status, Time, Versions, Violation,
};

const LINE: &str = "from end, bytes in hexadecimal";

/// The end with the destination: asks.
struct Asking {
    session: Session,
    caller: Caller,
}

/// The end with the source: serves a file whose bytes are known.
struct Serving {
    session: Session,
    server: Server,
}

const FILE_BYTES: u32 = 1000;

fn byte(offset: u64) -> u8 {
    (offset * 7 + (offset >> 5)) as u8
}

fn status(kind: Kind) -> Status {
    Status {
        kind,
        mode: 0o4755,
        links: 1,
        user: 1000,
        group: 100,
        size: FILE_BYTES.into(),
        blocks: 8,
        device: 0x0801,
        inode: 1234,
        special: 0,
        accessed: Time { seconds: 1, nanoseconds: 2 },
        modified: Time { seconds: -1, nanoseconds: 999_999_999 },
        changed: Time { seconds: 3, nanoseconds: 4 },
        birth: None,
    }
}

impl Serving {
    fn answer(&mut self, frame: &Frame) -> Result<Frame, Violation> {
        let request = self.server.take(frame)?;
        let (id, server) = (request.id, &mut self.server);
        match request.call {
            Call::Root { .. } => server.opened(id, &status(Kind::File)).map(|(_, frame)| frame),
            Call::Read { offset, bytes, .. } => {
                let end = (offset + u64::from(bytes)).min(FILE_BYTES.into());
                server.data(id, (offset.min(end)..end).map(byte).collect())
            }
            Call::Close { .. } => server.closed(id),
            _ => server.failed(id, 38),
        }
    }
}

/// Something that happens to the frames of a direction.
#[derive(Debug, Clone)]
enum Change {
    /// Nothing: they are delayed, split and joined.
    Whole,
    Dropped(prop::sample::Index),
    Repeated(prop::sample::Index),
    Exchanged(prop::sample::Index),
    /// The stream ends within it.
    Cut(prop::sample::Index),
}

impl Change {
    fn apply(&self, frames: &mut Vec<Vec<u8>>) {
        if frames.is_empty() {
            return;
        }
        match self {
            Change::Whole => {}
            Change::Dropped(at) => drop(frames.remove(at.index(frames.len()))),
            Change::Repeated(at) => {
                let at = at.index(frames.len());
                frames.insert(at, frames[at].clone());
            }
            Change::Exchanged(at) => {
                let at = at.index(frames.len());
                let next = (at + 1) % frames.len();
                frames.swap(at, next);
            }
            Change::Cut(at) => {
                let at = at.index(frames.len());
                frames.truncate(at + 1);
                let half = frames[at].len() / 2;
                frames[at].truncate(half);
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        2 => Just(Change::Whole),
        1 => at().prop_map(Change::Dropped),
        1 => at().prop_map(Change::Repeated),
        1 => at().prop_map(Change::Exchanged),
        1 => at().prop_map(Change::Cut),
    ]
}

/// Carries frames over in pieces of these sizes.
fn carry(frames: &[Vec<u8>], pieces: &[usize]) -> Frames {
    let bytes = frames.concat();
    let (mut taken, mut rest) = (Frames::default(), &bytes[..]);
    for piece in pieces.iter().cycle() {
        let (first, behind) = rest.split_at((*piece).min(rest.len()));
        taken.feed(first);
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    taken
}

proptest! {
    #[test]
    fn whatever_the_transport_does_no_answer_is_wrong(
        reads in prop::collection::vec((0u64..1200, 0u32..600), 1..20),
        there in change(),
        back in change(),
        pieces in prop::collection::vec(1usize..300, 1..10),
    ) {
        let mut near = Asking { session: Session::new(End::Near), caller: Caller::new() };
        let mut far = Serving { session: Session::new(End::Far), server: Server::new(1) };
        let mut sent: Vec<Vec<u8>> = Vec::new();
        let job = Message::Job(Job::Serve { roots: vec![b"f".to_vec()] });
        sent.push(near.session.send(&job).unwrap().encode());
        let root = Call::Root { number: 0, follows: false };
        let (root, frame) = near.caller.call(&root).unwrap();
        sent.push(frame.encode());
        // The root is open when the reads are asked for: its answer is the first one.
        let mut other = Server::new(1);
        other.take(&frame).unwrap();
        let (_, opened) = other.opened(root.number(), &status(Kind::File)).unwrap();
        near.caller.take(opened).unwrap();
        let mut wanted: BTreeMap<CallId, (u64, u32)> = BTreeMap::new();
        for (offset, bytes) in &reads {
            let read = Call::Read { file: Handle(0), offset: *offset, bytes: *bytes };
            let (id, frame) = near.caller.call(&read).unwrap();
            wanted.insert(id, (*offset, *bytes));
            sent.push(frame.encode());
        }
        there.apply(&mut sent);
        let mut arrived = carry(&sent, &pieces);
        let mut answers: Vec<Vec<u8>> = Vec::new();
        let far_end: Result<(), Violation> = (|| {
            while let Some(frame) = arrived.next()? {
                match far.session.take(frame)? {
                    Received::Message(Message::Job(_)) => {
                        let accepted = Message::Accepted { is_confined: true };
                        answers.push(far.session.send(&accepted).unwrap().encode());
                    }
                    Received::Call(frame) => {
                        let answer = far.answer(&frame)?;
                        // The asking end knows already that the root is open.
                        if frame.call != root.number() {
                            answers.push(answer.encode());
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
            Ok(())
        })();
        let is_whole_there = matches!(there, Change::Whole) && arrived.is_empty();
        prop_assert!(!matches!(there, Change::Whole) || far_end.is_ok(), "{:?}", far_end);
        back.apply(&mut answers);
        let mut arrived = carry(&answers, &pieces);
        let near_end: Result<(), Violation> = (|| {
            while let Some(frame) = arrived.next()? {
                match near.session.take(frame)? {
                    Received::Message(_) => {}
                    Received::Answer(frame) => {
                        let (id, answer) = near.caller.take(frame)?;
                        let (offset, bytes) = wanted.remove(&id).expect("it was asked for");
                        let end = (offset + u64::from(bytes)).min(FILE_BYTES.into());
                        let expected: Vec<u8> = (offset.min(end)..end).map(byte).collect();
                        assert_eq!(answer, Answer::Data { bytes: expected });
                    }
                    other => panic!("{other:?}"),
                }
            }
            Ok(())
        })();
        if is_whole_there && matches!(back, Change::Whole) {
            prop_assert!(near_end.is_ok() && wanted.is_empty());
        }
        // Calls that were not answered stay open: nobody takes them for done.
        prop_assert_eq!(near.caller.calls() >= wanted.len(), true);
        if let Change::Repeated(_) = back {
            prop_assert!(near_end.is_err() || answers.len() < 2);
        }
    }
}

/// Record of a session.
struct Transcript {
    text: String,
    sessions: BTreeMap<&'static str, Session>,
}

impl Transcript {
    fn bytes(&mut self, from: &str, what: &str, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.text.push_str(&format!("# {what}\n{from} {hex}\n"));
    }

    fn frame(&mut self, from: &str, what: &str, frame: &Frame) {
        self.bytes(from, what, &frame.encode());
    }

    /// Sends a call from the near end, which the far end takes. Returns its number at both.
    fn ask(&mut self, call: &Call, caller: &mut Caller, server: &mut Server) -> (CallId, u32) {
        let (id, asked) = caller.call(call).unwrap();
        self.frame("near", &format!("{call:?}"), &asked);
        let request = server.take(&asked).unwrap();
        assert_eq!(request.call, *call);
        (id, request.id)
    }

    /// Sends a message from one end to the other.
    fn message(&mut self, from: &'static str, message: &Message) {
        let frame = self.sessions.get_mut(from).unwrap().send(message).unwrap();
        let other = if from == "near" { "far" } else { "near" };
        let taken = self.sessions.get_mut(other).unwrap().take(frame.clone());
        assert_eq!(taken, Ok(Received::Message(message.clone())));
        self.frame(from, &format!("{message:?}"), &frame);
    }
}

fn begin(text: String) -> Transcript {
    begin_speaking(1, text)
}

fn begin_speaking(version: u16, text: String) -> Transcript {
    let end = |end| Session::new(end).speaking(version);
    let sessions = [("near", end(End::Near)), ("far", end(End::Far))];
    Transcript { text, sessions: sessions.into() }
}

/// Makes a session that has every frame that version 2 adds, and every call.
fn transcript_2() -> String {
    let mut line = begin_speaking(2, format!("# {LINE}\n\n# Open data connections\n"));
    let versions = Versions { min: 1, max: 2 };
    let greeting = |program: &str| Greeting { versions, program: program.into() };
    line.bytes("near", "greeting", &greeting("0.2.0").encode());
    line.bytes("far", "greeting", &greeting("0.2.1").encode());
    let security = DataSecurity::Open;
    let wish = DataWish { security, connections: 1, first_port: 7000, last_port: 7010 };
    line.message("near", &Message::DataWanted(wish));
    line.message("near", &Message::Job(Job::Serve { roots: vec![b"f".to_vec()] }));
    line.message("far", &Message::Accepted { is_confined: true });
    line.message("far", &Message::DataOffered(DataOffer { security, port: 7001 }));
    let announced = DataAnnouncement { number: 0, token: [3; 32] };
    line.message("far", &Message::DataAnnounced(announced));
    let (mut caller, mut server) = (Caller::new(), Server::new(1));
    let root = Call::Root { number: 0, follows: false };
    let (_, asked) = caller.call(&root).unwrap();
    let request = server.take(&asked).unwrap();
    let (_, answer) = server.opened(request.id, &status(Kind::File)).unwrap();
    caller.take(answer).unwrap();
    for answer in [Ok(2), Err(107)] {
        let call = Call::Send { file: Handle(0), offset: 1 << 33, bytes: 3, over: 0 };
        let (id, asked) = caller.call(&call).unwrap();
        line.frame("near", &format!("{call:?}"), &asked);
        let request = server.take(&asked).unwrap();
        assert_eq!(request.call, call);
        let frame = match answer {
            Ok(bytes) => server.sent(request.id, bytes, &[8; 32]).unwrap(),
            Err(errno) => server.failed(request.id, errno).unwrap(),
        };
        line.frame("far", "answer", &frame);
        let expected = match answer {
            Ok(bytes) => Answer::Sent { bytes, digest: [8; 32] },
            Err(errno) => Answer::Failed { errno },
        };
        assert_eq!(caller.take(frame).unwrap(), (id, expected));
    }
    line.text
}

/// Begins a transcript of what a version adds: greetings, and a directory that is open.
fn begin_serving(version: u16, title: &str) -> (Transcript, Caller, Server) {
    let mut line = begin_speaking(version, format!("# {LINE}\n\n# {title}\n"));
    let versions = Versions { min: 1, max: version };
    let greeting = |patch: u16| Greeting { versions, program: format!("0.{version}.{patch}") };
    line.bytes("near", "greeting", &greeting(0).encode());
    line.bytes("far", "greeting", &greeting(1).encode());
    line.message("near", &Message::Job(Job::Serve { roots: vec![b"d".to_vec()] }));
    line.message("far", &Message::Accepted { is_confined: true });
    let (mut caller, mut server) = (Caller::new(), Server::new(1));
    let root = Call::Root { number: 0, follows: false };
    let (_, asked) = caller.call(&root).unwrap();
    let request = server.take(&asked).unwrap();
    let (_, answer) = server.opened(request.id, &status(Kind::Directory)).unwrap();
    caller.take(answer).unwrap();
    (line, caller, server)
}

/// Makes what version 3 adds, over the session and over a data connection.
fn transcript_3() -> String {
    let (mut line, mut caller, mut server) = begin_serving(3, "Listings that go on anywhere");
    let mut page = Page::default();
    let (name, status) = (b"f".to_vec(), status(Kind::File));
    let entry = Entry { name, status, target: None, contents: None, attributes: None };
    page.push(&PageEntry::Seen(entry));
    let directory = Handle(0);
    for of_data in [false, true] {
        if of_data {
            line = begin_speaking(3, line.text + "\n# A data connection\n");
            line.sessions = [End::Near, End::Far]
                .map(|end| {
                    (if end == End::Near { "near" } else { "far" }, Session::data(end, End::Near))
                })
                .into();
            (caller, server) = (Caller::of_data(), Server::of_data());
        }
        for (position, behind, is_last) in [(None, 1 << 40, false), (Some(1 << 40), 9, true)] {
            let (contents_up_to, wants_attributes) = (4096, false);
            let call = Call::ListFrom { directory, position, contents_up_to, wants_attributes };
            let (id, number) = line.ask(&call, &mut caller, &mut server);
            let frame = server.page(number, &page, is_last, behind).unwrap();
            line.frame("far", "answer", &frame);
            let (taken, Answer::Entries { position, .. }) = caller.take(frame).unwrap() else {
                panic!()
            };
            assert_eq!((taken, position), (id, Some(behind)));
        }
    }
    line.text
}

/// Makes what version 4 adds, over the session and over a data connection.
fn transcript_4() -> String {
    let (mut line, mut caller, mut server) =
        begin_serving(4, "Entries that are asked for by names, and extended attributes");
    let file = Entry {
        name: b"f".to_vec(),
        status: Status { size: 2, ..status(Kind::File) },
        target: None,
        contents: Some(b"hi".to_vec()),
        attributes: Some(vec![Attribute { name: b"user.k".to_vec(), value: Some(b"v".to_vec()) }]),
    };
    let link = Entry {
        name: b"l".to_vec(),
        status: status(Kind::Link),
        target: Some(b"../x".to_vec()),
        contents: None,
        attributes: None,
    };
    let gone = FailedEntry { name: b"gone".to_vec(), errno: 2 };
    let entries = [
        PageEntry::Seen(file.clone()),
        PageEntry::Seen(link.clone()),
        PageEntry::Failed(gone.clone()),
    ];
    let mut page = Page::with_attributes();
    entries.iter().for_each(|entry| page.push(entry));
    let names = |names: &[&[u8]]| names.iter().map(|name| name.to_vec()).collect();
    for of_data in [false, true] {
        if of_data {
            line = begin_speaking(4, line.text + "\n# A data connection\n");
            line.sessions = [End::Near, End::Far]
                .map(|end| {
                    (if end == End::Near { "near" } else { "far" }, Session::data(end, End::Near))
                })
                .into();
            (caller, server) = (Caller::of_data(), Server::of_data());
        }
        let call = Call::LookAll {
            directory: Handle(0),
            way: names(&[b"a", b"b\xff"]),
            names: names(&[b"f", b"l", b"gone", b"not in this answer"]),
            contents_up_to: 4096,
            wants_attributes: true,
        };
        let (id, number) = line.ask(&call, &mut caller, &mut server);
        let frame = server.named(number, &page).unwrap();
        line.frame("far", "answer", &frame);
        let expected = Answer::Named { entries: entries.to_vec() };
        assert_eq!(caller.take(frame), Ok((id, expected)));
        let call = Call::ListFrom {
            directory: Handle(0),
            position: Some(9),
            contents_up_to: 4096,
            wants_attributes: true,
        };
        let (id, number) = line.ask(&call, &mut caller, &mut server);
        let frame = server.page(number, &page, true, 10).unwrap();
        line.frame("far", "answer", &frame);
        let expected = Answer::Entries {
            entries: vec![file.clone(), link.clone()],
            failed: vec![gone.clone()],
            is_last: true,
            position: Some(10),
        };
        assert_eq!(caller.take(frame), Ok((id, expected)));
    }
    line.text
}

/// Makes a session that has every frame of version 1, and every call.
fn transcript() -> String {
    let mut line = begin(format!("# {LINE}\n\n# A far end that serves\n"));
    let greeting =
        |program: &str| Greeting { versions: Versions { min: 1, max: 1 }, program: program.into() };
    line.bytes("near", "greeting", &greeting("0.1.0").encode());
    line.bytes("far", "greeting", &greeting("0.1.1").encode());
    line.message("near", &Message::Job(Job::Serve { roots: vec![b"dir".to_vec(), b"".to_vec()] }));
    line.message("far", &Message::Accepted { is_confined: true });
    let (mut caller, mut server) = (Caller::new(), Server::new(2));
    let (root, file) = (Handle(0), Handle(1));
    let entries = [
        Entry {
            name: b"a\xff".to_vec(),
            status: Status {
                size: 2,
                birth: Some(Time { seconds: 5, nanoseconds: 6 }),
                ..status(Kind::File)
            },
            target: None,
            contents: Some(b"hi".to_vec()),
            attributes: None,
        },
        Entry {
            name: b"l".to_vec(),
            status: status(Kind::Link),
            target: Some(b"../x".to_vec()),
            contents: None,
            attributes: None,
        },
    ];
    let mut page = Page::default();
    entries.iter().for_each(|entry| page.push(&PageEntry::Seen(entry.clone())));
    page.push(&PageEntry::Failed(FailedEntry { name: b"f".to_vec(), errno: 13 }));
    let attributes = [
        Attribute { name: b"user.k".to_vec(), value: Some(b"\0v".to_vec()) },
        Attribute { name: b"user.l".to_vec(), value: None },
    ];
    let calls = [
        Call::Root { number: 1, follows: true },
        Call::Open { directory: root, name: b"a\xff".to_vec(), follows: false },
        Call::List { directory: root, contents_up_to: 4096 },
        Call::Look { directory: root, name: b"l".to_vec() },
        Call::Examine { of: file },
        Call::Ranges { file, from: 16 },
        Call::Read { file, offset: 1, bytes: 3 },
        Call::Attributes { of: file },
        Call::Attribute { of: file, name: b"user.l".to_vec() },
        Call::Attribute { of: file, name: b"user.gone".to_vec() },
        Call::Count { directory: root, one_filesystem: true },
        Call::Look { directory: root, name: b"nowhere".to_vec() },
        Call::Close { of: file },
        Call::Root { number: 0, follows: false },
    ];
    for call in calls {
        let (id, asked) = caller.call(&call).unwrap();
        line.frame("near", &format!("{call:?}"), &asked);
        let id = server.take(&asked).map(|request| (request.id, id)).unwrap().0;
        let answer = match &call {
            Call::Root { number: 0, .. } => {
                server.opened_link(id, &status(Kind::Link), b"dir2").unwrap().1
            }
            Call::Root { .. } => server.opened(id, &status(Kind::Directory)).unwrap().1,
            Call::Open { .. } => server.opened(id, &status(Kind::File)).unwrap().1,
            Call::List { .. } => server.page(id, &page, true, 0).unwrap(),
            Call::Look { name, .. } if name == b"l" => server.entry(id, &entries[1]).unwrap(),
            Call::Look { .. } => server.failed(id, 2).unwrap(),
            Call::Examine { .. } => server.status(id, &status(Kind::File)).unwrap(),
            Call::Ranges { .. } => server.ranges(id, &[16..32, 64..1000], false).unwrap(),
            Call::Read { .. } => server.data(id, b"yte".to_vec()).unwrap(),
            Call::Attributes { .. } => server.attributes(id, &attributes).unwrap(),
            Call::Attribute { name, .. } if name == b"user.l" => {
                server.attribute(id, Some(b"long")).unwrap()
            }
            Call::Attribute { .. } => server.attribute(id, None).unwrap(),
            Call::Count { .. } => server.counted(id, 7, 80, true).unwrap(),
            _ => server.closed(id).unwrap(),
        };
        line.frame("far", "answer", &answer);
        caller.take(answer).unwrap();
    }
    line.message("near", &Message::Ping);

    let mut line = begin(line.text + "\n# A far end that runs a job\n");
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let (arguments, sources) = (words(&["cp", "-r"]), words(&["a b"]));
    line.message("near", &Message::Job(Job::Run { arguments, sources }));
    line.message("far", &Message::Accepted { is_confined: false });
    let output = |stream, bytes: &[u8]| Message::Output { stream, bytes: bytes.to_vec() };
    line.message("far", &output(OutputStream::Standard, b"out\xff"));
    line.message("far", &output(OutputStream::Error, b"err"));
    line.message("far", &output(OutputStream::Records, b"{}\n"));
    line.message("far", &output(OutputStream::File, b"\0"));
    line.message(
        "far",
        &Message::Progress(JobState {
            entries: 1,
            bytes: 2,
            total_entries: 3,
            total_bytes: 4,
            is_total_final: true,
        }),
    );
    line.message("near", &Message::Stop);
    line.message("far", &Message::Exit { code: 130 });

    let mut line = begin(line.text + "\n# Data connections beside a far end that serves\n");
    let tls = |byte| DataSecurity::Tls { key: [byte; 32] };
    let wish = DataWish { security: tls(7), connections: 2, first_port: 7000, last_port: 7010 };
    let announced =
        |number| Message::DataAnnounced(DataAnnouncement { number, token: [number as u8; 32] });
    line.message("near", &Message::DataWanted(wish));
    line.message("near", &Message::Job(Job::Serve { roots: vec![b"dir".to_vec()] }));
    line.message("far", &Message::Accepted { is_confined: true });
    line.message("far", &Message::DataOffered(DataOffer { security: tls(9), port: 7001 }));
    line.message("far", &announced(0));
    line.message("far", &announced(1));
    let losses = [
        DataLoss::Proxied,
        DataLoss::Unresolved,
        DataLoss::Refused,
        DataLoss::TimedOut,
        DataLoss::NoRoute,
        DataLoss::Ended,
        DataLoss::OtherKey,
        DataLoss::OwnKeyRefused,
        DataLoss::TokenRefused,
        DataLoss::Handshake,
        DataLoss::Broken,
        DataLoss::Resources,
    ];
    for (number, why) in (1..).zip(losses) {
        line.message("near", &Message::DataLost(DataLost { number, why, again: true }));
        line.message("far", &announced(number + 1));
    }
    let lost = DataLost { number: 0, why: DataLoss::Broken, again: false };
    line.message("near", &Message::DataLost(lost));
    for refusal in [
        DataRefusal::Policy,
        DataRefusal::Settings,
        DataRefusal::NoAddress,
        DataRefusal::PortsInUse,
        DataRefusal::System { errno: 99 },
    ] {
        line = begin(line.text + "\n# Data connections are refused\n");
        line.message("near", &Message::Job(Job::Serve { roots: vec![b"dir".to_vec()] }));
        line.message("near", &Message::DataWanted(wish));
        line.message("far", &Message::Accepted { is_confined: true });
        line.message("far", &Message::DataRefused(refusal));
    }

    let mut line = begin(line.text + "\n# A data connection\n");
    line.sessions = [End::Near, End::Far]
        .map(|end| (if end == End::Near { "near" } else { "far" }, Session::data(end, End::Near)))
        .into();
    let (mut caller, mut server) = (Caller::of_data(), Server::of_data());
    for answer in [Ok(b"yte".to_vec()), Err(9)] {
        let (id, asked) = caller.call(&Call::Read { file, offset: 1, bytes: 3 }).unwrap();
        line.frame("near", "Read", &asked);
        let request = server.take(&asked).unwrap();
        let answer = match answer {
            Ok(bytes) => server.data(request.id, bytes).unwrap(),
            Err(errno) => server.failed(request.id, errno).unwrap(),
        };
        line.frame("far", "answer", &answer);
        assert_eq!(caller.take(answer).unwrap().0, id);
    }
    line.message("far", &Message::Ping);
    line.message("near", &Message::Ping);
    for refusal in [
        Refusal::Outside { path: b"/etc".to_vec() },
        Refusal::ReadOnly,
        Refusal::NotConfined,
        Refusal::Arguments { message: "no".into() },
    ] {
        line = begin(line.text + "\n# A far end that refuses\n");
        line.message("near", &Message::Job(Job::Serve { roots: vec![b"/etc".to_vec()] }));
        line.message("far", &Message::Refused(refusal));
    }
    line.text
}

/// Makes sessions that have every frame that version 5 adds.
fn transcript_5() -> String {
    let mut line = begin_speaking(5, format!("# {LINE}\n\n# The machine that serves\n"));
    let versions = Versions { min: 1, max: 5 };
    let greeting = |patch: u16| Greeting { versions, program: format!("0.5.{patch}") };
    line.bytes("near", "greeting", &greeting(0).encode());
    line.bytes("far", "greeting", &greeting(1).encode());
    let mark = Message::Machine(MachineMark { salt: [1; 16], digest: [2; 32] });
    line.message("near", &mark);
    let run = Job::Run { arguments: vec![], sources: vec![b"a".to_vec()] };
    line.message("near", &Message::Job(run));
    line.message("far", &Message::Accepted { is_confined: true });
    line = begin_speaking(5, line.text + "\n# It is the far end\n");
    line.message("near", &Message::Job(Job::Serve { roots: vec![b"d".to_vec()] }));
    line.message("far", &mark);
    line.message("far", &Message::Accepted { is_confined: true });
    line.text
}

/// Makes sessions that have every frame that version 6 adds.
fn transcript_6() -> String {
    let mut line = begin_speaking(6, format!("# {LINE}\n\n# A link that is not followed\n"));
    let versions = Versions { min: 1, max: 6 };
    let greeting = |patch: u16| Greeting { versions, program: format!("0.6.{patch}") };
    line.bytes("near", "greeting", &greeting(0).encode());
    line.bytes("far", "greeting", &greeting(1).encode());
    line.message("near", &Message::Job(Job::Serve { roots: vec![b"d".to_vec()] }));
    line.message("far", &Message::Accepted { is_confined: true });
    let (mut caller, mut server) = (Caller::new(), Server::new(1));
    let call = Call::Root { number: 0, follows: true };
    let (id, number) = line.ask(&call, &mut caller, &mut server);
    let frame = server.foreign_link(number, b"d/l\xff", 1000).unwrap();
    line.frame("far", "answer", &frame);
    let expected = Answer::ForeignLink { link: b"d/l\xff".to_vec(), owner: 1000 };
    assert_eq!(caller.take(frame), Ok((id, expected)));
    line = begin_speaking(6, line.text + "\n# A journal that would lie outside\n");
    let run = Job::Run { arguments: vec![], sources: vec![b"a".to_vec()] };
    line.message("near", &Message::Job(run));
    line.message("far", &Message::Refused(Refusal::JournalOutside { path: b".".to_vec() }));
    line.text
}

#[test]
fn versions_are_as_they_were() {
    let bytes = |text: &str| -> Vec<String> {
        let is_sent = |line: &&str| !line.starts_with('#') && !line.is_empty();
        text.lines().filter(is_sent).map(str::to_owned).collect()
    };
    for (found, expected) in [
        (transcript(), include_str!("golden/version-1.txt")),
        (transcript_2(), include_str!("golden/version-2.txt")),
        (transcript_3(), include_str!("golden/version-3.txt")),
        (transcript_4(), include_str!("golden/version-4.txt")),
        (transcript_5(), include_str!("golden/version-5.txt")),
        (transcript_6(), include_str!("golden/version-6.txt")),
    ] {
        assert!(
            bytes(&found) == bytes(expected),
            "a version is fixed for ever; this build sends\n{found}"
        );
    }
}

#[test]
fn recorded_bytes_are_taken_and_those_of_other_versions_are_not() {
    let recorded = include_str!("golden/version-1.txt");
    let lines: Vec<&str> = recorded.lines().filter(|line| line.starts_with("far ")).collect();
    let bytes = |line: &str| -> Vec<u8> {
        let hex = line.split_once(' ').unwrap().1;
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect()
    };
    let mut search = uncopy_wire::GreetingSearch::default();
    let (greeting, behind) = search.feed(&bytes(lines[0])).unwrap().unwrap();
    assert_eq!((greeting.versions, behind), (Versions { min: 1, max: 1 }, vec![]));
    assert_eq!(Versions::OWN.common(greeting.versions), Ok(1));
    let frames = lines[1..].iter().map(|line| {
        let mut frames = Frames::default();
        frames.feed(&bytes(line));
        let frame = frames.next().unwrap().unwrap();
        assert!(frames.is_empty());
        frame
    });
    // Every frame of the far end, of which each has its own kind at least once.
    let kinds: std::collections::BTreeSet<String> =
        frames.map(|frame| format!("{:?}", frame.kind)).collect();
    let expected = [
        "Accepted",
        "Answer",
        "DataAnnounced",
        "DataOffered",
        "DataRefused",
        "Exit",
        "Failed",
        "Output",
        "Ping",
        "Progress",
        "Refused",
    ];
    assert_eq!(kinds.iter().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
}
