//! Futures that are dropped wherever they can wait.

use std::io::IoSlice;
use std::pin::pin;
use std::task::Poll;

use tokio::time::timeout;
use uncopy::channel::{AsyncChannel, Bounds, Channel, Event, Handle, Kind, Object, Status};

use crate::channel_async::{LONG, TRANSPORTS, moved, poll_once, send, tasks};

fn event() -> Vec<Handle> {
    vec![Event::new().into()]
}

#[tokio::test]
async fn a_dropped_read_takes_no_message() {
    for pair in TRANSPORTS {
        let (near, far) = tasks(pair());
        for polls in 0..4 {
            let mut body = [0; 8];
            let mut slots = [None];
            {
                let mut read = pin!(far.read());
                let mut read_into = pin!(far.read_into(&mut body, &mut slots));
                for _ in 0..polls {
                    assert!(poll_once(read.as_mut()).is_pending());
                    assert!(poll_once(read_into.as_mut()).is_pending());
                }
                near.write(&[IoSlice::new(b"message")], &mut event()).await.unwrap();
                // The runtime is woken, and the futures are not polled again.
                tokio::task::yield_now().await;
            }
            let message = timeout(LONG, far.read()).await.unwrap().unwrap();
            assert_eq!((&*message, message.handles().len()), (&b"message"[..], 1));
            assert_eq!(far.get_ref().read().unwrap_err(), Status::ShouldWait);
        }
    }
}

/// Writes until a write has to wait.
async fn fill(near: &AsyncChannel) -> usize {
    let body = vec![0; 60_000];
    let mut count = 0;
    while poll_once(pin!(send(near, &body))).is_ready() {
        count += 1;
        // Otherwise the runtime's budget would stop it.
        tokio::task::yield_now().await;
    }
    count
}

#[tokio::test]
async fn a_dropped_write_sends_nothing_and_keeps_the_handles() {
    for pair in TRANSPORTS {
        let (near, far) = tasks(pair());
        let queued = fill(&near).await;
        for polls in 0..4 {
            let (mut handles, mut asked) = (event(), event());
            let (late, question) = ([IoSlice::new(b"late")], [IoSlice::new(b"0000")]);
            {
                let mut write = pin!(near.write(&late, &mut handles));
                let mut call = pin!(near.call(&question, &mut asked));
                for _ in 0..polls {
                    assert!(poll_once(write.as_mut()).is_pending());
                    assert!(poll_once(call.as_mut()).is_pending());
                }
            }
            assert_eq!((handles.len(), asked.len()), (1, 1), "after {polls} polls");
            assert_eq!((handles[0].kind(), asked[0].kind()), (Kind::Event, Kind::Event));
        }
        let mut handles = event();
        let late = [IoSlice::new(b"late")];
        {
            let mut write = pin!(near.write(&late, &mut handles));
            assert!(poll_once(write.as_mut()).is_pending());
            for _ in 0..queued {
                assert_eq!(timeout(LONG, far.read()).await.unwrap().unwrap().len(), 60_000);
            }
            assert_eq!(timeout(LONG, write).await.unwrap(), Ok(()));
        }
        assert!(handles.is_empty());
        let message = far.read().await.unwrap();
        assert_eq!((&*message, message.handles().len()), (&b"late"[..], 1));
        assert_eq!(far.get_ref().read().unwrap_err(), Status::ShouldWait);
    }
}

/// The answer is in flight, has arrived, or was already seen by the dropped call.
#[tokio::test]
async fn the_answer_to_a_dropped_call_is_queued_like_any_message() {
    for pair in TRANSPORTS {
        for polls in 1..4 {
            for looks in [false, true] {
                let (near, far) = tasks(pair());
                let question = {
                    let (ask, mut handles) = ([IoSlice::new(b"0000ask")], event());
                    let mut call = pin!(near.call(&ask, &mut handles));
                    for _ in 0..polls {
                        assert!(poll_once(call.as_mut()).is_pending());
                    }
                    let mut question = far.read().await.unwrap();
                    assert_eq!(question.take_handles().len(), 1);
                    far.write(&[IoSlice::new(&question)], &mut event()).await.unwrap();
                    if looks {
                        // It has arrived, and lies with the call.
                        near.get_ref().signals();
                    }
                    question
                };
                let late = timeout(LONG, near.read()).await.unwrap().unwrap();
                assert_eq!((&*late, late.handles().len()), (&*question, 1));
                assert_eq!(near.get_ref().read().unwrap_err(), Status::ShouldWait);
            }
        }
    }
}

/// With a bound of one message the answer to a dropped call fills the queue, and reading it empties
/// the queue.
#[tokio::test]
async fn the_answer_to_a_dropped_call_counts_in_the_queue() {
    let bounds = Bounds::new().messages(1);
    let (near, far) = tasks(Channel::pair_with(bounds));
    {
        let (ask, mut handles) = ([IoSlice::new(b"0000")], vec![]);
        let mut call = pin!(near.call(&ask, &mut handles));
        assert!(poll_once(call.as_mut()).is_pending());
        let question = far.read().await.unwrap();
        send(&far, &question).await.unwrap();
        assert!(poll_once(pin!(send(&far, b"one"))).is_ready(), "there is room beside the answer");
    }
    let far = AsyncChannel::new(moved(far.into_inner()));
    assert_eq!(&*near.read().await.unwrap(), b"one");
    assert_eq!(near.read().await.unwrap().len(), 4);
    send(&far, b"two").await.unwrap();
    assert_eq!(&*timeout(LONG, near.read()).await.unwrap().unwrap(), b"two");
}

/// Timeouts of zero and longer, while messages come from another thread and the other end moves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_timeouts_lose_no_message() {
    const MESSAGES: u32 = 3000;
    let (near, far) = tasks(Channel::pair());
    let writer = tokio::spawn(async move {
        let mut near = near;
        for n in 0..MESSAGES {
            if n == MESSAGES / 2 {
                near = AsyncChannel::new(moved(near.into_inner()));
            }
            let mut handles = event();
            while !handles.is_empty() {
                let body = n.to_ne_bytes();
                let regions = [IoSlice::new(&body)];
                let write = near.write(&regions, &mut handles);
                if let Ok(sent) = timeout(std::time::Duration::from_nanos(n.into()), write).await {
                    sent.unwrap();
                }
            }
            if n % 64 == 0 {
                tokio::task::yield_now().await;
            }
        }
        near
    });
    let mut next = 0u32;
    let mut timeouts = 0;
    while next < MESSAGES {
        let patience = std::time::Duration::from_nanos((next % 3 * 1000).into());
        match timeout(patience, far.read()).await {
            Ok(message) => {
                let message = message.unwrap();
                assert_eq!((&*message, message.handles().len()), (&next.to_ne_bytes()[..], 1));
                next += 1;
            }
            Err(_) => timeouts += 1,
        }
    }
    drop(writer.await.unwrap());
    assert!(matches!(poll_once(pin!(far.read())), Poll::Pending | Poll::Ready(Err(_))));
    assert_eq!(timeout(LONG, far.read()).await.unwrap().unwrap_err(), Status::PeerClosed);
    // Their number depends on the machine.
    println!("{timeouts} reads timed out");
}
