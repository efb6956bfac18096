//! Public types go to other threads, are shared among them, and outlive a panic, as far as is said here.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::*;

/// Of data: a panic in its middle leaves nothing half done.
fn data<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

/// Of objects, and of what holds errors or objects: nothing is promised after a panic.
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
    shared::<Sent>();
    shared::<RingEvent<Vec<u8>>>();
    shared::<NotTaken<Vec<u8>>>();
    shared::<Unfinished>();
    #[cfg(feature = "tokio")]
    shared::<AsyncSender<Vec<u8>>>();
    #[cfg(feature = "tokio")]
    shared::<Pending<Vec<u8>>>();
}
