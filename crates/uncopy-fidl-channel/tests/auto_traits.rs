//! Public types are `Send`, `Sync` and unwind-safe as far as listed here.

use std::panic::{RefUnwindSafe, UnwindSafe};

use uncopy_fidl_channel::*;

/// Checks a data type, which stays consistent after a panic.
fn data<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

/// Checks a type that contains objects or errors: nothing is promised after a panic.
fn shared<T: Send + Sync>() {}

#[test]
fn public_types_keep_their_auto_traits() {
    data::<BufferBytes>();
    data::<Failure>();
    data::<Openness>();
    shared::<Client<()>>();
    shared::<EventMessage>();
    shared::<FidlHandle>();
    shared::<Interaction<'_>>();
    shared::<MemoryBuffer>();
    shared::<Request<'_, u32>>();
    shared::<Response<u32>>();
    #[cfg(feature = "tokio")]
    shared::<AsyncClient<()>>();
}
