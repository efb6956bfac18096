//! Status of an entry.

use crate::Violation;
use crate::codec::{Reader, Writer};

/// Kind of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Regular file.
    #[default]
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Link,
    /// FIFO.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 7] = [
        Kind::File,
        Kind::Directory,
        Kind::Link,
        Kind::Fifo,
        Kind::Socket,
        Kind::CharacterDevice,
        Kind::BlockDevice,
    ];
}

/// Time since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// Status of an entry, as its system gives it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Kind.
    pub kind: Kind,
    /// Permissions, setuid, setgid and sticky bit: at most 0o7777.
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Number of the owner.
    pub user: u32,
    /// Number of the group.
    pub group: u32,
    /// Length in bytes.
    pub size: u64,
    /// Space that it takes, in units of 512 bytes.
    pub blocks: u64,
    /// Number of the filesystem.
    pub device: u64,
    /// Number in the filesystem.
    pub inode: u64,
    /// Device that a device file stands for.
    pub special: u64,
    /// Time of the last access.
    pub accessed: Time,
    /// Time of the last change of the contents.
    pub modified: Time,
    /// Time of the last change of the status.
    pub changed: Time,
    /// Time of birth, where the filesystem keeps it.
    pub birth: Option<Time>,
}

const NO_TIME: u32 = u32::MAX;
const NANOSECONDS: u32 = 1_000_000_000;

impl Status {
    pub(crate) fn write(&self, writer: &mut Writer) {
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or(0);
        writer.u8(kind as u8).u32(self.mode).u32(self.links).u32(self.user).u32(self.group);
        for number in [self.size, self.blocks, self.device, self.inode, self.special] {
            writer.u64(number);
        }
        let none = Time { seconds: 0, nanoseconds: NO_TIME };
        for time in [self.accessed, self.modified, self.changed, self.birth.unwrap_or(none)] {
            writer.i64(time.seconds).u32(time.nanoseconds);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Status, Violation> {
        let kind = usize::from(reader.u8()?);
        let kind = *Kind::ALL.get(kind).ok_or(reader.malformed())?;
        let mode = reader.u32()?;
        if mode > 0o7777 {
            return Err(reader.malformed());
        }
        let (links, user, group) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (size, blocks, device) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (inode, special) = (reader.u64()?, reader.u64()?);
        // A length above this is none for any call.
        if i64::try_from(size).is_err() {
            return Err(reader.malformed());
        }
        let time = |reader: &mut Reader<'_>| {
            let (seconds, nanoseconds) = (reader.i64()?, reader.u32()?);
            match nanoseconds {
                0..NANOSECONDS => Ok(Some(Time { seconds, nanoseconds })),
                NO_TIME if seconds == 0 => Ok(None),
                _ => Err(reader.malformed()),
            }
        };
        let [accessed, modified, changed] = [time(reader)?, time(reader)?, time(reader)?]
            .map(|time| time.ok_or(reader.malformed()));
        let (accessed, modified, changed, birth) = (accessed?, modified?, changed?, time(reader)?);
        Ok(Status {
            kind,
            mode,
            links,
            user,
            group,
            size,
            blocks,
            device,
            inode,
            special,
            accessed,
            modified,
            changed,
            birth,
        })
    }
}
