//! Peers that are killed, or keep duplicates of ends that they gave away.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::time::Duration;

use testbed::{Case, in_a_child, wait_for};
use uncopy::channel::{
    Channel, Object, PayloadChannel, PayloadOptions, PayloadWay, Signals, Status,
};

use crate::channel_processes::{Actor, descriptors, next, send, send_with, soon, tick};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] messages_of_a_killed_peer_are_read_before_peer_closed,
        [] calls_end_when_the_peer_is_killed,
        [] messages_of_a_peer_that_closed_with_unread_messages_are_read,
        [] a_killed_writer_leaves_whole_messages_only,
        [] a_killed_sender_leaves_whole_payloads_only,
        [] a_duplicate_of_the_socket_cannot_block_or_hide_a_closed_peer,
        [] a_forked_child_does_not_affect_its_parents_channels,
        [] a_forked_child_is_woken_by_an_eventfd_of_its_own,
    ]
}

/// Number of messages of a peer that is killed after writing them.
pub(crate) const BURST: u32 = 50;

/// Returns a message that can be checked: a number, and bytes that depend on it.
pub(crate) fn body_of(number: u64) -> Vec<u8> {
    let length = 8 + (number.wrapping_mul(0x9E37_79B9) % 9000) as usize;
    let mut body = number.to_ne_bytes().to_vec();
    body.extend((8..length as u64).map(|n| (n ^ number.wrapping_mul(31)) as u8));
    body
}

fn messages_of_a_killed_peer_are_read_before_peer_closed() {
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

/// The kernel returns `ECONNRESET` first.
fn messages_of_a_peer_that_closed_with_unread_messages_are_read() {
    let Actor { channel, mut child } = Actor::start("sever");
    (0..2).for_each(|_| send(&channel, b"unread").unwrap());
    // It closes once it has seen two.
    for _ in 2..10 {
        assert!(matches!(send(&channel, b"unread"), Ok(()) | Err(Status::PeerClosed)));
    }
    assert!(child.wait().unwrap().success());
    for n in 0..100u32 {
        assert_eq!(*next(&channel).unwrap(), n.to_ne_bytes());
    }
    assert_eq!(next(&channel).unwrap_err(), Status::PeerClosed);
}

fn a_killed_writer_leaves_whole_messages_only() {
    let warm = Actor::start("silent");
    assert!(
        warm.channel
            .call(&[IoSlice::new(b"....")], vec![], crate::channel_processes::tick())
            .is_err()
    );
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
        assert!(killed, "it exited without being killed");
    }
}

/// Bytes of a payload: more than a channel's socket holds for root (twice the 16 MiB that are requested) and a wait takes out of
/// it (16 MiB).
pub(crate) const PAYLOAD_BYTES: usize = 64 << 20;

/// An end whose payloads go over a stream, once the receiver has offered one.
pub(crate) fn payload_channel(end: Channel) -> PayloadChannel {
    PayloadChannel::with_options(end, PayloadOptions::new().stream_from(Some(PAYLOAD_BYTES)))
}

/// The sender is in the middle of a payload when it is killed: one that is cut, or one that comes over a stream.
fn a_killed_sender_leaves_whole_payloads_only() {
    for whole in [0, 1, 2, 4] {
        let mut actor = Actor::start("payloads");
        let (near, far) = Channel::pair();
        send_with(&actor.channel, b"", vec![far.into()]).unwrap();
        let mut near = payload_channel(near);
        let mut last_way = PayloadWay::Message;
        for number in 0..whole {
            let payload = near.receive(soon()).unwrap();
            let expected = vec![number; PAYLOAD_BYTES];
            assert!(payload.pieces().all(|piece| *piece == expected[..piece.len()]));
            assert_eq!(payload.len(), PAYLOAD_BYTES);
            last_way = payload.receipt().way;
        }
        assert_eq!(last_way == PayloadWay::Stream, whole > 1, "{last_way:?}");
        near.channel().wait_one(Signals::READABLE, soon()).unwrap();
        actor.kill();
        assert_eq!(near.receive(soon()).unwrap_err(), Status::PeerClosed, "after {whole}");
    }
}

fn a_duplicate_of_the_socket_cannot_block_or_hide_a_closed_peer() {
    let (near, far) = Channel::pair();
    let fd = far.into_fd().unwrap();
    let duplicate = fd.try_clone().unwrap();
    let far = Channel::from_fd(fd).unwrap();
    // O_NONBLOCK is shared by both descriptors.
    rustix::fs::fcntl_setfl(&duplicate, rustix::fs::OFlags::empty()).unwrap();
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
    while send(&far, &[0; 60_000]).is_ok() {}
    assert_eq!(send(&far, &[0; 60_000]), Err(Status::ShouldWait));
    drop(far);
    // The duplicate could still answer.
    assert!(!near.signals().contains(Signals::PEER_CLOSED));
    drop(duplicate);
    assert!(near.wait_one(Signals::PEER_CLOSED, soon()).is_ok());
}

fn a_forked_child_does_not_affect_its_parents_channels() {
    let actor = Actor::start("echo");
    let before = descriptors();
    // `Command` forks; the child has all descriptors until it calls execve.
    let mut others: Vec<_> =
        (0..4).map(|_| std::process::Command::new("sleep").arg("60").spawn().unwrap()).collect();
    send(&actor.channel, b"hello").unwrap();
    assert_eq!(&*next(&actor.channel).unwrap(), b"hello");
    // Other tests open some for a moment.
    wait_for("end of more descriptors", || descriptors() <= before + 8);
    let (near, far) = Channel::pair();
    let far = Channel::from_fd(far.into_fd().unwrap()).unwrap();
    drop(far);
    // If a child still had the socket, the closed peer would not be seen.
    assert!(near.wait_one(Signals::PEER_CLOSED, soon()).is_ok());
    for other in &mut others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    actor.finish();
}

/// Numbers of the eventfds that this process has open.
fn eventfds() -> BTreeSet<String> {
    let descriptors = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let contents = descriptors.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let number = |info: String| Some(info.split_once("eventfd-id:")?.1.trim().to_owned());
    contents.filter_map(number).collect()
}

/// Otherwise the parent's thread and the child's would take each other's wake-ups.
fn a_forked_child_is_woken_by_an_eventfd_of_its_own() {
    let wait = || {
        let (near, far) = Channel::pair();
        let _far = far.into_fd().unwrap();
        assert_eq!(near.wait_one(Signals::READABLE, tick()), Err(Status::TimedOut));
    };
    wait();
    assert!(in_a_child(|| {
        // A thread that is alone needs none.
        std::thread::spawn(|| ()).join().unwrap();
        let inherited = eventfds();
        wait();
        eventfds().difference(&inherited).count() == 1
    }));
}
