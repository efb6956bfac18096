//! Operations for tables of handle numbers: successors of handles, counts, batches of custom regions.

use std::io::IoSlice;
use std::thread;
use std::time::Duration;

use testbed::{LONG, Transport};
use uncopy::channel::{
    BatchShape, Channel, Deadline, Event, EventPair, Fifo, Filling, Handle, Object, PacketContents,
    Port, Rights, Signals, Status, Vmo,
};

use crate::channel::{past, send_handles};

#[test]
fn a_successor_has_rights_identity_and_waits() {
    let port = Port::new();
    let old = Handle::from(Event::new());
    let observer = old.duplicate(None).unwrap();
    old.wait_async(&port, 7, Signals::SIGNALED, Default::default()).unwrap();
    let new = old.succeed().unwrap();
    assert_eq!((new.koid(), new.rights()), (old.koid(), old.rights()));
    // The old handle can still be used, and ends nothing when it is dropped.
    assert!(old.signals().is_empty());
    drop(old);
    observer.signal(Signals::empty(), Signals::SIGNALED).unwrap();
    assert_eq!(port.wait(past()).unwrap().key, 7);
    // Dropping the new one does.
    new.wait_async(&port, 8, Signals::USER_0, Default::default()).unwrap();
    drop(new);
    observer.signal(Signals::empty(), Signals::USER_0).unwrap();
    assert_eq!(port.wait(past()), Err(Status::TimedOut));
}

#[test]
fn a_wait_on_the_old_handle_ends_when_the_successor_is_read() {
    let (near, far) = Channel::pair();
    for old in [Handle::from(Event::new()), EventPair::pair().0.into(), Channel::pair().0.into()] {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| old.wait_one(Signals::USER_5, Deadline::INFINITE));
            thread::sleep(Duration::from_millis(20));
            send_handles(&near, vec![old.succeed().unwrap()]).unwrap();
            let _new = far.read().unwrap();
            // BadHandle if the wait came too late.
            let ended = waiting.join().unwrap();
            assert!(matches!(ended, Err(Status::Canceled | Status::BadHandle)), "{ended:?}");
        });
        assert_eq!(old.wait_one(Signals::USER_5, Deadline::INFINITE), Err(Status::BadHandle));
    }
}

#[test]
fn a_revoked_handle_has_no_successor_and_still_closes_its_object() {
    let (near, far) = Channel::pair();
    let handle = Handle::from(near);
    handle.revoke();
    assert_eq!(handle.succeed().unwrap_err(), Status::BadHandle);
    drop(handle);
    assert!(far.signals().contains(Signals::PEER_CLOSED));
}

fn channel_of(handle: &Handle) -> &Channel {
    let Handle::Channel(channel) = handle else { panic!("{handle:?}") };
    channel
}

#[test]
fn a_call_on_the_old_handle_ends_when_the_successor_is_closed_unread() {
    for is_sent in [false, true] {
        let (near, far) = Channel::pair();
        let old = Handle::from(near);
        thread::scope(|scope| {
            let calling = scope.spawn(|| {
                let question = [IoSlice::new(b"ask?")];
                channel_of(&old).call(&question, vec![], Deadline::INFINITE).map(drop)
            });
            far.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
            let new = old.succeed().unwrap();
            if is_sent {
                let (there, here) = Channel::pair();
                send_handles(&there, vec![new]).unwrap();
                drop(here);
            } else {
                drop(new);
            }
            assert_eq!(calling.join().unwrap(), Err(Status::Canceled), "{is_sent}");
        });
        // The peer is notified at once, and the old handle fails.
        assert!(far.signals().contains(Signals::PEER_CLOSED));
        assert_eq!(channel_of(&old).write(&[], vec![]), Err(Status::PeerClosed));
        assert_eq!(channel_of(&old).read().unwrap_err(), Status::PeerClosed);
    }
}

/// Sends the handle of a waiting call over a socket, as to another process.
fn send_during_a_call(
    near: Channel,
    far: &Channel,
    check: impl FnOnce(&dyn Fn() -> bool, Channel),
) {
    let old = Handle::from(near);
    thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let question = [IoSlice::new(b"ask?")];
            channel_of(&old).call(&question, vec![], Deadline::after(LONG)).map(drop)
        });
        far.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
        let (there, here) = crate::channel::socket_pair();
        send_handles(&there, vec![old.succeed().unwrap()]).unwrap();
        let goes_on = || {
            thread::sleep(Duration::from_millis(5));
            !calling.is_finished()
        };
        assert!(goes_on(), "it was written, not read");
        check(&goes_on, here);
        assert_eq!(calling.join().unwrap(), Err(Status::Canceled));
    });
}

#[test]
fn a_call_on_the_old_handle_ends_when_the_successor_is_read_in_another_process() {
    for over in [Transport::Local, Transport::Socket, Transport::Moved] {
        let (near, far) = over.channels();
        send_during_a_call(near, &far, |goes_on, here| {
            assert!(here.signals().contains(Signals::READABLE));
            assert!(goes_on(), "it was taken in, not read");
            let near = here.read().unwrap().take_handles().remove(0);
            // The request was sent before; the answer goes to the new holder of the end.
            let question = far.read().unwrap();
            far.write(&[IoSlice::new(&question[..4])], vec![]).unwrap();
            assert_eq!(channel_of(&near).read().unwrap()[..], question[..4]);
        });
    }
}

#[test]
fn a_call_on_the_old_handle_continues_while_the_successor_is_unread() {
    let (near, far) = Channel::pair();
    send_during_a_call(near, &far, |goes_on, here| {
        let (second, third) = crate::channel::socket_pair();
        assert!(here.signals().contains(Signals::READABLE));
        send_handles(&second, vec![here.into()]).unwrap();
        let here = Channel::try_from(third.read().unwrap().take_handles().remove(0)).unwrap();
        assert!(goes_on(), "what it lies in was read, not itself");
        drop(here.read().unwrap());
    });
}

#[test]
fn a_call_on_the_old_handle_ends_when_the_successor_is_lost() {
    let (near, far) = Channel::pair();
    send_during_a_call(near, &far, |_, here| drop(here));
    let (near, far) = Channel::pair();
    send_during_a_call(near, &far, |_, here| {
        assert!(here.signals().contains(Signals::READABLE));
    });
    assert!(far.wait_one(Signals::PEER_CLOSED, Deadline::after(LONG)).is_ok());
}

#[test]
fn a_wait_at_the_old_port_handle_ends_when_the_last_handle_is_closed() {
    let old = Handle::from(Port::new());
    let Handle::Port(port) = &old else { unreachable!() };
    thread::scope(|scope| {
        let waiting = scope.spawn(|| port.wait(Deadline::INFINITE).map(drop));
        let new = old.succeed().unwrap();
        let other = new.duplicate(None).unwrap();
        assert_eq!(new.count(), 2);
        drop(new);
        thread::sleep(Duration::from_millis(5));
        drop(other);
        assert_eq!(waiting.join().unwrap(), Err(Status::Canceled));
    });
    assert_eq!(old.duplicate(None).unwrap_err(), Status::BadHandle);
}

#[test]
fn an_object_closed_with_the_successor_cannot_be_duplicated() {
    let (pair, fifo) = (EventPair::pair(), Fifo::pair(1, 1).unwrap());
    for (old, peer) in
        [(Handle::from(pair.0), Handle::from(pair.1)), (Handle::from(fifo.0), Handle::from(fifo.1))]
    {
        let new = old.succeed().unwrap();
        assert_eq!(old.succeed().unwrap_err(), Status::BadHandle);
        drop(old.duplicate(None).unwrap());
        assert!(!peer.signals().contains(Signals::PEER_CLOSED));
        drop(new);
        assert!(peer.signals().contains(Signals::PEER_CLOSED), "{peer:?}");
        assert_eq!(old.duplicate(None).unwrap_err(), Status::BadHandle);
        assert_eq!(peer.signal_peer(Signals::empty(), Signals::USER_0), Err(Status::PeerClosed));
        old.revoke();
        drop(old);
        assert!(peer.signals().contains(Signals::PEER_CLOSED), "{peer:?}");
    }
}

#[test]
fn queued_messages_move_with_the_successor_while_the_old_handle_is_in_use() {
    let (near, far) = Channel::pair();
    near.write(&[IoSlice::new(b"queued")], vec![]).unwrap();
    let old = Handle::from(far);
    let new = Channel::try_from(old.succeed().unwrap()).unwrap();
    let arrived = Channel::from_fd(new.into_fd().unwrap()).unwrap();
    assert_eq!(*arrived.read().unwrap(), *b"queued");
    assert_eq!(channel_of(&old).write(&[], vec![]), Err(Status::PeerClosed));
    drop(old);
    near.write(&[IoSlice::new(b"later")], vec![]).unwrap();
    assert_eq!(*arrived.read().unwrap(), *b"later");
}

#[test]
fn open_handles_are_counted() {
    let vmo = Handle::from(Vmo::new(1).unwrap());
    let pair = EventPair::pair();
    let (left, _right) = (Handle::from(pair.0), Handle::from(pair.1));
    for handle in [vmo, left, Event::new().into(), Port::new().into()] {
        assert_eq!(handle.count(), 1, "{handle:?}");
        let other = handle.duplicate(None).unwrap();
        assert_eq!((handle.count(), other.count()), (2, 2), "{handle:?}");
        drop(other);
        assert_eq!(handle.count(), 1, "{handle:?}");
    }
    assert_eq!(Handle::from(Channel::pair().0).count(), 1);
}

#[test]
fn packets_keep_their_status() {
    let port = Port::new();
    port.queue_status(3, -40, [9; 32]).unwrap();
    port.queue(4, [8; 32]).unwrap();
    let packet = port.wait(past()).unwrap();
    assert_eq!((packet.key, packet.status), (3, -40));
    assert_eq!(packet.contents, PacketContents::User([9; 32]));
    assert_eq!(port.wait(past()).unwrap().status, 0);
}

#[test]
fn memory_keeps_its_name() {
    let vmo = Vmo::new(1).unwrap();
    assert!(vmo.name().is_empty());
    vmo.set_name(&[b'x'; 31]).unwrap();
    assert_eq!(vmo.name(), [b'x'; 31]);
    assert_eq!(vmo.set_name(&[b'x'; 32]), Err(Status::OutOfRange));
    let poor = vmo.duplicate(Some(Rights::READ)).unwrap();
    assert_eq!(poor.set_name(b"y"), Err(Status::AccessDenied));
    assert_eq!(Fifo::pair(4, 12).unwrap().1.element_bytes(), Ok(12));
}

#[test]
fn batches_of_custom_regions_report_failures() {
    let (near, far) = Channel::pair();
    let shape =
        |&(byte, message): &(u8, u16)| BatchShape { bytes: usize::from(byte), message, handles: 0 };
    let append = |&(byte, _): &(u8, u16), filling: &mut Filling<'_>| {
        if byte == 3 {
            return Err(Status::InvalidArgs);
        }
        Ok(filling.append(&vec![byte; byte.into()])?)
    };
    let sent = near.write_batch_with(&[(1, 0), (2, 0), (4, 1)], shape, append, &mut Vec::new());
    assert_eq!(sent, Ok(2));
    assert_eq!(*far.read().unwrap(), [1, 2, 2]);
    assert_eq!(*far.read().unwrap(), [4; 4]);
    let failed = near.write_batch_with(&[(5, 0), (3, 1), (6, 2)], shape, append, &mut Vec::new());
    let error = failed.unwrap_err();
    assert_eq!((error.status, error.sent), (Status::InvalidArgs, 1));
    assert_eq!(*far.read().unwrap(), [5; 5]);
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
}
