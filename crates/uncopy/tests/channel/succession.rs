//! What tables of handle numbers need: handles that succeed others, counts, batches of any regions.

use std::thread;
use std::time::Duration;

use uncopy::channel::{
    BatchShape, Channel, Deadline, Event, EventPair, Fifo, Filling, Handle, Object, PacketContents,
    Port, Rights, Signals, Status, Vmo,
};

use crate::{past, send_handles};

#[test]
fn a_successor_has_rights_identity_and_waits() {
    let port = Port::new();
    let old = Handle::from(Event::new());
    let observer = old.duplicate(None).unwrap();
    old.wait_async(&port, 7, Signals::SIGNALED, Default::default()).unwrap();
    let new = old.succeed().unwrap();
    assert_eq!((new.koid(), new.rights()), (old.koid(), old.rights()));
    // The old one can still be used, and ends nothing when it goes.
    assert!(old.signals().is_empty());
    drop(old);
    observer.signal(Signals::empty(), Signals::SIGNALED).unwrap();
    assert_eq!(port.wait(past()).unwrap().key, 7);
    // The new one does.
    new.wait_async(&port, 8, Signals::USER_0, Default::default()).unwrap();
    drop(new);
    observer.signal(Signals::empty(), Signals::USER_0).unwrap();
    assert_eq!(port.wait(past()), Err(Status::TimedOut));
}

#[test]
fn a_wait_on_the_old_ends_when_the_successor_is_read() {
    let (near, far) = Channel::pair();
    for old in [Handle::from(Event::new()), EventPair::pair().0.into(), Channel::pair().0.into()] {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| old.wait_one(Signals::USER_5, Deadline::INFINITE));
            thread::sleep(Duration::from_millis(20));
            send_handles(&near, vec![old.succeed().unwrap()]).unwrap();
            let _new = far.read().unwrap();
            // The second if it came too late.
            let ended = waiting.join().unwrap();
            assert!(matches!(ended, Err(Status::Canceled | Status::BadHandle)), "{ended:?}");
        });
        assert_eq!(old.wait_one(Signals::USER_5, Deadline::INFINITE), Err(Status::BadHandle));
    }
}

#[test]
fn a_revoked_handle_has_no_successor() {
    let handle = Handle::from(Event::new());
    handle.revoke();
    assert_eq!(handle.succeed().unwrap_err(), Status::BadHandle);
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
fn names_of_memory() {
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
fn batches_of_other_regions_and_their_failures() {
    let (near, far) = Channel::pair();
    let shape = |&(byte, message): &(u8, u16)| BatchShape {
        bytes: usize::from(byte),
        message,
        handles: 0,
    };
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
