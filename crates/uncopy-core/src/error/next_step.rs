//! Next steps for the user after an error, chosen by its reason.

use std::fmt;
use std::io::{self, ErrorKind};

use super::{Errno, Reason, SourceDoubt};
use crate::{Exclusion, FileKind, Refusal, RefusalReason, System, Unseen};

macro_rules! steps {
    ($($step:ident = $code:literal, $text:literal;)*) => {
        /// Next step for the user after an error.
        ///
        /// The text uses the library's option names. A program may show its own text, with its
        /// flags.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum NextStep {
            $(#[doc = $text] $step,)*
        }

        impl NextStep {
            /// Every step.
            pub const ALL: &[NextStep] = &[$(NextStep::$step),*];

            /// Returns the stable name: `check_path`.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(NextStep::$step => $code,)*
                }
            }

            /// Returns the text: "check the path; the directory of a destination must exist".
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(NextStep::$step => $text,)*
                }
            }
        }
    };
}

steps! {
    CopyAgainInPlace = "copy_again_in_place",
        "the destination was written in place and may be a mixture of old and new now; \
         copy to it again when the cause is gone";
    NameLinkTarget = "name_link_target", "name what it leads to, or have the link removed";
    NameOtherDestination = "name_other_destination", "name another destination";
    CopyAsTree = "copy_as_tree", "name a file, or copy it as a tree, with all that is in it";
    NameFile = "name_file", "name the file to write instead";
    CopyContents = "copy_contents", "set copy_contents to read or write its bytes";
    MakeSocket = "make_socket",
        "nothing can be read from it; copy it as a tree with specials set, which makes a new one";
    LinkWithin = "link_within",
        "name a destination on the filesystem of the source, or copy without link";
    ReplaceByForce = "replace_by_force", "name another destination, or set existing to Force";
    NameNoDirectory = "name_no_directory", "name a file that is no directory";
    AcceptChange = "accept_change",
        "copy again when nobody writes to it, or set if_changed to Retry or Accept";
    CheckCables = "check_cables",
        "check the device and its cables; the bad copy was not put in place";
    FlushSource = "flush_source",
        "copy again with if_changed = Retry, which flushes the source first, and check the device \
         if they still differ; this copy was not put in place";
    CopyUnwritten = "copy_unwritten",
        "copy again when nobody writes to the source, and check the device if they still \
         differ; this copy was not put in place";
    GetAnew = "get_anew", "get the file again, or copy it as it is, with transform = None";
    AllowMore = "allow_more", "allow more mechanisms to fall back";
    ShareBlocks = "share_blocks",
        "put source and destination on one filesystem that shares blocks (XFS, btrfs, bcachefs), or \
         require less";
    MoveToDisk = "move_to_disk",
        "name a destination that takes direct writes (ext4, XFS or f2fs, directly on a disk), or \
         require less";
    ShareOrMove = "share_or_move",
        "put source and destination on one filesystem that shares blocks (XFS, btrfs, bcachefs), or \
         the destination on ext4, XFS or f2fs directly on a disk, or require less";
    NameRegularSource = "name_regular_source",
        "copy from a regular file on a disk, or require less";
    LeaveOut = "leave_out", "leave out what does not work";
    MakeAnew = "make_anew", "make a new one in this process";

    CheckPath = "check_path", "check the path; the directory of a destination must exist";
    CheckAttributes = "check_attributes",
        "check the permissions and attributes of file and directory";
    CheckPermissions = "check_permissions", "check the permissions of file and directory";
    FreeSpace = "free_space", "free space on the destination's filesystem";
    FreeQuota = "free_quota", "free space in your quota";
    MountedReadOnly = "mounted_read_only",
        "the filesystem is mounted read-only; name another destination";
    ReadOnlyFilesystem = "read_only_filesystem",
        "the filesystem is read-only; name another destination";
    RaiseOpenFiles = "raise_open_files", "raise the limit on open files (ulimit -n)";
    NameDirectories = "name_directories",
        "name a path of which every part but the last is a directory";
    FewerLinks = "fewer_links", "name the file by a path with fewer symbolic links";
    CheckProcess = "check_process", "check the process id (ps)";
    CheckDescriptor = "check_descriptor", "check the number of the descriptor (ls -l /proc/PID/fd)";
    CheckDevice = "check_device", "check the name, and that the device is there (ip link, lsblk)";
    WaitForUsers = "wait_for_users", "try again when nobody uses it any more";
    RaiseMemory = "raise_memory",
        "free memory, or raise the limit on it (ulimit -v, a control group's)";
    FreeMemory = "free_memory", "free memory";
    ShortenName = "shorten_name", "shorten the name (255 bytes at most on most filesystems)";
    RaiseFileSize = "raise_file_size",
        "the file is larger than the filesystem or the limit (ulimit -f) allows";
    FileTooLarge = "file_too_large", "the file is larger than the filesystem allows";
    SeeKernelLog = "see_kernel_log", "the device reported an error; see the kernel log (dmesg)";
    CheckFilesystem = "check_filesystem",
        "the filesystem is damaged; see the kernel log (dmesg), unmount it and have it checked (fsck)";
    MountAgain = "mount_again",
        "the filesystem or its server is not there any more; check the mount (findmnt), and copy again";
    TryAgain = "try_again", "try again";
    SeekCause = "seek_cause",
        "see the log of the system for its cause, or name another path";

    StartReceiver = "start_receiver", "start the receiver, or check address and port";
    ConnectAnew = "connect_anew", "the connection is over; make a new one";
    WaitLonger = "wait_longer", "see that the other end answers, or wait longer";
    CheckRoute = "check_route", "check the route to the address (ip route get)";
    ChooseOtherPort = "choose_other_port", "choose another port, or end what uses this one";
    NameOwnAddress = "name_own_address", "name an address of this machine (ip address)";
    SendLess = "send_less",
        "send less at once: a datagram holds 65,507 bytes, over IPv6 65,527, and a segment of several (UDP_SEGMENT) \
         no more than a packet of the path";
    EnlargeSendBuffer = "enlarge_send_buffer",
        "raise the send buffer (SO_SNDBUF, net.core.wmem_max), or send less at once or more slowly: it, or a queue of \
         the device, has no room";
    WaitForReleases = "wait_for_releases",
        "wait for releases, or raise net.core.optmem_max or the limit on locked memory (ulimit -l)";
    SeeWhatForbids = "see_what_forbids",
        "see what forbids it: a firewall, a seccomp filter, kernel.io_uring_disabled, or a \
         broadcast address";
    NamePeer = "name_peer", "name a destination, or connect the socket first";
    UseNewerKernel = "use_newer_kernel", "use a kernel that has the call";
    UseInternetSocket = "use_internet_socket", "use a TCP or UDP socket over IPv4 or IPv6";
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Chooses the next step after an error of `operation`.
///
/// There is none only where the reason has one itself, or nothing failed.
pub(super) fn after(operation: &str, reason: &Reason) -> Option<NextStep> {
    Some(match reason {
        Reason::System { errno } => {
            after_operation(operation, *errno).unwrap_or_else(|| after_call(*errno))
        }
        Reason::OtherSystem { error } => after_other_system(System::HERE, error.get()),
        Reason::Network { errno } => on_network(*errno),
        Reason::ForeignLink { .. } => NextStep::NameLinkTarget,
        Reason::SameFile { .. } => NextStep::NameOtherDestination,
        Reason::NotRegular { kind: FileKind::Directory } if operation == "copy" => {
            NextStep::CopyAsTree
        }
        Reason::NotRegular { kind: FileKind::Directory } => NextStep::NameFile,
        Reason::NotRegular { kind: FileKind::Socket } if operation == "copy" => {
            NextStep::MakeSocket
        }
        Reason::NotRegular { kind: FileKind::Socket } => NextStep::NameOtherDestination,
        Reason::NotRegular { .. } => NextStep::CopyContents,
        Reason::SourceChanged { .. } => NextStep::AcceptChange,
        Reason::VerificationFailed { doubt: None, .. } => NextStep::CheckCables,
        Reason::VerificationFailed {
            doubt: Some(SourceDoubt::Unseen(Unseen::DirtyPages)), ..
        } => NextStep::FlushSource,
        Reason::VerificationFailed { doubt: Some(_), .. } => NextStep::CopyUnwritten,
        Reason::Damaged { .. } => NextStep::GetAnew,
        Reason::NoMechanism { refusals } => after_refusals(refusals),
        Reason::NotHere { .. } => NextStep::LeaveOut,
        Reason::Forked => NextStep::MakeAnew,
        Reason::Options(_) | Reason::Cancelled | Reason::Refused(_) => return None,
    })
}

/// Chooses what would make the copy possible. Which requirement was not met shows in what it excludes.
fn after_refusals(refusals: &[Refusal]) -> NextStep {
    let any = |is: fn(RefusalReason) -> bool| refusals.iter().any(|refusal| is(refusal.reason));
    let excluded = |by: &[Exclusion]| {
        refusals.iter().any(|refusal| match refusal.reason {
            RefusalReason::ExcludedBy(exclusion) => by.contains(&exclusion),
            _ => false,
        })
    };
    let shares = excluded(&[Exclusion::Moves, Exclusion::NoReflink]);
    let moves = excluded(&[Exclusion::Shares]);
    let either = excluded(&[Exclusion::Copies, Exclusion::CopiesHere, Exclusion::MayCopy]);
    if !(shares || moves || either) {
        return NextStep::AllowMore;
    }
    if any(|reason| matches!(reason, RefusalReason::SizeUnknown | RefusalReason::SourceNotMapped)) {
        return NextStep::NameRegularSource;
    }
    match (shares, moves) {
        (true, _) => NextStep::ShareBlocks,
        (_, true) => NextStep::MoveToDisk,
        _ => NextStep::ShareOrMove,
    }
}

/// Chooses the next step where the operation says more than the error number.
fn after_operation(operation: &str, errno: Errno) -> Option<NextStep> {
    Some(match (operation, errno) {
        ("link", Errno::EXDEV) => NextStep::LinkWithin,
        ("link", Errno::EEXIST) => NextStep::ReplaceByForce,
        ("read", Errno::EISDIR) => NextStep::NameNoDirectory,
        _ => return None,
    })
}

fn after_call(errno: Errno) -> NextStep {
    match errno {
        Errno::ENOENT => NextStep::CheckPath,
        Errno::EACCES | Errno::EPERM => NextStep::CheckAttributes,
        Errno::ENOSPC => NextStep::FreeSpace,
        Errno::EDQUOT => NextStep::FreeQuota,
        Errno::EROFS => NextStep::MountedReadOnly,
        Errno::EMFILE | Errno::ENFILE => NextStep::RaiseOpenFiles,
        Errno::ENOTDIR => NextStep::NameDirectories,
        Errno::ELOOP => NextStep::FewerLinks,
        Errno::ESRCH => NextStep::CheckProcess,
        Errno::EBADF => NextStep::CheckDescriptor,
        Errno::ENODEV | Errno::ENXIO => NextStep::CheckDevice,
        Errno::EBUSY | Errno::ETXTBSY => NextStep::WaitForUsers,
        Errno::ENOMEM => NextStep::RaiseMemory,
        Errno::ENAMETOOLONG => NextStep::ShortenName,
        Errno::EFBIG => NextStep::RaiseFileSize,
        Errno::EIO => NextStep::SeeKernelLog,
        Errno::EUCLEAN => NextStep::CheckFilesystem,
        Errno::ESTALE | Errno::EHOSTDOWN | Errno::ENOTCONN | Errno::ETIMEDOUT => {
            NextStep::MountAgain
        }
        Errno::EEXIST | Errno::EISDIR | Errno::ENOTEMPTY => NextStep::NameOtherDestination,
        Errno::EINTR | Errno::EAGAIN => NextStep::TryAgain,
        _ => NextStep::SeekCause,
    }
}

/// Chooses the next step on systems other than Linux, without naming what only Linux has.
fn after_other_system(system: System, error: &io::Error) -> NextStep {
    // ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION: they have no kind, and pass.
    if system == System::Windows && matches!(error.raw_os_error(), Some(32 | 33)) {
        return NextStep::WaitForUsers;
    }
    match error.kind() {
        ErrorKind::NotFound => NextStep::CheckPath,
        ErrorKind::PermissionDenied => NextStep::CheckPermissions,
        ErrorKind::StorageFull => NextStep::FreeSpace,
        ErrorKind::QuotaExceeded => NextStep::FreeQuota,
        ErrorKind::ReadOnlyFilesystem => NextStep::ReadOnlyFilesystem,
        ErrorKind::NotADirectory => NextStep::NameDirectories,
        ErrorKind::ResourceBusy | ErrorKind::ExecutableFileBusy => NextStep::WaitForUsers,
        ErrorKind::OutOfMemory => NextStep::FreeMemory,
        ErrorKind::FileTooLarge => NextStep::FileTooLarge,
        _ => NextStep::SeekCause,
    }
}

fn on_network(errno: Errno) -> NextStep {
    match errno {
        Errno::ECONNREFUSED => NextStep::StartReceiver,
        Errno::ECONNRESET | Errno::EPIPE | Errno::ECONNABORTED | Errno::ENOTCONN => {
            NextStep::ConnectAnew
        }
        Errno::ETIMEDOUT => NextStep::WaitLonger,
        Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::ENETDOWN => NextStep::CheckRoute,
        Errno::EADDRINUSE => NextStep::ChooseOtherPort,
        Errno::EADDRNOTAVAIL => NextStep::NameOwnAddress,
        Errno::EMSGSIZE => NextStep::SendLess,
        // One that was lent was sent again with a copy.
        Errno::ENOBUFS => NextStep::EnlargeSendBuffer,
        Errno::ENOMEM => NextStep::WaitForReleases,
        Errno::EMFILE | Errno::ENFILE => NextStep::RaiseOpenFiles,
        Errno::EPERM | Errno::EACCES => NextStep::SeeWhatForbids,
        Errno::EDESTADDRREQ => NextStep::NamePeer,
        Errno::ENOSYS => NextStep::UseNewerKernel,
        Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT => {
            NextStep::UseInternetSocket
        }
        Errno::EINTR | Errno::EAGAIN => NextStep::TryAgain,
        _ => NextStep::SeekCause,
    }
}

#[cfg(test)]
mod tests {
    use super::{NextStep, after};
    use crate::{Contradiction, Errno, FileKind, Objection, Reason};

    #[test]
    fn every_error_number_has_a_next_step() {
        for number in 1..=133 {
            let errno = Errno::from_raw(number);
            for reason in [Reason::System { errno }, Reason::Network { errno }] {
                assert!(after("open", &reason).is_some(), "{reason:?}");
            }
        }
        for (errno, step) in [
            (Errno::ENOENT, NextStep::CheckPath),
            (Errno::EUCLEAN, NextStep::CheckFilesystem),
            (Errno::ESTALE, NextStep::MountAgain),
            (Errno::EEXIST, NextStep::NameOtherDestination),
            (Errno::EAGAIN, NextStep::TryAgain),
            (Errno::EINVAL, NextStep::SeekCause),
        ] {
            assert_eq!(after("open", &Reason::System { errno }), Some(step), "{errno}");
        }
    }

    /// A copied send was told to wait for releases.
    #[test]
    fn refused_sends_are_advised_by_what_was_full() {
        for (errno, step) in [
            (Errno::ENOBUFS, NextStep::EnlargeSendBuffer),
            (Errno::ENOMEM, NextStep::WaitForReleases),
            (Errno::EMSGSIZE, NextStep::SendLess),
        ] {
            assert_eq!(after("send to", &Reason::Network { errno }), Some(step), "{errno}");
        }
    }

    /// These were told to name another destination, or to read the contents of a socket.
    #[test]
    fn the_operation_decides_where_it_says_more() {
        let call = |errno| Reason::System { errno };
        for (operation, reason, step) in [
            ("link", call(Errno::EXDEV), NextStep::LinkWithin),
            ("link", call(Errno::EEXIST), NextStep::ReplaceByForce),
            ("link", call(Errno::ENOSPC), NextStep::FreeSpace),
            ("read", call(Errno::EISDIR), NextStep::NameNoDirectory),
            ("write to", call(Errno::EISDIR), NextStep::NameOtherDestination),
            ("copy", Reason::NotRegular { kind: FileKind::Socket }, NextStep::MakeSocket),
            ("copy", Reason::NotRegular { kind: FileKind::Fifo }, NextStep::CopyContents),
            (
                "write to",
                Reason::NotRegular { kind: FileKind::Socket },
                NextStep::NameOtherDestination,
            ),
        ] {
            assert_eq!(after(operation, &reason), Some(step), "{operation}: {reason}");
        }
    }

    /// The library chooses no step after these, because they have one themselves.
    #[test]
    fn refusals_have_a_next_step() {
        for (code, steps) in Objection::STEPS.iter().chain(Contradiction::STEPS) {
            assert_eq!(*steps, usize::from(*code != "other"), "{code}");
        }
    }
}
