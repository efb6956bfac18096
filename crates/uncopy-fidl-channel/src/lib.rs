//! Typed FIDL clients and servers over `uncopy`'s channels.
//!
//! ```
//! use uncopy::channel::{Channel, Deadline};
//! use uncopy_fidl::Fidl;
//! use uncopy_fidl_channel::{MethodResult, Request, protocol, serve};
//!
//! #[derive(Debug, Fidl)]
//! pub struct Text {
//!     #[fidl(max = 1000)]
//!     text: String,
//! }
//!
//! #[protocol(library = "example", open)]
//! pub trait Echo {
//!     /// Strict: a server must know it.
//!     fn echo(text: Text) -> Text;
//!     /// A server may not know it.
//!     #[fidl(flexible)]
//!     fn count(text: Text) -> Result<Count, u32>;
//! }
//!
//! #[derive(Debug, Fidl)]
//! pub struct Count {
//!     bytes: u32,
//! }
//!
//! struct Server;
//!
//! impl EchoServer for Server {
//!     fn echo(&self, request: Request<'_, Text>) -> Text {
//!         Text { text: request.view.text.to_uppercase() }
//!     }
//!
//!     fn count(&self, request: Request<'_, Text>) -> Result<Count, u32> {
//!         Ok(Count { bytes: request.view.text.len() as u32 })
//!     }
//! }
//!
//! let (near, far) = Channel::pair();
//! let server = std::thread::spawn(move || serve(&far, &EchoService(Server)));
//! let client = EchoClient::new(near);
//! let answer = client.echo(Text { text: "hello".into() }, Deadline::INFINITE)?;
//! assert_eq!(answer.view()?.text, "HELLO");
//! let answer = client.count(Text { text: "hello".into() }, Deadline::INFINITE)?;
//! assert!(matches!(answer.view()?, MethodResult::Success(CountView { bytes: 5, .. })));
//! drop(client);
//! server.join().unwrap()?;
//! # Ok::<(), uncopy_fidl_channel::Failure>(())
//! ```
//!
//! Messages are written from the value's own memory: large bodies are not copied into a buffer
//! first ([`Encoder::gather_message`](uncopy_fidl::Encoder::gather_message)). Received messages are
//! read where the channel keeps them: requests are views, answers are a [`Received`] that owns the
//! message.
//!
//! # Unknown messages
//! A message whose ordinal is not in the protocol is ignored, answered with
//! [`UNKNOWN_METHOD`](uncopy_fidl::UNKNOWN_METHOD), or ends the conversation, depending on its flag
//! and the protocol's [`Openness`]:
//!
//! | | `open` | `ajar` | `closed` |
//! |---|---|---|---|
//! | flexible, without answer; event | ignored | ignored | ends |
//! | flexible, with an answer | answered | ends | ends |
//! | strict | ends | ends | ends |
//!
//! [`Received`]: uncopy_fidl::Received
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
#![cfg(target_os = "linux")]

#[cfg(feature = "tokio")]
mod asynchronous;
mod client;
mod failure;
mod handle;
mod memory;
mod server;
mod transmit;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncClient, serve_async};
pub use client::{Client, EventMessage, Response};
pub use failure::Failure;
pub use handle::FidlHandle;
pub use memory::{BufferBytes, MemoryBuffer, MemoryBufferView};
pub use server::{Interaction, Openness, Request, Service, send_epitaph, send_event, serve};
pub use transmit::SendAs;
pub use uncopy_fidl::{Empty, MethodResult, NoPayload};
pub use uncopy_fidl_derive::protocol;

/// Tests of the code in book pages about channels and messages.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/fidl.md")]
    struct Fidl;

    #[doc = include_str!("../../../docs/gather.md")]
    struct Gather;

    #[doc = include_str!("../../../docs/gather-encoder.md")]
    struct GatherEncoder;

    #[doc = include_str!("../../../docs/ownership.md")]
    struct Ownership;

    #[doc = include_str!("../../../docs/tour/fidl.md")]
    struct Tour;
}

/// Support for the code of `#[protocol]`.
#[doc(hidden)]
pub mod derived {
    pub use std::convert::Infallible;

    #[cfg(feature = "tokio")]
    pub use uncopy_channel::AsyncChannel;
    pub use uncopy_channel::{Channel, Deadline};
    pub use uncopy_fidl::{ClientEnd, Header};
}
