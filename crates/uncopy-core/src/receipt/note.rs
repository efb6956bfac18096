//! Notes for the user about a copy.

use std::ffi::CString;
use std::fmt;

use crate::codes;
use crate::{Choice, CompressionReason, Errno, SystemError};

/// A note for the user about a finished copy.
///
/// `Display` is for users and names options as in `CopyOptions` ([`named_by`](Note::named_by) takes
/// other names); [`code`](Note::code) is for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A part of the metadata could not be set on the copy.
    NotKept {
        /// The part.
        what: MetadataPart,
        /// Error number from the kernel.
        errno: Errno,
    },
    /// A part of the metadata could not be set on the copy, on systems other than Linux.
    NotKeptElsewhere {
        /// The part.
        what: MetadataPart,
        /// The error returned.
        error: SystemError,
    },
    /// No metadata was set, because other users may rename files in the directory.
    NothingGiven,
    /// Setuid and setgid were dropped, because the owner differs.
    SetuidDropped,
    /// It was written in place.
    InPlace,
    /// It was written in place, and verified when the old contents were gone.
    VerifiedInPlace,
    /// The file that was replaced has other hard links, which keep the old contents.
    OtherLinks {
        /// Number of these links, at least 1.
        links: u64,
    },
    /// The filesystem refused a hard link to the copy of another name, or to an unchanged earlier copy, so this
    /// is a separate file.
    NotLinked {
        /// Error number from the kernel.
        errno: Errno,
    },
    /// It has several names in the source, and this system did not make it another name of the copy.
    SeparateFile {
        /// The error returned.
        error: SystemError,
    },
    /// The source cannot be read again, so its digest was computed during the copy.
    DigestAsItCame,
    /// It was neither compressed nor decompressed, although requested.
    CopiedAsItIs {
        /// The reason.
        reason: CompressionReason,
    },
    /// The end of the journal was cut off; the files it named were copied again.
    JournalCut,
    /// The system's own copy mechanisms are not used yet.
    PlainWays,
    /// Holes of the source, if any, are zeros in the copy.
    HolesFilled,
    /// Alternate data streams of the source are not in the copy.
    StreamsNotKept,
    /// ACL and extended attributes of the replaced file, if any, are gone.
    OldAttributesGone,
    /// The owner of the replaced file could not be kept.
    OldOwnerNotKept,
    /// Owner and group of the replaced file could not be kept; the group has no access.
    OldOwnerAndGroupNotKept,
    /// The permissions of the replaced file could not be kept.
    OldPermissionsNotKept {
        /// The error returned.
        error: SystemError,
    },
    /// Owner, access rights and extended attributes of the replaced file are gone.
    OldMetadataGone,
}

/// A part of a file's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataPart {
    /// The owner.
    Owner,
    /// The group.
    Group,
    /// Owner and group.
    OwnerAndGroup,
    /// The permission bits.
    Mode,
    /// Permission bits and ACL.
    ModeAndAcl,
    /// The setuid and setgid bits.
    SetuidAndSetgid,
    /// An ACL.
    Acl,
    /// The default ACL of a directory.
    DefaultAcl,
    /// Times of access and modification.
    Times,
    /// All extended attributes.
    Attributes,
    /// One extended attribute, of this name.
    Attribute(CString),
    /// Extended attributes and ACL of the replaced file.
    OfReplaced,
    /// Attributes of Windows: read-only, hidden, system, archive, not indexed.
    FileAttributes,
}

codes! { Note {
    Note::NotKept { what: MetadataPart::Owner, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::Owner, .. } => "owner_not_kept",
    Note::NotKept { what: MetadataPart::Group, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::Group, .. } => "group_not_kept",
    Note::NotKept { what: MetadataPart::OwnerAndGroup, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::OwnerAndGroup, .. } => "owner_and_group_not_kept",
    Note::NotKept { what: MetadataPart::Mode, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::Mode, .. } => "mode_not_kept",
    Note::NotKept { what: MetadataPart::ModeAndAcl, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::ModeAndAcl, .. } => "mode_and_acl_not_kept",
    Note::NotKept { what: MetadataPart::SetuidAndSetgid, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::SetuidAndSetgid, .. } => "setuid_not_kept",
    Note::NotKept { what: MetadataPart::Acl, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::Acl, .. } => "acl_not_kept",
    Note::NotKept { what: MetadataPart::DefaultAcl, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::DefaultAcl, .. } => "default_acl_not_kept",
    Note::NotKept { what: MetadataPart::Times, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::Times, .. } => "times_not_kept",
    Note::NotKept { what: MetadataPart::Attributes, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::Attributes, .. } => "attributes_not_kept",
    Note::NotKept { what: MetadataPart::Attribute(_), .. }
    | Note::NotKeptElsewhere { what: MetadataPart::Attribute(_), .. } => "attribute_not_kept",
    Note::NotKept { what: MetadataPart::OfReplaced, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::OfReplaced, .. } => "replaced_attributes_not_kept",
    Note::NotKept { what: MetadataPart::FileAttributes, .. }
    | Note::NotKeptElsewhere { what: MetadataPart::FileAttributes, .. } => "file_attributes_not_kept",
    Note::NothingGiven => "nothing_given",
    Note::SetuidDropped => "setuid_dropped",
    Note::InPlace => "in_place",
    Note::VerifiedInPlace => "verified_in_place",
    Note::OtherLinks { .. } => "other_links",
    Note::NotLinked { .. } | Note::SeparateFile { .. } => "not_linked",
    Note::DigestAsItCame => "digest_as_it_came",
    Note::CopiedAsItIs { .. } => "copied_as_it_is",
    Note::JournalCut => "journal_cut",
    Note::PlainWays => "plain_ways",
    Note::HolesFilled => "holes_filled",
    Note::StreamsNotKept => "streams_not_kept",
    Note::OldAttributesGone => "old_attributes_gone",
    Note::OldOwnerNotKept => "old_owner_not_kept",
    Note::OldOwnerAndGroupNotKept => "old_owner_and_group_not_kept",
    Note::OldPermissionsNotKept { .. } => "old_permissions_not_kept",
    Note::OldMetadataGone => "old_metadata_gone",
} }

impl Note {
    /// Makes a note if a replaced file had more than one hard link; `links` counts all of them.
    #[must_use]
    pub fn other_links(links: u64) -> Option<Note> {
        let links = links.checked_sub(1).filter(|others| *others > 0)?;
        Some(Note::OtherLinks { links })
    }

    /// Returns the text for users, with the caller's choices named by `name`: a program's flags,
    /// keys of a configuration file.
    pub fn named_by<'a>(&self, name: impl Fn(Choice) -> &'a str) -> String {
        match self {
            Note::VerifiedInPlace => verified_in_place(name(Choice::InPlace)),
            other => other.to_string(),
        }
    }
}

fn verified_in_place(in_place: &str) -> String {
    format!("verified after the old contents were gone ({in_place})")
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Note::NotKept { what, errno } => {
                return write!(f, "{what} could not be kept ({errno})");
            }
            Note::NotKeptElsewhere { what, error } => {
                return write!(f, "{what} could not be kept: {error}");
            }
            Note::NothingGiven => {
                "owner, mode, attributes and times could not be kept: others may rename what is made in \
                 its directory, and no directory of one's own can be made there"
            }
            Note::SetuidDropped => "setuid and setgid were dropped: the owner is another",
            Note::InPlace => {
                "written in place: had it failed or been killed, the file would be a mixture"
            }
            Note::VerifiedInPlace => {
                return f.write_str(&verified_in_place(Choice::InPlace.name()));
            }
            Note::OtherLinks { links: 1 } => {
                "1 other hard link of the destination keeps the old contents"
            }
            Note::OtherLinks { links } => {
                return write!(
                    f,
                    "{links} other hard links of the destination keep the old contents"
                );
            }
            Note::NotLinked { errno } => {
                return write!(
                    f,
                    "a file of its own: the filesystem refused a hard link to the copy ({errno})"
                );
            }
            Note::SeparateFile { error } => {
                return write!(
                    f,
                    "a file of its own: this system made no further name of the copy ({error})"
                );
            }
            Note::DigestAsItCame => {
                "the source cannot be read again: its digest is that of the bytes as they came"
            }
            Note::CopiedAsItIs { reason } => return write!(f, "copied as it is: {reason}"),
            Note::JournalCut => {
                "the end of the journal was cut off; the files it named were copied again"
            }
            Note::PlainWays => "this system's own ways to copy are not used yet",
            Note::HolesFilled => "holes of the source, if it has any, are zeros in the copy",
            Note::StreamsNotKept => "alternate data streams of the source are not in the copy",
            Note::OldAttributesGone => {
                "ACL and extended attributes of the old file, if it had any, are gone"
            }
            Note::OldOwnerNotKept => "owner of the old file could not be kept",
            Note::OldOwnerAndGroupNotKept => {
                "owner and group of the old file could not be kept, and the group has no access"
            }
            Note::OldPermissionsNotKept { error } => {
                return write!(f, "permissions of the old file could not be kept: {error}");
            }
            Note::OldMetadataGone => {
                "owner, access rights and extended attributes of the old file are gone"
            }
        })
    }
}

impl fmt::Display for MetadataPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MetadataPart::Owner => "the owner",
            MetadataPart::Group => "the group",
            MetadataPart::OwnerAndGroup => "owner and group",
            MetadataPart::Mode => "the mode",
            MetadataPart::ModeAndAcl => "mode and ACL",
            MetadataPart::SetuidAndSetgid => "setuid and setgid",
            MetadataPart::Acl => "the ACL",
            MetadataPart::DefaultAcl => "the directory's default ACL",
            MetadataPart::Times => "the times",
            MetadataPart::Attributes => "extended attributes",
            MetadataPart::Attribute(name) => {
                return write!(f, "attribute {}", name.to_string_lossy());
            }
            MetadataPart::OfReplaced => "attributes and ACL of the replaced file",
            MetadataPart::FileAttributes => "file attributes (read-only, hidden, system …)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_different() {
        let mut codes = Note::CODES.to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Note::CODES.len());
    }

    #[test]
    fn words_have_the_facts() {
        let attribute = MetadataPart::Attribute(c"user.a".to_owned());
        for (note, code, words) in [
            (
                Note::NotKept { what: attribute, errno: Errno::ENOSPC },
                "attribute_not_kept",
                "attribute user.a could not be kept (ENOSPC)",
            ),
            (
                Note::OtherLinks { links: 2 },
                "other_links",
                "2 other hard links of the destination keep the old contents",
            ),
            (
                Note::VerifiedInPlace,
                "verified_in_place",
                "verified after the old contents were gone (in_place)",
            ),
        ] {
            assert_eq!((note.code(), note.to_string().as_str()), (code, words));
        }
        let name = |_| "as you asked";
        assert!(Note::VerifiedInPlace.named_by(name).ends_with("(as you asked)"));
        let links = [0, 1, 2, 3].map(Note::other_links);
        let others = |links| Some(Note::OtherLinks { links });
        assert_eq!(links, [None, None, others(1), others(2)]);
    }
}
