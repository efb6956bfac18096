//! Zircon's channel calls for C and C++ programs on Linux.
//!
//! The functions are described in the headers (`include/zircon/`, `include/uncopy/zx.h`): that is
//! the documentation of this crate for those who use it. What they do is done by
//! [`uncopy_channel`]; here are numbers for handles, copies that survive bad addresses, and the
//! order of checks.
//!
//! Pointers of the calling program are [`In`] and [`Out`]: numbers that only `sys` turns into
//! copies, so that nothing outside it is unsafe.
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
#![cfg(target_os = "linux")]

pub mod abi;
pub mod calls;
mod sys;
mod table;

pub use sys::memory::{In, Out, gather_surely};
