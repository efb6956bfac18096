//! A peer that breaks the rules. A separate program, because descriptors of other tests would count.

mod attack;
mod memory;

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use uncopy::channel::{AsyncOptions, Channel, Deadline, Event, Object, Port, Signals, Status};

use crate::alone;

/// Maximum number of unread descriptors that one peer can make this process hold.
const MAX_DESCRIPTORS_HELD: usize = 700;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns a victim and the raw socket of its peer.
fn victim() -> (Channel, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (a, b) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    (Channel::from_fd(a).unwrap(), b)
}

fn send(peer: &OwnedFd, bytes: &[u8], fds: &[OwnedFd]) -> rustix::io::Result<usize> {
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(peer, &[IoSlice::new(bytes)], &mut control, flags)
}

/// Returns a valid message without handles.
fn good(bytes: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc1, 0, 0, 0];
    packet.extend((bytes.len() as u32).to_ne_bytes());
    packet.extend(bytes);
    packet
}

#[test]
fn an_attack_can_only_close_the_channel() {
    let _alone = alone();
    attack::play_each_step();
    let before = descriptors();
    let mut runner = TestRunner::new(Config { cases: 400, ..Config::default() });
    let attacks = proptest::collection::vec(any::<u8>(), 0..400);
    let result = runner.run(&attacks, |attack| {
        attack::play(&attack, || assert!(descriptors() <= before + MAX_DESCRIPTORS_HELD));
        prop_assert_eq!(descriptors(), before);
        Ok(())
    });
    result.unwrap();
}

/// Packet of a message that was cut off is among them; a run of the fuzz target found it unanswered here.
#[test]
fn each_step_of_an_attack_is_played() {
    let _alone = alone();
    attack::play_each_step();
    attack::play(&[0, 0, 9, 0xc1, 4], || ());
}

#[test]
fn packets_behind_a_broken_one_are_ignored() {
    let _alone = alone();
    for broken in [&b""[..], b"x", b"longer than a header", &[0xc1, 2, 0, 0, 0, 0, 0, 0]] {
        let (victim, peer) = victim();
        send(&peer, &good(b"first"), &[]).unwrap();
        send(&peer, broken, &[]).unwrap();
        send(&peer, &good(b"second"), &[]).unwrap();
        assert_eq!(&*victim.read().unwrap(), b"first", "{broken:?}");
        for _ in 0..3 {
            assert_eq!(victim.read().unwrap_err(), Status::PeerClosed, "{broken:?}");
            assert_eq!(victim.signals(), Signals::PEER_CLOSED);
        }
        assert!(send(&peer, &good(b"third"), &[]).is_err(), "the peer is notified");
    }
}

/// Each backlog packet once caused a recursive call.
#[test]
fn many_backlog_packets_end_the_channel() {
    let _alone = alone();
    let (victim, peer) = victim();
    while send(&peer, &[0xc1, 3, 0, 0, 0, 0, 0, 0], &[]).is_ok() {}
    assert_eq!(victim.read().unwrap_err(), Status::PeerClosed);
}

/// The victim once received signals as long as they came, under its lock.
#[test]
fn many_signals_do_not_block_the_receiver() {
    let _alone = alone();
    let (victim, peer) = victim();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let packet = [0xc1, 1, 0, 0, 8, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];
                while !stop.load(Ordering::Relaxed) {
                    let _ = send(&peer, &packet, &[]);
                }
            });
        }
        for _ in 0..10 {
            assert_eq!(victim.read().unwrap_err(), Status::ShouldWait);
            let soon = Deadline::after(Duration::from_millis(5));
            assert_eq!(victim.wait_one(Signals::READABLE, soon), Err(Status::TimedOut));
        }
        stop.store(true, Ordering::Relaxed);
    });
    while send(&peer, &good(b"still"), &[]).is_err() {
        // The socket is full of signals.
        assert_eq!(victim.read().unwrap_err(), Status::ShouldWait);
    }
    victim.wait_one(Signals::READABLE, Deadline::after(Duration::from_secs(60))).unwrap();
    assert_eq!(&*victim.read().unwrap(), b"still");
}

/// Packets that stay in the socket when a port stops receiving signals cause no new edge.
#[test]
fn a_message_behind_many_signals_reaches_a_port() {
    let _alone = alone();
    let (near, far) = Channel::pair();
    let far = Channel::from_fd(far.into_fd().unwrap()).unwrap();
    let port = Port::new();
    far.wait_async(&port, 3, Signals::READABLE, AsyncOptions::empty()).unwrap();
    let sent = (0..40_000).take_while(|n| {
        let (clear, set) = if n % 2 == 0 { (0, 1) } else { (1, 0) };
        let user = |bits: u32| Signals::from_bits_retain(bits << 24);
        near.signal_peer(user(clear), user(set)).is_ok()
    });
    let sent = sent.count();
    while near.write(&[IoSlice::new(b"behind")], vec![]).is_err() {
        // Fewer fit if socket buffers are small.
        let _ = far.signals();
    }
    let packet = port.wait(Deadline::after(Duration::from_secs(60))).unwrap();
    assert_eq!(packet.key, 3, "behind {sent} signals");
    assert_eq!(&*far.read().unwrap(), b"behind");
}

/// A handle once counted as one, for any number of descriptors.
#[test]
fn endpoints_of_many_descriptors_do_not_fill_the_table() {
    let _alone = alone();
    let (victim, peer) = victim();
    let before = descriptors();
    let (socket, _other) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let fds: Vec<OwnedFd> = (0..250).map(|_| socket.try_clone().unwrap()).collect();
    let mut packet = vec![0xc1, 0, 1, 0, 0, 0, 0, 0, 4, 250, 0, 0];
    packet.extend([0xff; 4]);
    packet.extend([0; 8]);
    // A user without privileges may have no more on their way than open (ETOOMANYREFS, `unix(7)`).
    let sent = (0..20).take_while(|_| match send(&peer, &packet, &fds) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, rustix::io::Errno::TOOMANYREFS);
            false
        }
    });
    let sent = sent.count();
    assert!(sent * fds.len() > MAX_DESCRIPTORS_HELD, "{sent}");
    drop((fds, socket));
    assert!(victim.signals().contains(Signals::READABLE));
    assert!(descriptors() <= before + MAX_DESCRIPTORS_HELD, "{}", descriptors() - before);
    for _ in 0..sent {
        assert_eq!(victim.read().unwrap().handles().len(), 1);
    }
    assert_eq!(victim.read().unwrap_err(), Status::ShouldWait);
}

/// A full queue and a closed peer: messages behind it are read, and no wait spins.
#[test]
fn everything_is_read_from_a_peer_that_closed_behind_a_full_queue() {
    let _alone = alone();
    let (near, far) = Channel::pair();
    let far = Channel::from_fd(far.into_fd().unwrap()).unwrap();
    let mut sent = 0;
    while sent < 300 && near.write(&[], vec![Event::new().into()]).is_ok() {
        sent += 1;
    }
    assert!(sent > 64, "more than the queue takes: {sent}");
    let fd = far.signal_fd(Signals::WRITABLE).unwrap();
    std::thread::scope(|scope| {
        let long = Deadline::after(Duration::from_secs(60));
        let caller = scope.spawn(move || {
            near.call(&[IoSlice::new(b"....")], vec![], Deadline::after(Duration::from_millis(50)))
        });
        assert!(caller.join().unwrap().is_err());
        far.wait_one(Signals::PEER_CLOSED, long).unwrap();
    });
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    assert_eq!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0));
    let mut handles = 0;
    loop {
        match far.read() {
            Ok(message) => handles += message.handles().len(),
            Err(status) => break assert_eq!(status, Status::PeerClosed),
        }
        let has_more = far.signals().contains(Signals::READABLE);
        let is_now = far.wait_one(Signals::READABLE, Deadline::after(Duration::ZERO)).is_ok();
        assert_eq!(has_more, is_now);
    }
    assert_eq!(handles, sent);
}

/// Calls at an end with a full queue end with the peer.
#[test]
fn a_call_ends_with_the_peer_even_if_the_queue_is_full() {
    let _alone = alone();
    let (near, far) = Channel::pair();
    let far = Channel::from_fd(far.into_fd().unwrap()).unwrap();
    for _ in 0..100 {
        near.write(&[], vec![Event::new().into()]).unwrap();
    }
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let long = Deadline::after(Duration::from_secs(60));
            far.call(&[IoSlice::new(b"....")], vec![], long).map(|_| ())
        });
        let long = Deadline::after(Duration::from_secs(60));
        near.wait_one(Signals::READABLE, long).unwrap();
        drop(near);
        assert_eq!(caller.join().unwrap(), Err(Status::PeerClosed));
    });
}
