//! Flags of `uncopy cp -r`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgGroup, ValueHint};

use super::links::LinkArgs;
use super::number;
use super::select::Patterns;

pub(super) const TREES: &str = "Trees (with --recursive)";

/// Default number of retries.
pub(super) const RETRIES: u32 = 3;

/// Flags of trees.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(group = ArgGroup::new("whole").args(["recursive", "archive"]).multiple(true))]
pub(crate) struct TreeArgs {
    /// Copy directories recursively
    ///
    /// A directory whose destination does not exist is built beside it and renamed once, when
    /// every entry has been tried. An error of the destination that the next entry would meet too
    /// stops the copy before that (--on-error). Where the destination exists, each file is replaced
    /// in one step.
    #[arg(short, long, visible_short_alias = 'R', help_heading = TREES)]
    pub recursive: bool,

    // Before `archive`, which it looks at, and which the parser takes out of the matches.
    #[command(flatten)]
    pub links: LinkArgs,

    /// Copy everything as it is: --recursive --specials -P --preserve=all
    #[arg(short, long, help_heading = TREES)]
    pub archive: bool,

    /// Leave out what lies on other filesystems; directories that they are mounted on are made
    #[arg(short = 'x', long, help_heading = TREES)]
    pub one_file_system: bool,

    /// With --links=follow: also follow links out of the tree and absolute links
    #[arg(long, requires = "whole", help_heading = TREES)]
    pub follow_outside: bool,

    /// Recreate FIFOs, sockets and device files instead of skipping them
    #[arg(long, requires = "whole", help_heading = TREES)]
    pub specials: bool,

    #[command(flatten)]
    pub patterns: Patterns,

    /// Skip entries that are at least as new in the destination as in the source
    #[arg(short, long, help_heading = TREES)]
    pub update: bool,

    /// Skip files that have the same contents in the destination, whatever their times: reads both where
    /// their sizes are equal
    ///
    /// With --update, files that are newer in the destination are skipped without a look at them.
    #[arg(long, help_heading = TREES)]
    pub checksum: bool,

    /// Skip files that are as long in the destination, whatever their times and contents
    #[arg(long, help_heading = TREES)]
    pub size_only: bool,

    /// Make a hard link to the file in DIR, an earlier copy, where that is unchanged; can be repeated
    ///
    /// A file is unchanged if it has the same size and time of modification, or is the same by --checksum or
    /// --size-only, and has all that --preserve would give its copy. A relative DIR begins at the destination
    /// directory. Where the filesystem refuses a link, the file is copied, and a note says so.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = TREES)]
    pub link_dest: Vec<PathBuf>,

    /// Remove each file of the source whose copy is in place, and flushed with --durable
    ///
    /// Files are removed when everything in their SRC is copied and has its final name. One that is skipped or
    /// fails stays, and so do directories, links and special files. One that has changed since it was read
    /// stays, and is an error.
    #[arg(long, help_heading = TREES)]
    pub remove_source_files: bool,

    /// Delete entries of the destination that the source does not have
    ///
    /// Entries that --exclude and --include leave out stay, and nothing is deleted from a directory
    /// whose source could not be listed. An entry that is of another kind in the source is replaced.
    #[arg(long, requires = "whole", help_heading = TREES)]
    pub delete: bool,

    /// With --delete: allow an empty source, which may be a disk that is not mounted
    #[arg(long, requires = "delete", help_heading = TREES)]
    pub delete_empty_source: bool,

    /// With --delete: maximum number of entries to delete, including those inside directories
    #[arg(long, value_name = "N", requires = "delete", help_heading = TREES)]
    pub max_delete: Option<u64>,

    /// Change nothing; print what would be done, and by which mechanism each file would be copied
    #[arg(long, requires = "whole", help_heading = TREES)]
    pub dry_run: bool,

    /// Number of retries of a file after a temporary error (EINTR, EAGAIN, ESTALE, EIO of a server)
    #[arg(long, value_name = "N", default_value_t = RETRIES, requires = "whole", help_heading = TREES)]
    pub retries: u32,

    /// Keep a journal beside the destination, and continue a run that was killed or stopped
    ///
    /// The same command with the same flags continues where it stopped: files that were copied and
    /// have not changed since on either side are not copied again.
    #[arg(long, help_heading = TREES)]
    pub resume: bool,

    /// Number of workers [default: one per CPU, at most 8]
    #[arg(short, long, value_name = "N", requires = "whole", help_heading = TREES, value_parser = number::at_least_one::<NonZeroUsize>)]
    pub jobs: Option<NonZeroUsize>,

    /// Show progress even if standard error is not a terminal: a line after one second, then
    /// one every ten seconds
    #[arg(long, requires = "whole", conflicts_with = "quiet", help_heading = TREES)]
    pub progress: bool,
}
