//! Systems other than Linux: nothing is asked yet, and every answer says so.

use std::path::Path;

use super::{
    Answer, Device, DeviceKind, Filesystem, Identity, IoUring, Kernel, Limits, SocketKind, Storage,
    ZerocopySocket,
};
use crate::error::{Errno, Error, Result};

fn not_asked<T>() -> Answer<T> {
    Answer::unknown("this system is not asked yet")
}

pub(super) fn kernel() -> Kernel {
    let msg_zerocopy = SocketKind::ALL.map(|kind| ZerocopySocket { kind, answer: not_asked() });
    Kernel {
        release: std::env::consts::OS.to_owned(),
        io_uring: IoUring { available: not_asked(), disabled: None, operations: Vec::new() },
        msg_zerocopy: msg_zerocopy.into(),
        limits: Limits::default(),
    }
}

pub(super) fn limits() -> Limits {
    Limits::default()
}

pub(super) fn identity(path: &Path) -> Result<Identity> {
    Err(Error::system("identify the filesystem of", path, Errno::ENOSYS))
}

pub(super) fn storage(path: &Path) -> Result<Storage> {
    let metadata = std::fs::metadata(path).map_err(|error| {
        Error::system("examine", path, Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    })?;
    let directory = match path.parent() {
        Some(parent) if !metadata.is_dir() => parent,
        _ => path,
    };
    Ok(Storage {
        path: path.to_owned(),
        directory: directory.to_owned(),
        filesystem: Filesystem::from_magic(0),
        device: Device {
            name: String::new(),
            kind: DeviceKind::Anonymous,
            rotational: None,
            transport: None,
        },
        reflink: not_asked(),
        copy_file_range: not_asked(),
        direct_alignment: None,
        direct_write: not_asked(),
        holes: not_asked(),
        seek_hole: not_asked(),
        punch_hole: not_asked(),
        fallocate: not_asked(),
        unnamed_files: not_asked(),
        rename_noreplace: not_asked(),
    })
}
