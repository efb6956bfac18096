//! Sends through io_uring, and the memory they lend (`io_uring_enter(2)`, `IORING_OP_SEND_ZC`).
//!
//! Soundness is here. An [`Operation`] owns everything that its request points to. It is dropped or
//! given back only before the request was given to the kernel, or after the kernel has ended it: with
//! a result that announces nothing more, or with the notification that a result announced
//! (`IORING_CQE_F_MORE`, which errors can carry too). A ring that is dropped waits for that, and
//! leaks what does not come in time; one that is forgotten keeps everything for ever.

mod operation;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::Sys;
use super::inet::Transport;
use super::uring::raw;
use super::zerocopy::{Landed, parking};
use crate::buf::{Pool, StableBytes};
use crate::error::Errno;
pub(crate) use operation::Operation;
use operation::{Ability, Means, Stage};

/// Pools that one ring can register.
pub(crate) const MAX_POOLS: u32 = 64;
/// What one request sends at most (`MAX_RW_COUNT` in `include/linux/fs.h`).
pub(crate) const MAX_BYTES: usize = 0x7fff_f000;
/// `IORING_NOTIF_USAGE_ZC_COPIED` (`include/uapi/linux/io_uring.h`).
const ZC_COPIED: u32 = 1 << 31;
/// Requests whose end nobody waits for.
const NOBODY: u64 = u64::MAX;

/// How a ring is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Requests that one call can submit; a power of two.
    pub(crate) entries: u32,
    /// Completions that wait to be read; `None`: four for each entry.
    pub(crate) completions: Option<u32>,
    /// How long a dropped ring waits before it aborts connections.
    pub(crate) linger: Duration,
}

/// What a ring has registered.
pub(crate) struct Registered {
    /// Sends nothing. `None`: the kernel cannot do this.
    ring: Option<IoUring>,
    pub(crate) pools: Vec<Pool>,
}

/// What became of a send.
pub(crate) enum Step<B> {
    /// The kernel took so many bytes, or refused.
    Result { number: u64, result: Sys<usize> },
    /// Its memory is free.
    Landed(Landed<B>),
}

/// A ring that sends.
pub(crate) struct SendRing<B: StableBytes> {
    ring: IoUring,
    /// By number, from `first` on. `None`: landed.
    operations: VecDeque<Option<Operation<B>>>,
    first: u64,
    /// Not given to the kernel, in ascending order.
    waiting: VecDeque<u64>,
    /// Sends that the kernel has, or will be given with the next call, and has not ended.
    in_kernel: usize,
    pools: Vec<Pool>,
    ability: Ability,
    linger: Duration,
    /// `IORING_SETUP_SINGLE_ISSUER`: the thread that made it alone may use it.
    _thread: PhantomData<*const ()>,
}

impl<B: StableBytes> SendRing<B> {
    /// A ring, used by the calling thread alone where the kernel has that.
    pub(crate) fn new(setup: Setup) -> Sys<SendRing<B>> {
        let entries = setup.entries.next_power_of_two();
        let completions = setup.completions.unwrap_or(entries.saturating_mul(4));
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(completions)
            .dontfork()
            .build(entries)
            .or_else(|_| IoUring::builder().setup_cqsize(completions).dontfork().build(entries))
            .map_err(|error| raw(&error))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(|error| raw(&error))?;
        let needed = [opcode::SendZc::CODE, opcode::SendMsgZc::CODE];
        if !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(SendRing {
            ring,
            operations: VecDeque::new(),
            first: 0,
            waiting: VecDeque::new(),
            in_kernel: 0,
            pools: Vec::new(),
            ability: Ability::of(&super::probe::kernel_release()),
            linger: setup.linger,
            _thread: PhantomData,
        })
    }

    /// Has the kernel look up and pin the pages of a pool once. Its memory is kept as long as the
    /// ring. `ENOMEM`: more than may be locked.
    pub(crate) fn register(&mut self, pool: &Pool) -> Sys<()> {
        if self.pools.is_empty() {
            match self.ring.submitter().register_buffers_sparse(MAX_POOLS) {
                Err(error) if raw(&error) != Errno::EBUSY => return Err(raw(&error)),
                _ => {}
            }
        }
        let index = u32::try_from(self.pools.len()).ok().filter(|index| *index < MAX_POOLS);
        let index = index.ok_or(Errno::EMFILE)?;
        let (start, length) = pool.extent();
        let region = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: length };
        // SAFETY: the memory is mapped as long as the pool, a handle of which is kept until the
        // ring is gone; and the kernel pins the pages.
        let registered =
            unsafe { self.ring.submitter().register_buffers_update(index, &[region], None) };
        registered.map_err(|error| raw(&error))?;
        self.pools.push(pool.clone());
        Ok(())
    }

    /// What is registered, for other rings, in other threads too.
    ///
    /// Only its own thread may take from a ring that belongs to one (`EEXIST`), so that a small
    /// ring that belongs to none takes it first.
    pub(crate) fn registered(&self) -> Registered {
        let ring = IoUring::builder().dontfork().build(1).and_then(|ring| {
            ring.submitter().register_buffers_clone(self.ring.as_raw_fd())?;
            Ok(ring)
        });
        Registered { ring: ring.ok(), pools: self.pools.clone() }
    }

    /// Takes over what another ring has registered, without the kernel looking up the pages again
    /// (Linux 6.12). `EBUSY`: something is registered here already.
    pub(crate) fn register_clone(&mut self, registered: &Registered) -> Sys<()> {
        let from = registered.ring.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        let clone = self.ring.submitter().register_buffers_clone(from.as_raw_fd());
        clone.map_err(|error| raw(&error))?;
        self.pools = registered.pools.clone();
        Ok(())
    }

    /// The pool is registered.
    pub(crate) fn has(&self, pool: &Pool) -> bool {
        self.pools.iter().any(|known| known.is(pool))
    }

    /// Takes a send in, to be submitted; gives its number.
    pub(crate) fn push(&mut self, operation: Operation<B>) -> u64 {
        let number = self.first + self.operations.len() as u64;
        self.operations.push_back(Some(operation));
        self.waiting.push_back(number);
        number
    }

    /// Sends that were not submitted.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn operation(&mut self, number: u64) -> Option<&mut Operation<B>> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.operations.get_mut(index)?.as_mut()
    }

    /// Submits what waits, as far as there is room, and waits until `want` completions are there or
    /// the time is over (`None`: never).
    ///
    /// Of a stream, only sends that follow one another are submitted together, linked; the next
    /// when their results are in: what finds the socket full would be overtaken else.
    pub(crate) fn submit(&mut self, want: usize, timeout: Option<Duration>) -> Sys<()> {
        self.fill();
        // Nothing else can complete.
        let want = want.min(self.in_kernel);
        let submitted = match timeout {
            None => self.ring.submitter().submit_and_wait(want),
            Some(timeout) => {
                let time = Timespec::from(timeout);
                let arguments = SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(want, &arguments)
            }
        };
        match submitted.map_err(|error| raw(&error)) {
            // ETIME: the time is over. EBUSY: completions overflowed, and are to be read first.
            Ok(_) | Err(Errno::EINTR | Errno::EAGAIN | Errno::EBUSY | ETIME) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Moves what may go from `waiting` into the submission queue.
    fn fill(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut numbers = waiting.into_iter().peekable();
        let mut held: VecDeque<u64> = VecDeque::new();
        let mut streams_in_batch: Vec<usize> = Vec::new();
        let mut last_stream: Option<usize> = None;
        let room = self.room();
        let mut taken = 0;
        while let Some(number) = numbers.next() {
            let Some(stream) = self.stream_of(number) else { continue };
            let continues = stream.is_some() && stream == last_stream;
            let is_held = stream.is_some_and(|stream| {
                !continues && (streams_in_batch.contains(&stream) || self.owes_result(stream))
            });
            if taken == room || is_held {
                // What follows on this stream must wait as well.
                streams_in_batch.extend(stream);
                held.push_back(number);
                if taken == room {
                    held.extend(numbers);
                    break;
                }
                continue;
            }
            let next = numbers.peek().copied().filter(|_| taken + 1 < room);
            let next = next.and_then(|next| self.stream_of(next)).flatten();
            let links = stream.is_some() && next == stream;
            self.queue(number, links);
            streams_in_batch.extend(stream.filter(|_| !continues));
            last_stream = stream;
            taken += 1;
        }
        // None, as there was room.
        let refused = std::mem::replace(&mut self.waiting, held);
        refused.into_iter().for_each(|number| self.put_back(number));
    }

    /// Entries free in the submission queue.
    fn room(&mut self) -> usize {
        let queue = self.ring.submission();
        queue.capacity() - queue.len()
    }

    /// Which stream a send is on (`Some(None)`: it is a datagram).
    fn stream_of(&mut self, number: u64) -> Option<Option<usize>> {
        let operation = self.operation(number)?;
        let stream = std::sync::Arc::as_ptr(&operation.socket) as usize;
        Some(operation.is_stream().then_some(stream))
    }

    /// A send of the stream is with the kernel and has no result.
    fn owes_result(&self, stream: usize) -> bool {
        self.in_kernel > 0
            && self.operations.iter().flatten().any(|operation| {
                operation.stage == Stage::Submitted
                    && std::sync::Arc::as_ptr(&operation.socket) as usize == stream
            })
    }

    fn queue(&mut self, number: u64, links: bool) {
        let ability = self.ability;
        let pools = std::mem::take(&mut self.pools);
        if let Some(operation) = self.operation(number) {
            let means = Means { pools: &pools, ability };
            let mut entry = operation.entry(means).user_data(number);
            operation.stage = Stage::Submitted;
            if links {
                entry = entry.flags(squeue::Flags::IO_LINK);
            }
            // SAFETY: everything the entry points to belongs to the operation, whose buffers keep
            // the contract of `StableBytes`. It stays in `operations`, untouched, until the kernel
            // has ended the request; moving it there moves none of what is pointed to. Registered
            // pages belong to a pool that is kept.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            match pushed {
                Ok(()) => self.in_kernel += 1,
                Err(_) => self.put_back(number),
            }
        }
        self.pools = pools;
    }

    /// Has the kernel make a send later that it does not have, before all with higher numbers.
    fn put_back(&mut self, number: u64) {
        if let Some(operation) = self.operation(number) {
            operation.stage = Stage::Waiting;
        }
        let place = self.waiting.partition_point(|waiting| *waiting < number);
        self.waiting.insert(place, number);
    }

    /// Asks the kernel to end a send early; its result says whether it did. One that was not
    /// submitted ends at once.
    pub(crate) fn cancel(&mut self, number: u64, steps: &mut VecDeque<Step<B>>) {
        if let Ok(place) = self.waiting.binary_search(&number) {
            self.waiting.remove(place);
            steps.push_back(Step::Result { number, result: Err(Errno::ECANCELED) });
            self.land(number, steps);
            return;
        }
        match self.operation(number) {
            Some(operation) if operation.stage == Stage::Submitted => operation.is_canceled = true,
            _ => return,
        }
        let entry = opcode::AsyncCancel::new(number).build().user_data(NOBODY);
        // SAFETY: the request points to nothing.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() && self.ring.submitter().submit().is_ok() {
            // SAFETY: as above. A second failure leaves the send to its own end.
            let _ = unsafe { self.ring.submission().push(&entry) };
        }
    }

    /// Handles every completion that is there. `again` says of a refusal whether the send is to be
    /// made once more, copied.
    pub(crate) fn reap(
        &mut self,
        steps: &mut VecDeque<Step<B>>,
        mut again: impl FnMut(u64, Errno, Transport, bool) -> bool,
    ) -> Sys<()> {
        if self.ring.completion().is_empty() && self.has_deferred_work() {
            self.submit(0, None)?;
        }
        loop {
            let Some(completion) = self.ring.completion().next() else { break };
            let (number, flags) = (completion.user_data(), completion.flags());
            if cqueue::notif(flags) {
                let copied = completion.result() as u32 & ZC_COPIED != 0;
                self.notified(number, copied, steps);
            } else if number != NOBODY {
                let result = completion.result();
                let result = usize::try_from(result).map_err(|_| Errno::from_raw(-result));
                self.ended(number, result, cqueue::more(flags), steps, &mut again);
            }
        }
        Ok(())
    }

    /// Completions wait in the kernel for a call.
    fn has_deferred_work(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    fn ended(
        &mut self,
        number: u64,
        result: Sys<usize>,
        more: bool,
        steps: &mut VecDeque<Step<B>>,
        again: &mut impl FnMut(u64, Errno, Transport, bool) -> bool,
    ) {
        let Some(operation) = self.operation(number) else { return };
        let (transport, lent) = (operation.socket.transport(), operation.lend);
        let length = operation.payload.len();
        // Cut off by one before it that is made again: it keeps its place.
        let is_behind = result == Err(Errno::ECANCELED) && self.is_behind_retry(number);
        let is_copied = result.is_err_and(|errno| again(number, errno, transport, lent));
        let is_again = is_behind || is_copied;
        let Some(operation) = self.operation(number) else { return };
        operation.lend &= !is_copied;
        if let Ok(bytes) = result {
            operation.usage.bytes += bytes;
            // One that announces no notification was copied, however it was asked for.
            let parts = match more {
                true => &mut operation.usage.lent_parts,
                false => &mut operation.usage.copied_parts,
            };
            *parts += 1;
        }
        let result = match result {
            // A stream that broke in the middle: the error comes with the next call.
            Ok(bytes) if transport == Transport::Tcp && bytes < length => {
                match operation.is_canceled {
                    true => Err(Errno::ECANCELED),
                    false => Err(operation.socket.take_error().unwrap_or(Errno::EPIPE)),
                }
            }
            other => other,
        };
        if !is_again {
            steps.push_back(Step::Result { number, result });
        }
        if more {
            operation.stage = Stage::Lent { again: is_again };
            return;
        }
        self.in_kernel -= 1;
        match is_again {
            true => self.put_back(number),
            false => self.land(number, steps),
        }
    }

    /// A send on the same stream, before this one, is to be made once more.
    fn is_behind_retry(&mut self, number: u64) -> bool {
        let Some(Some(stream)) = self.stream_of(number) else { return false };
        let before = usize::try_from(number - self.first).unwrap_or(0);
        self.operations.iter().take(before).flatten().any(|operation| {
            let is_retried =
                matches!(operation.stage, Stage::Waiting | Stage::Lent { again: true });
            is_retried && std::sync::Arc::as_ptr(&operation.socket) as usize == stream
        })
    }

    fn notified(&mut self, number: u64, copied: bool, steps: &mut VecDeque<Step<B>>) {
        let is_reported = self.ability.reports;
        let Some(operation) = self.operation(number) else { return };
        let Stage::Lent { again } = operation.stage else { return };
        operation.usage.copied_later |= copied;
        operation.usage.is_unreported |= !is_reported;
        self.in_kernel -= 1;
        match again {
            true => self.put_back(number),
            false => self.land(number, steps),
        }
    }

    /// Gives an operation back that the kernel does not have.
    fn land(&mut self, number: u64, steps: &mut VecDeque<Step<B>>) {
        let Some(index) = number.checked_sub(self.first) else { return };
        let slot = usize::try_from(index).ok().and_then(|index| self.operations.get_mut(index));
        let Some(operation) = slot.and_then(Option::take) else { return };
        let landed = Landed { number, payload: operation.payload, usage: operation.usage };
        steps.push_back(Step::Landed(landed));
        while let Some(None) = self.operations.front() {
            self.operations.pop_front();
            self.first += 1;
        }
    }

    /// Waits until the kernel has ended everything, or the time is over.
    fn settle(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut steps = VecDeque::new();
        while self.in_kernel > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.submit(1, Some(left)).is_err() {
                return;
            }
            if self.reap(&mut steps, |_, _, _, _| false).is_err() {
                return;
            }
            steps.clear();
        }
    }
}

/// `ETIME` (`errno(3)`).
const ETIME: Errno = Errno::from_raw(62);

/// After connections were aborted, what they held comes back at once.
const AFTER_ABORT: Duration = Duration::from_secs(1);

impl<B: StableBytes> Drop for SendRing<B> {
    fn drop(&mut self) {
        // What was not submitted never is.
        self.waiting.clear();
        self.settle(self.linger);
        if self.in_kernel > 0 {
            let streams = self.operations.iter().flatten();
            for operation in streams.filter(|operation| operation.stage != Stage::Waiting) {
                if operation.is_stream() {
                    operation.socket.abort();
                }
            }
            self.settle(AFTER_ABORT);
        }
        if self.in_kernel > 0 {
            // The kernel may still read them, and nobody will be told when it does not.
            std::mem::forget(std::mem::take(&mut self.operations));
            parking::leaked();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{SendRing, Setup};
    use crate::buf::{PageSize, Pool, PoolSlice};

    fn ring() -> SendRing<PoolSlice> {
        let setup = Setup { entries: 4, completions: None, linger: Duration::ZERO };
        SendRing::new(setup).unwrap()
    }

    #[test]
    fn what_is_registered_is_cloned_in_another_thread() {
        let pool = Pool::new(1, 100, PageSize::Base).unwrap();
        let mut first = ring();
        first.register(&pool).unwrap();
        let registered = first.registered();
        drop(first);
        if registered.ring.is_none() {
            // Before Linux 6.12 there is no such thing.
            return;
        }
        let cloned = || ring().register_clone(&registered);
        std::thread::scope(|scope| assert_eq!(scope.spawn(cloned).join().unwrap(), Ok(())));
    }
}
