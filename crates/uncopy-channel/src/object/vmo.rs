//! Memory objects (VMOs), which move to other processes as descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::solo::{Solo, lone, solo};
use crate::identity::Kind;
use crate::rights::{Grant, Rights};
use crate::signals::Signals;
use crate::sync::{Arc, Mutex, lock};
use crate::transport::parcel::Parts;
use crate::{MemoryRefusal, Status};
use uncopy_core::Errno;
use uncopy_os::{file, memfd};

mod filling;
mod sealed;

pub use filling::{FillMechanism, Filled};
pub use sealed::SealedBytes;

/// Page size; sizes are rounded up to whole pages, as in Zircon.
const PAGE_BYTES: u64 = 4096;
/// Maximum length of a name (`ZX_MAX_NAME_LEN` without the final zero).
const MAX_NAME_BYTES: usize = 31;

struct Core {
    solo: Arc<Solo>,
    memory: OwnedFd,
    /// Size in bytes, if it cannot change.
    fixed_size: Option<u64>,
    /// Stream size (`ZX_PROP_VMO_CONTENT_SIZE`), if the program set it.
    stream_size: Mutex<Option<u64>>,
    name: Mutex<Vec<u8>>,
}

impl Core {
    fn new(memory: OwnedFd, fixed_size: Option<u64>, stream_size: Option<u64>) -> Core {
        let stream_size = Mutex::new(stream_size);
        Core { solo: Solo::new(), memory, fixed_size, stream_size, name: Mutex::default() }
    }
}

/// Memory (a memfd). It is read and written by system calls, so that no process that shares it can crash
/// this one by shrinking it. Only [sealed](Self::seal) memory is [mapped](Self::map).
pub struct Vmo {
    core: Arc<Core>,
    grant: Grant,
}

impl Vmo {
    /// Makes memory of at least `size` zero bytes, rounded up to pages of 4,096.
    ///
    /// # Errors
    /// [`Status::OutOfRange`] above 2⁶³ bytes; [`Status::NoResources`] if descriptors run
    /// out; [`Status::NoMemory`].
    pub fn new(size: u64) -> Result<Vmo, Status> {
        let whole = whole_pages(size)?;
        let core = Core::new(memfd::create(whole)?, Some(whole), Some(size));
        Ok(Vmo { core: Arc::new(core), grant: Grant::new(Rights::VMO) })
    }

    /// Makes memory as [`new`](Self::new) does, with [`Rights::RESIZE`]: its size can be changed
    /// (`ZX_VMO_RESIZABLE`).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn resizable(size: u64) -> Result<Vmo, Status> {
        let core = Core::new(memfd::create_resizable(whole_pages(size)?)?, None, Some(size));
        let rights = Rights::VMO.union(Rights::RESIZE);
        Ok(Vmo { core: Arc::new(core), grant: Grant::new(rights) })
    }

    /// Changes the size to at least `size` bytes, rounded up to pages, for all handles, and the stream
    /// size to `size`. Bytes from there on are zero.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`] and [`Rights::RESIZE`], which memory of a
    /// fixed size does not have; [`Status::OutOfRange`] above 2⁶³ bytes; [`MemoryRefusal::Sealed`];
    /// [`Status::NoMemory`].
    pub fn set_size(&self, size: u64) -> Result<(), Status> {
        self.grant.check(Rights::WRITE | Rights::RESIZE)?;
        let (memory, whole) = (&self.core.memory, whole_pages(size)?);
        let mut stream_size = lock(&self.core.stream_size);
        memfd::resize(memory, whole).map_err(unless_sealed)?;
        if whole > size {
            memfd::zero(memory, size, whole - size).map_err(unless_sealed)?;
        }
        *stream_size = Some(size);
        Ok(())
    }

    /// Returns the parts to send to another process: the memory itself.
    pub(crate) fn depart(&self) -> Result<Parts, Status> {
        let fd = file::duplicate(&self.core.memory)?;
        Ok(Parts { fds: vec![fd], extra: self.core.solo.signals().bits().into() })
    }

    /// Makes a VMO of what another process sent, if that is memory.
    pub(crate) fn arrive(parts: Parts, rights: Rights) -> Option<Vmo> {
        let [memory] = <[OwnedFd; 1]>::try_from(parts.fds).ok()?;
        let size = memfd::size(&memory).ok()?;
        let fixed_size = memfd::is_fixed(&memory).ok()?.then_some(size);
        let solo = Solo::new();
        let signals = Signals::from_bits_truncate(parts.extra as u32);
        solo.change(Signals::USER_ALL, Signals::empty(), signals & Signals::USER_ALL).ok()?;
        let core = Core { solo, ..Core::new(memory, fixed_size, None) };
        Some(Vmo { core: Arc::new(core), grant: Grant::new(rights) })
    }

    /// Returns the size in bytes, which is a multiple of 4,096 unless another process changed it. For
    /// resizable memory, returns its current size.
    #[must_use]
    pub fn size(&self) -> u64 {
        let now = || memfd::size(&self.core.memory).unwrap_or(0);
        self.core.fixed_size.unwrap_or_else(now)
    }

    /// Whether its size can change; a process that has its descriptor may then do that, whatever its rights.
    #[must_use]
    pub fn is_resizable(&self) -> bool {
        // Memory is sealed against that at any time.
        self.core.fixed_size.is_none() && !memfd::is_fixed(&self.core.memory).unwrap_or(false)
    }

    /// Returns the stream size: the size given at creation, or to [`set_size`](Self::set_size) or
    /// [`set_stream_size`](Self::set_stream_size) in this process; at most the size.
    #[must_use]
    pub fn stream_size(&self) -> u64 {
        let size = self.size();
        lock(&self.core.stream_size).map_or(size, |stream_size| stream_size.min(size))
    }

    /// Sets the stream size; changes no bytes.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::OutOfRange`] above its size.
    pub fn set_stream_size(&self, size: u64) -> Result<(), Status> {
        self.grant.check(Rights::WRITE)?;
        self.store_stream_size(size)
    }

    /// Sets the stream size as a property.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::SET_PROPERTY`]; [`Status::OutOfRange`].
    pub fn set_content_size(&self, size: u64) -> Result<(), Status> {
        self.grant.check(Rights::SET_PROPERTY)?;
        self.store_stream_size(size)
    }

    fn store_stream_size(&self, size: u64) -> Result<(), Status> {
        if size > self.size() {
            return Err(Status::OutOfRange);
        }
        *lock(&self.core.stream_size) = Some(size);
        Ok(())
    }

    /// Zeroes a range. Whole pages in it use no memory until they are written again.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::OutOfRange`] if the range
    /// ends beyond the end; [`MemoryRefusal::Sealed`].
    pub fn zero(&self, offset: u64, length: u64) -> Result<(), Status> {
        self.grant.check(Rights::WRITE)?;
        self.check_range(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        memfd::zero(&self.core.memory, offset, length).map_err(unless_sealed)
    }

    /// Allocates the memory of a range now.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::OutOfRange`] if the range
    /// ends beyond the end; [`Status::NoMemory`].
    pub fn commit(&self, offset: u64, length: u64) -> Result<(), Status> {
        self.grant.check(Rights::WRITE)?;
        self.check_range(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        Ok(memfd::reserve(&self.core.memory, offset, length)?)
    }

    /// Returns the name that [`set_name`](Self::set_name) set in this process; empty at first.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        lock(&self.core.name).clone()
    }

    /// Sets the name, for debugging.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::SET_PROPERTY`]; [`Status::OutOfRange`] above 31
    /// bytes.
    pub fn set_name(&self, name: &[u8]) -> Result<(), Status> {
        self.grant.check(Rights::SET_PROPERTY)?;
        if name.len() > MAX_NAME_BYTES {
            return Err(Status::OutOfRange);
        }
        *lock(&self.core.name) = name.to_vec();
        Ok(())
    }

    /// Reads from `offset` into all of `bytes`.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::OutOfRange`] if it goes beyond
    /// the end.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Status> {
        self.grant.check(Rights::READ)?;
        self.check_range(offset, bytes.len() as u64)?;
        Ok(memfd::read_exact_at(&self.core.memory, bytes, offset)?)
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::OutOfRange`] if the range
    /// ends beyond the end; [`MemoryRefusal::Sealed`]; [`Status::NoMemory`].
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Status> {
        self.grant.check(Rights::WRITE)?;
        self.check_range(offset, bytes.len() as u64)?;
        memfd::write_all_at(&self.core.memory, bytes, offset).map_err(unless_sealed)
    }

    /// Checks that a range lies within the memory.
    ///
    /// # Errors
    /// [`Status::OutOfRange`] if it does not.
    pub fn check_range(&self, offset: u64, length: u64) -> Result<(), Status> {
        let end = offset.checked_add(length);
        if end.is_some_and(|end| end <= self.size()) { Ok(()) } else { Err(Status::OutOfRange) }
    }
}

/// Converts the error of a change of size or contents.
fn unless_sealed(errno: Errno) -> Status {
    if errno == Errno::EPERM { MemoryRefusal::Sealed.into() } else { errno.into() }
}

fn whole_pages(size: u64) -> Result<u64, Status> {
    let size = size.checked_next_multiple_of(PAGE_BYTES).ok_or(Status::OutOfRange)?;
    i64::try_from(size).map_err(|_| Status::OutOfRange)?;
    Ok(size)
}

impl AsFd for Vmo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.core.memory.as_fd()
    }
}

lone!(Vmo);
solo!(Vmo, Kind::Vmo, Signals::USER_ALL);
