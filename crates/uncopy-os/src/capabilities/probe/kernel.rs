//! Queries of kernel features and limits.

use std::fs;

use io_uring::opcode;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Rlimit;

use crate::capabilities::{
    Answer, IoUring, Kernel, Limit, Limits, SocketProtocol, UringOperation, ZerocopySocket,
};
use crate::{Sys, probe};

/// Implements [`crate::capabilities::kernel()`].
pub(crate) fn kernel() -> Kernel {
    Kernel {
        release: probe::kernel_release(),
        io_uring: io_uring(),
        msg_zerocopy: SocketProtocol::ALL
            .into_iter()
            .map(|protocol| ZerocopySocket { protocol, answer: zerocopy(protocol).into() })
            .collect(),
        limits: limits(),
    }
}

/// Implements [`crate::capabilities::limits`].
pub(crate) fn limits() -> Limits {
    Limits {
        pipe_max_bytes: setting("fs/pipe-max-size"),
        optmem_max_bytes: setting("net/core/optmem_max"),
        memlock: limit(&probe::memlock_limit()),
        open_files: limit(&probe::open_files_limit()),
    }
}

fn io_uring() -> IoUring {
    let disabled = setting("kernel/io_uring_disabled");
    match probe::uring_operations() {
        Ok(found) => IoUring {
            available: Answer::Yes(()),
            disabled,
            operations: OPERATIONS
                .iter()
                .map(|(name, code)| UringOperation { name, supported: found.is_supported(*code) })
                .collect(),
        },
        Err(errno) => {
            IoUring { available: Answer::from(Err(errno)), disabled, operations: Vec::new() }
        }
    }
}

/// `enum io_uring_op` of `include/uapi/linux/io_uring.h`, in its order.
const OPERATIONS: [(&str, u8); 59] = [
    ("nop", opcode::Nop::CODE),
    ("readv", opcode::Readv::CODE),
    ("writev", opcode::Writev::CODE),
    ("fsync", opcode::Fsync::CODE),
    ("read_fixed", opcode::ReadFixed::CODE),
    ("write_fixed", opcode::WriteFixed::CODE),
    ("poll_add", opcode::PollAdd::CODE),
    ("poll_remove", opcode::PollRemove::CODE),
    ("sync_file_range", opcode::SyncFileRange::CODE),
    ("sendmsg", opcode::SendMsg::CODE),
    ("recvmsg", opcode::RecvMsg::CODE),
    ("timeout", opcode::Timeout::CODE),
    ("timeout_remove", opcode::TimeoutRemove::CODE),
    ("accept", opcode::Accept::CODE),
    ("async_cancel", opcode::AsyncCancel::CODE),
    ("link_timeout", opcode::LinkTimeout::CODE),
    ("connect", opcode::Connect::CODE),
    ("fallocate", opcode::Fallocate::CODE),
    ("openat", opcode::OpenAt::CODE),
    ("close", opcode::Close::CODE),
    ("files_update", opcode::FilesUpdate::CODE),
    ("statx", opcode::Statx::CODE),
    ("read", opcode::Read::CODE),
    ("write", opcode::Write::CODE),
    ("fadvise", opcode::Fadvise::CODE),
    ("madvise", opcode::Madvise::CODE),
    ("send", opcode::Send::CODE),
    ("recv", opcode::Recv::CODE),
    ("openat2", opcode::OpenAt2::CODE),
    ("epoll_ctl", opcode::EpollCtl::CODE),
    ("splice", opcode::Splice::CODE),
    ("provide_buffers", opcode::ProvideBuffers::CODE),
    ("remove_buffers", opcode::RemoveBuffers::CODE),
    ("tee", opcode::Tee::CODE),
    ("shutdown", opcode::Shutdown::CODE),
    ("renameat", opcode::RenameAt::CODE),
    ("unlinkat", opcode::UnlinkAt::CODE),
    ("mkdirat", opcode::MkDirAt::CODE),
    ("symlinkat", opcode::SymlinkAt::CODE),
    ("linkat", opcode::LinkAt::CODE),
    ("msg_ring", opcode::MsgRingData::CODE),
    ("fsetxattr", opcode::FSetXattr::CODE),
    ("setxattr", opcode::SetXattr::CODE),
    ("fgetxattr", opcode::FGetXattr::CODE),
    ("getxattr", opcode::GetXattr::CODE),
    ("socket", opcode::Socket::CODE),
    ("uring_cmd", opcode::UringCmd16::CODE),
    ("send_zc", opcode::SendZc::CODE),
    ("sendmsg_zc", opcode::SendMsgZc::CODE),
    ("read_multishot", opcode::ReadMulti::CODE),
    ("waitid", opcode::WaitId::CODE),
    ("futex_wait", opcode::FutexWait::CODE),
    ("futex_wake", opcode::FutexWake::CODE),
    ("futex_waitv", opcode::FutexWaitV::CODE),
    ("fixed_fd_install", opcode::FixedFdInstall::CODE),
    ("ftruncate", opcode::Ftruncate::CODE),
    ("bind", opcode::Bind::CODE),
    ("listen", opcode::Listen::CODE),
    ("recv_zc", opcode::RecvZc::CODE),
];

fn zerocopy(protocol: SocketProtocol) -> Sys<()> {
    let (family, kind) = match protocol {
        SocketProtocol::Tcp4 => (AddressFamily::INET, SocketType::STREAM),
        SocketProtocol::Tcp6 => (AddressFamily::INET6, SocketType::STREAM),
        SocketProtocol::Udp4 => (AddressFamily::INET, SocketType::DGRAM),
        SocketProtocol::Udp6 => (AddressFamily::INET6, SocketType::DGRAM),
        SocketProtocol::Unix => (AddressFamily::UNIX, SocketType::STREAM),
    };
    probe::allow_zerocopy(probe::socket(family, kind)?)
}

/// Reads a number below `/proc/sys`.
fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok()
}

fn limit(found: &Rlimit) -> Limit {
    Limit { soft: found.current, hard: found.maximum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_in_the_kernels_order() {
        assert!(OPERATIONS.is_sorted_by(|a, b| a.1 < b.1));
    }

    #[test]
    fn the_kernel_answers() {
        let kernel = kernel();
        assert!(kernel.release.starts_with(|c: char| c.is_ascii_digit()), "{}", kernel.release);
        assert_eq!(kernel.io_uring.available.is_yes(), !kernel.io_uring.operations.is_empty());
        assert!(kernel.limits.open_files.soft.is_none_or(|files| files > 0));
        let unix =
            kernel.msg_zerocopy.iter().find(|socket| socket.protocol == SocketProtocol::Unix);
        assert!(!unix.unwrap().answer.is_yes(), "no kernel supports it for unix(7) yet");
    }
}
