//! Calls of macOS: `fclonefileat(2)`, `fcopyfile(3)`, `renamex_np(2)`, `lseek(2)`.

use std::ffi::{CString, c_int, c_void};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::darwin::fs::{FileTimesExt, MetadataExt};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt as _, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::ptr;

use super::native::{Advance, CopyCalls, OnProgress, Placing, Reports};
use uncopy_core::System;

/// The calls of macOS.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemCalls;

/// Flags that are kept with extended attributes (chflags(2)): of the others some forbid to write or rename the file, and
/// some say how it is stored.
const KEPT_FLAGS: u32 = libc::UF_HIDDEN | libc::UF_NODUMP;

/// `CLONE_NOOWNERCOPY` (sys/clonefile.h): the clone belongs to the caller.
const CLONE_NOOWNERCOPY: u32 = 2;

impl CopyCalls for SystemCalls {
    fn system(&self) -> System {
        System::MacOs
    }

    fn clone_file(&self, source: &File, new: &Path) -> io::Result<()> {
        let new = text(new)?;
        // SAFETY: the descriptor is open while `source` is borrowed, and `new` ends with a zero.
        let result = unsafe {
            libc::fclonefileat(source.as_raw_fd(), libc::AT_FDCWD, new.as_ptr(), CLONE_NOOWNERCOPY)
        };
        done(result)
    }

    fn copy_into(
        &self,
        source: &File,
        destination: &File,
        keeps_holes: bool,
        progress: OnProgress<'_>,
    ) -> io::Result<u64> {
        let state = CopyState::new()?;
        let mut reports = Reports::new(progress);
        let flags = match keeps_holes {
            true => libc::COPYFILE_DATA_SPARSE,
            false => libc::COPYFILE_DATA,
        };
        state.set(libc::COPYFILE_STATE_STATUS_CB, report as *const c_void)?;
        state.set(libc::COPYFILE_STATE_STATUS_CTX, ptr::from_mut(&mut reports).cast())?;
        // SAFETY: both descriptors are open while the files are borrowed, `state` is valid, and its context
        // outlives the call.
        let result =
            unsafe { libc::fcopyfile(source.as_raw_fd(), destination.as_raw_fd(), state.0, flags) };
        let result = done(result);
        // Whatever the call makes of it.
        if reports.finish() {
            return Err(io::Error::from_raw_os_error(libc::ECANCELED));
        }
        result.and_then(|()| state.copied())
    }

    fn data_ranges(&self, source: &File, bytes: u64) -> io::Result<Vec<Range<u64>>> {
        let seek = |from: u64, whence: c_int| -> io::Result<Option<u64>> {
            let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
            // SAFETY: the descriptor is open while `source` is borrowed.
            let found = unsafe { libc::lseek(source.as_raw_fd(), from, whence) };
            if found >= 0 {
                return Ok(u64::try_from(found).ok());
            }
            match io::Error::last_os_error() {
                // No data behind this offset.
                error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
                error => Err(error),
            }
        };
        let (mut ranges, mut at) = (Vec::new(), 0);
        while at < bytes {
            let Some(start) = seek(at, libc::SEEK_DATA)? else { break };
            let end = seek(start, libc::SEEK_HOLE)?.unwrap_or(bytes).min(bytes);
            if end <= start {
                break;
            }
            ranges.push(start..end);
            at = end;
        }
        Ok(ranges)
    }

    fn set_times(&self, file: &File, from: &Metadata) -> io::Result<()> {
        let times = super::native::access_and_modification(from)?;
        // Not every filesystem has a time of creation.
        file.set_times(from.created().map_or(times, |created| times.set_created(created)))
    }

    fn copy_attributes(&self, source: &File, copy: &File) -> io::Result<()> {
        copy_parts(source, copy, libc::COPYFILE_XATTR)?;
        let (wanted, now) = (source.metadata()?.st_flags(), copy.metadata()?.st_flags());
        let flags = now & !KEPT_FLAGS | wanted & KEPT_FLAGS;
        if flags == now {
            return Ok(());
        }
        // SAFETY: the descriptor is open while `copy` is borrowed.
        done(unsafe { libc::fchflags(copy.as_raw_fd(), flags) })
    }

    fn copy_acl(&self, source: &File, copy: &File) -> io::Result<()> {
        copy_parts(source, copy, libc::COPYFILE_ACL)
    }

    fn make_special(&self, source: &Metadata, new: &Path) -> io::Result<()> {
        let kind = source.file_type();
        if kind.is_socket() {
            // mknod(2) makes none; one that is closed stays.
            return UnixListener::bind(new).map(drop);
        }
        let mode = libc::mode_t::try_from(source.mode()).map_err(io::Error::other)?;
        let (new, permissions) = (text(new)?, mode & 0o777);
        if kind.is_fifo() {
            // SAFETY: the path ends with a zero.
            return done(unsafe { libc::mkfifo(new.as_ptr(), permissions) });
        }
        let device = libc::dev_t::try_from(source.rdev()).map_err(io::Error::other)?;
        // SAFETY: the path ends with a zero.
        done(unsafe { libc::mknod(new.as_ptr(), mode & libc::S_IFMT | permissions, device) })
    }

    /// The link itself is opened, so that nothing else is given away.
    fn set_owner_of_link(
        &self,
        link: &Path,
        user: Option<u32>,
        group: Option<u32>,
    ) -> io::Result<()> {
        let link = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_SYMLINK | libc::O_NONBLOCK)
            .open(link)?;
        match link.metadata()?.is_symlink() {
            true => self.set_owner(&link, user, group),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_own(&self, metadata: &Metadata) -> bool {
        // SAFETY: it reads no memory and cannot fail.
        metadata.uid() == unsafe { libc::geteuid() }
    }

    fn place(
        &self,
        placing: Placing,
        _file: &File,
        temporary: &Path,
        destination: &Path,
        _replaces: bool,
    ) -> io::Result<()> {
        match placing {
            Placing::ExclusiveRename => self.rename_to_free(temporary, destination),
            _ => super::native::place(placing, temporary, destination),
        }
    }

    fn rename_to_free(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (text(from)?, text(to)?);
        // SAFETY: both paths end with a zero.
        done(unsafe { libc::renamex_np(from.as_ptr(), to.as_ptr(), libc::RENAME_EXCL) })
    }
}

/// Copies parts of the metadata between open files.
fn copy_parts(source: &File, copy: &File, parts: libc::copyfile_flags_t) -> io::Result<()> {
    let (from, to) = (source.as_raw_fd(), copy.as_raw_fd());
    // SAFETY: both descriptors are open while the files are borrowed; without a state the call makes its own.
    done(unsafe { libc::fcopyfile(from, to, ptr::null_mut(), parts) })
}

fn text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn done(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A `copyfile_state_t`.
struct CopyState(libc::copyfile_state_t);

impl CopyState {
    fn new() -> io::Result<CopyState> {
        // SAFETY: it has no arguments.
        let state = unsafe { libc::copyfile_state_alloc() };
        if state.is_null() { Err(io::Error::last_os_error()) } else { Ok(CopyState(state)) }
    }

    fn set(&self, key: c_int, value: *const c_void) -> io::Result<()> {
        // SAFETY: the state is valid; the callers give each key a value of its type, which lives as long as calls
        // use it.
        done(unsafe { libc::copyfile_state_set(self.0, key.unsigned_abs(), value) })
    }

    /// Bytes copied so far.
    fn copied(&self) -> io::Result<u64> {
        let mut copied: libc::off_t = 0;
        let to = ptr::from_mut(&mut copied).cast();
        let key = libc::COPYFILE_STATE_COPIED.unsigned_abs();
        // SAFETY: the state is valid, and this key writes an `off_t`.
        done(unsafe { libc::copyfile_state_get(self.0, key, to) })?;
        Ok(u64::try_from(copied).unwrap_or(0))
    }
}

impl Drop for CopyState {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `copyfile_state_alloc`, and is freed once.
        unsafe { libc::copyfile_state_free(self.0) };
    }
}

/// The status callback (copyfile(3)).
extern "C" fn report(
    what: c_int,
    stage: c_int,
    state: libc::copyfile_state_t,
    _source: *const std::ffi::c_char,
    _destination: *const std::ffi::c_char,
    context: *mut c_void,
) -> c_int {
    if what != libc::COPYFILE_COPY_DATA {
        return libc::COPYFILE_CONTINUE;
    }
    if stage == libc::COPYFILE_ERR {
        return libc::COPYFILE_QUIT;
    }
    let mut copied: libc::off_t = 0;
    let to = ptr::from_mut(&mut copied).cast();
    // SAFETY: the state is that of the running call, and this key writes an `off_t`.
    unsafe { libc::copyfile_state_get(state, libc::COPYFILE_STATE_COPIED.unsigned_abs(), to) };
    // SAFETY: `copy_into` passed this pointer, lives until the call returns, and uses it in no other way meanwhile.
    let reports = unsafe { &mut *context.cast::<Reports<'_>>() };
    match reports.report(u64::try_from(copied).unwrap_or(0)) {
        Advance::Continue => libc::COPYFILE_CONTINUE,
        Advance::Stop => libc::COPYFILE_QUIT,
    }
}
