//! Gathers facts about a channel between processes.
//!
//! | source | facts | right |
//! |---|---|---|
//! | `/proc/PID/status`, `limits`, `cgroup`; `sock_diag(7)` | state, limits; the other end, queues, buffers | none |
//! | `/proc/PID/fd`, `fdinfo` | which sockets a process holds; descriptors in messages | `PTRACE_MODE_READ_FSCREDS` |
//! | `pidfd_getfd(2)` | options of a socket | `PTRACE_MODE_ATTACH_REALCREDS` |

use std::fs;
use std::io::ErrorKind;

use crate::channel_facts::{
    ChannelEnd, ChannelFacts, ChannelHolder, FarEnd, MessageCharge, ReceiveWork,
};
use crate::found::ProcessName;
use crate::process::{self, Owner, socket_in};

use uncopy_core::message::{MAX_BYTES, SOCKET_HEADER_BYTES};
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::capabilities::Limit;
use uncopy_os::netlink::unix_diag::{self, UnixSocket};
use uncopy_os::pidfd::{self, SocketNature};
use uncopy_os::{Sys, seqpacket};

/// Sizes of messages whose charge is tried.
const SIZES: [usize; 3] = [MAX_BYTES, 4096, 256];

/// Result of looking at a descriptor.
pub(super) enum Looked {
    /// The facts.
    Facts(Box<ChannelFacts>),
    /// This user has no right to look.
    Hidden {
        /// Source that refused.
        source: &'static str,
        /// Its answer.
        said: String,
    },
}

/// Looks at a descriptor of a process.
///
/// # Errors
/// There is no such process or descriptor, or it is not a channel.
pub(super) fn look(process: &ProcessName, descriptor: i32) -> Result<Looked> {
    let pid = process.pid;
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let link = match fs::read_link(&path) {
        Ok(link) => link.to_string_lossy().into_owned(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Ok(Looked::Hidden { source: "/proc/PID/fd", said: error.to_string() });
        }
        Err(_) => return Err(absent(pid, descriptor)),
    };
    let refuse = |what| {
        let reason = Reason::Refused(Objection::NotChannel { what });
        Err(Error::new("examine the channel", format!("{pid}:{descriptor}"), reason))
    };
    let Some(inode) = socket_in(&link) else { return refuse(kind_of(&link)) };
    let read = read_duplicate(pid, descriptor);
    let known = unix_diag::socket(inode);
    let is_connected = match (&read, known) {
        (Ok(read), _) if !is_channel(read.nature) => return refuse(nature_of(read.nature)),
        (_, Ok(known)) => {
            let nature =
                SocketNature { family: libc::AF_UNIX, kind: known.kind, is_listening: false };
            if !is_channel(nature) {
                return refuse(nature_of(nature));
            }
            known.is_connected
        }
        (Ok(_), Err(_)) => true,
        (Err(errno), Err(Errno::ENOENT)) => {
            let said = format!("{} ({errno})", errno.message());
            return Ok(Looked::Hidden { source: "pidfd_getfd", said });
        }
        (Err(_), Err(errno)) => {
            let said = format!("{} ({errno})", errno.message());
            return Ok(Looked::Hidden { source: SOCK_DIAG, said });
        }
    };
    if !is_connected {
        return refuse("a socket that is not connected".to_owned());
    }
    let facts = facts(process, descriptor, inode, read, known);
    // If the process has closed it meanwhile, the facts may be of another socket, or incomplete.
    match fs::read_link(&path) {
        Ok(now) if *now.as_os_str() == *link => Ok(Looked::Facts(Box::new(facts))),
        _ => Err(absent(pid, descriptor)),
    }
}

pub(super) const SOCK_DIAG: &str = "sock_diag UNIX_DIAG";

/// Makes the error for a process or a descriptor that is not there.
fn absent(pid: u32, descriptor: i32) -> Error {
    if process::has_ended(pid) {
        return process::missing(pid);
    }
    Error::system("examine the channel", format!("{pid}:{descriptor}"), Errno::EBADF)
}

fn is_channel(nature: SocketNature) -> bool {
    let kind = (nature.family, nature.kind);
    kind == (libc::AF_UNIX, libc::SOCK_SEQPACKET) && !nature.is_listening
}

/// Describes a descriptor that is not a socket by its link in `/proc/PID/fd`.
fn kind_of(link: &str) -> String {
    match link {
        _ if link.starts_with("pipe:") => "a pipe".to_owned(),
        _ if link.starts_with("/memfd:") => "a memory file".to_owned(),
        _ if link.starts_with('/') => format!("the file {link}"),
        _ => format!("no socket ({link})"),
    }
}

/// Describes a socket that is not a channel's.
fn nature_of(nature: SocketNature) -> String {
    let SocketNature { family, kind, is_listening } = nature;
    let text = match (family, kind) {
        (libc::AF_UNIX, libc::SOCK_SEQPACKET) if is_listening => "a socket that listens",
        (libc::AF_UNIX, libc::SOCK_STREAM) => "a stream socket of unix(7)",
        (libc::AF_UNIX, libc::SOCK_DGRAM) => "a datagram socket of unix(7)",
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM) => "a TCP socket",
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_DGRAM) => "a UDP socket",
        _ => return format!("a socket of family {family} and type {kind}"),
    };
    text.to_owned()
}

fn facts(
    process: &ProcessName,
    descriptor: i32,
    inode: u64,
    read: Sys<SocketFacts>,
    known: Sys<UnixSocket>,
) -> ChannelFacts {
    let peer = known.map(|known| known.peer);
    let far_inode = peer.ok().flatten();
    let inodes: Vec<u64> = std::iter::once(inode).chain(far_inode).collect();
    let owners = process::owners_of(&inodes);
    let mut of = owners.of.into_iter();
    let mut holders = || -> Vec<ChannelHolder> {
        of.next().unwrap_or_default().into_iter().map(holder).collect()
    };
    let examined = holder(Owner { pid: process.pid, program: process.program.clone(), descriptor });
    let mut near_holders = holders();
    near_holders.retain(|holder| holder.process.pid != process.pid);
    near_holders.insert(0, examined);
    let far = match (peer, far_inode) {
        (Err(errno), _) => FarEnd::Unknown { errno },
        (Ok(_), None) => FarEnd::Closed,
        (Ok(_), Some(far)) => {
            let holders = holders();
            let reads =
                holders.iter().map(|holder| read_duplicate(holder.process.pid, holder.descriptor));
            // The error of the first one is as good as any.
            let read = reads.reduce(|first, next| first.or_else(|errno| next.map_err(|_| errno)));
            let read = read.unwrap_or(Err(Errno::EPERM));
            FarEnd::Open(end(far, holders, read, unix_diag::socket(far)))
        }
    };
    ChannelFacts {
        near: end(inode, near_holders, read, known),
        far,
        are_holders_complete: owners.are_complete,
        requested_bytes: seqpacket::SEND_BUFFER_BYTES as u64,
        wmem_max_bytes: number_in_file("/proc/sys/net/core/wmem_max"),
        charges: SIZES.iter().filter_map(|bytes| charge(*bytes)).collect(),
    }
}

fn charge(bytes: usize) -> Option<MessageCharge> {
    let charged = seqpacket::charge_of(SOCKET_HEADER_BYTES + bytes).ok()?;
    Some(MessageCharge { message_bytes: bytes as u64, charged_bytes: charged as u64 })
}

/// Facts that are read from a duplicate of a descriptor.
struct SocketFacts {
    nature: SocketNature,
    work: ReceiveWork,
    send_buffer_bytes: Option<u64>,
    sent_bytes: u64,
    unread_bytes: u64,
}

/// Reads from a duplicate of a descriptor, which is closed again, so that this process is not found among
/// the holders of the socket.
fn read_duplicate(pid: u32, descriptor: i32) -> Sys<SocketFacts> {
    let socket = pidfd::descriptor_of(pid, descriptor)?;
    let options = pidfd::options_with_work(&socket);
    Ok(SocketFacts {
        nature: pidfd::nature(&socket)?,
        work: ReceiveWork { options, has_filter: pidfd::has_filter(&socket)? },
        send_buffer_bytes: seqpacket::send_buffer_bytes(&socket).ok().map(|bytes| bytes as u64),
        sent_bytes: seqpacket::unsent_bytes(&socket) as u64,
        unread_bytes: seqpacket::unread_bytes(&socket) as u64,
    })
}

/// Puts together what is known about an end: from `sock_diag(7)`, or from a duplicate of its descriptor.
fn end(
    inode: u64,
    holders: Vec<ChannelHolder>,
    read: Sys<SocketFacts>,
    known: Sys<UnixSocket>,
) -> ChannelEnd {
    let (own, known) = (read.as_ref().ok(), known.ok());
    ChannelEnd {
        inode,
        is_shut_down: known.is_some_and(|known| known.is_shut_down),
        send_buffer_bytes: known
            .and_then(|known| known.send_buffer_bytes)
            .or_else(|| own?.send_buffer_bytes),
        sent_bytes: known.and_then(|known| known.charged_bytes).or_else(|| Some(own?.sent_bytes)),
        unread_bytes: known
            .and_then(|known| known.unread_bytes)
            .or_else(|| Some(own?.unread_bytes)),
        unread_descriptors: holders.first().and_then(unread_descriptors),
        work: read.map(|read| read.work),
        holders,
    }
}

fn unread_descriptors(holder: &ChannelHolder) -> Option<u64> {
    let path = format!("/proc/{}/fdinfo/{}", holder.process.pid, holder.descriptor);
    number_after(&fs::read_to_string(path).ok()?, "scm_fds:")
}

/// Looks at a process that holds an end.
fn holder(owner: Owner) -> ChannelHolder {
    let pid = owner.pid;
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let (status, limits) = (read("status"), read("limits"));
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    ChannelHolder {
        process: ProcessName { program: owner.program, pid },
        descriptor: owner.descriptor,
        state: process::state_in(&status),
        is_frozen: frozen_files(&read("cgroup"))
            .any(|path| fs::read_to_string(path).is_ok_and(|text| says_frozen(&text))),
        open_files: entries.ok().map(|entries| entries.count() as u64),
        max_open_files: limit_in(&limits, "Max open files"),
        is_exempt: may_exceed(&status) && is_in_first_namespace(pid),
        locked_bytes: number_after(&status, "VmLck:").map(|kib| kib << 10),
        max_locked_bytes: limit_in(&limits, "Max locked memory"),
    }
}

/// Whether the effective capabilities in `/proc/PID/status` have one that lifts the limit on descriptors in messages.
fn may_exceed(status: &str) -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const SYS_RESOURCE: u64 = 1 << 24;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
        .is_some_and(|effective| effective & (SYS_ADMIN | SYS_RESOURCE) != 0)
}

/// Whether a process is in the first user namespace. One that cannot be looked at is not known to be.
fn is_in_first_namespace(pid: u32) -> bool {
    // `PROC_USER_INIT_INO` in include/linux/proc_ns.h.
    const FIRST: &str = "user:[4026531837]";
    fs::read_link(format!("/proc/{pid}/ns/user")).is_ok_and(|link| link.as_os_str() == FIRST)
}

fn number_in_file(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Parses the number behind a name at the beginning of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Parses a line of `/proc/PID/limits`: name, soft limit, hard limit, unit.
fn limit_in(limits: &str, name: &str) -> Limit {
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
    let mut next = || numbers.next().flatten();
    let soft = next();
    Limit { soft, hard: next() }
}

/// Returns the files that say whether the control groups of a process are frozen, from the text of
/// `/proc/PID/cgroup` (`cgroups(7)`). Both versions are mounted in the usual places.
fn frozen_files(groups: &str) -> impl Iterator<Item = String> {
    groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            return Vec::new();
        };
        let group = group.trim_end_matches('/');
        match controllers {
            "" => ["", "/unified"]
                .map(|root| format!("/sys/fs/cgroup{root}{group}/cgroup.events"))
                .to_vec(),
            "freezer" => vec![format!("/sys/fs/cgroup/freezer{group}/freezer.state")],
            _ => Vec::new(),
        }
    })
}

/// Whether the text of `cgroup.events` or `freezer.state` says that the group is frozen.
fn says_frozen(text: &str) -> bool {
    text.lines().any(|line| matches!(line, "frozen 1" | "FROZEN"))
}

#[cfg(fuzzing)]
pub(crate) fn fuzz(text: &str) {
    let _ = (kind_of(text), number_after(text, "VmLck:"), limit_in(text, "Max open files"));
    let _ = (frozen_files(text).count(), says_frozen(text), process::state_in(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_described() {
        for (link, expected) in [
            ("pipe:[712]", "a pipe"),
            ("/memfd:uncopy-vmo (deleted)", "a memory file"),
            ("/tmp/a b", "the file /tmp/a b"),
            ("anon_inode:[eventfd]", "no socket (anon_inode:[eventfd])"),
        ] {
            assert_eq!(kind_of(link), expected);
        }
        let nature = |family, kind, is_listening| SocketNature { family, kind, is_listening };
        for (nature, expected) in [
            (nature(libc::AF_INET, libc::SOCK_STREAM, true), "a TCP socket"),
            (nature(libc::AF_INET6, libc::SOCK_DGRAM, false), "a UDP socket"),
            (nature(libc::AF_UNIX, libc::SOCK_STREAM, false), "a stream socket of unix(7)"),
            (nature(libc::AF_UNIX, libc::SOCK_DGRAM, false), "a datagram socket of unix(7)"),
            (nature(libc::AF_UNIX, libc::SOCK_SEQPACKET, true), "a socket that listens"),
            (nature(libc::AF_PACKET, libc::SOCK_RAW, false), "a socket of family 17 and type 3"),
        ] {
            assert!(!is_channel(nature), "{nature:?}");
            assert_eq!(nature_of(nature), expected);
        }
        assert!(is_channel(nature(libc::AF_UNIX, libc::SOCK_SEQPACKET, false)));
    }

    #[test]
    fn two_capabilities_lift_the_limit_on_descriptors_in_messages() {
        for (digits, expected) in [
            ("000001ffffffffff", true),
            ("0000000000200000", true),
            ("0000000001000000", true),
            ("0000000000dfffff", false),
            ("0000000000000000", false),
            ("?", false),
        ] {
            assert_eq!(may_exceed(&format!("Name:\tx\nCapEff:\t{digits}\n")), expected, "{digits}");
        }
    }

    #[test]
    fn the_kernels_lines_are_parsed() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 524288               files     \n\
                      Max locked memory         8388608              unlimited            bytes     \n";
        let limit = |soft, hard| Limit { soft, hard };
        assert_eq!(limit_in(limits, "Max open files"), limit(Some(1024), Some(524_288)));
        assert_eq!(limit_in(limits, "Max locked memory"), limit(Some(8_388_608), None));
        assert_eq!(limit_in("", "Max open files"), limit(None, None));
        assert_eq!(number_after("pos:\t0\nscm_fds: 12\n", "scm_fds:"), Some(12));
        assert_eq!(number_after("VmLck:\t      64 kB\n", "VmLck:"), Some(64));
        assert_eq!(number_after("VmLck:\n", "VmLck:"), None);
    }

    #[test]
    fn frozen_groups_are_found_in_both_versions() {
        let files = |groups| frozen_files(groups).collect::<Vec<_>>();
        assert_eq!(
            files("6:freezer:/jobs\n4:memory:/a:b\n0::/\n"),
            [
                "/sys/fs/cgroup/freezer/jobs/freezer.state",
                "/sys/fs/cgroup/cgroup.events",
                "/sys/fs/cgroup/unified/cgroup.events",
            ]
        );
        assert_eq!(files("nonsense\n"), [""; 0]);
        assert!(says_frozen("populated 1\nfrozen 1\n") && says_frozen("FROZEN\n"));
        assert!(!says_frozen("populated 1\nfrozen 0\n") && !says_frozen("THAWED\n"));
    }

    #[test]
    fn what_is_charged_is_more_than_the_bytes() {
        for bytes in SIZES {
            let charge = charge(bytes).unwrap();
            assert!(charge.charged_bytes > charge.message_bytes, "{charge:?}");
        }
    }
}
