//! Tests that public types keep their auto traits.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::*;

/// Requires the traits of data, which a panic cannot leave half changed.
fn data<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

/// Requires the traits of objects and of types that contain them; nothing is promised after a panic.
fn shared<T: Send + Sync>() {}

#[test]
fn public_types_keep_their_auto_traits() {
    data::<TooLong>();
    data::<BatchError>();
    data::<BatchRegion<'_>>();
    data::<BatchShape>();
    data::<Lengths>();
    data::<Oversized>();
    data::<SignalFd>();
    data::<Kind>();
    data::<Koid>();
    data::<Part>();
    data::<Descriptor>();
    data::<Event>();
    data::<EventPair>();
    data::<SocketInfo>();
    data::<SocketKind>();
    data::<Vmo>();
    data::<SealedBytes>();
    data::<Filled>();
    data::<PayloadOptions>();
    data::<PayloadReceipt>();
    shared::<Payload>();
    shared::<PayloadChannel>();
    shared::<Draft>();
    data::<FillMechanism>();
    data::<MemoryRefusal>();
    data::<AsyncOptions>();
    data::<Packet>();
    data::<PacketContents>();
    data::<Port>();
    data::<Rights>();
    data::<Signals>();
    data::<Status>();
    data::<Bounds>();
    data::<Deadline>();
    shared::<Filling<'_>>();
    shared::<Disposition<'_>>();
    shared::<Transfer<'_>>();
    shared::<Channel>();
    shared::<Handle>();
    shared::<MessageBuf>();
    shared::<Fifo>();
    shared::<Socket>();
    #[cfg(feature = "tokio")]
    shared::<AsyncChannel>();
}
