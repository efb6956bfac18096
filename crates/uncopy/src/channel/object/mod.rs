//! Objects other than channels and ports.

mod descriptor;
mod event;
mod fifo;
mod interprocess;
mod socket;
mod solo;
mod vmo;

pub use descriptor::Descriptor;
pub use event::{Event, EventPair};
pub use fifo::Fifo;
pub use socket::{Socket, SocketInfo, SocketKind};
pub use vmo::Vmo;
