//! What a wait says: all that is set, wherever the other end is.

use std::time::Duration;

use testbed::{LONG, Transport};
use uncopy::channel::{
    AsyncOptions, Deadline, Handle, Object, PacketContents, Port, Signals, Socket, SocketKind,
    Status, WaitItem, wait_many,
};

use crate::{past, send};

/// Enough to fall asleep, as a rule; the outcome is the same if not.
const TICK: Duration = Duration::from_millis(2);

/// Two ends, and what writes from the first to the second.
type Ends = (Handle, Handle, fn(&Handle) -> Result<(), Status>);

/// Ends of every kind that something can be read from.
fn readable_ends(over: Transport) -> Vec<Ends> {
    fn both(ends: (impl Into<Handle>, impl Into<Handle>)) -> (Handle, Handle) {
        (ends.0.into(), ends.1.into())
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

/// One way to wait for signals of an object: all that are set at the end.
type Way = fn(&Handle, Signals, Deadline) -> Result<Signals, Status>;

const WAYS: [(&str, Way); 4] = [
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
fn expect(far: &Handle, asked: Signals, expected: Signals) {
    for (name, way) in WAYS {
        assert_eq!(way(far, asked, past()), Ok(expected), "{name} for {asked:?}: {far:?}");
    }
}

/// One signal that is set does not hide the others, neither before they were seen nor behind them.
pub(crate) fn a_wait_for_several_signals_reports_all_that_are_set(over: Transport) {
    let (readable, writable) = (Signals::READABLE, Signals::WRITABLE);
    for (name, way) in WAYS {
        for (near, far, write) in readable_ends(over) {
            let wait = |asked| way(&far, asked, past());
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

/// All of it came before anybody looked.
pub(crate) fn a_first_wait_reports_what_lies_behind_what_it_waits_for(over: Transport) {
    for asked in [Signals::READABLE, Signals::WRITABLE, Signals::READABLE | Signals::USER_3] {
        for (near, far, write) in readable_ends(over) {
            (0..3).for_each(|_| write(&near).unwrap());
            near.signal_peer(Signals::empty(), Signals::USER_3).unwrap();
            write(&near).unwrap();
            let mut all = Signals::READABLE | Signals::WRITABLE | Signals::USER_3;
            if let Handle::Socket(socket) = &near {
                socket.disable_write().unwrap();
                all |= Signals::PEER_WRITE_DISABLED;
            }
            expect(&far, asked, all);
            drop(near);
            expect(&far, all, (all - Signals::WRITABLE) | Signals::PEER_CLOSED);
        }
    }
}

/// The end is seen at once, however much lies before it.
pub(crate) fn a_wait_reports_the_end_behind_what_nobody_read(over: Transport) {
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

/// Somebody else ends the sleep; what has come from the peer is told all the same.
pub(crate) fn a_sleeper_reports_what_came_beside_what_woke_it(over: Transport) {
    let asked = Signals::USER_5 | Signals::PEER_CLOSED;
    for (near, far, write) in readable_ends(over) {
        for (name, way) in &WAYS[..3] {
            // No signal of the object's own that the sleeper waits for is set by this.
            write(&near).unwrap();
            std::thread::scope(|scope| {
                let sleeper = scope.spawn(|| way(&far, asked, Deadline::after(LONG)));
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

/// As Zircon's kernel has it: who came last is told first.
pub(crate) fn several_waits_on_one_object_are_told_newest_first(over: Transport) {
    for (near, far, write) in readable_ends(over) {
        let port = Port::new();
        for key in 0..5 {
            let trigger = if key == 3 { Signals::USER_0 } else { Signals::READABLE };
            far.wait_async(&port, key, trigger, AsyncOptions::empty()).unwrap();
        }
        port.cancel(&far, 1).unwrap();
        // One that goes to sleep and wakes in between changes nothing.
        let asked = Signals::USER_7;
        assert_eq!(far.wait_one(asked, Deadline::after(TICK)), Err(Status::TimedOut));
        write(&near).unwrap();
        near.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
        let keys = [(); 4].map(|()| port.wait(Deadline::after(LONG)).unwrap().key);
        assert_eq!(keys, [4, 2, 0, 3], "{far:?}");
    }
}

/// A wait that is woken for nothing keeps its place among the others.
pub(crate) fn a_wait_that_looks_again_keeps_its_place(over: Transport) {
    let (near, far) = over.channels();
    let (near, far) = (Handle::from(near), Handle::from(far));
    let port = Port::new();
    far.wait_async(&port, 1, Signals::USER_0, AsyncOptions::empty()).unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| far.wait_one(Signals::USER_0, Deadline::after(LONG)));
        std::thread::sleep(TICK);
        far.wait_async(&port, 2, Signals::USER_0, AsyncOptions::empty()).unwrap();
        // Not what it waits for.
        near.signal_peer(Signals::empty(), Signals::USER_1).unwrap();
        std::thread::sleep(TICK);
        near.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
        let keys = [(); 2].map(|()| port.wait(Deadline::after(LONG)).unwrap().key);
        assert_eq!(keys, [2, 1]);
        assert!(sleeper.join().unwrap().unwrap().contains(Signals::USER_0));
    });
}

/// The program's own packets, of which there is always one, do not keep the port from looking.
pub(crate) fn a_busy_port_hears_of_the_other_end(over: Transport) {
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
