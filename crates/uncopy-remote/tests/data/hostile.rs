//! Peers that are no near end: other keys, other addresses, silence, garbage, slowness.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use uncopy_remote::data::{self, ConnectFailure, EndKeys};

use crate::support::{Ends, LONG, options, plain_from};

#[test]
fn neither_end_accepts_another_key() {
    let ends = Ends::local();
    let address = ends.listener.address();
    let (announced, token) = ends.listener.announce().unwrap();
    // A near end that is another one, even if it knows the token.
    let other = EndKeys::generate().unwrap();
    let stranger = EndKeys::generate().unwrap();
    let failure = data::connect(&[address], &other.pin(stranger.public()), &token, LONG).err();
    assert_eq!(failure, Some(ConnectFailure::OtherKey { address }), "another far end");
    ends.wait_for(|refusals| refusals.other_key == 1);
    let failure = data::connect(&[address], &other.pin(ends.far_key), &token, LONG).err();
    assert_eq!(failure, Some(ConnectFailure::OwnKeyRefused { address }), "another near end");
    ends.wait_for(|refusals| refusals.other_key == 2);

    // Neither has used the token up.
    let _near = ends.connect(&token).unwrap();
    assert_eq!(ends.connected().0, announced);
}

#[test]
fn another_address_is_closed_at_once() {
    let ends = Ends::local();
    let (announced, token) = ends.listener.announce().unwrap();
    for _ in 0..3 {
        let mut other = plain_from("127.0.0.2", ends.listener.address());
        assert!(matches!(other.read(&mut [0]), Ok(0) | Err(_)), "closed without a byte");
    }
    assert_eq!(ends.listener.refusals().other_address, 3);
    let _near = ends.connect(&token).unwrap();
    assert_eq!(ends.connected().0, announced);
}

#[test]
fn silent_and_slow_peers_keep_nobody_out() {
    let mut options = options("127.0.0.1");
    options.handshake = Duration::from_millis(400);
    let ends = Ends::new(&options);
    let address = ends.listener.address();
    let (announced, token) = ends.listener.announce().unwrap();
    let (_, spare) = ends.listener.announce().unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        let silent = TcpStream::connect(address).unwrap();
        let slow = TcpStream::connect(address).unwrap();
        scope.spawn(move || {
            // The beginning of a handshake, and then a byte at a time, each well within any pause.
            let mut slow = slow;
            let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 500]].concat();
            for byte in hello {
                if slow.write_all(&[byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(20));
            }
            panic!("a handshake of {:?}", begun.elapsed());
        });
        let _near = ends.connect(&token).unwrap();
        assert_eq!(ends.connected().0, announced);
        let mut silent = silent;
        assert!(matches!(silent.read(&mut [0]), Ok(0) | Err(_)), "closed");
        assert!(begun.elapsed() >= options.handshake, "not before its time");
        ends.wait_for(|refusals| refusals.handshake == 2);
    });
    let _near = ends.connect(&spare).unwrap();
}

#[test]
fn a_crowd_of_silent_peers_keeps_nobody_out() {
    let ends = Ends::local();
    let (announced, token) = ends.listener.announce().unwrap();
    let crowd: Vec<_> =
        (0..100).map(|_| TcpStream::connect(ends.listener.address()).unwrap()).collect();
    ends.wait_for(|refusals| refusals.displaced >= 68);
    let _near = ends.connect(&token).unwrap();
    assert_eq!(ends.connected().0, announced);
    // The oldest ones had to go.
    let mut crowd = crowd;
    assert!(matches!(crowd[0].read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn garbage_is_no_handshake() {
    let ends = Ends::local();
    let (announced, token) = ends.listener.announce().unwrap();
    let garbage: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        &[0; 4096],
        &[255; 70_000],
        // A record that is too long, and a client's greeting that is cut.
        &[22, 3, 1, 255, 255, 1, 0, 0],
        &[22, 3, 1, 0, 5, 1, 0, 0, 1, 3],
    ];
    for bytes in garbage {
        let mut peer = TcpStream::connect(ends.listener.address()).unwrap();
        // The listener may have closed already.
        let _ = peer.write_all(bytes);
        let _ = peer.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = peer.read_to_end(&mut answer);
        assert!(answer.len() < 100, "nothing but an alert: {answer:?}");
    }
    ends.wait_for(|refusals| refusals.handshake == 6);
    let _near = ends.connect(&token).unwrap();
    assert_eq!(ends.connected().0, announced);
}
