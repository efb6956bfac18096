//! Tests sends of Tokio tasks.

use std::future::Future;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use testbed::{LONG, in_a_child, seeded};
use tokio::time::timeout;
use uncopy::send::{AsyncSender, Fate, InetSocket, Mode, Sender, SenderOptions, StableBytes};

fn lending<B: StableBytes>(socket: InetSocket) -> AsyncSender<B> {
    let options = SenderOptions::new().mode(Mode::Zerocopy);
    AsyncSender::new(Sender::new(socket, &options))
}

fn udp() -> (UdpSocket, InetSocket) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(LONG)).unwrap();
    let socket = InetSocket::connect_udp(receiver.local_addr().unwrap()).unwrap();
    (receiver, socket)
}

fn tcp() -> (TcpStream, InetSocket) {
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let socket = InetSocket::connect_tcp(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, socket)
}

fn read_to_the_end(mut stream: TcpStream) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Polls once, with a waker that does nothing.
fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn results_and_buffers_come_separately() {
    let (receiver, socket) = udp();
    let sender = lending(socket);
    let (sent, first) = sender.send(seeded(1, 0, 9000)).await;
    assert_eq!(sent.unwrap(), 9000);
    let (sent, second) = sender.send(seeded(2, 0, 5000)).await;
    assert_eq!(sent.unwrap(), 5000);
    // Taken in the other order.
    let release = timeout(LONG, second.release()).await.unwrap().unwrap();
    assert_eq!(
        (release.fate, release.payload.into_one()),
        (Fate::Copied, Some(seeded(2, 0, 5000)))
    );
    let release = timeout(LONG, first.release()).await.unwrap().unwrap();
    assert_eq!(release.payload.into_one(), Some(seeded(1, 0, 9000)));
    let mut bytes = [0; 10_000];
    assert_eq!(receiver.recv(&mut bytes).unwrap(), 9000);
    assert_eq!(bytes[..9000], seeded(1, 0, 9000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_wait_for_their_buffers() {
    let (stream, socket) = tcp();
    socket.set_send_buffer_bytes(256 << 10).unwrap();
    let received = read_to_the_end(stream);
    let sender = Arc::new(lending(socket));
    let tasks: Vec<_> = (0..40u64)
        .map(|seed| {
            let sender = sender.clone();
            tokio::spawn(async move {
                for round in 0..10 {
                    let buffer = vec![seed as u8; 20_000 + round];
                    let (sent, pending) = sender.send(buffer).await;
                    assert_eq!(sent.unwrap(), 20_000 + round);
                    let release = pending.release().await.unwrap();
                    assert!(release.payload.into_one().unwrap().iter().all(|b| *b == seed as u8));
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(LONG, task).await.expect("no task waits for ever").unwrap();
    }
    drop(sender);
    let bytes = received.join().unwrap();
    assert_eq!(bytes.len(), 40 * (0..10).map(|round| 20_000 + round).sum::<usize>());
    // Messages of different tasks are not mixed.
    let mut rest = &bytes[..];
    while let [first, ..] = rest {
        let length = rest.iter().take_while(|byte| *byte == first).count();
        assert!(length >= 20_000, "{length}");
        rest = &rest[length..];
    }
}

#[tokio::test]
async fn a_send_that_is_dropped_in_the_middle_is_finished_by_the_next() {
    let (stream, socket) = tcp();
    socket.set_send_buffer_bytes(1 << 20).unwrap();
    let sender = lending(socket);
    let large = Arc::new(seeded(1, 0, 12 << 20));
    {
        let mut send = pin!(sender.send(large.clone()));
        let begun = timeout(Duration::from_millis(50), send.as_mut()).await;
        assert!(begun.is_err(), "the peer does not read");
    }
    assert!(Arc::strong_count(&large) > 1, "the kernel reads it");
    let received = read_to_the_end(stream);
    let (sent, pending) = timeout(LONG, sender.send(Arc::new(vec![9; 1000]))).await.unwrap();
    assert_eq!(sent.unwrap(), 1000);
    timeout(LONG, pending.release()).await.unwrap().unwrap();
    drop(sender);
    let bytes = received.join().unwrap();
    assert!(bytes[..large.len()] == large[..] && bytes[large.len()..] == [9; 1000]);
    assert_eq!(Arc::strong_count(&large), 1, "its claim was dropped");
}

#[tokio::test]
async fn half_a_message_is_followed_by_a_reset() {
    for mode in [Mode::Copy, Mode::Zerocopy] {
        let (mut stream, socket) = tcp();
        let options = SenderOptions::new().mode(mode);
        let sender = AsyncSender::new(Sender::new(socket, &options));
        let mut sending = Box::pin(sender.send(vec![7; 16 << 20]));
        assert!(poll_once(sending.as_mut()).is_pending(), "the peer does not read");
        drop(sending);
        drop(sender);
        let end = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset), "{mode:?}");
    }
}

#[tokio::test]
async fn a_send_that_is_dropped_before_its_turn_is_not_made() {
    let (stream, socket) = tcp();
    socket.set_send_buffer_bytes(1 << 20).unwrap();
    let sender = lending(socket);
    let buffer = Arc::new(vec![5; 5000]);
    let received;
    {
        let mut first = pin!(sender.send(Arc::new(vec![1; 12 << 20])));
        assert!(poll_once(first.as_mut()).is_pending());
        {
            let mut second = pin!(sender.send(buffer.clone()));
            assert!(poll_once(second.as_mut()).is_pending());
        }
        assert_eq!(Arc::strong_count(&buffer), 1);
        received = read_to_the_end(stream);
        assert_eq!(timeout(LONG, first).await.unwrap().0.unwrap(), 12 << 20);
    }
    drop(sender);
    assert!(received.join().unwrap().iter().all(|byte| *byte == 1));
}

#[tokio::test]
async fn errors_return_the_buffer_too() {
    let (receiver, socket) = udp();
    let sender = lending(socket);
    let (sent, pending) = sender.send(vec![1; 70_000]).await;
    assert_eq!(sent.unwrap_err().errno(), Some(uncopy::Errno::EMSGSIZE));
    let release = timeout(LONG, pending.release()).await.unwrap().unwrap();
    assert_eq!((release.fate, release.payload.len()), (Fate::Unsent, 70_000));
    drop(receiver);
}

#[tokio::test]
async fn a_pending_that_is_dropped_frees_its_buffer_with_the_next_send() {
    let (_receiver, socket) = udp();
    let sender = lending(socket);
    let buffer = Arc::new(vec![1; 3000]);
    let (_, pending) = sender.send(buffer.clone()).await;
    drop(pending);
    let (_, pending) = sender.send(Arc::new(vec![2; 10])).await;
    timeout(LONG, pending.release()).await.unwrap().unwrap();
    assert_eq!(Arc::strong_count(&buffer), 1);
}

/// Sends buffers of which the last one waits in the socket, because the peer does not read.
async fn lend_to_a_peer_that_does_not_read(
    sender: &AsyncSender<Arc<Vec<u8>>>,
) -> (Arc<Vec<u8>>, uncopy::send::Pending<Arc<Vec<u8>>>) {
    for _ in 0..5 {
        // The claims on these are dropped.
        let (sent, _) = sender.send(Arc::new(vec![1; 40_000])).await;
        assert_eq!(sent.unwrap(), 40_000);
    }
    let buffer = Arc::new(seeded(7, 0, 40_000));
    let (sent, pending) = sender.send(buffer.clone()).await;
    assert_eq!(sent.unwrap(), 40_000);
    (buffer, pending)
}

#[tokio::test]
async fn an_abandoned_wait_frees_the_buffer_after_its_release() {
    for is_raced in [false, true] {
        let (stream, socket) = tcp();
        let sender = lending(socket);
        let (buffer, pending) = lend_to_a_peer_that_does_not_read(&sender).await;
        let pause = Duration::from_millis(30);
        if is_raced {
            tokio::select! {
                _ = pending.release() => panic!("the peer does not read"),
                () = tokio::time::sleep(pause) => {}
            }
        } else {
            assert!(timeout(pause, pending.release()).await.is_err(), "the peer does not read");
        }
        // Another send meanwhile.
        let (sent, small) = sender.send(Arc::new(vec![2; 10])).await;
        assert_eq!((sent.unwrap(), small.id().get()), (10, 6));
        assert_eq!(Arc::strong_count(&buffer), 2, "the kernel reads it, or will");
        let received = read_to_the_end(stream);
        timeout(LONG, small.release()).await.unwrap().unwrap();
        assert_eq!(Arc::strong_count(&buffer), 1, "dropped when it was released");
        drop(sender);
        let bytes = received.join().unwrap();
        assert!(bytes[200_000..240_000] == buffer[..] && bytes.len() == 240_010);
    }
}

/// The runtime does not run in the child, so every wait there would never end.
#[tokio::test]
async fn a_child_is_refused_and_leaves_its_parents_runtime_alone() {
    let (stream, socket) = tcp();
    let lending = lending(socket);
    let (buffer, pending) = lend_to_a_peer_that_does_not_read(&lending).await;
    let (_, other) = lending.send(Arc::new(vec![2; 10])).await;
    // Makes the runtime watch the reports.
    let mut release = Box::pin(pending.release());
    assert!(
        timeout(Duration::from_millis(10), &mut release).await.is_err(),
        "the peer does not read"
    );
    let mut inherited = Some((lending, other, release));
    assert!(in_a_child(|| {
        let (lending, other, release) = inherited.take().unwrap();
        let is_forked = |error: &uncopy::Error| *error.reason() == uncopy::Reason::Forked;
        let mut sending = Box::pin(lending.send(Arc::new(vec![1; 10])));
        let Poll::Ready((sent, own)) = poll_once(sending.as_mut()) else { return false };
        drop(sending);
        let released = poll_once(pin!(other.release()));
        let is_empty = lending.counters().sends == 0;
        let text = format!("{lending:?}");
        drop((own, release, lending));
        is_forked(&sent.unwrap_err())
            && matches!(released, Poll::Ready(Err(kept)) if is_forked(&kept.error))
            && is_empty
            && text.contains("forked")
    }));
    let (lending, other, release) = inherited.unwrap();
    let received = read_to_the_end(stream);
    // The parent's runtime still sees the reports.
    let release = timeout(LONG, release).await.unwrap().unwrap();
    assert!(release.payload.into_one().is_some_and(|whole| Arc::ptr_eq(&whole, &buffer)));
    timeout(LONG, other.release()).await.unwrap().unwrap();
    drop(lending);
    let bytes = received.join().unwrap();
    assert!(bytes[200_000..240_000] == buffer[..] && bytes.ends_with(&[2; 10]));
}

/// A runtime ends in the middle of a send: in the next one the rest goes before the send that follows.
#[test]
fn a_send_that_its_runtime_left_is_finished_in_the_next_one() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    const BYTES: usize = 8 << 20;
    let (stream, socket) = tcp();
    socket.set_send_buffer_bytes(64 << 10).unwrap();
    let sender = AsyncSender::new(Sender::new(socket, &SenderOptions::new().mode(Mode::Copy)));
    let first = runtime();
    let cut_off = first.block_on(async {
        timeout(Duration::from_millis(50), sender.send(vec![b'A'; BYTES])).await.is_err()
    });
    assert!(cut_off, "the peer does not read");
    drop(first);
    let received = read_to_the_end(stream);
    runtime().block_on(async {
        let (sent, second) = timeout(LONG, sender.send(vec![b'B'; 1000])).await.unwrap();
        assert_eq!(sent.unwrap(), 1000);
        timeout(LONG, second.release()).await.unwrap().unwrap();
        drop(sender);
    });
    let bytes = received.join().unwrap();
    assert_eq!(bytes.len(), BYTES + 1000);
    assert!(bytes[..BYTES].iter().all(|byte| *byte == b'A'));
    assert!(bytes[BYTES..].iter().all(|byte| *byte == b'B'));
}
