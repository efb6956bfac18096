//! Offloads of a network device, by the interface that every kernel has (`SIOCETHTOOL`).

use std::ffi::c_char;
use std::os::fd::{AsFd, AsRawFd};

use super::{Sys, last_errno};

/// Offload of a device, with the command that reads it (`linux/ethtool.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Sends packets from several memory areas (`ETHTOOL_GSG`).
    ScatterGather = 0x18,
    /// Computes checksums (`ETHTOOL_GTXCSUM`).
    Checksum = 0x16,
    /// Splits data into TCP segments (`ETHTOOL_GTSO`).
    Segmentation = 0x1e,
}

/// Whether the offload is active. `fd` is a socket in the device's network namespace.
pub fn is_on(fd: impl AsFd, device: u32, offload: Offload) -> Sys<bool> {
    let name = rustix::net::netdevice::index_to_name(&fd, device)?;
    // `struct ethtool_value`.
    let mut value = [offload as u32, 0];
    // SAFETY: all fields of an `ifreq` may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the request holds a device name and points to two numbers, the second of which the kernel
    // writes; all of them outlive the call.
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
    fn loopback_has_all_offloads() {
        let route = route_to("127.0.0.1".parse().unwrap(), 0).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for offload in [Offload::ScatterGather, Offload::Checksum, Offload::Segmentation] {
            assert_eq!(is_on(&socket, route.device, offload), Ok(true), "{offload:?}");
        }
        assert_eq!(is_on(&socket, u32::MAX >> 1, Offload::Checksum), Err(Errno::ENODEV));
    }
}
