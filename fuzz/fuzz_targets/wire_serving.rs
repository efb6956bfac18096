//! Input: what a near end sends. The far end serves two roots, and answers every call that it takes with an answer that
//! is due; no call gets a name that leads elsewhere.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uncopy_wire::{
    Call, End, Entry, FailedEntry, Frames, Kind, Page, PageEntry, Received, Server, Session,
    Status, is_name,
};

fuzz_target!(|data: &[u8]| {
    let mut session = Session::new(End::Far);
    let mut server = Server::new(2);
    let mut frames = Frames::default();
    for piece in data.chunks(7) {
        frames.feed(piece);
        loop {
            let frame = match frames.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return,
            };
            let frame = match session.take(frame) {
                Ok(Received::Call(frame)) => frame,
                Ok(_) => continue,
                Err(_) => return,
            };
            let Ok(request) = server.take(&frame) else { return };
            answer(&mut server, request.id, &request.call);
        }
    }
    assert_eq!(server.calls(), 0);
});

fn answer(server: &mut Server, id: u32, call: &Call) {
    let status = |kind| Status { kind, ..Status::default() };
    let answered = match call {
        Call::Root { number, .. } => {
            assert!(*number < 2);
            let kind = if *number == 0 { Kind::Directory } else { Kind::File };
            server.opened(id, &status(kind)).map(|(_, frame)| frame)
        }
        Call::Open { name, follows, .. } => {
            assert!(is_name(name));
            let kind = if *follows { Kind::Directory } else { Kind::File };
            server.opened(id, &status(kind)).map(|(_, frame)| frame)
        }
        Call::Look { name, .. } => {
            assert!(is_name(name));
            let (name, status) = (name.clone(), status(Kind::File));
            server.entry(id, &Entry { name, status, target: None, contents: None, attributes: None })
        }
        Call::LookAll { way, names, .. } => {
            assert!(way.iter().chain(names).all(|name| is_name(name)));
            let mut page = Page::with_attributes();
            for name in names {
                page.push(&PageEntry::Failed(FailedEntry { name: name.clone(), errno: 2 }));
            }
            server.named(id, &page)
        }
        Call::ListFrom { wants_attributes: true, .. } => {
            server.page(id, &Page::with_attributes(), true, 0)
        }
        Call::List { .. } | Call::ListFrom { .. } => server.page(id, &Page::default(), true, 0),
        Call::Examine { .. } => server.status(id, &status(Kind::File)),
        Call::Ranges { from, .. } => server.ranges(id, &[*from..*from + 1], true),
        Call::Read { offset, bytes, .. } => {
            assert!(offset.checked_add(u64::from(*bytes)).is_some());
            server.data(id, vec![0; (*bytes).min(100) as usize])
        }
        Call::Send { offset, bytes, .. } => {
            assert!(offset.checked_add(u64::from(*bytes)).is_some());
            server.sent(id, (*bytes).min(100), &[0; 32])
        }
        Call::Attributes { .. } => server.attributes(id, &[]),
        Call::Attribute { name, .. } => {
            assert!((1..=255).contains(&name.len()) && !name.contains(&0));
            server.attribute(id, Some(name))
        }
        Call::Count { .. } => server.counted(id, 1, 2, true),
        Call::Close { .. } => server.closed(id),
        _ => server.failed(id, 38),
    };
    answered.expect("it is due");
}
