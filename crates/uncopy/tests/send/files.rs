//! Tests transfers between files and stream sockets: every byte, short files and peers, deadlines, stops, full disks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use testbed::{Case, LONG, Mount, Need, cases};
use uncopy::send::{
    FileReceiver, FileTransferOptions, NotTransferred, receive_to_file, receive_to_file_observed,
    send_file, send_file_observed,
};
use uncopy::{Cost, Errno, Mechanism, Objection, Reason, Receipt};

use crate::send::here;

pub(crate) fn cases() -> Vec<Case> {
    cases![
        [] every_byte_goes_over_each_socket_both_ways_at_once,
        [] files_that_sendfile_refuses_go_through_a_buffer,
        [] a_file_that_ends_early_is_an_error_that_says_where,
        [] a_peer_that_ends_early_is_an_error_and_what_came_is_there,
        [] a_peer_that_is_gone_is_an_error,
        [] deadlines_and_stops_end_a_transfer_whatever_the_peer_does,
        [] what_is_no_stream_or_ignores_offsets_is_refused,
        [] a_receiver_keeps_no_bytes_of_a_range_that_failed,
        [] a_socket_is_as_it_was_afterwards,
        [Need::Root] a_full_disk_is_an_error_and_what_fitted_is_there,
    ]
}

/// Both ends of a connection.
enum Pair {
    Tcp(TcpStream, TcpStream),
    Local(UnixStream, UnixStream),
}

impl Pair {
    fn tcp(is_v6: bool) -> Pair {
        let listener = TcpListener::bind(here(is_v6)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Pair::Tcp(near, listener.accept().unwrap().0)
    }

    fn local() -> Pair {
        let (near, far) = UnixStream::pair().unwrap();
        Pair::Local(near, far)
    }

    fn every() -> [Pair; 3] {
        [Pair::tcp(false), Pair::tcp(true), Pair::local()]
    }

    fn ends(&self) -> [BorrowedFd<'_>; 2] {
        match self {
            Pair::Tcp(near, far) => [near.as_fd(), far.as_fd()],
            Pair::Local(near, far) => [near.as_fd(), far.as_fd()],
        }
    }

    fn set_nonblocking(&self) {
        match self {
            Pair::Tcp(near, far) => {
                near.set_nonblocking(true).unwrap();
                far.set_nonblocking(true).unwrap();
            }
            Pair::Local(near, far) => {
                near.set_nonblocking(true).unwrap();
                far.set_nonblocking(true).unwrap();
            }
        }
    }

    /// Ends the stream from the near end.
    fn end(&self) {
        match self {
            Pair::Tcp(near, _) => near.shutdown(Shutdown::Write).unwrap(),
            Pair::Local(near, _) => near.shutdown(Shutdown::Write).unwrap(),
        }
    }

    fn write(&self, bytes: &[u8]) {
        match self {
            Pair::Tcp(near, _) => (&*near).write_all(bytes).unwrap(),
            Pair::Local(near, _) => (&*near).write_all(bytes).unwrap(),
        }
    }

    /// Closes the far end.
    fn close_far(self) -> Box<dyn AsFd> {
        match self {
            Pair::Tcp(near, _) => Box::new(near),
            Pair::Local(near, _) => Box::new(near),
        }
    }
}

fn soon() -> FileTransferOptions {
    FileTransferOptions::new().deadline(Some(Instant::now() + LONG))
}

fn bytes(seed: usize, count: usize) -> Vec<u8> {
    (0..count).map(|at| (at ^ (at >> 8) ^ (at >> 16) ^ seed) as u8).collect()
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[track_caller]
fn reason(ended: Result<Receipt, NotTransferred>) -> (Reason, u64) {
    let ended = ended.unwrap_err();
    (ended.error.reason().clone(), ended.receipt.bytes)
}

fn every_byte_goes_over_each_socket_both_ways_at_once() {
    let sizes = [0, 1, 4095, 4096, 65_537, testbed::by_extent([9 << 20, 3 << 20, 3 << 20]) + 1];
    for is_nonblocking in [false, true] {
        for size in sizes {
            for begin in [0, 3] {
                for pair in Pair::every() {
                    if is_nonblocking {
                        pair.set_nonblocking();
                    }
                    let [near, far] = pair.ends();
                    let sent = [1, 2].map(|seed| bytes(seed, size + begin));
                    let from = [0, 1].map(|end| file_of(&sent[end]));
                    let to = [0, 1].map(|_| tempfile::tempfile().unwrap());
                    let range = begin as u64..(begin + size) as u64;
                    let receipts = std::thread::scope(|scope| {
                        let send = |file, socket| {
                            let range = range.clone();
                            scope.spawn(move || send_file(file, range, socket, &soon()).unwrap())
                        };
                        let receive = |socket, file| {
                            let range = 7..7 + size as u64;
                            scope.spawn(move || {
                                receive_to_file(socket, file, range, &soon()).unwrap()
                            })
                        };
                        // Both ends send and receive.
                        let all = [
                            send(&from[0], near),
                            send(&from[1], far),
                            receive(far, &to[0]),
                            receive(near, &to[1]),
                        ];
                        all.map(|thread| thread.join().unwrap())
                    });
                    for (sent, to) in sent.iter().zip(&to) {
                        let mut received = vec![0; size];
                        to.read_exact_at(&mut received, 7).unwrap();
                        assert!(received == sent[begin..], "{size} {begin}");
                        let length = if size == 0 { 0 } else { size + 7 };
                        assert_eq!(to.metadata().unwrap().len(), length as u64);
                    }
                    let ways = [
                        (Mechanism::Sendfile, Cost::Unknown),
                        (Mechanism::Splice, Cost::KernelCopied),
                    ];
                    for (receipt, (mechanism, cost)) in
                        receipts.iter().zip([ways[0], ways[0], ways[1], ways[1]])
                    {
                        assert_eq!(receipt.bytes, size as u64);
                        assert_eq!(receipt.bytes_by(mechanism), size as u64, "{receipt:?}");
                        assert_eq!(receipt.bytes_at(cost), size as u64);
                        assert_eq!(receipt.refusals, []);
                    }
                    // The files' own offsets.
                    for end in [0, 1] {
                        let written = (size + begin) as u64;
                        assert_eq!((&from[end]).stream_position().unwrap(), written);
                        assert_eq!((&to[end]).stream_position().unwrap(), 0);
                    }
                }
            }
        }
    }
}

fn files_that_sendfile_refuses_go_through_a_buffer() {
    for pair in Pair::every() {
        let [near, far] = pair.ends();
        // Has only read(2) (`fs/proc/task_mmu.c`).
        let file = File::open("/proc/self/maps").unwrap();
        let mut whole = Vec::new();
        (&file).read_to_end(&mut whole).unwrap();
        (&file).seek(SeekFrom::Start(0)).unwrap();
        let size = 100;
        let receipt = send_file(&file, 0..size, near, &soon()).unwrap();
        assert_eq!(receipt.bytes, size);
        let to = tempfile::tempfile().unwrap();
        receive_to_file(far, &to, 0..size, &soon()).unwrap();
        let mut received = vec![0; size as usize];
        to.read_exact_at(&mut received, 0).unwrap();
        assert_eq!(received, whole[..size as usize]);
        let moved: u64 = receipt.portions.iter().map(|portion| portion.bytes).sum();
        assert_eq!(moved, size);
        assert_eq!(receipt.bytes_by(Mechanism::ReadWrite), size, "{receipt:?}");
        assert_eq!(receipt.refusals[0].errno, Some(Errno::EINVAL));
    }
}

fn a_file_that_ends_early_is_an_error_that_says_where() {
    for (range, end) in
        [(0..4097, 4096), (4096..4097, 4096), (9000..9001, 4096), (4000..1 << 40, 4096)]
    {
        let pair = Pair::local();
        let file = file_of(&bytes(1, 4096));
        let sent = send_file(&file, range.clone(), pair.ends()[0], &soon());
        let expected = Reason::Refused(Objection::FileEnds { end });
        assert_eq!(reason(sent), (expected, end.saturating_sub(range.start)), "{range:?}");
    }
}

fn a_peer_that_ends_early_is_an_error_and_what_came_is_there() {
    for count in [0, 1, 100_000] {
        for pair in Pair::every() {
            let (to, sent) = (tempfile::tempfile().unwrap(), bytes(1, count));
            let received = std::thread::scope(|scope| {
                scope.spawn(|| {
                    pair.write(&sent);
                    pair.end();
                });
                receive_to_file(pair.ends()[1], &to, 0..count as u64 + 5, &soon())
            });
            let expected = Reason::Refused(Objection::ShortPeer { missing_bytes: 5 });
            assert_eq!(reason(received), (expected, count as u64));
            let mut found = vec![0; count];
            to.read_exact_at(&mut found, 0).unwrap();
            assert!(found == sent && to.metadata().unwrap().len() == count as u64);
        }
    }
}

fn a_peer_that_is_gone_is_an_error() {
    for pair in Pair::every() {
        let near = pair.close_far();
        let file = file_of(&bytes(1, 8 << 20));
        let (reason, _) = reason(send_file(&file, 0..8 << 20, near.as_fd(), &soon()));
        let is_gone = |errno| errno == Errno::EPIPE || errno == Errno::ECONNRESET;
        assert!(matches!(reason, Reason::Network { errno } if is_gone(errno)), "{reason:?}");
    }
}

fn deadlines_and_stops_end_a_transfer_whatever_the_peer_does() {
    let file = file_of(&bytes(1, 32 << 20));
    for is_nonblocking in [false, true] {
        for pair in Pair::every() {
            if is_nonblocking {
                pair.set_nonblocking();
            }
            let [near, far] = pair.ends();
            let brief = || {
                let deadline = Instant::now() + Duration::from_millis(120);
                FileTransferOptions::new().deadline(Some(deadline))
            };
            // Nobody reads.
            let (why, moved) = reason(send_file(&file, 0..32 << 20, near, &brief()));
            assert_eq!(why, Reason::Network { errno: Errno::ETIMEDOUT });
            assert!(moved > 0 && moved < 32 << 20);
            let mut asked = 0;
            let mut stop = |_| {
                asked += 1;
                if asked < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let stopped = send_file_observed(&file, 0..32 << 20, near, &soon(), &mut stop);
            assert_eq!(reason(stopped).0, Reason::Cancelled);
            assert_eq!(asked, 5);
            // Nobody sends.
            let to = tempfile::tempfile().unwrap();
            let (why, moved) = reason(receive_to_file(near, &to, 0..10, &brief()));
            assert_eq!((why, moved), (Reason::Network { errno: Errno::ETIMEDOUT }, 0));
            let mut asked = 0;
            let mut stop = |_| {
                asked += 1;
                if asked < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let stopped = receive_to_file_observed(near, &to, 0..10, &soon(), &mut stop);
            assert_eq!(reason(stopped), (Reason::Cancelled, 0));
            // Everything that was sent before is there in order.
            receive_to_file(far, &to, 0..10, &soon()).unwrap();
            let mut found = [0; 10];
            to.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(found[..], bytes(1, 10));
        }
    }
}

fn what_is_no_stream_or_ignores_offsets_is_refused() {
    let file = file_of(b"bytes");
    let udp = UdpSocket::bind(here(false)).unwrap();
    let (why, _) = reason(send_file(&file, 0..5, &udp, &soon()));
    assert_eq!(why, Reason::Refused(Objection::MessageSocket));
    let (why, _) = reason(receive_to_file(&udp, &file, 0..5, &soon()));
    assert_eq!(why, Reason::Refused(Objection::MessageSocket));
    let (why, _) = reason(send_file(&file, 0..5, &file, &soon()));
    assert_eq!(why, Reason::Network { errno: Errno::ENOTSOCK });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let appended = File::options().append(true).create(true).open(&path).unwrap();
    let pair = Pair::local();
    pair.write(b"bytes");
    let (why, _) = reason(receive_to_file(pair.ends()[1], &appended, 0..5, &soon()));
    assert_eq!(why, Reason::Refused(Objection::AppendOnly));
    // Nothing was taken from the socket.
    receive_to_file(pair.ends()[1], &file, 0..5, &soon()).unwrap();
    let (why, _) = reason(send_file(&appended, 0..1, pair.ends()[0], &soon()));
    assert!(matches!(why, Reason::System { errno: Errno::EBADF }), "{why:?}");
    let read_only = File::open(&path).unwrap();
    pair.write(b"b");
    let (why, _) = reason(receive_to_file(pair.ends()[1], &read_only, 0..1, &soon()));
    assert!(matches!(why, Reason::System { errno: Errno::EBADF }), "{why:?}");
}

fn a_receiver_keeps_no_bytes_of_a_range_that_failed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("read-only");
    std::fs::write(&path, b"").unwrap();
    let (read_only, to) = (File::open(&path).unwrap(), tempfile::tempfile().unwrap());
    let mut receiver = FileReceiver::new();
    for pair in Pair::every() {
        let socket = pair.ends()[1];
        for part in 0..3 {
            pair.write(b"twelve bytes");
            receiver.receive(socket, &to, part * 12..(part + 1) * 12, &soon()).unwrap();
        }
        // These are in the pipe when the file refuses them.
        pair.write(b"lost bytes");
        let (why, moved) = reason(receiver.receive(socket, &read_only, 0..10, &soon()));
        assert!(matches!(why, Reason::System { errno: Errno::EBADF }), "{why:?}");
        assert_eq!(moved, 0);
        pair.write(b"kept bytes");
        receiver.receive(socket, &to, 36..46, &soon()).unwrap();
        let mut found = [0; 46];
        to.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"twelve bytestwelve bytestwelve byteskept bytes");
    }
}

fn a_socket_is_as_it_was_afterwards() {
    for timeout in [None, Some(Duration::from_secs(3))] {
        let Pair::Tcp(near, far) = Pair::tcp(false) else { panic!("TCP") };
        near.set_write_timeout(timeout).unwrap();
        let file = file_of(b"bytes");
        send_file(&file, 0..5, &near, &soon()).unwrap();
        send_file(&file, 0..9, &near, &soon()).unwrap_err();
        assert_eq!(near.write_timeout().unwrap(), timeout);
        receive_to_file(&far, &file, 0..5, &soon()).unwrap();
        assert_eq!(far.read_timeout().unwrap(), None);
    }
}

fn a_full_disk_is_an_error_and_what_fitted_is_there() {
    let place = Mount::tmpfs(1);
    for pair in Pair::every() {
        let to = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(place.path().join("file"))
            .unwrap();
        let sent = bytes(1, 3 << 20);
        let from = file_of(&sent);
        let [near, far] = pair.ends();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let options = FileTransferOptions::new();
                let deadline = Some(Instant::now() + Duration::from_secs(2));
                // The other side stops taking bytes.
                let _ = send_file(&from, 0..3 << 20, near, &options.deadline(deadline));
            });
            let ended = receive_to_file(far, &to, 0..3 << 20, &soon()).unwrap_err();
            assert_eq!(ended.error.errno(), Some(Errno::ENOSPC), "{ended}");
            assert!(ended.error.is_lasting());
            let mut found = vec![0; ended.receipt.bytes as usize];
            to.read_exact_at(&mut found, 0).unwrap();
            assert!(!found.is_empty() && found == sent[..found.len()]);
        });
    }
}
