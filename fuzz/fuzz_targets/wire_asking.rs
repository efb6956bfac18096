//! Input: what a far end sends. The near end has asked everything, as the end with the destination; it takes frames or
//! ends with a violation, and what it takes is within its bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uncopy_wire::{
    Answer, Call, Caller, End, Frame, FrameKind, Frames, GreetingSearch, Handle, Job, Kind,
    Message, Received, Server, Session, Status, is_name,
};

/// Opens a directory as the handle 0 and a file as the handle 1.
fn opened() -> Caller {
    let (mut caller, mut server) = (Caller::new(), Server::new(1));
    for kind in [Kind::Directory, Kind::File] {
        let root = Call::Root { number: 0, follows: false };
        let (_, frame) = caller.call(&root).expect("few calls are under way");
        let request = server.take(&frame).expect("it is a call");
        let status = Status { kind, ..Status::default() };
        let (_, frame) = server.opened(request.id, &status).expect("it is due");
        caller.take(frame).expect("it is an answer");
    }
    caller
}

fuzz_target!(|data: &[u8]| {
    let mut search = GreetingSearch::default();
    let _ = search.feed(data);
    let mut session = Session::new(End::Near);
    let job = Message::Job(Job::Serve { roots: vec![b"x".to_vec()] });
    session.send(&job).expect("it is the first message");
    let mut caller = opened();
    let (directory, file) = (Handle(0), Handle(1));
    for call in [
        Call::Root { number: 0, follows: true },
        Call::Open { directory, name: b"a".to_vec(), follows: false },
        Call::List { directory, contents_up_to: 100 },
        Call::ListFrom {
            directory,
            position: Some(7),
            contents_up_to: 100,
            wants_attributes: false,
        },
        Call::ListFrom {
            directory,
            position: None,
            contents_up_to: 100,
            wants_attributes: true,
        },
        Call::Look { directory, name: b"a".to_vec() },
        Call::LookAll {
            directory,
            way: Vec::new(),
            names: vec![b"a".to_vec(), b"b".to_vec()],
            contents_up_to: 100,
            wants_attributes: true,
        },
        Call::Examine { of: file },
        Call::Ranges { file, from: 10 },
        Call::Read { file, offset: 0, bytes: 100 },
        Call::Attributes { of: file },
        Call::Close { of: directory },
        Call::Send { file, offset: 100, bytes: 100, over: 0 },
    ] {
        caller.call(&call).expect("it may be asked");
    }
    let mut frames = Frames::default();
    // In two pieces, wherever the first byte says.
    let cut = data.first().map_or(0, |first| usize::from(*first).min(data.len()));
    frames.feed(&data[..cut]);
    frames.feed(&data[cut..]);
    while let Ok(Some(frame)) = frames.next() {
        let Frame { kind, .. } = frame;
        match session.take(frame) {
            Ok(Received::Answer(frame)) => match caller.take(frame) {
                Ok((_, Answer::Entries { entries, .. })) => {
                    assert!(entries.iter().all(|entry| is_name(&entry.name)));
                }
                Ok((_, Answer::Named { entries })) => {
                    assert!([&b"a"[..], b"b"].iter().zip(&entries).all(|(n, e)| *n == e.name()));
                }
                Ok((_, Answer::Data { bytes })) => assert!(bytes.len() <= 100),
                Ok((_, Answer::Sent { bytes, .. })) => assert!(bytes <= 100),
                Ok((_, Answer::Ranges { ranges, .. })) => {
                    assert!(ranges.iter().all(|range| range.start >= 10 && !range.is_empty()));
                }
                Ok(_) => {}
                Err(_) => return,
            },
            Ok(Received::Call(_)) => panic!("the far end serves"),
            Ok(Received::Message(message)) => {
                assert!(!matches!(kind, FrameKind::Job | FrameKind::Stop), "{message:?}");
            }
            Err(_) => return,
        }
    }
});
