//! Kinds of files.

use std::fmt;

/// Kind of a file.
///
/// Displayed with its article, as a sentence about the file needs it: "a directory".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// FIFO, a pipe with a name.
    Fifo,
    /// Socket of the Unix domain.
    Socket,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
    /// Device in every directory of Windows, by a reserved name: `NUL`, `COM1.txt`.
    ReservedName,
    /// Alternate data stream of Windows: `file:stream`.
    AlternateStream,
    /// None of these, or the system does not say.
    Unknown,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [FileKind; 10] = [
        FileKind::Regular,
        FileKind::Directory,
        FileKind::Symlink,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::CharacterDevice,
        FileKind::BlockDevice,
        FileKind::ReservedName,
        FileKind::AlternateStream,
        FileKind::Unknown,
    ];

    /// Returns the stable name, for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            FileKind::Regular => "regular",
            FileKind::Directory => "directory",
            FileKind::Symlink => "symlink",
            FileKind::Fifo => "fifo",
            FileKind::Socket => "socket",
            FileKind::CharacterDevice => "character_device",
            FileKind::BlockDevice => "block_device",
            FileKind::ReservedName => "reserved_name",
            FileKind::AlternateStream => "alternate_stream",
            FileKind::Unknown => "unknown",
        }
    }

    /// Whether it is a character device or a block device.
    #[must_use]
    pub const fn is_device(self) -> bool {
        matches!(self, FileKind::CharacterDevice | FileKind::BlockDevice)
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Regular => "a regular file",
            FileKind::Directory => "a directory",
            FileKind::Symlink => "a symbolic link",
            FileKind::Fifo => "a FIFO",
            FileKind::Socket => "a socket",
            FileKind::CharacterDevice => "a character device",
            FileKind::BlockDevice => "a block device",
            FileKind::ReservedName => "a device, by a name that Windows reserves",
            FileKind::AlternateStream => "an alternate data stream of a file",
            FileKind::Unknown => "of an unknown kind",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_kind_has_a_name_and_words_of_its_own() {
        let codes: HashSet<_> = FileKind::ALL.iter().map(|kind| kind.code()).collect();
        let words: HashSet<_> = FileKind::ALL.iter().map(ToString::to_string).collect();
        assert_eq!((codes.len(), words.len()), (FileKind::ALL.len(), FileKind::ALL.len()));
    }
}
