//! Messages and calls between processes.

use std::io::IoSlice;

use testbed::Case;
use uncopy::channel::{AsyncOptions, Object, Port, Signals};

use crate::channel_processes::{Actor, next, send, soon};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] messages_of_all_sizes_are_echoed,
        [] several_callers_get_their_own_answers,
        [] a_port_receives_packets_about_another_process,
        [] many_messages_in_flight_keep_their_order,
    ]
}

fn messages_of_all_sizes_are_echoed() {
    let actor = Actor::start("echo");
    for length in [0, 1, 3, 4, 63, 4095, 4096, 65_280, 65_536] {
        let body: Vec<u8> = (0..length).map(|n: usize| (n * 7) as u8).collect();
        let regions: Vec<IoSlice<'_>> = body.chunks(97).map(IoSlice::new).collect();
        actor.channel.write(&regions, vec![]).unwrap();
        assert!(*next(&actor.channel).unwrap() == body[..], "{length}");
    }
    actor.finish();
}

fn several_callers_get_their_own_answers() {
    let actor = Actor::start("echo");
    std::thread::scope(|scope| {
        for caller in 0..4u8 {
            let channel = &actor.channel;
            scope.spawn(move || {
                for n in 0..200u8 {
                    let question = [0, 0, 0, 0, caller, n];
                    let answer = channel.call(&[IoSlice::new(&question)], vec![], soon()).unwrap();
                    assert_eq!(answer[4..], [caller, n]);
                }
            });
        }
    });
    assert!(!actor.channel.signals().contains(Signals::READABLE));
    actor.finish();
}

fn a_port_receives_packets_about_another_process() {
    let actor = Actor::start("echo");
    let port = Port::new();
    for n in 0..200u32 {
        actor
            .channel
            .wait_async(&port, n.into(), Signals::READABLE, AsyncOptions::empty())
            .unwrap();
        send(&actor.channel, &n.to_ne_bytes()).unwrap();
        assert_eq!(port.wait(soon()).unwrap().key, u64::from(n));
        assert_eq!(*actor.channel.read().unwrap(), n.to_ne_bytes());
    }
    let options = AsyncOptions::empty();
    actor.channel.wait_async(&port, 1000, Signals::PEER_CLOSED, options).unwrap();
    let Actor { channel, mut child } = actor;
    child.kill().unwrap();
    assert_eq!(port.wait(soon()).unwrap().key, 1000);
    child.wait().unwrap();
    assert_eq!(channel.signals(), Signals::PEER_CLOSED);
}

fn many_messages_in_flight_keep_their_order() {
    const COUNT: u32 = 20_000;
    let actor = Actor::start("echo");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..COUNT {
                while send(&actor.channel, &n.to_ne_bytes()).is_err() {
                    actor.channel.wait_one(Signals::WRITABLE, soon()).unwrap();
                }
            }
        });
        for n in 0..COUNT {
            assert_eq!(*next(&actor.channel).unwrap(), n.to_ne_bytes());
        }
    });
    actor.finish();
}
