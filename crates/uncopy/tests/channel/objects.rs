//! Sizes of fifos and of memory.

use std::os::fd::AsFd;

use uncopy::channel::{Fifo, Object, Rights, Status, Vmo};

#[test]
fn fifos_of_invalid_sizes_are_refused() {
    for (count, size, expected) in [
        (1, 1, None),
        (512, 8, None),
        (1, 4096, None),
        (0, 8, Some(Status::OutOfRange)),
        (8, 0, Some(Status::OutOfRange)),
        (513, 8, Some(Status::OutOfRange)),
        (usize::MAX, 2, Some(Status::OutOfRange)),
    ] {
        assert_eq!(Fifo::pair(count, size).err(), expected, "{count} x {size}");
    }
}

#[test]
fn memory_is_shared_by_duplicates_and_bounded_by_its_size() {
    let vmo = Vmo::new(5000).unwrap();
    assert_eq!(vmo.size(), 8192);
    let reader = vmo.duplicate(Some(Rights::READ)).unwrap();
    vmo.write(b"shared", 8186).unwrap();
    let mut bytes = [0; 6];
    reader.read(&mut bytes, 8186).unwrap();
    assert_eq!(&bytes, b"shared");
    assert_eq!(reader.write(b"x", 0), Err(Status::AccessDenied));
    assert_eq!(reader.read(&mut bytes, 8187), Err(Status::OutOfRange));
    assert_eq!(vmo.write(b"xx", u64::MAX), Err(Status::OutOfRange));
    assert_eq!(Vmo::new(u64::MAX).map(drop), Err(Status::OutOfRange));
}

#[test]
fn the_size_of_fixed_memory_cannot_be_changed_through_the_descriptor() {
    let vmo = Vmo::new(8192).unwrap();
    assert!(!vmo.rights().contains(Rights::RESIZE));
    assert_eq!(vmo.set_size(4096), Err(Status::AccessDenied));
    for size in [4096, 16_384] {
        assert_eq!(rustix::fs::ftruncate(vmo.as_fd(), size), Err(rustix::io::Errno::PERM));
    }
}

/// In this process and, over a socket, as in another.
#[test]
fn a_new_size_applies_to_all_handles() {
    let vmo = Vmo::resizable(5000).unwrap();
    vmo.write(b"old", 4096).unwrap();
    let twin = vmo.duplicate(None).unwrap();
    let poor = vmo.duplicate(Some(Rights::READ | Rights::WRITE)).unwrap();
    let (near, far) = crate::channel::socket_pair();
    near.write(&[], vec![vmo.duplicate(None).unwrap().into()]).unwrap();
    let there = Vmo::try_from(far.read().unwrap().take_handles().remove(0)).unwrap();
    assert!(there.rights().contains(Rights::RESIZE));
    assert_eq!(poor.set_size(0), Err(Status::AccessDenied));
    assert_eq!(vmo.set_size(u64::MAX), Err(Status::OutOfRange));
    for (size, pages) in [(20_000, 5), (4096, 1), (0, 0), (4097, 2)] {
        there.set_size(size).unwrap();
        for vmo in [&vmo, &twin, &poor, &there] {
            assert_eq!(vmo.size(), pages * 4096);
            assert_eq!(vmo.write(b"xx", pages * 4096 - pages.min(1)), Err(Status::OutOfRange));
            assert_eq!(vmo.read(&mut [0; 2], pages * 4096), Err(Status::OutOfRange));
        }
    }
    let mut bytes = [1; 3];
    vmo.read(&mut bytes, 4096).unwrap();
    assert_eq!(bytes, [0; 3], "what was cut off is gone");
    // Another process may shrink it through the descriptor: an error, never a signal.
    rustix::fs::ftruncate(there.as_fd(), 100).unwrap();
    assert_eq!(vmo.read(&mut [0; 8], 4096), Err(Status::OutOfRange));
}
