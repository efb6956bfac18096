//! How many bytes each operation copies that sends over a socket.

use std::io::IoSlice;
use std::time::Duration;

use crate::memory::count::copied;
use crate::{BatchRegion, Channel, Deadline, Disposition, Event, MAX_BYTES};

/// Bytes in front of those of the program: header, and the transaction id of a call.
const HEADER: usize = 8;
const TXID: usize = 4;
/// Bytes that stand for one handle.
const RECORD: usize = 16;

fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    (near, Channel::from_fd(far.into_fd().unwrap()).unwrap())
}

/// Divides `bytes` into `count` regions of almost the same length; some are empty if there are more.
fn regions(bytes: &[u8], count: usize) -> Vec<IoSlice<'_>> {
    let end = |index: usize| bytes.len() * index / count;
    (0..count).map(|index| IoSlice::new(&bytes[end(index)..end(index + 1)])).collect()
}

/// A message, and the bytes of its own that are copied.
struct Row {
    bytes: usize,
    regions: usize,
    written: usize,
    /// In a call, whose transaction id takes the place of the first four bytes.
    called: usize,
    /// Bytes of the record of a handle.
    record: usize,
}

const fn row(bytes: usize, regions: usize, written: usize, called: usize, record: usize) -> Row {
    Row { bytes, regions, written, called, record }
}

/// Small regions are copied, and large ones not. The record of a handle is copied to small regions.
const TABLE: [Row; 18] = [
    row(256, 1, 256, 252, RECORD),
    row(256, 16, 256, 252, RECORD),
    row(256, 64, 256, 252, RECORD),
    row(256, 1024, 256, 252, RECORD),
    row(256, 1025, 256, 252, RECORD),
    row(256, 8192, 256, 252, RECORD),
    row(4096, 1, 0, 0, 0),
    row(4096, 16, 4096, 4092, RECORD),
    row(4096, 64, 4096, 4092, RECORD),
    row(4096, 1024, 4096, 4092, RECORD),
    row(4096, 1025, 4096, 4092, RECORD),
    row(4096, 8192, 4096, 4092, RECORD),
    row(65_536, 1, 0, 0, 0),
    row(65_536, 16, 0, 0, 0),
    row(65_536, 64, 65_536, 65_532, RECORD),
    row(65_536, 1024, 65_536, 65_532, RECORD),
    row(65_536, 1025, 65_536, 65_532, RECORD),
    row(65_536, 8192, 65_536, 65_532, RECORD),
];

/// Receives a message and compares everything behind the first `skipped` bytes.
fn receive(channel: &Channel, expected: &[u8], skipped: usize) {
    let message = channel.read().unwrap();
    assert!(message.len() == expected.len() && message[skipped..] == expected[skipped..]);
}

#[test]
fn each_operation_copies_small_regions_and_nothing_else() {
    let bytes: Vec<u8> = (0..MAX_BYTES).map(|n| (n % 251) as u8).collect();
    let (near, far) = socket_pair();
    let past = || Deadline::after(Duration::ZERO);
    let event = || Disposition::moving(Event::new());
    for Row { bytes: length, regions: count, written, called, record } in TABLE {
        let what = format!("{length} bytes in {count}");
        let bytes = &bytes[..length];
        let regions = regions(bytes, count);
        let write = copied(|| near.write(&regions, vec![]).unwrap());
        assert_eq!(write, HEADER + written, "write of {what}");
        receive(&far, bytes, 0);
        let write = copied(|| near.write_etc(&regions, &mut [event()]).unwrap());
        assert_eq!(write, HEADER + written + record, "write_etc of {what}");
        receive(&far, bytes, 0);
        let call = copied(|| assert!(near.call(&regions, vec![], past()).is_err()));
        assert_eq!(call, HEADER + TXID + called, "call of {what}");
        receive(&far, bytes, TXID);
        let call = copied(|| assert!(near.call_etc(&regions, &mut [event()], past()).is_err()));
        assert_eq!(call, HEADER + TXID + called + record, "call_etc of {what}");
        receive(&far, bytes, TXID);
    }
}

#[test]
fn a_batch_copies_as_much_as_its_messages() {
    let bytes: Vec<u8> = (0..MAX_BYTES).map(|n| (n % 251) as u8).collect();
    let (near, far) = socket_pair();
    for row in TABLE.iter().filter(|row| row.regions <= 2048) {
        let bytes = &bytes[..row.bytes];
        let region = |message| move |bytes: &IoSlice<'_>| (message, bytes.to_vec());
        let regions = regions(bytes, row.regions);
        let messages = (0..3).flat_map(|message| regions.iter().map(region(message)));
        let messages: Vec<_> = messages.collect();
        let flat: Vec<_> = messages
            .iter()
            .map(|(message, bytes)| BatchRegion { bytes, message: *message, handles: 0 })
            .collect();
        let written = copied(|| assert_eq!(near.write_batch(&flat, &mut vec![]), Ok(3)));
        assert_eq!(written, 3 * (HEADER + row.written), "{} in {}", row.bytes, row.regions);
        (0..3).for_each(|_| receive(&far, bytes, 0));
    }
}

/// Beside them: within a process every byte is copied, once.
#[test]
fn a_local_channel_copies_each_byte_once() {
    let bytes = [7; 4096];
    let (near, far) = Channel::pair();
    for count in [1, 16] {
        let regions = regions(&bytes, count);
        assert_eq!(copied(|| near.write(&regions, vec![]).unwrap()), 4096);
        receive(&far, &bytes, 0);
    }
}
