//! Names of statuses.

use std::ffi::CStr;

use crate::abi::zx_status_t;

/// Returns the name of the constant, or `(UNKNOWN)`.
pub(super) fn name(status: zx_status_t) -> &'static CStr {
    match status {
        0 => c"ZX_OK",
        -1 => c"ZX_ERR_INTERNAL",
        -2 => c"ZX_ERR_NOT_SUPPORTED",
        -3 => c"ZX_ERR_NO_RESOURCES",
        -4 => c"ZX_ERR_NO_MEMORY",
        -10 => c"ZX_ERR_INVALID_ARGS",
        -11 => c"ZX_ERR_BAD_HANDLE",
        -12 => c"ZX_ERR_WRONG_TYPE",
        -13 => c"ZX_ERR_BAD_SYSCALL",
        -14 => c"ZX_ERR_OUT_OF_RANGE",
        -15 => c"ZX_ERR_BUFFER_TOO_SMALL",
        -20 => c"ZX_ERR_BAD_STATE",
        -21 => c"ZX_ERR_TIMED_OUT",
        -22 => c"ZX_ERR_SHOULD_WAIT",
        -23 => c"ZX_ERR_CANCELED",
        -24 => c"ZX_ERR_PEER_CLOSED",
        -25 => c"ZX_ERR_NOT_FOUND",
        -26 => c"ZX_ERR_ALREADY_EXISTS",
        -27 => c"ZX_ERR_ALREADY_BOUND",
        -28 => c"ZX_ERR_UNAVAILABLE",
        -30 => c"ZX_ERR_ACCESS_DENIED",
        -40 => c"ZX_ERR_IO",
        -41 => c"ZX_ERR_IO_REFUSED",
        -42 => c"ZX_ERR_IO_DATA_INTEGRITY",
        -43 => c"ZX_ERR_IO_DATA_LOSS",
        -44 => c"ZX_ERR_IO_NOT_PRESENT",
        -45 => c"ZX_ERR_IO_OVERRUN",
        -46 => c"ZX_ERR_IO_MISSED_DEADLINE",
        -47 => c"ZX_ERR_IO_INVALID",
        -50 => c"ZX_ERR_BAD_PATH",
        -51 => c"ZX_ERR_NOT_DIR",
        -52 => c"ZX_ERR_NOT_FILE",
        -53 => c"ZX_ERR_FILE_BIG",
        -54 => c"ZX_ERR_NO_SPACE",
        -55 => c"ZX_ERR_NOT_EMPTY",
        -60 => c"ZX_ERR_STOP",
        -61 => c"ZX_ERR_NEXT",
        -62 => c"ZX_ERR_ASYNC",
        -70 => c"ZX_ERR_PROTOCOL_NOT_SUPPORTED",
        -71 => c"ZX_ERR_ADDRESS_UNREACHABLE",
        -72 => c"ZX_ERR_ADDRESS_IN_USE",
        -73 => c"ZX_ERR_NOT_CONNECTED",
        -74 => c"ZX_ERR_CONNECTION_REFUSED",
        -75 => c"ZX_ERR_CONNECTION_RESET",
        -76 => c"ZX_ERR_CONNECTION_ABORTED",
        _ => c"(UNKNOWN)",
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    /// The header says `#define ZX_ERR_INTERNAL (-1)`.
    #[test]
    fn each_status_of_the_header_has_its_name() {
        let header = include_str!("../../include/zircon/errors.h");
        let mut count = 0;
        for line in header.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["#define", constant, number, ..] = words[..] else { continue };
            let number = number.trim_matches(['(', ')']).parse().expect(line);
            assert_eq!(name(number).to_str(), Ok(constant), "{number}");
            count += 1;
        }
        assert_eq!(count, 45, "all of them, ZX_OK among them");
        for none in [1, -5, -77, i32::MIN] {
            assert_eq!(name(none), c"(UNKNOWN)");
        }
    }
}
