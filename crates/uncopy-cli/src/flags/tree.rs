//! Flags of `uncopy cp -r`.

use std::num::NonZeroUsize;

use clap::ValueEnum;

use super::select::Patterns;

pub(super) const TREES: &str = "Trees (with --recursive)";

/// How often a file is tried again if nothing else is said.
pub(super) const RETRIES: u32 = 3;

/// What `uncopy cp` does with directories.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TreeArgs {
    /// Copy directories with all that is in them
    ///
    /// A directory whose destination does not exist is built beside it and renamed once, when it
    /// is complete: when every entry of it was tried. An error of the destination that the next
    /// entry would meet too ends that before (--on-error). Where the destination exists each file is
    /// replaced in one step.
    #[arg(short, long, visible_short_alias = 'R', help_heading = TREES)]
    pub recursive: bool,

    /// Make symbolic links anew (preserve), copy what they lead to (follow), or leave them out (skip)
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true, requires = "recursive", help_heading = TREES)]
    pub links: LinksArg,

    /// With --links=follow: also where they lead out of the tree or by an absolute path
    #[arg(long, requires = "recursive", help_heading = TREES)]
    pub follow_outside: bool,

    /// Make FIFOs, sockets and device files anew; without it they are skipped
    #[arg(long, requires = "recursive", help_heading = TREES)]
    pub specials: bool,

    #[command(flatten)]
    pub patterns: Patterns,

    /// Leave alone what is as new in the destination as in the source
    #[arg(short, long, requires = "recursive", help_heading = TREES)]
    pub update: bool,

    /// Remove from the destination what the source does not have
    ///
    /// What --exclude and --include leave out stays, and nothing is removed from a directory whose
    /// source could not be listed. An entry of another kind than in the source is replaced.
    #[arg(long, requires = "recursive", help_heading = TREES)]
    pub delete: bool,

    /// With --delete: also if the source is empty, which may be a disk that is not mounted
    #[arg(long, requires = "delete", help_heading = TREES)]
    pub delete_empty_source: bool,

    /// With --delete: remove so many entries at most, those inside of directories counted
    #[arg(long, value_name = "N", requires = "delete", help_heading = TREES)]
    pub max_delete: Option<u64>,

    /// Change nothing; say what would be done, and which way each file would go
    #[arg(long, requires = "recursive", help_heading = TREES)]
    pub dry_run: bool,

    /// Try a file so often again after an error that may pass (ESTALE, EIO of a server)
    #[arg(long, value_name = "N", default_value_t = RETRIES, requires = "recursive", help_heading = TREES)]
    pub retries: u32,

    /// Keep a journal beside the destination, and go on from one that a killed or stopped run left
    ///
    /// The same command with the same flags goes on where it was: files that are done and have not
    /// changed since on either side are not copied again.
    #[arg(long, requires = "recursive", help_heading = TREES)]
    pub resume: bool,

    /// So many workers; without it one for each processor, eight at most
    #[arg(short, long, value_name = "N", requires = "recursive", help_heading = TREES)]
    pub jobs: Option<NonZeroUsize>,

    /// Show progress also where standard error is no terminal: a line after a second, and then
    /// every ten
    #[arg(long, requires = "recursive", conflicts_with = "quiet", help_heading = TREES)]
    pub progress: bool,
}

/// `--links`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinksArg {
    /// They are made anew
    #[default]
    Preserve,
    /// What they lead to is copied, if it lies in the tree
    Follow,
    /// They are left out
    Skip,
}
