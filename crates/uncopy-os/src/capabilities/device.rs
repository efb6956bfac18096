//! The block device below a file.

use std::fs;
use std::path::{Path, PathBuf};

/// Kind of the device that stores a file's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A disk, or a partition of one.
    Disk,
    /// A file used as a disk; its page cache may lie in between.
    Loop,
    /// Built from other devices, which may transform the bytes: device mapper, md, bcache.
    Stacked,
    /// Across a network: nbd, rbd, drbd.
    Network,
    /// Memory: zram, brd.
    Memory,
    /// No block device (tmpfs, overlayfs, network filesystems), or one that the filesystem does not report
    /// (btrfs).
    Anonymous,
}

impl DeviceKind {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Disk => "disk",
            DeviceKind::Loop => "loop",
            DeviceKind::Stacked => "stacked",
            DeviceKind::Network => "network",
            DeviceKind::Memory => "memory",
            DeviceKind::Anonymous => "anonymous",
        }
    }
}

/// The block device below a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// Kernel name (`vda1`); empty for [`DeviceKind::Anonymous`].
    pub name: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Whether the disk is rotational; `None` where the kernel does not say.
    pub rotational: Option<bool>,
    /// Transport, from its path in sysfs: `nvme`, `virtio`, `ata`, `usb`, `mmc`, `iscsi`, `nvme-of`.
    pub transport: Option<&'static str>,
}

impl Device {
    /// Returns the device with this `st_dev`, as described in `/sys/dev/block`.
    #[must_use]
    pub fn with_number(major: u32, minor: u32) -> Device {
        let anonymous = Device {
            name: String::new(),
            kind: DeviceKind::Anonymous,
            rotational: None,
            transport: None,
        };
        if major == 0 {
            return anonymous;
        }
        let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let Ok(path) = fs::canonicalize(link) else { return anonymous };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let disk = whole_disk(&path);
        let stacked = fs::read_dir(disk.join("slaves")).is_ok_and(|mut d| d.next().is_some());
        let transport = transport_of(&path);
        let is_remote = matches!(transport, Some("iscsi" | "nvme-of"));
        Device {
            kind: match (stacked, is_remote) {
                (true, _) => DeviceKind::Stacked,
                (false, true) => DeviceKind::Network,
                (false, false) => kind_of(&name),
            },
            transport,
            rotational: fs::read_to_string(disk.join("queue/rotational"))
                .ok()
                .map(|text| text.trim() == "1"),
            name,
        }
    }
}

/// Returns the disk's directory, which is the parent of a partition's directory.
fn whole_disk(path: &Path) -> &Path {
    if path.join("partition").exists() { path.parent().unwrap_or(path) } else { path }
}

/// Returns a disk's transport. Remote disks have local names and differ only in their path in sysfs.
fn transport_of(path: &Path) -> Option<&'static str> {
    let numbered = |part: &str, prefix: &str| {
        part.strip_prefix(prefix).is_some_and(|n| n.parse::<u32>().is_ok())
    };
    let known = |part: &str| match part {
        "nvme-fabrics" => Some("nvme-of"),
        "nvme" => Some("nvme"),
        "mmc_host" => Some("mmc"),
        _ if numbered(part, "session") => Some("iscsi"),
        _ if numbered(part, "virtio") => Some("virtio"),
        _ if numbered(part, "ata") => Some("ata"),
        _ if numbered(part, "usb") => Some("usb"),
        _ => None,
    };
    path.components().find_map(|part| known(&part.as_os_str().to_string_lossy()))
}

fn kind_of(name: &str) -> DeviceKind {
    const PREFIXES: &[(&str, DeviceKind)] = &[
        ("loop", DeviceKind::Loop),
        ("dm-", DeviceKind::Stacked),
        ("md", DeviceKind::Stacked),
        ("bcache", DeviceKind::Stacked),
        ("nbd", DeviceKind::Network),
        ("rbd", DeviceKind::Network),
        ("drbd", DeviceKind::Network),
        ("zram", DeviceKind::Memory),
        ("ram", DeviceKind::Memory),
    ];
    PREFIXES
        .iter()
        .find(|(prefix, _)| {
            name.strip_prefix(prefix).is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()))
        })
        .map_or(DeviceKind::Disk, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{DeviceKind, kind_of, transport_of};

    #[test]
    fn the_transport_follows_from_the_path_in_sysfs() {
        for (path, expected) in [
            ("/sys/devices/pci0000:00/0000:00:03.0/virtio1/block/vda", Some("virtio")),
            (
                "/sys/devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sda",
                Some("ata"),
            ),
            ("/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/block/sdc", Some("usb")),
            ("/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", Some("nvme")),
            ("/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sdb", Some("iscsi")),
            ("/sys/devices/virtual/nvme-fabrics/ctl/nvme1/nvme1n1", Some("nvme-of")),
            ("/sys/devices/virtual/block/loop0", None),
        ] {
            assert_eq!(transport_of(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn the_kind_follows_from_the_name() {
        for (name, kind) in [
            ("vda", DeviceKind::Disk),
            ("nvme0n1p2", DeviceKind::Disk),
            ("mmcblk0", DeviceKind::Disk),
            ("loop7", DeviceKind::Loop),
            ("dm-3", DeviceKind::Stacked),
            ("md127", DeviceKind::Stacked),
            ("mdadm", DeviceKind::Disk),
            ("nbd0", DeviceKind::Network),
            ("zram0", DeviceKind::Memory),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }
}
