//! Writers into a file through a mapping, like a database or a virtual machine.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Pause between two passes, so that other threads run.
const TURN: Duration = Duration::from_micros(50);

/// Distance between two stores: eight in each page, so that a torn page is detected too.
const STRIDE: usize = 512;

/// Timing of a writer's passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Continuously.
    Steadily,
    /// Continuously, from this delay after one of the files is opened.
    AfterOpen(Duration),
    /// One pass, and then another after each interval.
    Every(Duration),
}

/// A thread that stores a counter at every 512th byte of files through `MAP_SHARED`, from the first
/// to the last, and then the next number. [`is_of_one_moment`] is true for every state of each
/// file. When dropped, it completes the current pass, or makes the first one, and unmaps the files.
#[derive(Debug)]
pub struct MappedWriter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MappedWriter {
    /// Maps non-empty files that contain only one number, and starts.
    ///
    /// # Errors
    /// A file cannot be opened or mapped.
    pub fn start(files: &[&Path], stores: Stores) -> Result<MappedWriter> {
        let open = |path: &&Path| File::options().read(true).write(true).open(path);
        let mapped = files.iter().map(|path| Mapping::new(&open(path)?));
        let mapped = mapped.collect::<Result<Vec<_>>>()?;
        let opened = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        for path in files {
            inotify::add_watch(&opened, *path, WatchFlags::OPEN)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let stopped = || stopped.load(Ordering::Relaxed);
            let words = || mapped.iter().flat_map(Mapping::words);
            let mut number = words().map(|word| word.load(Ordering::Relaxed)).max().unwrap_or(0);
            if let Stores::AfterOpen(delay) = stores {
                while rustix::io::read(&opened, &mut [0; 1024]).is_err() && !stopped() {
                    thread::sleep(TURN);
                }
                thread::sleep(delay);
            }
            loop {
                number += 1;
                words().for_each(|word| word.store(number, Ordering::Release));
                if stopped() {
                    return;
                }
                thread::sleep(if let Stores::Every(pause) = stores { pause } else { TURN });
            }
        });
        Ok(MappedWriter { stop, thread: Some(thread) })
    }
}

impl Drop for MappedWriter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a [`MappedWriter`]'s file can have had these contents at one moment: from the first
/// store to the last, the numbers do not grow, and differ by at most one.
#[must_use]
pub fn is_of_one_moment(bytes: &[u8]) -> bool {
    let numbers = || bytes.iter().step_by(STRIDE).enumerate().map(|(i, _)| number_at(bytes, i));
    let (Some(first), Some(last)) = (numbers().next(), numbers().next_back()) else { return true };
    numbers().is_sorted_by(|before, after| before >= after) && first - last <= 1
}

fn number_at(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[index * STRIDE..][..8]);
    u64::from_ne_bytes(word)
}

/// A whole file, mapped for reading and writing.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: memory that belongs to no thread, and is only reached by atomic loads and stores.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: &File) -> Result<Mapping> {
        let length = usize::try_from(file.metadata()?.len()).map_err(Error::other)?;
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        let hint = std::ptr::null_mut();
        // SAFETY: a new mapping at a place that the kernel chooses disturbs no memory that is in use.
        let start = unsafe { libc::mmap(hint, length, protection, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::other("mapped at nothing"))?;
        Ok(Mapping { start, length })
    }

    /// Returns the positions of the stores, in order.
    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..self.length / STRIDE).map(|i| {
            let word = self.start.as_ptr().wrapping_add(i * STRIDE);
            // SAFETY: the eight bytes lie in the mapping, which lives as long as the borrow; a mapping
            // begins at a page, so that they are aligned; nobody shortens the file meanwhile, and
            // what other processes do to it they do to memory that is only used as atomic.
            unsafe { AtomicU64::from_ptr(word.cast()) }
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no borrow of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_is_distinguished_from_one_moment() {
        let of = |numbers: &[u64]| {
            let strides = numbers.iter().map(|number| {
                let mut stride = [0; STRIDE];
                stride[..8].copy_from_slice(&number.to_ne_bytes());
                stride
            });
            strides.flatten().collect::<Vec<u8>>()
        };
        for (numbers, expected) in [
            (&[][..], true),
            (&[3, 3, 3], true),
            (&[4, 3, 3], true),
            (&[4, 4, 3], true),
            (&[3, 4, 4], false),
            (&[4, 3, 4], false),
            (&[5, 4, 3], false),
            (&[5, 3, 3], false),
        ] {
            assert_eq!(is_of_one_moment(&of(numbers)), expected, "{numbers:?}");
        }
    }
}
