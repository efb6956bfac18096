//! Many datagrams in one send. Pure.

/// Datagrams that UDP cuts out of one send at most (`UDP_MAX_SEGMENTS` in `include/linux/udp.h`;
/// 128 since Linux 6.9).
const MAX_SEGMENTS: usize = 64;
/// Bytes that an IP packet holds, headers included: what a train is before it is cut.
const MAX_PACKET_BYTES: usize = 65_535;
/// Of UDP.
const UDP_HEADER_BYTES: usize = 8;

/// Bytes of the longest train of datagrams of `segment_bytes` bytes each that one send can be, on a
/// socket that cuts its sends
/// ([`Socket::set_segment_bytes`](super::Socket::set_segment_bytes)): whole datagrams, 64 of them
/// at most, that fit an IP packet together.
///
/// ```
/// use uncopy::send::train_bytes;
/// assert_eq!(train_bytes(1200, false), 54 * 1200);
/// assert_eq!(train_bytes(600, false), 64 * 600);
/// ```
#[must_use]
pub const fn train_bytes(segment_bytes: u16, is_v6: bool) -> usize {
    // The length in an IPv6 header does not count that header.
    let header_bytes = UDP_HEADER_BYTES + if is_v6 { 0 } else { 20 };
    let segment_bytes = segment_bytes as usize;
    if segment_bytes == 0 {
        return 0;
    }
    let fitting = (MAX_PACKET_BYTES - header_bytes) / segment_bytes;
    let segments = if fitting < MAX_SEGMENTS { fitting } else { MAX_SEGMENTS };
    segments * segment_bytes
}

#[cfg(test)]
mod tests {
    use super::train_bytes;

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
