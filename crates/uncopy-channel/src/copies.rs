//! How many bytes each operation copies that sends over a socket.

use std::time::Duration;

use crate::memory::count::copied;
use crate::{BatchRegion, Channel, Deadline, Disposition, Event, MAX_BYTES, MAX_REGIONS};
use testbed::GATHERED;

fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    (near, Channel::from_fd(far.into_fd().unwrap()).unwrap())
}

/// Receives a message and compares everything behind the first `skipped` bytes.
fn receive(channel: &Channel, expected: &[u8], skipped: usize) {
    let message = channel.read().unwrap();
    assert!(message.len() == expected.len() && message[skipped..] == expected[skipped..]);
}

fn text() -> Vec<u8> {
    (0..MAX_BYTES).map(|n| (n % 251) as u8).collect()
}

#[test]
fn each_operation_copies_small_regions_and_nothing_else() {
    let text = text();
    let (near, far) = socket_pair();
    let past = || Deadline::after(Duration::ZERO);
    let event = || Disposition::moving(Event::new());
    for row in GATHERED {
        let (bytes, regions) = (&text[..row.bytes], row.divide(&text));
        let write = copied(|| near.write(&regions, vec![]).unwrap());
        assert_eq!(write, row.copied(false, false), "write of {row:?}");
        receive(&far, bytes, 0);
        let write = copied(|| near.write_etc(&regions, &mut [event()]).unwrap());
        assert_eq!(write, row.copied(false, true), "write_etc of {row:?}");
        receive(&far, bytes, 0);
        let call = copied(|| assert!(near.call(&regions, vec![], past()).is_err()));
        assert_eq!(call, row.copied(true, false), "call of {row:?}");
        receive(&far, bytes, 4);
        let call = copied(|| assert!(near.call_etc(&regions, &mut [event()], past()).is_err()));
        assert_eq!(call, row.copied(true, true), "call_etc of {row:?}");
        receive(&far, bytes, 4);
    }
}

/// As many messages as the regions of a batch allow, up to three.
#[test]
fn a_batch_copies_as_much_as_its_messages() {
    let text = text();
    let (near, far) = socket_pair();
    for row in GATHERED {
        let count = (MAX_REGIONS / row.regions).min(3);
        let regions = row.divide(&text);
        let of_message = |message: usize| {
            let message = u16::try_from(message).unwrap();
            regions.iter().map(move |bytes| BatchRegion { bytes, message, handles: 0 })
        };
        let flat: Vec<_> = (0..count).flat_map(of_message).collect();
        let written = copied(|| assert_eq!(near.write_batch(&flat, &mut vec![]), Ok(count)));
        assert_eq!(written, count * row.copied(false, false), "{row:?}");
        (0..count).for_each(|_| receive(&far, &text[..row.bytes], 0));
    }
}

/// Beside them: within a process every byte is copied, once.
#[test]
fn a_local_channel_copies_each_byte_once() {
    let text = text();
    let (near, far) = Channel::pair();
    for row in GATHERED {
        let regions = row.divide(&text);
        assert_eq!(copied(|| near.write(&regions, vec![]).unwrap()), row.bytes, "{row:?}");
        receive(&far, &text[..row.bytes], 0);
    }
}
