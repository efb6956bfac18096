//! Trains: many datagrams in one send.

use crate::room::inet::{InetSocket, Transport};

/// Maximum number of datagrams that UDP cuts one send into (`UDP_MAX_SEGMENTS` in
/// `include/linux/udp.h`; 128 since Linux 6.9).
const MAX_SEGMENTS: usize = 64;
/// Maximum size of an IP packet, including headers: a train is one packet before it is cut.
const MAX_PACKET_BYTES: usize = 65_535;
/// Size of a UDP header.
const UDP_HEADER_BYTES: usize = 8;
/// Size of the Ethernet, IPv6 and UDP headers, which count towards the limit of a device.
const DEVICE_HEADER_BYTES: usize = 14 + 40 + UDP_HEADER_BYTES;
/// Maximum number of lent pages in a packet (`MAX_SKB_FRAGS`).
const MAX_LENT_PAGES: usize = 17;
const PAGE_BYTES: usize = 4096;

/// Returns the maximum number of bytes of one train, on a socket that cuts its sends into datagrams of
/// `segment_bytes` bytes ([`InetSocket::set_segment_bytes`](super::InetSocket::set_segment_bytes)): up to 64
/// whole datagrams that fit into one IP packet together.
///
/// ```
/// use uncopy::send::train_bytes;
/// assert_eq!(train_bytes(1200, false), 54 * 1200);
/// assert_eq!(train_bytes(600, false), 64 * 600);
/// ```
#[must_use]
pub const fn train_bytes(segment_bytes: u16, is_v6: bool) -> usize {
    // The length field of an IPv6 header does not count the header itself.
    let header_bytes = UDP_HEADER_BYTES + if is_v6 { 0 } else { 20 };
    let segment_bytes = segment_bytes as usize;
    if segment_bytes == 0 {
        return 0;
    }
    let fitting = (MAX_PACKET_BYTES - header_bytes) / segment_bytes;
    let segments = if fitting < MAX_SEGMENTS { fitting } else { MAX_SEGMENTS };
    segments * segment_bytes
}

/// The longest train that a device cuts; the kernel cuts longer ones in software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) segments: usize,
    pub(crate) bytes: usize,
}

/// Returns [`train_bytes`] limited by the device, if it is known: at least one datagram, if a packet can hold
/// one.
pub(crate) fn train_bytes_over(segment_bytes: u16, device: Option<Device>) -> usize {
    // An IPv6 packet would hold 20 bytes more, but an IPv6 socket can have an IPv4 peer.
    let whole = train_bytes(segment_bytes, false);
    let (Some(Device { segments, bytes }), Some(segment)) =
        (device, std::num::NonZeroUsize::new(segment_bytes.into()))
    else {
        return whole;
    };
    let fitting = bytes.saturating_sub(DEVICE_HEADER_BYTES) / segment;
    whole.min(segments.min(fitting).max(1) * segment.get())
}

/// Returns the maximum number of bytes of one call over the socket.
pub(crate) fn max_call_bytes(socket: &InetSocket) -> usize {
    let Some(segment) = socket.segment_bytes() else { return usize::MAX };
    let device = socket
        .device_trains()
        .map(|trains| Device { segments: trains.segments as usize, bytes: trains.bytes as usize });
    match train_bytes_over(segment.get(), device) {
        // No packet can hold such a datagram: the kernel refuses the send.
        0 => usize::MAX,
        bytes => bytes,
    }
}

/// Returns whether a send over the socket may take several calls.
pub(crate) fn is_sent_in_parts(socket: &InetSocket) -> bool {
    socket.transport() == Transport::Tcp || socket.segment_bytes().is_some()
}

/// Returns the number of buffers of the next train. It is cut where buffers end: all buffers but the last are
/// whole datagrams. At least one buffer, if there is any.
pub(crate) fn next_train<'a>(
    buffers: impl Iterator<Item = &'a [u8]>,
    segment_bytes: u16,
    train_bytes: usize,
    lend: bool,
) -> usize {
    let (mut count, mut bytes, mut pages, mut is_whole) = (0, 0, 0, true);
    for buffer in buffers.take(MAX_SEGMENTS) {
        let offset = buffer.as_ptr() as usize % PAGE_BYTES;
        pages += (offset + buffer.len()).div_ceil(PAGE_BYTES);
        bytes += buffer.len();
        // An empty buffer is a datagram of its own.
        let fits = is_whole && !buffer.is_empty() && bytes <= train_bytes;
        if count > 0 && (!fits || (lend && pages > MAX_LENT_PAGES)) {
            break;
        }
        count += 1;
        let segment = usize::from(segment_bytes).max(1);
        is_whole = !buffer.is_empty() && buffer.len().is_multiple_of(segment);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{Device, next_train, train_bytes, train_bytes_over};

    #[test]
    fn a_device_can_take_less() {
        let device = |segments, bytes| Some(Device { segments, bytes });
        for (segment, device, bytes) in [
            (1200, None, 54 * 1200),
            (1200, device(65_535, 65_536), 54 * 1200),
            (1200, device(16, 65_536), 16 * 1200),
            (1200, device(65_535, 16_384), 13 * 1200),
            (1200, device(0, 0), 1200),
            (600, device(65_535, 1 << 20), 64 * 600),
            (0, device(1, 1), 0),
            (65_508, device(9, 65_536), 0),
        ] {
            assert_eq!(train_bytes_over(segment, device), bytes, "{segment} {device:?}");
        }
    }

    #[test]
    fn trains_are_cut_where_buffers_end() {
        for (lengths, lend, count) in [
            (vec![], true, 0),
            (vec![100], true, 1),
            (vec![100, 100, 100], true, 3),
            (vec![100, 60, 100], true, 2),
            (vec![60, 100], true, 1),
            (vec![300, 200, 100], true, 3),
            (vec![900, 200, 100], true, 1),
            (vec![2000, 100], true, 1),
            (vec![100, 0, 100], true, 1),
            (vec![0, 100], true, 1),
            (vec![10; 40], true, 1),
        ] {
            let memory = vec![0; 4000];
            let buffers = lengths.iter().map(|length| &memory[..*length]);
            let found = next_train(buffers, 100, 1000, lend);
            assert_eq!(found, count, "{lengths:?}");
        }
        let page = crate::room::Pool::new(1, 4096, crate::room::PageSize::Base).unwrap();
        let page = page.take().unwrap();
        let [of_one, of_two] = [std::iter::repeat(&page[..10]), std::iter::repeat(&page[4090..])];
        assert_eq!(next_train(of_one.clone().take(70), 10, 1000, true), 17);
        assert_eq!(next_train(of_one.clone().take(70), 10, 1000, false), 64);
        assert_eq!(next_train(of_one.take(70), 10, 120, true), 12);
        assert_eq!(next_train(of_two.take(70), 6, 1000, true), 17, "to the end of the page");
    }

    #[test]
    fn trains_are_whole_datagrams_within_a_packet() {
        for (segment, is_v6, bytes) in [
            (0, false, 0),
            (1, false, 64),
            (1000, false, 64_000),
            (1023, false, 64 * 1023),
            (1024, false, 63 * 1024),
            (1200, false, 64_800),
            (1472, false, 44 * 1472),
            (65_507, false, 65_507),
            (65_508, false, 0),
            (65_527, true, 65_527),
            (65_528, true, 0),
        ] {
            assert_eq!(train_bytes(segment, is_v6), bytes, "{segment} v6 {is_v6}");
        }
    }
}
