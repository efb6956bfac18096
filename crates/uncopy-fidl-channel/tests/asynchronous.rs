//! Clients and servers in tasks.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::IoSlice;

use uncopy_channel::{AsyncChannel, Bounds, Channel, Object, Rights, Status};
use uncopy_fidl::Fidl;
use uncopy_fidl_channel::{Failure, Request, protocol, send_epitaph, serve_async};

#[derive(Debug, PartialEq, Fidl)]
struct Words {
    words: Vec<String>,
}

#[protocol(library = "test.uncopy", closed, tokio)]
trait Joiner {
    fn join(words: Words) -> Words;
    fn drop_all(words: Words);
    #[fidl(event)]
    fn on_joined(words: Words);
}

struct Server;

impl JoinerServer for Server {
    fn join(&self, request: Request<'_, Words>) -> Words {
        Words { words: vec![request.view.words.iter().collect()] }
    }

    fn drop_all(&self, _: Request<'_, Words>) {}
}

fn words(count: usize) -> Words {
    Words { words: (0..count).map(|n| format!("{n},")).collect() }
}

#[tokio::test]
async fn tasks_call_and_serve() {
    let (near, far) = Channel::pair();
    JoinerEventSender(&far).on_joined(words(2)).unwrap();
    let far = AsyncChannel::new(far);
    let server = tokio::spawn(async move { serve_async(&far, &JoinerService(Server)).await });
    let client = AsyncJoinerClient::new(AsyncChannel::new(near));
    let JoinerEvent::OnJoined(event) = client.next_event().await.unwrap();
    assert_eq!(event.to_owned_value().unwrap(), words(2));
    for count in [0, 1, 1000] {
        client.drop_all(&words(count)).await.unwrap();
        let answer = client.join(words(count)).await.unwrap();
        let joined: Vec<&str> = answer.view().unwrap().words.iter().collect();
        assert_eq!(joined, [words(count).words.concat()]);
    }
    drop(client);
    server.await.unwrap().unwrap();
}

/// An answer that finds room is written from where the value lies, and another one waits.
#[tokio::test]
async fn answers_wait_for_room() {
    let (near, far) = Channel::pair();
    let (client, far) = (AsyncJoinerClient::new(AsyncChannel::new(near)), AsyncChannel::new(far));
    // A request as it is sent; nobody waits for its answers.
    let request = tokio::select! {
        biased;
        _ = client.join(words(1000)) => panic!("nobody has answered"),
        request = far.read() => request.unwrap(),
    };
    let (near, far) = Channel::pair_with(Bounds::new().messages(1));
    let (near, far) = (AsyncChannel::new(near), AsyncChannel::new(far));
    let server = tokio::spawn(async move { serve_async(&far, &JoinerService(Server)).await });
    for _ in 0..3 {
        near.write(&[IoSlice::new(&request)], &mut vec![]).await.unwrap();
    }
    let first = near.read().await.unwrap();
    assert!(first.len() > words(1000).words.concat().len());
    for _ in 0..2 {
        assert_eq!(*near.read().await.unwrap(), *first);
    }
    drop(near);
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_the_channel_refuses_ends_the_conversation() {
    let (near, far) = Channel::pair();
    let deaf = AsyncChannel::new(far.replace(Some(Rights::WRITE)).unwrap());
    let ended = serve_async(&deaf, &JoinerService(Server)).await;
    assert_eq!(ended, Err(Failure::Channel(Status::AccessDenied)));
    drop(deaf);
    let client = AsyncJoinerClient::new(AsyncChannel::new(near));
    assert_eq!(client.channel().read().await.unwrap_err(), Status::PeerClosed);
    let refused = client.join(words(1)).await.unwrap_err();
    assert_eq!(refused, Failure::Channel(Status::PeerClosed));
}

#[tokio::test]
async fn tasks_hear_last_words_and_no_late_answers() {
    let (near, far) = Channel::pair();
    let client = AsyncJoinerClient::new(AsyncChannel::new(near));
    let call = async |far: &Channel| {
        tokio::select! {
            biased;
            _ = client.join(words(1)) => panic!("nobody has answered"),
            () = std::future::ready(()) => far.read().unwrap(),
        }
    };
    let request = call(&far).await;
    far.write(&[IoSlice::new(&request)], vec![]).unwrap();
    JoinerEventSender(&far).on_joined(words(2)).unwrap();
    let JoinerEvent::OnJoined(event) = client.next_event().await.unwrap();
    assert_eq!(event.to_owned_value().unwrap(), words(2));
    send_epitaph(&far, -30).unwrap();
    drop(far);
    assert_eq!(client.join(words(1)).await.unwrap_err(), Failure::Epitaph(-30));
    assert_eq!(client.drop_all(words(1)).await.unwrap_err(), Failure::Epitaph(-30));
    assert_eq!(client.next_event().await.unwrap_err(), Failure::Epitaph(-30));
}
