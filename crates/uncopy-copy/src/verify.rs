//! Reads both sides again, and compares their digests.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::compress::{Reader, Trouble};
use super::control::Control;
use super::conversion::Conversion;
use super::digest::Hasher;
use super::file_copy::FileCopy;
use super::observer::{Observer, Phase, Progress};
use super::options::{Digest, Verify};
use super::pause::{Gate, Stopwatch};
use super::source::Source;
use super::verification;
use uncopy_core::{DigestedFrom, SourceDigest, Verification, VerifiedFrom};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::AlignedBuffer;
use uncopy_os::capabilities::{Device, DeviceKind, Filesystem};
use uncopy_os::{Sys, file, transfer};

/// Size of one read: large enough for `O_DIRECT` to keep a device busy.
const READ_BYTES: usize = 4 << 20;

/// Bytes decoded at a time from a compressed file.
const DECODED_BYTES: usize = 256 << 10;

/// Interval at which the observer is asked while one side waits for the other.
const PATIENCE: Duration = Duration::from_millis(50);

/// Minimum size for a second thread.
const PARALLEL_MIN_BYTES: u64 = 1 << 20;

/// Reference that the copy is compared with.
#[derive(Debug)]
pub(crate) enum Original {
    /// Number of bytes of the source, which is read again.
    Again(u64),
    /// Digest of the streamed bytes, from a source that cannot be read again.
    AsItCame(String),
}

/// Compares the destination, whose data has been flushed, with the source. Where one of them is compressed,
/// compares the decompressed contents.
pub(crate) fn verify(
    copy: &mut FileCopy<'_, '_>,
    original: Original,
    verify: Verify,
) -> Result<Verification> {
    let (source, staging, size) = (copy.source, copy.staging, copy.receipt.bytes);
    let (conversion, gate) = (copy.request.conversion(), copy.context().gate);
    let observer = &mut *copy.observer;
    let begin = Stopwatch::start(gate);
    let algorithm = verify.algorithm;
    if let Some(fd) = source.here()
        && verify.trust_shared_extents
        && shares_everything(fd, staging.fd(), size)
    {
        let from = VerifiedFrom::SharedExtents;
        let duration = begin.elapsed();
        return Ok(Verification {
            algorithm: algorithm.name(),
            digest: String::new(),
            from,
            duration,
        });
    }
    let fail = |errno| Error::destination("read back", staging.destination().given, errno);
    let reader = Uncached::new(staging.fd(), size).map_err(fail)?;
    let copy =
        Side { fd: reader.fd, size, is_compressed: matches!(conversion, Conversion::Compress(_)) };
    let (expected, found) = match original {
        Original::AsItCame(expected) => (expected, hash_copy(source, copy, algorithm, observer)?),
        Original::Again(size) => {
            let is_compressed = conversion == Conversion::Decompress;
            let original = Side { fd: source.fd()?, size, is_compressed };
            hash_both(source, original, copy, algorithm, gate, observer)?
        }
    };
    let from = reader.from;
    drop(reader);
    verification::compare(algorithm, expected, found, from, begin, staging.destination().given)
}

/// Computes the digest of the copy from its descriptor; the page cache may answer.
pub(crate) fn digest_copy(copy: &mut FileCopy<'_, '_>, algorithm: Digest) -> Result<SourceDigest> {
    let (source, gate) = (copy.source, copy.context().gate);
    let begin = Stopwatch::start(gate);
    let side = Side { fd: copy.staging.fd(), size: copy.receipt.bytes, is_compressed: false };
    let value = hash_copy(source, side, algorithm, &mut *copy.observer)?;
    Ok(SourceDigest {
        algorithm: algorithm.name(),
        value,
        from: DigestedFrom::ReadFromCopy,
        duration: begin.elapsed(),
    })
}

/// Bytes to hash: those of a file, or the decompressed contents of one.
#[derive(Debug, Clone, Copy)]
struct Side<'a> {
    fd: BorrowedFd<'a>,
    /// Length of the file.
    size: u64,
    is_compressed: bool,
}

/// Returns the hexadecimal digest of the copy alone.
fn hash_copy(
    source: &Source<'_>,
    copy: Side<'_>,
    algorithm: Digest,
    observer: &mut dyn Observer,
) -> Result<String> {
    let (phase, total_bytes) = (Phase::Verifying, copy.size);
    let hashed = hash(copy, algorithm, |done_bytes| {
        observer.progress(Progress { phase, done_bytes, total_bytes }) == Control::Continue
    });
    hashed.map_err(|trouble| match trouble {
        Trouble::System(Errno::ECANCELED) => Error::new("copy", source.path, Reason::Cancelled),
        trouble => trouble.on("read back the copy of", source.path),
    })
}

/// Returns both hexadecimal digests; hashes a large source on a second thread.
fn hash_both(
    source: &Source<'_>,
    original: Side<'_>,
    copy: Side<'_>,
    algorithm: Digest,
    gate: Option<&Gate>,
    observer: &mut dyn Observer,
) -> Result<(String, String)> {
    let stop = AtomicBool::new(false);
    let source_done = AtomicU64::new(0);
    let mut report = |done: u64| {
        let done_bytes = done + source_done.load(Ordering::Relaxed);
        let total_bytes = original.size.saturating_add(copy.size);
        let control =
            observer.progress(Progress { phase: Phase::Verifying, done_bytes, total_bytes });
        if control == Control::Stop {
            stop.store(true, Ordering::Relaxed);
        }
        !stop.load(Ordering::Relaxed)
    };
    let answer = || if stop.load(Ordering::Relaxed) { Control::Stop } else { Control::Continue };
    let hash_source = |gate: Option<&Gate>| {
        hash(original, algorithm, |done| {
            source_done.store(done, Ordering::Relaxed);
            gate.map_or_else(answer, |gate| gate.control(answer)) == Control::Continue
        })
    };
    let cancelled = Trouble::System(Errno::ECANCELED);
    let (expected, found) = if original.size.max(copy.size) < PARALLEL_MIN_BYTES {
        (hash_source(None), hash(copy, algorithm, &mut report))
    } else {
        let (here, is_done) = (thread::current(), AtomicBool::new(false));
        thread::scope(|scope| {
            let hash_aside = || {
                let inside = gate.map(Gate::enter);
                let hashed = hash_source(gate);
                drop(inside);
                is_done.store(true, Ordering::Release);
                here.unpark();
                hashed
            };
            // If no thread can be started (RLIMIT_NPROC), one after the other.
            let other = thread::Builder::new().spawn_scoped(scope, hash_aside);
            let found = hash(copy, algorithm, &mut report);
            if matches!(found, Err(Trouble::System(_))) {
                stop.store(true, Ordering::Relaxed);
            }
            let expected = match other {
                Ok(other) => {
                    while !is_done.load(Ordering::Acquire) && !other.is_finished() {
                        report(copy.size);
                        thread::park_timeout(PATIENCE);
                    }
                    other.join().unwrap_or(Err(cancelled.clone()))
                }
                Err(_) if found.is_err() => Err(cancelled.clone()),
                Err(_) => hash_source(None),
            };
            (expected, found)
        })
    };
    match (expected, found) {
        (_, Err(Trouble::System(errno))) if errno != Errno::ECANCELED => {
            Err(Error::destination("read back the copy of", source.path, errno))
        }
        (Err(trouble), _) if trouble != cancelled => Err(trouble.on("read", source.path)),
        // Damage stands for a digest that differs from every other.
        (Ok(expected), Err(Trouble::Damaged { what, .. })) => Ok((expected, what)),
        (Ok(expected), Ok(found)) => Ok((expected, found)),
        _ => Err(Error::new("copy", source.path, Reason::Cancelled)),
    }
}

/// Returns the digest of one side. `on_progress` gets the number of bytes done, and may stop the work
/// (`ECANCELED`).
fn hash(
    side: Side<'_>,
    algorithm: Digest,
    mut on_progress: impl FnMut(u64) -> bool,
) -> Result<String, Trouble> {
    let Side { fd, size, is_compressed } = side;
    let mut hasher = Hasher::new(algorithm)?;
    let mut go_on = |done| if on_progress(done) { Ok(()) } else { Err(Errno::ECANCELED) };
    if is_compressed {
        let mut reader = Reader::new(fd)?;
        let mut buffer = vec![0; DECODED_BYTES];
        loop {
            let n = reader.read(&mut buffer)?;
            hasher.update(&buffer[..n]);
            go_on(reader.consumed())?;
            if n < buffer.len() {
                return Ok(hasher.finish());
            }
        }
    }
    let mut buffer = AlignedBuffer::new(size.min(READ_BYTES as u64) as usize)?;
    let read_at = |buffer: &mut [u8], offset| loop {
        match transfer::read_at(fd, buffer, offset) {
            Err(Errno::EINTR) => {}
            read => return read.map_err(Trouble::System),
        }
    };
    hasher.update_from(size, &mut buffer, read_at, |done| go_on(done).map_err(Trouble::System))?;
    Ok(hasher.finish())
}

/// The written file, read past the page cache where possible.
struct Uncached<'a> {
    fd: BorrowedFd<'a>,
    direct: bool,
    from: VerifiedFrom,
}

impl<'a> Uncached<'a> {
    fn new(fd: BorrowedFd<'a>, size: u64) -> Sys<Uncached<'a>> {
        let stat = file::stat(fd)?;
        let direct = stat.direct.is_some_and(|a| a.memory <= 4096 && a.offset <= READ_BYTES as u32)
            && file::set_direct(fd, true).is_ok();
        if !direct {
            // Clean pages only: the data has been flushed.
            let _ = file::drop_cache(fd, 0, size);
        }
        let (major, minor) = stat.device;
        let kind = Device::with_number(major, minor).kind;
        let magic = file::filesystem_magic(fd).unwrap_or(0);
        let from_device = direct
            && matches!(kind, DeviceKind::Disk | DeviceKind::Stacked)
            && !Filesystem::from_magic(magic).is_memory();
        let from = if from_device { VerifiedFrom::Device } else { VerifiedFrom::Cache };
        Ok(Uncached { fd, direct, from })
    }
}

impl Drop for Uncached<'_> {
    fn drop(&mut self) {
        if self.direct {
            let _ = file::set_direct(self.fd, false);
        }
    }
}

/// Whether both files map the same blocks over their whole length, every block allocated and shared.
fn shares_everything(source: BorrowedFd<'_>, destination: BorrowedFd<'_>, size: u64) -> bool {
    let same_length = file::stat(destination).is_ok_and(|s| s.size == size);
    same_length && file::share_all_extents(source, destination) == Ok(true)
}
