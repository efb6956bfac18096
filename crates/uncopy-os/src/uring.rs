//! `O_DIRECT` reads followed by `O_DIRECT` writes of the same pages, several in flight.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use io_uring::{IoUring, opcode, squeue, types};

use super::Sys;
use crate::AlignedBuffer;
use uncopy_core::Errno;

/// Maximum number of consecutive `EAGAIN` or `EBUSY` answers before the ring is given up.
const MAX_STALLS: u32 = 1000;

/// End of a call of [`DirectRing::copy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingEnd {
    /// Everything was moved.
    Done,
    /// The source ended before.
    SourceEnded,
    /// A read or write failed.
    Failed(Errno),
}

/// State of a buffer.
#[derive(Debug, Clone, Copy)]
enum BufferState {
    Idle,
    Reading { block: usize, done: usize },
    Writing { block: usize, length: usize, done: usize },
}

/// A ring with registered buffers, each of which moves one block at a time.
pub struct DirectRing {
    ring: IoUring,
    buffers: Vec<AlignedBuffer>,
    states: Vec<BufferState>,
    block_bytes: usize,
    /// Operations on `buffers` that have not completed.
    in_flight: usize,
    /// Consecutive `EAGAIN` or `EBUSY` answers.
    stalls: u32,
    /// Whether submitting failed, so that the kernel may still use `buffers`, which are leaked then.
    lost: bool,
}

/// State of one [`DirectRing::copy`].
struct CopyJob {
    source: RawFd,
    destination: RawFd,
    offset: u64,
    length: u64,
    next_block: usize,
    done: Vec<bool>,
    end: RingEnd,
}

impl DirectRing {
    /// Creates a ring with `depth` registered buffers of `block_bytes` each. `ENOMEM`: more than
    /// `RLIMIT_MEMLOCK`; `ENOSYS` or `EPERM`: this process cannot use io_uring.
    pub fn new(depth: usize, block_bytes: usize) -> Sys<DirectRing> {
        let entries = (depth as u32).next_power_of_two();
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))
            .map_err(|e| errno_of(&e))?;
        let buffers = (0..depth).map(|_| AlignedBuffer::new(block_bytes));
        let mut buffers = buffers.collect::<Sys<Vec<_>>>()?;
        let iovecs: Vec<_> = buffers
            .iter_mut()
            .map(|b| libc::iovec { iov_base: b.as_mut_ptr().cast(), iov_len: b.len() })
            .collect();
        // SAFETY: the returned value owns the buffers, and its drop waits for every operation on them
        // before they are freed.
        unsafe { ring.submitter().register_buffers(&iovecs) }.map_err(|e| errno_of(&e))?;
        let states = vec![BufferState::Idle; depth];
        Ok(DirectRing { ring, buffers, states, block_bytes, in_flight: 0, stalls: 0, lost: false })
    }

    /// Moves `length` bytes at `offset`, both multiples of the alignment of both files, which are open with
    /// `O_DIRECT`. Returns the contiguous prefix moved, in bytes. No operation is in flight afterwards.
    pub fn copy(
        &mut self,
        source: impl AsFd,
        destination: impl AsFd,
        offset: u64,
        length: u64,
    ) -> (u64, RingEnd) {
        let blocks = length.div_ceil(self.block_bytes as u64) as usize;
        let mut job = CopyJob {
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

    /// Submits queued operations, waits for a completion, and handles all completions.
    fn turn(&mut self, job: &mut CopyJob) {
        match self.ring.submit_and_wait(1).map_err(|error| errno_of(&error)) {
            Ok(_) => self.stalls = 0,
            Err(Errno::EINTR) => {}
            // The caller has to reap completions and try again (`io_uring_enter(2)`).
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

    fn complete(&mut self, job: &mut CopyJob, slot: usize, result: i32) {
        let state = std::mem::replace(&mut self.states[slot], BufferState::Idle);
        let n = match usize::try_from(result) {
            Ok(n) => n,
            Err(_) => {
                let errno = Errno::from_raw(-result);
                let retry = matches!(errno, Errno::EINTR | Errno::EAGAIN);
                return if retry { self.queue(job, slot, state) } else { job.fail(errno) };
            }
        };
        match state {
            BufferState::Idle => {}
            BufferState::Reading { .. } if n == 0 => job.source_ended(),
            BufferState::Reading { block, done } => {
                let (done, want) = (done + n, job.block_length(block, self.block_bytes));
                let next = if done >= want {
                    BufferState::Writing { block, length: want, done: 0 }
                } else {
                    BufferState::Reading { block, done }
                };
                self.queue(job, slot, next);
            }
            BufferState::Writing { .. } if n == 0 => job.fail(Errno::EIO),
            BufferState::Writing { block, length, done } if done + n < length => {
                self.queue(job, slot, BufferState::Writing { block, length, done: done + n });
            }
            BufferState::Writing { block, .. } => {
                job.done[block] = true;
                self.start_block(job, slot);
            }
        }
    }

    fn start_block(&mut self, job: &mut CopyJob, slot: usize) {
        if job.end == RingEnd::Done && job.next_block < job.done.len() {
            let block = job.next_block;
            job.next_block += 1;
            self.queue(job, slot, BufferState::Reading { block, done: 0 });
        }
    }

    /// Queues the operation for `state` on the buffer `slot`.
    fn queue(&mut self, job: &mut CopyJob, slot: usize, state: BufferState) {
        let index = slot as u16;
        let start = self.buffers[slot].as_mut_ptr();
        let entry: squeue::Entry = match state {
            BufferState::Idle => return,
            BufferState::Reading { block, done } => {
                let length = (job.block_length(block, self.block_bytes) - done) as u32;
                let at = job.offset + (block * self.block_bytes + done) as u64;
                let start = start.wrapping_add(done);
                opcode::ReadFixed::new(types::Fd(job.source), start, length, index)
                    .offset(at)
                    .build()
            }
            BufferState::Writing { block, length, done } => {
                let at = job.offset + (block * self.block_bytes + done) as u64;
                let (start, length) = (start.wrapping_add(done), (length - done) as u32);
                opcode::WriteFixed::new(types::Fd(job.destination), start, length, index)
                    .offset(at)
                    .build()
            }
        };
        // SAFETY: the operation accesses only the registered buffer `slot`, within its length; buffer and
        // ring live until the operation has completed, which `copy` and `drop` wait for. The descriptors
        // are borrowed by `copy`, which returns after that.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) };
        match pushed {
            Ok(()) => {
                self.in_flight += 1;
                self.states[slot] = state;
            }
            Err(_) => job.fail(Errno::EAGAIN),
        }
    }
}

impl CopyJob {
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
            // The kernel may still write into the buffers, so they are leaked.
            self.buffers.drain(..).for_each(std::mem::forget);
        } else {
            // The kernel closes a ring some time after its descriptor, and the memory would count as locked until
            // then (`io_ring_exit_work` in `io_uring/io_uring.c`).
            let _ = self.ring.submitter().unregister_buffers();
        }
    }
}

pub fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}
