//! Ends that move through several processes, and waits meanwhile.

use std::io::IoSlice;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use testbed::Case;
use uncopy::channel::{self, AsyncOptions, Channel, Fifo, Handle, Object, Port, Signals};

use crate::channel_processes::{Actor, next, send, send_with, soon};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] an_end_moves_through_three_processes_with_a_backlog_at_each,
        [] waits_calls_and_ports_continue_after_the_move,
        [] backlogs_arrive_complete_while_programs_are_started,
    ]
}

/// Moves an end to a first child, and from there to a second, which echoes messages.
fn an_end_moves_through_three_processes_with_a_backlog_at_each() {
    let (first, second) = (Actor::start("relay"), Actor::start("echo"));
    let (near, far) = Channel::pair();
    // A channel from the first child to the second, whose messages come back to `answers`.
    let (to, to_second) = Channel::pair();
    for n in 0..500u32 {
        send(&near, &n.to_ne_bytes()).unwrap();
    }
    send_with(&first.channel, b"pass on", vec![far.into(), to.into()]).unwrap();
    assert_eq!(*next(&first.channel).unwrap(), 0u32.to_ne_bytes());
    for n in 500..1000u32 {
        send(&near, &n.to_ne_bytes()).unwrap();
    }
    send(&first.channel, b"go").unwrap();
    assert_eq!(&*next(&first.channel).unwrap(), b"passed on");
    for n in 1000..1500u32 {
        send(&near, &n.to_ne_bytes()).unwrap();
    }
    // Written here, then there, then here again.
    let mut message = next(&to_second).unwrap();
    let far = message.take_handles().remove(0);
    send_with(&second.channel, b"last", vec![far]).unwrap();
    let far = Channel::try_from(next(&second.channel).unwrap().take_handles().remove(0)).unwrap();
    for n in 1..1500u32 {
        assert_eq!(*next(&far).unwrap(), n.to_ne_bytes(), "{n}");
    }
    send(&far, b"back").unwrap();
    assert_eq!(&*next(&near).unwrap(), b"back");
    first.finish();
    drop(far);
    assert!(near.wait_one(Signals::PEER_CLOSED, soon()).is_ok());
    second.finish();
}

/// A child that has not called execve yet has duplicates of all descriptors: moving a backlog must not
/// depend on when they are closed.
fn backlogs_arrive_complete_while_programs_are_started() {
    let actor = Actor::start("echo");
    let is_over = AtomicBool::new(false);
    // The child searches for the program for some milliseconds.
    let path = format!("{}/bin:/usr/bin", "/nowhere/at/all:".repeat(4000));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mut command = Command::new("true");
                    let (channel, mut child) = channel::spawn(command.env("PATH", &path)).unwrap();
                    drop(channel);
                    child.wait().unwrap();
                }
            });
        }
        let moved = (0..300u32).try_for_each(|n| {
            let (near, far) = Channel::pair();
            let (fifo, far_fifo) = Fifo::pair(4, 4).unwrap();
            send(&near, b"queued")?;
            fifo.write(&n.to_ne_bytes())?;
            send_with(&actor.channel, b"", vec![far.into(), far_fifo.into()])?;
            let handles = next(&actor.channel)?.take_handles();
            let Ok([Handle::Channel(far), Handle::Fifo(far_fifo)]) =
                <[Handle; 2]>::try_from(handles)
            else {
                panic!("other handles came back");
            };
            assert_eq!(&*next(&far)?, b"queued", "{n}");
            send(&near, b"sent behind it")?;
            assert_eq!(&*next(&far)?, b"sent behind it", "{n}");
            let mut element = [0; 4];
            far_fifo.wait_one(Signals::READABLE, soon())?;
            assert_eq!(far_fifo.read(&mut element), Ok(1));
            assert_eq!(element, n.to_ne_bytes());
            Ok::<(), channel::Status>(())
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(moved, Ok(()));
    });
    actor.finish();
}

fn waits_calls_and_ports_continue_after_the_move() {
    let (near, far) = Channel::pair();
    let port = Port::new();
    near.wait_async(&port, 5, Signals::READABLE, AsyncOptions::empty()).unwrap();
    near.wait_async(&port, 6, Signals::PEER_CLOSED, AsyncOptions::empty()).unwrap();
    let mut actor = Actor::start("echo");
    std::thread::scope(|scope| {
        let packets = scope.spawn(|| [(); 2].map(|()| port.wait(soon()).unwrap().key));
        let sleeper = scope.spawn(|| near.wait_one(Signals::PEER_CLOSED, soon()));
        let callers: Vec<_> = (0..3u8)
            .map(|n| {
                let near = &near;
                scope.spawn(move || {
                    let answer = near.call(&[IoSlice::new(&[0, 0, 0, 0, n])], vec![], soon());
                    assert_eq!(answer.unwrap()[4], n);
                })
            })
            .collect();
        // The child echoes what it receives at its end.
        far.wait_one(Signals::READABLE, soon()).unwrap();
        let echo = Echo::through(&mut actor, far);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        send(&near, b"plain").unwrap();
        assert_eq!(&*next(&near).unwrap(), b"plain");
        drop(echo);
        assert!(sleeper.join().unwrap().unwrap().contains(Signals::PEER_CLOSED));
        assert_eq!(packets.join().unwrap(), [5, 6]);
    });
    actor.finish();
}

/// A second child that has `far` as its channel.
struct Echo(std::process::Child);

impl Echo {
    fn through(actor: &mut Actor, far: Channel) -> Echo {
        // Sent there and back, so that the end is a socket and was in another process.
        send_with(&actor.channel, b"", vec![far.into()]).unwrap();
        let far = next(&actor.channel).unwrap().take_handles().remove(0);
        let second = Actor::start("bridge");
        send_with(&second.channel, b"", vec![far]).unwrap();
        let Actor { channel, child } = second;
        // The child continues without this channel.
        drop(channel);
        Echo(child)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
