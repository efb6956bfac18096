//! Move bytes with the fewest copies the system allows, and say truthfully what happened.
//!
//! ```no_run
//! use uncopy::copy::{CopyOptions, Outcome, copy_file};
//!
//! if let Outcome::Copied(receipt) = copy_file("a.img", "b.img", &CopyOptions::new())? {
//!     for portion in &receipt.portions {
//!         println!("{} bytes by {} ({})", portion.bytes, portion.mechanism, portion.cost);
//!     }
//!     for refusal in &receipt.refusals {
//!         println!("not used: {refusal}");
//!     }
//! }
//! # Ok::<(), uncopy::Error>(())
//! ```
//!
//! | module | from | to |
//! |---|---|---|
//! | [`copy`] | a file, or a tree of them ([`copy::job`]) | another place, by the cheapest correct way |
//! | `send` | memory | a TCP or UDP socket, lent where that pays |
//! | `channel` | regions of memory, and handles | another thread or process, as one message |
//! | `doctor` | a path, a device, a process, two files | the reason why bytes are copied there |
//! | `remote` | a source on another machine | here, or the other way round |
//! | `unit` | a tree that outgrows one machine | units of work, which any worker can do |
//! | [`follow`] | a path | a file, where no planted link leads |
//! | [`capabilities`] | this kernel, a filesystem | what it really does, found out by trying |
//!
//! All but `copy`, `follow` and `capabilities` are there on Linux alone. The book (`docs/`) has a tour of each.
//!
//! # What holds everywhere
//! - **Gather.** What is written may lie in many regions ([`std::io::IoSlice`]); nobody has to make one
//!   buffer of them. A message goes as a whole or not at all.
//! - **Fall back, or fail.** What the system does not support is done the next way, from where the bytes
//!   stopped. What fails is an [`Error`] that names operation, subject and next step; the channels of
//!   `channel` answer with a status instead, as Zircon's do.
//! - **Ownership until release.** Memory that the kernel may still read belongs to the operation. No safe
//!   code can change or free it, whatever is dropped, forgotten or unwound.
//! - **Receipts.** Every operation tells what became of the bytes ([`Receipt`], `send::Release`), and why
//!   nothing cheaper was used. Where the kernel does not say, neither does the receipt.
//!
//! # Features
//! - `trees` (on by default): [`copy::job`], `copy::tune`.
//! - `blake3`, `sha256` (on by default): digests to verify by; XXH3 is always there.
//! - `channel`, `doctor`, `send`: the modules of these names.
//! - `tokio`: `channel::AsyncChannel`, `copy::copy_file_async`, `send::AsyncSender`.
//! - `remote`: `remote`, copies between machines.
//! - `unit`: `unit`, copies cut into units of work.
//! - `compress`: [`copy::Transform`], by zstd.
//! - `json`: `copy::json`, receipts as the objects that the program prints.
#![deny(missing_docs, unsafe_code)]

#[cfg(all(fuzzing, feature = "doctor", feature = "send", target_os = "linux"))]
#[doc(hidden)]
pub mod fuzzing;

#[cfg(all(feature = "channel", target_os = "linux"))]
#[doc(inline)]
pub use uncopy_channel as channel;
#[doc(inline)]
pub use uncopy_copy as copy;
#[doc(inline)]
pub use uncopy_copy::follow;
pub use uncopy_core::{
    Choice, Compression, CompressionAction, CompressionExpectation, CompressionGuess,
    CompressionReason, CompressionSample, Cost, Decision, DigestedFrom, Errno, Error, Exclusion,
    ExpectedBy, FileKind, GuessedBy, InodeFlags, Leftovers, MappedWrites, Mechanism, MetadataPart,
    NextStep, Note, Objection, Obstacle, Portion, Reason, Receipt, Refusal, RefusalReason, Result,
    SourceDigest, SourceDoubt, System, SystemError, Unseen, Verification, VerifiedFrom,
};
#[cfg(all(feature = "doctor", target_os = "linux"))]
#[doc(inline)]
pub use uncopy_doctor as doctor;
#[doc(inline)]
pub use uncopy_os::capabilities;
#[cfg(all(feature = "remote", target_os = "linux"))]
#[doc(inline)]
pub use uncopy_remote as remote;
#[cfg(all(feature = "send", target_os = "linux"))]
#[doc(inline)]
pub use uncopy_send as send;
#[cfg(all(feature = "unit", target_os = "linux"))]
#[doc(inline)]
pub use uncopy_unit as unit;

/// The code in the book runs.
#[cfg(all(
    doctest,
    feature = "channel",
    feature = "doctor",
    feature = "send",
    feature = "trees",
    target_os = "linux"
))]
mod book {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/receipts.md")]
    struct Receipts;

    #[doc = include_str!("../../../docs/tour/copy.md")]
    struct TourOfCopy;

    #[doc = include_str!("../../../docs/channel.md")]
    struct Channel;

    #[doc = include_str!("../../../docs/send.md")]
    struct Send;

    #[doc = include_str!("../../../docs/trees.md")]
    struct Trees;

    #[doc = include_str!("../../../docs/tour/send.md")]
    struct TourOfSend;

    #[doc = include_str!("../../../docs/tour/channel.md")]
    struct TourOfChannel;

    #[doc = include_str!("../../../docs/why-not/array-of-arrays.md")]
    struct ArrayOfArrays;

    #[doc = include_str!("../../../docs/why-not/dedicated-calls.md")]
    struct DedicatedCalls;

    #[doc = include_str!("../../../docs/why-not/vectorised-handles.md")]
    struct VectorisedHandles;
}
