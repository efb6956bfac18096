//! Interleavings of queues, waits, ports and calls, under shuttle's scheduler.

use std::io::IoSlice;
use std::time::Duration;

use shuttle::sync::Arc;
use shuttle::{check_pct, check_random, thread};
use uncopy::channel::{
    AsyncOptions, Bounds, Channel, Deadline, Event, EventPair, Handle, Object, Port, Signals,
    Status,
};

use crate::channel::{is_orphan, moved, send, send_handles};

const ITERATIONS: usize = 3000;

/// Iterations of tests with sockets.
const SOCKET_ITERATIONS: usize = 400;

/// Time that a thread sleeps in `poll(2)`, where the scheduler cannot run other threads. A condition
/// variable does not time out under the scheduler: a lost wake-up there is a deadlock, which it finds.
const POLL_TIMEOUT: Duration = Duration::from_micros(200);

/// Repeats `attempt` until it returns something other than a timeout.
fn retry_timeouts<T>(mut attempt: impl FnMut(Deadline) -> Result<T, Status>) -> Result<T, Status> {
    loop {
        match attempt(Deadline::after(POLL_TIMEOUT)) {
            Err(Status::TimedOut) => thread::yield_now(),
            done => return done,
        }
    }
}

#[test]
fn writers_and_readers_lose_nothing_and_readable_is_never_spurious() {
    check_random(
        || {
            let (near, far) = Channel::pair();
            let near = Arc::new(near);
            let writers: Vec<_> = [b"a", b"b"]
                .map(|byte| {
                    let near = near.clone();
                    thread::spawn(move || (0..2).for_each(|_| send(&near, byte).unwrap()))
                })
                .into();
            let mut found = Vec::new();
            while found.len() < 4 {
                far.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
                // The only reader: there must be a message.
                found.push(far.read().unwrap()[0]);
            }
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            found.sort_unstable();
            assert_eq!(found, b"aabb");
            assert!(!far.signals().contains(Signals::READABLE));
        },
        ITERATIONS,
    );
}

#[test]
fn a_writer_is_woken_when_a_full_queue_has_room() {
    check_random(
        || {
            let bounds = Bounds::new().messages(1);
            let (near, far) = Channel::pair_with(bounds);
            let writer = thread::spawn(move || {
                for _ in 0..3 {
                    near.wait_one(Signals::WRITABLE, Deadline::INFINITE).unwrap();
                    send(&near, b"x").unwrap();
                }
            });
            for _ in 0..3 {
                far.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
                drop(far.read().unwrap());
            }
            writer.join().unwrap();
        },
        ITERATIONS,
    );
}

#[test]
fn a_binding_fires_exactly_once() {
    check_random(
        || {
            let (near, far) = Channel::pair();
            let port = Port::new();
            let writer = thread::spawn(move || {
                send(&near, b"x").unwrap();
                near
            });
            far.wait_async(&port, 1, Signals::READABLE, AsyncOptions::empty()).unwrap();
            assert_eq!(port.wait(Deadline::INFINITE).unwrap().key, 1);
            drop(writer.join().unwrap());
            assert_eq!(port.wait(crate::channel::past()).unwrap_err(), Status::TimedOut);
        },
        ITERATIONS,
    );
}

#[test]
fn calls_are_answered_or_end_with_the_peer() {
    check_random(
        || {
            let (near, far) = Channel::pair();
            let near = Arc::new(near);
            let callers = [1u8, 2].map(|n| {
                let near = near.clone();
                thread::spawn(move || {
                    let message = [0, 0, 0, 0, n];
                    let answer = near.call(&[IoSlice::new(&message)], vec![], Deadline::INFINITE);
                    match answer {
                        Ok(answer) => assert_eq!(answer[4], n),
                        Err(status) => assert_eq!(status, Status::PeerClosed),
                    }
                })
            });
            // One is answered; the other may find the peer closed.
            far.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
            let request = far.read().unwrap();
            send(&far, &request).unwrap();
            drop(far);
            callers.into_iter().for_each(|caller| caller.join().unwrap());
        },
        ITERATIONS,
    );
}

#[test]
fn revoking_ends_waits_and_calls_wherever_they_are() {
    check_random(
        || {
            let (near, _far) = Channel::pair();
            let near = Arc::new(near);
            let ends = |status| assert!(matches!(status, Status::Canceled | Status::BadHandle));
            let waiter = {
                let near = near.clone();
                thread::spawn(move || {
                    ends(near.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap_err());
                })
            };
            let caller = {
                let near = near.clone();
                thread::spawn(move || {
                    let call = near.call(&[IoSlice::new(b"0000")], vec![], Deadline::INFINITE);
                    ends(call.unwrap_err());
                })
            };
            near.revoke();
            waiter.join().unwrap();
            caller.join().unwrap();
        },
        ITERATIONS,
    );
}

/// Closing, sending and reading race; in every order, everything ends.
#[test]
fn cycles_and_closes_race_without_deadlock() {
    check_random(
        || {
            let (a_near, a_far) = Channel::pair();
            let (b_near, b_far) = Channel::pair();
            let event = Event::new();
            send_handles(&a_near, vec![event.into()]).unwrap();
            let one = thread::spawn(move || {
                let _ = send_handles(&a_near, vec![b_far.into()]);
            });
            let two = thread::spawn(move || {
                let _ = send_handles(&b_near, vec![a_far.into()]);
            });
            one.join().unwrap();
            two.join().unwrap();
        },
        ITERATIONS,
    );
}

/// The writers of a cycle are closed, or go to another process, at once.
#[test]
fn a_cycle_is_freed_whoever_lets_go_of_it_last() {
    check_random(
        || {
            let (witness, inside) = EventPair::pair();
            let (a_near, a_far) = Channel::pair();
            let (b_near, b_far) = Channel::pair();
            send_handles(&a_near, vec![inside.into(), b_far.into()]).unwrap();
            let one = thread::spawn(move || moved(a_near));
            let two = thread::spawn(move || send_handles(&b_near, vec![a_far.into()]).unwrap());
            let a_near = one.join().unwrap();
            two.join().unwrap();
            assert!(is_orphan(&witness));
            drop(a_near);
        },
        SOCKET_ITERATIONS,
    );
}

/// An endpoint moves into the queue of one that is on its way to a caller, or a reader.
#[test]
fn what_a_program_is_about_to_take_is_not_freed() {
    for is_call in [false, true] {
        check_pct(
            move || {
                let (near, far) = Channel::pair();
                let (inner_near, inner_far) = Channel::pair();
                let old = Arc::new(Handle::from(near));
                let taker = {
                    let old = old.clone();
                    thread::spawn(move || {
                        let Handle::Channel(channel) = &*old else { unreachable!() };
                        match is_call {
                            true => {
                                channel.call(&[IoSlice::new(b"0000")], vec![], Deadline::INFINITE)
                            }
                            false => channel.receive(Deadline::INFINITE),
                        }
                    })
                };
                let question = match is_call {
                    true => far.receive(Deadline::INFINITE).unwrap().to_vec(),
                    false => Vec::new(),
                };
                far.write(&[IoSlice::new(&question)], vec![inner_far.into()]).unwrap();
                if !is_call {
                    // Until the reader has the message, a reader of the successor could take it.
                    while old.signals().contains(Signals::READABLE) {
                        thread::yield_now();
                    }
                }
                send_handles(&inner_near, vec![old.succeed().unwrap()]).unwrap();
                drop((far, inner_near));
                let mut answer = taker.join().unwrap().unwrap();
                let inner = Channel::try_from(answer.take_handles().remove(0)).unwrap();
                assert_eq!(inner.read().unwrap().take_handles().len(), 1);
            },
            ITERATIONS,
            3,
        );
    }
}

#[test]
fn every_packet_wakes_one_thread_that_waits_at_the_port() {
    check_random(
        || {
            let port = Arc::new(Port::new());
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let port = port.clone();
                    thread::spawn(move || port.wait(Deadline::INFINITE).unwrap().key)
                })
                .collect();
            let pusher = {
                let port = port.clone();
                thread::spawn(move || port.queue(1, [0; 32]).unwrap())
            };
            port.queue(2, [0; 32]).unwrap();
            pusher.join().unwrap();
            let mut keys: Vec<u64> = waiters.into_iter().map(|w| w.join().unwrap()).collect();
            keys.sort_unstable();
            assert_eq!(keys, [1, 2]);
        },
        ITERATIONS,
    );
}

#[test]
fn revoking_a_port_ends_its_waits() {
    check_random(
        || {
            let port = Arc::new(Port::new());
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let port = port.clone();
                    thread::spawn(move || port.wait(Deadline::INFINITE).map(drop))
                })
                .collect();
            let pusher = {
                let port = port.clone();
                thread::spawn(move || {
                    let _ = port.queue(1, [0; 32]);
                })
            };
            port.revoke();
            pusher.join().unwrap();
            for waiter in waiters {
                let ended = waiter.join().unwrap();
                assert!(matches!(ended, Ok(()) | Err(Status::Canceled | Status::BadHandle)));
            }
        },
        ITERATIONS,
    );
}

#[test]
fn a_sleeping_thread_is_woken_after_the_other_end_moves() {
    check_random(
        || {
            let (near, far) = Channel::pair();
            let sleeper = thread::spawn(move || {
                retry_timeouts(|deadline| near.wait_one(Signals::READABLE, deadline)).unwrap();
                assert_eq!(&*near.read().unwrap(), b"before");
                retry_timeouts(|deadline| near.wait_one(Signals::READABLE, deadline)).unwrap();
                assert_eq!(&*near.read().unwrap(), b"after");
                retry_timeouts(|deadline| near.wait_one(Signals::PEER_CLOSED, deadline)).unwrap();
            });
            send(&far, b"before").unwrap();
            let far = moved(far);
            send(&far, b"after").unwrap();
            drop(far);
            sleeper.join().unwrap();
        },
        SOCKET_ITERATIONS,
    );
}

#[test]
fn writes_keep_their_order_while_the_other_end_moves() {
    check_random(
        || {
            let (near, far) = Channel::pair();
            let writer = thread::spawn(move || {
                for n in 0..4 {
                    let handles = vec![Event::new().into()];
                    near.write(&[IoSlice::new(&[n])], handles).unwrap();
                }
            });
            let far = moved(far);
            for n in 0..4 {
                retry_timeouts(|deadline| far.wait_one(Signals::READABLE, deadline)).unwrap();
                let message = far.read().unwrap();
                assert_eq!((&*message, message.handles().len()), (&[n][..], 1));
            }
            writer.join().unwrap();
        },
        SOCKET_ITERATIONS,
    );
}

#[test]
fn a_binding_fires_once_after_the_other_end_moves() {
    check_random(
        || {
            let (near, far) = Channel::pair();
            let port = Arc::new(Port::new());
            let waiter = {
                let port = port.clone();
                thread::spawn(move || retry_timeouts(|deadline| port.wait(deadline)).unwrap().key)
            };
            let mover = thread::spawn(move || {
                let far = moved(far);
                send(&far, b"x").unwrap();
                far
            });
            near.wait_async(&port, 7, Signals::READABLE, AsyncOptions::empty()).unwrap();
            assert_eq!(waiter.join().unwrap(), 7);
            drop(mover.join().unwrap());
            assert_eq!(port.wait(crate::channel::past()).unwrap_err(), Status::TimedOut);
        },
        SOCKET_ITERATIONS,
    );
}

#[test]
fn a_call_is_answered_after_the_other_end_moves() {
    check_random(
        || {
            let (near, far) = Channel::pair();
            let caller = thread::spawn(move || {
                let call =
                    near.call(&[IoSlice::new(b"0000")], vec![], Deadline::after(POLL_TIMEOUT));
                // A late answer is queued like any message.
                let answer = match call {
                    Err(Status::TimedOut) => {
                        retry_timeouts(|deadline| near.wait_one(Signals::READABLE, deadline))
                            .unwrap();
                        near.read()
                    }
                    other => other,
                };
                assert_eq!(&answer.unwrap()[4..], b"!");
            });
            let far = moved(far);
            retry_timeouts(|deadline| far.wait_one(Signals::READABLE, deadline)).unwrap();
            let question = far.read().unwrap();
            send(&far, &[&question[..], b"!"].concat()).unwrap();
            caller.join().unwrap();
        },
        SOCKET_ITERATIONS,
    );
}
