//! Identifies a file by its number and its time of birth.

/// Seconds and nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    pub seconds: i64,
    pub nanoseconds: u32,
}

/// Identity of a file within its filesystem, also after a reboot: inode numbers are reused, but not with
/// the same creation time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    pub inode: u64,
    pub birth: Option<Timestamp>,
}

impl FileId {
    pub const BYTES: usize = 20;

    /// Whether both are certainly the same file. An inode number without a creation time proves nothing.
    pub fn is_surely(&self, other: &FileId) -> bool {
        self.birth.is_some() && self == other
    }

    /// Encodes in little-endian. Nanoseconds out of range stand for a missing creation time.
    pub fn to_bytes(self) -> [u8; FileId::BYTES] {
        let birth = self.birth.unwrap_or(Timestamp { seconds: 0, nanoseconds: u32::MAX });
        let mut bytes = [0; FileId::BYTES];
        bytes[..8].copy_from_slice(&self.inode.to_le_bytes());
        bytes[8..16].copy_from_slice(&birth.seconds.to_le_bytes());
        bytes[16..].copy_from_slice(&birth.nanoseconds.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; FileId::BYTES]) -> FileId {
        let long = |place: usize| bytes[place..place + 8].try_into().unwrap_or([0; 8]);
        let seconds = i64::from_le_bytes(long(8));
        let nanoseconds = u32::from_le_bytes(bytes[16..].try_into().unwrap_or([0; 4]));
        let birth = (nanoseconds < 1_000_000_000).then_some(Timestamp { seconds, nanoseconds });
        FileId { inode: u64::from_le_bytes(long(0)), birth }
    }
}
