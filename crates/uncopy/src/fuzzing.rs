//! Parsers that `fuzz/` attacks and that nobody else can reach: there with `--cfg fuzzing` alone.

/// A job's journal.
pub fn journal(bytes: &[u8]) {
    uncopy_copy::fuzz_journal(bytes);
}

/// A record of temporary names.
pub fn record(bytes: &[u8]) {
    uncopy_copy::fuzz_record(bytes);
}

/// The control memory of a message from the error queue of a socket.
pub fn error_queue(bytes: &[u8]) {
    uncopy_send::fuzz_error_queue(bytes);
}

/// Parses bytes as a message received from a netlink socket.
pub fn netlink(bytes: &[u8]) {
    uncopy_os::netlink::fuzz(bytes);
}

/// Files of `/proc` and `/sys`.
pub fn proc_files(text: &str) {
    uncopy_doctor::fuzz(text);
}

/// A file that is compressed with zstd, or says so.
#[cfg(feature = "compress")]
pub fn compressed(file: std::os::fd::BorrowedFd<'_>) {
    uncopy_copy::fuzz_compressed(file);
}

/// The frame that a seek table with this payload is.
#[cfg(feature = "compress")]
#[must_use]
pub fn seek_table(payload: &[u8]) -> Vec<u8> {
    uncopy_copy::fuzz_table(payload)
}
