//! Tun devices, which pass sent packets to a program (`Documentation/networking/tuntap.rst`).

use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};

/// `TUNSETIFF` (`linux/if_tun.h`): `_IOW('T', 202, int)`.
const SET_DEVICE: libc::Ioctl = 0x4004_54ca;

/// Makes a tun device with this name, which is removed when the result is dropped. Sent packets
/// wait there to be read.
pub(crate) fn open(name: &str) -> Result<OwnedFd> {
    let file: File = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: all fields of an `ifreq` may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is of the kind that this call reads and writes, and outlives it.
    match unsafe { libc::ioctl(file.as_raw_fd(), SET_DEVICE, &raw mut request) } {
        0 => Ok(file.into()),
        _ => Err(Error::last_os_error()),
    }
}
