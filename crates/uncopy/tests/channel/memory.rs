//! Memory that is sealed and lent, and memory that is filled inside the kernel.

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use uncopy::channel::{FillMechanism, MemoryRefusal, Object, Rights, Status, Vmo};

use crate::channel::{send_handles, socket_pair};

const SIZE: u64 = 3 * 4096;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

#[test]
fn sealed_memory_is_lent_here_and_over_a_socket() {
    for vmo in [Vmo::new(SIZE).unwrap(), Vmo::resizable(SIZE).unwrap()] {
        let bytes = pattern(SIZE as usize);
        vmo.write(&bytes[..9000], 0).unwrap();
        vmo.write(&bytes[9000..], 9000).unwrap();
        vmo.seal().unwrap();
        let (near, far) = socket_pair();
        send_handles(&near, vec![vmo.duplicate(None).unwrap().into()]).unwrap();
        let there = Vmo::try_from(far.read().unwrap().take_handles().remove(0)).unwrap();
        let lent = [vmo.map().unwrap(), there.map().unwrap()];
        drop((vmo, there, near, far));
        // The mappings keep it.
        assert!(lent.iter().all(|lent| **lent == *bytes));
    }
}

#[test]
fn sealed_memory_does_not_change() {
    for vmo in [Vmo::new(SIZE).unwrap(), Vmo::resizable(SIZE).unwrap()] {
        vmo.seal().unwrap();
        let lent = vmo.map().unwrap();
        let sealed = Err(MemoryRefusal::Sealed.into());
        assert_eq!(vmo.write(b"x", 0), sealed);
        assert_eq!(vmo.zero(0, 4096), sealed);
        assert_eq!(
            vmo.fill_from(0, std::fs::File::open("/dev/zero").unwrap(), 1).map(drop),
            sealed
        );
        if vmo.rights().contains(Rights::RESIZE) {
            assert_eq!(vmo.set_size(0), sealed);
        }
        assert_eq!(*lent, [0; SIZE as usize]);
    }
}

/// Whoever seals allocates the rest, not whoever reads.
#[test]
fn sealing_fills_holes() {
    let vmo = Vmo::new(SIZE).unwrap();
    vmo.write(b"middle", 5000).unwrap();
    vmo.seal().unwrap();
    vmo.examine(SIZE).unwrap();
    assert_eq!(Vmo::new(0).unwrap().seal(), Ok(()));
}

#[test]
fn rights_are_checked() {
    let vmo = Vmo::new(SIZE).unwrap();
    let reader = vmo.duplicate(Some(Rights::READ)).unwrap();
    assert_eq!(reader.seal(), Err(Status::AccessDenied));
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    assert_eq!(reader.fill_from(0, &zeros, 1).map(drop), Err(Status::AccessDenied));
    assert_eq!(vmo.fill_from(SIZE, &zeros, 1).map(drop), Err(Status::OutOfRange));
    vmo.seal().unwrap();
    for (rights, expected) in [
        (Rights::READ, Some(Status::AccessDenied)),
        (Rights::MAP, Some(Status::AccessDenied)),
        (Rights::READ | Rights::MAP, None),
    ] {
        assert_eq!(vmo.duplicate(Some(rights)).unwrap().map().err(), expected);
    }
}

#[test]
fn memory_is_filled_from_files_sockets_and_pipes() {
    let bytes = pattern(70_000);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    for (skip, offset, length) in [(0, 0, 70_000), (3, 5000, 60_001), (69_999, 1, 100)] {
        file.seek(SeekFrom::Start(skip)).unwrap();
        let vmo = Vmo::new(70_000).unwrap();
        let filled = vmo.fill_from(offset, &file, length).unwrap();
        assert_eq!(filled.bytes, length.min(70_000 - skip), "as far as the file goes");
        assert_eq!(filled.mechanism, FillMechanism::Splice);
        let mut seen = vec![0; filled.bytes as usize];
        vmo.read(&mut seen, offset).unwrap();
        assert_eq!(seen, bytes[skip as usize..skip as usize + seen.len()]);
    }

    let (mut near, far) = UnixStream::pair().unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| near.write_all(&bytes).unwrap());
        scope.spawn(|| writer.write_all(&bytes).unwrap());
        let vmo = Vmo::new(140_000).unwrap();
        assert_eq!(vmo.fill_from(0, &far, 70_000).unwrap().bytes, 70_000);
        assert_eq!(vmo.fill_from(70_000, &reader, 69_999).unwrap().bytes, 69_999);
        vmo.seal().unwrap();
        let lent = vmo.map().unwrap();
        assert!(lent[..70_000] == *bytes && lent[70_000..139_999] == bytes[..69_999]);
    });
    // Nothing was taken beyond what was wanted.
    let mut last = [0];
    reader.read_exact(&mut last).unwrap();
    assert_eq!(last[0], bytes[69_999]);
}

/// As an eventfd, on every kernel.
#[test]
fn a_source_that_cannot_be_spliced_is_read_into_the_memory() {
    let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
    let counter = eventfd(0, flags).unwrap();
    let vmo = Vmo::new(8192).unwrap();
    assert_eq!(vmo.fill_from(0, &counter, 4096).map(drop), Err(Status::ShouldWait));
    for offset in [0, 4093] {
        rustix::io::write(&counter, &7u64.to_ne_bytes()).unwrap();
        let filled = vmo.fill_from(offset, &counter, 4096).unwrap();
        assert_eq!((filled.bytes, filled.mechanism), (8, FillMechanism::MappedRead));
        let mut seen = [0; 8];
        vmo.read(&mut seen, offset).unwrap();
        assert_eq!(u64::from_ne_bytes(seen), 7);
    }
    // The window is gone.
    vmo.seal().unwrap();
}

/// Between messages that a socket keeps apart.
#[test]
fn a_source_without_more_for_now_ends_the_filling() {
    let (near, far) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let vmo = Vmo::new(8192).unwrap();
    assert_eq!(vmo.fill_from(0, &far, 4096).map(drop), Err(Status::ShouldWait));
    for message in [&b"first"[..], b"second"] {
        rustix::net::send(&near, message, SendFlags::empty()).unwrap();
    }
    assert_eq!(vmo.fill_from(4093, &far, 4096).unwrap().bytes, 11);
    let mut seen = [0; 11];
    vmo.read(&mut seen, 4093).unwrap();
    assert_eq!(&seen, b"firstsecond");
}
