//! What a device does itself, as every kernel tells (`SIOCETHTOOL`).

use std::ffi::c_char;
use std::os::fd::{AsFd, AsRawFd};

use super::{Sys, last_errno};

/// Something that a device may do: the question for it (`linux/ethtool.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// It reads packets that lie in several pieces (`ETHTOOL_GSG`).
    ScatterGather = 0x18,
    /// It computes checksums (`ETHTOOL_GTXCSUM`).
    Checksum = 0x16,
    /// It cuts TCP segments (`ETHTOOL_GTSO`).
    Segmentation = 0x1e,
}

/// Whether the device does it now. `fd` is a socket of its network.
pub fn is_on(fd: impl AsFd, device: u32, offload: Offload) -> Sys<bool> {
    let name = rustix::net::netdevice::index_to_name(&fd, device)?;
    // `struct ethtool_value`.
    let mut value = [offload as u32, 0];
    // SAFETY: all fields of an `ifreq` may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last stays zero.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the request names a device and points to two numbers, the second of which the kernel
    // writes; all of that outlives the call.
    let r =
        unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if r == 0 { Ok(value[1] != 0) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::{Offload, is_on};
    use crate::netlink::route::route_to;
    use uncopy_core::Errno;

    #[test]
    fn loopback_does_everything() {
        let route = route_to("127.0.0.1".parse().unwrap(), 0).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for offload in [Offload::ScatterGather, Offload::Checksum, Offload::Segmentation] {
            assert_eq!(is_on(&socket, route.device, offload), Ok(true), "{offload:?}");
        }
        assert_eq!(is_on(&socket, u32::MAX >> 1, Offload::Checksum), Err(Errno::ENODEV));
    }
}
