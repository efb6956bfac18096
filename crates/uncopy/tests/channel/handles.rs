//! Rights, kinds, dispositions.

use std::io::Read;
use std::os::fd::OwnedFd;

use uncopy::channel::{
    Channel, Descriptor, Disposition, Event, EventPair, Fifo, Handle, Kind, Object, Port, Rights,
    Signals, Socket, SocketKind, Status, Transfer, Vmo,
};

use crate::channel::{is_orphan, send_handles};

fn one_of_each() -> Vec<(Handle, Kind, Rights)> {
    let (reader, _writer) = std::io::pipe().unwrap();
    vec![
        (Channel::pair().0.into(), Kind::Channel, Rights::CHANNEL),
        (Event::new().into(), Kind::Event, Rights::EVENT),
        (EventPair::pair().0.into(), Kind::EventPair, Rights::EVENTPAIR),
        (Port::new().into(), Kind::Port, Rights::PORT),
        (Socket::pair(SocketKind::Stream).0.into(), Kind::Socket, Rights::SOCKET),
        (Fifo::pair(1, 8).unwrap().0.into(), Kind::Fifo, Rights::FIFO),
        (Vmo::new(1).unwrap().into(), Kind::Vmo, Rights::VMO),
        (Descriptor::from(OwnedFd::from(reader)).into(), Kind::Descriptor, Rights::DESCRIPTOR),
    ]
}

#[test]
fn every_kind_is_sent_with_its_rights_and_koid() {
    let (near, far) = Channel::pair();
    let each = one_of_each();
    let before: Vec<_> = each.iter().map(|(h, ..)| (h.koid(), h.related_koid())).collect();
    let (expected, handles): (Vec<_>, Vec<_>) =
        each.into_iter().map(|(handle, kind, rights)| ((kind, rights), handle)).unzip();
    send_handles(&near, handles).unwrap();
    let handles = far.read().unwrap().take_handles();
    let found: Vec<_> = handles.iter().map(|h| (h.kind(), h.rights())).collect();
    assert_eq!(found, expected);
    let after: Vec<_> = handles.iter().map(|h| (h.koid(), h.related_koid())).collect();
    assert_eq!(after, before);
}

#[test]
fn a_moved_descriptor_is_the_same_open_file() {
    let (near, far) = Channel::pair();
    let (reader, writer) = std::io::pipe().unwrap();
    send_handles(&near, vec![Descriptor::from(OwnedFd::from(writer)).into()]).unwrap();
    let writer = Descriptor::try_from(far.read().unwrap().take_handles().remove(0)).unwrap();
    let mut file = std::fs::File::from(OwnedFd::from(writer));
    std::io::Write::write_all(&mut file, b"through").unwrap();
    drop(file);
    let mut text = String::new();
    std::io::BufReader::new(reader).read_to_string(&mut text).unwrap();
    assert_eq!(text, "through");
}

#[test]
fn duplicates_need_the_right_and_get_no_more_rights_than_the_original() {
    for (handle, kind, rights) in one_of_each() {
        let result = handle.duplicate(Some(Rights::TRANSFER)).map(|d| (d.koid(), d.rights()));
        if rights.contains(Rights::DUPLICATE) {
            assert_eq!(result, Ok((handle.koid(), Rights::TRANSFER)), "{kind:?}");
            let more = handle.duplicate(Some(rights | Rights::EXECUTE)).map(drop);
            assert_eq!(more, Err(Status::InvalidArgs), "{kind:?}");
            assert_eq!(handle.duplicate(None).unwrap().rights(), rights, "{kind:?}");
        } else {
            assert_eq!((result, kind), (Err(Status::AccessDenied), Kind::Channel));
        }
    }
}

#[test]
fn replacing_narrows_the_rights_and_consumes_the_handle_even_on_failure() {
    for (handle, kind, rights) in one_of_each() {
        let koid = handle.koid();
        let handle = handle.replace(Some(rights - Rights::INSPECT)).unwrap();
        assert_eq!((handle.koid(), handle.rights()), (koid, rights - Rights::INSPECT), "{kind:?}");
    }
    let (witness, moved) = EventPair::pair();
    assert_eq!(moved.replace(Some(Rights::EXECUTE)).map(drop), Err(Status::InvalidArgs));
    assert!(is_orphan(&witness));
}

#[test]
fn the_last_duplicate_closes_the_object() {
    let (near, far) = EventPair::pair();
    let twin = near.duplicate(None).unwrap();
    drop(near);
    assert!(!is_orphan(&far));
    twin.signal_peer(Signals::empty(), Signals::SIGNALED).unwrap();
    drop(twin);
    assert_eq!(far.signals(), Signals::SIGNALED | Signals::PEER_CLOSED);
    assert_eq!(far.signal_peer(Signals::empty(), Signals::USER_0), Err(Status::PeerClosed));
}

#[test]
fn an_endpoint_may_be_sent_through_its_peer() {
    let (near, far) = Channel::pair();
    let koid = near.koid();
    send_handles(&far, vec![Event::new().into()]).unwrap();
    send_handles(&near, vec![far.into()]).unwrap();
    assert!(!is_orphan(&near) && near.koid() == koid);
}

#[derive(Debug, Clone, Copy)]
struct Case {
    held: Rights,
    kind: Option<Kind>,
    rights: Option<Rights>,
}

/// Each row breaks its rule and all later ones.
#[test]
fn dispositions_are_checked_in_zircons_order() {
    let all = Rights::EVENTPAIR;
    let more = Some(all | Rights::EXECUTE);
    let case = |held, kind, rights| Case { held, kind, rights };
    let neither = all - Rights::TRANSFER - Rights::DUPLICATE;
    for (row, moved, duplicated) in [
        (case(neither, Some(Kind::Event), more), Status::AccessDenied, Status::AccessDenied),
        (
            case(all - Rights::DUPLICATE, Some(Kind::Event), more),
            Status::WrongType,
            Status::WrongType,
        ),
        (
            case(all - Rights::DUPLICATE, Some(Kind::EventPair), more),
            Status::InvalidArgs,
            Status::InvalidArgs,
        ),
    ] {
        for (duplicate, expected) in [(false, moved), (true, duplicated)] {
            let (near, far) = Channel::pair();
            let (witness, handle) = EventPair::pair();
            let handle = Handle::from(handle.replace(Some(row.held)).unwrap());
            let kept;
            let transfer = if duplicate {
                kept = handle;
                Transfer::Duplicate(Some(&kept))
            } else {
                Transfer::Move(Some(handle))
            };
            let result = Ok(());
            let mut entry = [Disposition { transfer, kind: row.kind, rights: row.rights, result }];
            assert_eq!(near.write_etc(&[], &mut entry), Err(expected), "{row:?}");
            assert_eq!(entry[0].result, Err(expected), "{row:?}");
            assert_eq!(is_orphan(&witness), !duplicate, "{row:?}: moved handles are consumed");
            assert_eq!(far.read().unwrap_err(), Status::ShouldWait, "{row:?}");
        }
    }
    let (near, _far) = Channel::pair();
    let poor = Handle::from(EventPair::pair().0.replace(Some(all - Rights::DUPLICATE)).unwrap());
    let mut entry = [Disposition::duplicating(&poor)];
    assert_eq!(near.write_etc(&[], &mut entry), Err(Status::AccessDenied));
}

#[test]
fn every_disposition_is_attempted_and_the_first_error_is_returned() {
    let (near, far) = Channel::pair();
    let (witness, good) = EventPair::pair();
    let mut entries = [
        Disposition::moving(good),
        Disposition { transfer: Transfer::Move(None), ..Disposition::moving(Event::new()) },
        Disposition { kind: Some(Kind::Port), ..Disposition::moving(Event::new()) },
    ];
    assert_eq!(near.write_etc(&[], &mut entries), Err(Status::BadHandle));
    let results = entries.each_ref().map(|entry| entry.result);
    assert_eq!(results, [Ok(()), Err(Status::BadHandle), Err(Status::WrongType)]);
    assert!(is_orphan(&witness));
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
}

#[test]
fn dispositions_move_duplicate_and_narrow() {
    let (near, far) = Channel::pair();
    let kept = Handle::from(Event::new());
    let narrow = Some(Rights::TRANSFER | Rights::WAIT);
    let mut entries = [
        Disposition { rights: narrow, ..Disposition::moving(Vmo::new(1).unwrap()) },
        Disposition { kind: Some(Kind::Event), ..Disposition::duplicating(&kept) },
    ];
    near.write_etc(&[], &mut entries).unwrap();
    let handles = far.read().unwrap().take_handles();
    assert_eq!(Some(handles[0].rights()), narrow);
    assert_eq!((handles[1].koid(), handles[1].rights()), (kept.koid(), Rights::EVENT));
    handles[1].signal(Signals::empty(), Signals::SIGNALED).unwrap();
    assert_eq!(kept.signals(), Signals::SIGNALED);
}

#[test]
fn an_endpoint_cannot_be_duplicated_into_itself() {
    let (near, _far) = Channel::pair();
    let near = Handle::from(near);
    let Handle::Channel(channel) = &near else { unreachable!() };
    let mut entry = [Disposition::duplicating(&near)];
    assert_eq!(channel.write_etc(&[], &mut entry), Err(Status::NotSupported));
}

#[test]
fn a_revoked_handle_is_a_bad_handle() {
    let (near, far) = Channel::pair();
    near.revoke();
    assert_eq!(crate::channel::send(&near, b"x"), Err(Status::BadHandle));
    assert_eq!(near.read().unwrap_err(), Status::BadHandle);
    assert_eq!(near.wait_one(Signals::WRITABLE, crate::channel::past()), Err(Status::BadHandle));
    assert!(!is_orphan(&far));
    drop(near);
    assert!(is_orphan(&far));
}
