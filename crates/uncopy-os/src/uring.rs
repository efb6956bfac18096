//! `O_DIRECT` reads followed by `O_DIRECT` writes of the same pages, several in flight.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use io_uring::{IoUring, opcode, squeue, types};

use super::Sys;
use crate::AlignedBuffer;
use uncopy_core::Errno;

/// After so many it is given up.
const MAX_STALLS: u32 = 1000;

/// How a call to [`DirectRing::copy`] ended, besides the bytes moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingEnd {
    /// Everything asked for was moved.
    Done,
    /// The source ended before.
    SourceEnded,
    /// A read or write failed.
    Failed(Errno),
}

/// Where a buffer stands between being read into and being written out.
#[derive(Debug, Clone, Copy)]
enum Step {
    Idle,
    Reading { block: usize, done: usize },
    Writing { block: usize, length: usize, done: usize },
}

/// A ring with registered buffers, each of which carries one block from source to destination.
pub struct DirectRing {
    ring: IoUring,
    buffers: Vec<AlignedBuffer>,
    steps: Vec<Step>,
    block_bytes: usize,
    /// Operations that the kernel may still carry out on `buffers`.
    in_flight: usize,
    /// Times in a row that the kernel had no room.
    stalls: u32,
    /// The kernel did not take or return what was submitted: `buffers` are given up to it.
    lost: bool,
}

/// One call's view of what is to be moved.
struct Job {
    source: RawFd,
    destination: RawFd,
    offset: u64,
    length: u64,
    next_block: usize,
    done: Vec<bool>,
    end: RingEnd,
}

impl DirectRing {
    /// `depth` buffers of `block_bytes` each, registered with a new ring. `ENOMEM`: more than
    /// `RLIMIT_MEMLOCK`; `ENOSYS` or `EPERM`: no io_uring for this process.
    pub fn new(depth: usize, block_bytes: usize) -> Sys<DirectRing> {
        let entries = (depth as u32).next_power_of_two();
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))
            .map_err(|e| errno_of(&e))?;
        let mut buffers: Vec<_> = (0..depth).map(|_| AlignedBuffer::new(block_bytes)).collect();
        let iovecs: Vec<_> = buffers
            .iter_mut()
            .map(|b| libc::iovec { iov_base: b.as_mut_ptr().cast(), iov_len: b.len() })
            .collect();
        // SAFETY: the buffers are owned by the value returned, whose drop waits for every
        // operation on them before they are freed.
        unsafe { ring.submitter().register_buffers(&iovecs) }.map_err(|e| errno_of(&e))?;
        let steps = vec![Step::Idle; depth];
        Ok(DirectRing { ring, buffers, steps, block_bytes, in_flight: 0, stalls: 0, lost: false })
    }

    /// Moves `length` bytes at `offset`, both multiples of the alignment of both files, which are
    /// open with `O_DIRECT`. Returns how many bytes were moved without a gap from `offset` on;
    /// nothing is in flight any more.
    pub fn copy(
        &mut self,
        source: impl AsFd,
        destination: impl AsFd,
        offset: u64,
        length: u64,
    ) -> (u64, RingEnd) {
        let blocks = length.div_ceil(self.block_bytes as u64) as usize;
        let mut job = Job {
            source: source.as_fd().as_raw_fd(),
            destination: destination.as_fd().as_raw_fd(),
            offset,
            length,
            next_block: 0,
            done: vec![false; blocks],
            end: RingEnd::Done,
        };
        for slot in 0..self.buffers.len() {
            self.start_block(&mut job, slot);
        }
        while self.in_flight > 0 && !self.lost {
            self.turn(&mut job);
        }
        let whole = job.done.iter().take_while(|done| **done).count();
        ((whole as u64 * self.block_bytes as u64).min(length), job.end)
    }

    /// Submits what is queued, waits for a completion and handles all that are there.
    fn turn(&mut self, job: &mut Job) {
        match self.ring.submit_and_wait(1).map_err(|error| errno_of(&error)) {
            Ok(_) => self.stalls = 0,
            Err(Errno::EINTR) => {}
            // Completions are to be taken, and then it is to be tried again (`io_uring_enter(2)`).
            Err(Errno::EAGAIN | Errno::EBUSY) if self.stalls < MAX_STALLS => {
                self.stalls += 1;
                std::thread::yield_now();
            }
            Err(errno) => {
                self.lost = true;
                job.end = RingEnd::Failed(errno);
                return;
            }
        }
        let completions: Vec<_> =
            self.ring.completion().map(|c| (c.user_data() as usize, c.result())).collect();
        for (slot, result) in completions {
            self.in_flight -= 1;
            self.complete(job, slot, result);
        }
    }

    fn complete(&mut self, job: &mut Job, slot: usize, result: i32) {
        let step = std::mem::replace(&mut self.steps[slot], Step::Idle);
        let n = match usize::try_from(result) {
            Ok(n) => n,
            Err(_) => {
                let errno = Errno::from_raw(-result);
                let retry = matches!(errno, Errno::EINTR | Errno::EAGAIN);
                return if retry { self.queue(job, slot, step) } else { job.fail(errno) };
            }
        };
        match step {
            Step::Idle => {}
            Step::Reading { .. } if n == 0 => job.source_ended(),
            Step::Reading { block, done } => {
                let (done, want) = (done + n, job.block_length(block, self.block_bytes));
                let next = if done >= want {
                    Step::Writing { block, length: want, done: 0 }
                } else {
                    Step::Reading { block, done }
                };
                self.queue(job, slot, next);
            }
            Step::Writing { .. } if n == 0 => job.fail(Errno::EIO),
            Step::Writing { block, length, done } if done + n < length => {
                self.queue(job, slot, Step::Writing { block, length, done: done + n });
            }
            Step::Writing { block, .. } => {
                job.done[block] = true;
                self.start_block(job, slot);
            }
        }
    }

    fn start_block(&mut self, job: &mut Job, slot: usize) {
        if job.end == RingEnd::Done && job.next_block < job.done.len() {
            let block = job.next_block;
            job.next_block += 1;
            self.queue(job, slot, Step::Reading { block, done: 0 });
        }
    }

    /// Queues the operation that `step` stands for on the buffer `slot`.
    fn queue(&mut self, job: &mut Job, slot: usize, step: Step) {
        let index = slot as u16;
        let start = self.buffers[slot].as_mut_ptr();
        let entry: squeue::Entry = match step {
            Step::Idle => return,
            Step::Reading { block, done } => {
                let length = (job.block_length(block, self.block_bytes) - done) as u32;
                let at = job.offset + (block * self.block_bytes + done) as u64;
                let start = start.wrapping_add(done);
                opcode::ReadFixed::new(types::Fd(job.source), start, length, index)
                    .offset(at)
                    .build()
            }
            Step::Writing { block, length, done } => {
                let at = job.offset + (block * self.block_bytes + done) as u64;
                let (start, length) = (start.wrapping_add(done), (length - done) as u32);
                opcode::WriteFixed::new(types::Fd(job.destination), start, length, index)
                    .offset(at)
                    .build()
            }
        };
        // SAFETY: the operation touches registered buffer `slot` only, within its length; buffer
        // and ring live until the operation has completed, which `copy` and `drop` wait for. The
        // descriptors are borrowed by `copy`, which returns after that.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) };
        match pushed {
            Ok(()) => {
                self.in_flight += 1;
                self.steps[slot] = step;
            }
            Err(_) => job.fail(Errno::EAGAIN),
        }
    }
}

impl Job {
    fn block_length(&self, block: usize, block_bytes: usize) -> usize {
        (self.length - (block * block_bytes) as u64).min(block_bytes as u64) as usize
    }

    fn fail(&mut self, errno: Errno) {
        if !matches!(self.end, RingEnd::Failed(_)) {
            self.end = RingEnd::Failed(errno);
        }
    }

    fn source_ended(&mut self) {
        if self.end == RingEnd::Done {
            self.end = RingEnd::SourceEnded;
        }
    }
}

impl Drop for DirectRing {
    fn drop(&mut self) {
        while self.in_flight > 0 && !self.lost {
            match self.ring.submit_and_wait(1) {
                Ok(_) => self.in_flight -= self.ring.completion().count(),
                Err(error) if errno_of(&error) == Errno::EINTR => {}
                Err(_) => self.lost = true,
            }
        }
        if self.lost {
            // The kernel may still write into them: leaked rather than freed.
            self.buffers.drain(..).for_each(std::mem::forget);
        }
    }
}

pub fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}
