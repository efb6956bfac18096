//! Tests trains of datagrams over a device with limits below the kernel's.

use testbed::network::{End, NEEDS, isolated};
use testbed::{Case, seeded};
use uncopy::send::{Fate, InetSocket, Message, Mode};

use crate::send::{all_releases, fates, ring, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    let name = "trains::trains_are_as_long_as_the_device_takes";
    vec![Case::new(name, NEEDS, trains_are_as_long_as_the_device_takes)]
}

const SEGMENT: u16 = 1200;
/// Number of datagrams of each send.
const SEGMENTS: u64 = 40;

/// The kernel would cut longer trains in software, and give the device each datagram.
fn trains_are_as_long_as_the_device_takes() {
    isolated(|network| {
        network.sink();
        // Keeps the kernel from sending its own packets over the device.
        network.set("net/ipv6/conf/sink/disable_ipv6", 1);
        let far = End::Far.address(false, 9);
        let content = || seeded(1, 0, SEGMENTS * u64::from(SEGMENT));
        for (limit, packets) in [
            ("gso_max_segs 65535", 1),
            ("gso_max_segs 16", 3),
            ("gso_max_segs 1", SEGMENTS),
            ("gso_max_segs 65535 gso_max_size 16384", 4),
        ] {
            network.ip(&format!("link set sink {limit}"));
            let connected = || {
                let socket = InetSocket::connect_udp(far).unwrap();
                socket.set_segment_bytes(Some(SEGMENT)).unwrap();
                socket
            };
            for mode in [Mode::Zerocopy, Mode::Copy] {
                let before = network.packets("sink");
                let mut sender = sender(connected(), mode);
                assert_eq!(sender.send(content()).result.unwrap(), content().len());
                let expected = if mode == Mode::Copy { Fate::Copied } else { Fate::NotCopied };
                assert_eq!(fates(&all_releases(&mut sender)), [expected]);
                assert_eq!(network.packets("sink") - before, packets, "{limit} {mode:?}");

                let before = network.packets("sink");
                let mut ring = ring(mode);
                let through = ring.add(connected());
                ring.send(through, Message::new(content())).unwrap();
                let events = run(&mut ring);
                assert_eq!(events.sent_bytes(), [content().len()]);
                assert_eq!(fates(&events.releases), [expected]);
                assert_eq!(network.packets("sink") - before, packets, "{limit} {mode:?}, ring");

                let before = network.packets("sink");
                ring.register_slots(&[1]).unwrap();
                let datagrams = content().chunks(SEGMENT.into()).map(<[u8]>::to_vec).collect();
                ring.send_batch(through, datagrams, 0).unwrap();
                let events = run(&mut ring);
                assert_eq!(events.sent_bytes().iter().sum::<usize>(), content().len());
                let calls = events.sent_bytes().len() as u64;
                assert!(calls >= packets, "{limit} {mode:?}: {calls}");
                assert_eq!(network.packets("sink") - before, calls, "{limit} {mode:?}, batch");
            }
        }
    });
}
