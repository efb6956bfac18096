//! Calls of Windows: `FSCTL_DUPLICATE_EXTENTS_TO_FILE`, `CopyFile2`, `FileRenameInfoEx`, `MoveFileExW`.

use std::ffi::{OsStr, c_void};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, FileTimesExt, MetadataExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr;

use windows_sys::Win32::Foundation::{
    ERROR_HANDLE_EOF, ERROR_MORE_DATA, ERROR_PROC_NOT_FOUND, ERROR_REQUEST_ABORTED, GENERIC_READ,
    GENERIC_WRITE, HANDLE, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, COPY_FILE_FAIL_IF_EXISTS, COPYFILE2_CALLBACK_CHUNK_FINISHED,
    COPYFILE2_EXTENDED_PARAMETERS, COPYFILE2_MESSAGE, COPYFILE2_MESSAGE_ACTION,
    COPYFILE2_PROGRESS_CANCEL, COPYFILE2_PROGRESS_CONTINUE, DELETE, FILE_ATTRIBUTE_NORMAL,
    FILE_ATTRIBUTE_SPARSE_FILE, FILE_BASIC_INFO, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_RENAME_INFO, FILE_SHARE_READ, FILE_SHARE_WRITE,
    FileBasicInfo, FileRenameInfoEx, FindClose, FindFirstStreamW, FindNextStreamW,
    FindStreamInfoStandard, GetDiskFreeSpaceW, GetFileInformationByHandle,
    MOVEFILE_REPLACE_EXISTING, MOVEFILE_WRITE_THROUGH, MoveFileExW, SetFileInformationByHandle,
    WIN32_FIND_STREAM_DATA,
};
use windows_sys::Win32::System::IO::DeviceIoControl;
use windows_sys::Win32::System::Ioctl::{
    DUPLICATE_EXTENTS_DATA, FILE_ALLOCATED_RANGE_BUFFER, FSCTL_DUPLICATE_EXTENTS_TO_FILE,
    FSCTL_GET_INTEGRITY_INFORMATION, FSCTL_GET_INTEGRITY_INFORMATION_BUFFER,
    FSCTL_GET_RETRIEVAL_POINTERS_AND_REFCOUNT, FSCTL_QUERY_ALLOCATED_RANGES,
    FSCTL_SET_INTEGRITY_INFORMATION, FSCTL_SET_INTEGRITY_INFORMATION_BUFFER, FSCTL_SET_SPARSE,
    STARTING_VCN_INPUT_BUFFER,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::core::{HRESULT, PCWSTR};

use super::native::{
    Advance, CopyCalls, FileAttributes, FileIdentity, OnProgress, Placing, Reports,
};
use super::references::{self, Answer};
use uncopy_core::{System, windows_path};

/// The calls of Windows.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemCalls;

/// Flags of `FILE_RENAME_INFORMATION_EX` (ntifs.h).
const REPLACE_IF_EXISTS: u32 = 0x1;
const POSIX_SEMANTICS: u32 = 0x2;
const IGNORE_READONLY: u32 = 0x40;

impl CopyCalls for SystemCalls {
    fn system(&self) -> System {
        System::Windows
    }

    /// Others may read and write it meanwhile, and not rename or delete it: `CopyFile2` takes its name.
    fn open_source(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE).open(path)
    }

    /// Renaming by handle needs the right to delete.
    fn create(&self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        options.clone().access_mode(GENERIC_READ | GENERIC_WRITE | DELETE).open(path)
    }

    /// A copy of a read-only file is read-only, and could not be opened for writing.
    fn open_made(&self, path: &Path) -> io::Result<File> {
        allow_writing(path)?;
        OpenOptions::new().access_mode(GENERIC_READ | GENERIC_WRITE | DELETE).open(path)
    }

    fn copy_to_new(
        &self,
        source: &Path,
        new_path: &Path,
        progress: OnProgress<'_>,
    ) -> io::Result<u64> {
        let copy_file = copy_file_2()?;
        let (source, new) = (text(source)?, text(new_path)?);
        let mut reports = Reports::new(progress);
        let parameters = COPYFILE2_EXTENDED_PARAMETERS {
            dwSize: size(size_of::<COPYFILE2_EXTENDED_PARAMETERS>()),
            dwCopyFlags: COPY_FILE_FAIL_IF_EXISTS,
            pfCancel: ptr::null_mut(),
            pProgressRoutine: Some(report),
            pvCallbackContext: ptr::from_mut(&mut reports).cast(),
        };
        // SAFETY: the function is that of kernel32; both paths end with a zero; parameters and context outlive the
        // call, which uses them on this thread alone.
        let result = unsafe { copy_file(source.as_ptr(), new.as_ptr(), &raw const parameters) };
        if reports.finish() {
            return Err(io::Error::from_raw_os_error(code(ERROR_REQUEST_ABORTED)));
        }
        match result {
            0.. => Ok(fs::metadata(new_path)?.len()),
            // HRESULT_FROM_WIN32: the number is in the lower half.
            failed => Err(io::Error::from_raw_os_error(failed & 0xffff)),
        }
    }

    fn shares_all_blocks(&self, file: &File) -> io::Result<bool> {
        references::are_all_shared(|cluster, buffer| {
            let from = STARTING_VCN_INPUT_BUFFER { StartingVcn: offset(cluster)? };
            let request = FSCTL_GET_RETRIEVAL_POINTERS_AND_REFCOUNT;
            match control(file, request, &from, buffer) {
                Ok(words) => Ok(Some(Answer { words, has_more: false })),
                Err(error) if error.raw_os_error() == Some(code(ERROR_MORE_DATA)) => {
                    Ok(Some(Answer { words: buffer.len(), has_more: true }))
                }
                Err(error) if error.raw_os_error() == Some(code(ERROR_HANDLE_EOF)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn share_blocks(&self, source: &File, destination: &File, range: Range<u64>) -> io::Result<()> {
        let data = DUPLICATE_EXTENTS_DATA {
            FileHandle: handle(source),
            SourceFileOffset: offset(range.start)?,
            TargetFileOffset: offset(range.start)?,
            ByteCount: offset(range.end - range.start)?,
        };
        control(destination, FSCTL_DUPLICATE_EXTENTS_TO_FILE, &data, &mut [(); 0]).map(drop)
    }

    fn cluster_bytes(&self, directory: &Path) -> io::Result<u64> {
        let directory = text(directory)?;
        let (mut sectors, mut bytes, mut free, mut all) = (0, 0, 0, 0);
        // SAFETY: the path ends with a zero, and the call writes one number behind each pointer.
        done(unsafe {
            GetDiskFreeSpaceW(
                directory.as_ptr(),
                &raw mut sectors,
                &raw mut bytes,
                &raw mut free,
                &raw mut all,
            )
        })?;
        Ok(u64::from(sectors) * u64::from(bytes))
    }

    fn match_integrity(&self, source: &File, destination: &File) -> io::Result<()> {
        let mut found = [FSCTL_GET_INTEGRITY_INFORMATION_BUFFER {
            ChecksumAlgorithm: 0,
            Reserved: 0,
            Flags: 0,
            ChecksumChunkSizeInBytes: 0,
            ClusterSizeInBytes: 0,
        }];
        control(source, FSCTL_GET_INTEGRITY_INFORMATION, &(), &mut found)?;
        let wanted = FSCTL_SET_INTEGRITY_INFORMATION_BUFFER {
            ChecksumAlgorithm: found[0].ChecksumAlgorithm,
            Reserved: 0,
            Flags: found[0].Flags,
        };
        control(destination, FSCTL_SET_INTEGRITY_INFORMATION, &wanted, &mut [(); 0]).map(drop)
    }

    fn make_sparse(&self, destination: &File) -> io::Result<()> {
        control(destination, FSCTL_SET_SPARSE, &(), &mut [(); 0]).map(drop)
    }

    fn data_ranges(&self, source: &File, bytes: u64) -> io::Result<Vec<Range<u64>>> {
        const NONE: FILE_ALLOCATED_RANGE_BUFFER =
            FILE_ALLOCATED_RANGE_BUFFER { FileOffset: 0, Length: 0 };
        let (mut ranges, mut at): (Vec<Range<u64>>, u64) = (Vec::new(), 0);
        loop {
            let asked = FILE_ALLOCATED_RANGE_BUFFER {
                FileOffset: offset(at)?,
                Length: offset(bytes - at)?,
            };
            let mut found = [NONE; 256];
            let answer = control(source, FSCTL_QUERY_ALLOCATED_RANGES, &asked, &mut found);
            let (count, more) = match answer {
                Ok(count) => (count, false),
                Err(error) if error.raw_os_error() == Some(code(ERROR_MORE_DATA)) => {
                    (found.len(), true)
                }
                Err(error) => return Err(error),
            };
            for range in &found[..count] {
                let start = u64::try_from(range.FileOffset).unwrap_or(0);
                let length = u64::try_from(range.Length).unwrap_or(0);
                ranges.push(start..(start + length).min(bytes));
            }
            match ranges.last() {
                Some(last) if more && last.end > at && last.end < bytes => at = last.end,
                _ => return Ok(ranges),
            }
        }
    }

    fn may_have_holes(&self, metadata: &Metadata) -> Option<bool> {
        Some(metadata.file_attributes() & FILE_ATTRIBUTE_SPARSE_FILE != 0)
    }

    fn is_same_file(&self, one: &Path, other: &Path) -> Option<bool> {
        let [one, other] = [one, other].map(|path| File::open(path).and_then(|file| facts(&file)));
        match (one, other) {
            (Ok(one), Ok(other)) => Some((one.volume, one.number) == (other.volume, other.number)),
            _ => None,
        }
    }

    fn identify(&self, path: &Path, follows: bool) -> Option<io::Result<FileIdentity>> {
        let at_link = if follows { 0 } else { FILE_FLAG_OPEN_REPARSE_POINT };
        let mut options = OpenOptions::new();
        // Without any right, so that nobody else is disturbed.
        options.access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS | at_link);
        Some(options.open(path).and_then(|file| facts(&file)))
    }

    fn has_streams(&self, path: &Path) -> io::Result<bool> {
        let path = text(path)?;
        let mut found = WIN32_FIND_STREAM_DATA::default();
        let to = (&raw mut found).cast();
        // SAFETY: the path ends with a zero, and the call writes the structure.
        let search = unsafe { FindFirstStreamW(path.as_ptr(), FindStreamInfoStandard, to, 0) };
        if search == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        // The first one is the contents.
        // SAFETY: the handle is that of the search, and the call writes the structure.
        let has_more = unsafe { FindNextStreamW(search, to) } != 0;
        // SAFETY: the handle is that of the search, and is closed once.
        unsafe { FindClose(search) };
        Ok(has_more)
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek_read(buffer, offset)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.seek_write(bytes, offset)
    }

    fn attributes(&self, metadata: &Metadata) -> Option<FileAttributes> {
        Some(FileAttributes::from_bits(metadata.file_attributes()))
    }

    fn set_attributes(&self, file: &File, attributes: FileAttributes) -> io::Result<()> {
        // No attribute at all would mean that they stay; times of zero do.
        let bits = if attributes.bits() == 0 { FILE_ATTRIBUTE_NORMAL } else { attributes.bits() };
        let info = FILE_BASIC_INFO { FileAttributes: bits, ..FILE_BASIC_INFO::default() };
        let length = size(size_of::<FILE_BASIC_INFO>());
        // SAFETY: the handle is open while `file` is borrowed, and the call reads the structure.
        done(unsafe {
            SetFileInformationByHandle(
                handle(file),
                FileBasicInfo,
                ptr::from_ref(&info).cast(),
                length,
            )
        })
    }

    fn set_times(&self, file: &File, from: &Metadata) -> io::Result<()> {
        let times = super::native::access_and_modification(from)?;
        file.set_times(times.set_created(from.created()?))
    }

    /// Flushes the file once more, which now has its name: only a directory that may be written to can be flushed.
    fn flush_name(&self, file: &File, _directory: &Path) -> io::Result<()> {
        file.sync_all()
    }

    fn place(
        &self,
        placing: Placing,
        file: &File,
        temporary: &Path,
        destination: &Path,
        replaces: bool,
    ) -> io::Result<()> {
        match placing {
            Placing::PosixRename => rename_by_handle(file, destination, replaces),
            Placing::Rename => {
                let rename = || move_file(temporary, destination, replaces);
                let of_read_only =
                    replaces.then(|| replace_read_only(destination, rename)).flatten();
                of_read_only.unwrap_or_else(rename)
            }
            Placing::Link => fs::hard_link(temporary, destination),
            Placing::ExclusiveRename => super::native::unsupported(),
        }
    }

    /// A read-only file is replaced too.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                replace_read_only(to, || fs::rename(from, to)).unwrap_or(Err(error))
            }
            renamed => renamed,
        }
    }

    fn rename_to_free(&self, from: &Path, to: &Path) -> io::Result<()> {
        move_file(from, to, false)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _ = allow_writing(path);
        fs::remove_file(path)
    }
}

fn move_file(from: &Path, to: &Path, replaces: bool) -> io::Result<()> {
    let (from, to) = (text(from)?, text(to)?);
    let flag = if replaces { MOVEFILE_REPLACE_EXISTING } else { 0 };
    // SAFETY: both paths end with a zero.
    done(unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), flag | MOVEFILE_WRITE_THROUGH) })
}

/// Takes the read-only attribute away. Returns whether the file had it.
fn allow_writing(path: &Path) -> io::Result<bool> {
    set_read_only(path, false)
}

/// Replaces a file that is read-only by `rename`; after an error it is read-only again. `None`: it is not.
fn replace_read_only(
    path: &Path,
    rename: impl FnOnce() -> io::Result<()>,
) -> Option<io::Result<()>> {
    if !allow_writing(path).unwrap_or(false) {
        return None;
    }
    let renamed = rename();
    if renamed.is_err() {
        let _ = set_read_only(path, true);
    }
    Some(renamed)
}

/// Sets the read-only attribute. Returns whether it was changed.
///
/// # Errors
/// Those of the calls.
pub fn set_read_only(path: &Path, is_read_only: bool) -> io::Result<bool> {
    // A symbolic link has permissions of its own.
    let mut permissions = fs::symlink_metadata(path)?.permissions();
    if permissions.readonly() == is_read_only {
        return Ok(false);
    }
    permissions.set_readonly(is_read_only);
    fs::set_permissions(path, permissions)?;
    Ok(true)
}

fn rename_by_handle(file: &File, destination: &Path, replaces: bool) -> io::Result<()> {
    let name = text(destination)?;
    let name_bytes = (name.len() - 1) * size_of::<u16>();
    let at_name = offset_of!(FILE_RENAME_INFO, FileName);
    // Words, so that the header is aligned; the zero behind the name fits too.
    let mut buffer =
        vec![0u64; (at_name + name.len() * size_of::<u16>()).div_ceil(size_of::<u64>())];
    let always = POSIX_SEMANTICS | IGNORE_READONLY;
    let info: *mut FILE_RENAME_INFO = buffer.as_mut_ptr().cast();
    // SAFETY: the buffer is aligned, longer than the header, and nothing else uses it meanwhile; all zeros are a header.
    let header = unsafe { &mut *info };
    header.Anonymous.Flags = if replaces { always | REPLACE_IF_EXISTS } else { always };
    header.FileNameLength = size(name_bytes);
    let start = buffer.as_mut_ptr().cast::<u8>();
    // SAFETY: the name begins in the buffer.
    let to = unsafe { start.add(at_name) }.cast::<u16>();
    // SAFETY: the buffer is as long as header and name together, and the name lies elsewhere.
    unsafe { ptr::copy_nonoverlapping(name.as_ptr(), to, name.len()) };
    let length = size(buffer.len() * size_of::<u64>());
    let info = buffer.as_ptr().cast::<c_void>();
    // SAFETY: the handle is open while `file` is borrowed, and the call reads `length` bytes.
    done(unsafe { SetFileInformationByHandle(handle(file), FileRenameInfoEx, info, length) })
}

/// Identifies an open file.
fn facts(file: &File) -> io::Result<FileIdentity> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open while `file` is borrowed, and the call writes the structure.
    done(unsafe { GetFileInformationByHandle(handle(file), &raw mut found) })?;
    let number = u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow);
    let (volume, names) = (found.dwVolumeSerialNumber.into(), found.nNumberOfLinks.into());
    Ok(FileIdentity { volume, number, names })
}

/// Returns a path for calls, with a zero at its end. A long one gets the form without a limit.
fn text(path: &Path) -> io::Result<Vec<u16>> {
    let units = |text: &OsStr| text.encode_wide().collect::<Vec<u16>>();
    let absolute = units(std::path::absolute(path)?.as_os_str());
    let mut text = windows_path::verbatim(&absolute).unwrap_or(absolute);
    if text.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    text.push(0);
    Ok(text)
}

fn handle(file: &File) -> HANDLE {
    file.as_raw_handle()
}

fn offset(bytes: u64) -> io::Result<i64> {
    i64::try_from(bytes).map_err(io::Error::other)
}

/// Size of something small.
fn size(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn code(error: u32) -> i32 {
    error.cast_signed()
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Calls `DeviceIoControl` with a structure, and returns how many others it has written.
fn control<Input, Output>(
    file: &File,
    request: u32,
    input: &Input,
    output: &mut [Output],
) -> io::Result<usize> {
    let mut returned = 0;
    // SAFETY: the handle is open while `file` is borrowed; both lengths are those of what the pointers are of, and every
    // output that requests here write is plain numbers.
    done(unsafe {
        DeviceIoControl(
            handle(file),
            request,
            ptr::from_ref(input).cast(),
            size(size_of::<Input>()),
            output.as_mut_ptr().cast(),
            size(size_of_val(output)),
            &raw mut returned,
            ptr::null_mut(),
        )
    })?;
    Ok(usize::try_from(returned).unwrap_or(0) / size_of::<Output>().max(1))
}

type CopyFile2 =
    unsafe extern "system" fn(PCWSTR, PCWSTR, *const COPYFILE2_EXTENDED_PARAMETERS) -> HRESULT;

/// Function of a library, of whatever type.
type Unknown = unsafe extern "system" fn() -> isize;

/// Looks `CopyFile2` up: a program that is linked with it does not start where it is missing (Wine 8).
fn copy_file_2() -> io::Result<CopyFile2> {
    let library: Vec<u16> = "kernel32.dll\0".encode_utf16().collect();
    // SAFETY: the name ends with a zero; kernel32 is never unloaded.
    let library = unsafe { GetModuleHandleW(library.as_ptr()) };
    // SAFETY: the name ends with a zero.
    let found = unsafe { GetProcAddress(library, c"CopyFile2".as_ptr().cast()) };
    match found {
        // SAFETY: the function of this name has this type (winbase.h).
        Some(found) => Ok(unsafe { std::mem::transmute::<Unknown, CopyFile2>(found) }),
        None => Err(io::Error::from_raw_os_error(code(ERROR_PROC_NOT_FOUND))),
    }
}

/// The progress routine. It is held while the copy pauses, because a pause of the call itself fails it.
///
/// # Safety
/// `message` is valid, and `context` a `Reports` that nothing else uses meanwhile.
unsafe extern "system" fn report(
    message: *const COPYFILE2_MESSAGE,
    context: *const c_void,
) -> COPYFILE2_MESSAGE_ACTION {
    // SAFETY: `copy_to_new` passed this pointer, lives until the call returns, and uses it in no other way meanwhile.
    let reports = unsafe { &mut *context.cast_mut().cast::<Reports<'_>>() };
    // SAFETY: the call passes a valid message.
    let message = unsafe { &*message };
    if message.Type != COPYFILE2_CALLBACK_CHUNK_FINISHED {
        return COPYFILE2_PROGRESS_CONTINUE;
    }
    // SAFETY: messages of this type have this part.
    let chunk = unsafe { message.Info.ChunkFinished };
    match reports.report(chunk.uliTotalBytesTransferred) {
        Advance::Continue => COPYFILE2_PROGRESS_CONTINUE,
        Advance::Stop => COPYFILE2_PROGRESS_CANCEL,
    }
}
