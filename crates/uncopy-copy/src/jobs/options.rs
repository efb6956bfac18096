//! Defines the options of a job.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use super::remover::Remover;
use super::select::Selection;
use crate::setters::setters;
use crate::{Contradiction, CopyOptions, Existing, Gate, Transform};
use uncopy_core::Error;

/// How to copy trees. Every field but [`retries`](JobOptions::retries) has the default of plain
/// `uncopy cp -r`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobOptions {
    /// How each file is copied. [`CopyOptions::in_place`], [`CopyOptions::copy_contents`] and
    /// [`CopyOptions::read_streams`] have no meaning for trees and are refused.
    pub copy: CopyOptions,
    /// Whether the sources are trees or single files.
    pub sources: Sources,
    /// Directories of a source's path that its copy keeps.
    pub parents: Parents,
    /// How symbolic links are treated.
    pub links: Links,
    /// With [`Links::Preserve`] and [`Links::Skip`]: follow a source that is a symbolic link all the same.
    pub follow_roots: bool,
    /// How a symbolic link is treated that stands where a directory is to be copied to.
    pub destination_links: DestinationLinks,
    /// Whether the names of one file in the sources become names of one file in the copy.
    pub hard_links: HardLinks,
    /// Leave out what lies on another filesystem (by device number) than the directory that it is
    /// mounted on. Such a directory is made, and nothing is deleted from it.
    pub one_filesystem: bool,
    /// With [`Links::Follow`]: also follows links that lead out of the tree or have an absolute target.
    pub follow_outside: bool,
    /// Recreate FIFOs, sockets and device files; otherwise they are skipped.
    pub specials: bool,
    /// Selection of the entries to copy.
    pub selection: Selection,
    /// Make further names (hard links) of the source's files instead of copying them, but for
    /// directories. An existing entry is replaced only with [`Existing::Force`](crate::Existing::Force) or
    /// [`Existing::Remove`](crate::Existing::Remove), or a backup.
    pub link: bool,
    /// Skip an entry whose destination is newer than the source; and one that is as new, unless
    /// [`compare`](JobOptions::compare) decides about those.
    pub update: bool,
    /// Comparison that shows that an existing file is unchanged, so that it is skipped.
    pub compare: Compare,
    /// Earlier copies: a file that is unchanged in one gets a further name of that file instead of a copy.
    pub link_dest: Option<LinkDest>,
    /// Remove destination entries that the source does not have.
    pub delete: Option<Delete>,
    /// Remove each regular file of the source that was copied, when its root is finished: all copies have their final
    /// names then, and are flushed if wanted. A file stays that was skipped, failed, changed since, or whose name
    /// refers to another one. Directories, links and special files stay.
    pub remove_source: bool,
    /// Change nothing, and report what would be done ([`EntryOutcome::Planned`](super::EntryOutcome::Planned)).
    pub dry_run: bool,
    /// Reaction to an entry that cannot be copied.
    pub on_error: OnError,
    /// Number of workers. `None`: one per available processor, at most eight.
    pub jobs: Option<NonZeroUsize>,
    /// Rate limit for all workers together, in bytes per second.
    pub bytes_per_second: Option<NonZeroU64>,
    /// Number of retries of a file after a transient error: `EINTR`, `EAGAIN`, `ESTALE`, and `EIO` on
    /// network filesystems; on Windows one that another program holds. The first retry comes after 100 ms, each
    /// further one after twice as long. 0 by default; `uncopy cp` uses 3.
    pub retries: u32,
    /// Keep a journal of each tree beside its destination, and resume from the journal of a killed or
    /// stopped run with the same options. It is removed when the tree is complete.
    pub resume: bool,
    /// Maximum number of hard-linked files remembered in memory while more of their names are expected;
    /// further ones are remembered in an unlinked file in the destination. `None`: 16,384.
    pub links_in_memory: Option<usize>,
    /// Count entries and bytes ahead of the copy, so that [`JobProgress`](super::JobProgress) has totals.
    /// Examines every source once more.
    pub scan_ahead: bool,
    /// Gate where the workers wait while a [`Pause`](crate::Pause) lasts.
    pub gate: Option<Gate>,
    /// Remover of unfinished trees, so that a job that was stopped ends soon. Without one the job ends when they are
    /// removed, and so it always does on systems other than Linux.
    pub remover: Option<Remover>,
}

setters! {
    JobOptions {
        copy: CopyOptions,
        sources: Sources,
        parents: Parents,
        links: Links,
        follow_roots: bool,
        destination_links: DestinationLinks,
        hard_links: HardLinks,
        one_filesystem: bool,
        follow_outside: bool,
        specials: bool,
        selection: Selection,
        link: bool,
        update: bool,
        compare: Compare,
        link_dest: Option<LinkDest>,
        delete: Option<Delete>,
        remove_source: bool,
        dry_run: bool,
        on_error: OnError,
        jobs: Option<NonZeroUsize>,
        bytes_per_second: Option<NonZeroU64>,
        retries: u32,
        resume: bool,
        links_in_memory: Option<usize>,
        scan_ahead: bool,
        gate: Option<Gate>,
        remover: Option<Remover>,
    }
}

setters! {
    LinkDest { directories: Vec<PathBuf>, holds_roots: bool, }
}

setters! {
    Delete { most: Option<u64>, empty_source: bool, }
}

impl JobOptions {
    /// Makes the options of plain `uncopy cp -r`: the default.
    #[must_use]
    pub fn new() -> JobOptions {
        JobOptions::default()
    }

    /// Whether these options can be obeyed together, whatever the trees are.
    ///
    /// # Errors
    /// The first contradiction. No file is touched, or looked at.
    pub fn check(&self) -> Result<(), Contradiction> {
        self.copy.check()?;
        if self.sources == Sources::Files {
            let has_tree_options = self.links != Links::Preserve
                || self.follow_roots
                || self.parents != Parents::Omit
                || self.hard_links != HardLinks::Keep
                || self.one_filesystem
                || self.link
                || self.follow_outside
                || self.specials
                || !self.selection.is_everything()
                || self.update
                || self.compare != Compare::Times
                || self.link_dest.is_some()
                || self.remove_source
                || self.delete.is_some()
                || self.dry_run
                || self.resume;
            return if has_tree_options { Err(Contradiction::TreeOptionOfFiles) } else { Ok(()) };
        }
        let follows = self.links == Links::Follow;
        let is_of_trees = self.one_filesystem
            || self.delete.is_some()
            || self.follow_outside
            || !self.selection.is_everything();
        let is_for_bytes = self.copy.verify.is_some()
            || self.copy.digest.is_some()
            || self.copy.transform != Transform::None
            || self.copy.attributes_only
            || self.copy.mode_changes.is_some()
            || self.copy.owner.is_some()
            || self.resume;
        let compares = self.compare != Compare::Times;
        let makes_other_bytes =
            self.copy.transform != Transform::None || self.copy.attributes_only || self.link;
        let gives_no_copy = self.link
            || self.copy.verify.is_some()
            || self.copy.digest.is_some()
            || self.copy.attributes_only
            || self.copy.mode_changes.is_some()
            || self.copy.owner.is_some()
            || self.copy.transform != Transform::None;
        let shares_files = self.link || self.link_dest.is_some() || self.copy.attributes_only;
        let is_of_whole_trees = self.resume || self.delete.is_some();
        let rows = [
            (self.parents != Parents::Omit && is_of_whole_trees, Contradiction::ParentsOfPart),
            (self.remove_source && shares_files, Contradiction::RemovalNeedsCopies),
            (self.remove_source && self.delete.is_some(), Contradiction::RemovalInMirror),
            (self.link_dest.is_some() && gives_no_copy, Contradiction::LinkDestCopiesNothing),
            (self.link && is_for_bytes, Contradiction::LinkCopiesNothing),
            (compares && makes_other_bytes, Contradiction::ComparedWithOther),
            (compares && self.copy.existing == Existing::Keep, Contradiction::ComparedAndKept),
            (self.copy.backup.is_some() && self.delete.is_some(), Contradiction::BackupInMirror),
            (self.copy.ask && self.delete.is_some(), Contradiction::AskInMirror),
            (self.sources == Sources::Entries && is_of_trees, Contradiction::TreeOptionOfEntries),
            (self.copy.in_place, Contradiction::TreeInPlace),
            (self.copy.copy_contents, Contradiction::ContentsInTree),
            (self.copy.read_streams, Contradiction::StreamsInTree),
            (self.resume && self.dry_run, Contradiction::DryRunLeavesNothing),
            (self.follow_outside && !follows, Contradiction::OutsideNeedsFollowing),
        ];
        rows.into_iter().find(|(holds, _)| *holds).map_or(Ok(()), |(_, found)| Err(found))
    }
}

/// Kind of the sources of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sources {
    /// Trees: a directory is copied with all that is in it, and a symbolic link as
    /// [`JobOptions::links`] says.
    #[default]
    Trees,
    /// Single entries, each as an entry of a tree: with [`JobOptions::update`] and
    /// [`JobOptions::resume`], and a symbolic link as [`JobOptions::links`] says. A directory is refused,
    /// and so are FIFOs and devices without [`JobOptions::specials`].
    Entries,
    /// Single files, one after the other, each as [`copy_file`](crate::copy_file) copies it: a symbolic
    /// link is followed, a directory is refused, and FIFOs and devices are read as
    /// [`JobOptions::copy`] says. Options of trees are refused; [`JobOptions::jobs`] and
    /// [`JobOptions::links_in_memory`] have no effect, and on Linux [`JobOptions::retries`] has none.
    Files,
}

/// Directories of a source's path that its copy keeps. Unless they are omitted, the destination of each pair is an
/// existing directory, and missing directories below it are made with the permissions of those in the source's path.
/// [`CopyOptions::preserve`] holds for them too, whether they are new or not, but not for the destination of the pair,
/// unless a source stands for it (`.` or the directory of `KeepBelow`). A symbolic link is followed in the path
/// of the source, and never below the destination. For a source that does not exist none is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Parents {
    /// None: each source becomes its destination.
    #[default]
    Omit,
    /// All: `a/b/c` and `/a/b/c` become `a/b/c` below the destination, and `../c` becomes `../c` there.
    Keep,
    /// Those below this directory, in which every source lies. A source with `..` below it is refused. With
    /// [`Sources::Entries`] a directory is made without its contents.
    KeepBelow(PathBuf),
}

/// Comparison that shows that a file of the destination is unchanged. Links and special files have no contents to compare:
/// they are made anew, or treated as [`JobOptions::update`] says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compare {
    /// Its time of modification, with [`JobOptions::update`]; without that nothing shows it.
    #[default]
    Times,
    /// Its size, whatever its times are.
    Size,
    /// Its size and its bytes, whatever its times are. Both files are read
    /// ([`Summary::compared_bytes`](super::Summary::compared_bytes)).
    Contents,
}

/// Earlier copies whose unchanged files get further names.
///
/// A regular file is unchanged if that of its path in the earlier copy is as long and has the same time of
/// modification, or is the same by [`JobOptions::compare`], and has the metadata that
/// [`CopyOptions::preserve`] asks for. No symbolic link below the directory is followed. The file that was
/// examined is the one that is linked, whatever its name refers to by then. Where the filesystem refuses the link,
/// a copy is made, with a [`Note::NotLinked`](uncopy_core::Note::NotLinked).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkDest {
    /// The directories, of which the first that has the file unchanged is used. A relative path begins at the
    /// directory that is copied to. One that does not exist has no files.
    pub directories: Vec<PathBuf>,
    /// Whether each is like the directory that the destinations are in, and has the copies of the roots under
    /// the same names. Otherwise each is an earlier copy of the root. Always so for roots that are no directories.
    pub holds_roots: bool,
    /// Directory that the others must lie in, an absolute path without links. One that lies elsewhere counts as one that does
    /// not exist, so that nobody learns what is there.
    pub within: Option<PathBuf>,
}

impl LinkDest {
    /// Makes an empty list.
    #[must_use]
    pub fn new() -> LinkDest {
        LinkDest::default()
    }

    /// Whether a directory lies where the directories must.
    #[must_use]
    pub fn is_within(&self, directory: &Path) -> bool {
        self.within.as_ref().is_none_or(|within| {
            directory.canonicalize().is_ok_and(|directory| directory.starts_with(within))
        })
    }

    /// Returns the path of one of the directories for copies to the directory `base`, which need not exist yet:
    /// it will be no symbolic link then.
    #[must_use]
    pub fn path(directory: &Path, base: &Path) -> PathBuf {
        let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
        match directory.strip_prefix("..") {
            Ok(rest) if !base.exists() => base.parent().unwrap_or(base).join(rest),
            _ => base.join(directory),
        }
    }
}

/// Treatment of symbolic links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Links {
    /// Recreates links as they are.
    #[default]
    Preserve,
    /// Copies what links lead to, if it lies in the tree.
    Follow,
    /// Leaves links out.
    Skip,
}

/// Treatment of a symbolic link that is the last name of a destination, where the source is a directory. A path that ends
/// in `/` or `.` names what the link leads to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DestinationLinks {
    /// The directory that it leads to is merged into: the caller named it.
    #[default]
    Follow,
    /// It is an error, also if it appears meanwhile: the name was made by a program, and whoever may write to its
    /// directory could have the copy go elsewhere.
    Refuse,
}

/// Treatment of files with several names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HardLinks {
    /// The names of one file become names of one file, over all sources.
    #[default]
    Keep,
    /// Each name becomes a file of its own.
    Separate,
}

/// How far removing from the destination goes. What a [`Selection`] leaves out is not removed, and
/// nothing is removed from a directory whose source could not be listed to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delete {
    /// Maximum number of entries removed; further ones are failures.
    pub most: Option<u64>,
    /// Delete also where the source's root is empty, which may be a filesystem that is not mounted.
    pub empty_source: bool,
}

/// Reaction to an entry that cannot be copied. Every failure is reported and counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnError {
    /// Stop the whole job where the destination refused what it would refuse the next entry too
    /// ([`is_lasting`](Error::is_lasting)); go on after any other error. A new tree that
    /// was being made keeps its temporary name ([`Summary::incomplete`](super::Summary::incomplete)).
    #[default]
    StopOnDestination,
    /// Go on.
    Skip,
    /// Stop the whole job with this error. A new tree that was being made is removed; what was
    /// merged into an existing one stays.
    Abort,
}

impl OnError {
    /// Whether this error of an entry ends the job.
    #[must_use]
    pub fn ends_job(self, error: &Error) -> bool {
        match self {
            OnError::StopOnDestination => error.is_lasting(),
            OnError::Skip => false,
            OnError::Abort => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uncopy_core::Errno;

    #[test]
    fn options_of_trees_are_refused_for_single_files() {
        let files = JobOptions::new().sources(Sources::Files);
        for options in [
            files.clone().links(Links::Skip),
            files.clone().follow_roots(true),
            files.clone().hard_links(HardLinks::Separate),
            files.clone().one_filesystem(true),
            files.clone().link(true),
            files.clone().follow_outside(true),
            files.clone().specials(true),
            files.clone().update(true),
            files.clone().compare(Compare::Size),
            files.clone().link_dest(LinkDest::new()),
            files.clone().remove_source(true),
            files.clone().delete(Delete::default()),
            files.clone().dry_run(true),
            files.clone().parents(Parents::Keep),
            files.clone().resume(true),
        ] {
            assert_eq!(options.check(), Err(Contradiction::TreeOptionOfFiles), "{options:?}");
        }
        let mut options = files;
        (options.copy.in_place, options.copy.copy_contents) = (true, true);
        assert_eq!(options.check(), Ok(()));
        assert!(options.sources(Sources::Trees).check().is_err());
    }

    #[test]
    fn whole_trees_have_no_parents() {
        let keeping = JobOptions::new().parents(Parents::Keep);
        assert_eq!(keeping.check(), Ok(()));
        assert_eq!(keeping.clone().sources(Sources::Entries).check(), Ok(()));
        for options in [keeping.clone().resume(true), keeping.delete(Delete::default())] {
            assert_eq!(options.check(), Err(Contradiction::ParentsOfPart), "{options:?}");
        }
    }

    #[test]
    fn links_and_backups_exclude_others() {
        let linking = JobOptions::new().link(true);
        assert_eq!(linking.check(), Ok(()));
        let digest = CopyOptions::new().verify(crate::Digest::Xxh3);
        for options in [
            linking.clone().resume(true),
            linking.clone().copy(digest),
            linking.clone().copy(CopyOptions::new().attributes_only(true)),
            linking.clone().copy(CopyOptions::new().owner(crate::Owner::new().user(0))),
        ] {
            assert_eq!(options.check(), Err(Contradiction::LinkCopiesNothing), "{options:?}");
        }
        let backup = CopyOptions::new().backup(crate::Backup::new());
        let mirror = JobOptions::new().copy(backup).delete(Delete::default());
        assert_eq!(mirror.check(), Err(Contradiction::BackupInMirror));
    }

    #[test]
    fn sources_are_removed_only_for_copies_that_stay() {
        let removing = JobOptions::new().remove_source(true);
        assert_eq!(removing.clone().update(true).resume(true).check(), Ok(()));
        assert_eq!(removing.clone().sources(Sources::Entries).check(), Ok(()));
        for options in [
            removing.clone().link(true),
            removing.clone().link_dest(LinkDest::new()),
            removing.clone().copy(CopyOptions::new().attributes_only(true)),
        ] {
            assert_eq!(options.check(), Err(Contradiction::RemovalNeedsCopies), "{options:?}");
        }
        let mirror = removing.delete(Delete::default());
        assert_eq!(mirror.check(), Err(Contradiction::RemovalInMirror));
    }

    #[test]
    fn earlier_copies_are_no_place_for_other_bytes() {
        let linking = JobOptions::new().link_dest(LinkDest::new());
        for options in [linking.clone(), linking.clone().sources(Sources::Entries)] {
            assert_eq!(options.compare(Compare::Contents).resume(true).check(), Ok(()));
        }
        for options in [
            linking.clone().link(true),
            linking.clone().copy(CopyOptions::new().attributes_only(true)),
            linking.clone().copy(CopyOptions::new().verify(crate::Digest::Xxh3)),
            linking.clone().copy(CopyOptions::new().digest(crate::Digest::Xxh3)),
        ] {
            let expected = Err(Contradiction::LinkDestCopiesNothing);
            assert_eq!(options.check(), expected, "{options:?}");
        }
    }

    #[test]
    fn earlier_copies_lie_beside_a_destination_that_does_not_exist() {
        let root = tempfile::tempdir().unwrap();
        let (there, missing) = (root.path().join("there"), root.path().join("missing"));
        std::fs::create_dir(&there).unwrap();
        for (directory, base, expected) in [
            ("../a", &there, there.join("../a")),
            ("../a", &missing, root.path().join("a")),
            ("../../a", &missing, root.path().join("../a")),
            ("a", &missing, missing.join("a")),
            ("/a", &missing, PathBuf::from("/a")),
            ("/a", &there, PathBuf::from("/a")),
        ] {
            assert_eq!(LinkDest::path(Path::new(directory), base), expected);
        }
        assert_eq!(LinkDest::path(Path::new("../a"), Path::new("missing")), Path::new("a"));
    }

    #[test]
    fn what_is_compared_must_be_what_a_copy_would_be() {
        for compare in [Compare::Size, Compare::Contents] {
            let comparing = JobOptions::new().compare(compare);
            for options in [comparing.clone(), comparing.clone().sources(Sources::Entries)] {
                assert_eq!(options.check(), Ok(()), "{options:?}");
                assert_eq!(options.update(true).resume(true).check(), Ok(()));
            }
            for options in [
                comparing.clone().link(true),
                comparing.clone().copy(CopyOptions::new().attributes_only(true)),
            ] {
                let expected = Err(Contradiction::ComparedWithOther);
                assert_eq!(options.check(), expected, "{options:?}");
            }
            let options = comparing.copy(CopyOptions::new().existing(Existing::Keep));
            assert_eq!(options.check(), Err(Contradiction::ComparedAndKept));
        }
    }

    #[test]
    fn entries_take_options_of_entries_alone() {
        let entries = JobOptions::new().sources(Sources::Entries);
        for options in [
            entries.clone().update(true).resume(true),
            entries.clone().links(Links::Follow).specials(true),
            entries.clone().hard_links(HardLinks::Separate),
        ] {
            assert_eq!(options.check(), Ok(()), "{options:?}");
        }
        let mut selection = Selection::default();
        selection.exclude("a").unwrap();
        for options in [
            entries.clone().one_filesystem(true),
            entries.clone().delete(Delete::default()),
            entries.clone().links(Links::Follow).follow_outside(true),
            entries.clone().selection(selection),
        ] {
            assert_eq!(options.check(), Err(Contradiction::TreeOptionOfEntries), "{options:?}");
        }
    }

    #[test]
    fn lasting_errors_of_the_destination_end_a_job() {
        use OnError::{Abort, Skip, StopOnDestination};
        let lasting = [Errno::ENOSPC, Errno::EDQUOT, Errno::EROFS, Errno::EFBIG, Errno::EIO]
            .map(|e| (e, true));
        let others =
            [Errno::EACCES, Errno::EEXIST, Errno::ENOENT, Errno::ENAMETOOLONG, Errno::ENOMEM];
        for (errno, lasts) in lasting.into_iter().chain(others.map(|e| (e, false))) {
            let of_destination = Error::destination("write to", "b", errno);
            let of_source = Error::system("read", "a", errno);
            assert_eq!(of_destination.is_lasting(), lasts, "{errno}");
            assert!(of_destination.is_at_destination() && !of_source.is_at_destination());
            for (error, expected) in [(of_destination, lasts), (of_source, false)] {
                let found = [StopOnDestination, Skip, Abort].map(|how| how.ends_job(&error));
                assert_eq!(found, [expected, false, true], "{error}");
            }
        }
    }
}
