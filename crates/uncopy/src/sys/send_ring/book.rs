//! The sends of a ring by number, and what the kernel still owes for each.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use io_uring::squeue::{self, SubmissionQueue};

use super::operation::{Ability, Means, Operation, Stage};
use crate::buf::{Pool, StableBytes};
use crate::error::Errno;
use crate::sys::Sys;
use crate::sys::inet::{Socket, Transport};
use crate::sys::zerocopy::Landed;

/// Who is told what becomes of sends.
pub(crate) trait Witness<B> {
    /// Of a refusal: whether the send is to be made once more, copied.
    fn is_made_again(
        &mut self,
        number: u64,
        errno: Errno,
        transport: Transport,
        lent: bool,
    ) -> bool;
    /// The kernel took so many bytes, or refused.
    fn ended(&mut self, number: u64, socket: &Socket, result: Sys<usize>);
    /// Its memory is free.
    fn landed(&mut self, socket: &Socket, landed: Landed<B>);
}

/// Cares for nothing, and frees what has landed.
pub(super) struct Nobody;

impl<B> Witness<B> for Nobody {
    fn is_made_again(&mut self, _: u64, _: Errno, _: Transport, _: bool) -> bool {
        false
    }

    fn ended(&mut self, _: u64, _: &Socket, _: Sys<usize>) {}

    fn landed(&mut self, _: &Socket, landed: Landed<B>) {
        // By code that is not ours. Were it to unwind, what the kernel still has would go as well.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(landed)));
    }
}

/// Every send that has not landed, and what they go over.
pub(super) struct Book<B: StableBytes> {
    /// By number, from `first` on. `None`: landed.
    operations: VecDeque<Option<Operation<B>>>,
    first: u64,
    /// Not given to the kernel, in ascending order.
    pub(super) waiting: VecDeque<u64>,
    /// Sends that the kernel has, or will be given with the next call, and has not ended.
    pub(super) in_kernel: usize,
    /// By index; none is ever taken out.
    pub(super) sockets: Vec<Arc<Socket>>,
    /// Registered, by index.
    pub(super) pools: Vec<Pool>,
    ability: Ability,
}

impl<B: StableBytes> Book<B> {
    pub(super) fn new(ability: Ability) -> Book<B> {
        Book {
            operations: VecDeque::new(),
            first: 0,
            waiting: VecDeque::new(),
            in_kernel: 0,
            sockets: Vec::new(),
            pools: Vec::new(),
            ability,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, operation: Operation<B>) -> Option<u64> {
        self.sockets.get(operation.socket)?;
        let number = self.first + self.operations.len() as u64;
        self.operations.push_back(Some(operation));
        self.waiting.push_back(number);
        Some(number)
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    fn operation(&mut self, number: u64) -> Option<&mut Operation<B>> {
        let index = self.index(number)?;
        self.operations.get_mut(index)?.as_mut()
    }

    /// Moves what may go from `waiting` into the submission queue.
    pub(super) fn fill(&mut self, queue: &mut SubmissionQueue<'_>) {
        let mut room = queue.capacity() - queue.len();
        // Datagrams go as they come.
        while room > 0
            && let Some(&number) = self.waiting.front()
            && self.stream_of(number) == Some(None)
        {
            self.waiting.pop_front();
            self.queue(queue, number, false);
            room -= 1;
        }
        if room > 0 && !self.waiting.is_empty() {
            self.fill_in_order(queue, room);
        }
    }

    /// As [`fill`](Self::fill), where some of what waits is on streams.
    fn fill_in_order(&mut self, queue: &mut SubmissionQueue<'_>, room: usize) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut numbers = waiting.into_iter().peekable();
        let mut held: VecDeque<u64> = VecDeque::new();
        let mut streams_in_batch: Vec<usize> = Vec::new();
        let mut last_stream: Option<usize> = None;
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
            self.queue(queue, number, links);
            streams_in_batch.extend(stream.filter(|_| !continues));
            last_stream = stream;
            taken += 1;
        }
        // None, as there was room.
        let refused = std::mem::replace(&mut self.waiting, held);
        refused.into_iter().for_each(|number| self.put_back(number));
    }

    /// Which stream a send is on (`Some(None)`: it is a datagram).
    fn stream_of(&self, number: u64) -> Option<Option<usize>> {
        let operation = self.operations.get(self.index(number)?)?.as_ref()?;
        Some(self.stream(operation))
    }

    fn stream(&self, operation: &Operation<B>) -> Option<usize> {
        let socket = &self.sockets[operation.socket];
        // One socket can have been taken in twice.
        (socket.transport() == Transport::Tcp).then_some(Arc::as_ptr(socket) as usize)
    }

    /// A send of the stream is with the kernel and has no result.
    fn owes_result(&self, stream: usize) -> bool {
        self.in_kernel > 0
            && self.operations.iter().flatten().any(|operation| {
                operation.stage == Stage::Submitted && self.stream(operation) == Some(stream)
            })
    }

    fn queue(&mut self, queue: &mut SubmissionQueue<'_>, number: u64, links: bool) {
        let Some(index) = self.index(number) else { return };
        let Book { operations, sockets, pools, ability, .. } = self;
        let Some(Some(operation)) = operations.get_mut(index) else { return };
        let means = Means { pools: pools.as_slice(), ability: *ability };
        let mut entry = operation.entry(&sockets[operation.socket], means).user_data(number);
        operation.stage = Stage::Submitted;
        if links {
            entry = entry.flags(squeue::Flags::IO_LINK);
        }
        // SAFETY: everything the entry points to belongs to the operation, whose buffers keep
        // the contract of `StableBytes`. It stays in `operations`, untouched, until the kernel
        // has ended the request; moving it there moves none of what is pointed to. Registered
        // pages belong to a pool that is kept.
        let pushed = unsafe { queue.push(&entry) };
        match pushed {
            Ok(()) => self.in_kernel += 1,
            Err(_) => self.put_back(number),
        }
    }

    /// Has the kernel make a send later that it does not have, before all with higher numbers.
    fn put_back(&mut self, number: u64) {
        if let Some(operation) = self.operation(number) {
            operation.stage = Stage::Waiting;
        }
        let place = self.waiting.partition_point(|waiting| *waiting < number);
        self.waiting.insert(place, number);
    }

    /// Ends a send that was not submitted; says of another whether the kernel is to be asked.
    pub(super) fn cancel(&mut self, number: u64, witness: &mut impl Witness<B>) -> bool {
        if let Ok(place) = self.waiting.binary_search(&number) {
            self.waiting.remove(place);
            if let Some(socket) = self.operation(number).map(|operation| operation.socket) {
                witness.ended(number, &self.sockets[socket], Err(Errno::ECANCELED));
            }
            self.land(number, witness);
            return false;
        }
        match self.operation(number) {
            Some(operation) if operation.stage == Stage::Submitted => operation.is_canceled = true,
            _ => return false,
        }
        true
    }

    /// The kernel's result for a send.
    #[inline]
    pub(super) fn ended(
        &mut self,
        number: u64,
        result: Sys<usize>,
        more: bool,
        witness: &mut impl Witness<B>,
    ) {
        let is_again = result.is_err_and(|errno| self.is_again(number, errno, witness));
        let Some(index) = self.index(number) else { return };
        let Some(Some(operation)) = self.operations.get_mut(index) else { return };
        let socket = &*self.sockets[operation.socket];
        if let Ok(bytes) = result {
            operation.usage.bytes += bytes;
            // One that announces no notification was copied, however it was asked for.
            let parts = match more {
                true => &mut operation.usage.lent_parts,
                false => &mut operation.usage.copied_parts,
            };
            *parts += 1;
        }
        if !is_again {
            witness.ended(number, socket, whole(operation, socket, result));
        }
        if more {
            operation.stage = Stage::Lent { again: is_again };
            return;
        }
        self.in_kernel -= 1;
        match is_again {
            true => self.put_back(number),
            false => self.land(number, witness),
        }
    }

    /// A refused send is to be made once more.
    #[cold]
    fn is_again(&mut self, number: u64, errno: Errno, witness: &mut impl Witness<B>) -> bool {
        // Cut off by one before it that is made again: it keeps its place.
        let is_behind = errno == Errno::ECANCELED && self.is_behind_retry(number);
        let Some(index) = self.index(number) else { return false };
        let Some(Some(operation)) = self.operations.get_mut(index) else { return false };
        let transport = self.sockets[operation.socket].transport();
        let was_moved = operation.stand_in.is_some();
        let lent = operation.lend || was_moved;
        let is_copied = witness.is_made_again(number, errno, transport, lent);
        if is_copied {
            operation.lend = false;
            operation.stand_in = None;
            // Registered memory is locked already.
            if errno == Errno::ENOMEM && !was_moved {
                operation.move_into(&self.pools);
            }
        }
        is_behind || is_copied
    }

    /// A send on the same stream, before this one, is to be made once more.
    fn is_behind_retry(&self, number: u64) -> bool {
        let Some(Some(stream)) = self.stream_of(number) else { return false };
        let before = usize::try_from(number - self.first).unwrap_or(0);
        self.operations.iter().take(before).flatten().any(|operation| {
            let is_retried =
                matches!(operation.stage, Stage::Waiting | Stage::Lent { again: true });
            is_retried && self.stream(operation) == Some(stream)
        })
    }

    /// The kernel needs a send's memory no more.
    #[inline]
    pub(super) fn notified(&mut self, number: u64, copied: bool, witness: &mut impl Witness<B>) {
        let is_reported = self.ability.reports;
        let Some(operation) = self.operation(number) else { return };
        let Stage::Lent { again } = operation.stage else { return };
        operation.usage.copied_later |= copied;
        operation.usage.is_unreported |= !is_reported;
        self.in_kernel -= 1;
        match again {
            true => self.put_back(number),
            false => self.land(number, witness),
        }
    }

    /// Gives an operation back that the kernel does not have.
    #[inline]
    fn land(&mut self, number: u64, witness: &mut impl Witness<B>) {
        let Some(index) = self.index(number) else { return };
        let Some(operation) = self.operations.get_mut(index).and_then(Option::take) else { return };
        let Operation { payload, usage, socket, .. } = operation;
        while let Some(None) = self.operations.front() {
            self.operations.pop_front();
            self.first += 1;
        }
        witness.landed(&self.sockets[socket], Landed { number, payload, usage });
    }

    /// The sockets of all sends that the kernel has, each once.
    pub(super) fn sockets_in_kernel(&self) -> Vec<Arc<Socket>> {
        let mut found: Vec<Arc<Socket>> = Vec::new();
        for operation in self.operations.iter().flatten() {
            let socket = &self.sockets[operation.socket];
            let is_in_kernel = operation.stage != Stage::Waiting;
            if is_in_kernel && !found.iter().any(|known| Arc::ptr_eq(known, socket)) {
                found.push(socket.clone());
            }
        }
        found
    }

    /// Keeps everything for ever.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.operations));
    }
}

/// The result of a send that the kernel gave this one.
fn whole<B: StableBytes>(
    operation: &Operation<B>,
    socket: &Socket,
    result: Sys<usize>,
) -> Sys<usize> {
    match result {
        // A stream that broke in the middle: the error comes with the next call.
        Ok(bytes) if socket.transport() == Transport::Tcp && bytes < operation.payload.len() => {
            match operation.is_canceled {
                true => Err(Errno::ECANCELED),
                false => Err(socket.take_error().unwrap_or(Errno::EPIPE)),
            }
        }
        other => other,
    }
}
