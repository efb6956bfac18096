//! Sends memory over sockets without copying it where possible, and reports truthfully what was copied.
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
//! ([`Sent`]), and the [`Release`], which returns the buffers and says what the kernel did with them. In
//! between nothing in safe code can change or free them, even if values are dropped or forgotten, or a panic
//! unwinds. **Released means reusable**: not sent, and not delivered.
//!
//! The kernel numbers the `MSG_ZEROCOPY` sends of a socket and reports by number. So an [`InetSocket`] is
//! owned by its [`Sender`] and does not lend its descriptor, and taking over a descriptor that may be shared
//! is `unsafe` ([`InetSocket::adopt`]).
//!
//! None of the following compiles. A buffer that was given to a ring belongs to the ring, and so does a slice
//! of a pool, which could be written to:
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
//! A borrow is not accepted, because it can end:
//! ```compile_fail,E0597
//! # use uncopy::send::{Message, Ring, RingSocket};
//! # fn of(ring: &mut Ring<&'static [u8]>, socket: RingSocket) {
//! let buffer = vec![0; 4096];
//! let _ = ring.send(socket, Message::new(&buffer[..]));
//! # }
//! ```
//! Taking over a descriptor that others may have needs `unsafe`:
//! ```compile_fail,E0133
//! # fn of(fd: std::os::fd::OwnedFd) {
//! let _ = uncopy::send::InetSocket::adopt(fd);
//! # }
//! ```
//! And the descriptor is neither lent nor given away:
//! ```compile_fail,E0277
//! # fn of(socket: uncopy::send::InetSocket) {
//! let _ = std::os::fd::OwnedFd::from(socket);
//! # }
//! ```
//!
//! # Fork
//! Sockets, senders, rings and pools belong to the process that made them. In a child made by `fork(2)`
//! without `exec` every operation on them is refused ([`Reason::Forked`](uncopy_core::Reason::Forked)), and
//! dropping them closes descriptors and does nothing else: the parent's streams stay open, and the releases
//! go to the parent. The child can use sockets, senders, rings and pools that it makes itself.
//!
//! # When the kernel does not copy
//! Lending with `MSG_ZEROCOPY` pays from about 20 KB (UDP: 32 KB), and only if nothing on the path copies
//! anyway: UDP needs a device with scatter-gather and transmit checksum offload, and a datagram that fits the
//! MTU; a packet tap (`tcpdump`, a DHCP client, `lldpd`), loopback and a veth to this machine always copy.
//! The kernel reports copies with the release, [`Mode::Auto`] learns from that, and [`Counters`] add it up.

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
mod file_transfer;
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
pub use file_transfer::{
    FileReceiver, FileTransferOptions, NotTransferred, receive_to_file, receive_to_file_observed,
    send_file, send_file_observed,
};
#[cfg(test)]
pub(crate) use notifier::{Binding, Slots};
pub use notifier::{MAX_SLOTS, Notification};
pub use options::{RingOptions, SenderOptions};
pub use plan::Mode;
pub use release::{Fate, Release, SendId, Sent};
pub use releases::{IntoReleases, Releases};
pub use returned::{NotClosed, NotTaken};
pub use ring::{Message, RegisteredPools, Ring, RingEvent, RingSocket, Unfinished};
pub use sender::{Sender, SharedSender};

/// Returns the number of parked sockets: their senders were dropped, and they are kept together with their
/// buffers until the kernel has released these.
#[must_use]
pub fn parked() -> usize {
    crate::room::zerocopy::parking::parked()
}
