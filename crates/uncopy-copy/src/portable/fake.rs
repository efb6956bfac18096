//! Plays the calls of other systems on Linux: each does its work on real files, and can fail, be short, or be the last
//! one before a crash.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, fchown, lchown};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use uncopy_core::System;
use uncopy_os::native::{Advance, CopyCalls, FileAttributes, OnProgress, Placing, unsupported};

/// Name of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Open,
    Create,
    OpenMade,
    OpenExisting,
    CloneFile,
    CopyInto,
    CopyToNew,
    AskShared,
    ShareBlocks,
    MakeSparse,
    Prepare,
    Read,
    Write,
    SetLength,
    CopyAttributes,
    CopyAcl,
    SetOwner,
    SetOwnerOfLink,
    SetOwnerOfName,
    MakeSpecial,
    SetPermissions,
    SetAttributes,
    SetTimes,
    Flush,
    FlushName,
    Place(Placing),
    HardLink,
    Rename,
    RenameToFree,
    Names,
    Remove,
    /// Calls of trees.
    List,
    MakeDirectory,
    OpenDirectory,
    MakeLink,
    MakeName,
    RenameEntry,
    RemoveDirectory,
    SetMode,
    SetDirectoryTimes,
    SetDirectoryAttributes,
    FlushDirectory,
    OpenToFlush,
}

/// Whether this user may give files away.
pub(super) fn is_root() -> bool {
    uncopy_os::file::effective_uid() == 0
}

/// Gives a name away, without following a link. For a user who is not root it does nothing.
fn lchown_as_root(name: &Path, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
    if is_root() { lchown(name, user, group) } else { Ok(()) }
}

/// The calls of a system, played.
pub(super) struct Fake {
    system: System,
    /// Calls that fail, with the system's number.
    failing: Vec<(Call, i32)>,
    /// Calls that fail, whichever of their name they are.
    always: Vec<(Call, i32)>,
    /// Length of a file that cannot be read from an offset on, and the number of the error.
    broken: Option<(u64, u64, i32)>,
    /// The one call among all of its name that fails, where not each does.
    nth: Option<usize>,
    /// Whether a flush finds a byte that the device has changed.
    spoils: bool,
    /// Most bytes of a read or write.
    most: usize,
    /// Size of the pieces that a call reports.
    piece: usize,
    /// Whether the extents of a file are shared, if the system says so.
    shares: Option<bool>,
    /// Name of an entry that cannot be read, and the number of the error.
    unreadable: Option<(&'static str, i32)>,
    /// Number of the user.
    user: u32,
    /// Number of calls after which the process is gone.
    crash_after: Option<usize>,
    made: RefCell<Vec<Call>>,
    /// Attributes of Windows by the number of the file.
    attributes: RefCell<HashMap<u64, FileAttributes>>,
    /// Bytes that were read of each file, by its number.
    read: RefCell<HashMap<u64, u64>>,
    is_crashed: Cell<bool>,
}

impl Fake {
    pub(super) fn new(system: System) -> Fake {
        Fake {
            system,
            failing: Vec::new(),
            always: Vec::new(),
            broken: None,
            nth: None,
            spoils: false,
            most: usize::MAX,
            piece: 64 << 10,
            shares: None,
            unreadable: None,
            user: rustix::process::geteuid().as_raw(),
            crash_after: None,
            made: RefCell::default(),
            attributes: RefCell::default(),
            read: RefCell::default(),
            is_crashed: Cell::new(false),
        }
    }

    /// Fails each call of this name, also where another one fails once.
    pub(super) fn fail_all(mut self, call: Call, code: i32) -> Fake {
        self.always.push((call, code));
        self
    }

    /// Has reads of a file of this length fail from an offset on.
    pub(super) fn unreadable_from(mut self, length: u64, offset: u64, code: i32) -> Fake {
        self.broken = Some((length, offset, code));
        self
    }

    pub(super) fn fail(mut self, call: Call, code: i32) -> Fake {
        self.failing.push((call, code));
        self
    }

    /// Says of each file whether all its extents are shared.
    pub(super) fn sharing(mut self, shares: bool) -> Fake {
        self.shares = Some(shares);
        self
    }

    /// Has an entry of this name be one that cannot be read.
    pub(super) fn unreadable(mut self, name: &'static str, code: i32) -> Fake {
        self.unreadable = Some((name, code));
        self
    }

    /// Fails for the entry that cannot be read.
    pub(super) fn read(&self, path: &Path) -> io::Result<()> {
        match self.unreadable {
            Some((name, code)) if path.file_name().is_some_and(|found| found == name) => {
                Err(io::Error::from_raw_os_error(code))
            }
            _ => Ok(()),
        }
    }

    /// Fails the call of this name and number alone.
    pub(super) fn fail_nth(mut self, call: Call, nth: usize, code: i32) -> Fake {
        self.nth = Some(nth);
        self.fail(call, code)
    }

    /// Changes a byte of each file that is flushed.
    pub(super) fn spoil(mut self) -> Fake {
        self.spoils = true;
        self
    }

    pub(super) fn short(mut self, most: usize) -> Fake {
        self.most = most;
        self
    }

    /// Has another user run it.
    pub(super) fn user(mut self, user: u32) -> Fake {
        self.user = user;
        self
    }

    pub(super) fn crash_after(mut self, calls: usize) -> Fake {
        self.crash_after = Some(calls);
        self
    }

    /// Number of bytes that were read of a file.
    pub(super) fn read_of(&self, path: &Path) -> u64 {
        let number = fs::metadata(path).unwrap().ino();
        self.read.borrow().get(&number).copied().unwrap_or_default()
    }

    /// Returns the same system, with its files, after a crash.
    pub(super) fn again(self) -> Fake {
        Fake { attributes: self.attributes, ..Fake::new(self.system) }
    }

    /// Calls made so far.
    pub(super) fn made(&self) -> Vec<Call> {
        self.made.borrow().clone()
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.is_crashed.get()
    }

    pub(super) fn call<T>(
        &self,
        call: Call,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if self.crash_after.is_some_and(|calls| self.made.borrow().len() >= calls) {
            self.is_crashed.set(true);
        }
        if self.is_crashed.get() {
            return Err(io::Error::other("the process is gone"));
        }
        let before = self.made.borrow().iter().filter(|made| **made == call).count();
        self.made.borrow_mut().push(call);
        let fails = self.nth.is_none_or(|nth| nth == before);
        let failing = self.failing.iter().filter(|_| fails).chain(&self.always);
        match failing.into_iter().find(|(failing, _)| *failing == call) {
            Some((_, code)) => Err(io::Error::from_raw_os_error(*code)),
            None => work(),
        }
    }

    /// Gives whatever has a name attributes of Windows.
    pub(super) fn give(&self, path: &Path, attributes: FileAttributes) {
        let number = fs::symlink_metadata(path).unwrap().ino();
        self.attributes.borrow_mut().insert(number, attributes);
    }

    /// Attributes of Windows that whatever has a name has.
    pub(super) fn given(&self, path: &Path) -> FileAttributes {
        self.attributes_of(&fs::symlink_metadata(path).unwrap())
    }

    fn attributes_of(&self, found: &Metadata) -> FileAttributes {
        let by_itself =
            if found.is_dir() { FileAttributes::default() } else { FileAttributes::ARCHIVE };
        self.attributes.borrow().get(&found.ino()).copied().unwrap_or(by_itself)
    }

    /// Notes the attributes of a file or directory, whose number another one may have had.
    pub(super) fn set_attributes_of(&self, found: &Metadata, attributes: FileAttributes) {
        self.attributes.borrow_mut().insert(found.ino(), attributes);
    }

    fn is(&self, system: System) -> io::Result<()> {
        if self.system == system { Ok(()) } else { unsupported() }
    }

    /// The number of the system for a name that is taken.
    fn taken(&self, error: io::Error) -> io::Error {
        match (error.kind(), self.system) {
            (io::ErrorKind::AlreadyExists, System::Windows) => io::Error::from_raw_os_error(183),
            _ => error,
        }
    }

    fn copy_in_pieces(
        &self,
        source: &File,
        destination: &File,
        progress: OnProgress<'_>,
        stopped: i32,
    ) -> io::Result<u64> {
        let mut buffer = vec![0; self.piece];
        let mut at = 0;
        loop {
            let bytes = source.read_at(&mut buffer, at)?;
            if bytes == 0 {
                return Ok(at);
            }
            destination.write_all_at(&buffer[..bytes], at)?;
            at += bytes as u64;
            if progress(at) == Advance::Stop {
                return Err(io::Error::from_raw_os_error(stopped));
            }
        }
    }
}

impl CopyCalls for Fake {
    fn system(&self) -> System {
        self.system
    }

    fn open_source(&self, path: &Path) -> io::Result<File> {
        self.read(path)?;
        self.call(Call::Open, || File::open(path))
    }

    fn create(&self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        self.call(Call::Create, || {
            let file = options.open(path)?;
            self.set_attributes_of(&file.metadata()?, FileAttributes::ARCHIVE);
            Ok(file)
        })
    }

    fn open_made(&self, path: &Path) -> io::Result<File> {
        self.call(Call::OpenMade, || {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            let found = file.metadata()?;
            let bits = self.attributes_of(&found).bits() & !FileAttributes::READ_ONLY.bits();
            self.set_attributes_of(&found, FileAttributes::from_bits(bits));
            Ok(file)
        })
    }

    fn open_existing(&self, path: &Path) -> io::Result<File> {
        self.call(Call::OpenExisting, || OpenOptions::new().read(true).write(true).open(path))
    }

    fn clone_file(&self, source: &File, new: &Path) -> io::Result<()> {
        self.is(System::MacOs)?;
        self.call(Call::CloneFile, || {
            let to = File::create_new(new)?;
            self.copy_in_pieces(source, &to, &mut |_| Advance::Continue, 0).map(drop)
        })
    }

    fn copy_into(
        &self,
        source: &File,
        destination: &File,
        keeps_holes: bool,
        progress: OnProgress<'_>,
    ) -> io::Result<u64> {
        self.is(System::MacOs)?;
        assert!(!keeps_holes || source.metadata()?.len() > 0, "COPYFILE_DATA_SPARSE of nothing");
        // ECANCELED
        self.call(Call::CopyInto, || self.copy_in_pieces(source, destination, progress, 89))
    }

    fn copy_to_new(&self, source: &Path, new: &Path, progress: OnProgress<'_>) -> io::Result<u64> {
        self.is(System::Windows)?;
        self.call(Call::CopyToNew, || {
            let (from, to) = (File::open(source)?, File::create_new(new)?);
            self.set_attributes_of(&to.metadata()?, self.attributes_of(&from.metadata()?));
            // ERROR_REQUEST_ABORTED
            let copied = self.copy_in_pieces(&from, &to, progress, 1235);
            if copied.is_err() {
                fs::remove_file(new)?;
            }
            copied
        })
    }

    fn has_streams(&self, path: &Path) -> io::Result<bool> {
        Ok(self.system == System::Windows && path.extension().is_some_and(|end| end == "streams"))
    }

    fn shares_all_blocks(&self, _: &File) -> io::Result<bool> {
        self.is(System::Windows)?;
        self.call(Call::AskShared, || self.shares.map_or_else(unsupported, Ok))
    }

    fn share_blocks(&self, source: &File, destination: &File, range: Range<u64>) -> io::Result<()> {
        self.is(System::Windows)?;
        self.call(Call::ShareBlocks, || {
            let length = destination.metadata()?.len();
            let end = range.end.min(length);
            let mut bytes = vec![0; usize::try_from(end - range.start).unwrap()];
            source.read_exact_at(&mut bytes, range.start)?;
            destination.write_all_at(&bytes, range.start)
        })
    }

    fn cluster_bytes(&self, _: &Path) -> io::Result<u64> {
        self.is(System::Windows).map(|()| 4096)
    }

    fn match_integrity(&self, _: &File, _: &File) -> io::Result<()> {
        self.is(System::Windows)?;
        self.call(Call::Prepare, || Ok(()))
    }

    fn is_own(&self, metadata: &Metadata) -> bool {
        metadata.uid() == self.user
    }

    fn make_sparse(&self, _: &File) -> io::Result<()> {
        self.call(Call::MakeSparse, || Ok(()))
    }

    fn data_ranges(&self, source: &File, bytes: u64) -> io::Result<Vec<Range<u64>>> {
        // Pages that are not all zeros.
        let mut ranges = Vec::new();
        let mut page = [0; 4096];
        for at in (0..bytes).step_by(page.len()) {
            let read = source.read_at(&mut page, at)?;
            if page[..read].iter().any(|byte| *byte != 0) {
                ranges.push(at..(at + read as u64));
            }
        }
        Ok(ranges)
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let most = buffer.len().min(self.most);
        self.call(Call::Read, || {
            if let Some((length, from, code)) = self.broken
                && offset >= from
                && file.metadata()?.len() == length
            {
                return Err(io::Error::from_raw_os_error(code));
            }
            let bytes = file.read_at(&mut buffer[..most], offset)?;
            *self.read.borrow_mut().entry(file.metadata()?.ino()).or_default() += bytes as u64;
            Ok(bytes)
        })
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let most = bytes.len().min(self.most);
        self.call(Call::Write, || file.write_at(&bytes[..most], offset))
    }

    fn set_length(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.call(Call::SetLength, || file.set_len(bytes))
    }

    /// For a user who is not root it does nothing.
    fn set_owner(&self, file: &File, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
        self.call(Call::SetOwner, || if is_root() { fchown(file, user, group) } else { Ok(()) })
    }

    fn make_special(&self, source: &Metadata, new: &Path) -> io::Result<()> {
        self.is(System::MacOs)?;
        self.call(Call::MakeSpecial, || {
            let kind = FileType::from_raw_mode(source.mode());
            let mode = Mode::from_raw_mode(source.mode() & 0o777);
            mknodat(CWD, new, kind, mode, source.rdev()).map_err(io::Error::from)
        })
    }

    fn set_owner_of_name(
        &self,
        name: &Path,
        user: Option<u32>,
        group: Option<u32>,
    ) -> io::Result<()> {
        self.call(Call::SetOwnerOfName, || lchown_as_root(name, user, group))
    }

    fn set_owner_of_link(
        &self,
        link: &Path,
        user: Option<u32>,
        group: Option<u32>,
    ) -> io::Result<()> {
        self.is(System::MacOs)?;
        self.call(Call::SetOwnerOfLink, || lchown_as_root(link, user, group))
    }

    fn copy_attributes(&self, _: &File, _: &File) -> io::Result<()> {
        self.is(System::MacOs)?;
        self.call(Call::CopyAttributes, || Ok(()))
    }

    fn copy_acl(&self, _: &File, _: &File) -> io::Result<()> {
        self.is(System::MacOs)?;
        self.call(Call::CopyAcl, || Ok(()))
    }

    fn set_permissions(&self, file: &File, permissions: Permissions) -> io::Result<()> {
        self.call(Call::SetPermissions, || file.set_permissions(permissions))
    }

    fn attributes(&self, metadata: &Metadata) -> Option<FileAttributes> {
        self.is(System::Windows).ok().map(|()| self.attributes_of(metadata))
    }

    fn set_attributes(&self, file: &File, attributes: FileAttributes) -> io::Result<()> {
        self.call(Call::SetAttributes, || {
            self.set_attributes_of(&file.metadata()?, attributes);
            Ok(())
        })
    }

    fn set_times(&self, file: &File, from: &Metadata) -> io::Result<()> {
        self.call(Call::SetTimes, || {
            let times = FileTimes::new().set_accessed(from.accessed()?);
            file.set_times(times.set_modified(from.modified()?))
        })
    }

    fn flush(&self, file: &File) -> io::Result<()> {
        self.call(Call::Flush, || match self.spoils {
            true => file.write_all_at(&[0], file.metadata()?.len() / 2),
            false => Ok(()),
        })
    }

    fn flush_name(&self, _: &File, directory: &Path) -> io::Result<()> {
        self.call(Call::FlushName, || fs::metadata(directory).map(drop))
    }

    fn place(
        &self,
        placing: Placing,
        _: &File,
        temporary: &Path,
        destination: &Path,
        replaces: bool,
    ) -> io::Result<()> {
        self.call(Call::Place(placing), || {
            let placed = match (placing, replaces) {
                (Placing::Link, _) => fs::hard_link(temporary, destination),
                (_, true) => fs::rename(temporary, destination),
                (_, false) => {
                    fs::hard_link(temporary, destination).and_then(|()| fs::remove_file(temporary))
                }
            };
            placed.map_err(|error| self.taken(error))
        })
    }

    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        self.call(Call::HardLink, || {
            fs::hard_link(original, link).map_err(|error| self.taken(error))
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Rename, || fs::rename(from, to))
    }

    fn rename_to_free(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::RenameToFree, || {
            let linked = fs::hard_link(from, to).and_then(|()| fs::remove_file(from));
            linked.map_err(|error| self.taken(error))
        })
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.call(Call::Names, || {
            fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Remove, || fs::remove_file(path))
    }
}
