//! Decides which attributes of Windows a copy gets (pure).

use uncopy_os::native::FileAttributes;

/// Attributes that a new copy has of its source in any case. Read-only is a permission, and says nothing about a new
/// file; the archive attribute says that it is not backed up.
const SHOWN: FileAttributes =
    FileAttributes::HIDDEN.with(FileAttributes::SYSTEM).with(FileAttributes::NOT_INDEXED);

/// State of a copy before it was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing; it is a file.
    NewFile,
    /// Nothing; it is a directory.
    NewDirectory,
    /// A file of these attributes, which it replaces.
    Replaced(FileAttributes),
    /// The same file or directory, which it goes into.
    Itself,
}

/// Returns the attributes for a copy that has those of `now`. `None`: it has them already.
pub(super) fn wanted(
    source: FileAttributes,
    now: FileAttributes,
    before: Before,
    preserves: bool,
) -> Option<FileAttributes> {
    let wanted = match before {
        _ if preserves => source,
        // Their directory may have set that they are not indexed.
        Before::NewFile => {
            let shown = now.common(FileAttributes::NOT_INDEXED).with(source.common(SHOWN));
            shown.with(FileAttributes::ARCHIVE)
        }
        Before::NewDirectory => now.common(FileAttributes::NOT_INDEXED).with(source.common(SHOWN)),
        // Its contents are not backed up.
        Before::Replaced(old) => old.with(FileAttributes::ARCHIVE),
        Before::Itself => now,
    };
    (wanted != now).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_ONLY: FileAttributes = FileAttributes::READ_ONLY;
    const HIDDEN: FileAttributes = FileAttributes::HIDDEN;
    const SYSTEM: FileAttributes = FileAttributes::SYSTEM;
    const ARCHIVE: FileAttributes = FileAttributes::ARCHIVE;
    const NOT_INDEXED: FileAttributes = FileAttributes::NOT_INDEXED;
    const NONE: FileAttributes = FileAttributes::from_bits(0);
    const EVERY: FileAttributes = FileAttributes::from_bits(u32::MAX);

    #[test]
    fn a_copy_has_what_its_kind_wants() {
        for (source, now, before, preserves, expected) in [
            (ARCHIVE, ARCHIVE, Before::NewFile, false, None),
            (NONE, ARCHIVE, Before::NewFile, false, None),
            (NONE, NONE, Before::NewFile, false, Some(ARCHIVE)),
            (NONE, ARCHIVE, Before::NewFile, true, Some(NONE)),
            (HIDDEN, ARCHIVE, Before::NewFile, false, Some(HIDDEN.with(ARCHIVE))),
            (READ_ONLY, ARCHIVE, Before::NewFile, false, None),
            (READ_ONLY, ARCHIVE, Before::NewFile, true, Some(READ_ONLY)),
            // A call that carries everything over gives no more than another one.
            (EVERY, EVERY, Before::NewFile, false, Some(SHOWN.with(ARCHIVE))),
            (SYSTEM, NONE, Before::NewDirectory, false, Some(SYSTEM)),
            (EVERY, NONE, Before::NewDirectory, false, Some(SHOWN)),
            (EVERY, NONE, Before::NewDirectory, true, Some(EVERY)),
            // The directory has its entries be left out of the index.
            (NONE, NOT_INDEXED, Before::NewDirectory, false, None),
            (NONE, NOT_INDEXED.with(ARCHIVE), Before::NewFile, false, None),
            (NONE, NOT_INDEXED, Before::NewDirectory, true, Some(NONE)),
            (EVERY, ARCHIVE, Before::Replaced(ARCHIVE), false, None),
            (EVERY, ARCHIVE, Before::Replaced(NONE), false, None),
            (NONE, ARCHIVE, Before::Replaced(READ_ONLY), false, Some(READ_ONLY.with(ARCHIVE))),
            (NONE, ARCHIVE, Before::Replaced(HIDDEN), false, Some(HIDDEN.with(ARCHIVE))),
            (SYSTEM, ARCHIVE, Before::Replaced(HIDDEN), true, Some(SYSTEM)),
            (EVERY, HIDDEN, Before::Itself, false, None),
            (EVERY, HIDDEN, Before::Itself, true, Some(EVERY)),
            (HIDDEN, HIDDEN, Before::Itself, true, None),
        ] {
            let found = wanted(source, now, before, preserves);
            assert_eq!(found, expected, "{source:?} {now:?} {before:?} {preserves}");
        }
    }

    #[test]
    fn how_a_file_is_stored_is_no_attribute() {
        // FILE_ATTRIBUTE_DIRECTORY, _NORMAL, _SPARSE_FILE, _REPARSE_POINT, _COMPRESSED, _OFFLINE, _ENCRYPTED.
        for bits in [0x10, 0x80, 0x200, 0x400, 0x800, 0x1000, 0x4000] {
            assert_eq!(FileAttributes::from_bits(bits), NONE);
        }
        assert_eq!(EVERY.bits(), 0x2027);
    }
}
