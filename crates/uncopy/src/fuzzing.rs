//! Parsers that `fuzz/` attacks and that nobody else can reach: there with `--cfg fuzzing` alone.

/// A job's journal.
pub fn journal(bytes: &[u8]) {
    crate::copy::fuzz_journal(bytes);
}

/// The control memory of a message from the error queue of a socket.
pub fn error_queue(bytes: &[u8]) {
    crate::sys::zerocopy::fuzz_error_queue(bytes);
}

/// What a netlink socket received.
pub fn netlink(bytes: &[u8]) {
    crate::sys::netlink::fuzz(bytes);
}

/// Files of `/proc` and `/sys`.
pub fn proc_files(text: &str) {
    crate::doctor::fuzz(text);
}
