//! Peers that are killed, or hold what they said they gave away.

use std::io::IoSlice;
use std::time::Duration;

use testbed::Case;
use uncopy::channel::{Channel, Object, Signals, Status};

use crate::{Actor, descriptors, next, send, send_with, soon};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] what_a_killed_peer_had_sent_is_read_before_the_end,
        [] calls_end_when_the_peer_is_killed,
        [] messages_of_a_peer_that_left_some_unread_are_read,
        [] a_killed_writer_leaves_whole_messages_only,
        [] a_duplicate_of_the_socket_can_neither_block_nor_lie_about_the_end,
        [] a_forked_child_does_not_disturb_what_its_parent_has,
    ]
}

/// Messages of a peer that is killed when it has written them.
pub(crate) const BURST: u32 = 50;

/// A message that shows whether it is whole: a number, and bytes that follow from it.
pub(crate) fn body_of(number: u64) -> Vec<u8> {
    let length = 8 + (number.wrapping_mul(0x9E37_79B9) % 9000) as usize;
    let mut body = number.to_ne_bytes().to_vec();
    body.extend((8..length as u64).map(|n| (n ^ number.wrapping_mul(31)) as u8));
    body
}

fn what_a_killed_peer_had_sent_is_read_before_the_end() {
    let mut actor = Actor::start("burst");
    let (near, far) = Channel::pair();
    send_with(&actor.channel, b"", vec![far.into()]).unwrap();
    assert_eq!(&*next(&near).unwrap(), b"all are written");
    let mut found = vec![next(&actor.channel).unwrap()];
    actor.kill();
    actor.channel.wait_one(Signals::PEER_CLOSED, soon()).unwrap();
    assert!(!actor.channel.signals().contains(Signals::WRITABLE));
    assert_eq!(send(&actor.channel, b"x"), Err(Status::PeerClosed));
    loop {
        match actor.channel.read() {
            Ok(message) => found.push(message),
            Err(status) => break assert_eq!(status, Status::PeerClosed),
        }
    }
    assert_eq!(found.len() as u32, BURST);
    for (n, message) in (0u32..).zip(&found) {
        assert_eq!(**message, n.to_ne_bytes());
    }
}

fn calls_end_when_the_peer_is_killed() {
    let Actor { channel, mut child } = Actor::start("silent");
    std::thread::scope(|scope| {
        let callers = [(); 3].map(|()| {
            scope.spawn(|| channel.call(&[IoSlice::new(b"....")], vec![], soon()).map(|_| ()))
        });
        std::thread::sleep(Duration::from_millis(50));
        child.kill().unwrap();
        for caller in callers {
            assert_eq!(caller.join().unwrap(), Err(Status::PeerClosed));
        }
    });
    child.wait().unwrap();
}

/// The kernel says `ECONNRESET` first.
fn messages_of_a_peer_that_left_some_unread_are_read() {
    let Actor { channel, mut child } = Actor::start("sever");
    (0..10).for_each(|_| send(&channel, b"unread").unwrap());
    assert!(child.wait().unwrap().success());
    for n in 0..100u32 {
        assert_eq!(*next(&channel).unwrap(), n.to_ne_bytes());
    }
    assert_eq!(next(&channel).unwrap_err(), Status::PeerClosed);
}

fn a_killed_writer_leaves_whole_messages_only() {
    let warm = Actor::start("silent");
    assert!(warm.channel.call(&[IoSlice::new(b"....")], vec![], crate::tick()).is_err());
    drop(warm.channel.signal_fd(Signals::READABLE).unwrap());
    warm.finish();
    for round in 0..10 {
        let mut actor = Actor::start("flood");
        let mut number = 0;
        let mut killed = false;
        loop {
            match next(&actor.channel) {
                Ok(message) => assert!(*message == body_of(number)[..], "{number} is torn"),
                Err(status) => break assert_eq!(status, Status::PeerClosed),
            }
            number += 1;
            if number > 100 + 37 * round && !killed {
                actor.kill();
                killed = true;
            }
        }
        assert!(killed, "it ended by itself");
    }
}

fn a_duplicate_of_the_socket_can_neither_block_nor_lie_about_the_end() {
    let (near, far) = Channel::pair();
    let fd = far.into_fd().unwrap();
    let duplicate = fd.try_clone().unwrap();
    let far = Channel::from_fd(fd).unwrap();
    // O_NONBLOCK belongs to both.
    rustix::fs::fcntl_setfl(&duplicate, rustix::fs::OFlags::empty()).unwrap();
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
    while send(&far, &[0; 60_000]).is_ok() {}
    assert_eq!(send(&far, &[0; 60_000]), Err(Status::ShouldWait));
    drop(far);
    // Somebody can still answer.
    assert!(!near.signals().contains(Signals::PEER_CLOSED));
    drop(duplicate);
    assert!(near.wait_one(Signals::PEER_CLOSED, soon()).is_ok());
}

fn a_forked_child_does_not_disturb_what_its_parent_has() {
    let actor = Actor::start("echo");
    let before = descriptors();
    // `Command` forks; the child has all descriptors until it executes something else.
    let mut others: Vec<_> =
        (0..4).map(|_| std::process::Command::new("sleep").arg("60").spawn().unwrap()).collect();
    send(&actor.channel, b"hello").unwrap();
    assert_eq!(&*next(&actor.channel).unwrap(), b"hello");
    assert!(descriptors() <= before + 8);
    let (near, far) = Channel::pair();
    let far = Channel::from_fd(far.into_fd().unwrap()).unwrap();
    drop(far);
    // Had one of them the socket, this end would not be seen.
    assert!(near.wait_one(Signals::PEER_CLOSED, soon()).is_ok());
    for other in &mut others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    actor.finish();
}
