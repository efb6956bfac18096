//! Under shuttle's scheduler: queue, wait, port and call with every kind of company.

use std::io::IoSlice;

use shuttle::sync::Arc;
use shuttle::{check_random, thread};
use uncopy::channel::{
    AsyncOptions, Bounds, Channel, Deadline, Event, Object, Port, Signals, Status,
};

use crate::{send, send_handles};

const ITERATIONS: usize = 3000;

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
                // The only reader: what was readable is there.
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
fn a_full_queue_wakes_its_writer() {
    check_random(
        || {
            let mut bounds = Bounds::default();
            bounds.messages = 1;
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
            assert_eq!(port.wait(crate::past()).unwrap_err(), Status::TimedOut);
        },
        ITERATIONS,
    );
}

#[test]
fn calls_get_their_answers_or_the_end() {
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
            // One is answered; the other may be told that nobody is there any more.
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

/// Closing, sending and reading race; whatever happens first, everything ends.
#[test]
fn circles_and_closes_race_without_deadlock() {
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
