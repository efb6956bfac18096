//! Programs that see the packets of a device, and let all of them pass (`bpf(2)`).

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `BPF_PROG_LOAD`, `BPF_LINK_CREATE` (`linux/bpf.h`).
const LOAD: libc::c_int = 5;
const LINK: libc::c_int = 28;
/// `r0 = VERDICT; exit`.
const fn program(verdict: i32) -> [u64; 2] {
    [(verdict as u32 as u64) << 32 | 0xb7, 0x95]
}

/// Position of an attached program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// Receive path of any device (`BPF_PROG_TYPE_XDP`, `BPF_XDP`, `XDP_FLAGS_SKB_MODE`).
    Received,
    /// Receive path in the driver (`XDP_FLAGS_DRV_MODE`).
    ByDriver,
    /// Send path (`BPF_PROG_TYPE_SCHED_CLS`, `BPF_TCX_EGRESS`).
    Sent,
}

/// The first fields of `union bpf_attr`.
#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

#[repr(C)]
struct Link {
    program: u32,
    device: u32,
    kind: u32,
    flags: u32,
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of a structure that is the beginning of its
    // own for this command, and what it points to, which outlives the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just made this descriptor, for nobody else.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Error::last_os_error()),
    }
}

/// Attaches the program to the device with this index, until the descriptor is closed.
pub(crate) fn attach(device: u32, place: Place) -> Result<OwnedFd> {
    // `XDP_PASS`, `TCX_NEXT`.
    let (program_kind, verdict, kind, flags) = match place {
        Place::Received => (6, 2, 37, 1 << 1),
        Place::ByDriver => (6, 2, 37, 1 << 2),
        Place::Sent => (3, -1, 47, 0),
    };
    let code = program(verdict);
    let load = Load {
        kind: program_kind,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
    };
    let loaded = bpf(LOAD, &load)?;
    let program = loaded.as_raw_fd() as u32;
    bpf(LINK, &Link { program, device, kind, flags })
}
