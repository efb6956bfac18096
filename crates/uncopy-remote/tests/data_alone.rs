//! Descriptors and threads that data connections leave behind: none. In a program of its own, because what other tests
//! hold would count.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use uncopy_remote::data::{self, DataListener, EndKeys, ListenOptions, ListenerEvent};

const LONG: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
}

fn held() -> Held {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    Held { descriptors: count("/proc/self/fd"), threads: count("/proc/self/task") }
}

/// Threads that have been joined may still be seen for a moment.
fn assert_held(expected: &Held, when: &str) {
    let begun = Instant::now();
    while held() != *expected {
        assert!(begun.elapsed() < LONG, "{when}: {:?} instead of {expected:?}", held());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nothing_is_left_behind() {
    let (near, far) = (EndKeys::generate().unwrap(), EndKeys::generate().unwrap());
    let (near, far) = (near.pin(far.public()), far.pin(near.public()));
    let mut options =
        ListenOptions::new("127.0.0.1".parse().unwrap(), "127.0.0.1".parse().unwrap());
    options.announced = LONG;
    options.handshake = LONG;
    // Once before counting, for what is made once in a process.
    let before = std::iter::repeat_with(|| {
        let listener = DataListener::bind(&options, &far).unwrap();
        let (_, token) = listener.announce().unwrap();
        drop(data::connect(&[listener.address()], &near, &token, LONG).unwrap());
        drop(listener);
        thread::sleep(Duration::from_millis(20));
        held()
    })
    .nth(1)
    .unwrap();

    for round in 0..10 {
        let listener = DataListener::bind(&options, &far).unwrap();
        let address = listener.address();
        let (_, first) = listener.announce().unwrap();
        let (_, second) = listener.announce().unwrap();
        let (_, _third) = listener.announce().unwrap();
        let near_stream = data::connect(&[address], &near, &first, LONG).unwrap();
        let ListenerEvent::Connected { stream, .. } = listener.wait(Some(LONG)) else { panic!() };
        // One that nobody takes, more that stand silent than may be in a handshake, and one in the middle of it.
        let untaken = data::connect(&[address], &near, &second, LONG).unwrap();
        let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut begun = TcpStream::connect(address).unwrap();
        begun.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                // The connection that nobody takes comes first, or is dropped before.
                while !matches!(listener.wait(None), ListenerEvent::Closed) {}
            });
            thread::sleep(Duration::from_millis(10 * round));
            let closing = Instant::now();
            listener.close();
            assert!(closing.elapsed() < LONG, "it waits for no deadline");
            waiting.join().unwrap();
        });
        drop(listener);
        for mut socket in silent {
            assert!(matches!(socket.read(&mut [0]), Ok(0) | Err(_)), "cut");
        }
        drop((begun, untaken, near_stream));
        // The stream that was given out is the last thing held.
        let only_one = Held { descriptors: before.descriptors + 1, threads: before.threads };
        assert_held(&only_one, "while a stream is open");
        drop(stream);
        assert_held(&before, "at the end");
    }
}
