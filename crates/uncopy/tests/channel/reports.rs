//! Results of waits: all signals that are set, over every transport.

use std::time::Duration;

use testbed::{LONG, Transport};
use uncopy::channel::{
    AsyncOptions, Deadline, Handle, Object, PacketContents, Port, Signals, Socket, SocketKind,
    Status, WaitItem, wait_many,
};

use crate::channel::{past, send};

/// Usually enough to fall asleep; the outcome is the same if not.
const TICK: Duration = Duration::from_millis(2);

/// Two ends, and a function that writes from the first to the second.
type Ends = (Handle, Handle, fn(&Handle) -> Result<(), Status>);

/// Returns ends of every kind that can be read.
fn readable_ends(over: Transport) -> Vec<Ends> {
    fn both<T: Into<Handle>>(ends: impl Into<[T; 2]>) -> (Handle, Handle) {
        ends.into().map(T::into).into()
    }
    let write = |handle: &Handle| match handle {
        Handle::Channel(channel) => send(channel, b"data"),
        Handle::Fifo(fifo) => fifo.write(b"data").map(drop),
        Handle::Socket(socket) => socket.write(b"data").map(drop),
        other => unreachable!("{other:?}"),
    };
    let ends = [
        both(over.channels()),
        both(over.fifos(4, 4)),
        both(over.sockets(SocketKind::Stream)),
        both(over.sockets(SocketKind::Datagram)),
    ];
    ends.map(|(near, far)| (near, far, write as fn(&Handle) -> _)).into()
}

/// A method to wait for signals of an object; returns all that are set.
type WaitMethod = fn(&Handle, Signals, Deadline) -> Result<Signals, Status>;

const WAIT_METHODS: [(&str, WaitMethod); 4] = [
    ("wait_one", |handle, signals, deadline| handle.wait_one(signals, deadline)),
    ("wait_many", |handle, signals, deadline| {
        let mut items = [WaitItem::new(handle, signals)];
        wait_many(&mut items, deadline).map(|()| items[0].pending)
    }),
    ("wait_many behind another", |handle, signals, deadline| {
        let other = uncopy::channel::Event::new();
        let mut items = [WaitItem::new(&other, Signals::all()), WaitItem::new(handle, signals)];
        wait_many(&mut items, deadline).map(|()| items[1].pending)
    }),
    ("port", |handle, signals, deadline| {
        let port = Port::new();
        handle.wait_async(&port, 1, signals, AsyncOptions::empty())?;
        match port.wait(deadline)?.contents {
            PacketContents::Signal { observed, .. } => Ok(observed),
            other => unreachable!("{other:?}"),
        }
    }),
];

#[track_caller]
fn expect(far: &Handle, wanted: Signals, expected: Signals) {
    for (name, wait) in WAIT_METHODS {
        assert_eq!(wait(far, wanted, past()), Ok(expected), "{name} for {wanted:?}: {far:?}");
    }
}

/// A signal that is set does not hide others, neither before nor behind it in the socket.
pub(crate) fn a_wait_for_several_signals_reports_all_that_are_set(over: Transport) {
    let (readable, writable) = (Signals::READABLE, Signals::WRITABLE);
    for (name, wait) in WAIT_METHODS {
        for (near, far, write) in readable_ends(over) {
            let wait = |wanted| wait(&far, wanted, past());
            let what = format!("{name}: {far:?}");
            assert_eq!(wait(readable | writable), Ok(writable), "{what}");
            write(&near).unwrap();
            assert_eq!(wait(readable | writable), Ok(readable | writable), "{what}");
            near.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
            let all = readable | writable | Signals::USER_0;
            assert_eq!(wait(readable | Signals::USER_0), Ok(all), "{what}");
            near.signal_peer(Signals::USER_0, Signals::USER_1).unwrap();
            let all = readable | writable | Signals::USER_1;
            assert_eq!(wait(writable), Ok(all), "{what}");
            drop(near);
            let all = readable | Signals::PEER_CLOSED | Signals::USER_1;
            assert_eq!(wait(readable | writable), Ok(all), "{what}");
        }
    }
}

/// Everything arrived before the first look.
pub(crate) fn a_first_wait_reports_signals_behind_the_one_it_waits_for(over: Transport) {
    for wanted in [Signals::READABLE, Signals::WRITABLE, Signals::READABLE | Signals::USER_3] {
        for (near, far, write) in readable_ends(over) {
            (0..3).for_each(|_| write(&near).unwrap());
            near.signal_peer(Signals::empty(), Signals::USER_3).unwrap();
            write(&near).unwrap();
            let mut all = Signals::READABLE | Signals::WRITABLE | Signals::USER_3;
            if let Handle::Socket(socket) = &near {
                socket.disable_write().unwrap();
                all |= Signals::PEER_WRITE_DISABLED;
            }
            expect(&far, wanted, all);
            drop(near);
            expect(&far, all, (all - Signals::WRITABLE) | Signals::PEER_CLOSED);
        }
    }
}

/// The closed peer is reported at once, for any number of unread messages.
pub(crate) fn a_wait_reports_a_closed_peer_behind_unread_messages(over: Transport) {
    for (near, far, write) in readable_ends(over) {
        while write(&near).is_ok() {}
        drop(near);
        let all = Signals::READABLE | Signals::PEER_CLOSED;
        expect(&far, Signals::READABLE, all);
        expect(&far, Signals::PEER_CLOSED, all);
    }
}

pub(crate) fn a_wait_for_several_signals_of_an_event_reports_all(over: Transport) {
    let (events, pairs) = (over.events(), over.event_pairs());
    let signal_event: fn(&Handle, Signals) -> _ = |near, set| near.signal(Signals::empty(), set);
    let signal_pair: fn(&Handle, Signals) -> _ =
        |near, set| near.signal_peer(Signals::empty(), set);
    for (near, far, signal) in [
        (Handle::from(events.0), Handle::from(events.1), signal_event),
        (Handle::from(pairs.0), Handle::from(pairs.1), signal_pair),
    ] {
        far.signal(Signals::empty(), Signals::USER_1).unwrap();
        let own = Signals::USER_1;
        expect(&far, own | Signals::SIGNALED, own);
        signal(&near, Signals::SIGNALED).unwrap();
        expect(&far, own | Signals::SIGNALED, own | Signals::SIGNALED);
        signal(&near, Signals::USER_2).unwrap();
        expect(&far, own, own | Signals::SIGNALED | Signals::USER_2);
    }
}

/// Another thread ends the sleep; signals from the peer are reported too.
pub(crate) fn a_woken_wait_reports_all_signals_that_arrived(over: Transport) {
    let wanted = Signals::USER_5 | Signals::PEER_CLOSED;
    for (near, far, write) in readable_ends(over) {
        for (name, wait) in &WAIT_METHODS[..3] {
            // Sets no signal of the object that the thread waits for.
            write(&near).unwrap();
            std::thread::scope(|scope| {
                let sleeper = scope.spawn(|| wait(&far, wanted, Deadline::after(LONG)));
                std::thread::sleep(TICK);
                write(&near).unwrap();
                far.signal(Signals::empty(), Signals::USER_5).unwrap();
                let all = Signals::READABLE | Signals::WRITABLE | Signals::USER_5;
                assert_eq!(sleeper.join().unwrap(), Ok(all), "{name}: {far:?}");
            });
            far.signal(Signals::USER_5, Signals::empty()).unwrap();
            drain(&far);
        }
    }
}

fn drain(handle: &Handle) {
    let mut bytes = [0; 64];
    match handle {
        Handle::Channel(channel) => while channel.read().is_ok() {},
        Handle::Fifo(fifo) => while fifo.read(&mut bytes).is_ok() {},
        Handle::Socket(socket) => while Socket::read(socket, &mut bytes).is_ok() {},
        other => unreachable!("{other:?}"),
    }
}

/// As in Zircon's kernel, the newest wait is notified first.
pub(crate) fn several_waits_on_one_object_are_notified_newest_first(over: Transport) {
    for (near, far, write) in readable_ends(over) {
        let port = Port::new();
        for key in 0..5 {
            let trigger = if key == 3 { Signals::USER_0 } else { Signals::READABLE };
            far.wait_async(&port, key, trigger, AsyncOptions::empty()).unwrap();
        }
        port.cancel(&far, 1).unwrap();
        // A wait that sleeps and wakes in between does not change the order.
        let wanted = Signals::USER_7;
        assert_eq!(far.wait_one(wanted, Deadline::after(TICK)), Err(Status::TimedOut));
        write(&near).unwrap();
        near.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
        let keys = [(); 4].map(|()| port.wait(Deadline::after(LONG)).unwrap().key);
        assert_eq!(keys, [4, 2, 0, 3], "{far:?}");
    }
}

/// A wait that is woken without one of its signals keeps its place in the order.
pub(crate) fn a_wait_that_is_woken_for_nothing_keeps_its_place(over: Transport) {
    let (near, far) = over.channels();
    let (near, far) = (Handle::from(near), Handle::from(far));
    let port = Port::new();
    far.wait_async(&port, 1, Signals::USER_0, AsyncOptions::empty()).unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| far.wait_one(Signals::USER_0, Deadline::after(LONG)));
        std::thread::sleep(TICK);
        far.wait_async(&port, 2, Signals::USER_0, AsyncOptions::empty()).unwrap();
        // A signal that it does not wait for.
        near.signal_peer(Signals::empty(), Signals::USER_1).unwrap();
        std::thread::sleep(TICK);
        near.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
        let keys = [(); 2].map(|()| port.wait(Deadline::after(LONG)).unwrap().key);
        assert_eq!(keys, [2, 1]);
        assert!(sleeper.join().unwrap().unwrap().contains(Signals::USER_0));
    });
}

/// User packets, of which there is always one, do not keep the port from looking at sockets.
/// Fills `far`, and nothing else.
fn fill(near: &Handle, far: &Handle) {
    let (count, write): (_, fn(&Handle) -> _) = match near {
        Handle::Channel(_) => (4096, |near| match near {
            Handle::Channel(channel) => send(channel, b"data"),
            _ => unreachable!(),
        }),
        Handle::Fifo(_) => (4, |near| match near {
            Handle::Fifo(fifo) => fifo.write(b"data").map(drop),
            _ => unreachable!(),
        }),
        _ => (4, |near| match near {
            Handle::Socket(socket) => socket.write(&[0; 64 << 10]).map(drop),
            _ => unreachable!(),
        }),
    };
    for _ in 0..count {
        write(near).unwrap();
        // Receives it, so that the kernel has room for the next.
        far.signals();
    }
}

fn read_some(far: &Handle) {
    match far {
        Handle::Channel(channel) => drop(channel.read().unwrap()),
        Handle::Fifo(fifo) => assert_eq!(fifo.read(&mut [0; 4]), Ok(1)),
        Handle::Socket(socket) => assert_eq!(socket.read(&mut [0; 16]), Ok(16)),
        other => unreachable!("{other:?}"),
    }
}

/// The end stays readable, so that no other signal changes.
pub(crate) fn a_read_at_a_full_end_wakes_waits_for_what_is_behind(over: Transport) {
    for (name, wait) in WAIT_METHODS {
        for (near, far, _) in readable_ends(over) {
            fill(&near, &far);
            near.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
            std::thread::scope(|threads| {
                let wait = || wait(&far, Signals::USER_0, Deadline::after(LONG));
                let waiter = threads.spawn(wait);
                std::thread::sleep(TICK);
                read_some(&far);
                let observed = waiter.join().unwrap();
                assert!(
                    observed.is_ok_and(|observed| observed.contains(Signals::USER_0)),
                    "{name}: {observed:?}: {far:?}"
                );
            });
            let all = Signals::USER_0 | Signals::READABLE;
            assert!(far.signals().contains(all), "{far:?}");
        }
    }
}

pub(crate) fn a_busy_port_receives_from_the_other_end(over: Transport) {
    for (near, far, write) in readable_ends(over) {
        let port = Port::new();
        far.wait_async(&port, 7, Signals::READABLE, AsyncOptions::empty()).unwrap();
        port.queue(1, [0; 32]).unwrap();
        write(&near).unwrap();
        let next = || {
            port.queue(1, [0; 32]).unwrap();
            port.wait(past()).unwrap().key
        };
        let keys = [(); 20].map(|()| next());
        assert!(keys.contains(&7), "{keys:?}: {far:?}");
    }
}
