//! Receiving from a socket, by its content.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use super::{Arrival, Body, Wire, send};
use crate::transport::packet::Content;
use uncopy_os::seqpacket::{self, Part};

/// A packet or end in a socket behind another packet.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Bytes(usize),
    Signals,
    Garbage,
    Backlog,
    Closed,
}

/// An arrival in a comparable form.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Bytes(usize),
    Signals,
    Nothing,
    End,
}

fn found(arrival: Arrival) -> Found {
    match arrival {
        Arrival::Packet(Content::Message, load) => Found::Bytes(load.body.len()),
        Arrival::Packet(content, _) => {
            assert_eq!(content, Content::Signals);
            Found::Signals
        }
        Arrival::Nothing => Found::Nothing,
        Arrival::End => Found::End,
    }
}

fn put(fd: &OwnedFd, sent: Sent) {
    let packet = |content, bytes: &[u8], fds: &[OwnedFd]| {
        let regions = [IoSlice::new(bytes)];
        assert!(send(fd, content, Body::new(&regions, bytes.len()), &[], fds).is_ok());
    };
    match sent {
        Sent::Bytes(length) => packet(Content::Message, &vec![7; length], &[]),
        Sent::Signals => packet(Content::Signals, &[0; 8], &[]),
        Sent::Garbage => seqpacket::send(fd, &[Part::of(b"no header")], &[]).unwrap(),
        Sent::Backlog => {
            let (there, _) = seqpacket::pair().unwrap();
            packet(Content::Backlog, &[], &[there]);
        }
        Sent::Closed => seqpacket::shut_down(fd),
    }
}

/// Returns a wire that has received a packet, with all of `sent` in its socket.
fn after(sent: &[Sent]) -> (Wire, OwnedFd) {
    let (here, there) = seqpacket::pair().unwrap();
    let wire = Wire::new(here, Vec::new());
    put(&there, Sent::Bytes(1));
    assert_eq!(found(wire.receive()), Found::Bytes(1));
    for packet in sent {
        put(&there, *packet);
    }
    (wire, there)
}

#[test]
fn one_call_returns_a_packet_and_the_one_behind_it() {
    let table: [(&[Sent], Found, Option<Found>); 10] = [
        (&[], Found::Nothing, None),
        (&[Sent::Bytes(3)], Found::Bytes(3), Some(Found::Nothing)),
        (&[Sent::Bytes(0), Sent::Bytes(65_536)], Found::Bytes(0), Some(Found::Bytes(65_536))),
        (&[Sent::Bytes(65_536), Sent::Signals], Found::Bytes(65_536), Some(Found::Signals)),
        (&[Sent::Signals, Sent::Bytes(20_000)], Found::Signals, Some(Found::Bytes(20_000))),
        (&[Sent::Bytes(5), Sent::Closed], Found::Bytes(5), Some(Found::End)),
        (&[Sent::Bytes(5), Sent::Garbage], Found::Bytes(5), Some(Found::End)),
        (&[Sent::Bytes(5), Sent::Backlog], Found::Bytes(5), Some(Found::End)),
        (&[Sent::Garbage, Sent::Bytes(5)], Found::End, None),
        (&[Sent::Closed], Found::End, None),
    ];
    for (sent, first, behind) in table {
        let (wire, _there) = after(sent);
        let (next, then) = wire.receive_two();
        assert_eq!((found(next), then.map(found)), (first, behind), "{sent:?}");
    }
}

/// Packets behind the end or behind an invalid packet are ignored.
#[test]
fn nothing_is_received_after_the_end() {
    for end in [Sent::Garbage, Sent::Backlog] {
        let (wire, _there) = after(&[Sent::Bytes(5), end, Sent::Bytes(6)]);
        let (next, then) = wire.receive_two();
        assert_eq!((found(next), then.map(found)), (Found::Bytes(5), Some(Found::End)));
        assert_eq!(found(wire.receive()), Found::End);
    }
}

/// Packets of the socket itself come after the whole backlog, and one call does not mix them.
#[test]
fn the_backlog_is_received_first() {
    let (here, there) = seqpacket::pair().unwrap();
    let (backlog, filled) = seqpacket::pair().unwrap();
    put(&filled, Sent::Bytes(10));
    put(&filled, Sent::Bytes(11));
    drop(filled);
    assert!(send(&there, Content::Backlog, Body::empty(), &[], &[backlog]).is_ok());
    put(&there, Sent::Bytes(12));
    let wire = Wire::new(here, Vec::new());
    let mut lengths = Vec::new();
    while lengths.len() < 3 {
        let (next, then) = wire.receive_two();
        for arrival in [Some(next), then].into_iter().flatten() {
            lengths.push(found(arrival));
        }
    }
    assert_eq!(lengths, [Found::Bytes(10), Found::Bytes(11), Found::Bytes(12)]);
}
