//! Zircon's channel calls for C and C++ programs on Linux.
//!
//! The headers (`include/zircon/`, `include/uncopy/zx.h`) describe the functions; they are the
//! documentation for users of this library. [`uncopy_channel`] implements the objects; this crate
//! has the handle numbers, copies that survive bad addresses, and the order of checks.
//!
//! Pointers of the calling program are [`In`] and [`Out`]: addresses that only `sys` reads and
//! writes, so that no other module has unsafe code.
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
#![cfg(target_os = "linux")]

pub mod abi;
pub mod calls;
mod sys;
mod table;

pub use sys::memory::{In, Out, gather_checked};
