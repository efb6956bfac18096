//! Ends that move to another process, tested within one process.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::Duration;

use testbed::LONG;
use uncopy::channel::{
    AsyncOptions, Channel, Deadline, Descriptor, Event, EventPair, Fifo, Handle, Object, Port,
    Rights, Signals, Socket, SocketKind, Status, Vmo,
};

use crate::channel::{moved, past, polls_readable, send, send_handles, socket_pair};

#[test]
fn queued_messages_move_with_the_end_and_come_before_later_ones() {
    let (near, far) = Channel::pair();
    for n in 0..3000u32 {
        send(&near, &n.to_ne_bytes()).unwrap();
    }
    send(&far, b"back").unwrap();
    let far = moved(far);
    send(&near, b"later").unwrap();
    for n in 0..3000u32 {
        assert_eq!(&*far.read().unwrap(), n.to_ne_bytes(), "{n}");
    }
    assert_eq!(&*far.read().unwrap(), b"later");
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
    assert_eq!(&*near.read().unwrap(), b"back");
    send(&far, b"more").unwrap();
    assert_eq!(&*near.read().unwrap(), b"more");
}

#[test]
fn a_backlog_of_many_mebibytes_moves() {
    let (near, far) = Channel::pair();
    let body = vec![5; 65_536];
    let mut count = 0;
    while send(&near, &body).is_ok() {
        count += 1;
    }
    assert_eq!(count, 256, "16 MiB");
    let far = moved(far);
    for _ in 0..count {
        assert_eq!(&*far.read().unwrap(), &body[..]);
    }
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
}

#[test]
fn handles_in_the_backlog_are_promoted() {
    let (near, far) = Channel::pair();
    let (inner_near, inner_far) = Channel::pair();
    send(&inner_near, b"deep").unwrap();
    let vmo = Vmo::new(4096).unwrap();
    vmo.write(b"memory", 0).unwrap();
    send_handles(&near, vec![inner_far.into(), vmo.into()]).unwrap();
    let far = moved(far);
    let mut handles = far.read().unwrap().take_handles().into_iter();
    let inner = Channel::try_from(handles.next().unwrap()).unwrap();
    assert_eq!(&*inner.read().unwrap(), b"deep");
    send(&inner, b"up").unwrap();
    assert_eq!(&*inner_near.read().unwrap(), b"up");
    let vmo = Vmo::try_from(handles.next().unwrap()).unwrap();
    let mut bytes = [0; 6];
    vmo.read(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"memory");
}

#[test]
fn sockets_fifos_and_descriptors_move_with_their_contents() {
    let (near, far) = socket_pair();
    let (stream, stream_far) = Socket::pair(SocketKind::Stream);
    let (datagram, datagram_far) = Socket::pair(SocketKind::Datagram);
    let (fifo, fifo_far) = Fifo::pair(8, 4).unwrap();
    let bytes: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    assert_eq!(stream.write(&bytes), Ok(200_000));
    datagram.write(b"one").unwrap();
    datagram.write(b"two!").unwrap();
    fifo.write(b"aaaabbbb").unwrap();
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    send_handles(
        &near,
        vec![
            stream_far.into(),
            datagram_far.into(),
            fifo_far.into(),
            Descriptor::from(file).into(),
        ],
    )
    .unwrap();
    let mut handles = far.read().unwrap().take_handles().into_iter();
    let stream_far = Socket::try_from(handles.next().unwrap()).unwrap();
    let mut found = Vec::new();
    let mut piece = vec![0; 70_000];
    while let Ok(count) = stream_far.read(&mut piece) {
        found.extend_from_slice(&piece[..count]);
    }
    assert!(found == bytes, "{} bytes", found.len());
    assert_eq!(stream_far.write(b"back"), Ok(4));
    assert_eq!(stream.read(&mut piece), Ok(4));
    let datagram_far = Socket::try_from(handles.next().unwrap()).unwrap();
    assert_eq!(datagram_far.read(&mut piece), Ok(3));
    assert_eq!(datagram_far.read(&mut piece[..2]), Ok(2));
    assert_eq!(datagram_far.read(&mut piece), Err(Status::ShouldWait), "the rest is cut off");
    let fifo_far = Fifo::try_from(handles.next().unwrap()).unwrap();
    assert_eq!(fifo_far.read(&mut piece[..4]), Ok(1));
    fifo.write(b"cccc").unwrap();
    assert_eq!(fifo_far.read(&mut piece[..64]), Ok(2));
    assert_eq!(&piece[..8], b"bbbbcccc");
    assert!(Descriptor::try_from(handles.next().unwrap()).is_ok());

    stream.disable_write().unwrap();
    let finished = stream_far.wait_one(Signals::PEER_WRITE_DISABLED, Deadline::after(LONG));
    assert!(finished.is_ok());
    assert_eq!(stream_far.read(&mut piece), Err(Status::BadState));
    drop(stream_far);
    assert_eq!(stream.write(b"x"), Err(Status::BadState), "or closed; it said first that it ends");
    drop(fifo);
    assert_eq!(fifo_far.read(&mut piece[..4]), Err(Status::PeerClosed));
}

#[test]
fn rights_and_user_signals_move() {
    let (near, far) = socket_pair();
    let (inner, inner_far) = Channel::pair();
    inner_far.signal(Signals::empty(), Signals::USER_2).unwrap();
    let poor = inner_far.replace(Some(Rights::READ | Rights::TRANSFER)).unwrap();
    send_handles(&near, vec![poor.into()]).unwrap();
    let inner_far = far.read().unwrap().take_handles().remove(0);
    assert_eq!(inner_far.rights(), Rights::READ | Rights::TRANSFER);
    let inner_far = Channel::try_from(inner_far).unwrap();
    assert_eq!(send(&inner_far, b"x"), Err(Status::AccessDenied));
    assert!(inner_far.signals().contains(Signals::USER_2));
    inner.signal_peer(Signals::USER_2, Signals::USER_5).unwrap();
    let user = inner_far.signals() & Signals::USER_ALL;
    assert_eq!(user, Signals::USER_5);
}

#[test]
fn ports_cannot_be_sent_and_are_consumed() {
    let (near, far) = socket_pair();
    let refused = send_handles(&near, vec![Event::new().into(), Port::new().into()]);
    assert_eq!(refused, Err(Status::NotSupported));
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
}

#[test]
fn waits_calls_ports_and_descriptors_continue_after_the_other_end_moves() {
    let (near, far) = Channel::pair();
    let port = Port::new();
    near.wait_async(&port, 7, Signals::READABLE, AsyncOptions::empty()).unwrap();
    let fd = near.signal_fd(Signals::READABLE).unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| near.wait_one(Signals::USER_1, Deadline::after(LONG)));
        let caller =
            scope.spawn(|| near.call(&[IoSlice::new(b"\0\0\0\0ask")], vec![], Deadline::INFINITE));
        let waiter = scope.spawn(|| port.wait(Deadline::after(LONG)));
        far.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
        // Time to fall asleep; the outcome is the same if they have not.
        std::thread::sleep(Duration::from_millis(50));
        let far = moved(far);
        let request = far.read().unwrap();
        assert_eq!(&request[4..], b"ask");
        far.write(&[IoSlice::new(&request[..4]), IoSlice::new(b"reported")], vec![]).unwrap();
        assert_eq!(&caller.join().unwrap().unwrap()[4..], b"reported");
        far.signal_peer(Signals::empty(), Signals::USER_1).unwrap();
        assert!(sleeper.join().unwrap().unwrap().contains(Signals::USER_1));
        send(&far, b"message").unwrap();
        assert_eq!(waiter.join().unwrap().unwrap().key, 7);
        assert!(polls_readable(&fd));
        assert_eq!(&*near.read().unwrap(), b"message");
        assert!(!polls_readable(&fd));
        drop(far);
        assert!(near.wait_one(Signals::PEER_CLOSED, Deadline::after(LONG)).is_ok());
        assert!(!polls_readable(&fd));
    });
}

#[test]
fn a_full_socket_returns_should_wait_and_becomes_writable_after_a_read() {
    let (near, far) = socket_pair();
    let body = vec![1; 60_000];
    let mut sent = 0;
    while send(&near, &body).is_ok() {
        sent += 1;
    }
    assert!(sent > 2, "{sent}");
    assert_eq!(send(&near, &body), Err(Status::ShouldWait));
    let mut handles: Vec<Handle> = vec![Event::new().into()];
    let full = near.try_write(&[IoSlice::new(&body)], &mut handles);
    assert_eq!((full, handles.len()), (Err(Status::ShouldWait), 1));
    assert_eq!(near.wait_one(Signals::WRITABLE, past()), Err(Status::TimedOut));
    std::thread::scope(|scope| {
        let writable = scope.spawn(|| near.wait_one(Signals::WRITABLE, Deadline::after(LONG)));
        for _ in 0..sent {
            assert_eq!(far.read().unwrap().len(), body.len());
        }
        assert!(writable.join().unwrap().is_ok());
    });
    send(&near, &body).unwrap();
}

#[test]
fn a_descriptor_that_is_not_a_seqpacket_socket_is_refused() {
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    assert_eq!(Channel::from_fd(file).unwrap_err().1, Status::WrongType);
    let (stream, _) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(Channel::from_fd(stream.into()).unwrap_err().1, Status::WrongType);
}

/// Moves it to a socket and back, as to another process.
fn sent(handle: impl Into<Handle>) -> Handle {
    let (near, far) = socket_pair();
    send_handles(&near, vec![handle.into()]).unwrap();
    far.read().unwrap().take_handles().remove(0)
}

#[test]
fn an_event_is_the_same_event_in_all_processes() {
    let here = Event::new();
    here.signal(Signals::empty(), Signals::USER_3).unwrap();
    let port = Port::new();
    here.wait_async(&port, 1, Signals::USER_4, AsyncOptions::empty()).unwrap();
    let fd = here.signal_fd(Signals::SIGNALED).unwrap();
    let there = Event::try_from(sent(here.duplicate(None).unwrap())).unwrap();
    assert_eq!(there.signals(), Signals::USER_3);
    there.signal(Signals::USER_3, Signals::USER_4).unwrap();
    assert_eq!(here.signals(), Signals::USER_4);
    assert_eq!(port.wait(Deadline::after(LONG)).unwrap().key, 1);
    assert!(!polls_readable(&fd));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| here.wait_one(Signals::SIGNALED, Deadline::after(LONG)));
        let other = scope.spawn(|| there.wait_one(Signals::USER_7, Deadline::after(LONG)));
        std::thread::sleep(Duration::from_millis(20));
        there.signal(Signals::empty(), Signals::SIGNALED).unwrap();
        assert_eq!(sleeper.join().unwrap(), Ok(Signals::USER_4 | Signals::SIGNALED));
        here.signal(Signals::empty(), Signals::USER_7).unwrap();
        assert!(other.join().unwrap().is_ok());
    });
    assert!(polls_readable(&fd));
    let later = there.signal_fd(Signals::USER_0).unwrap();
    there.wait_async(&port, 2, Signals::USER_0, AsyncOptions::empty()).unwrap();
    here.signal(Signals::SIGNALED, Signals::USER_0).unwrap();
    assert!(!polls_readable(&fd) && !there.signals().contains(Signals::SIGNALED));
    assert!(polls_readable(&later));
    assert_eq!(port.wait(Deadline::after(LONG)).unwrap().key, 2);
}

#[test]
fn an_event_pair_works_between_processes_and_reports_a_closed_end() {
    let (near, far) = EventPair::pair();
    near.signal_peer(Signals::empty(), Signals::USER_1).unwrap();
    let again = far.duplicate(None).unwrap();
    let far = EventPair::try_from(sent(far)).unwrap();
    assert_eq!((far.signals(), again.signals()), (Signals::USER_1, Signals::USER_1));
    far.signal_peer(Signals::empty(), Signals::SIGNALED).unwrap();
    assert_eq!(near.wait_one(Signals::SIGNALED, Deadline::after(LONG)), Ok(Signals::SIGNALED));
    far.signal(Signals::USER_1, Signals::USER_2).unwrap();
    assert_eq!(again.wait_one(Signals::USER_2, Deadline::after(LONG)), Ok(Signals::USER_2));
    drop(far);
    assert!(!near.signals().contains(Signals::PEER_CLOSED), "there is a duplicate");
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| near.wait_one(Signals::PEER_CLOSED, Deadline::after(LONG)));
        std::thread::sleep(Duration::from_millis(20));
        drop(again);
        assert!(sleeper.join().unwrap().is_ok());
    });
    assert_eq!(near.signal_peer(Signals::empty(), Signals::USER_1), Err(Status::PeerClosed));
    let (near, far) = EventPair::pair();
    drop(far);
    let near = EventPair::try_from(sent(near)).unwrap();
    assert!(near.signals().contains(Signals::PEER_CLOSED));
}

/// Returns an end, and one with the other end in its queue, or with one that has it in its queue, and so on.
fn nested(depth: usize) -> (Channel, Channel) {
    let (innermost, mut far) = Channel::pair();
    for _ in 0..depth {
        let (near, outer) = Channel::pair();
        send_handles(&near, vec![far.into()]).unwrap();
        far = outer;
    }
    (innermost, far)
}

/// A level took stack, of which a thread may have little.
#[test]
fn nested_ends_move_from_a_thread_with_a_small_stack() {
    let (innermost, far) = nested(200);
    let mover = std::thread::Builder::new().stack_size(128 << 10);
    let fd = mover.spawn(|| far.into_fd().unwrap()).unwrap().join().unwrap();
    drop(fd);
    assert!(innermost.wait_one(Signals::PEER_CLOSED, Deadline::after(LONG)).is_ok());
}

/// Each end lies in the queue of the next; all of them move, or the outermost is closed with them.
#[test]
fn deeply_nested_ends_move_or_are_closed() {
    for depth in [200, 5000] {
        let (innermost, far) = nested(depth);
        match far.into_fd() {
            Ok(fd) => {
                let mut at = Channel::from_fd(fd).unwrap();
                for _ in 0..depth {
                    let inner = at.read().unwrap().take_handles().remove(0);
                    at = Channel::try_from(inner).unwrap();
                }
                send(&innermost, b"deep").unwrap();
                assert_eq!(&*at.read().unwrap(), b"deep");
            }
            Err(status) => {
                assert_eq!(status, Status::NoResources);
                let closed = Signals::PEER_CLOSED;
                assert!(innermost.wait_one(closed, Deadline::after(LONG)).is_ok());
            }
        }
    }
}

/// A thread that waits is woken by whoever has the object in another process, from the moment when the first one has.
#[test]
fn waits_go_on_while_their_event_is_shared_for_the_first_time() {
    type Make = fn() -> (Handle, Handle);
    let pair: Make = || {
        let (near, far) = EventPair::pair();
        (near.into(), far.into())
    };
    let event: Make = || {
        let event = Event::new();
        let again = event.duplicate(None).unwrap();
        (event.into(), again.into())
    };
    for (what, make) in [("event", event), ("event pair", pair)] {
        for round in 0..100 {
            let (waited, other) = make();
            let watcher = Port::new();
            std::thread::scope(|scope| {
                let sleeper =
                    scope.spawn(|| waited.wait_one(Signals::USER_3, Deadline::after(LONG)));
                if round % 2 == 0 {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(Duration::from_millis(1));
                }
                // Sharing takes longer with an observer that polls.
                let options = AsyncOptions::empty();
                waited.wait_async(&watcher, 1, Signals::USER_2, options).unwrap();
                let signal = match EventPair::try_from(sent(other)) {
                    Ok(far) => far.signal_peer(Signals::empty(), Signals::USER_3),
                    Err(event) => {
                        Event::try_from(event).unwrap().signal(Signals::empty(), Signals::USER_3)
                    }
                };
                signal.unwrap();
                assert!(sleeper.join().unwrap().is_ok(), "{what}, round {round}");
            });
        }
    }
}
