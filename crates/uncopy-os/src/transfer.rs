//! Calls that move bytes between two descriptors.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs;
use rustix::pipe::{self, PipeFlags, SpliceFlags};

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// Maximum number of bytes that one `copy_file_range` or `sendfile` moves: `MAX_RW_COUNT`
/// (`include/linux/fs.h`), `INT_MAX` rounded down to a page.
pub const MAX_CALL_BYTES: usize = 0x7fff_f000;

/// Shares all blocks of the source (`FICLONE`).
pub fn clone_file(source: impl AsFd, destination: impl AsFd) -> Sys<()> {
    Ok(fs::ioctl_ficlone(destination, source)?)
}

/// Shares the first `length` bytes of a source of `size` bytes, or all of them if it is shorter
/// (`FICLONERANGE`, `ioctl_ficlonerange(2)`).
pub fn clone_beginning(
    source: impl AsFd,
    destination: impl AsFd,
    size: u64,
    length: u64,
) -> Sys<()> {
    let range = libc::file_clone_range {
        src_fd: source.as_fd().as_raw_fd().into(),
        src_offset: 0,
        // 0: to the end, which need not be block-aligned.
        src_length: if size > length { length } else { 0 },
        dest_offset: 0,
    };
    // SAFETY: the structure has the layout of linux/fs.h and outlives the call, which only reads it.
    let r = unsafe {
        libc::ioctl(destination.as_fd().as_raw_fd(), libc::FICLONERANGE as _, &raw const range)
    };
    if r == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Copies inside the kernel, from and to the same offset (`copy_file_range(2)`).
pub fn copy_file_range(
    source: impl AsFd,
    destination: impl AsFd,
    offset: u64,
    length: usize,
) -> Sys<usize> {
    let (mut from, mut to) = (offset, offset);
    let length = length.min(MAX_CALL_BYTES);
    Ok(fs::copy_file_range(source, Some(&mut from), destination, Some(&mut to), length)?)
}

/// Copies inside the kernel from `offset` to the destination's file offset (`sendfile(2)`).
pub fn sendfile(
    source: impl AsFd,
    destination: impl AsFd,
    offset: u64,
    length: usize,
) -> Sys<usize> {
    let mut from = offset;
    Ok(fs::sendfile(destination, source, Some(&mut from), length.min(MAX_CALL_BYTES))?)
}

/// Copies inside the kernel, from and to the current file offsets (`sendfile(2)`).
pub fn sendfile_next(source: impl AsFd, destination: impl AsFd, length: usize) -> Sys<usize> {
    Ok(fs::sendfile(destination, source, None, length.min(MAX_CALL_BYTES))?)
}

/// Moves bytes from and to the current file offsets; one of the two is a pipe (`splice(2)`).
pub fn splice_next(source: impl AsFd, destination: impl AsFd, length: usize) -> Sys<usize> {
    Ok(pipe::splice(source, None, destination, None, length, SpliceFlags::MOVE)?)
}

/// Creates a pipe of `bytes` bytes where the system allows it. Returns its ends and its real capacity.
pub fn pipe(bytes: usize) -> Sys<(OwnedFd, OwnedFd, usize)> {
    let (read, write) = pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let capacity = match pipe::fcntl_setpipe_size(&write, bytes) {
        Ok(capacity) => capacity,
        Err(_) => pipe::fcntl_getpipe_size(&write)?,
    };
    Ok((read, write, capacity))
}

/// Moves references to the file's pages into a pipe (`splice(2)`).
pub fn splice_in(source: impl AsFd, offset: u64, pipe: impl AsFd, length: usize) -> Sys<usize> {
    let mut from = offset;
    Ok(pipe::splice(source, Some(&mut from), pipe, None, length, SpliceFlags::MOVE)?)
}

/// Moves bytes from a pipe to a file (`splice(2)`).
pub fn splice_out(
    pipe: impl AsFd,
    destination: impl AsFd,
    offset: u64,
    length: usize,
) -> Sys<usize> {
    let mut to = offset;
    Ok(pipe::splice(pipe, None, destination, Some(&mut to), length, SpliceFlags::MOVE)?)
}

/// Reads at an offset.
pub fn read_at(source: impl AsFd, buffer: &mut [u8], offset: u64) -> Sys<usize> {
    Ok(rustix::io::pread(source, buffer, offset)?)
}

/// Fills the buffer from an offset on. Returns fewer bytes only at the end of the file.
pub fn read_all_at(source: impl AsFd, buffer: &mut [u8], offset: u64) -> Sys<usize> {
    let mut at = 0;
    while at < buffer.len() {
        match read_at(&source, &mut buffer[at..], offset + at as u64) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(at)
}

/// Reads up to `at_most` bytes from an offset, or fewer where the file ends, and appends them: fresh memory is not
/// zeroed first.
pub fn append_all_at(
    source: impl AsFd,
    buffer: &mut Vec<u8>,
    at_most: usize,
    offset: u64,
) -> Sys<usize> {
    buffer.reserve(at_most);
    let mut done = 0;
    while done < at_most {
        let room = &mut buffer.spare_capacity_mut()[..at_most - done];
        match rustix::io::pread(&source, room, offset + done as u64).map_err(Errno::from) {
            Ok(([], _)) => break,
            Ok((read, _)) => {
                let read = read.len();
                done += read;
                // SAFETY: the kernel has written `read` bytes into the spare capacity, and no more.
                unsafe { buffer.set_len(buffer.len() + read) };
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Reads from the current file offset.
pub fn read(source: impl AsFd, buffer: &mut [u8]) -> Sys<usize> {
    Ok(rustix::io::read(source, buffer)?)
}

/// Writes at an offset.
pub fn write_at(destination: impl AsFd, buffer: &[u8], offset: u64) -> Sys<usize> {
    Ok(rustix::io::pwrite(destination, buffer, offset)?)
}

/// Writes all bytes at an offset.
pub fn write_all_at(destination: impl AsFd, mut bytes: &[u8], mut offset: u64) -> Sys<()> {
    while !bytes.is_empty() {
        match write_at(&destination, bytes, offset) {
            Ok(0) => return Err(Errno::EIO),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Writes at the current file offset.
pub fn write(destination: impl AsFd, buffer: &[u8]) -> Sys<usize> {
    Ok(rustix::io::write(destination, buffer)?)
}
