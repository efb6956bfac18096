//! Public types are `Send`, `Sync` and unwind-safe as far as listed here.

use std::panic::{RefUnwindSafe, UnwindSafe};

use uncopy_fidl::*;

/// Checks a data type, which stays consistent after a panic.
fn data<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

#[test]
fn public_types_keep_their_auto_traits() {
    data::<Received<u32, Vec<u8>, NoHandle>>();
    data::<Dump<'_>>();
    data::<Encoder>();
    data::<ClientEnd<(), NoHandle>>();
    data::<ServerEnd<(), NoHandle>>();
    data::<Error>();
    data::<Rule>();
    data::<Departing<NoHandle>>();
    data::<HandleIndex>();
    data::<Handles<NoHandle>>();
    data::<NoHandle>();
    data::<ObjectType>();
    data::<OwnedHandle<NoHandle>>();
    data::<HandleRights>();
    data::<Header>();
    data::<Boxed<'_, u32>>();
    data::<Items<'_, u32>>();
    data::<ItemsIter<'_, u32>>();
    data::<HandleConstraint>();
    data::<GatherOptions>();
    data::<RegionList<'_>>();
    data::<Regions<'_>>();
    data::<Empty>();
    data::<EmptyView>();
    data::<NoPayload>();
    data::<MethodResult<u32, u32, true>>();
    data::<Plain<'_, u32>>();
    data::<Unknown>();
    data::<UnknownView<'_>>();
}
