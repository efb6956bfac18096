//! The same for tasks.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use uncopy::channel::{AsyncChannel, Channel};
use uncopy_fidl::Fidl;
use uncopy_fidl_channel::{Request, protocol, serve_async};

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
