//! Channels as in Zircon: messages of bytes and handles, gathered from many regions.
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
//! The semantics are those of `zx_channel_write`, `zx_channel_read`, `zx_channel_call` and related
//! calls, as in Zircon's documentation and kernel, with two deviations. A queue is bounded
//! ([`Bounds`]): writing to a full one returns [`Status::ShouldWait`], and
//! [`Signals::WRITABLE`] is cleared at the end that writes to it. And endpoints that lie in each
//! other's queues, where no program can reach them, are freed once no program could notice. There
//! are a few more deviations between processes; `docs/channel.md` lists all.
//!
//! # Path of a message
//! A write checks the right and the sizes, takes a buffer from the calling thread's pool and fills
//! it from the regions, all without a lock. Then it checks the handles. Then it takes the one lock
//! of the pair, looks up where the other end is, puts the message into the peer's queue or gives
//! it to the call it answers, and updates the signals. (If the other end is in another process, see
//! below; the checks are the same.) A read removes the message under the same lock and lends it
//! ([`MessageBuf`]), or copies it out after releasing the lock. Signals are an atomic number beside
//! the lock, so that waiting for one that is set costs one load.
//!
//! # Where the other end is
//! A [`Channel`] names the pair and the side, never the transport, so that the other end can move
//! to another process while threads hold and use this one. Each half of a pair has signals,
//! observers and, if the other end is in another process, a *wire*: a socket (`AF_UNIX`,
//! `SOCK_SEQPACKET`).
//!
//! - **Moving** ([`Channel::into_fd`], or an endpoint in a message over a wire) makes a pair of
//!   sockets under the pair's lock. Messages queued at the moving end are put into sockets that
//!   move with it, with their handles, and are read first; the other half gets the wire. If a step
//!   fails, the moving end is closed and nothing else has changed. Fifos and sockets move in the
//!   same way; events and event pairs move as shared memory and an eventfd.
//! - **Writing** over a wire sends header, regions and a record for each handle as one packet.
//!   Regions below 4 KiB are copied together first; larger ones are sent from where they lie.
//! - **Reading** takes from the queue first, which holds what was received from the socket.
//!   Receiving gives answers to calls, changes user signals, and queues messages, until there is a
//!   message, or no room. Every packet is checked before it is used; the first packet that breaks
//!   a rule ends the connection.
//! - **Signals** of a wired end are brought up to date by a look at its socket. A wait looks once
//!   before it returns, even if a signal is already set, and receives everything that has arrived,
//!   because changes of signals come behind messages. If no signal is set, and the last looks found
//!   nothing, it sleeps in `poll(2)` without a look. A port has such objects in an epoll set, and
//!   looks there when it has no packet, and after every 15 packets. Waiting threads are on the
//!   end's list of observers, bound to the handle and not to the transport; when the end gets a
//!   wire, they and the waiting calls are woken to wait for the socket too.
//!
//! # Other processes
//! [`spawn`] starts a program with an end, which the program takes with [`Channel::inherited`];
//! every other end, and every object except a port, is sent in a message. A peer in another process
//! is not trusted: every packet is checked before it is used, a packet that breaks a rule ends the
//! channel (what came before it is still read), and the peer cannot fill this process's memory or
//! descriptor table beyond a bound for each channel. Three limits remain. The peer can keep a
//! duplicate of an end that it gave away, and so read what is meant for the new owner, or keep a
//! thread of the new owner waiting past its deadline (`SECURITY.md`). The peer itself enforces the
//! rights of its handles. And answers to calls come through the same socket as messages: while the
//! queue of an end is full, they wait until a message is read from it.
//!
//! # Threads
//! Everything is `Send` and `Sync`. Each pair has one lock, held while a message is queued or
//! taken, and never while bytes are copied from or to the program. An object's lock may be held
//! while a port's is taken, but never the locks of two objects (except one that was just received,
//! which no other thread has, and both ends of an event pair that moves for the first time). Receiving from a socket holds the lock and does not block. Threads
//! share no global state when they send and receive.
//!
//! # Fork
//! Objects belong to the process that made them. In a child made by `fork(2)` without `exec`,
//! every operation on an inherited object that can fail answers [`Status::BadState`] and dropping it
//! does nothing, because another thread may have been changing it at that moment; its memory stays
//! until the child ends. What has no status still answers: sizes, koids and rights as they were, and
//! the descriptors of memory and of a [`Descriptor`], which are the child's own copies. Memory that
//! the parent has mapped stays mapped in both. Objects that the child makes are its own.
//!
//! # Unwinding
//! The caller's code (the `fill` of [`Channel::write_with`]) runs under no lock: if it panics, the
//! buffer returns to the pool, handles given by value are closed, those in a borrowed vector stay
//! there, and both ends are unchanged.

#![cfg(target_os = "linux")]
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(feature = "tokio")]
mod asynchronous;
#[cfg(test)]
mod auto_traits;
mod batch;
mod channel;
#[cfg(test)]
mod copies;
mod disposition;
mod eventfd;
mod identity;
mod memory;
mod object;
mod observers;
mod packets;
mod payload;
mod peer;
mod process;
mod region;
mod rights;
mod signals;
mod sleep;
mod source;
mod status;
mod sync;
mod transport;
mod wait;

pub use crate::memory::{Draft, Filling, Lent, TooLong, TrustedPeer};
#[cfg(feature = "tokio")]
pub use asynchronous::AsyncChannel;
pub use batch::{BatchError, BatchRegion, BatchShape};
pub use channel::{Bounds, Channel, Handle, Lengths, MessageBuf, Oversized, Part};
pub use disposition::{Disposition, Transfer};
pub use identity::{Kind, Koid};
pub use object::{
    Descriptor, Event, EventPair, Fifo, FillMechanism, Filled, Object, Port, SealedBytes, SignalFd,
    Socket, SocketInfo, SocketKind, Vmo,
};
pub use packets::{AsyncOptions, Packet, PacketContents};
pub use payload::{
    Payload, PayloadChannel, PayloadOptions, PayloadReason, PayloadReceipt, PayloadWay,
};
pub use process::{FD_VARIABLE, spawn};
pub use region::Region;
pub use rights::Rights;
pub use signals::Signals;
pub use sleep::Deadline;
pub use status::{Fill, MemoryRefusal, Status};
pub use wait::{WaitItem, wait_many};

#[doc(inline)]
pub use uncopy_core::message::{MAX_BYTES, MAX_HANDLES};
/// Maximum number of regions of one write (`ZX_CHANNEL_MAX_MSG_IOVECS`).
pub const MAX_REGIONS: usize = 8192;
/// Maximum number of items of [`wait_many`] (`ZX_WAIT_MANY_MAX_ITEMS`).
pub const MAX_WAIT_ITEMS: usize = 64;

#[cfg(test)]
mod tests {
    use testbed::in_a_child;

    use super::{
        Channel, Deadline, Descriptor, Event, EventPair, Object, Port, Signals, Status, Vmo,
    };

    #[test]
    fn a_forked_child_is_refused_by_inherited_objects_and_can_make_its_own() {
        let (near, far) = Channel::pair();
        let (event, port) = (Event::new(), Port::new());
        let (memory, pair) = (Vmo::resizable(4096).unwrap(), EventPair::pair().0);
        let null = std::fs::File::open("/dev/null").unwrap();
        let descriptor = Descriptor::from(std::os::fd::OwnedFd::from(null));
        let twin = memory.duplicate(None).unwrap();
        memory.write(b"parent", 0).unwrap();
        let now = Deadline::after(std::time::Duration::ZERO);
        assert!(in_a_child(|| {
            let signaled = event.signal(Signals::empty(), Signals::SIGNALED);
            let refused = near.read().is_err_and(|s| s == Status::BadState)
                && near.write(&[], Vec::new()) == Err(Status::BadState)
                && far.wait_one(Signals::READABLE, now) == Err(Status::BadState)
                && signaled == Err(Status::BadState)
                && port.wait(now).is_err_and(|s| s == Status::BadState);
            let memory_refused = [
                memory.read(&mut [0; 6], 0),
                memory.write(b"child!", 0),
                memory.set_size(8192),
                memory.set_stream_size(1),
                memory.set_content_size(1),
                memory.set_name(b"name"),
                memory.zero(0, 6),
                memory.commit(0, 6),
                memory.seal(),
                memory.map().map(drop),
            ];
            let copies_refused = [
                memory.duplicate(None).map(drop),
                event.duplicate(None).map(drop),
                pair.duplicate(None).map(drop),
                port.duplicate(None).map(drop),
                descriptor.duplicate(None).map(drop),
            ];
            let all_refused = memory_refused.iter().chain(&copies_refused);
            let refused = refused && all_refused.eq(&[Err(Status::BadState); 15]);
            let refused = refused && twin.replace(None).is_err_and(|s| s == Status::BadState);
            drop((near, far, event, port, pair, descriptor));
            let (near, far) = Channel::pair();
            refused && near.write(&[], Vec::new()).is_ok() && far.read().is_ok()
        }));
        let mut bytes = [0; 6];
        memory.read(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"parent");
        memory.write(b"x", 0).unwrap();
    }
}
