//! Memory to socket without copying, where that can be had, and the truth about it.
//!
//! ```
//! use std::net::UdpSocket;
//! use uncopy::send::{InetSocket, Sender, SenderOptions};
//!
//! let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
//! let socket = InetSocket::connect_udp(receiver.local_addr().unwrap())?;
//! let mut sender = Sender::new(socket, &SenderOptions::default());
//! assert_eq!(sender.send("sixteen bytes..!").result?, 16);
//! while let Some(release) = sender.wait_release(None)? {
//!     println!("{:?}: {}", release.id, release.fate);
//! }
//! # Ok::<(), uncopy::Error>(())
//! ```
//!
//! # Ownership
//! A send takes its buffers, of any type that is [`StableBytes`], and yields two events: the result
//! ([`Sent`]), and the [`Release`], which hands the buffers back and says what the kernel did with
//! them. In between nothing in safe code can change or free them, whatever is dropped, forgotten or
//! unwound. **Released means reusable**: not sent, and not delivered.
//!
//! The kernel numbers the `MSG_ZEROCOPY` sends of a socket and reports by number. So a
//! [`InetSocket`] is owned by its [`Sender`] and lends its descriptor to nobody, and taking over one
//! that may be shared is `unsafe` ([`InetSocket::adopt`]).
//!
//! None of this compiles. What was given to a ring is the ring's, also a slice of a pool, which could
//! be written to:
//! ```compile_fail,E0382
//! # use uncopy::send::{Message, Ring, RingSocket};
//! # fn of(ring: &mut Ring<Vec<u8>>, socket: RingSocket) {
//! let buffer = vec![0; 4096];
//! let _ = ring.send(socket, Message::new(buffer));
//! println!("{}", buffer[0]);
//! # }
//! ```
//! ```compile_fail,E0382
//! # use uncopy::send::{Message, Pool, PoolSlice, Ring, RingSocket};
//! # fn of(ring: &mut Ring<PoolSlice>, socket: RingSocket, pool: &Pool) {
//! let mut slice = pool.take().unwrap();
//! let _ = ring.send(socket, Message::new(slice));
//! slice[0] = 1;
//! # }
//! ```
//! What only borrows is no message, as the borrow can end:
//! ```compile_fail,E0597
//! # use uncopy::send::{Message, Ring, RingSocket};
//! # fn of(ring: &mut Ring<&'static [u8]>, socket: RingSocket) {
//! let buffer = vec![0; 4096];
//! let _ = ring.send(socket, Message::new(&buffer[..]));
//! # }
//! ```
//! A descriptor that others may have is not taken over without a word:
//! ```compile_fail,E0133
//! # fn of(fd: std::os::fd::OwnedFd) {
//! let _ = uncopy::send::InetSocket::adopt(fd);
//! # }
//! ```
//! And none is lent, nor given away:
//! ```compile_fail,E0277
//! # fn of(socket: uncopy::send::InetSocket) {
//! let _ = std::os::fd::OwnedFd::from(socket);
//! # }
//! ```
//!
//! # Fork
//! Sockets, senders, rings and pools belong to the process that made them. In a child made by `fork(2)`
//! without `exec` every operation on them is refused ([`Reason::Forked`](uncopy_core::Reason::Forked)), and
//! dropping them closes descriptors and does nothing else: the parent's streams stay open, and the
//! releases are the parent's. What the child makes is its own.
//!
//! # What it takes to not copy
//! Lending with `MSG_ZEROCOPY` pays from some 20 KB on (UDP: 32), and only where nothing on the path copies all the same: UDP
//! needs a device with scatter-gather and transmit checksum offload, and a datagram that fits the
//! MTU; a packet tap (`tcpdump`, a DHCP client, `lldpd`), loopback and a veth to this machine always
//! copy. The kernel tells with the release, [`Mode::Auto`] learns from it, and [`Counters`] add it
//! up.

#![cfg(target_os = "linux")]
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(feature = "tokio")]
mod asynchronous;
mod auto;
#[cfg(test)]
mod auto_traits;
mod batch;
mod choice;
mod coalesced_reports;
mod cost_model;
mod counters;
mod notifier;
mod options;
mod paths;
mod plan;
mod release;
mod releases;
mod returned;
mod ring;
mod room;
mod sender;
mod transmitter;

pub use crate::room::inet::{InetSocket, Transport};
#[cfg(fuzzing)]
#[doc(hidden)]
pub use crate::room::zerocopy::fuzz_error_queue;
pub use crate::room::{PageSize, Pages, Payload, Pool, PoolSlice, StableBytes};
#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncSender, NotReleased, Pending};
pub use auto::Lending;
pub use batch::train_bytes;
pub use counters::{Counters, Fallback, FallbackReason, Outstanding};
#[cfg(test)]
pub(crate) use notifier::{Binding, Slots};
pub use notifier::{MAX_SLOTS, Notification};
pub use options::{RingOptions, SenderOptions};
pub use plan::Mode;
pub use release::{Fate, Release, SendId, Sent};
pub use releases::{IntoReleases, Releases};
pub use returned::{NotClosed, NotTaken};
pub use ring::{Message, RegisteredPools, Ring, RingEvent, RingSocket, Unfinished};
pub use sender::Sender;

/// Counts the sockets whose senders are gone, and which are kept together with their buffers until the
/// kernel has released these.
#[must_use]
pub fn parked() -> usize {
    crate::room::zerocopy::parking::parked()
}
