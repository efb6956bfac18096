//! Calls on open files: metadata, size, extents, locks, flushing, page cache.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{self, PollFd, PollFlags};
use rustix::fs::{self, AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::net::{SocketType, sockopt};

pub use super::file_id::{FileId, Timestamp};
use super::{Sys, last_errno};
use uncopy_core::Errno;

/// Returns a path of `/proc` for an open file, independent of its name (proc_pid_fd(5)). It is valid while
/// the file is open.
pub fn path_of(handle: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", handle.as_raw_fd()).into()
}

/// Opens the file of a handle again, with other flags. Adds `O_CLOEXEC`.
pub fn reopen(handle: impl AsFd, flags: OFlags) -> Sys<OwnedFd> {
    Ok(fs::open(path_of(handle.as_fd()), flags | OFlags::CLOEXEC, Mode::empty())?)
}

/// Memory and offset alignment that `O_DIRECT` requires (`STATX_DIOALIGN`, Linux 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectAlign {
    pub memory: u32,
    pub offset: u32,
}

/// File metadata from `statx(2)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub device: (u32, u32),
    pub inode: u64,
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    /// Allocated space in units of 512 bytes, whatever the block size.
    pub blocks: u64,
    /// Device number of a device file.
    pub special: (u32, u32),
    pub accessed: Timestamp,
    pub modified: Timestamp,
    pub changed: Timestamp,
    /// Creation time, which no call can set (`STATX_BTIME`). `None` where the filesystem does not keep it.
    pub birth: Option<Timestamp>,
    /// Alignment for `O_DIRECT`; `None` where the file does not support it, or the kernel does not say.
    pub direct: Option<DirectAlign>,
    /// Whether something is mounted here, so that the name cannot be replaced (`EBUSY`).
    pub mount_root: bool,
    /// Whether the contents bypass the page cache (DAX), or the kernel does not say.
    pub may_be_dax: bool,
    /// Whether the file has an inode flag that `statx(2)` reports. [`inode_flags`] returns all flags.
    pub is_flagged: bool,
}

impl Stat {
    pub fn id(&self) -> FileId {
        FileId { inode: self.inode, birth: self.birth }
    }

    /// Whether both are the same inode of the same device.
    pub fn is_same_file(&self, other: &Stat) -> bool {
        self.device == other.device && self.inode == other.inode
    }

    /// Returns the file type bits.
    pub fn file_type(&self) -> fs::FileType {
        fs::FileType::from_raw_mode(self.mode)
    }

    /// Returns the permission bits with setuid, setgid and sticky.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }
}

/// Set-user-ID and set-group-ID bits of a mode (`inode(7)`).
pub const SETUID_SETGID: u32 = 0o6000;

/// Fields that are requested for every file.
pub(super) const FACTS: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Returns facts about an open file.
pub fn stat(fd: impl AsFd) -> Sys<Stat> {
    look_up(fd, "", AtFlags::EMPTY_PATH, FACTS | StatxFlags::DIOALIGN)
}

/// Returns the id of the mount that a file was opened through (`STATX_MNT_ID`, Linux 5.8). `None`: the kernel does not say.
pub fn mount_id(fd: impl AsFd) -> Option<u64> {
    let found = fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

/// Returns the inode number of an open file; for a socket the one of `/proc/PID/fd`.
pub fn inode(fd: impl AsFd) -> Sys<u64> {
    Ok(fs::fstat(fd)?.st_ino)
}

/// Returns facts about a name in a directory. Uses `newfstatat(2)` where a seccomp filter refuses `statx(2)`.
pub(super) fn look_up(
    directory: impl AsFd,
    name: impl rustix::path::Arg + Copy,
    flags: AtFlags,
    mask: StatxFlags,
) -> Sys<Stat> {
    match fs::statx(&directory, name, flags, mask) {
        // rustix maps a filter's EPERM to ENOSYS too.
        Err(rustix::io::Errno::NOSYS) => {
            let flags = flags.difference(AtFlags::STATX_FORCE_SYNC);
            Ok(stat_of_old(&fs::statat(directory, name, flags)?))
        }
        other => Ok(stat_of(&other?)),
    }
}

/// Converts the answer of `newfstatat(2)`, which lacks creation time, direct I/O and mounts.
fn stat_of_old(s: &fs::Stat) -> Stat {
    let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "widths differ by machine")]
    Stat {
        device: (fs::major(s.st_dev), fs::minor(s.st_dev)),
        inode: s.st_ino,
        mode: s.st_mode,
        links: s.st_nlink as u32,
        uid: s.st_uid,
        gid: s.st_gid,
        size: s.st_size as u64,
        blocks: s.st_blocks as u64,
        special: (fs::major(s.st_rdev), fs::minor(s.st_rdev)),
        accessed: time(s.st_atime, s.st_atime_nsec as u32),
        modified: time(s.st_mtime, s.st_mtime_nsec as u32),
        changed: time(s.st_ctime, s.st_ctime_nsec as u32),
        birth: None,
        direct: None,
        mount_root: false,
        may_be_dax: true,
        is_flagged: true,
    }
}

/// Converts the answer of `statx(2)`.
fn stat_of(s: &fs::Statx) -> Stat {
    let time = |t: fs::StatxTimestamp| Timestamp { seconds: t.tv_sec, nanoseconds: t.tv_nsec };
    let direct = (s.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && s.stx_dio_offset_align != 0)
        .then_some(DirectAlign { memory: s.stx_dio_mem_align, offset: s.stx_dio_offset_align });
    Stat {
        device: (s.stx_dev_major, s.stx_dev_minor),
        inode: s.stx_ino,
        mode: u32::from(s.stx_mode),
        links: s.stx_nlink,
        uid: s.stx_uid,
        gid: s.stx_gid,
        size: s.stx_size,
        blocks: s.stx_blocks,
        special: (s.stx_rdev_major, s.stx_rdev_minor),
        accessed: time(s.stx_atime),
        modified: time(s.stx_mtime),
        changed: time(s.stx_ctime),
        birth: (s.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| time(s.stx_btime)),
        direct,
        mount_root: s.stx_attributes.contains(fs::StatxAttributes::MOUNT_ROOT),
        may_be_dax: s.stx_attributes.contains(fs::StatxAttributes::DAX),
        is_flagged: s.stx_attributes.intersects(FLAGS),
    }
}

/// Inode flags that `statx(2)` reports.
const FLAGS: fs::StatxAttributes = fs::StatxAttributes::COMPRESSED
    .union(fs::StatxAttributes::IMMUTABLE)
    .union(fs::StatxAttributes::APPEND)
    .union(fs::StatxAttributes::NODUMP)
    .union(fs::StatxAttributes::ENCRYPTED)
    .union(fs::StatxAttributes::VERITY)
    .union(fs::StatxAttributes::DAX);

/// Returns the flags of an inode (`FS_IOC_GETFLAGS`, `ioctl_iflags(2)`).
pub fn inode_flags(fd: impl AsFd) -> Sys<u32> {
    Ok(fs::ioctl_getflags(fd)?.bits())
}

/// Lets files be written over where they lie, or not, as `like` has it (`FS_NOCOW_FL`): for a file without contents.
pub fn take_no_cow(fd: impl AsFd, like: impl AsFd) -> Sys<()> {
    let (has, wanted) = (fs::ioctl_getflags(&fd), fs::ioctl_getflags(like));
    let (Ok(has), Ok(wanted)) = (has, wanted) else {
        // A filesystem without such flags.
        return match has.and(wanted) {
            Err(rustix::io::Errno::NOTTY | rustix::io::Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other.map(drop)?),
        };
    };
    if (has ^ wanted).contains(fs::IFlags::NOCOW) {
        fs::ioctl_setflags(fd, has ^ fs::IFlags::NOCOW)?;
    }
    Ok(())
}

/// Lets reads leave the time of the last access as it is (`O_NOATIME`). `EPERM` for users who do not own the file.
pub fn keep_access_time(fd: impl AsFd) -> Sys<()> {
    let flags = fs::fcntl_getfl(&fd)?;
    Ok(fs::fcntl_setfl(fd, flags.union(OFlags::NOATIME))?)
}

/// Whether a file can only be appended to, and a directory only gets further names (`ioctl_iflags(2)`, `FS_APPEND_FL`).
pub fn is_append_only(fd: impl AsFd) -> Sys<bool> {
    let found = fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    Ok(found.stx_attributes.contains(fs::StatxAttributes::APPEND))
}

/// Returns the filesystem's magic number (`linux/magic.h`).
pub fn filesystem_magic(fd: impl AsFd) -> Sys<u64> {
    // The width of f_type differs between architectures; the magic has 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
    Ok(fs::fstatfs(fd)?.f_type as u64 & 0xffff_ffff)
}

/// Returns the number of bytes that this user may still write.
pub fn free_bytes(fd: impl AsFd) -> Sys<u64> {
    let answer = fs::fstatvfs(fd)?;
    Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
}

/// Returns the filesystem's id (`statfs(2)`, `f_fsid`); 0: none.
pub fn filesystem_number(fd: impl AsFd) -> Sys<u64> {
    Ok(fs::fstatvfs(fd)?.f_fsid)
}

/// Returns the filesystem's UUID; empty: it has none.
pub fn filesystem_uuid(fd: impl AsFd) -> Sys<Vec<u8>> {
    /// `_IOR(0x15, 0, struct fsuuid2)`, since Linux 6.9 (`include/uapi/linux/fs.h`).
    const FS_IOC_GETFSUUID: libc::c_ulong = 0x8011_1500;
    #[repr(C)]
    struct FsUuid2 {
        length: u8,
        uuid: [u8; 16],
    }
    let mut answer = FsUuid2 { length: 0, uuid: [0; 16] };
    // SAFETY: the structure has the layout of linux/fs.h, and its size is encoded in the request number.
    let r = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), FS_IOC_GETFSUUID as _, &raw mut answer) };
    if r != 0 {
        return Err(last_errno());
    }
    Ok(answer.uuid[..usize::from(answer.length).min(16)].to_vec())
}

/// Whether the filesystem of ext2, ext3 or ext4 has a journal on its own device, which `/proc/fs/jbd2` then names
/// (`fs/jbd2/journal.c`, `jbd2_stats_proc_init`). `false` also where that cannot be seen.
pub fn has_journal(fd: impl AsFd) -> Sys<bool> {
    let (major, minor) = stat(fd)?.device;
    let Ok(device) = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")) else {
        return Ok(false);
    };
    // The number is that of the journal's inode.
    let begin = [device.file_name().unwrap_or_default().as_bytes(), b"-"].concat();
    let Ok(journals) = std::fs::read_dir("/proc/fs/jbd2") else { return Ok(false) };
    Ok(journals.flatten().any(|journal| journal.file_name().as_bytes().starts_with(&begin)))
}

/// Adds or removes `O_DIRECT` on an open file description.
pub fn set_direct(fd: impl AsFd, direct: bool) -> Sys<()> {
    let mut flags = fs::fcntl_getfl(&fd)?;
    flags.set(OFlags::DIRECT, direct);
    Ok(fs::fcntl_setfl(fd, flags)?)
}

/// Operation to wait for on a pipe, terminal or other device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    ToRead,
    ToWrite,
}

/// Waits until a read or write would not block, for example because the other end is closed (`poll(2)`).
/// `false`: the time limit ended. A FIFO that never had a writer is not at its end (`fs/pipe.c`,
/// `pipe_poll`).
pub fn wait(fd: impl AsFd, ready: Ready, limit: Duration) -> Sys<bool> {
    let flags = match ready {
        Ready::ToRead => PollFlags::IN,
        Ready::ToWrite => PollFlags::OUT,
    };
    let limit =
        fs::Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    match event::poll(&mut [PollFd::new(&fd, flags)], Some(&limit)) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        other => Ok(other? > 0),
    }
}

/// Whether a descriptor is a stream socket. Other sockets truncate messages that do not fit a buffer.
pub fn is_stream_socket(fd: impl AsFd) -> bool {
    sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::STREAM)
}

/// Whether writes to a file go to its end, whatever their offset is (`O_APPEND`).
pub fn is_appended_to(fd: impl AsFd) -> Sys<bool> {
    Ok(fs::fcntl_getfl(fd)?.contains(OFlags::APPEND))
}

/// Makes reads block again on a file opened with `O_NONBLOCK`.
pub fn set_blocking(fd: impl AsFd) -> Sys<()> {
    let flags = fs::fcntl_getfl(&fd)?;
    Ok(fs::fcntl_setfl(fd, flags.difference(OFlags::NONBLOCK))?)
}

/// Returns the offset of the next data at or after `offset`; `ENXIO`: none (`lseek(2)`, `SEEK_DATA`).
pub fn seek_data(fd: impl AsFd, offset: u64) -> Sys<u64> {
    Ok(fs::seek(fd, SeekFrom::Data(offset))?)
}

/// Returns the offset of the next hole at or after `offset`; the end of the file is one (`SEEK_HOLE`).
pub fn seek_hole(fd: impl AsFd, offset: u64) -> Sys<u64> {
    Ok(fs::seek(fd, SeekFrom::Hole(offset))?)
}

/// Moves the file offset.
pub fn seek_to(fd: impl AsFd, offset: u64) -> Sys<()> {
    fs::seek(fd, SeekFrom::Start(offset))?;
    Ok(())
}

pub fn truncate(fd: impl AsFd, size: u64) -> Sys<()> {
    Ok(fs::ftruncate(fd, size)?)
}

/// Reserves blocks and extends the size (`fallocate(2)`, mode 0).
pub fn allocate(fd: impl AsFd, offset: u64, length: u64) -> Sys<()> {
    Ok(fs::fallocate(fd, FallocateFlags::empty(), offset, length)?)
}

/// Reserves blocks without changing the size (`FALLOC_FL_KEEP_SIZE`).
pub fn reserve(fd: impl AsFd, offset: u64, length: u64) -> Sys<()> {
    Ok(fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset, length)?)
}

/// Makes a hole inside the file.
pub fn punch_hole(fd: impl AsFd, offset: u64, length: u64) -> Sys<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fs::fallocate(fd, flags, offset, length)?)
}

/// Flushes data and metadata to the device.
pub fn sync(fd: impl AsFd) -> Sys<()> {
    Ok(fs::fsync(fd)?)
}

/// Flushes the data, and the metadata needed to read it (`fdatasync(2)`).
pub fn sync_data(fd: impl AsFd) -> Sys<()> {
    Ok(fs::fdatasync(fd)?)
}

/// Flushes the whole filesystem of a file (`syncfs(2)`, which reports write errors since Linux 5.8).
pub fn sync_filesystem(fd: impl AsFd) -> Sys<()> {
    Ok(fs::syncfs(fd)?)
}

/// Starts writing a range to the device, and waits for the end if `wait` (`sync_file_range(2)`).
pub fn write_out(fd: impl AsFd, offset: u64, length: u64, wait: bool) -> Sys<()> {
    let mut flags = libc::SYNC_FILE_RANGE_WRITE;
    if wait {
        flags |= libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    }
    let (offset, length) = (signed(offset)?, signed(length)?);
    // SAFETY: plain integers and a descriptor that lives through the call.
    let r = unsafe { libc::sync_file_range(fd.as_fd().as_raw_fd(), offset, length, flags) };
    if r == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Drops the clean pages of a range from the page cache (`POSIX_FADV_DONTNEED`).
pub fn drop_cache(fd: impl AsFd, offset: u64, length: u64) -> Sys<()> {
    let length = std::num::NonZeroU64::new(length);
    Ok(fs::fadvise(fd, offset, length, fs::Advice::DontNeed)?)
}

/// Starts reading a range into the page cache (`POSIX_FADV_WILLNEED`).
pub fn read_ahead(fd: impl AsFd, offset: u64, length: u64) -> Sys<()> {
    let length = std::num::NonZeroU64::new(length);
    Ok(fs::fadvise(fd, offset, length, fs::Advice::WillNeed)?)
}

#[repr(C)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Numbers of a file's pages in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedPages {
    pub cached: u64,
    /// Pages that the disk does not have yet.
    pub dirty: u64,
    /// Pages that are being written to the disk. A page that is modified meanwhile is dirty as well.
    pub writing: u64,
}

/// Returns how many bytes of a range are in the page cache; length 0: to the end of the file.
pub fn cached_bytes(fd: impl AsFd, offset: u64, length: u64) -> Sys<u64> {
    Ok(cached_pages(fd, offset, length)?.cached * rustix::param::page_size() as u64)
}

/// Counts the pages of a range in the page cache; length 0: to the end of the file (`cachestat(2)`, Linux
/// 6.5). `EPERM` for users who neither own the file nor may write to it (`can_do_cachestat` in
/// `mm/filemap.c`).
pub fn cached_pages(fd: impl AsFd, offset: u64, length: u64) -> Sys<CachedPages> {
    let Cachestat { cached, dirty, writeback: writing, .. } = cachestat(fd, offset, length)?;
    Ok(CachedPages { cached, dirty, writing })
}

/// Counts the pages that a memory file has from `offset` on, also behind its end: in memory or swapped out. Errors as
/// for [`cached_pages`].
pub fn memory_pages_from(fd: impl AsFd, offset: u64) -> Sys<u64> {
    let Cachestat { cached, evicted, .. } = cachestat(fd, offset, 0)?;
    Ok(cached + evicted)
}

fn cachestat(fd: impl AsFd, offset: u64, length: u64) -> Sys<Cachestat> {
    /// `__NR_cachestat`: the same number on every architecture since the common table.
    const CACHESTAT: libc::c_long = 451;
    let range = CachestatRange { offset, length };
    let mut stat = Cachestat::default();
    // SAFETY: both structures have the layout of linux/mman.h and outlive the call, which reads the
    // first and writes the second.
    let r = unsafe {
        libc::syscall(CACHESTAT, fd.as_fd().as_raw_fd(), &raw const range, &raw mut stat, 0)
    };
    if r == 0 { Ok(stat) } else { Err(last_errno()) }
}

/// Duplicates a descriptor, close-on-exec.
pub fn duplicate(fd: impl AsFd) -> Sys<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 0)?)
}

/// Takes the exclusive `flock(2)`; `EAGAIN` if it is taken.
pub fn try_lock(fd: impl AsFd) -> Sys<()> {
    Ok(fs::flock(fd, fs::FlockOperation::NonBlockingLockExclusive)?)
}

/// Exclusive or shared lock of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    Shared,
    Exclusive,
}

/// Takes a lock of one byte of a file for its open file description (`F_OFD_SETLK`, fcntl_locking(2)); `EAGAIN` if it is
/// taken. The byte need not exist. The lock ends with the description, also in another process, and when a process is
/// killed. Network filesystems pass it on to their server.
pub fn try_lock_byte(fd: impl AsFd, offset: u64, kind: LockKind) -> Sys<()> {
    let mut lock = libc::flock {
        l_type: match kind {
            LockKind::Shared => libc::F_RDLCK,
            LockKind::Exclusive => libc::F_WRLCK,
        } as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset.try_into().map_err(|_| Errno::EOVERFLOW)?,
        l_len: 1,
        // It must be zero for this kind of lock.
        l_pid: 0,
    };
    // SAFETY: the descriptor is borrowed, and the kernel reads a structure of this type, which lives through the call.
    let result = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

pub fn set_owner(fd: impl AsFd, uid: Option<u32>, gid: Option<u32>) -> Sys<()> {
    let uid = uid.map(fs::Uid::from_raw);
    Ok(fs::fchown(fd, uid, gid.map(fs::Gid::from_raw))?)
}

pub fn set_permissions(fd: impl AsFd, mode: u32) -> Sys<()> {
    Ok(fs::fchmod(fd, Mode::from_raw_mode(mode))?)
}

pub fn set_times(fd: impl AsFd, accessed: Timestamp, modified: Timestamp) -> Sys<()> {
    let spec = |t: Timestamp| fs::Timespec { tv_sec: t.seconds, tv_nsec: t.nanoseconds.into() };
    let times = fs::Timestamps { last_access: spec(accessed), last_modification: spec(modified) };
    Ok(fs::futimens(fd, &times)?)
}

/// Returns the effective user id of the process.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn signed(value: u64) -> Sys<i64> {
    i64::try_from(value).map_err(|_| Errno::EOVERFLOW)
}

/// One extent from `FIEMAP` (`Documentation/filesystems/fiemap.rst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub logical: u64,
    pub physical: u64,
    pub length: u64,
    /// Whether another file has it too.
    pub shared: bool,
    /// Whether its physical place is not final (delayed allocation, inline data).
    pub unsettled: bool,
}

const FIEMAP_BATCH: usize = 128;
const FIEMAP_EXTENT_LAST: u32 = 0x1;
const FIEMAP_EXTENT_UNKNOWN: u32 = 0x2;
const FIEMAP_EXTENT_DELALLOC: u32 = 0x4;
const FIEMAP_EXTENT_NOT_ALIGNED: u32 = 0x100;
const FIEMAP_EXTENT_SHARED: u32 = 0x2000;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; FIEMAP_BATCH],
}

/// Returns the extents of a file, without flushing it first.
pub fn extents(fd: impl AsFd) -> Sys<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let batch = extents_from(&fd, start)?;
        let Some(last) = batch.last() else { return Ok(found) };
        start = last.logical + last.length;
        let done = last.flags & FIEMAP_EXTENT_LAST != 0;
        found.extend(batch.iter().map(|e| Extent {
            logical: e.logical,
            physical: e.physical,
            length: e.length,
            shared: e.flags & FIEMAP_EXTENT_SHARED != 0,
            unsettled: e.flags
                & (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_NOT_ALIGNED)
                != 0,
        }));
        if done {
            return Ok(found);
        }
    }
}

/// Whether both files share all their blocks, and every block has its final place.
pub fn share_all_extents(a: impl AsFd, b: impl AsFd) -> Sys<bool> {
    let (a, b) = (extents(a)?, extents(b)?);
    Ok(a == b && !a.is_empty() && a.iter().all(|e| e.shared && !e.unsettled))
}

fn extents_from(fd: impl AsFd, start: u64) -> Sys<Vec<FiemapExtent>> {
    /// `_IOWR('f', 11, struct fiemap)`, with the size of the structure without extents: 32 bytes.
    const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
    let mut map = Fiemap {
        start,
        length: u64::MAX - start,
        flags: 0,
        mapped_extents: 0,
        extent_count: FIEMAP_BATCH as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); FIEMAP_BATCH],
    };
    // SAFETY: the structure has the layout of linux/fiemap.h, and `extent_count` is the number of
    // extents that fit behind its header.
    let r = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) };
    if r != 0 {
        return Err(last_errno());
    }
    let count = (map.mapped_extents as usize).min(FIEMAP_BATCH);
    Ok(map.extents[..count].to_vec())
}
