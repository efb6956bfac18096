//! Texts of the library with the names of flags of this program.
//!
//! The library names its options in its texts. Such texts are replaced here by ones that name
//! flags; all others are used as they are.

use std::borrow::Cow;
use std::fmt;

use uncopy::copy::{Contradiction, Skip};
use uncopy::{FileKind, NextStep, Objection, Reason};

use super::elsewhere;
use crate::report::refusal;

/// Why something was not done, and what a person can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) reason: Cow<'static, str>,
    pub(crate) next_step: Option<Cow<'static, str>>,
}

impl Words {
    pub(super) fn new(
        reason: impl Into<Cow<'static, str>>,
        next_step: impl Into<Cow<'static, str>>,
    ) -> Words {
        Words { reason: reason.into(), next_step: Some(next_step.into()) }
    }

    fn of(reason: String, next_step: Option<String>) -> Words {
        Words { reason: reason.into(), next_step: next_step.map(Cow::Owned) }
    }

    /// Adds a step that was chosen by the kind of the error.
    pub(crate) fn and(self, step: Option<&'static str>) -> Words {
        let next_step = match (self.next_step, step) {
            (Some(first), Some(second)) => Some(Cow::Owned(format!("{first}; {second}"))),
            (first, second) => first.or(second.map(Cow::Borrowed)),
        };
        Words { reason: self.reason, next_step }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.next_step.as_ref().map_or(Ok(()), |step| write!(f, "; {step}"))
    }
}

/// Describes why an operation failed, with the next step of a refusal.
pub(crate) fn reason(reason: &Reason) -> String {
    words(reason).to_string()
}

/// Describes why an operation failed. The next step is that of a refusal: others are chosen by the whole error.
pub(crate) fn words(reason: &Reason) -> Words {
    let reason = match reason {
        Reason::Options(found) => return contradiction(*found),
        Reason::Refused(found) => return objection(found),
        Reason::NotHere { options } => elsewhere::not_here(options),
        Reason::NoMechanism { refusals } => refusal::no_mechanism(refusals),
        reason => reason.to_string(),
    };
    Words::of(reason, None)
}

/// Describes why the library refuses an operation.
fn objection(found: &Objection) -> Words {
    match found {
        Objection::MountPoint => Words::new(
            "something is mounted on it, so its name cannot be replaced",
            "a copy of this file alone with --in-place writes into it instead",
        ),
        Objection::MountedMeanwhile => Words::new(
            "something is mounted on it (EBUSY)",
            "a copy of this file alone with --in-place writes into it instead",
        ),
        Objection::ReplacingForbidden { errno } => Words::new(
            format!("its directory does not allow it ({errno})"),
            "a copy of this file alone with --in-place writes into it instead",
        ),
        Objection::MakingForbidden { errno } => Words::new(
            format!("no new file can be made beside it ({errno})"),
            "a copy of this file alone with --in-place writes into it instead",
        ),
        Objection::OwnerForbidden { errno } => Words::new(
            format!("this process may not give it that owner ({errno})"),
            "leave out --chown, name a group that you are in, or run it as root",
        ),
        Objection::PeerLost { what } => Words::new(
            format!("the connection to the other machine ended: {what}"),
            "run the command again; a copy with --resume goes on where it ended, any other \
             from its beginning",
        ),
        Objection::SpecialEntry { kind: kind @ FileKind::Socket } => Words::new(
            format!("it is {kind}, and nothing can be read from it"),
            "pass --recursive and --specials to make a new one",
        ),
        Objection::SpecialEntry { kind } => Words::new(
            format!("it is {kind}"),
            "pass --copy-contents and leave out --resume, --update, --checksum, --size-only, \
             --link-dest, --remove-source-files, --parents, --files-from, --link, -P and \
             -d to copy what it gives, or pass --recursive and --specials to make a new \
             one",
        ),
        Objection::WritingForbidden => {
            Words::new("its permissions forbid writing (EACCES)", "-f replaces it anyway")
        }
        Objection::AlreadyWritten => Words::new(
            "an earlier source of this command was copied to this very file",
            "copy them one at a time under different names",
        ),
        Objection::BackupIsSource => Words::new(
            "its backup would replace the source",
            "choose another --suffix, or --backup=numbered",
        ),
        Objection::BackupIsDirectory => Words::new(
            "its backup would have the name of a directory",
            "choose another --suffix, or --backup=numbered",
        ),
        Objection::BackupNameTooLong => Words::new(
            "its backup would have too long a name (ENAMETOOLONG)",
            "choose a shorter --suffix, or leave out --backup",
        ),
        Objection::BackupIsCopy => Words::new(
            "its backup would replace what another source of this command has become",
            "choose another --suffix, or --backup=numbered",
        ),
        Objection::NameOfBackup => Words::new(
            "it is the backup that another source of this command has made",
            "choose another --suffix, or --backup=numbered",
        ),
        Objection::BackupOfKilledRun => Words::new(
            "its backup may be what the interrupted run of this command replaced, and \
             would be lost",
            "rename that backup, or pass --backup=numbered",
        ),
        Objection::EndlessLink => Words::new(
            "the link leads to one of its own parent directories, so the tree has no end",
            "pass --links=preserve or exclude it",
        ),
        Objection::MountedSource { tree } => Words::new(
            format!("it is {} itself or a part of it, which is mounted there", tree.display()),
            "unmount it, or leave it out by --exclude",
        ),
        Objection::MayLieInSource { tree } => Words::new(
            format!(
                "something is mounted on it that may be a part of {}: the table of mounts \
                 (/proc/self/mountinfo) does not say",
                tree.display()
            ),
            "unmount it, or leave it out by --exclude",
        ),
        Objection::LeadsOutside => Words::new(
            "it leads out of the tree, or by an absolute path",
            "pass --follow-outside to follow it anyway",
        ),
        Objection::RivalName { name } => Words::new(
            format!(
                "its copy would be called {}, as another entry of its directory is",
                name.display()
            ),
            "rename one of them, or leave one out by --exclude",
        ),
        Objection::TooManyDeleted => Words::new(
            "--max-delete is reached",
            "raise it, or look at what --dry-run would delete",
        ),
        Objection::EmptySource => Words::new(
            "the source is empty, and everything in the destination would go",
            "pass --delete-empty-source if that is meant",
        ),
        Objection::Inspected => {
            Words::new("another run looks at what was begun", "repeat the command")
        }
        Objection::JournalOfOther { journal } => Words::new(
            "its journal belongs to a copy of another source or with other flags",
            format!("repeat that command, or remove {} to start again", journal.display()),
        ),
        found => Words::of(found.reason(), found.next_step()),
    }
}

/// Describes why an entry was skipped.
pub(crate) fn skip(reason: Skip) -> &'static str {
    match reason {
        Skip::SymbolicLink => "it is a symbolic link (--links=skip)",
        Skip::Special => "it is a special file (--specials recreates it)",
        Skip::HoldsExcluded => "something in it is left out by --exclude or --include",
        reason => reason.text(),
    }
}

/// Describes a contradiction between flags, and what to do about it.
pub(crate) fn contradiction(found: Contradiction) -> Words {
    match found {
        Contradiction::DirectKeepsNoCache => Words::new(
            "--cache=keep contradicts --method direct: direct writes bypass the page cache",
            "leave one of them out",
        ),
        Contradiction::RequireExcludesMethod { require, mechanism } => {
            let method = mechanism.name().replace('_', "-");
            Words::new(
                format!("--require={require} contradicts --method={method}, which cannot meet it"),
                "leave one of them out",
            )
        }
        Contradiction::MovedKeepsNoCache => Words::new(
            "--cache=keep contradicts --require=moved: bytes are moved past the page cache",
            "leave one of them out",
        ),
        Contradiction::ZerosNeedReading => Words::new(
            "--sparse=always looks at every byte, which only read and write can",
            "leave it out, or allow them",
        ),
        Contradiction::InPlaceCannotRetry => Words::new(
            "--in-place contradicts --if-changed=retry: what was written in place cannot \
             be taken back to be tried again",
            "leave one of them out",
        ),
        Contradiction::StreamCannotRetry { kind } => Words::new(
            format!(
                "it is {kind}: what was written to it cannot be taken back to be tried again \
                 when the source changes"
            ),
            "copy with if-changed=fail or accept",
        ),
        Contradiction::NoCompressionHere => Words::new(
            "this build cannot compress: it lacks the feature `compress`, which brings \
             zstd",
            "build the program with `cargo install --path crates/uncopy-cli --features \
             compress`, or leave out --compress and --decompress",
        ),
        Contradiction::TransformNeedsReading => Words::new(
            "--compress and --decompress transform the bytes, which only read and write \
             can",
            "leave out --method, --require, --require-zero-copy and --no-user-copy, or the \
             transformation",
        ),
        Contradiction::DigestOfTransformed => Words::new(
            "--digest contradicts --compress and --decompress: the copy has other bytes \
             than its source, and no digest would be that of both",
            "leave one of them out",
        ),
        Contradiction::TransformInPlace => Words::new(
            "--in-place contradicts --compress and --decompress, which make a new file",
            "leave one of them out",
        ),
        Contradiction::SourceElsewhere { option } => {
            let flags = match option {
                "link" => "--link",
                "remove_source" => "--remove-source-files",
                "parents" => "--parents and --files-from",
                "transform" => "--compress and --decompress",
                "require" => "--require",
                "allow" => "--method",
                other => other,
            };
            Words::new(
                format!(
                    "{flags}: the source must be on this machine for that, and it is on another \
                     one"
                ),
                "leave it out, or copy on that machine",
            )
        }
        Contradiction::TransformOfStream => Words::new(
            "--copy-contents contradicts --compress and --decompress: what pays is found \
             out by looking ahead in a file, which a FIFO or device does not allow",
            "leave one of them out",
        ),
        Contradiction::AttributesAlone => Words::new(
            "--attributes-only copies no bytes, so that --verify, --digest, --compress, \
             --decompress and --in-place have no meaning",
            "leave one of them out",
        ),
        Contradiction::BackupOfNothing => Words::new(
            "--backup keeps a file that is replaced, and --no-clobber, --in-place and \
             --attributes-only replace none",
            "leave one of them out",
        ),
        Contradiction::BackupSuffix => Words::new(
            "--suffix must make another name in the same directory",
            "choose one without a slash",
        ),
        Contradiction::BackupInMirror => Words::new(
            "--backup contradicts --delete, which deletes what the source does not have, \
             and so the backups",
            "leave one of them out",
        ),
        Contradiction::ParentsOfPart => Words::new(
            "--parents and --files-from add to an existing directory, and --resume and \
             --delete are for whole trees",
            "leave one of them out",
        ),
        Contradiction::AskInMirror => Words::new(
            "--interactive contradicts --delete, which removes what the source does not \
             have without a question",
            "leave one of them out",
        ),
        Contradiction::RemoveInPlace => Words::new(
            "--remove-destination replaces the name, and --in-place and --attributes-only \
             write into the existing file",
            "leave one of them out",
        ),
        Contradiction::LinkCopiesNothing => Words::new(
            "--link makes further names of the sources and copies none",
            "leave out --verify, --digest, --compress, --decompress, --attributes-only, \
             --chmod, --chown and --resume",
        ),
        Contradiction::RemovalNeedsCopies => Words::new(
            "--remove-source-files removes files whose bytes were copied, and --link, \
             --link-dest and --attributes-only copy none",
            "leave one of them out",
        ),
        Contradiction::RemovalInMirror => Words::new(
            "--remove-source-files contradicts --delete, which would delete the copies of \
             what was removed in the next run",
            "leave one of them out",
        ),
        Contradiction::LinkDestCopiesNothing => Words::new(
            "--link-dest gives unchanged files further names and copies none of them",
            "leave out --verify, --digest, --manifest, --compress, --decompress, \
             --attributes-only, --chmod, --chown and --link",
        ),
        Contradiction::ComparedWithOther => Words::new(
            "--checksum and --size-only look whether the destination is what a copy would \
             be, and --compress, --decompress, --attributes-only and --link make something \
             else",
            "leave one of them out",
        ),
        Contradiction::ComparedAndKept => Words::new(
            "--checksum and --size-only decide whether an existing file is replaced, and \
             --no-clobber replaces none",
            "leave one of them out",
        ),
        Contradiction::TreeOptionOfEntries => Words::new(
            "--one-file-system, --follow-outside, --delete, --exclude and --include are \
             for trees",
            "pass --recursive, or leave them out",
        ),
        Contradiction::TreeInPlace => Words::new(
            "--in-place contradicts --recursive, and --update, --checksum, --size-only, \
             --link-dest, --remove-source-files, --link and -P of single files: it is for \
             single files whose name must not be replaced",
            "leave one of them out",
        ),
        Contradiction::ContentsInTree => Words::new(
            "--copy-contents contradicts --recursive, and --update, --checksum, \
             --size-only, --link-dest, --remove-source-files, --link and -P of single \
             files: a FIFO in a tree has no end",
            "leave it out, or pass --recursive and --specials to recreate FIFOs and \
             devices",
        ),
        Contradiction::DryRunLeavesNothing => Words::new(
            "--resume contradicts --dry-run, which leaves nothing to continue",
            "leave one of them out",
        ),
        Contradiction::OutsideNeedsFollowing => Words::new(
            "--follow-outside only says how far --links=follow goes",
            "add that, or leave it out",
        ),
        found => Words::of(found.reason(), found.next_step()),
    }
}

/// Describes the next step after an error.
pub(crate) fn next_step(step: NextStep) -> &'static str {
    match step {
        NextStep::CopyAsTree => "name a file, or pass --recursive to copy the directory",
        NextStep::CopyContents => "pass --copy-contents to read or write its bytes",
        NextStep::AcceptChange => {
            "copy again when no program writes to it, or pass --if-changed=retry or =accept"
        }
        NextStep::FlushSource => {
            "copy again with if-changed=retry, which flushes the source first, and check the device \
             if they still differ; this copy was not put in place"
        }
        NextStep::GetAnew => "get the file again, or copy it as it is, without --decompress",
        NextStep::MakeSocket => {
            "nothing can be read from it; pass --recursive and --specials to make a new one"
        }
        NextStep::LinkWithin => {
            "name a destination on the filesystem of the source, or leave out --link"
        }
        NextStep::ReplaceByForce => "pass --force to replace it, or name another destination",
        NextStep::AllowMore => {
            "leave out what allows no other to fall back: --method, --reflink, --require or --no-user-copy, or a setting \
             of theirs (`uncopy config show` prints their origins)"
        }
        NextStep::ShareBlocks => {
            "put source and destination on one filesystem that shares blocks (XFS, btrfs, bcachefs), or \
             leave out --require"
        }
        NextStep::MoveToDisk => {
            "name a destination that takes direct writes (ext4, XFS or f2fs, directly on a disk), or leave \
             out --require"
        }
        NextStep::ShareOrMove => {
            "put source and destination on one filesystem that shares blocks (XFS, btrfs, bcachefs), or \
             the destination on ext4, XFS or f2fs directly on a disk, or leave out --require"
        }
        NextStep::NameRegularSource => "copy from a regular file on a disk, or leave out --require",
        NextStep::LeaveOut => elsewhere::NEXT_STEP,
        step => step.text(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;
    use crate::flags::copy::CopyArgs;

    /// Checks that every flag in a text exists.
    fn check_flags(text: &str) {
        let command = CopyArgs::augment_args(Command::new("cp"));
        let known: Vec<&str> = command.get_arguments().filter_map(|flag| flag.get_long()).collect();
        for word in text.split([' ', '(']).filter_map(|word| word.strip_prefix("--")) {
            let name = word.split(['=', ',', ';', ':', ')']).next().unwrap();
            assert!(known.contains(&name), "there is no --{name}: {text}");
        }
    }

    #[test]
    fn next_steps_name_flags_that_there_are() {
        for step in NextStep::ALL {
            check_flags(next_step(*step));
        }
    }

    #[test]
    fn reasons_name_flags_that_there_are() {
        use Objection::{
            BackupIsCopy, BackupIsDirectory, BackupIsSource, BackupNameTooLong, BackupOfKilledRun,
            EmptySource, EndlessLink, LeadsOutside, MakingForbidden, MountPoint, MountedMeanwhile,
            NameOfBackup, OwnerForbidden, ReplacingForbidden, RivalName, SpecialEntry,
            TooManyDeleted,
        };
        let errno = uncopy::Errno::EACCES;
        for found in [
            MountPoint,
            MountedMeanwhile,
            ReplacingForbidden { errno },
            MakingForbidden { errno },
            OwnerForbidden { errno },
            BackupIsSource,
            BackupIsDirectory,
            BackupNameTooLong,
            SpecialEntry { kind: FileKind::Fifo },
            SpecialEntry { kind: FileKind::Socket },
            BackupIsCopy,
            NameOfBackup,
            BackupOfKilledRun,
            EndlessLink,
            LeadsOutside,
            RivalName { name: "a.zst".into() },
            TooManyDeleted,
            EmptySource,
        ] {
            let words = objection(&found).to_string();
            assert!(words.contains("--"), "{words}");
            check_flags(&words);
        }
        for reason in Skip::ALL {
            check_flags(skip(*reason));
        }
    }

    #[test]
    fn every_code_is_in_the_book() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        let book = std::fs::read_to_string(path).unwrap();
        let skips = Skip::ALL.iter().map(|skip| skip.code());
        let codes = Objection::CODES.iter().chain(Contradiction::CODES).copied().chain(skips);
        for code in codes {
            assert!(book.contains(&format!("`{code}`")), "docs/json.md lacks {code}");
        }
    }

    #[test]
    fn contradictions_name_flags_that_there_are() {
        use Contradiction::{
            AskInMirror, AttributesAlone, BackupInMirror, BackupOfNothing, BackupSuffix,
            ComparedAndKept, ComparedWithOther, ContentsInTree, DigestOfTransformed,
            DirectKeepsNoCache, DryRunLeavesNothing, InPlaceCannotRetry, LinkCopiesNothing,
            LinkDestCopiesNothing, OutsideNeedsFollowing, ParentsOfPart, RemovalInMirror,
            RemovalNeedsCopies, RemoveInPlace, TransformInPlace, TransformNeedsReading,
            TransformOfStream, TreeInPlace, TreeOptionOfEntries, ZerosNeedReading,
        };
        for found in [
            AskInMirror,
            AttributesAlone,
            BackupInMirror,
            ParentsOfPart,
            BackupOfNothing,
            BackupSuffix,
            ComparedAndKept,
            ComparedWithOther,
            LinkCopiesNothing,
            LinkDestCopiesNothing,
            RemovalNeedsCopies,
            RemovalInMirror,
            RemoveInPlace,
            TreeOptionOfEntries,
            DirectKeepsNoCache,
            ZerosNeedReading,
            InPlaceCannotRetry,
            TransformNeedsReading,
            DigestOfTransformed,
            TransformInPlace,
            TransformOfStream,
            TreeInPlace,
            ContentsInTree,
            DryRunLeavesNothing,
            OutsideNeedsFollowing,
        ] {
            let words = contradiction(found).to_string();
            assert!(words.starts_with("--"), "{words}");
            check_flags(&words);
        }
        for option in ["link", "remove_source", "parents", "transform", "require", "allow"] {
            let words = contradiction(Contradiction::SourceElsewhere { option }).to_string();
            assert!(words.starts_with("--"), "{words}");
            check_flags(&words);
        }
    }
}
