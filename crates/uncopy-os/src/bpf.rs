//! Programs that are attached to devices (`bpf(2)`).

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// `BPF_PROG_QUERY` and `BPF_TCX_EGRESS` (`linux/bpf.h`).
const QUERY: libc::c_int = 16;
const EGRESS: u32 = 47;

/// `union bpf_attr` of this command.
#[repr(C)]
#[derive(Default)]
struct Query {
    device: u32,
    kind: u32,
    flags: u32,
    attached_with: u32,
    ids: u64,
    count: u32,
    padding: u32,
    each_attached_with: u64,
    links: u64,
    links_attached_with: u64,
    revision: u64,
}

/// Returns the number of tcx programs that process a device's outgoing packets (Linux 6.6). Programs of
/// `clsact` filters are not counted.
///
/// # Errors
/// `EPERM`: CAP_NET_ADMIN is missing.
pub fn egress_programs(device: u32) -> Sys<u32> {
    let mut query = Query { device, kind: EGRESS, ..Query::default() };
    let length = size_of_val(&query);
    // SAFETY: the kernel reads and writes at most `length` bytes, the size of the structure, which has the
    // kernel's layout for this command, holds no pointers, and outlives the call.
    let r = unsafe { libc::syscall(libc::SYS_bpf, QUERY, &raw mut query, length) };
    match if r == 0 { Ok(query.count) } else { Err(last_errno()) } {
        // Kernels without tcx.
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_programs() {
        match egress_programs(1) {
            Ok(0) | Err(Errno::EPERM) => {}
            other => panic!("{other:?}"),
        }
    }
}
