//! Messages of many regions over a socket, and what of them is copied: one table for every interface.

use std::io::IoSlice;

use crate::witness::{Call, Trace};

/// A message, and what reaches the kernel of it.
#[derive(Debug, Clone, Copy)]
pub struct Gathered {
    /// Number of bytes.
    pub bytes: usize,
    /// Number of regions.
    pub regions: usize,
    /// Bytes that are copied behind the header, in a write and in a call, whose transaction id takes the
    /// place of the first four.
    copied: [usize; 2],
    /// Number of regions that stay where they lie.
    in_place: usize,
}

/// Bytes in front of those of a message.
const HEADER: usize = 8;
const TXID: usize = 4;
/// Bytes that stand for one handle.
const RECORD: usize = 16;

const fn row(bytes: usize, regions: usize, copied: [usize; 2], in_place: usize) -> Gathered {
    Gathered { bytes, regions, copied, in_place }
}

/// Messages of every size and number of regions. Small regions are copied, and large ones not.
pub const GATHERED: [Gathered; 18] = [
    row(256, 1, [256, 252], 0),
    row(256, 16, [256, 252], 0),
    row(256, 64, [256, 252], 0),
    row(256, 1024, [256, 252], 0),
    row(256, 1025, [256, 252], 0),
    row(256, 8192, [256, 252], 0),
    row(4096, 1, [0, 0], 1),
    row(4096, 16, [4096, 4092], 0),
    row(4096, 64, [4096, 4092], 0),
    row(4096, 1024, [4096, 4092], 0),
    row(4096, 1025, [4096, 4092], 0),
    row(4096, 8192, [4096, 4092], 0),
    row(65_536, 1, [0, 0], 1),
    row(65_536, 16, [0, 0], 16),
    row(65_536, 64, [65_536, 65_532], 0),
    row(65_536, 1024, [65_536, 65_532], 0),
    row(65_536, 1025, [65_536, 65_532], 0),
    row(65_536, 8192, [65_536, 65_532], 0),
];

impl Gathered {
    /// Divides the first bytes of `text` into regions of almost the same length; some are empty if there
    /// are more regions than bytes.
    #[must_use]
    pub fn divide<'a>(&self, text: &'a [u8]) -> Vec<IoSlice<'a>> {
        let end = |index: usize| self.bytes * index / self.regions;
        (0..self.regions).map(|index| IoSlice::new(&text[end(index)..end(index + 1)])).collect()
    }

    /// Returns the bytes that are copied, header included. The record of a handle is copied to small
    /// regions.
    #[must_use]
    pub fn copied(&self, is_call: bool, has_handle: bool) -> usize {
        let record = if has_handle && self.in_place == 0 { RECORD } else { 0 };
        HEADER + if is_call { TXID } else { 0 } + self.copied[usize::from(is_call)] + record
    }

    /// Returns the parts of the system call: header, transaction id and small regions, then the others.
    /// The record of a handle is with the first part, if that has all bytes, and else the last part.
    #[must_use]
    pub fn parts(&self, is_call: bool, has_handle: bool) -> SentParts {
        let record = usize::from(has_handle && self.in_place > 0);
        SentParts { count: 1 + self.in_place + record, first: self.copied(is_call, has_handle) }
    }
}

/// Parts of a message in the system call that sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentParts {
    /// Number of parts.
    pub count: usize,
    /// Length of the first part.
    pub first: usize,
}

impl SentParts {
    /// Returns the parts of every call that sent one message.
    #[must_use]
    pub fn of(trace: &Trace) -> Vec<SentParts> {
        trace
            .named(&["sendto", "sendmsg", "sendmmsg"])
            .into_iter()
            .map(SentParts::of_call)
            .collect()
    }

    fn of_call(call: &Call) -> SentParts {
        let number_behind = |key: &str| {
            let (_, rest) = call.arguments.split_once(key)?;
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().ok()
        };
        match number_behind("msg_iovlen=") {
            Some(count) => SentParts { count, first: number_behind("iov_len=").unwrap_or(0) },
            // `sendto`: the bytes, and their number in front of the flags.
            None => {
                let before_flags =
                    call.arguments.rsplit_once(", MSG_").map_or("", |(before, _)| before);
                let number = before_flags.rsplit_once(", ").map_or("", |(_, number)| number);
                SentParts { count: 1, first: number.parse().unwrap_or(0) }
            }
        }
    }
}
