//! Systems other than Linux: nothing is probed yet, and every answer says so.

use std::path::Path;

use super::{
    Answer, AnswerReason, Device, DeviceKind, Filesystem, Identity, IoUring, Kernel, Limits,
    SocketProtocol, Storage, ZerocopySocket,
};
use uncopy_core::other_system;
use uncopy_core::{Error, Reason, Result};

fn not_asked<T>() -> Answer<T> {
    Answer::unknown(AnswerReason::NotAskedHere)
}

pub(super) fn kernel() -> Kernel {
    let msg_zerocopy =
        SocketProtocol::ALL.map(|protocol| ZerocopySocket { protocol, answer: not_asked() });
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
    let reason = Reason::Refused("not supported on this system yet".into());
    Err(Error::new("identify the filesystem of", path, reason))
}

pub(super) fn storage(path: &Path) -> Result<Storage> {
    let metadata =
        std::fs::metadata(path).map_err(|error| other_system::refused("examine", path, error))?;
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
