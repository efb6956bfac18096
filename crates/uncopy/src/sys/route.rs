//! The device that a route leads over (`rtnetlink(7)`), and what it can do (`SIOCETHTOOL`).

use std::ffi::c_char;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::{Sys, last_errno};
use crate::error::Errno;

/// `struct nlmsghdr` and `struct rtmsg` (`linux/netlink.h`, `linux/rtnetlink.h`).
const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
/// `struct rtattr`, before its value.
const ATTRIBUTE_BYTES: usize = 4;
/// `struct ifinfomsg` (`linux/rtnetlink.h`).
const LINK_BYTES: usize = 16;
/// `IFLA_GSO_MAX_SEGS`, `IFLA_GSO_MAX_SIZE` (`linux/if_link.h`).
const MAX_SEGMENTS: u16 = 40;
const MAX_SIZE: u16 = 41;
/// `ETHTOOL_GSG` (`linux/ethtool.h`): whether scatter-gather is on.
const GET_SCATTER_GATHER: u32 = 0x18;

/// Index of the device over which this process's packets go to `address`.
pub(crate) fn device_to(address: IpAddr) -> Sys<u32> {
    device_in(&answer_to(&question(address))?)
}

/// What a device cuts into segments by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trains {
    pub(crate) segments: u32,
    /// With all headers.
    pub(crate) bytes: u32,
}

/// What the device with this index cuts by itself (`RTM_GETLINK`).
pub(crate) fn trains_of(device: u32) -> Sys<Trains> {
    let length = HEADER_BYTES + LINK_BYTES;
    let mut message = header(length, libc::RTM_GETLINK);
    // Family and type; the index; flags and their mask.
    message.extend([0; 4]);
    message.extend(device.to_ne_bytes());
    message.extend([0; 8]);
    trains_in(&answer_to(&message)?)
}

fn answer_to(question: &[u8]) -> Sys<Vec<u8>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::send(&socket, question, SendFlags::empty())?;
    // Statistics of a device and of each of its virtual functions are among the answers.
    let mut answer = vec![0; 32 << 10];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// The beginning of a question of so many bytes.
fn header(length: usize, kind: u16) -> Vec<u8> {
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // Sequence number and port: there is one question and one who asks.
    message.extend([0; 8]);
    message
}

/// Asks for the route to `address` (`RTM_GETROUTE`).
fn question(address: IpAddr) -> Vec<u8> {
    let (family, destination) = match address {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    let attribute = ATTRIBUTE_BYTES + destination.len();
    let length = HEADER_BYTES + ROUTE_BYTES + attribute;
    let mut message = header(length, libc::RTM_GETROUTE);
    // Family, and the length of the destination in bits; all others zero.
    message.extend([family as u8, (destination.len() * 8) as u8]);
    message.extend([0; ROUTE_BYTES - 2]);
    message.extend((attribute as u16).to_ne_bytes());
    message.extend(libc::RTA_DST.to_ne_bytes());
    message.extend(destination);
    message
}

/// The device named in the answer.
fn device_in(answer: &[u8]) -> Sys<u32> {
    let found = number(answer, libc::RTM_NEWROUTE, ROUTE_BYTES, libc::RTA_OIF)?;
    found.ok_or(Errno::ENODEV)
}

fn trains_in(answer: &[u8]) -> Sys<Trains> {
    let find = |kind| number(answer, libc::RTM_NEWLINK, LINK_BYTES, kind)?.ok_or(Errno::ENODATA);
    Ok(Trains { segments: find(MAX_SEGMENTS)?, bytes: find(MAX_SIZE)? })
}

/// The number that an attribute holds in an answer of this kind, whose attributes begin after
/// `fixed` bytes.
fn number(answer: &[u8], kind: u16, fixed: usize, attribute: u16) -> Sys<Option<u32>> {
    let short = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    match short(4) {
        Some(found) if found == kind => {}
        Some(found) if i32::from(found) == libc::NLMSG_ERROR => {
            let errno =
                long(HEADER_BYTES).map(|errno| Errno::from_raw((errno as i32).wrapping_neg()));
            return Err(errno.unwrap_or(Errno::EIO));
        }
        _ => return Err(Errno::EIO),
    }
    let mut at = HEADER_BYTES + fixed;
    while let (Some(length), Some(found)) = (short(at), short(at + 2)) {
        if found == attribute {
            return long(at + ATTRIBUTE_BYTES).map(Some).ok_or(Errno::EIO);
        }
        // Attributes begin at multiples of four.
        at += usize::from(length).max(ATTRIBUTE_BYTES).next_multiple_of(4);
    }
    Ok(None)
}

/// Whether the device reads packets that lie in several pieces. `fd` is a socket of its network.
pub(crate) fn has_scatter_gather(fd: impl AsFd, device: u32) -> Sys<bool> {
    let name = rustix::net::netdevice::index_to_name(&fd, device)?;
    // `struct ethtool_value`.
    let mut value = [GET_SCATTER_GATHER, 0];
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
    use super::{Trains, device_in, device_to, has_scatter_gather, question, trains_in, trains_of};
    use crate::error::Errno;

    #[test]
    fn loopback_is_found() {
        for address in ["127.0.0.1", "::1"] {
            let index = device_to(address.parse().unwrap()).unwrap();
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let name = rustix::net::netdevice::index_to_name(&socket, index).unwrap();
            assert_eq!(name, "lo");
            assert_eq!(has_scatter_gather(&socket, index), Ok(true));
            let Trains { segments, bytes } = trains_of(index).unwrap();
            assert!(segments >= 64 && bytes >= 65_535, "{segments} {bytes}");
        }
    }

    #[test]
    fn answers_that_make_no_sense_are_errors() {
        assert_eq!(device_in(&[]), Err(Errno::EIO));
        assert_eq!(device_in(&question("192.0.2.1".parse().unwrap())), Err(Errno::EIO));
        let mut refused = vec![0; 40];
        refused[4..6].copy_from_slice(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
        refused[16..20].copy_from_slice(&(-libc::ENETUNREACH).to_ne_bytes());
        assert_eq!(device_in(&refused), Err(Errno::ENETUNREACH));
        assert_eq!(trains_in(&refused), Err(Errno::ENETUNREACH));
        assert_eq!(trains_of(u32::MAX >> 1), Err(Errno::ENODEV));
        // A route without a device, and an attribute of no length, which must not hold the reader.
        let mut route = vec![0; 60];
        route[4..6].copy_from_slice(&libc::RTM_NEWROUTE.to_ne_bytes());
        assert_eq!(device_in(&route), Err(Errno::ENODEV));
        for end in 0..route.len() {
            assert!(device_in(&route[..end]).is_err());
        }
    }
}
