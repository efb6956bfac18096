//! The unsafe code of this crate: exported symbols, memory of C programs, signal handlers.
#![allow(unsafe_code)]

pub(crate) mod address_space;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "elsewhere.rs")]
mod arch;
mod asan;
pub(crate) mod boundary;
pub(crate) mod descriptor;
pub(crate) mod fault;
pub(crate) mod fork;
mod kernel;
mod membarrier;
pub(crate) mod memory;
pub(crate) mod signal;
pub(crate) mod slot;
