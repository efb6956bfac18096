//! Memory in messages: a handle and a size.

use std::fmt;
use std::ops::Deref;

use uncopy_channel::{Handle, MemoryRefusal, SealedBytes, Status, Vmo};
use uncopy_fidl::{Fidl, ObjectType, OwnedHandle};

use crate::handle::FidlHandle;

/// Unit in which memory is mapped; sizes of memory are multiples of it.
const PAGE_BYTES: u64 = 4096;

/// Bytes in memory, as a field of a message: `fuchsia.mem.Buffer`, a handle to memory (a [`Vmo`]) and the number of its
/// bytes that count, from the first one on.
///
/// A message carries the handle only, so the bytes may be more than the 64 KiB of a message. The receiver can read all of
/// the memory, also what lies behind the bytes that count.
///
/// ```
/// use uncopy::channel::{MemoryRefusal, Status, Vmo};
/// use uncopy_fidl_channel::MemoryBuffer;
///
/// let memory = Vmo::new(1 << 20)?;
/// memory.write(b"by handle", 0)?;
/// let buffer = MemoryBuffer::sealed(memory, 9)?;
/// assert_eq!(&*buffer.lend(1 << 20)?, b"by handle");
///
/// // Holders of unsealed memory may change it at any time: it can be copied only.
/// let buffer = MemoryBuffer::new(Vmo::new(1 << 20)?, 9)?;
/// assert_eq!(buffer.lend(1 << 20).unwrap_err(), Status::Memory(MemoryRefusal::NotSealed));
/// assert_eq!(buffer.copy(1 << 20)?, [0; 9]);
/// # Ok::<(), Status>(())
/// ```
#[derive(Debug, Fidl)]
#[fidl(resource = FidlHandle)]
pub struct MemoryBuffer {
    #[fidl(kind = ObjectType::VMO)]
    vmo: OwnedHandle<FidlHandle>,
    size: u64,
}

impl MemoryBuffer {
    /// Makes a buffer of the first `size` bytes of `memory`, and leaves the memory as it is. If it is not
    /// [sealed](Vmo::seal), all its holders may change it, and the receiver can only [copy](Self::copy) the bytes.
    ///
    /// # Errors
    /// [`Status::OutOfRange`] if the memory is shorter; it is closed.
    pub fn new(memory: Vmo, size: u64) -> Result<MemoryBuffer, Status> {
        memory.check_range(0, size)?;
        Ok(MemoryBuffer { vmo: FidlHandle::new(memory).into(), size })
    }

    /// Makes a buffer as [`new`](Self::new) does, of memory that it [seals](Vmo::seal) first, so that the receiver can
    /// [lend](Self::lend) the bytes.
    ///
    /// # Errors
    /// As [`new`](Self::new) and [`Vmo::seal`]; the memory is closed.
    pub fn sealed(memory: Vmo, size: u64) -> Result<MemoryBuffer, Status> {
        memory.check_range(0, size)?;
        memory.seal()?;
        MemoryBuffer::new(memory, size)
    }

    /// Returns the number of bytes, as its sender states it: it may be more than the memory has.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Maps sealed memory, and lends its bytes where they are. The memory may come from a peer that is not trusted.
    ///
    /// `limit` bounds the size, and, in whole pages of 4,096 bytes and at least one, the memory that is mapped.
    ///
    /// # Errors
    /// [`MemoryRefusal::TooLarge`] above the limit; as [`Vmo::map`], [`MemoryRefusal::NotSealed`] among them;
    /// [`Status::OutOfRange`] if the memory is shorter than the size; [`Status::WrongType`] if a descriptor came in
    /// its place; [`Status::BadHandle`] if the handle was sent.
    pub fn lend(&self, limit: u64) -> Result<BufferBytes, Status> {
        let (memory, length) = self.within(limit)?;
        let whole = limit.max(1).checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        let memory = memory.map_at_most(whole)?;
        // Looked at last: until it is sealed, its size can change.
        if length > memory.len() {
            return Err(Status::OutOfRange);
        }
        Ok(BufferBytes { memory, length })
    }

    /// Copies the bytes out of memory, sealed or not. Other holders of unsealed memory may change it meanwhile, but not
    /// the copy: check that.
    ///
    /// # Errors
    /// [`MemoryRefusal::TooLarge`] above the limit; [`Status::OutOfRange`] if the memory is shorter than the size;
    /// [`Status::AccessDenied`] without the right to read; [`Status::NoMemory`]; [`Status::Io`] if the memory becomes
    /// shorter meanwhile; [`Status::WrongType`] if a descriptor came in its place; [`Status::BadHandle`] if the handle
    /// was sent.
    pub fn copy(&self, limit: u64) -> Result<Vec<u8>, Status> {
        let (memory, length) = self.within(limit)?;
        memory.check_range(0, self.size)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| Status::NoMemory)?;
        bytes.resize(length, 0);
        memory.read(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Returns the memory, about which nothing has been checked.
    ///
    /// # Errors
    /// [`Status::WrongType`] for a descriptor; [`Status::BadHandle`] if the handle was sent.
    pub fn into_memory(self) -> Result<Vmo, Status> {
        let handle = self.vmo.into_inner().ok_or(Status::BadHandle)?;
        Vmo::try_from(handle.into_inner()).map_err(|_| Status::WrongType)
    }

    /// Returns the memory and the size, if that is within the limit.
    fn within(&self, limit: u64) -> Result<(&Vmo, usize), Status> {
        let memory = match self.vmo.get().ok_or(Status::BadHandle)?.as_inner() {
            Handle::Vmo(memory) => memory,
            // A descriptor: Zircon has no number for its kind, so that fields of any kind accept it.
            _ => return Err(Status::WrongType),
        };
        if self.size > limit {
            return Err(MemoryRefusal::TooLarge { bytes: self.size, limit }.into());
        }
        Ok((memory, usize::try_from(self.size).map_err(|_| Status::NoMemory)?))
    }
}

/// Bytes of a [`MemoryBuffer`], in sealed memory that is mapped. They keep the memory, and no process can change them
/// ([`SealedBytes`]).
pub struct BufferBytes {
    memory: SealedBytes,
    length: usize,
}

impl Deref for BufferBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl AsRef<[u8]> for BufferBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for BufferBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferBytes").field("bytes", &self.length).finish_non_exhaustive()
    }
}
