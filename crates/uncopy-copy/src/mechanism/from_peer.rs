//! Writes bytes that come from another machine.

use std::os::fd::BorrowedFd;

use super::read_write::write_sparsely;
use super::{Moved, Refused};
use crate::digest::StreamedDigest;
use crate::options::Sparse;
use crate::peer_file::PeerFile;
use uncopy_core::{Cost, Errno};
use uncopy_os::transfer;

pub(crate) struct FromPeer<'a> {
    source: &'a PeerFile,
    destination: BorrowedFd<'a>,
    /// Leave blocks of zeros out.
    find_zeros: bool,
    /// The destination may hold old bytes where zeros are left out.
    in_place: bool,
}

impl<'a> FromPeer<'a> {
    pub(crate) fn new(
        source: &'a PeerFile,
        destination: BorrowedFd<'a>,
        sparse: Sparse,
        in_place: bool,
    ) -> FromPeer<'a> {
        FromPeer { source, destination, find_zeros: sparse == Sparse::Always, in_place }
    }

    /// Moves up to `length` bytes, as [`Mover::step`](super::Mover::step) does, and adds them to the digests. `go_on`
    /// receives the number of bytes so far, and may end the step. What follows up to `ahead_to` is to be moved next.
    pub(crate) fn step(
        &mut self,
        offset: u64,
        length: u64,
        ahead_to: u64,
        digests: &mut [Option<&mut StreamedDigest>],
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Moved, Refused> {
        let mut moved = Moved { bytes: 0, hole_bytes: 0, cost: Cost::UserCopied };
        let mut refused: Option<Errno> = None;
        let (destination, find_zeros, in_place) =
            (self.destination, self.find_zeros, self.in_place);
        let range = offset..offset.saturating_add(length);
        let read = self.source.read(range, ahead_to, &mut |bytes| {
            let at = offset + moved.bytes;
            let written = match find_zeros {
                true => write_sparsely(destination, bytes, at, in_place),
                false => transfer::write_all_at(destination, bytes, at).map(|()| 0),
            };
            match written {
                Ok(hole_bytes) => {
                    moved.hole_bytes += hole_bytes;
                    moved.bytes += bytes.len() as u64;
                    for digest in digests.iter_mut().flatten() {
                        digest.add(at, bytes);
                    }
                }
                Err(errno) => refused = Some(errno),
            }
            refused.is_none() && go_on(moved.bytes)
        });
        match (refused, read) {
            // Bytes before an error are written; the next step meets it again.
            _ if moved.bytes > 0 => Ok(moved),
            (Some(errno), _) => Err(Refused::at_destination(errno)),
            (None, Err(errno)) => Err(Refused::at_source(errno)),
            (None, Ok(_)) => Ok(moved),
        }
    }
}
