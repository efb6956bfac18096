//! Public types go to other threads, are shared among them, and outlive a panic, as far as is said here.

use std::panic::{RefUnwindSafe, UnwindSafe};

use uncopy_fidl_channel::*;

/// Of data: a panic in its middle leaves nothing half done.
fn data<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

/// Of objects, and of what holds errors or objects: nothing is promised after a panic.
fn shared<T: Send + Sync>() {}

#[test]
fn public_types_keep_their_auto_traits() {
    data::<Failure>();
    data::<Openness>();
    shared::<Client<()>>();
    shared::<EventMessage>();
    shared::<FidlHandle>();
    shared::<Interaction<'_>>();
    shared::<Request<'_, u32>>();
    shared::<Response<u32>>();
    #[cfg(feature = "tokio")]
    shared::<AsyncClient<()>>();
}
