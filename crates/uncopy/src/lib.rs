//! Move bytes with the fewest copies the system allows, and say truthfully what happened.
//!
//! ```no_run
//! let receipt = uncopy::copy::copy_file("a.img", "b.img", &Default::default())?;
//! for portion in &receipt.portions {
//!     println!("{} bytes by {} ({})", portion.bytes, portion.mechanism, portion.cost);
//! }
//! for refusal in &receipt.refusals {
//!     println!("not used: {refusal}");
//! }
//! # Ok::<(), uncopy::Error>(())
//! ```
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
// The public types are the same everywhere; what serves them alone on Linux is unused elsewhere.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(target_os = "linux")]
mod buf;
pub mod capabilities;
#[cfg(target_os = "linux")]
pub mod channel;
pub mod copy;
#[cfg(target_os = "linux")]
pub mod doctor;
mod error;
mod receipt;
#[cfg(target_os = "linux")]
pub mod send;
#[cfg(target_os = "linux")]
mod sys;

pub use error::{Errno, Error, Reason, Result};
pub use receipt::{
    Compression, CompressionAction, CompressionGuess, CompressionSample, Cost, GuessedBy,
    Mechanism, Portion, Receipt, Refusal, Verification, VerifiedFrom,
};

/// The code in the book runs.
#[cfg(all(doctest, target_os = "linux"))]
mod book {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/receipts.md")]
    struct Receipts;

    #[doc = include_str!("../../../docs/tour/copy.md")]
    struct TourOfCopy;

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
