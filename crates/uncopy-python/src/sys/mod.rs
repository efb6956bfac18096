//! Memory and descriptors that the interpreter and this module lend each other, the only unsafe code of this crate, and
//! system calls that neither the library nor Python's has.

pub(crate) mod borrowed;
pub(crate) mod descriptor;
pub(crate) mod flush;
pub(crate) mod interpreter;
pub(crate) mod lent;
