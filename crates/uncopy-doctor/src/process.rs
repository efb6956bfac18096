//! Processes and their sockets, from `/proc`.

use std::fs;

/// A process that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Name from `/proc/PID/comm`: at most 15 bytes.
    pub(crate) program: String,
    /// The number of its descriptor.
    pub(crate) descriptor: i32,
}

/// Returns the first visible process with a descriptor of the socket with this inode.
pub(crate) fn owner_of(inode: u64) -> Option<Owner> {
    processes().find_map(|pid| {
        let (descriptor, _) = sockets_of(pid).ok()?.into_iter().find(|(_, i)| *i == inode)?;
        Some(Owner { pid, program: program_of(pid), descriptor })
    })
}

/// Iterates over the visible processes.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the name of a process's program.
pub(crate) fn program_of(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// Returns the sockets of a process: descriptors and inodes.
///
/// # Errors
/// There is no such process, or this user has no permission to read them.
pub(crate) fn sockets_of(pid: u32) -> std::io::Result<Vec<(i32, u64)>> {
    let socket = |entry: fs::DirEntry| {
        let descriptor = entry.file_name().to_str()?.parse().ok()?;
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some((descriptor, inode))
    };
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    Ok(entries.filter_map(socket).collect())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_socket_of_this_process_is_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sockets = sockets_of(std::process::id()).unwrap();
        let (_, inode) = sockets.iter().find(|(fd, _)| *fd == socket.as_raw_fd()).unwrap();
        let owner = owner_of(*inode).unwrap();
        assert_eq!((owner.pid, owner.descriptor), (std::process::id(), socket.as_raw_fd()));
        assert!(!owner.program.is_empty());
        assert_eq!(owner_of(u64::MAX), None);
        assert!(sockets_of(0).is_err());
    }
}
