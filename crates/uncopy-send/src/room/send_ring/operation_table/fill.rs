//! Which sends go to the kernel next, and linked to which.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;

use io_uring::squeue::{Entry, Flags, SubmissionQueue};

use super::OperationTable;
use crate::room::StableBytes;
use crate::room::send_ring::operation::{RingResources, Stage, Target};

/// Where requests for the kernel are put.
pub(in crate::room::send_ring) trait Requests {
    fn room(&self) -> usize;

    /// Puts a request in for the send of this number; the next one is its successor in a chain if it
    /// is `linked`. Says whether there was room.
    ///
    /// # Safety
    /// What the entry points to stays where it is, untouched, until the kernel has ended the request.
    unsafe fn put(&mut self, number: u64, linked: bool, entry: Entry) -> bool;
}

impl Requests for SubmissionQueue<'_> {
    fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// # Safety
    /// As [`Requests::put`].
    unsafe fn put(&mut self, _: u64, _: bool, entry: Entry) -> bool {
        // SAFETY: as the caller promises.
        unsafe { self.push(&entry) }.is_ok()
    }
}

/// Sends of one stream that go together.
struct Chain {
    stream: usize,
    first: u64,
    /// None of them may go now.
    is_held: bool,
}

impl<B: StableBytes, C> OperationTable<B, C> {
    /// Moves what may go into the submission queue.
    pub(in crate::room::send_ring) fn fill(&mut self, queue: &mut impl Requests) {
        let mut room = queue.room();
        // Datagrams go as they come.
        while room > 0
            && let Some(number) = self.first_waiting()
            && self.stream_of(number) == Some(None)
        {
            self.pass_waiting();
            self.queue(queue, number, false);
            room -= 1;
        }
        if room > 0 && self.waiting() > 0 {
            self.fill_in_order(queue, room);
        }
    }

    /// As [`fill`](Self::fill), where some of what waits is on streams.
    ///
    /// A stream has one chain at a time, in the queue and in the kernel: what the socket has no room
    /// for waits there for an event, and whatever is not linked to it would go first.
    fn fill_in_order(&mut self, queue: &mut impl Requests, room: usize) {
        let mut waiting = std::mem::take(self.waiting_mut()).into_iter();
        let mut held: VecDeque<u64> = VecDeque::new();
        let mut chains: Vec<Chain> = Vec::new();
        // Sends by the first of their chain, each chain in ascending order.
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
            // SAFETY: everything the entry points to belongs to the operation, whose buffers keep
            // the contract of `StableBytes`. It stays in `operations`, untouched, until the kernel
            // has ended the request; moving it there moves none of what is pointed to. Registered
            // pages belong to a pool that is kept, and a registered socket is kept by the ring.
            unsafe { queue.put(number, is_linked, entry.user_data(number).flags(flags)) }
        };
        let pushed = match operation.single(resources) {
            Some(single) => give(single.entry(target)),
            None => give(operation.message(target, resources)),
        };
        operation.stage = Stage::Submitted;
        operation.put = self.puts;
        self.puts += u64::from(pushed);
        match pushed {
            true => self.in_kernel += 1,
            false => self.put_back(number),
        }
    }
}
