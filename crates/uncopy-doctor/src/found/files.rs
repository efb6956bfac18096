//! Facts about a copy of files.

use std::path::PathBuf;

use uncopy_core::{Filesystem, Mechanism};
use uncopy_os::capabilities::AnswerReason;

use crate::settings::Setting;
use crate::worded::worded;

worded! {
    /// End of a copy.
    pub enum Side {
        /// File that is read.
        Source = "source";
        /// File that is written.
        Destination = "destination";
    }
}

worded! {
    /// Reason why nothing cheaper copies.
    ///
    /// Displayed as the end of a clause.
    pub enum CopyCause {
        /// A setting rules it out.
        Setting {
            /// Setting of the caller.
            setting: Setting,
        } = ", because of the setting {setting}";
        /// The kernel refuses to share blocks.
        Refused {
            /// Reason of the refusal.
            reason: AnswerReason,
        } = ": {reason}";
        /// Cause that is not reported.
        Unnamed = "";
    }
}

worded! {
    /// Fact about a copy of files.
    ///
    /// Displayed as a clause.
    pub enum FilesFound {
        /// The source has no bytes.
        Empty = "the source is empty";
        /// A directory has no regular files.
        NoFiles {
            /// Path of the directory.
            directory: PathBuf,
        } = "{directory} has no regular files", directory = directory.display();
        /// Most files of a directory are small.
        ManySmall {
            /// Number of small files.
            small: u64,
            /// Number of all files.
            files: u64,
        } = "{small} of {files} files are below 64 KiB";
        /// Most bytes of a directory are in large files.
        ManyLarge {
            /// Bytes of large files.
            large_bytes: u64,
            /// Bytes of all files.
            bytes: u64,
        } = "{large_bytes} of {bytes} bytes are in files of 1 MiB and more";
        /// The contents of the source are generated on reading.
        Pseudo {
            /// Filesystem of the source.
            filesystem: Filesystem,
        } = "the contents of the source are generated on reading ({filesystem})";
        /// The destination is a device, FIFO or terminal.
        Stream = "the destination is not a regular file";
        /// A filesystem of another machine.
        OtherMachine {
            /// End of the copy that lies there.
            side: Side,
            /// The filesystem.
            filesystem: Filesystem,
        } = "the {side} is on another machine ({filesystem})";
        /// A filesystem that a program serves.
        ServedByProgram {
            /// End of the copy that lies there.
            side: Side,
        } = "a program serves the {side}";
        /// The destination keeps its inode.
        InPlace = "the destination is written in place";
        /// Every mechanism that the options allow is refused or fails.
        NoMechanism = "no allowed method works between these files";
        /// Blocks are shared.
        Shares {
            /// Mechanism that shares them.
            mechanism: Mechanism,
        } = "{mechanism} shares the blocks";
        /// Direct writes move the pages.
        DirectMoves = "the disk reads the pages of the source directly";
        /// The kernel copies.
        KernelCopies {
            /// Mechanism that copies.
            mechanism: Mechanism,
            /// Reason why nothing cheaper does.
            cause: CopyCause,
        } = "{mechanism} copies inside the kernel{cause}";
        /// The program copies.
        ProgramCopies {
            /// Reason why nothing cheaper does.
            cause: CopyCause,
        } = "the bytes are copied through the program's memory{cause}";
        /// The device below direct writes may copy.
        DirectUnknown {
            /// Name of the device.
            device: String,
        } = "direct writes go to {device}, which may copy";
        /// A filesystem does not report whether it copied.
        MayCopy {
            /// Filesystem of the destination.
            filesystem: Filesystem,
        } = "{filesystem} does not report whether it copied";
        /// Sharing blocks could not be tried.
        NothingTried {
            /// Reason why not.
            reason: AnswerReason,
        } = "nothing could be tried: {reason}";
        /// Both files lie on different filesystems.
        TwoFilesystems {
            /// Filesystem of the source.
            source: Filesystem,
            /// Filesystem of the destination.
            destination: Filesystem,
        } = "source and destination are on different filesystems ({source}, {destination})";
        /// A filesystem has no reflinks.
        NoReflinks {
            /// Filesystem of the destination.
            filesystem: Filesystem,
        } = "{filesystem} has no reflinks";
        /// A filesystem refuses to share blocks of these files.
        ReflinkRefused {
            /// Reason of the refusal.
            reason: AnswerReason,
        } = "{reason}";
        /// A filesystem refuses direct writes.
        NoDirectWrites {
            /// Filesystem of the destination.
            filesystem: Filesystem,
        } = "{filesystem} does not support direct writes";
        /// A filesystem copies direct writes.
        DirectCopies {
            /// Filesystem of the destination.
            filesystem: Filesystem,
        } = "{filesystem} copies even with O_DIRECT";
        /// The source is too small for direct writes.
        TooSmallForDirect {
            /// Size of the source.
            bytes: u64,
        } = "{bytes} bytes are too few for direct writes";
        /// Direct writes would be slower by the clock.
        DirectWouldMove = "direct writes would avoid the copy";
        /// A setting rules out mechanisms that work.
        RuledOut {
            /// Setting of the caller.
            setting: Setting,
            /// Mechanisms that it rules out.
            mechanisms: Vec<Mechanism>,
        } = "{setting} excludes {mechanisms}", mechanisms = list(mechanisms);
        /// Verification reads both files again.
        Verifies {
            /// Bytes that it reads.
            bytes: u64,
        } = "verification reads another {bytes} bytes";
        /// The source is small.
        Small {
            /// Size of the source.
            bytes: u64,
        } = "the file has only {bytes} bytes";
        /// The source is in the page cache.
        Cached = "the source is in the page cache";
        /// The source is not in the page cache.
        NotCached = "the source is not in the page cache";
        /// The source has holes.
        Holes {
            /// Bytes that are stored.
            stored: u64,
            /// Size of the source.
            bytes: u64,
        } = "{stored} of {bytes} bytes are stored";
        /// The end of the source is no whole block.
        UnalignedTail {
            /// Bytes behind the last whole block.
            bytes: u64,
        } = "the last {bytes} bytes are not a whole block";
        /// A rotational disk.
        Rotational {
            /// Name of the device.
            device: String,
        } = "{device} is a rotational disk";
        /// A block device on another machine.
        RemoteDevice {
            /// Name of the device.
            device: String,
        } = "{device} is on another machine";
    }
}

fn list(mechanisms: &[Mechanism]) -> String {
    mechanisms.iter().map(|mechanism| mechanism.name()).collect::<Vec<_>>().join(", ")
}
