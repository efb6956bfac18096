//! Reads the error queue of a socket (`recvmsg(2)`, `MSG_ERRQUEUE`), where the kernel reports the memory
//! that it no longer needs.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::ids::CompletedRange;
use uncopy_core::Errno;
use uncopy_os::{Sys, last_errno};

/// `SO_EE_ORIGIN_ZEROCOPY` (`include/uapi/linux/errqueue.h`).
const ORIGIN_ZEROCOPY: u8 = 5;
/// `SO_EE_CODE_ZEROCOPY_COPIED` (same file).
const CODE_COPIED: u8 = 1;

/// Maximum number of reports read by one system call.
const BATCH: usize = 16;
/// Size of the buffer for one report: the header of a control message, `sock_extended_err`, an IPv6
/// address, and a time stamp, if the socket has time stamps enabled.
const CONTROL_BYTES: usize = 192;

/// An entry of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The memory of these sends is free again.
    Completed(CompletedRange),
    /// Another entry, such as an ICMP error or a time stamp.
    Foreign {
        /// `SO_EE_ORIGIN_…`.
        origin: u8,
        /// The error number of the entry.
        errno: Errno,
    },
    /// A report whose contents did not fit.
    Lost,
}

/// Interprets an entry of the queue.
fn read(error: &libc::sock_extended_err) -> Report {
    if error.ee_origin == ORIGIN_ZEROCOPY && error.ee_errno == 0 {
        let copied = error.ee_code == CODE_COPIED;
        return Report::Completed(CompletedRange {
            first: error.ee_info,
            last: error.ee_data,
            copied,
        });
    }
    let errno = Errno::from_raw(i32::try_from(error.ee_errno).unwrap_or(0));
    Report::Foreign { origin: error.ee_origin, errno }
}

/// Aligned as a `cmsghdr` must be.
#[repr(align(8))]
#[derive(Clone, Copy)]
struct Control([MaybeUninit<u8>; CONTROL_BYTES]);

/// Reads up to one batch of queued reports; returns whether there may be more.
pub(crate) fn drain(fd: BorrowedFd<'_>, mut report: impl FnMut(Report)) -> Sys<bool> {
    let mut controls = [Control([MaybeUninit::uninit(); CONTROL_BYTES]); BATCH];
    // SAFETY: all-zero bytes are a valid `mmsghdr`.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for (message, control) in messages.iter_mut().zip(&mut controls) {
        message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
        message.msg_hdr.msg_controllen = CONTROL_BYTES as _;
    }
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    let first = messages.as_mut_ptr();
    // SAFETY: the headers point only to memory of `controls`, and both outlive the call.
    let n = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            first,
            BATCH as libc::c_uint,
            flags as _,
            std::ptr::null_mut(),
        )
    };
    let Ok(count) = usize::try_from(n) else {
        return match last_errno() {
            Errno::EAGAIN => Ok(false),
            Errno::EINTR => Ok(true),
            errno => Err(errno),
        };
    };
    for message in &messages[..count] {
        report(report_of(&message.msg_hdr));
    }
    Ok(count == BATCH)
}

/// Returns the report in a message that the kernel has filled.
fn report_of(message: &libc::msghdr) -> Report {
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Report::Lost;
    }
    // SAFETY: the kernel has filled `message`, and its control memory is alive.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: `next` is not null, so it is inside the control memory and aligned.
        let header = unsafe { next.read() };
        let is_error = matches!(
            (header.cmsg_level, header.cmsg_type),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        );
        // SAFETY: computes a size.
        let whole = unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) } as usize;
        let before = next as usize - message.msg_control as usize;
        let fits = before + whole <= message.msg_controllen as _;
        if is_error && header.cmsg_len as usize >= whole && fits {
            // SAFETY: `next` is inside the control memory, as above.
            let data = unsafe { libc::CMSG_DATA(next) }.cast::<libc::sock_extended_err>();
            // SAFETY: `fits` shows that the whole struct is inside the control memory, and all bytes are
            // valid values.
            return read(&unsafe { data.read_unaligned() });
        }
        if header.cmsg_len as usize > message.msg_controllen as _ {
            break;
        }
        // SAFETY: `next` is a header of this message.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    Report::Foreign { origin: 0, errno: Errno::from_raw(0) }
}

/// Parses these bytes as the control memory of a message that the kernel has filled. For `fuzz/`.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    let (flags, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut control = Control([MaybeUninit::new(0); CONTROL_BYTES]);
    for (place, byte) in control.0.iter_mut().zip(bytes) {
        place.write(*byte);
    }
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = bytes.len().min(CONTROL_BYTES) as _;
    message.msg_flags = if *flags == 1 { libc::MSG_CTRUNC } else { 0 };
    let _ = report_of(&message);
}

#[cfg(test)]
mod tests {
    use super::{CompletedRange, Report, read};
    use uncopy_core::Errno;

    fn error(origin: u8, code: u8, errno: u32, info: u32, data: u32) -> libc::sock_extended_err {
        libc::sock_extended_err {
            ee_errno: errno,
            ee_origin: origin,
            ee_type: 0,
            ee_code: code,
            ee_pad: 0,
            ee_info: info,
            ee_data: data,
        }
    }

    #[test]
    fn only_zero_copy_reports_complete_sends() {
        for (entry, expected) in [
            (
                error(5, 0, 0, 3, 9),
                Report::Completed(CompletedRange { first: 3, last: 9, copied: false }),
            ),
            (
                error(5, 1, 0, u32::MAX, 0),
                Report::Completed(CompletedRange { first: u32::MAX, last: 0, copied: true }),
            ),
            // Port unreachable; and time stamps, which have the number of the send in `ee_data`.
            (error(2, 3, 111, 0, 0), Report::Foreign { origin: 2, errno: Errno::ECONNREFUSED }),
            (error(4, 0, 42, 0, 1), Report::Foreign { origin: 4, errno: Errno::from_raw(42) }),
            (error(5, 0, 42, 0, 1), Report::Foreign { origin: 5, errno: Errno::from_raw(42) }),
        ] {
            assert_eq!(read(&entry), expected);
        }
    }
}
