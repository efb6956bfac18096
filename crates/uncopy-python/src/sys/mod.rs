//! Memory and descriptors that the interpreter and this module lend each other: the only unsafe code of this crate.

pub(crate) mod borrowed;
pub(crate) mod descriptor;
pub(crate) mod lent;
