//! Reasons why the library refuses an operation although no system call failed.

use std::path::PathBuf;

use super::Errno;
use super::coded::coded;
use crate::FileKind;

coded! {
    /// Why the library refuses an operation.
    ///
    /// Displayed as a clause about the subject of the error. Most end with what to do about it, in
    /// the names of the library's options.
    pub enum Objection {
        /// Something is mounted on the destination.
        MountPoint = "mount_point",
            "something is mounted on it, so its name cannot be replaced",
            "a copy of this file alone with in_place writes into it instead";
        /// Something was mounted on the destination during the copy.
        MountedMeanwhile = "mounted_meanwhile",
            "something is mounted on it (EBUSY)",
            "a copy of this file alone with in_place writes into it instead";
        /// The destination is writable, but its directory does not allow replacing it (sticky, of
        /// another user).
        ReplacingForbidden {
            /// Error number from the kernel.
            errno: Errno,
        } = "replacing_forbidden",
            "its directory does not allow it ({errno})",
            "a copy of this file alone with in_place writes into it instead";
        /// The destination is writable, but no new file can be created in its directory.
        MakingForbidden {
            /// Error number from the kernel.
            errno: Errno,
        } = "making_forbidden",
            "no new file can be made beside it ({errno})",
            "a copy of this file alone with in_place writes into it instead";
        /// The process may not give a copy the owner that the options ask for.
        OwnerForbidden {
            /// Error number from the kernel.
            errno: Errno,
        } = "owner_forbidden",
            "this process may not give it that owner ({errno})",
            "give it a group that the process is in, or run as root (CAP_CHOWN)";
        /// The mode of the destination forbids writing, and `existing` is not `Force`.
        WritingForbidden = "writing_forbidden",
            "its permissions forbid writing (EACCES)",
            "existing = Force replaces it anyway";
        /// The same as [`Objection::WritingForbidden`], on systems other than Linux.
        WritingForbiddenHere = "writing_forbidden_here",
            "its permissions forbid writing",
            "change them, or have it replaced by force";
        /// The backup of the destination would replace the source.
        BackupIsSource = "backup_is_source",
            "its backup would replace the source",
            "choose another suffix, or numbered backups";
        /// The backup of the destination would have the name of a directory.
        BackupIsDirectory = "backup_is_directory",
            "its backup would have the name of a directory",
            "choose another suffix, or numbered backups";
        /// The backup of the destination would have a name that is too long for its filesystem.
        BackupNameTooLong = "backup_name_too_long",
            "its backup would have too long a name (ENAMETOOLONG)",
            "choose a shorter suffix, or keep no backup";
        /// The source is a FIFO, socket or device, and is to be copied as an entry of a tree is, without its contents.
        SpecialEntry {
            /// Kind of the file.
            kind: FileKind,
        } = "special_entry",
            "it is {kind}, whose contents no entry of a tree has",
            "copy it alone with copy_contents, or set specials to make a new one";
        /// The backup of the destination would replace a copy or a backup that the same job made.
        BackupIsCopy = "backup_is_copy",
            "its backup would replace what another source of this job has become",
            "choose another suffix, or numbered backups";
        /// The copy would replace a backup that the same job made.
        NameOfBackup = "name_of_backup",
            "it is the backup that another source of this job has made",
            "choose another suffix, or numbered backups";
        /// The backup of the destination may be the one that a killed run of the same job made.
        BackupOfKilledRun = "backup_of_killed_run",
            "its backup may be what the interrupted run of this job replaced, and would be lost",
            "rename that backup, or choose numbered backups";
        /// The destination is a dangling symbolic link.
        LinkToNothing = "link_to_nothing",
            "it is a symbolic link to nothing",
            "remove the link, or name the file it should lead to";
        /// The destination of a tree is a dangling symbolic link.
        RootLinkToNothing = "root_link_to_nothing",
            "it is a symbolic link to nothing",
            "remove it first";
        /// The destination is a socket that keeps message boundaries.
        MessageSocket = "message_socket",
            "it is a socket that keeps messages apart, and would lose their ends",
            "name one whose bytes come as a stream, or a pipe";
        /// The peer of a transfer ended before all bytes had come.
        ShortPeer {
            /// Number of bytes that did not come.
            missing_bytes: u64,
        } = "short_peer",
            "the peer ended {missing_bytes} bytes too early",
            "look at its errors, and transfer the rest again";
        /// The file of a transfer ends before its range.
        FileEnds {
            /// Length of the file in bytes, as far as it was sent.
            end: u64,
        } = "file_ends",
            "it ends at byte {end}, before the range does",
            "ask for less, or look for who made it shorter";
        /// The file of a transfer is open to be appended to, which ignores offsets (`O_APPEND`).
        AppendOnly = "append_only",
            "it is open to be appended to (O_APPEND), so that offsets are ignored",
            "open it without";
        /// Two entries of a new directory have the same name there.
        NameTaken = "name_taken",
            "another entry of this copy has this name already (the filesystem ignores upper and lower case, \
             or the source changed)",
            "copy one of them under another name";
        /// An earlier source of the job was copied to the same file, by another name.
        AlreadyWritten = "already_written",
            "an earlier source of this job was copied to this very file",
            "copy them one at a time under different names";
        /// Another file took the destination's name before it was written in place.
        FileReplaced = "file_replaced",
            "another file took its name meanwhile",
            "copy again";
        /// Another directory took the destination's name.
        RootReplaced = "root_replaced",
            "another directory took its name meanwhile",
            "copy again";
        /// Another directory took the name of one that the job visits.
        DirectoryReplaced = "directory_replaced",
            "another directory took its name meanwhile",
            "copy again when it is no longer renamed";
        /// The kind of the entry changed after it was listed.
        KindChanged {
            /// Its kind now.
            kind: FileKind,
        } = "kind_changed",
            "it became {kind} after it was listed",
            "copy again";
        /// The source is a directory, but the destination is not.
        NotDirectory = "not_directory",
            "it is not a directory, and the source is one",
            "remove it first";
        /// The destination is a directory, but the source is not.
        IsDirectory = "is_directory",
            "it is a directory, and the source is not",
            "remove it first";
        /// The source is a directory, but the destination is a symbolic link that is not followed: inside a tree, or where
        /// the job says so.
        LinkForDirectory = "link_for_directory",
            "it is a symbolic link, which is not followed here, and the source is a directory",
            "remove the link or name its target";
        /// A directory below the source is the destination.
        IsDestination = "is_destination",
            "it is the destination of this copy",
            "name a destination outside of it";
        /// The destination is the source itself or inside it.
        InsideSource {
            /// The source, as given by the caller.
            tree: PathBuf,
        } = "inside_source",
            "it is {tree} itself or lies in it",
            "name a destination outside of the source";
        /// The directory of a new tree only gets further names, and the tree is renamed at its end.
        AppendOnlyDirectory = "append_only_directory",
            "its directory is append-only (chattr +a), and a new tree is renamed there when it is complete",
            "make the directory of the copy there first (mkdir), and copy into that";
        /// Something is mounted on an entry that is to be deleted, or in it.
        HoldsMount = "holds_mount",
            "a filesystem is mounted there, and none of its entries is deleted",
            "unmount it, or exclude it";
        /// The source or a part of it is mounted in the destination.
        MountedSource {
            /// The source, as given by the caller.
            tree: PathBuf,
        } = "mounted_source",
            "it is {tree} itself or a part of it, which is mounted there",
            "unmount it, or leave it out";
        /// Something that may be a part of the source is mounted in the destination.
        MayLieInSource {
            /// The source, as given by the caller.
            tree: PathBuf,
        } = "may_lie_in_source",
            "something is mounted on it that may be a part of {tree}: the table of mounts (/proc/self/mountinfo) \
             does not say",
            "unmount it, or leave it out";
        /// The source lies in a destination of a job that deletes entries or removes sources.
        SourceInDestination {
            /// The destination, as given by the caller.
            destination: PathBuf,
        } = "source_in_destination",
            "it lies in {destination}, where its own files would be replaced or removed",
            "name a destination that the source does not lie in";
        /// A directory of the destination is a source of the job, or holds one, and would be deleted or changed.
        HoldsSource = "holds_source",
            "it is a source of this copy or holds one, by a mount for example",
            "name a destination that the source does not lie in";
        /// The destination is another one of the same job, or lies in it, and the job deletes entries or removes
        /// sources; or it is another one, and each has its journal.
        DestinationsOverlap {
            /// The other destination, as given by the caller.
            other: PathBuf,
        } = "destinations_overlap",
            "it is {other}, where another source of this job goes, or lies in it, so that one would lose \
             what the other brings, or its journal",
            "copy them one at a time";
        /// The source is another one of the same job, or lies in it, and the job removes sources.
        SourcesOverlap {
            /// The other source, as given by the caller.
            other: PathBuf,
        } = "sources_overlap",
            "it is or lies in {other}, another source of this job, so that one would remove what the other needs",
            "copy them one at a time";
        /// The source lies behind a symbolic link of a directory that is copied as a whole.
        BehindLink = "behind_link",
            "a symbolic link leads to it, which is copied as a link since a directory above it is named too",
            "name only one of them";
        /// A followed link leads to one of its parent directories.
        EndlessLink = "endless_link",
            "the link leads to a directory that it lies in itself, which has no end",
            "set links to Preserve or leave it out";
        /// The directory of another machine lies deeper in its tree than any is taken from there.
        TooDeep {
            /// Maximum number of directories in one another.
            levels: u64,
        } = "too_deep",
            "it lies deeper than {levels} directories, of which no more are taken from another machine, \
             which could make them up without end",
            "copy a directory on the way to it by itself";
        /// A followed link leads out of the tree, and `follow_outside` is not set.
        LeadsOutside = "leads_outside",
            "it leads out of the tree, or by an absolute path",
            "set follow_outside to follow it anyway";
        /// A source on another machine leads out of the directory that the login there is restricted to.
        OutsideLogin = "outside_login",
            "it leads out of the directory that this login may use",
            "name a path in it";
        /// Windows lets this process make no symbolic links.
        LinksNeedRight = "links_need_right",
            "this process may not make symbolic links",
            "turn on the developer mode of Windows or run as administrator, or set links to Follow or Skip";
        /// A source does not lie below the directory that `parents` names.
        NotBelow = "not_below",
            "it does not lie below the directory that parents names",
            "name sources in that directory, without `..`";
        /// A compressed or decompressed copy would get the name of another entry.
        RivalName {
            /// The conflicting name.
            name: PathBuf,
        } = "rival_name",
            "its copy would be called {name}, as another entry of its directory is",
            "rename one of them, or leave one out by the selection";
        /// Another run is using the directory that would be removed.
        AtWork = "at_work",
            "another run is at work on it",
            "copy again when that has ended";
        /// The destination has another type than the source, and the selection excludes it.
        OtherKindExcluded = "other_kind_excluded",
            "it is of another kind than the source and excluded, and would have to go",
            "remove it, or exclude it in the source too";
        /// The destination is a directory, the source is not, and the selection excludes something
        /// in it.
        KeepsExcluded = "keeps_excluded",
            "it is a directory, the source is not, and something in it is excluded and stays",
            "remove it first";
        /// More entries would be deleted than `delete.most` allows.
        TooManyDeleted = "too_many_deleted",
            "delete.most is reached",
            "raise it, or look at what dry_run would delete";
        /// The source is empty, and `delete.empty_source` is not set.
        EmptySource = "empty_source",
            "the source is empty, and everything in the destination would go",
            "set delete.empty_source if that is meant";
        /// The source was removed while it was mirrored.
        SourceRemoved = "source_removed",
            "its source was removed meanwhile, and everything in it would go",
            "copy again";
        /// A source whose copy is made is not the file that was copied, or has changed since.
        SourceNotAsCopied = "source_not_as_copied",
            "its copy is in place, and the name refers to another file, or to a link, or the file has \
             changed since it was read",
            "compare them";
        /// The source is not what it was when the plan of its unit was made.
        SourceSincePlan {
            /// Attribute that differs: size, mtime, ctime.
            what: String,
        } = "source_since_plan",
            "it changed since the plan was made ({what})",
            "make a new plan";
        /// An entry has the destination's name that the plan of the unit did not see there.
        DestinationSincePlan = "destination_since_plan",
            "what has its name is not what was there when the plan was made, and stays",
            "look at it, and make a new plan";
        /// Another worker has begun the same unit since.
        Overtaken = "overtaken",
            "another worker has begun this unit since, and goes on with it",
            "see what it records";
        /// The other machine, which has the source, is not there any more, or did what no peer does.
        PeerLost {
            /// Description of what happened.
            what: String,
        } = "peer_lost",
            "the connection to the other machine ended: {what}",
            "copy again; one with resume goes on where it ended";
        /// Another run holds the journal.
        JournalHeld = "journal_held",
            "another run is at work on it",
            "wait for that one";
        /// Another run checks whether the unfinished tree is a leftover.
        Inspected = "inspected",
            "another run looks at what was begun",
            "copy again";
        /// An unfinished tree was copied without a journal, and nothing shows what of it is whole.
        NothingNoted = "nothing_noted",
            "nothing was noted while it was copied (resume is not set)",
            "begin with resume to go on later";
        /// The journal beside an unfinished tree belongs to another tree.
        JournalOfTree {
            /// The other tree.
            tree: PathBuf,
        } = "journal_of_tree",
            "the journal beside it is of {tree}, which another run left",
            "let that one finish with resume, or remove it";
        /// The journal belongs to another source, or to other options.
        JournalOfOther {
            /// Path of the journal.
            journal: PathBuf,
        } = "journal_of_other",
            "its journal belongs to a copy of another source or with other options",
            "repeat that copy, or remove {journal} to start over";
        /// The journal is damaged.
        JournalDamaged {
            /// Byte offset of the damage.
            offset: u64,
            /// Path of the journal.
            journal: PathBuf,
        } = "journal_damaged",
            "its journal is damaged at byte {offset} and is not trusted",
            "remove {journal} to start over";
        /// The journal may have been written by another user.
        JournalForeign {
            /// Path of the journal.
            journal: PathBuf,
        } = "journal_foreign",
            "its journal may have been written by other users and is not trusted",
            "remove {journal} to start over";
        /// The journal is empty, or a copy of another journal.
        JournalCopied {
            /// Path of the journal.
            journal: PathBuf,
        } = "journal_copied",
            "its journal is empty or a copy of another one, so that its owner is unknown, and is not trusted",
            "remove {journal} to start over";
        /// The pattern cannot match anything.
        Pattern {
            /// Description of the mistake.
            reason: String,
        } = "pattern",
            "it makes no sense: {reason}",
            "write a special character as [*] or \\*";
        /// No notification slot has this index.
        NoSuchSlot {
            /// Number of registered slots.
            slots: u64,
        } = "no_such_slot",
            "no slot is registered under this index ({slots} are)",
            "register more";
        /// The ring already has slots.
        SlotsRegistered = "slots_registered",
            "slots are registered already",
            "unregister them first";
        /// The number of slots is zero or larger than a ring allows.
        SlotCount {
            /// Maximum number of slots of a ring.
            most: u64,
        } = "slot_count",
            "the number of slots is out of range",
            "register between 1 and {most}";
        /// The descriptor is not the socket of a channel.
        NotChannel {
            /// Description of what it is, with its article: "a TCP socket".
            what: String,
        } = "not_channel",
            "it is {what}, and a channel between processes is a SOCK_SEQPACKET socket of unix(7)",
            "name the descriptor of one (ls -l /proc/PID/fd)";
        /// Any other reason.
        Other {
            /// Description, as a plain clause.
            text: String,
        } = "other", "{text}";
    }
}

/// Makes an [`Objection::Other`].
impl From<String> for Objection {
    fn from(text: String) -> Objection {
        Objection::Other { text }
    }
}

/// Makes an [`Objection::Other`].
impl From<&str> for Objection {
    fn from(text: &str) -> Objection {
        text.to_owned().into()
    }
}
