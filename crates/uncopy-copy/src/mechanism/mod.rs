//! Implements the mechanisms that move bytes: one system call pattern each, one bounded step at a
//! time.

mod copy_file_range;
mod direct;
mod from_peer;
pub(super) mod read_write;
pub(crate) mod reflink;
mod sendfile;
pub(super) mod side;
mod splice;

use std::os::fd::BorrowedFd;

pub(crate) use direct::Tail;
pub(crate) use from_peer::FromPeer;
pub(crate) use side::{Refused, Side};

use super::digest::StreamedDigest;
use super::options::Sparse;
use super::plan::{CopyFacts, DirectPath};
use uncopy_core::{Cost, Mechanism};
use uncopy_os::Sys;
use uncopy_os::file::DirectAlign;

/// The two open files of a copy.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) source: BorrowedFd<'a>,
    pub(crate) destination: BorrowedFd<'a>,
}

/// Result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Bytes by which source and destination advanced. 0: the source returned nothing here.
    pub(crate) bytes: u64,
    /// How many of them were left as holes.
    pub(crate) hole_bytes: u64,
    pub(crate) cost: Cost,
}

impl Moved {
    fn data(bytes: usize, cost: Cost) -> Moved {
        Moved { bytes: bytes as u64, hole_bytes: 0, cost }
    }
}

/// A mechanism at work on one pair of files.
pub(crate) trait Mover {
    /// Moves up to `length` bytes (more than 0) from `offset` of the source to the same offset of
    /// the destination. An error means that nothing was moved by this step.
    fn step(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused>;

    /// Moves bytes as [`Mover::step`] does, and adds them to `digest` if they pass through this program's
    /// memory.
    fn step_digesting(
        &mut self,
        ends: Ends<'_>,
        offset: u64,
        length: u64,
        _digest: &mut StreamedDigest,
    ) -> Result<Moved, Refused> {
        self.step(ends, offset, length)
    }

    /// Makes a second mover that moves other blocks of the same files at the same time; `None`:
    /// there can be only one.
    fn second_mover(&self) -> Option<Box<dyn Mover + Send>> {
        None
    }
}

/// Facts about the files that a mover needs besides their descriptors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Alignment for `O_DIRECT` reads, where they are wanted.
    pub(crate) source_align: Option<DirectAlign>,
    /// Alignment for `O_DIRECT` writes, where the filesystem says.
    pub(crate) destination_align: Option<DirectAlign>,
    /// Reading the source with `O_DIRECT` goes to a disk as well.
    pub(crate) source_moves: bool,
    /// How the bytes behind the last whole block of a direct copy are written.
    pub(crate) tail: Tail,
}

/// Sets up a mechanism other than reflink, which has no steps.
pub(crate) fn mover(
    mechanism: Mechanism,
    ends: Ends<'_>,
    facts: &CopyFacts,
    setting: Setting,
) -> Sys<Box<dyn Mover>> {
    Ok(match mechanism {
        Mechanism::CopyFileRange => Box::new(copy_file_range::CopyFileRange::new(facts)),
        Mechanism::Direct => direct::mapped(ends, direct_cost(facts), setting)?,
        Mechanism::DirectRing => direct::ring(ends, direct_cost(facts), setting)?,
        Mechanism::Sendfile => Box::new(sendfile::Sendfile::default()),
        Mechanism::Splice => Box::new(splice::Splice::new()?),
        // The plan has no mechanism of another system.
        Mechanism::ReadWrite
        | Mechanism::Reflink
        | Mechanism::Clonefile
        | Mechanism::Fcopyfile
        | Mechanism::BlockClone
        | Mechanism::CopyFile2 => Box::new(read_write::ReadWrite::new(
            facts.size.unwrap_or(u64::MAX).min(facts.tuning.buffer_bytes()),
            facts.sparse == Sparse::Always,
            facts.in_place,
        )?),
    })
}

/// Cost of a byte that is written past the page cache.
fn direct_cost(facts: &CopyFacts) -> Cost {
    match facts.direct {
        DirectPath::Moves => Cost::Moved,
        DirectPath::Unknown => Cost::Unknown,
        DirectPath::Copies | DirectPath::None => Cost::KernelCopied,
    }
}
