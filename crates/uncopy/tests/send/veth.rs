//! Tests a link to another network on this machine, over which the kernel always copies.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use testbed::network::{End, NEEDS, linked};
use testbed::{Case, seeded};
use uncopy::send::{FallbackReason, Fate, InetSocket, Mode, Sender};

use crate::send::receiver::datagram;
use crate::send::{LONG, all_releases, fates, sender};

pub(crate) fn cases() -> Vec<Case> {
    let named = |name: &str, body: fn()| Case::new(format!("veth::{name}"), NEEDS, body);
    vec![
        named("it_copies_datagrams_and_auto_stops", it_copies_datagrams_and_auto_stops),
        named("it_copies_streams_and_auto_stops", it_copies_streams_and_auto_stops),
    ]
}

const PORT: u16 = 9;
const SENDS: u64 = 200;
const BYTES: u64 = 40_000;

/// Sends one after the other; all are copied, most of them by choice.
fn send_all(sender: &mut Sender<Vec<u8>>) {
    for seed in 0..SENDS {
        assert_eq!(sender.send(seeded(seed, 0, BYTES)).result.unwrap(), BYTES as usize);
        assert_eq!(fates(&all_releases(sender)), [Fate::Copied]);
    }
    let counters = sender.counters();
    // Both kinds may have been tried before the path was known to copy.
    let tried = counters.fallbacks_for(FallbackReason::CopyingIsCheaper);
    let rested = counters.fallbacks_for(FallbackReason::PathCopies) + tried;
    assert!(rested > 150, "{counters:?}");
    assert_eq!(counters.copied_sends, SENDS);
}

fn it_copies_datagrams_and_auto_stops() {
    for is_v6 in [false, true] {
        linked(
            move |_| {
                let far = End::Far.address(is_v6, PORT);
                let talk = UdpSocket::bind(End::Near.address(is_v6, PORT)).unwrap();
                talk.set_read_timeout(Some(LONG)).unwrap();
                assert_eq!(datagram(&talk), b"listening");
                let mut sender = sender(InetSocket::connect_udp(far).unwrap(), Mode::Auto);
                send_all(&mut sender);
                // The receiver may drop it while its socket is full.
                talk.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                let mut answer = [0; 20];
                while talk.recv(&mut answer).is_err() || !answer.starts_with(b"all whole") {
                    talk.send_to(b"end", far).unwrap();
                }
            },
            move |_| receive_to_the_end(is_v6),
        );
    }
}

/// Announces that it listens until something arrives, and checks everything that does.
fn receive_to_the_end(is_v6: bool) {
    let near = End::Near.address(is_v6, PORT);
    let receiver = UdpSocket::bind(End::Far.address(is_v6, PORT)).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let mut bytes = vec![0; 65_536];
    let mut length = loop {
        // The other side may not exist yet.
        let _ = receiver.send_to(b"listening", near);
        if let Ok(length) = receiver.recv(&mut bytes) {
            break length;
        }
    };
    receiver.set_read_timeout(Some(LONG)).unwrap();
    let mut seeds = 0..SENDS;
    while length != b"end".len() {
        // Datagrams in between were dropped.
        let is_sent = seeds.any(|seed| bytes[..length] == seeded(seed, 0, BYTES));
        assert!(is_sent, "{length} bytes that were not sent, or came twice");
        length = receiver.recv(&mut bytes).unwrap();
    }
    receiver.send_to(b"all whole", near).unwrap();
}

fn it_copies_streams_and_auto_stops() {
    for is_v6 in [false, true] {
        linked(
            move |_| {
                let begin = Instant::now();
                let socket = loop {
                    // The listener may not exist yet.
                    match InetSocket::connect_tcp(End::Far.address(is_v6, PORT)) {
                        Ok(socket) => break socket,
                        Err(error) => assert!(begin.elapsed() < LONG, "{error}"),
                    }
                    std::thread::sleep(Duration::from_millis(5));
                };
                let mut sender = sender(socket, Mode::Auto);
                send_all(&mut sender);
                drop(sender.close(Some(LONG)).unwrap());
            },
            move |_| {
                let listener = TcpListener::bind(End::Far.address(is_v6, PORT)).unwrap();
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(LONG)).unwrap();
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).unwrap();
                let expected: Vec<u8> =
                    (0..SENDS).flat_map(|seed| seeded(seed, 0, BYTES)).collect();
                assert!(bytes == expected, "{} bytes", bytes.len());
            },
        );
    }
}
