//! Processes and their sockets, from `/proc`.

use std::fs;
use std::io::ErrorKind;

use crate::found::ProcessName;
use uncopy_core::{Errno, Error, Result};

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
    processes().find_map(|pid| Owner::among(&sockets_of(pid).ok()?, pid, inode))
}

/// Processes that hold sockets.
pub(crate) struct Owners {
    /// For each of the sockets, the processes that hold it.
    pub(crate) of: Vec<Vec<Owner>>,
    /// Whether the descriptors of every process could be read.
    pub(crate) are_complete: bool,
}

/// Returns every visible process that holds one of the sockets with these inodes.
pub(crate) fn owners_of(inodes: &[u64]) -> Owners {
    let mut owners = Owners { of: vec![Vec::new(); inodes.len()], are_complete: true };
    for pid in processes() {
        match sockets_of(pid) {
            Ok(sockets) => {
                for (inode, of) in inodes.iter().zip(&mut owners.of) {
                    of.extend(Owner::among(&sockets, pid, *inode));
                }
            }
            Err(error) => owners.are_complete &= error.kind() != ErrorKind::PermissionDenied,
        }
    }
    owners
}

impl Owner {
    /// Returns the process as an owner of this inode, if it is among its sockets.
    fn among(sockets: &[(i32, u64)], pid: u32, inode: u64) -> Option<Owner> {
        let (descriptor, _) = sockets.iter().find(|(_, held)| *held == inode)?;
        Some(Owner { pid, program: program_of(pid), descriptor: *descriptor })
    }
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

/// Returns the name of a process.
///
/// # Errors
/// There is no such process.
pub(crate) fn find(pid: u32) -> Result<ProcessName> {
    match has_ended(pid) {
        true => Err(missing(pid)),
        false => Ok(ProcessName { program: program_of(pid), pid }),
    }
}

/// Whether there is no such process, or only its exit status is left.
pub(crate) fn has_ended(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    matches!(state_in(&status), None | Some('Z' | 'X'))
}

/// Makes the error for a process that is not there.
pub(crate) fn missing(pid: u32) -> Error {
    Error::system("find the process", pid.to_string(), Errno::ESRCH)
}

/// Parses the state from the text of `/proc/PID/status`.
pub(crate) fn state_in(status: &str) -> Option<char> {
    let rest = status.lines().find_map(|line| line.strip_prefix("State:"))?;
    rest.trim_start().chars().next()
}

/// Returns the sockets of a process: descriptors and inodes.
///
/// # Errors
/// There is no such process, or this user has no permission to read them.
pub(crate) fn sockets_of(pid: u32) -> std::io::Result<Vec<(i32, u64)>> {
    let socket = |entry: fs::DirEntry| {
        let descriptor = entry.file_name().to_str()?.parse().ok()?;
        let target = fs::read_link(entry.path()).ok()?;
        Some((descriptor, socket_in(target.to_str()?)?))
    };
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    Ok(entries.filter_map(socket).collect())
}

/// Parses the inode of a socket from a link of `/proc/PID/fd`.
pub(crate) fn socket_in(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
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

    #[test]
    fn states_are_parsed() {
        assert_eq!(state_in("Name:\tsleep\nState:\tT (stopped)\n"), Some('T'));
        assert_eq!(state_in("Name:\tsleep\nState:\n"), None);
        assert!(!has_ended(std::process::id()) && has_ended(u32::MAX));
        assert_eq!(find(std::process::id()).unwrap().pid, std::process::id());
    }

    #[test]
    fn owners_of_several_sockets_are_kept_apart() {
        let sockets = [0; 2].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let inodes = sockets.each_ref().map(|socket| uncopy_os::file::inode(socket).unwrap());
        let owners = owners_of(&[inodes[1], u64::MAX, inodes[0]]);
        let descriptors: Vec<Vec<i32>> = owners
            .of
            .iter()
            .map(|of| {
                let own = of.iter().filter(|owner| owner.pid == std::process::id());
                own.map(|owner| owner.descriptor).collect()
            })
            .collect();
        let expected = [vec![sockets[1].as_raw_fd()], vec![], vec![sockets[0].as_raw_fd()]];
        assert_eq!(descriptors, expected);
    }
}
