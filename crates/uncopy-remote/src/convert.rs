//! Statuses of the system as statuses of the protocol, and back.

use rustix::fs::FileType;
use uncopy_os::file::{Stat, Timestamp};
use uncopy_wire::{Kind, Status, Time};

const KINDS: [(Kind, FileType); 7] = [
    (Kind::File, FileType::RegularFile),
    (Kind::Directory, FileType::Directory),
    (Kind::Link, FileType::Symlink),
    (Kind::Fifo, FileType::Fifo),
    (Kind::Socket, FileType::Socket),
    (Kind::CharacterDevice, FileType::CharacterDevice),
    (Kind::BlockDevice, FileType::BlockDevice),
];

/// Converts a status of the system; `None`: its type is unknown.
pub(crate) fn status(stat: &Stat) -> Option<Status> {
    let (kind, _) = KINDS.iter().find(|(_, found)| *found == stat.file_type())?;
    let number = |(major, minor): (u32, u32)| u64::from(major) << 32 | u64::from(minor);
    let time = |time: Timestamp| Time { seconds: time.seconds, nanoseconds: time.nanoseconds };
    Some(Status {
        kind: *kind,
        mode: stat.permissions(),
        links: stat.links,
        user: stat.uid,
        group: stat.gid,
        size: stat.size,
        blocks: stat.blocks,
        device: number(stat.device),
        inode: stat.inode,
        special: number(stat.special),
        accessed: time(stat.accessed),
        modified: time(stat.modified),
        changed: time(stat.changed),
        birth: stat.birth.map(time),
    })
}

/// Converts a status of the protocol. What it does not say is as of a system that does not say it.
pub(crate) fn stat(status: &Status) -> Stat {
    let kind = KINDS.iter().find(|(kind, _)| *kind == status.kind);
    let kind = kind.map_or(FileType::Unknown, |(_, kind)| *kind);
    let number = |number: u64| ((number >> 32) as u32, number as u32);
    let time = |time: Time| Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds };
    Stat {
        device: number(status.device),
        inode: status.inode,
        mode: kind.as_raw_mode() | status.mode,
        links: status.links,
        uid: status.user,
        gid: status.group,
        size: status.size,
        blocks: status.blocks,
        special: number(status.special),
        accessed: time(status.accessed),
        modified: time(status.modified),
        changed: time(status.changed),
        birth: status.birth.map(time),
        direct: None,
        mount_root: false,
        may_be_dax: true,
        is_flagged: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_crosses_the_wire_comes_back() {
        for path in ["/", "/dev/null", "/proc/self/exe", "/proc/self/status"] {
            let found = uncopy_os::directory::stat_path(path.as_ref()).unwrap();
            let back = stat(&status(&found).unwrap());
            let Stat { direct, mount_root, may_be_dax, is_flagged, .. } = back;
            assert_eq!(
                back,
                Stat { direct, mount_root, may_be_dax, is_flagged, ..found },
                "{path}"
            );
        }
        for kind in Kind::ALL {
            assert_eq!(status(&stat(&Status { kind, ..Status::default() })).unwrap().kind, kind);
        }
    }
}
