//! Sealed memory, which is mapped and lent as bytes.

use std::fmt;
use std::ops::Deref;

use super::Vmo;
use crate::rights::Rights;
use crate::{MemoryRefusal, Status};
use uncopy_core::Errno;
use uncopy_os::mapping::SealedMapping;
use uncopy_os::memfd;

/// Bytes of sealed memory, mapped. They keep the memory, whatever happens to handles of it.
///
/// No process can change them. An access raises SIGBUS if the kernel has lost a page (a hardware fault), or if memory
/// ran out for a page that was not allocated; [`Vmo::map`] refuses memory with such pages.
pub struct SealedBytes(SealedMapping);

impl Deref for SealedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for SealedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for SealedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedBytes").field("bytes", &self.len()).finish_non_exhaustive()
    }
}

impl Vmo {
    /// Seals size and contents for every process (`F_SEAL_SHRINK`, `F_SEAL_GROW`, `F_SEAL_WRITE`), after allocating
    /// what was never written. This cannot be undone.
    ///
    /// ```
    /// use uncopy::channel::{MemoryRefusal, Status, Vmo};
    ///
    /// let memory = Vmo::new(4096)?;
    /// memory.write(b"for ever", 0)?;
    /// assert_eq!(memory.map().unwrap_err(), Status::Memory(MemoryRefusal::NotSealed));
    /// memory.seal()?;
    /// let bytes = memory.map()?;
    /// assert_eq!(&bytes[..8], b"for ever");
    /// # Ok::<(), Status>(())
    /// ```
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`MemoryRefusal::InUse`] while a process has mapped it for
    /// writing, or a device or a pipe holds its pages; [`MemoryRefusal::Unsealable`] for memory of another library
    /// that takes no seals; [`Status::NoMemory`].
    pub fn seal(&self) -> Result<(), Status> {
        self.grant.check(Rights::WRITE)?;
        let facts = memfd::facts(self)?;
        if facts.is_sealed {
            return Ok(());
        }
        if facts.allocated < facts.size {
            memfd::reserve(self, 0, facts.size)?;
        }
        memfd::seal(self).map_err(|errno| match errno {
            Errno::EBUSY => MemoryRefusal::InUse.into(),
            Errno::EPERM => MemoryRefusal::Unsealable.into(),
            other => other.into(),
        })
    }

    /// Checks that [`map`](Self::map) can lend the memory, and that it has at most `limit` bytes.
    ///
    /// # Errors
    /// Each of these, in this order: [`MemoryRefusal::NamedFile`], [`MemoryRefusal::HugePages`],
    /// [`MemoryRefusal::NotSealed`], [`MemoryRefusal::TooLarge`], [`MemoryRefusal::HasHoles`].
    pub fn examine(&self, limit: u64) -> Result<(), Status> {
        let facts = memfd::facts(self)?;
        let refusal = match facts {
            _ if facts.has_name => MemoryRefusal::NamedFile,
            _ if facts.is_huge => MemoryRefusal::HugePages,
            _ if !facts.is_sealed => MemoryRefusal::NotSealed,
            _ if facts.size > limit => MemoryRefusal::TooLarge { bytes: facts.size, limit },
            _ if facts.allocated < facts.size => {
                MemoryRefusal::HasHoles { bytes: facts.size, allocated: facts.allocated }
            }
            _ => return Ok(()),
        };
        Err(refusal.into())
    }

    /// Maps sealed memory, to be read in place. It may come from a peer that is not trusted.
    ///
    /// Memory that is not sealed is not lent, even if it can no longer be mapped for writing (`F_SEAL_FUTURE_WRITE`):
    /// an older mapping may still change it. [`read`](Self::read) copies out of it.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`] and [`Rights::MAP`]; as [`examine`](Self::examine);
    /// [`Status::NoMemory`].
    pub fn map(&self) -> Result<SealedBytes, Status> {
        self.map_at_most(u64::MAX)
    }

    /// Maps as [`map`](Self::map) does, if the memory has at most `limit` bytes.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn map_at_most(&self, limit: u64) -> Result<SealedBytes, Status> {
        self.grant.check(Rights::READ | Rights::MAP)?;
        self.examine(limit)?;
        Ok(SealedBytes(SealedMapping::new(self)?))
    }
}
