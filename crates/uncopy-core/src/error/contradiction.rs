//! Options that conflict or are not available.

use super::coded::coded;
use crate::{FileKind, Mechanism};

coded! {
    /// Options of a copy or a job that conflict, are not in this build, or do not fit the files.
    ///
    /// Displayed as a sentence that names the options and ends with what to do about it.
    #[derive(Copy)]
    pub enum Contradiction {
        /// `cache` is `Keep`, and no mechanism but [`Direct`](crate::Mechanism::Direct) is allowed.
        DirectKeepsNoCache = "direct_keeps_no_cache",
            "cache = Keep contradicts allow = Only(Direct): direct writes bypass the page cache",
            "leave one of them out";
        /// No mechanism that `allow` leaves can meet `require`.
        RequireExcludesMethod {
            /// Name of the requirement: "moved".
            require: &'static str,
            /// The only mechanism allowed.
            mechanism: Mechanism,
        } = "require_excludes_method",
            "require = {require} cannot be met by {mechanism}, which alone is allowed",
            "leave one of them out";
        /// `require` is `Moved`, and `cache` is `Keep`.
        MovedKeepsNoCache = "moved_keeps_no_cache",
            "cache = Keep contradicts require = Moved: bytes are moved past the page cache",
            "leave one of them out";
        /// `sparse` is `Always`, and [`ReadWrite`](crate::Mechanism::ReadWrite) is not allowed.
        ZerosNeedReading = "zeros_need_reading",
            "sparse = Always looks at every byte, which only read and write can",
            "leave it out, or allow them";
        /// `in_place`, and `if_changed` is `Retry`.
        InPlaceCannotRetry = "in_place_cannot_retry",
            "in_place contradicts if_changed = Retry: what was written in place cannot be taken back to be \
             tried again",
            "leave one of them out";
        /// `if_changed` is `Retry`, and the destination is a FIFO or device.
        StreamCannotRetry {
            /// Kind of the destination.
            kind: FileKind,
        } = "stream_cannot_retry",
            "it is {kind}: what was written to it cannot be taken back to be tried again when the source \
             changes",
            "set if_changed to Fail or Accept";
        /// `transform`, and the library was built without its feature `compress`.
        NoCompressionHere = "no_compression_here",
            "this build cannot compress: it lacks the feature `compress`, which brings zstd",
            "build it with that feature, or leave out transform";
        /// `verify` or `digest` with a digest that this build lacks: its features are `blake3` and
        /// `sha256`.
        NoDigestHere = "no_digest_here",
            "this build cannot compute this digest: it lacks the feature of its name, `blake3` or `sha256`",
            "build it with that, or choose another digest";
        /// `digest` and `transform`.
        DigestOfTransformed = "digest_of_transformed",
            "digest contradicts transform: the copy has other bytes than its source, and no digest would be \
             that of both",
            "leave one of them out";
        /// `transform`, and [`ReadWrite`](crate::Mechanism::ReadWrite) is not allowed.
        TransformNeedsReading = "transform_needs_reading",
            "transform changes the bytes, which only read and write can",
            "allow them, or leave out transform";
        /// `transform` and `in_place`.
        TransformInPlace = "transform_in_place",
            "in_place contradicts transform, which makes a new file",
            "leave one of them out";
        /// `transform` and `copy_contents`.
        TransformOfStream = "transform_of_stream",
            "copy_contents contradicts transform: what pays is found out by looking ahead in a file, which a \
             FIFO or device does not allow",
            "leave one of them out";
        /// An option that needs the source on this machine, and the source is on another one.
        SourceElsewhere {
            /// Name of the option: "link".
            option: &'static str,
        } = "source_elsewhere",
            "{option} needs the source on this machine, and it is on another one",
            "leave it out, or copy on that machine";
        /// `transform`, and the source is a stream.
        TransformNeedsFile = "transform_needs_file",
            "what pays is found out by looking ahead in a file, which a stream does not allow",
            "copy it without compressing or decompressing";
        /// `in_place` in a copy whose future may be dropped.
        AsyncInPlace = "async_in_place",
            "in_place contradicts a copy that may be dropped at any time, which would leave a mixture",
            "leave it out, or copy on a thread of your own";
        /// `attributes_only` with `verify`, `digest`, `transform` or `in_place`.
        AttributesAlone = "attributes_alone",
            "attributes_only copies no bytes, so that verify, digest, transform and in_place have no meaning",
            "leave one of them out";
        /// `backup`, and no existing file is replaced: `existing` is `Keep`, `in_place` or `attributes_only`.
        BackupOfNothing = "backup_of_nothing",
            "backup keeps a file that is replaced, and existing = Keep, in_place and attributes_only replace \
             none",
            "leave one of them out";
        /// `backup` with a suffix that is empty, or contains a slash or a zero byte.
        BackupSuffix = "backup_suffix",
            "the suffix of backups must make another name in the same directory",
            "choose one without a slash";
        /// `backup` and `delete`.
        BackupInMirror = "backup_in_mirror",
            "backup contradicts delete, which deletes what the source does not have, and so the backups",
            "leave one of them out";
        /// `existing` is `Remove`, with `in_place` or `attributes_only`.
        RemoveInPlace = "remove_in_place",
            "existing = Remove replaces the name, and in_place and attributes_only write into the existing \
             file",
            "leave one of them out";
        /// `ask`, and `existing` is `Keep`.
        AskAboutKept = "ask_about_kept",
            "existing = Keep replaces no file, so that there is nothing to ask about",
            "leave out ask, or replace";
        /// `ask` and `delete`.
        AskInMirror = "ask_in_mirror",
            "ask contradicts delete, which removes what the source does not have without a question",
            "leave one of them out";
        /// `parents` with `resume` or `delete`.
        ParentsOfPart = "parents_of_part",
            "parents adds to an existing directory, and resume and delete are for whole trees",
            "leave one of them out";
        /// `link` in a job, with an option for bytes or metadata of copies.
        LinkCopiesNothing = "link_copies_nothing",
            "link makes further names of the source's files and copies none",
            "leave out verify, digest, transform, attributes_only, mode_changes, owner and resume";
        /// `remove_source` in a job, and no copy has the bytes: `link`, `link_dest` or `attributes_only`.
        RemovalNeedsCopies = "removal_needs_copies",
            "remove_source removes files whose bytes were copied, and link, link_dest and attributes_only \
             copy none",
            "leave one of them out";
        /// `remove_source` and `delete` in a job.
        RemovalInMirror = "removal_in_mirror",
            "remove_source contradicts delete, which would delete the copies of what was removed by the next \
             run",
            "leave one of them out";
        /// `link_dest` in a job, with an option for bytes of copies, or `link`.
        LinkDestCopiesNothing = "link_dest_copies_nothing",
            "link_dest gives unchanged files further names and copies none of them",
            "leave out verify, digest, transform, attributes_only, mode_changes, owner and link";
        /// `compare` in a job, and the copy has other bytes than its source, or none: `transform`,
        /// `attributes_only` or `link`.
        ComparedWithOther = "compared_with_other",
            "compare looks whether the destination is what a copy would be, and transform, attributes_only \
             and link make something else",
            "leave one of them out";
        /// `compare` in a job, and `existing` is `Keep`.
        ComparedAndKept = "compared_and_kept",
            "compare decides whether an existing file is replaced, and existing = Keep replaces none",
            "leave one of them out";
        /// `in_place` in a job.
        TreeInPlace = "tree_in_place",
            "in_place is for single files whose name must not be replaced, and not for trees",
            "leave it out";
        /// `copy_contents` in a job.
        ContentsInTree = "contents_in_tree",
            "copy_contents is not for trees: a FIFO in a tree has no end",
            "leave it out, or set specials to make new FIFOs and devices";
        /// `read_streams` in a job.
        StreamsInTree = "streams_in_tree",
            "streams are read by copies of single files alone: a FIFO in a tree has no end",
            "copy it by itself";
        /// An option of trees in a job of single files.
        TreeOptionOfFiles = "tree_option_of_files",
            "a job of single files has no use for options of trees: links, follow_outside, specials, \
             selection, update, delete, dry_run and resume",
            "leave them out, or copy trees";
        /// An option of trees in a job of single entries.
        TreeOptionOfEntries = "tree_option_of_entries",
            "a job of single entries has no use for options of trees: one_filesystem, follow_outside, \
             selection and delete",
            "leave them out, or copy trees";
        /// `resume` and `dry_run`.
        DryRunLeavesNothing = "dry_run_leaves_nothing",
            "resume contradicts dry_run, which leaves nothing to go on from",
            "leave one of them out";
        /// `follow_outside`, and `links` is not `Follow`.
        OutsideNeedsFollowing = "outside_needs_following",
            "follow_outside only says how far links = Follow goes",
            "add that, or leave it out";
    }
}
