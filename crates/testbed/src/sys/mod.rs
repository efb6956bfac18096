//! Code that needs `unsafe`.
#![allow(unsafe_code)]

mod allocator;
mod completions;
mod floor;
mod fork;
pub(crate) mod launch;
mod lender;
pub(crate) mod locked;
mod mapped;
pub(crate) mod namespace;
pub(crate) mod reports;
pub(crate) mod seccomp;
mod secret;
pub(crate) mod signals;
pub(crate) mod silent;
pub(crate) mod tap;
mod trust;
pub(crate) mod tun;
pub(crate) mod xdp;

pub use allocator::CountingAllocator;
pub use completions::{Completions, bind_to_device, set_number, zerocopy_sends};
pub use floor::{BareRing, BareSend, BareSender, cut_sends};
pub use fork::in_a_child;
pub use lender::{Lender, LenderOptions, Lent};
pub use mapped::{MappedWriter, Stores, is_of_one_moment};
pub use secret::secret_memory;
pub use trust::trusted_peer;
