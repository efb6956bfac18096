//! The protocol by which uncopy copies between machines (pure): bytes in, bytes and requests out, without I/O, clock or
//! threads.
//!
//! The *near* end is where the user is, the *far* end is started for it. One of them has the source and serves it, the
//! other has the destination and asks: for the status of a root, the entries of a directory, the bytes of a file. The
//! asking side decides everything; the serving side shows what was named, and nothing else. [`Session`] is what is said
//! beside that, [`Caller`] is the asking side, [`Server`] the serving one. All check every byte of the other end: a
//! [`Violation`] ends the connection.
//!
//! Files may also be read over data connections beside the session ([`Session::data`], [`Caller::of_data`],
//! [`Server::of_data`]), which the session agrees on ([`Message::DataWanted`] and those that follow). Over open ones bytes go
//! alone, without frames: they are asked for in the session, which has their number and digest too ([`Call::Send`]).
//!
//! Each end begins with a [`Greeting`], and both speak the highest version that both know. A version fixes every frame:
//! nothing in it is optional or skipped. A later version adds frames and fields, and a peer of an earlier one never
//! gets them.
//!
//! ```
//! use uncopy_wire::{Answer, Call, Caller, Frames, Kind, Request, Server, Status};
//! let (mut caller, mut server) = (Caller::new(), Server::new(1));
//! let root = Call::Root { number: 0, follows: false };
//! let (id, frame) = caller.call(&root)?;
//!
//! let mut frames = Frames::default();
//! frames.feed(&frame.encode());
//! let request = server.take(&frames.next()?.expect("a whole frame"))?;
//! assert_eq!(request, Request { id: id.number(), call: root });
//! let status = Status { kind: Kind::Directory, ..Status::default() };
//! let (handle, frame) = server.opened(request.id, &status)?;
//!
//! let mut frames = Frames::default();
//! frames.feed(&frame.encode());
//! let (answered, answer) = caller.take(frames.next()?.expect("a whole frame"))?;
//! assert_eq!(answered, id);
//! assert_eq!(answer, Answer::Opened {
//!     handle: handle.expect("few are open"),
//!     status,
//!     target: None,
//! });
//! # Ok::<(), uncopy_wire::Violation>(())
//! ```

#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod call;
mod caller;
mod codec;
mod data;
mod entry;
mod frame;
mod greeting;
mod message;
mod name;
mod server;
mod session;
mod status;
mod violation;

pub use call::{
    Call, Handle, LIST_FROM_VERSION, LISTED_ATTRIBUTES_VERSION, LOOK_ALL_VERSION,
    MAX_CONTENTS_BYTES, MAX_NAMES, MAX_RANGES, MAX_READ_BYTES,
};
pub use caller::{Answer, CallId, Caller, FOREIGN_LINK_VERSION};
pub use data::{
    DataAnnouncement, DataLoss, DataLost, DataOffer, DataRefusal, DataSecurity, DataWish,
    MAX_ANNOUNCEMENTS, MAX_DATA_CONNECTIONS, OPEN_VERSION,
};
pub use entry::{Attribute, Entry, FailedEntry, PageEntry};
pub use frame::{Frame, FrameKind, Frames, HEAD_BYTES, MAX_PAYLOAD_BYTES};
pub use greeting::{Greeting, GreetingSearch, MAX_BANNER_BYTES, Versions};
pub use message::{
    JOURNAL_OUTSIDE_VERSION, Job, JobState, MACHINE_VERSION, MAX_OUTPUT_BYTES, MAX_PATH_BYTES,
    MachineMark, Message, OutputStream, Refusal,
};
pub use name::{MAX_NAME_BYTES, is_name};
pub use server::{MAX_VALUES_BYTES, Page, Request, Server};
pub use session::{End, Received, Session};
pub use status::{Kind, Status, Time};
pub use violation::Violation;

/// Highest version of the protocol that is spoken. The second one has open data connections.
pub const VERSION: u16 = 6;
/// Lowest version.
pub const MIN_VERSION: u16 = 1;
