//! Pools: memory of one end that its peer has mapped too, and that is used again.

use std::sync::Arc;

use crate::memory::{PoolMemory, PoolShape};
use crate::object::Vmo;
use crate::{MemoryRefusal, Status};
use uncopy_core::Errno;
use uncopy_os::mapping::SharedMapping;
use uncopy_os::memfd;

/// Maximum number of slots.
pub(super) const MAX_SLOTS: usize = 1024;

/// A pool of this end, and the memory to send to the peer: slots, and their states.
pub(super) fn make(shape: PoolShape) -> Result<(PoolMemory, [Vmo; 2]), Status> {
    let (data_bytes, state_bytes) = check(shape, u64::MAX)?;
    let (data, states) = (Vmo::new(data_bytes as u64)?, Vmo::new(state_bytes as u64)?);
    for memory in [&data, &states] {
        memfd::reserve(memory, 0, memory.size())?;
    }
    let mapped = SharedMapping::new(&data, data_bytes, true)?;
    // From now on nobody else can map it for writing.
    memfd::seal_future_writes(&data)?;
    let memory = PoolMemory::new(mapped, SharedMapping::new(&states, state_bytes, true)?, shape);
    Ok((memory.ok_or(Status::OutOfRange)?, [data, states]))
}

/// Checks a shape; returns the bytes of slots and of states.
fn check(shape: PoolShape, limit: u64) -> Result<(usize, usize), Status> {
    let is_sound = (1..=MAX_SLOTS).contains(&shape.slots)
        && shape.slot_bytes > 0
        && shape.slot_bytes.is_multiple_of(4096);
    let sizes = shape.data_bytes().zip(shape.state_bytes());
    let (data_bytes, state_bytes) = sizes.filter(|_| is_sound).ok_or(Status::OutOfRange)?;
    if data_bytes as u64 > limit {
        return Err(MemoryRefusal::TooLarge { bytes: data_bytes as u64, limit }.into());
    }
    Ok((data_bytes, state_bytes))
}

/// A pool of the peer.
pub(super) struct PeerPool {
    data: Vmo,
    memory: Arc<PoolMemory>,
}

impl PeerPool {
    /// Maps what the peer sent, after examining it.
    pub(super) fn accept(
        shape: PoolShape,
        memory: [Vmo; 2],
        limit: u64,
    ) -> Result<PeerPool, Status> {
        let (data_bytes, state_bytes) = check(shape, limit)?;
        let [data, states] = memory;
        for (memory, bytes) in [(&data, data_bytes), (&states, state_bytes)] {
            let facts = memfd::facts(memory)?;
            let bytes = bytes as u64;
            if facts.has_name {
                return Err(MemoryRefusal::NamedFile.into());
            }
            if facts.is_huge {
                return Err(MemoryRefusal::HugePages.into());
            }
            if facts.allocated < bytes {
                return Err(MemoryRefusal::HasHoles { bytes, allocated: facts.allocated }.into());
            }
        }
        let map = |memory, bytes, is_writable| {
            SharedMapping::new(memory, bytes, is_writable).map_err(|errno| match errno {
                Errno::EINVAL => MemoryRefusal::NotSealed.into(),
                other => Status::from(other),
            })
        };
        let (slots, flags) = (map(&data, data_bytes, false)?, map(&states, state_bytes, true)?);
        let memory = Arc::new(PoolMemory::new(slots, flags, shape).ok_or(Status::OutOfRange)?);
        Ok(PeerPool { data, memory })
    }

    /// Copies the first `length` bytes of a slot, and lets the peer use it again; `None` if there are fewer.
    pub(super) fn copy_out(&self, slot: usize, length: usize) -> Option<Result<Vec<u8>, Status>> {
        let PoolShape { slots, slot_bytes } = self.memory.shape();
        if slot >= slots || length > slot_bytes {
            return None;
        }
        let mut bytes = vec![0; length];
        let copied = self.data.read(&mut bytes, (slot * slot_bytes) as u64);
        self.memory.release(slot);
        Some(copied.map(|()| bytes))
    }

    pub(super) fn memory(&self) -> &Arc<PoolMemory> {
        &self.memory
    }
}
