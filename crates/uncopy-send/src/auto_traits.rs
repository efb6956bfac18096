//! Tests which public types are `Send`, `Sync` and unwind safe.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::*;

/// Requires a type of data, which a panic cannot leave inconsistent.
fn data<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

/// Requires a type that can be shared; makes no promise after a panic.
fn shared<T: Send + Sync>() {}

#[test]
fn public_types_keep_their_auto_traits() {
    data::<InetSocket>();
    data::<Transport>();
    data::<PageSize>();
    data::<Pages>();
    data::<Payload<Vec<u8>>>();
    data::<Pool>();
    data::<PoolSlice>();
    data::<Lending>();
    data::<Counters>();
    data::<Fallback>();
    data::<FallbackReason>();
    data::<Notification<Release<Vec<u8>>>>();
    data::<SenderOptions>();
    data::<Mode>();
    data::<Fate>();
    data::<Release<Vec<u8>>>();
    data::<SendId>();
    data::<IntoReleases<Release<Vec<u8>>>>();
    data::<Releases<Release<Vec<u8>>>>();
    data::<Message<Vec<u8>>>();
    data::<RegisteredPools>();
    data::<RingOptions>();
    data::<RingSocket>();
    data::<Outstanding>();
    data::<Sender<Vec<u8>>>();
    shared::<SharedSender<Vec<u8>>>();
    shared::<Sent>();
    shared::<RingEvent<Vec<u8>>>();
    shared::<NotTaken<Vec<u8>>>();
    shared::<Unfinished>();
    #[cfg(feature = "tokio")]
    shared::<AsyncSender<Vec<u8>>>();
    #[cfg(feature = "tokio")]
    shared::<Pending<Vec<u8>>>();
}
