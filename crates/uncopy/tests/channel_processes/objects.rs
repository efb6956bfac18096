//! Objects that two processes share.

use testbed::Case;
use uncopy::channel::{
    AsyncOptions, Channel, Event, EventPair, Fifo, Handle, Object, PacketContents, Port, Signals,
    Socket, SocketKind, Status, Vmo, WaitItem, wait_many,
};

use crate::channel_processes::{Actor, next, next_handle, send, send_with, soon};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] every_kind_works_in_two_processes,
        [] a_wait_for_several_signals_reports_signals_from_another_process,
        [] an_event_pair_is_closed_with_its_process,
        [] nested_channels_are_echoed,
    ]
}

fn every_kind_works_in_two_processes() {
    let actor = Actor::start("objects");
    let event = Event::new();
    send_with(&actor.channel, &[], vec![event.duplicate(None).unwrap().into()]).unwrap();
    event.signal(Signals::empty(), Signals::USER_1).unwrap();
    assert_eq!(event.wait_one(Signals::SIGNALED, soon()), Ok(Signals::SIGNALED));

    let (near, far) = EventPair::pair();
    send_with(&actor.channel, &[], vec![far.into()]).unwrap();
    near.signal_peer(Signals::empty(), Signals::SIGNALED).unwrap();
    assert!(near.wait_one(Signals::USER_3, soon()).is_ok());

    let (fifo, far) = Fifo::pair(4, 4).unwrap();
    fifo.write(b"one.two.").unwrap();
    send_with(&actor.channel, &[], vec![far.into()]).unwrap();
    fifo.wait_one(Signals::READABLE, soon()).unwrap();
    let mut elements = [0; 8];
    assert_eq!(fifo.read(&mut elements), Ok(2));
    assert_eq!(&elements, b"one.two.");

    let (socket, far) = Socket::pair(SocketKind::Stream);
    let bytes: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    // Some of it moves with the end, the rest is written later.
    let mut sent = socket.write(&bytes[..200_000]).unwrap();
    send_with(&actor.channel, &[], vec![far.into()]).unwrap();
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(Status::ShouldWait) => drop(socket.wait_one(Signals::WRITABLE, soon()).unwrap()),
            Err(other) => panic!("{other}"),
        }
    }
    socket.wait_one(Signals::READABLE, soon()).unwrap();
    let mut sum = [0; 8];
    assert_eq!(socket.read(&mut sum), Ok(8));
    assert_eq!(u64::from_ne_bytes(sum), bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());

    let vmo = Vmo::new(3 * 4096).unwrap();
    vmo.write(b"borders!", 4090).unwrap();
    send_with(&actor.channel, &[], vec![vmo.duplicate(None).unwrap().into()]).unwrap();
    assert_eq!(&*next(&actor.channel).unwrap(), b"borders!");
    let mut seen = [0; 4];
    vmo.read(&mut seen, 8192).unwrap();
    assert_eq!(&seen, b"seen");
    actor.finish();
    assert!(near.wait_one(Signals::PEER_CLOSED, soon()).is_ok());
    assert_eq!(fifo.read(&mut elements), Err(Status::PeerClosed));
}

/// A method to wait for signals; returns all that are set.
type WaitMethod = fn(&Handle, Signals) -> Signals;

/// One of the signals is always set; the others come from the child.
fn a_wait_for_several_signals_reports_signals_from_another_process() {
    let ways: [(&str, WaitMethod); 3] = [
        ("wait_one", |here, asked| here.wait_one(asked, soon()).unwrap()),
        ("wait_many", |here, asked| {
            let mut items = [WaitItem::new(here, asked)];
            wait_many(&mut items, soon()).unwrap();
            items[0].pending
        }),
        ("a port", |here, asked| {
            let port = Port::new();
            here.wait_async(&port, 1, asked, AsyncOptions::empty()).unwrap();
            match port.wait(soon()).unwrap().contents {
                PacketContents::Signal { observed, .. } => observed,
                other => panic!("{other:?}"),
            }
        }),
    ];
    for (name, wait) in ways {
        let actor = Actor::start("nudge");
        let (channel, far_channel) = Channel::pair();
        let (fifo, far_fifo) = Fifo::pair(4, 4).unwrap();
        let (socket, far_socket) = Socket::pair(SocketKind::Stream);
        let (pair, far_pair) = EventPair::pair();
        let there = vec![far_channel.into(), far_fifo.into(), far_socket.into(), far_pair.into()];
        send_with(&actor.channel, &[], there).unwrap();
        for here in [Handle::from(channel), fifo.into(), socket.into(), pair.into()] {
            here.signal(Signals::empty(), Signals::USER_6).unwrap();
            let awaited = match here {
                Handle::EventPair(_) => Signals::SIGNALED | Signals::USER_2,
                _ => Signals::READABLE | Signals::USER_2,
            };
            let asked = awaited | Signals::WRITABLE | Signals::USER_6;
            testbed::wait_for(&format!("{awaited:?} by {name} of {here:?}"), || {
                let observed = wait(&here, asked);
                assert!(observed.contains(Signals::USER_6), "{name}: {observed:?}");
                observed.contains(awaited)
            });
        }
        actor.finish();
    }
}

fn an_event_pair_is_closed_with_its_process() {
    let mut actor = Actor::start("silent");
    let (near, far) = EventPair::pair();
    send_with(&actor.channel, &[], vec![far.into()]).unwrap();
    assert!(!near.signals().contains(Signals::PEER_CLOSED));
    let fd = near.signal_fd(Signals::PEER_CLOSED).unwrap();
    actor.kill();
    assert!(near.wait_one(Signals::PEER_CLOSED, soon()).is_ok());
    let mut polled = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut polled, None), Ok(1));
}

/// Sends ten ends, each in a message of the next, and receives them back.
fn nested_channels_are_echoed() {
    let actor = Actor::start("echo");
    let mut kept = Vec::new();
    let mut cargo: Option<Channel> = None;
    for n in 0..10u8 {
        let (near, far) = Channel::pair();
        send_with(&near, &[n], cargo.take().into_iter().map(Into::into).collect()).unwrap();
        kept.push(near);
        cargo = Some(far);
    }
    send_with(&actor.channel, b"all", vec![cargo.unwrap().into()]).unwrap();
    let mut at: Channel = next_handle(&actor.channel);
    for n in (0..10u8).rev() {
        let mut message = next(&at).unwrap();
        assert_eq!(*message, [n]);
        send(&kept[usize::from(n)], b"down").unwrap();
        assert_eq!(&*next(&at).unwrap(), b"down");
        send(&at, b"up").unwrap();
        assert_eq!(&*next(&kept[usize::from(n)]).unwrap(), b"up");
        if let Some(inner) = message.take_handles().pop() {
            at = Channel::try_from(inner).unwrap();
        }
    }
    actor.finish();
}
