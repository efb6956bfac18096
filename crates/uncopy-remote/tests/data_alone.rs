//! Descriptors and threads that data connections and their sessions leave behind: none. In a program of its own, because what other tests
//! hold would count.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use uncopy_copy::peer::{Peer, PeerError};
use uncopy_remote::data::{self, DataListener, EndKeys, ListenOptions, ListenerEvent};
use uncopy_remote::{
    Accepted, DataOptions, DataStart, DataWay, FarData, Limits, Restriction, Streams, accept, pull,
};

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
    by_listeners();
    by_sessions();
}

fn by_listeners() {
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

/// Ends of sessions with data connections: in order, in the middle of a read, and by either end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    InOrder,
    NearGone,
    FarGone,
}

fn by_sessions() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f");
    std::fs::write(&path, vec![7; 8 << 20]).unwrap();
    session(&path, DataWay::Tls, Ending::InOrder);
    thread::sleep(Duration::from_millis(50));
    let before = held();
    for way in [DataWay::Tls, DataWay::Open] {
        for ending in [Ending::InOrder, Ending::NearGone, Ending::FarGone, Ending::InOrder] {
            session(&path, way, ending);
            assert_held(&before, &format!("{way:?} {ending:?}"));
        }
    }
}

/// Writing half, which ends on drop.
struct Closing(UnixStream);

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

fn session(path: &Path, way: DataWay, ending: Ending) {
    let (near, far) = UnixStream::pair().unwrap();
    let streams = |socket: &UnixStream| {
        let (input, output) = (socket.try_clone().unwrap(), socket.try_clone().unwrap());
        Streams::new(input, Closing(output))
    };
    let (near_streams, far_streams) = (streams(&near), streams(&far));
    let serving = thread::spawn(move || {
        let connection = "127.0.0.1 1 127.0.0.1 22";
        let data = FarData::of_ssh(Some(connection.as_ref()));
        let restriction = Restriction { data, ..Restriction::default() };
        match accept(far_streams, &Limits::default(), &restriction)? {
            Accepted::Serve(request) => request.serve(),
            Accepted::Run(_) => panic!("roots are to be served"),
        }
    });
    let local = || Ok(vec!["127.0.0.1:0".parse().unwrap()]);
    let start = DataStart::First;
    let options = DataOptions { way, start, ..DataOptions::new(Box::new(local)) };
    let roots = [path.as_os_str().to_owned()];
    let begun = pull(near_streams, &Limits::default(), Some(options), &roots, &|| false).unwrap();
    let source = begun.source();
    let file = source.open_root(0, false).unwrap();
    let mut length = 0;
    let read = source.read(file.handle, 0..file.stat.size, 0, &mut |bytes| {
        length += bytes.len() as u64;
        if length > 1 << 20 {
            match ending {
                Ending::InOrder => {}
                Ending::NearGone => drop(near.shutdown(Shutdown::Both)),
                Ending::FarGone => drop(far.shutdown(Shutdown::Both)),
            }
        }
        true
    });
    match ending {
        Ending::InOrder => {
            assert_eq!(read.unwrap(), 8 << 20);
            begun.end().unwrap();
        }
        // Data connections end with their session, whatever they carry.
        _ => {
            let begin = Instant::now();
            while !matches!(source.examine(file.handle), Err(PeerError::Lost { .. })) {
                assert!(begin.elapsed() < LONG);
                thread::sleep(Duration::from_millis(2));
            }
            drop(begun);
        }
    }
    drop((near, far, source));
    let served = serving.join().unwrap();
    assert!(served.is_ok() || ending != Ending::InOrder, "{served:?}");
}
