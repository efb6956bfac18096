//! Fills the submission queue: chooses the sends that go to the kernel next, and links them into chains.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;

use io_uring::squeue::{Entry, Flags, SubmissionQueue};

use super::OperationTable;
use crate::room::StableBytes;
use crate::room::send_ring::operation::{RingResources, Stage, Target};

/// A queue of requests for the kernel.
pub(in crate::room::send_ring) trait Requests {
    fn room(&self) -> usize;

    /// Adds a request for the send with this number; `linked`: the next request follows it in a chain.
    /// Returns whether there was room.
    ///
    /// # Safety
    /// The memory that the entry points to keeps its address and content until the kernel has ended the
    /// request.
    unsafe fn put(&mut self, number: u64, linked: bool, entry: Entry) -> bool;
}

impl Requests for SubmissionQueue<'_> {
    fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// # Safety
    /// As [`Requests::put`].
    unsafe fn put(&mut self, _: u64, _: bool, entry: Entry) -> bool {
        // SAFETY: the caller guarantees the same contract.
        unsafe { self.push(&entry) }.is_ok()
    }
}

/// Sends of one stream that are submitted together.
struct Chain {
    stream: usize,
    first: u64,
    /// Whether none of them may be submitted now.
    is_held: bool,
}

impl<B: StableBytes, C> OperationTable<B, C> {
    /// Moves all sends that may be submitted now into the submission queue.
    pub(in crate::room::send_ring) fn fill(&mut self, queue: &mut impl Requests) {
        let mut room = queue.room();
        // Datagrams need no order.
        while room > 0
            && let Some(number) = self.first_waiting()
            && self.stream_of(number) == Some(None)
        {
            self.pop_waiting();
            self.queue(queue, number, false);
            room -= 1;
        }
        if room > 0 && self.waiting() > 0 {
            self.fill_in_order(queue, room);
        }
    }

    /// Does the same when some waiting sends are on streams.
    ///
    /// A stream has one chain at a time in queue and kernel: a send for which the socket has no room waits
    /// in the kernel, and a send that is not linked to it would overtake it.
    fn fill_in_order(&mut self, queue: &mut impl Requests, room: usize) {
        let mut waiting = std::mem::take(self.waiting_mut()).into_iter();
        let mut held: VecDeque<u64> = VecDeque::new();
        let mut chains: Vec<Chain> = Vec::new();
        // Pairs of the first send of a chain and a send in it, ascending within each chain.
        let mut taken: Vec<(u64, u64)> = Vec::new();
        while taken.len() < room
            && let Some(number) = waiting.next()
        {
            match self.stream_of(number) {
                None => {}
                Some(None) => taken.push((number, number)),
                Some(Some(stream)) => {
                    let known = chains.iter().position(|chain| chain.stream == stream);
                    let chain = known.unwrap_or_else(|| {
                        let is_held = self.is_held_up(stream);
                        chains.push(Chain { stream, first: number, is_held });
                        chains.len() - 1
                    });
                    match &chains[chain] {
                        Chain { is_held: true, .. } => held.push_back(number),
                        Chain { first, .. } => taken.push((*first, number)),
                    }
                }
            }
        }
        held.extend(waiting);
        self.waiting = held;
        taken.sort_unstable();
        let mut rest = taken.into_iter().peekable();
        while let Some((first, number)) = rest.next() {
            let is_linked = rest.peek().is_some_and(|(next, _)| *next == first);
            self.queue(queue, number, is_linked);
        }
    }

    fn queue(&mut self, queue: &mut impl Requests, number: u64, is_linked: bool) {
        let OperationTable { operations, sockets, fixed, pools, ability, .. } = self;
        let Some(operation) = operations.get_mut(number) else { return };
        let resources =
            RingResources { pools: pools.as_slice(), ability: *ability, huge_by_index: true };
        let socket = &*sockets[operation.socket];
        let (fd, mut flags) = match operation.socket < *fixed {
            true => (operation.socket as i32, Flags::FIXED_FILE),
            false => (socket.fd().as_raw_fd(), Flags::empty()),
        };
        flags.set(Flags::IO_LINK, is_linked);
        let target = Target::of(fd, socket);
        let mut give = |entry: Entry| {
            // SAFETY: all memory that the entry points to belongs to the operation, whose buffers keep the
            // contract of `StableBytes`. The operation stays in `operations`, unchanged, until the kernel has
            // ended the request; moving it there does not move the memory. Registered pages belong to a pool
            // that the table keeps, and the ring keeps a registered socket.
            unsafe { queue.put(number, is_linked, entry.user_data(number).flags(flags)) }
        };
        let pushed = match operation.single(resources) {
            Some(single) => give(single.entry(target)),
            None => give(operation.message(target, resources)),
        };
        operation.stage = Stage::Submitted;
        operation.request = self.requests;
        self.requests += u64::from(pushed);
        match pushed {
            true => self.in_kernel += 1,
            false => self.requeue(number),
        }
    }
}
