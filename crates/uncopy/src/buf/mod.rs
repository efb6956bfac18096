//! Memory for system calls.
#![allow(unsafe_code)]

mod aligned;

pub(crate) use aligned::AlignedBuffer;
