//! Compares the bytes of two files, and computes digests of one.

use std::os::fd::AsFd;

use crate::digest::Hasher;
use crate::options::Digest;
use uncopy_core::Errno;
use uncopy_os::capabilities::Filesystem;
use uncopy_os::{Sys, file, transfer};

/// Size of one read.
const READ_BYTES: usize = 256 << 10;

/// Memory of one thread, for two files.
pub(crate) struct Buffers {
    source: Vec<u8>,
    destination: Vec<u8>,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers { source: vec![0; READ_BYTES], destination: vec![0; READ_BYTES] }
    }
}

/// An error of the source or of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SideError {
    Source(Errno),
    Destination(Errno),
}

/// Whether both files have the same bytes. `go_on` receives the length of each piece that is the same, and
/// may end the comparison.
pub(crate) fn are_same(
    source: impl AsFd,
    destination: impl AsFd,
    buffers: &mut Buffers,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<bool, SideError> {
    let size = file::stat(&source).map_err(SideError::Source)?.size;
    let is_longer = size != file::stat(&destination).map_err(SideError::Destination)?.size;
    if is_longer && !is_generated(&source) && !is_generated(&destination) {
        return Ok(false);
    }
    let mut offset = 0;
    loop {
        let n = transfer::read_all_at(&source, &mut buffers.source, offset);
        let n = n.map_err(SideError::Source)?;
        let found = transfer::read_all_at(&destination, &mut buffers.destination, offset);
        let found = found.map_err(SideError::Destination)?;
        if buffers.source[..n] != buffers.destination[..found] {
            return Ok(false);
        }
        offset += n as u64;
        if !go_on(n as u64) || n < READ_BYTES {
            return Ok(true);
        }
    }
}

/// Whether the contents are made when they are read, so that the size says nothing (`/proc`).
fn is_generated(fd: impl AsFd) -> bool {
    file::filesystem_magic(fd).is_ok_and(|magic| Filesystem::from_magic(magic).is_pseudo())
}

/// Computes digests of a file by several algorithms in one pass.
pub(super) fn digests(
    fd: impl AsFd,
    algorithms: &[Digest],
    buffers: &mut Buffers,
    mut go_on: impl FnMut(u64) -> bool,
) -> Sys<Vec<String>> {
    let mut hashers = algorithms.iter().map(|a| Hasher::new(*a)).collect::<Sys<Vec<_>>>()?;
    let mut offset = 0;
    loop {
        let n = transfer::read_all_at(&fd, &mut buffers.source, offset)?;
        hashers.iter_mut().for_each(|hasher| hasher.update(&buffers.source[..n]));
        offset += n as u64;
        if !go_on(n as u64) || n < READ_BYTES {
            return Ok(hashers.into_iter().map(Hasher::finish).collect());
        }
    }
}
