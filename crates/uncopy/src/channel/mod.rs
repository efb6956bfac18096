//! Channels in the manner of Zircon: messages of bytes and handles, sent from many regions without
//! making one buffer of them first.
//!
//! ```
//! use std::io::IoSlice;
//! use uncopy::channel::{Channel, Deadline, Event, Object, Signals};
//!
//! let (near, far) = Channel::pair();
//! let regions = [IoSlice::new(b"head"), IoSlice::new(b"body")];
//! near.write(&regions, vec![Event::new().into()])?;
//!
//! far.wait_one(Signals::READABLE, Deadline::INFINITE)?;
//! let mut message = far.read()?;
//! assert_eq!(&*message, b"headbody");
//! let event = Event::try_from(message.take_handles().remove(0)).unwrap();
//! # drop(event);
//! # Ok::<(), uncopy::channel::Status>(())
//! ```
//!
//! # Semantics
//! Those of `zx_channel_write`, `_read`, `_call` and their company, as Zircon's documentation and
//! kernel have them, with two deviations. A queue is bounded ([`Bounds`]): a full one answers
//! [`Status::ShouldWait`] and clears [`Signals::WRITABLE`] at the end that writes to it. And
//! endpoints that lie in each other's queues, where nobody can reach them, are freed when nobody
//! could notice any more.
//!
//! # Where a message goes
//! A write checks the right and the sizes, takes a buffer from the calling thread's pool and has it
//! filled straight from the regions, all without a lock. Then come the handles; then, under the one
//! lock of the pair, the message is put into the peer's queue, or given to the call it answers, and
//! the signals change. A read takes it out under the same lock and lends it ([`MessageBuf`]), or
//! copies it out after the lock. Signals are an atomic number beside the lock, so that waiting for
//! one that is set costs one load.
//!
//! # The seam to other transports
//! An end is a state under the pair's lock (`endpoint::ChannelEnd`), and where its messages go is
//! an enum in it (`endpoint::Transport`). [`Channel`] names the pair and the side, never the
//! transport, so that it can be swapped under the lock while others hold and use the endpoint:
//!
//! - `deliver` and `take` are the two functions that look at the transport. Everything above them
//!   (filling, handles, calls, batches, signals) does not.
//! - Signals of a local end change in `deliver`, `take` and `close`, under the lock. An end that is
//!   backed by a socket knows what it has received and not handed out; for the rest it asks the
//!   socket where `wait` today goes to sleep.
//! - Whoever waits is on the end's list of observers, bound to the handle and not to the transport:
//!   a thread, a port, a descriptor, each with a place of its own. A swap can wake a thread to look
//!   again and leave the others where they are. Calls wait in the end's own list, by transaction
//!   id, which a swap does not touch.
//! - A queue gives up its backlog as a whole (`Queue::take`), for the swap to carry over.
//!
//! # Threads
//! Everything is `Send` and `Sync`. Each pair has one lock, held for the exchange of a message and
//! never while bytes are copied; an object's lock may be held while a port's is taken, never two
//! objects'. Nothing on the way of a message is shared by all threads.
//!
//! # Fork
//! Objects belong to the process that made them. In a child made by `fork(2)` without `exec`,
//! every operation on an inherited object answers [`Status::BadState`] and dropping it does
//! nothing, because another thread may have been changing it at that moment; its memory stays
//! until the child ends. Objects that the child makes are its own.
//!
//! # Unwinding
//! The program's own code (the `fill` of [`Channel::write_with`]) runs under no lock: if it
//! panics, the buffer goes back to the pool, handles given by value are closed, those in a
//! borrowed vector stay there, and both ends are as before.

mod batch;
mod call;
mod cycle;
mod disposition;
mod endpoint;
mod eventfd;
mod handle;
mod message;
mod object;
mod peer;
mod port;
mod rights;
mod signals;
mod status;
mod sync;
mod transport;
mod wait;

pub use crate::buf::{Filling, TooLong};
pub use batch::{BatchError, BatchRegion, BatchShape};
pub use disposition::{Disposition, Transfer};
pub use endpoint::{Channel, Lengths, Oversized};
pub use eventfd::SignalFd;
pub use handle::{Handle, Kind, Koid, Object};
pub use message::{MessageBuf, Part};
pub use object::{Descriptor, Event, EventPair, Fifo, Socket, SocketKind, Vmo};
pub use port::{AsyncOptions, Packet, PacketContents, Port};
pub use rights::Rights;
pub use signals::Signals;
pub use status::{Fill, Status};
pub use transport::local::Bounds;
pub use wait::{Deadline, WaitItem, wait_many};

/// Most bytes of one message (`ZX_CHANNEL_MAX_MSG_BYTES`).
pub const MAX_BYTES: usize = 65_536;
/// Most handles of one message (`ZX_CHANNEL_MAX_MSG_HANDLES`).
pub const MAX_HANDLES: usize = 64;
/// Most regions of one write (`ZX_CHANNEL_MAX_MSG_IOVECS`).
pub const MAX_REGIONS: usize = 8192;
/// Most items of [`wait_many`] (`ZX_WAIT_MANY_MAX_ITEMS`).
pub const MAX_WAIT_ITEMS: usize = 64;
