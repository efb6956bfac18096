//! The source of a copy: opens it, looks up its status, and detects changes while it is copied.

use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};

use super::display_path::DisplayPath;
use super::options::{CopyOptions, IfChanged};
use super::peer_file::PeerFile;
use super::retries::Flushes;
use super::source_file::SourceFile;
use super::watch::{self, Begin, Watch};
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_core::{MappedWrites, Unseen};
use uncopy_os::capabilities::Filesystem;
use uncopy_os::file::{self, CachedPages, Stat};
use uncopy_os::follow::{self, FollowError};
use uncopy_os::{Sys, inherit, mapping};

/// An open source, with its status at the time it was opened.
pub(crate) struct Source<'a> {
    pub(crate) path: DisplayPath<'a>,
    pub(crate) file: SourceFile,
    pub(crate) stat: Stat,
    pub(crate) filesystem: Filesystem,
    /// Whether its bytes can be read only once: it has no position to read again from.
    pub(crate) is_stream: bool,
    /// Whether it is opened for a forecast, which leaves the time of its last access as it is.
    pub(crate) is_foreseen: bool,
    watched: Watched<'a>,
}

/// Reaction to a source that changes, and what was seen so far.
struct Watched<'a> {
    if_changed: IfChanged,
    may_flush: bool,
    /// Whether its extended attributes are asked for.
    wants_attributes: bool,
    flushes: Option<&'a Cell<Flushes>>,
    /// Status when it was flushed, if it was.
    settled: OnceCell<Stat>,
    watch: Cell<Watch>,
    /// When the last look was, and how long it took.
    last: Cell<Option<(Instant, Duration)>>,
}

impl Default for Watched<'_> {
    fn default() -> Self {
        Watched {
            if_changed: IfChanged::default(),
            may_flush: false,
            wants_attributes: false,
            flushes: None,
            settled: OnceCell::new(),
            watch: Cell::new(Watch::Blind(Unseen::NotLooked)),
            last: Cell::default(),
        }
    }
}

impl<'a> Source<'a> {
    /// Returns its status by which it is known if it is among the files of this machine.
    pub(crate) fn stat_here(&self) -> Stat {
        self.file.stat_here(&self.stat)
    }

    /// Opens a regular file; with [`CopyOptions::read_streams`] also a FIFO or an open descriptor of
    /// this process, and with [`CopyOptions::copy_contents`] anything that can be read.
    pub(crate) fn open(path: &'a Path, options: &CopyOptions) -> Result<Source<'a>> {
        if options.read_streams
            && let Some(number) = own_descriptor(path)
            && let Some(source) = Source::inherited(path, number)?
        {
            return Ok(source);
        }
        let fail = |stopped: FollowError| stopped.error("open", path);
        // O_NONBLOCK: a FIFO without a writer must not make the copy hang before it is refused.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = match follow::open(path, flags) {
            Err(FollowError::System(Errno::ENXIO)) => return Err(refuse(path, FileType::Socket)),
            // Another process holds a lease: wait for it (fcntl(2), F_SETLEASE).
            Err(FollowError::System(Errno::EAGAIN)) => {
                follow::open(path, OFlags::RDONLY | OFlags::NOCTTY)
            }
            other => other,
        }
        .map_err(fail)?;
        let stat = file::stat(&fd).map_err(|e| Error::system("examine", path, e))?;
        let kind = stat.file_type();
        let is_asked_for = match kind {
            FileType::RegularFile => true,
            FileType::Directory => false,
            FileType::Fifo => options.read_streams || options.copy_contents,
            _ => options.copy_contents,
        };
        if !is_asked_for {
            return Err(refuse(path, kind));
        }
        if kind != FileType::RegularFile {
            file::set_blocking(&fd).map_err(|errno| fail(errno.into()))?;
        }
        let is_stream = matches!(kind, FileType::Fifo | FileType::CharacterDevice);
        let magic = file::filesystem_magic(&fd).unwrap_or(0);
        let (path, filesystem) = (DisplayPath::Path(path), Filesystem::from_magic(magic));
        let (file, watched) = (SourceFile::Here(fd), Watched::default());
        Ok(Source { path, file, stat, filesystem, is_stream, is_foreseen: false, watched })
    }

    /// Opens the target of a descriptor of this process at its current position. Returns `None` if
    /// it is a file that can be opened at its beginning, or no descriptor at all.
    ///
    /// Duplicates the descriptor, because sockets cannot be opened, and pipes and terminals of
    /// another user only by that user (`proc_pid_fd(5)`). The duplicate shares its flags with the
    /// original, so they are not changed.
    fn inherited(path: &'a Path, number: RawFd) -> Result<Option<Source<'a>>> {
        let Ok(fd) = inherit::duplicate(number) else { return Ok(None) };
        let mut stat = file::stat(&fd).map_err(|e| Error::system("examine", path, e))?;
        match stat.file_type() {
            FileType::RegularFile | FileType::Directory => return Ok(None),
            FileType::Socket if !file::is_stream_socket(&fd) => {
                return Err(Error::new("copy", path, Reason::Refused(Objection::MessageSocket)));
            }
            // Every socket has mode 0777 (`sock_alloc` in net/socket.c), which would be wrong for a
            // file.
            FileType::Socket => stat.mode &= !0o111,
            FileType::Unknown | FileType::Symlink => {
                return Err(refuse(path, stat.file_type()));
            }
            _ => {}
        }
        let (path, filesystem) = (DisplayPath::Path(path), Filesystem::from_magic(0));
        Ok(Some(Source {
            path,
            file: SourceFile::Here(fd),
            stat,
            filesystem,
            is_stream: true,
            is_foreseen: false,
            watched: Watched::default(),
        }))
    }

    /// A regular file that was opened in its directory, with its status at that time.
    pub(crate) fn opened(
        path: DisplayPath<'a>,
        file: SourceFile,
        stat: Stat,
        filesystem: Filesystem,
    ) -> Source<'a> {
        let (is_stream, is_foreseen, watched) = (false, false, Watched::default());
        Source { path, file, stat, filesystem, is_stream, is_foreseen, watched }
    }

    /// The same with these options for what happens if it changes. Flushes are added to `flushes`.
    pub(crate) fn watched(
        mut self,
        options: &CopyOptions,
        flushes: &'a Cell<Flushes>,
    ) -> Source<'a> {
        self.watched.if_changed = options.if_changed;
        self.watched.may_flush = watch::may_flush(options);
        self.watched.wants_attributes = options.preserve.xattr || options.preserve.acl;
        self.watched.flushes = Some(flushes);
        self
    }

    /// Returns the parameters of [`Source::opened`].
    pub(crate) fn into_opened(self) -> (SourceFile, Stat) {
        (self.file, self.stat)
    }

    /// Returns its descriptor, if it is on this machine.
    pub(crate) fn here(&self) -> Option<BorrowedFd<'_>> {
        self.file.here()
    }

    /// Returns the file, if it is on another machine.
    pub(crate) fn there(&self) -> Option<&PeerFile> {
        self.file.there()
    }

    /// Returns its descriptor, for what is done with files of this machine alone.
    ///
    /// # Errors
    /// It is on another machine.
    pub(crate) fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.file.fd().map_err(|errno| Error::system("open", self.path, errno))
    }

    /// Fails if the other machine was lost, so that what could not be asked is not taken for an answer.
    pub(crate) fn check_connected(&self) -> Result<()> {
        self.there().and_then(|file| file.link().lost()).map_or(Ok(()), Err)
    }

    /// Returns how many bytes from `offset` on are in the page cache. `None`: the kernel does not say. `cachestat(2)` looks at
    /// the file of an overlay, which has no pages: those of the file below are counted through a mapping.
    pub(crate) fn cached_bytes(&self, offset: u64, length: u64) -> Option<u64> {
        let fd = self.here()?;
        if self.filesystem != Filesystem::OVERLAYFS {
            return file::cached_bytes(fd, offset, length).ok();
        }
        let begin = offset - offset % rustix::param::page_size() as u64;
        let end = offset.saturating_add(length).min(self.stat.size);
        self.resident_bytes(begin..end)
    }

    /// Returns how many bytes of a range, which begins with a page, are in the page cache, through a mapping. `None`: the
    /// kernel does not say, or to map the file would change the access time in a forecast.
    pub(crate) fn resident_bytes(&self, range: Range<u64>) -> Option<u64> {
        let fd = self.here()?;
        let may_map = range.is_empty() || !self.is_foreseen || self.keeps_access_time();
        may_map.then(|| mapping::resident_bytes(fd, range).ok()).flatten()
    }

    /// Whether from now on reads and mappings of this regular file leave the time of its last access as it is. Streams are
    /// not asked: their flags may be shared with other processes.
    pub(crate) fn keeps_access_time(&self) -> bool {
        let file = self.here().filter(|_| self.stat.file_type() == FileType::RegularFile);
        file.is_some_and(|fd| file::keep_access_time(fd).is_ok())
    }

    /// Bytes to copy; `None` if only reading to the end shows it.
    pub(crate) fn size(&self) -> Option<u64> {
        (self.has_reliable_size() && self.stat.size > 0).then_some(self.stat.size)
    }

    /// Whether size and times are reliable: it is a regular file whose contents are not generated
    /// on read.
    pub(crate) fn has_reliable_size(&self) -> bool {
        self.stat.file_type() == FileType::RegularFile && !self.filesystem.is_pseudo()
    }

    /// Status immediately before the first byte is read.
    pub(crate) fn as_begun(&self) -> &Stat {
        self.watched.settled.get().unwrap_or(&self.stat)
    }

    /// Checks for the first time whether a process stores into the source through a mapping, and
    /// flushes it before if requested. It runs immediately before the first byte is read: a page
    /// that was faulted in for writing when [`Source::stat`] was looked up is dirty by now.
    pub(crate) fn settle(&self) -> Result<()> {
        let own = Cell::default();
        let (watched, flushes) = (&self.watched, self.watched.flushes.unwrap_or(&own));
        // Only the kernel of its own machine sees them.
        let SourceFile::Here(fd) = &self.file else { return Ok(()) };
        if let Some(why) = watch::unseen(&self.stat, self.filesystem) {
            watched.watch.set(Watch::Blind(why));
            return Ok(());
        }
        if self.stat.size == 0 {
            // A file without pages has nothing to store into.
            watched.watch.set(Watch::Clean { writing: 0 });
            return Ok(());
        }
        let (mut settled, mut tries) = (None, 0);
        loop {
            let made = flushes.get();
            let (watch, next) = Watch::begin(self.pages(fd), watched.may_flush, tries);
            watched.watch.set(watch);
            match next {
                Begin::Flush => {
                    let begin = Instant::now();
                    match self.flush(fd)? {
                        true => flushes.set(made.and(begin.elapsed())),
                        false => return Ok(()),
                    }
                    tries += 1;
                    settled = Some(self.examine()?);
                }
                Begin::Busy => {
                    flushes.set(Flushes { gave_up: true, ..made });
                    return Err(self.changed(format!("it has dirty pages after {tries} flushes")));
                }
                Begin::Go => break,
            }
        }
        if let Some(now) = settled {
            // The facts of the plan must still hold.
            if now.size != self.stat.size {
                return Err(self.changed(difference(&self.stat, &now).unwrap_or_default()));
            }
            let _ = watched.settled.set(now);
        }
        Ok(())
    }

    /// Opens a file of another machine, unless its contents came with the listing and nothing else is asked for. From
    /// now on its status is what it was when it was opened.
    pub(crate) fn open_there(&mut self) -> Result<()> {
        let SourceFile::There(file) = &mut self.file else { return Ok(()) };
        let lacks_attributes = self.watched.wants_attributes && !file.has_attributes();
        if file.contents().is_some() && !lacks_attributes {
            return Ok(());
        }
        let now = file.open().map_err(|errno| match errno {
            Errno::ELOOP => changed_kind(self.path, FileType::Symlink),
            errno => Error::system("open", self.path, errno),
        })?;
        let now = now.clone();
        if now.file_type() != FileType::RegularFile {
            return Err(changed_kind(self.path, now.file_type()));
        }
        if !now.is_same_file(&self.stat) || difference(&self.stat, &now).is_some() {
            file.forget_contents();
        }
        self.stat = now;
        Ok(())
    }

    /// Writes its dirty pages to the disk. Returns `false` if no system call for that is available.
    fn flush(&self, fd: &OwnedFd) -> Result<bool> {
        match file::write_out(fd, 0, 0, true) {
            Ok(()) => Ok(true),
            Err(Errno::ENOSYS | Errno::EPERM | Errno::EINVAL | Errno::EOPNOTSUPP) => Ok(false),
            Err(errno) => Err(Error::system("flush", self.path, errno)),
        }
    }

    /// Checks for such stores again between two pieces, if that is worth the call. Fails if one was
    /// seen.
    pub(crate) fn look(&self) -> Result<()> {
        let is_due = |(at, took): (Instant, _)| watch::is_due(at.elapsed(), took);
        if self.watched.watch.get().is_open() && self.watched.last.get().is_none_or(is_due) {
            self.look_now();
            let accepts = self.watched.if_changed == IfChanged::Accept;
            if self.watched.watch.get() == Watch::Seen && !accepts {
                return Err(self.changed(STORED_INTO.into()));
            }
        }
        Ok(())
    }

    fn look_now(&self) {
        let watch = self.watched.watch.get();
        if let SourceFile::Here(fd) = &self.file
            && watch.is_open()
        {
            self.watched.watch.set(watch.look(self.pages(fd)));
        }
    }

    fn pages(&self, fd: &OwnedFd) -> Sys<CachedPages> {
        let begin = Instant::now();
        let pages = file::cached_pages(fd, 0, 0);
        self.watched.last.set(Some((Instant::now(), begin.elapsed())));
        pages
    }

    fn examine(&self) -> Result<Stat> {
        self.file.examine().map_err(|e| Error::system("examine", self.path, e))
    }

    fn changed(&self, what: String) -> Error {
        Error::new("copy", self.path, Reason::SourceChanged { what })
    }

    /// Stores through a mapping that were detected.
    pub(crate) fn mapped_writes(&self) -> MappedWrites {
        self.watched.watch.get().verdict()
    }

    /// Describes how the source differs from its status when the copy began; `None` for files that
    /// change by being read.
    ///
    /// Kernels before 6.13 stamp times by the tick: two writes within 4 ms (1 ms to 10 ms) that
    /// leave the size alone may look like one.
    pub(crate) fn change(&self) -> Sys<Option<String>> {
        // Contents that came with a listing were checked by the other machine.
        if !self.has_reliable_size() || self.there().is_some_and(|file| file.contents().is_some()) {
            return Ok(None);
        }
        self.look_now();
        let times = difference(self.as_begun(), &self.file.examine()?);
        let stores = (self.watched.watch.get() == Watch::Seen).then(|| STORED_INTO.to_owned());
        let is_other = self.there().map_or(Ok(false), PeerFile::has_changed)?;
        let contents = is_other.then(|| "contents".to_owned());
        let what: Vec<String> = times.into_iter().chain(stores).chain(contents).collect();
        Ok((!what.is_empty()).then(|| what.join(", ")))
    }
}

/// The number of this process's descriptor that a path stands for (`proc_pid_fd(5)`).
fn own_descriptor(path: &Path) -> Option<RawFd> {
    if path == Path::new("/dev/stdin") {
        return Some(0);
    }
    let places = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];
    let number = places.iter().find_map(|place| path.strip_prefix(place).ok())?.to_str()?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().ok()).flatten()
}

/// Description of stores through a mapping.
const STORED_INTO: &str = "pages in memory";

/// Description of a store into a file that was clean when it was read.
pub(crate) fn stored_into(path: impl AsRef<Path>) -> Error {
    Error::new("copy", path, Reason::SourceChanged { what: STORED_INTO.into() })
}

/// Describes how a file was written to between two looks at it.
///
/// A name added or removed, for example when another file is renamed over it, also sets ctime. It
/// is no sign of changed contents: a write changes the mtime too (`inode(7)`).
pub(crate) fn difference(before: &Stat, now: &Stat) -> Option<String> {
    let mut what = Vec::new();
    if now.size != before.size {
        what.push(format!("size {} to {} bytes", before.size, now.size));
    }
    if now.modified != before.modified {
        what.push("mtime".into());
    }
    if now.changed != before.changed && now.links == before.links {
        what.push("ctime".into());
    }
    (!what.is_empty()).then(|| what.join(", "))
}

/// Refuses an entry whose kind differs from the listed one.
pub(crate) fn changed_kind(path: impl AsRef<Path>, found: FileType) -> Error {
    Error::new("copy", path, Reason::Refused(Objection::KindChanged { kind: found.into() }))
}

/// Refuses a source of a kind that is not copied.
pub(crate) fn refuse(path: &Path, kind: FileType) -> Error {
    Error::new("copy", path, Reason::NotRegular { kind: kind.into() })
}

/// Refuses a special file as an entry without contents.
#[cfg(feature = "trees")]
pub(crate) fn refuse_entry(path: &Path, kind: FileType) -> Error {
    let reason = match kind {
        FileType::Directory => return refuse(path, kind),
        kind => Reason::Refused(Objection::SpecialEntry { kind: kind.into() }),
    };
    Error::new("copy", path, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uncopy_os::file::Timestamp;

    #[test]
    fn a_name_more_or_less_is_no_change_of_contents() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before = file::stat(file.as_file()).unwrap();
        let later = Timestamp { seconds: before.changed.seconds + 1, nanoseconds: 0 };
        let with = |size, modified, changed, links| {
            let stat = Stat { size, modified, changed, links, ..before.clone() };
            difference(&before, &stat)
        };
        let (size, modified, changed) = (before.size, before.modified, before.changed);
        for (found, expected) in [
            (with(size, modified, changed, 1), None),
            (with(size, modified, later, 0), None),
            (with(size, modified, later, 2), None),
            (with(size, modified, later, 1), Some("ctime")),
            (with(size, later, later, 0), Some("mtime")),
            (with(size, later, later, 1), Some("mtime, ctime")),
            (with(size + 1, modified, later, 0), Some("size 0 to 1 bytes")),
        ] {
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn paths_of_own_descriptors_are_known_by_their_words() {
        for (path, expected) in [
            ("/dev/stdin", Some(0)),
            ("/dev//stdin", Some(0)),
            ("/dev/fd/0", Some(0)),
            ("/dev/fd/63", Some(63)),
            ("/proc/self/fd/11", Some(11)),
            ("/proc/thread-self/fd/3", Some(3)),
            ("/dev/fd", None),
            ("/dev/fd/", None),
            ("/dev/fd/x", None),
            ("/dev/fd/+3", None),
            ("/dev/fd/3/a", None),
            ("/dev/fd/99999999999", None),
            ("dev/stdin", None),
            ("/dev/stdout", None),
            ("/proc/1/fd/0", None),
            ("/dev/zero", None),
            ("", None),
        ] {
            assert_eq!(own_descriptor(Path::new(path)), expected, "{path}");
        }
    }
}
