//! Memory of a peer that wants its reader to crash, to pay, or to check what changes afterwards.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::io::{Errno, pwrite};
use testbed::KernelFeature;
use uncopy::channel::{MemoryRefusal, Rights, Status, Vmo};

use super::{send, victim};
use crate::alone;

/// All that a sealed memory file of uncopy has.
const ALL: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE);
const SIZE: u64 = 8192;

fn memory(flags: MemfdFlags, size: u64) -> OwnedFd {
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create("hostile", flags).unwrap();
    ftruncate(&fd, size).unwrap();
    fd
}

fn allocated(fd: &OwnedFd) -> u64 {
    fstat(fd).unwrap().st_blocks as u64 * 512
}

/// Has a victim receive `fd` as memory with all rights.
fn received(fd: &OwnedFd) -> Result<Vmo, Status> {
    let (victim, peer) = victim();
    let mut packet = vec![0xc1, 0, 1, 0, 0, 0, 0, 0, 3, 1, 0, 0];
    packet.extend(Rights::VMO.bits().to_ne_bytes());
    packet.extend([0; 8]);
    send(&peer, &packet, &[fd.try_clone().unwrap()]).unwrap();
    Ok(Vmo::try_from(victim.read()?.take_handles().remove(0)).unwrap())
}

fn refused(fd: &OwnedFd, refusal: MemoryRefusal) {
    let memory = received(fd).unwrap();
    assert_eq!(memory.map().unwrap_err(), Status::Memory(refusal));
    assert_eq!(memory.examine(u64::MAX), Err(refusal.into()));
    assert_eq!(refusal.status().code(), Status::Memory(refusal).code());
}

#[test]
fn sealed_memory_of_a_peer_is_lent_and_the_peer_cannot_change_it() {
    let _alone = alone();
    let fd = memory(MemfdFlags::empty(), SIZE);
    pwrite(&fd, &[3; SIZE as usize], 0).unwrap();
    fcntl_add_seals(&fd, ALL).unwrap();
    let bytes = received(&fd).unwrap().map().unwrap();
    assert_eq!(*bytes, [3; SIZE as usize]);
    assert_eq!(pwrite(&fd, b"x", 0), Err(Errno::PERM));
    assert_eq!(ftruncate(&fd, 0), Err(Errno::PERM));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(&fd, punch, 0, SIZE), Err(Errno::PERM));
    // Nothing but the mapping holds the memory now.
    drop(fd);
    assert_eq!(*bytes, [3; SIZE as usize]);
}

/// Every set of seals but the whole one leaves a way to change what was checked, or to cut it off.
#[test]
fn memory_that_a_peer_could_still_change_is_not_lent() {
    let _alone = alone();
    let most = SealFlags::SHRINK | SealFlags::GROW;
    let sets = [
        SealFlags::empty(),
        SealFlags::SEAL,
        most,
        SealFlags::SHRINK | SealFlags::WRITE,
        SealFlags::GROW | SealFlags::WRITE,
        most | SealFlags::FUTURE_WRITE,
    ];
    for seals in sets {
        let fd = memory(MemfdFlags::empty(), SIZE);
        pwrite(&fd, &[0; SIZE as usize], 0).unwrap();
        fcntl_add_seals(&fd, seals).unwrap();
        refused(&fd, MemoryRefusal::NotSealed);
        // Copying out of it is safe.
        received(&fd).unwrap().read(&mut [0; 16], SIZE - 16).unwrap();
    }
}

#[test]
fn a_named_file_of_a_memory_filesystem_is_not_lent() {
    let _alone = alone();
    let Ok(file) = tempfile::NamedTempFile::new_in(Path::new("/dev/shm")) else { return };
    let fd: OwnedFd = file.reopen().unwrap().into();
    ftruncate(&fd, SIZE).unwrap();
    if received(&fd).is_ok() {
        refused(&fd, MemoryRefusal::NamedFile);
    }
}

#[test]
fn huge_pages_are_not_lent() {
    let _alone = alone();
    // None need be reserved: their absence would kill the reader.
    let flags = MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
    let Ok(fd) = memfd_create("hostile", flags) else { return };
    ftruncate(&fd, 2 << 20).unwrap();
    fcntl_add_seals(&fd, ALL).unwrap();
    refused(&fd, MemoryRefusal::HugePages);
}

#[test]
fn what_is_no_memory_file_ends_the_channel() {
    let _alone = alone();
    let file = tempfile::tempfile().unwrap();
    file.set_len(SIZE).unwrap();
    let mut descriptors: Vec<OwnedFd> = vec![file.into()];
    if let Some(secret) = testbed::secret_memory() {
        ftruncate(&secret, SIZE).unwrap();
        descriptors.push(secret);
    }
    for fd in &descriptors {
        assert_eq!(received(fd).unwrap_err(), Status::PeerClosed, "{}", fd.as_raw_fd());
    }
}

#[test]
fn memory_above_the_limit_of_the_receiver_is_refused() {
    let _alone = alone();
    let fd = memory(MemfdFlags::empty(), SIZE);
    pwrite(&fd, &[0; SIZE as usize], 0).unwrap();
    fcntl_add_seals(&fd, ALL).unwrap();
    let memory = received(&fd).unwrap();
    let refusal = MemoryRefusal::TooLarge { bytes: SIZE, limit: SIZE - 1 };
    assert_eq!(memory.map_at_most(SIZE - 1).unwrap_err(), refusal.into());
    assert_eq!(memory.map_at_most(SIZE).unwrap().len(), SIZE as usize);
}

/// Reading the holes of a sealed file would allocate them, and charge the reader.
#[test]
fn holes_are_not_allocated_at_the_cost_of_the_reader() {
    let _alone = alone();
    for (size, filled) in [(256 << 20, 0), (SIZE, 4096)] {
        let fd = memory(MemfdFlags::empty(), size);
        pwrite(&fd, &vec![0; filled], 0).unwrap();
        fcntl_add_seals(&fd, ALL).unwrap();
        let refusal = MemoryRefusal::HasHoles { bytes: size, allocated: filled as u64 };
        refused(&fd, refusal);
        received(&fd).unwrap().read(&mut vec![1; 8192], size - 8192).unwrap();
        assert_eq!(allocated(&fd), filled as u64);
    }
}

/// Blocks behind the end do not count: the seals do not keep the peer from freeing them once the memory is mapped.
#[test]
fn blocks_behind_the_end_hide_no_holes() {
    testbed::need(KernelFeature::CacheState);
    let _alone = alone();
    for (filled, behind) in [(0, SIZE), (4096, 4096), (0, 64 << 20), (SIZE, SIZE)] {
        let fd = memory(MemfdFlags::empty(), SIZE);
        pwrite(&fd, &vec![3; filled as usize], 0).unwrap();
        fallocate(&fd, FallocateFlags::KEEP_SIZE, SIZE, behind).unwrap();
        fcntl_add_seals(&fd, ALL).unwrap();
        assert_eq!(allocated(&fd), filled + behind);
        if filled == SIZE {
            assert_eq!(*received(&fd).unwrap().map().unwrap(), [3; SIZE as usize]);
        } else {
            refused(&fd, MemoryRefusal::HasHoles { bytes: SIZE, allocated: filled });
        }
        ftruncate(&fd, SIZE).unwrap();
        assert_eq!(allocated(&fd), filled);
    }
}

/// A peer cannot seal while somebody writes, so that its lender is not surprised either.
#[test]
fn memory_is_not_sealed_while_it_can_be_written() {
    let _alone = alone();
    let vmo = Vmo::new(SIZE).unwrap();
    let (read, write) = std::io::pipe().unwrap();
    // The pipe holds a page of it.
    vmo.write(&[1; SIZE as usize], 0).unwrap();
    let flags = rustix::pipe::SpliceFlags::empty();
    let moved = rustix::pipe::splice(vmo.as_fd(), Some(&mut 0), &write, None, 4096, flags).unwrap();
    assert_eq!(moved, 4096);
    assert_eq!(vmo.seal(), Err(MemoryRefusal::InUse.into()));
    rustix::io::read(&read, &mut [0; 4096]).unwrap();
    vmo.seal().unwrap();
    vmo.seal().unwrap();
}
