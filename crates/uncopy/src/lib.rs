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
#[cfg(all(fuzzing, target_os = "linux"))]
#[doc(hidden)]
pub mod fuzzing;
mod receipt;
#[cfg(target_os = "linux")]
pub mod send;
#[cfg(target_os = "linux")]
mod sys;

pub use error::{Errno, Error, Reason, Result};
pub use receipt::{Cost, Mechanism, Portion, Receipt, Refusal, Verification, VerifiedFrom};
