//! Channels for tasks, over each transport and while an end moves.

mod cancelling;

use std::future::Future;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use testbed::{LONG, Transport};
use tokio::time::timeout;
use uncopy::channel::{
    AsyncChannel, Bounds, Channel, Deadline, Event, Handle, Object, Rights, Signals, Status,
};

/// Moves an end to a socket and back, as to another process.
fn moved(channel: Channel) -> Channel {
    Channel::from_fd(channel.into_fd().unwrap()).unwrap()
}

fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    (near, moved(far))
}

/// Makes both ends, without and with a socket between them.
const TRANSPORTS: [fn() -> (Channel, Channel); 2] = [Channel::pair, socket_pair];

fn tasks(ends: impl Into<[Channel; 2]>) -> (AsyncChannel, AsyncChannel) {
    ends.into().map(AsyncChannel::new).into()
}

/// Polls once; the caller polls the future again.
fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

async fn send(channel: &AsyncChannel, bytes: &[u8]) -> Result<(), Status> {
    channel.write(&[IoSlice::new(bytes)], &mut vec![]).await
}

#[tokio::test]
async fn a_reader_waits_for_a_message_or_a_closed_peer() {
    for pair in TRANSPORTS {
        let (near, far) = tasks(pair());
        let reader = tokio::spawn(async move {
            let mut found = Vec::new();
            loop {
                match far.read().await {
                    Ok(message) => found.extend_from_slice(&message),
                    Err(status) => return (found, status),
                }
            }
        });
        for byte in 0..100u8 {
            send(&near, &[byte]).await.unwrap();
            if byte % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
        drop(near);
        let (found, status) = timeout(LONG, reader).await.unwrap().unwrap();
        assert_eq!((found, status), ((0..100).collect(), Status::PeerClosed));
    }
}

#[tokio::test]
async fn a_wait_for_several_signals_returns_all_that_are_set() {
    for over in [Transport::Local, Transport::Socket, Transport::Moved] {
        let (near, far) = tasks(over.channels());
        let asked = Signals::READABLE | Signals::WRITABLE | Signals::USER_0;
        assert_eq!(far.wait(asked).await, Ok(Signals::WRITABLE));
        send(&near, b"message").await.unwrap();
        near.get_ref().signal_peer(Signals::empty(), Signals::USER_0).unwrap();
        assert_eq!(far.wait(asked).await, Ok(asked), "{over:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_waits_for_room() {
    let small = || {
        let bounds = Bounds::new().messages(2);
        Channel::pair_with(bounds)
    };
    for pair in [small, socket_pair] {
        let (near, far) = tasks(pair());
        const MESSAGES: u32 = 2000;
        let writer = tokio::spawn(async move {
            let mut body = vec![0; 60_000];
            for n in 0..MESSAGES {
                body[..4].copy_from_slice(&n.to_ne_bytes());
                let mut handles: Vec<Handle> = match n % 5 {
                    0 => vec![Event::new().into()],
                    _ => vec![],
                };
                near.write(&[IoSlice::new(&body)], &mut handles).await.unwrap();
            }
        });
        let mut body = vec![0; 65_536];
        for n in 0..MESSAGES {
            let mut slots = [None];
            let lengths = timeout(LONG, far.read_into(&mut body, &mut slots)).await.unwrap();
            let lengths = lengths.unwrap();
            assert_eq!((lengths.bytes, lengths.handles), (60_000, usize::from(n % 5 == 0)));
            assert_eq!(body[..4], n.to_ne_bytes());
        }
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn many_calls_at_once_get_their_own_answers() {
    for pair in TRANSPORTS {
        let (near, far) = tasks(pair());
        let near = Arc::new(near);
        let callers: Vec<_> = (0..50u8)
            .map(|n| {
                let near = near.clone();
                tokio::spawn(async move {
                    let question = [0, 0, 0, 0, n];
                    let answer = near.call(&[IoSlice::new(&question)], &mut vec![]).await;
                    assert_eq!(answer.unwrap()[4..], [n, n]);
                })
            })
            .collect();
        let mut questions = Vec::new();
        for _ in 0..callers.len() {
            questions.push(timeout(LONG, far.read()).await.unwrap().unwrap());
        }
        // Messages that are not answers do not disturb them.
        send(&far, b"news").await.unwrap();
        for question in questions.iter().rev() {
            let answer = [&question[..], &question[4..]].concat();
            send(&far, &answer).await.unwrap();
        }
        for caller in callers {
            timeout(LONG, caller).await.unwrap().unwrap();
        }
        assert_eq!(&*near.read().await.unwrap(), b"news");
        let unanswered = tokio::spawn(async move {
            near.call(&[IoSlice::new(b"0000")], &mut vec![]).await.map(drop)
        });
        far.read().await.unwrap();
        drop(far);
        assert_eq!(timeout(LONG, unanswered).await.unwrap().unwrap(), Err(Status::PeerClosed));
    }
}

/// More than several looks at the socket take in, where the kernel has room for them: the system's limit
/// is lower for users without privileges.
#[tokio::test]
async fn answers_behind_many_unread_messages_end_their_calls() {
    let (near, far) = tasks(socket_pair());
    let news = |n: u32| far.get_ref().write(&[IoSlice::new(&n.to_ne_bytes())], vec![]);
    let count = (0..36_000).take_while(|n| news(*n).is_ok()).count();
    let answerer = tokio::spawn(async move {
        for n in 0..3 {
            let request = far.read().await.unwrap();
            send(&far, &[&request[..4], b"answer", &[n]].concat()).await.unwrap();
        }
        far
    });
    let (ask, mut handles) = ([IoSlice::new(b"\0\0\0\0what?")], vec![]);
    // The second one begins when the queue is full.
    for n in 0..3 {
        let answer = timeout(LONG, near.call(&ask, &mut handles)).await;
        let expected = [&b"answer"[..], &[n]].concat();
        assert_eq!(answer.unwrap().unwrap()[4..], expected, "behind {count} messages");
    }
    for n in 0..count as u32 {
        assert_eq!(*near.read().await.unwrap(), n.to_ne_bytes());
    }
    drop(answerer.await);
}

#[tokio::test]
async fn waits_continue_when_the_other_end_moves() {
    let bounds = Bounds::new().messages(2);
    let (near, far) = Channel::pair_with(bounds);
    let near = Arc::new(AsyncChannel::new(near));
    let spawn = |n: usize| {
        let near = near.clone();
        tokio::spawn(async move {
            match n {
                0 => near.read().await.map(|message| assert_eq!(&*message, b"reported")),
                1 => near.wait(Signals::USER_3).await.map(drop),
                2 => {
                    let answer = near.call(&[IoSlice::new(b"\0\0\0\0ask")], &mut vec![]).await;
                    answer.map(|answer| assert_eq!(&answer[4..], b"answer"))
                }
                _ => {
                    for n in 0..10 {
                        send(&near, &[n]).await?;
                    }
                    Ok(())
                }
            }
        })
    };
    let mut waiting = Vec::new();
    for n in 0..4 {
        waiting.push(spawn(n));
        // Lets it run until it waits.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    let far = moved(far);
    let question = far.read().unwrap();
    assert_eq!(&question[4..], b"ask");
    let far = AsyncChannel::new(far);
    for n in 0..10 {
        assert_eq!(&*timeout(LONG, far.read()).await.unwrap().unwrap(), [n]);
    }
    send(&far, b"reported").await.unwrap();
    send(&far, &[&question[..4], b"answer"].concat()).await.unwrap();
    far.get_ref().signal_peer(Signals::empty(), Signals::USER_3).unwrap();
    for task in waiting {
        timeout(LONG, task).await.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn signals_can_be_awaited() {
    for pair in TRANSPORTS {
        let (near, far) = tasks(pair());
        assert!(near.wait(Signals::WRITABLE).await.unwrap().contains(Signals::WRITABLE));
        let both = tokio::join!(near.wait(Signals::USER_1 | Signals::READABLE), async {
            tokio::task::yield_now().await;
            far.get_ref().signal_peer(Signals::empty(), Signals::USER_1).unwrap();
        });
        assert!(both.0.unwrap().contains(Signals::USER_1));
        let both = tokio::join!(near.wait(Signals::PEER_CLOSED), async {
            tokio::task::yield_now().await;
            drop(far);
        });
        assert!(both.0.unwrap().contains(Signals::PEER_CLOSED));
        assert_eq!(near.read().await.unwrap_err(), Status::PeerClosed);
    }
}

#[tokio::test]
async fn revoking_ends_waits_and_calls() {
    for pair in TRANSPORTS {
        let (near, _far) = pair();
        let near = Arc::new(AsyncChannel::new(near));
        let (reader, caller, waiter) = (near.clone(), near.clone(), near.clone());
        let reader = tokio::spawn(async move { reader.read().await.map(drop) });
        let caller = tokio::spawn(async move {
            caller.call(&[IoSlice::new(b"0000")], &mut vec![]).await.map(drop)
        });
        let waiter = tokio::spawn(async move { waiter.wait(Signals::USER_0).await.map(drop) });
        tokio::task::yield_now().await;
        near.get_ref().revoke();
        for task in [reader, caller, waiter] {
            assert_eq!(timeout(LONG, task).await.unwrap().unwrap(), Err(Status::Canceled));
        }
        assert_eq!(near.read().await.unwrap_err(), Status::BadHandle);
    }
}

#[test]
fn waiting_outside_a_runtime_or_without_the_right_is_refused() {
    let (near, far) = Channel::pair();
    let poor = far.replace(Some(Rights::IO)).unwrap();
    let (near, far) = tasks((near, poor));
    let refused = |status| Poll::Ready(Err(status));
    assert_eq!(poll_once(pin!(near.read())).map_ok(drop), refused(Status::BadState));
    // Operations that need not wait still work.
    assert_eq!(poll_once(pin!(send(&far, b"x"))), Poll::Ready(Ok(())));
    assert!(poll_once(pin!(near.read())).map_ok(drop).is_ready());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let status = runtime.block_on(far.read()).unwrap_err();
    assert_eq!(status, Status::AccessDenied);
}

/// Runs in the other process of the test below; not a test itself.
#[test]
fn answers_in_another_process() {
    if std::env::var_os("UNCOPY_TEST_ANSWER").is_none() {
        return;
    }
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let channel = Channel::from_fd(socket).unwrap();
    while channel
        .wait_one(Signals::READABLE, Deadline::INFINITE)
        .unwrap()
        .contains(Signals::READABLE)
    {
        let question = channel.read().unwrap();
        let (mut handles, body) = (vec![Event::new().into()], [&question[..], b"!"].concat());
        while channel.try_write(&[IoSlice::new(&body)], &mut handles) == Err(Status::ShouldWait) {
            channel.wait_one(Signals::WRITABLE, Deadline::INFINITE).unwrap();
        }
        if &question[4..] == b"last" {
            return;
        }
    }
}

#[tokio::test]
async fn an_async_channel_works_between_two_processes() {
    let (near, far) = Channel::pair();
    let near = AsyncChannel::new(near);
    // Queued before the move, and waited for while it happens.
    let (ask, mut handles) = ([IoSlice::new(b"\0\0\0\0first")], vec![]);
    let mut first = pin!(near.call(&ask, &mut handles));
    let mut polled = None;
    std::future::poll_fn(|cx| {
        polled = Some(first.as_mut().poll(cx).is_ready());
        Poll::Ready(())
    })
    .await;
    assert_eq!(polled, Some(false));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "channel_async::answers_in_another_process"])
        .env("UNCOPY_TEST_ANSWER", "1")
        .stdin(Stdio::from(far.into_fd().unwrap()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let answer = timeout(LONG, first).await.unwrap().unwrap();
    assert_eq!((&answer[4..], answer.handles().len()), (&b"first!"[..], 1));
    for n in 0..200u32 {
        let body = n.to_ne_bytes();
        let regions = [IoSlice::new(b"\0\0\0\0"), IoSlice::new(&body)];
        let answer = timeout(LONG, near.call(&regions, &mut vec![])).await.unwrap().unwrap();
        assert_eq!(answer[4..8], body);
    }
    near.call(&[IoSlice::new(b"\0\0\0\0last")], &mut vec![]).await.unwrap();
    assert_eq!(timeout(LONG, near.read()).await.unwrap().unwrap_err(), Status::PeerClosed);
    assert!(child.wait().unwrap().success());
}
