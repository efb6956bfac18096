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
//! could notice any more. Between processes there are a few more; `docs/channel.md` lists all.
//!
//! # Where a message goes
//! A write checks the right and the sizes, takes a buffer from the calling thread's pool and has it
//! filled straight from the regions, all without a lock. Then come the handles; then, under the one
//! lock of the pair, the message is put into the peer's queue, or given to the call it answers, and
//! the signals change. (To another process it goes as below.) A read takes it out under the same
//! lock and lends it ([`MessageBuf`]), or copies it out after the lock. Signals are an atomic
//! number beside the lock, so that waiting for one that is set costs one load.
//!
//! # Where the other end is
//! A [`Channel`] names the pair and the side, never the transport; so that the other end can move
//! to another process while threads hold and use this one. Per pair, each half has signals,
//! observers and, if the other end is elsewhere, a *wire*: a socket (`AF_UNIX`,
//! `SOCK_SEQPACKET`).
//!
//! - **Moving** ([`Channel::into_fd`], or an endpoint in a message over a wire) makes a pair of
//!   sockets under the pair's lock. What is queued at the end that goes is put into sockets that go
//!   with it, handles in it included, to be read first; the half that stays gets the wire. If a
//!   step fails, the end that was to go is closed and nothing else has changed. Fifos, sockets and
//!   event pairs move in the same way, events and event pairs by shared memory and an eventfd.
//! - **Writing** over a wire sends header, regions and a record for each handle as one packet;
//!   regions below 4 KiB are put together first, larger ones are sent from where they lie.
//! - **Reading** looks into the queue first, which holds what has been taken out of the socket.
//!   Taking in hands answers to calls, changes user signals, and queues messages, until there is
//!   one, or no room. What a peer sends is checked before it is believed; the first packet that
//!   breaks a rule ends the connection.
//! - **Signals** of a wired end lag behind until somebody looks. A wait looks once before it
//!   returns, also if a signal is set already, and takes in all that has come: signals lie behind
//!   messages. If none is set, and looking has been of no use lately, it goes to sleep without a
//!   look, in `poll(2)`. A port has such objects in an epoll set; it looks there when it has no
//!   packet, and after every 15. Whoever waits is on the end's list of observers, bound to the handle and not to the
//!   transport, and is told to look again when a wire comes; so are calls.
//!
//! # Other processes
//! [`spawn`] starts a program with an end, which takes it with [`Channel::inherited`]; every other
//! end, and every object but a port, goes there in a message. A peer in another process is not
//! trusted: what it sends is looked at before it is used, a packet that breaks a rule ends the
//! channel (what came before it is still read), and it can neither fill this process's memory nor
//! its table of descriptors beyond a bound for each channel. Three things it can do. It can keep a
//! duplicate of an end that it gave away, and so read what is meant for the new owner. Its rights
//! bind it only if it wants. And answers to calls come through the same socket as messages: while
//! the queue of an end is full, they wait until somebody reads from it.
//!
//! # Threads
//! Everything is `Send` and `Sync`. Each pair has one lock, held for the exchange of a message and
//! never while bytes are copied from or to the program; an object's lock may be held while a port's
//! is taken, never two objects' (one that has just arrived, which nobody else has, does not count).
//! Taking in from a socket holds it, and does not wait. Nothing on the way of a message is shared
//! by all threads.
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

#![cfg(target_os = "linux")]
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(feature = "tokio")]
mod asynchronous;
#[cfg(test)]
mod auto_traits;
mod batch;
mod channel;
mod disposition;
mod eventfd;
mod identity;
mod memory;
mod object;
mod observers;
mod packets;
mod peer;
mod process;
mod rights;
mod signals;
mod sleep;
mod source;
mod status;
mod sync;
mod transport;
mod wait;

pub use crate::memory::{Filling, TooLong};
#[cfg(feature = "tokio")]
pub use asynchronous::AsyncChannel;
pub use batch::{BatchError, BatchRegion, BatchShape};
pub use channel::{Bounds, Channel, Handle, Lengths, MessageBuf, Oversized, Part};
pub use disposition::{Disposition, Transfer};
pub use identity::{Kind, Koid};
pub use object::{
    Descriptor, Event, EventPair, Fifo, Object, Port, SignalFd, Socket, SocketInfo, SocketKind, Vmo,
};
pub use packets::{AsyncOptions, Packet, PacketContents};
pub use process::{FD_VARIABLE, spawn};
pub use rights::Rights;
pub use signals::Signals;
pub use sleep::Deadline;
pub use status::{Fill, Status};
pub use wait::{WaitItem, wait_many};

#[doc(inline)]
pub use uncopy_core::message::{MAX_BYTES, MAX_HANDLES};
/// Most regions of one write (`ZX_CHANNEL_MAX_MSG_IOVECS`).
pub const MAX_REGIONS: usize = 8192;
/// Most items of [`wait_many`] (`ZX_WAIT_MANY_MAX_ITEMS`).
pub const MAX_WAIT_ITEMS: usize = 64;

#[cfg(test)]
mod tests {
    use testbed::in_a_child;

    use super::{Channel, Deadline, Event, Object, Port, Signals, Status};

    #[test]
    fn inherited_objects_refuse_and_own_ones_work() {
        let (near, far) = Channel::pair();
        let (event, port) = (Event::new(), Port::new());
        let now = Deadline::after(std::time::Duration::ZERO);
        assert!(in_a_child(|| {
            let signaled = event.signal(Signals::empty(), Signals::SIGNALED);
            let refused = near.read().is_err_and(|s| s == Status::BadState)
                && near.write(&[], Vec::new()) == Err(Status::BadState)
                && far.wait_one(Signals::READABLE, now) == Err(Status::BadState)
                && signaled == Err(Status::BadState)
                && port.wait(now).is_err_and(|s| s == Status::BadState);
            drop((near, far, event, port));
            let (near, far) = Channel::pair();
            refused && near.write(&[], Vec::new()).is_ok() && far.read().is_ok()
        }));
    }
}
