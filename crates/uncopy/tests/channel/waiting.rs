//! Signals, waits, ports and descriptors.

use std::time::{Duration, Instant};

use testbed::{LONG, Transport};
use uncopy::channel::{
    AsyncOptions, Channel, Deadline, Event, EventPair, Object, PacketContents, Port, Rights,
    Signals, SocketKind, Status, WaitItem, wait_many,
};

use crate::channel::{is_orphan, past, polls_readable, send, send_handles};

pub(crate) fn readable_is_set_exactly_while_the_queue_is_not_empty(over: Transport) {
    let (near, far) = over.channels();
    assert_eq!((near.signals(), far.signals()), (Signals::WRITABLE, Signals::WRITABLE));
    send(&near, b"1").unwrap();
    send(&near, b"2").unwrap();
    assert_eq!(far.wait_one(Signals::READABLE, past()), Ok(Signals::READABLE | Signals::WRITABLE));
    drop(far.read().unwrap());
    assert!(far.signals().contains(Signals::READABLE));
    drop(far.read().unwrap());
    assert_eq!(far.wait_one(Signals::READABLE, past()), Err(Status::TimedOut));
}

pub(crate) fn a_program_can_change_only_user_signals(over: Transport) {
    let (near, far) = over.channels();
    near.signal(Signals::empty(), Signals::USER_0 | Signals::USER_7).unwrap();
    near.signal(Signals::USER_0, Signals::empty()).unwrap();
    near.signal_peer(Signals::empty(), Signals::USER_3).unwrap();
    assert_eq!(near.signals(), Signals::WRITABLE | Signals::USER_7);
    assert_eq!(far.signals(), Signals::WRITABLE | Signals::USER_3);
    for signals in [Signals::READABLE, Signals::PEER_CLOSED, Signals::SIGNALED] {
        assert_eq!(near.signal(Signals::empty(), signals), Err(Status::InvalidArgs));
        assert_eq!(near.signal(signals, Signals::empty()), Err(Status::InvalidArgs));
        assert_eq!(near.signal_peer(Signals::empty(), signals), Err(Status::InvalidArgs));
    }
    let event = Event::new();
    assert_eq!(event.signal_peer(Signals::empty(), Signals::USER_0), Err(Status::AccessDenied));
    event.signal(Signals::empty(), Signals::SIGNALED).unwrap();
    let deaf = event.duplicate(Some(Rights::TRANSFER)).unwrap();
    assert_eq!(deaf.signal(Signals::empty(), Signals::SIGNALED), Err(Status::AccessDenied));
    assert_eq!(deaf.wait_one(Signals::SIGNALED, past()), Err(Status::AccessDenied));
}

/// Over a socket the earlier changes of the other end were applied later, to those that this end had made.
pub(crate) fn the_last_change_of_a_signal_counts_whichever_end_made_it(over: Transport) {
    fn check(near: &dyn Object, far: &dyn Object) {
        let (kind, none) = (near.kind(), Signals::empty());
        near.signal(none, Signals::USER_0).unwrap();
        far.signal_peer(Signals::USER_0, Signals::USER_1).unwrap();
        near.signal(Signals::USER_1, Signals::USER_0).unwrap();
        let user = Signals::USER_0 | Signals::USER_1;
        assert_eq!(near.signals() & user, Signals::USER_0, "{kind:?}");
        far.signal_peer(Signals::USER_0, Signals::USER_1).unwrap();
        assert_eq!(near.signals() & user, Signals::USER_1, "{kind:?}");
    }
    let (near, far) = over.channels();
    check(&near, &far);
    let (near, far) = over.fifos(4, 4);
    check(&near, &far);
    let (near, far) = over.sockets(SocketKind::Stream);
    check(&near, &far);
    let (near, far) = over.event_pairs();
    check(&near, &far);
}

pub(crate) fn a_wait_ends_with_its_signal_its_handle_or_its_deadline(over: Transport) {
    let (near, far) = over.channels();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| far.wait_one(Signals::READABLE, Deadline::after(LONG)));
        send(&near, b"x").unwrap();
        assert_eq!(sleeper.join().unwrap(), Ok(Signals::READABLE | Signals::WRITABLE));
        let sleeper = scope.spawn(|| far.wait_one(Signals::USER_0, Deadline::INFINITE));
        while !sleeper.is_finished() {
            far.revoke();
        }
        let ended = sleeper.join().unwrap().unwrap_err();
        assert!(matches!(ended, Status::Canceled | Status::BadHandle), "{ended}");
    });
    let deadline = Deadline::from(Instant::now() + Duration::from_millis(5));
    assert_eq!(near.wait_one(Signals::USER_0, deadline), Err(Status::TimedOut));
}

/// Looks for the whole time, or goes to sleep during it.
const SPINS: [Duration; 3] = [LONG, Duration::from_micros(20), Duration::ZERO];

pub(crate) fn a_wait_that_spins_ends_as_one_that_sleeps(over: Transport) {
    type Wait = fn(&Channel, Deadline) -> Result<(), Status>;
    let waits: [(&str, Wait); 4] = [
        ("receive", |channel, deadline| channel.receive(deadline).map(drop)),
        ("wait_one", |channel, deadline| channel.wait_one(Signals::READABLE, deadline).map(drop)),
        ("wait_many", |channel, deadline| {
            let event = Event::new();
            let mut items = [
                WaitItem::new(&event, Signals::SIGNALED),
                WaitItem::new(channel, Signals::READABLE),
            ];
            wait_many(&mut items, deadline)
        }),
        ("port", |channel, deadline| {
            let port = Port::new();
            channel.wait_async(&port, 7, Signals::READABLE, AsyncOptions::empty())?;
            port.wait(deadline).map(|packet| assert_eq!(packet.key, 7))
        }),
    ];
    for (name, wait) in waits {
        for spin in SPINS {
            let case = format!("{name}, {spin:?}");
            let (near, far) = over.channels();
            let deadline = Deadline::after(LONG).spinning(spin);
            std::thread::scope(|scope| {
                // The first is there already, the second may come during the look or the sleep.
                for delay in [Duration::ZERO, Duration::from_millis(1)] {
                    let waiting = scope.spawn(|| wait(&far, deadline));
                    std::thread::sleep(delay);
                    send(&near, b"x").unwrap();
                    assert_eq!(waiting.join().unwrap(), Ok(()), "{case}");
                    let left = far.read().err();
                    let expected = (name == "receive").then_some(Status::ShouldWait);
                    assert_eq!(left, expected, "{case}");
                }
            });
            let soon = Deadline::after(Duration::from_millis(2)).spinning(spin);
            assert_eq!(wait(&far, soon), Err(Status::TimedOut), "{case}");
            let over = past().spinning(spin);
            assert_eq!(wait(&far, over), Err(Status::TimedOut), "{case}");
            if name != "port" {
                std::thread::scope(|scope| {
                    let waiting = scope.spawn(|| wait(&far, deadline));
                    while !waiting.is_finished() {
                        far.revoke();
                    }
                    let ended = waiting.join().unwrap().unwrap_err();
                    let is_end = matches!(ended, Status::Canceled | Status::BadHandle);
                    assert!(is_end || ended == Status::AccessDenied, "{case}: {ended}");
                });
            }
        }
    }
}

pub(crate) fn two_threads_that_spin_at_two_ends_both_see_their_messages(over: Transport) {
    let (near, far) = over.channels();
    let bounce = |channel: &Channel, starts: bool| {
        for round in 0..200_u8 {
            if starts {
                send(channel, &[round]).unwrap();
            }
            let deadline = Deadline::after(LONG).spinning(SPINS[usize::from(round) % SPINS.len()]);
            channel.wait_one(Signals::READABLE, deadline).unwrap();
            assert_eq!(&*channel.read().unwrap(), &[round]);
            if !starts {
                send(channel, &[round]).unwrap();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| bounce(&near, true));
        scope.spawn(|| bounce(&far, false));
    });
}

pub(crate) fn wait_many_waits_for_any_and_reports_all(over: Transport) {
    let (near, far) = over.channels();
    let event = Event::new();
    let wait = |deadline| {
        let mut items = [
            WaitItem::new(&far, Signals::READABLE),
            WaitItem::new(&event, Signals::SIGNALED | Signals::USER_1),
        ];
        let result = wait_many(&mut items, deadline);
        (result, items.map(|item| item.pending))
    };
    let idle = [Signals::WRITABLE, Signals::empty()];
    assert_eq!(wait(past()), (Err(Status::TimedOut), idle));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| wait(Deadline::after(LONG)));
        event.signal(Signals::empty(), Signals::USER_1).unwrap();
        assert_eq!(sleeper.join().unwrap(), (Ok(()), [Signals::WRITABLE, Signals::USER_1]));
    });
    send(&near, b"x").unwrap();
    let both = [Signals::WRITABLE | Signals::READABLE, Signals::USER_1];
    assert_eq!(wait(Deadline::INFINITE), (Ok(()), both));

    assert_eq!(wait_many(&mut [], past()), Err(Status::TimedOut));
    let mut many: Vec<_> = (0..65).map(|_| WaitItem::new(&event, Signals::USER_1)).collect();
    assert_eq!(wait_many(&mut many, past()), Err(Status::OutOfRange));
    assert_eq!(wait_many(&mut many[..64], past()), Ok(()));
}

fn signal_packet(port: &Port) -> Option<(u64, Signals, Signals)> {
    match port.wait(past()) {
        Ok(packet) => match packet.contents {
            PacketContents::Signal { trigger, observed, count, .. } => {
                assert_eq!(count, 1);
                Some((packet.key, trigger, observed))
            }
            other => panic!("{other:?}"),
        },
        Err(status) => {
            assert_eq!(status, Status::TimedOut);
            None
        }
    }
}

pub(crate) fn a_binding_fires_once_immediately_or_at_the_edge(over: Transport) {
    let (near, far) = over.channels();
    let port = Port::new();
    let (none, edge) = (AsyncOptions::empty(), AsyncOptions::EDGE);
    far.wait_async(&port, 1, Signals::READABLE, none).unwrap();
    assert_eq!(signal_packet(&port), None);
    send(&near, b"x").unwrap();
    send(&near, b"y").unwrap();
    let observed = Signals::READABLE | Signals::WRITABLE;
    assert_eq!(signal_packet(&port), Some((1, Signals::READABLE, observed)));
    assert_eq!(signal_packet(&port), None, "it fires once");
    far.wait_async(&port, 2, Signals::READABLE, none).unwrap();
    assert_eq!(signal_packet(&port), Some((2, Signals::READABLE, observed)), "set already");
    far.wait_async(&port, 3, Signals::READABLE, edge).unwrap();
    send(&near, b"z").unwrap();
    assert_eq!(signal_packet(&port), None, "set already is no edge");
    (0..3).for_each(|_| drop(far.read().unwrap()));
    send(&near, b"again").unwrap();
    assert_eq!(signal_packet(&port), Some((3, Signals::READABLE, observed)));
}

pub(crate) fn ports_return_packets_first_in_first_out(over: Transport) {
    let port = Port::new();
    let ((a, _a), (b, _b)) = (over.events(), over.events());
    a.wait_async(&port, 10, Signals::SIGNALED, AsyncOptions::TIMESTAMP).unwrap();
    b.wait_async(&port, 11, Signals::SIGNALED, AsyncOptions::empty()).unwrap();
    b.signal(Signals::empty(), Signals::SIGNALED).unwrap();
    port.queue(12, [7; 32]).unwrap();
    a.signal(Signals::empty(), Signals::SIGNALED).unwrap();
    let packets = [(); 3].map(|()| port.wait(past()).unwrap());
    assert_eq!(packets.map(|packet| packet.key), [11, 12, 10]);
    assert_eq!(packets[1].contents, PacketContents::User([7; 32]));
    let stamped = |i: usize| match packets[i].contents {
        PacketContents::Signal { timestamp, .. } => timestamp.is_some(),
        _ => false,
    };
    assert_eq!((stamped(0), stamped(2)), (false, true));
}

pub(crate) fn wait_async_checks_in_zircons_order(over: Transport) {
    let (near, _far) = over.channels();
    let both = AsyncOptions::TIMESTAMP | AsyncOptions::BOOT_TIMESTAMP;
    let readonly = Port::new().replace(Some(Rights::READ)).unwrap();
    let deaf = near.replace(Some(Rights::CHANNEL - Rights::WAIT)).unwrap();
    let none = AsyncOptions::empty();
    for (what, options, port, expected) in [
        ("options first", both, &readonly, Status::InvalidArgs),
        ("then the port", none, &readonly, Status::AccessDenied),
        ("then the object", none, &Port::new(), Status::AccessDenied),
    ] {
        assert_eq!(deaf.wait_async(port, 0, Signals::all(), options), Err(expected), "{what}");
    }
    assert_eq!(readonly.queue(0, [0; 32]), Err(Status::AccessDenied));
    let bound = Event::new().wait_async(&readonly, 0, Signals::SIGNALED, none);
    assert_eq!(bound, Err(Status::AccessDenied));
}

pub(crate) fn cancel_removes_waits_and_queued_packets(over: Transport) {
    let port = Port::new();
    let ((a, other_a), (b, other_b)) = (over.events(), over.events());
    let bind = |event: &Event, key| {
        event.wait_async(&port, key, Signals::SIGNALED, AsyncOptions::empty()).unwrap();
    };
    bind(&a, 1);
    bind(&a, 2);
    bind(&b, 1);
    port.cancel(&a, 1).unwrap();
    assert_eq!(port.cancel(&a, 1), Err(Status::NotFound));
    other_a.signal(Signals::empty(), Signals::SIGNALED).unwrap();
    other_b.signal(Signals::empty(), Signals::SIGNALED).unwrap();
    port.cancel(&a, 2).unwrap();
    assert_eq!(signal_packet(&port).map(|packet| packet.0), Some(1), "b's is still there");
    assert_eq!(signal_packet(&port), None);
}

pub(crate) fn a_binding_ends_with_its_handle_but_its_packet_stays(over: Transport) {
    let port = Port::new();
    let (near, far) = over.event_pairs();
    let twin = near.duplicate(None).unwrap();
    twin.wait_async(&port, 1, Signals::USER_0, AsyncOptions::empty()).unwrap();
    near.wait_async(&port, 2, Signals::USER_0, AsyncOptions::empty()).unwrap();
    drop(twin);
    far.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
    assert_eq!(near.signals(), Signals::USER_0);
    drop(near);
    assert_eq!(signal_packet(&port).map(|packet| packet.0), Some(2));
    assert_eq!(signal_packet(&port), None);
}

pub(crate) fn a_binding_ends_when_its_handle_is_read_at_the_other_end(over: Transport) {
    let port = Port::new();
    let (near, far) = over.channels();
    let (witness, moved) = EventPair::pair();
    moved.wait_async(&port, 1, Signals::USER_0, AsyncOptions::empty()).unwrap();
    send_handles(&near, vec![moved.into()]).unwrap();
    let received = far.read().unwrap().take_handles();
    witness.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
    assert_eq!(signal_packet(&port), None);
    drop(received);
}

pub(crate) fn a_closed_port_releases_its_observers(over: Transport) {
    let (near, far) = over.event_pairs();
    for _ in 0..1000 {
        let port = Port::new();
        near.wait_async(&port, 1, Signals::USER_0, AsyncOptions::empty()).unwrap();
    }
    far.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
}

#[test]
fn a_wait_at_a_port_ends_with_a_packet_or_its_handle() {
    let port = Port::new();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| port.wait(Deadline::after(LONG)));
        port.queue(5, [0; 32]).unwrap();
        assert_eq!(sleeper.join().unwrap().unwrap().key, 5);
        let sleeper = scope.spawn(|| port.wait(Deadline::INFINITE));
        while !sleeper.is_finished() {
            port.revoke();
        }
        let ended = sleeper.join().unwrap().unwrap_err();
        assert!(matches!(ended, Status::Canceled | Status::BadHandle), "{ended}");
    });
}

pub(crate) fn a_descriptor_polls_readable_while_its_signals_are_set(over: Transport) {
    let (near, far) = over.channels();
    let fd = far.signal_fd(Signals::READABLE | Signals::PEER_CLOSED).unwrap();
    assert!(!polls_readable(&fd));
    send(&near, b"1").unwrap();
    send(&near, b"2").unwrap();
    assert!(polls_readable(&fd) && polls_readable(&fd), "level, not edge");
    drop(far.read().unwrap());
    assert!(polls_readable(&fd), "one message is left");
    drop(far.read().unwrap());
    assert!(!polls_readable(&fd));
    let late = near.signal_fd(Signals::WRITABLE).unwrap();
    assert!(polls_readable(&late), "set already");
    drop(near);
    assert!(polls_readable(&fd));
}

/// The kernel says for ever that the socket behind the end can be written to.
pub(crate) fn a_descriptor_of_an_end_that_writes_no_more_is_not_readable(over: Transport) {
    let (near, far) = over.sockets(SocketKind::Stream);
    let early = near.signal_fd(Signals::WRITABLE).unwrap();
    assert!(polls_readable(&early));
    near.disable_write().unwrap();
    let late = near.signal_fd(Signals::WRITABLE).unwrap();
    assert!(!near.signals().contains(Signals::WRITABLE));
    assert!(!polls_readable(&early) && !polls_readable(&late));
    drop(far);
    // Its signals do not say so either.
    assert!(is_orphan(&near) && !polls_readable(&early) && !polls_readable(&late));
}

/// Elements that nobody has read leave no room for what is behind them, and no look at the socket changes a signal.
pub(crate) fn a_descriptor_of_a_full_end_is_readable_for_its_signals_alone(over: Transport) {
    let (near, far) = over.fifos(4, 1);
    let early = far.signal_fd(Signals::USER_0).unwrap();
    let mut left: usize = (0..3).map(|_| near.write(&[1; 4]).unwrap_or(0)).sum();
    near.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
    let late = far.signal_fd(Signals::USER_0).unwrap();
    let is_set = far.signals().contains(Signals::USER_0);
    assert_eq!(is_set, over.is_local());
    assert_eq!([&early, &late].map(polls_readable), [is_set; 2]);
    while left > 0 {
        left -= far.read(&mut [0; 4]).unwrap();
    }
    assert!(polls_readable(&early) && polls_readable(&late));
    assert!(far.signals().contains(Signals::USER_0));
    far.signal(Signals::USER_0, Signals::empty()).unwrap();
    assert!(!polls_readable(&early) && !polls_readable(&late));
    near.write(&[1; 4]).unwrap();
    near.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
    assert!(polls_readable(&early) && polls_readable(&late));
}

pub(crate) fn a_descriptor_whose_handle_is_gone_stays_readable(over: Transport) {
    let (near, far) = over.channels();
    let (closed, revoked) = (near.signal_fd(Signals::USER_0), far.signal_fd(Signals::USER_0));
    let (closed, revoked) = (closed.unwrap(), revoked.unwrap());
    assert!(!polls_readable(&closed) && !polls_readable(&revoked));
    far.revoke();
    assert!(!polls_readable(&closed) && polls_readable(&revoked));
    drop(near);
    assert!(polls_readable(&closed));
}
