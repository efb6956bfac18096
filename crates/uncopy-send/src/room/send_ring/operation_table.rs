//! The operations of a ring by number, and the completions that the kernel still owes for each.

mod fill;

use std::collections::VecDeque;
use std::sync::Arc;

use super::completion_sink::{CompletionSink, DiscardSink, IndexedSocket};
use super::operation::{Ability, Operation, Stage};
use crate::room::inet::{InetSocket, Transport};
use crate::room::sequence_map::SequenceMap;
use crate::room::writer::Writer;
use crate::room::zerocopy::{Completed, parking};
use crate::room::{Pool, StableBytes};
use uncopy_core::Errno;
use uncopy_os::Sys;

/// All sends that are not completed, and the sockets and pools that they use.
pub(super) struct OperationTable<B: StableBytes, C> {
    operations: SequenceMap<Operation<B, C>>,
    /// Number from which on no send was given to the kernel.
    fresh: u64,
    /// Sends with lower numbers that wait for the kernel, ascending: held back, or to be tried again.
    waiting: VecDeque<u64>,
    /// Number of requests put into the submission queue so far.
    pub(super) requests: u64,
    /// Number of requests and notifications that the kernel has not ended; counts requests in the submission
    /// queue.
    pub(super) in_kernel: usize,
    /// Sockets by index; none is ever removed.
    pub(super) sockets: Vec<Arc<InetSocket>>,
    /// Writers by index. `None`: the stream has ended.
    pub(super) writers: Vec<Option<Writer>>,
    /// Number of sockets, from the first on, that are registered under their index.
    pub(super) fixed: usize,
    /// Registered pools by index.
    pub(super) pools: Vec<Pool>,
    ability: Ability,
}

impl<B: StableBytes, C> OperationTable<B, C> {
    pub(super) fn new(ability: Ability) -> OperationTable<B, C> {
        OperationTable {
            operations: SequenceMap::new(),
            fresh: 0,
            waiting: VecDeque::new(),
            requests: 0,
            in_kernel: 0,
            sockets: Vec::new(),
            writers: Vec::new(),
            fixed: 0,
            pools: Vec::new(),
            ability,
        }
    }

    /// Takes in the operation that `make` returns, over a socket in the table; returns its number.
    #[inline]
    pub(super) fn push(&mut self, make: impl FnOnce() -> Operation<B, C>) -> u64 {
        self.operations.push_with(make)
    }

    /// Returns the number of sends that wait for the kernel, in whole or in part.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + (self.operations.next() - self.fresh) as usize
    }

    /// Gives up all waiting sends, except the rest of a send that has begun on a stream.
    pub(super) fn give_up_waiting(&mut self) {
        let waiting = std::mem::take(self.waiting_mut());
        for number in waiting {
            let operation = self.operations.get(number);
            let is_begun = operation.is_some_and(|o| o.usage.bytes > 0 && self.stream(o).is_some());
            match is_begun {
                true => self.waiting.push_back(number),
                false => self.give_up(number, &mut DiscardSink),
            }
        }
    }

    /// Returns whether the kernel has nothing, and nothing waits.
    pub(super) fn is_settled(&self) -> bool {
        self.in_kernel == 0 && self.waiting() == 0
    }

    /// Returns the streams over which a send has no result yet.
    fn under_way(&self) -> impl Iterator<Item = usize> {
        let operations = self.operations.iter().map(|(_, operation)| operation);
        let under_way = operations.filter(|o| o.stage != (Stage::Lent { again: false }));
        under_way.filter_map(|operation| self.stream(operation))
    }

    /// Returns whether a send over this stream has no result yet.
    pub(super) fn is_under_way(&self, socket: &Arc<InetSocket>) -> bool {
        self.under_way().any(|stream| stream == Arc::as_ptr(socket) as usize)
    }

    /// Ends each stream over which every send has its result.
    pub(super) fn end_streams(&mut self) {
        let under_way: Vec<usize> = self.under_way().collect();
        for (socket, writer) in self.sockets.iter().zip(&mut self.writers) {
            if !under_way.contains(&(Arc::as_ptr(socket) as usize)) {
                *writer = None;
            }
        }
    }

    /// Leaks all operations: they belong to the process that forked this one.
    pub(super) fn abandon(&mut self) {
        std::mem::forget(std::mem::replace(&mut self.operations, SequenceMap::new()));
    }

    /// Returns the first waiting send.
    #[inline]
    fn first_waiting(&self) -> Option<u64> {
        let fresh = (self.fresh < self.operations.next()).then_some(self.fresh);
        self.waiting.front().copied().or(fresh)
    }

    /// Removes the first waiting send.
    #[inline]
    fn pop_waiting(&mut self) {
        if self.waiting.pop_front().is_none() {
            self.fresh += 1;
        }
    }

    /// Returns the list of all waiting sends, ascending.
    fn waiting_mut(&mut self) -> &mut VecDeque<u64> {
        self.waiting.extend(self.fresh..self.operations.next());
        self.fresh = self.operations.next();
        &mut self.waiting
    }

    /// Returns the stream that a send is on. `None`: there is no such send; `Some(None)`: it is a datagram.
    fn stream_of(&self, number: u64) -> Option<Option<usize>> {
        Some(self.stream(self.operations.get(number)?))
    }

    fn stream(&self, operation: &Operation<B, C>) -> Option<usize> {
        let socket = &self.sockets[operation.socket];
        // Identified by address, because a socket can be in the table twice.
        (socket.transport() == Transport::Tcp).then_some(Arc::as_ptr(socket) as usize)
    }

    /// Returns whether a send of the stream is in the kernel without a result, or was refused and waits for
    /// its notification before it is tried again. Later sends would overtake it.
    fn is_held_up(&self, stream: usize) -> bool {
        self.in_kernel > 0
            && self.operations.iter().any(|(_, operation)| {
                matches!(operation.stage, Stage::Submitted | Stage::Lent { again: true })
                    && self.stream(operation) == Some(stream)
            })
    }

    /// Queues a send that the kernel does not have, in the order of its number.
    fn requeue(&mut self, number: u64) {
        if let Some(operation) = self.operations.get_mut(number) {
            operation.stage = Stage::Waiting;
        }
        let place = self.waiting.partition_point(|waiting| *waiting < number);
        self.waiting.insert(place, number);
    }

    /// Cancels a send. One that was not submitted ends here; for one that was, returns whether the kernel
    /// must be asked.
    pub(super) fn cancel(&mut self, number: u64, sink: &mut impl CompletionSink<B, C>) -> bool {
        let waiting = self.waiting_mut();
        if let Ok(place) = waiting.binary_search(&number) {
            waiting.remove(place);
            // After half a message nothing may follow on its stream.
            let has_begun = self.operations.get(number).is_some_and(|o| o.usage.bytes > 0);
            if has_begun {
                self.cancel_behind(number, sink);
            }
            self.give_up(number, sink);
            return false;
        }
        match self.operations.get_mut(number) {
            Some(operation) if operation.stage == Stage::Submitted => operation.is_canceled = true,
            _ => return false,
        }
        true
    }

    /// Ends a send that is not submitted and no longer waits.
    fn give_up(&mut self, number: u64, sink: &mut impl CompletionSink<B, C>) {
        let Some(operation) = self.operations.get_mut(number) else { return };
        let via = IndexedSocket::of(&self.sockets, operation.socket);
        sink.ended(number, via, || operation.to(), Err(Errno::ECANCELED));
        operation.stage = Stage::Lent { again: false };
        if operation.owed == 0 {
            self.complete(number, sink);
        }
    }

    /// Ends all sends behind one that failed on its stream, so that the peer reads no gap.
    #[cold]
    fn cancel_behind(&mut self, number: u64, sink: &mut impl CompletionSink<B, C>) {
        let Some(Some(stream)) = self.stream_of(number) else { return };
        let behind = |(later, operation): (u64, &Operation<B, C>)| {
            (later > number && self.stream(operation) == Some(stream)).then_some(later)
        };
        let behind: Vec<u64> = self.operations.iter().filter_map(behind).collect();
        self.waiting_mut().retain(|waiting| behind.binary_search(waiting).is_err());
        for later in behind {
            match self.operations.get_mut(later) {
                Some(operation) if operation.stage == Stage::Submitted => {
                    operation.is_cut_off = true;
                }
                Some(operation) if operation.stage != (Stage::Lent { again: false }) => {
                    self.give_up(later, sink);
                }
                _ => {}
            }
        }
    }

    /// Processes the result of a request; `more`: it announces a notification.
    #[inline]
    pub(super) fn ended(
        &mut self,
        number: u64,
        result: Sys<usize>,
        more: bool,
        sink: &mut impl CompletionSink<B, C>,
    ) {
        let should_retry = result.is_err_and(|errno| self.should_retry(number, errno, sink));
        let Some(operation) = self.operations.get_mut(number) else { return };
        let via = IndexedSocket::of(&self.sockets, operation.socket);
        if let Ok(bytes) = result {
            operation.usage.bytes += bytes;
            // A request whose result announces no notification was copied.
            let parts = match more {
                true => &mut operation.usage.lent_parts,
                false => &mut operation.usage.copied_parts,
            };
            *parts += 1;
        }
        match more {
            true => operation.owed += 1,
            false => self.in_kernel -= 1,
        }
        if let Ok(bytes) = result
            && !operation.is_given_up()
            && operation.has_rest(via.socket.transport(), bytes)
        {
            return self.requeue(number);
        }
        let mut has_failed = false;
        if !should_retry {
            let result = whole_result(operation, via.socket, result);
            has_failed = result.is_err();
            sink.ended(number, via, || operation.to(), result);
        }
        operation.stage = Stage::Lent { again: should_retry };
        let is_owed = operation.owed > 0;
        if has_failed {
            self.cancel_behind(number, sink);
        }
        match (is_owed, should_retry) {
            (true, _) => {}
            (false, true) => self.requeue(number),
            (false, false) => self.complete(number, sink),
        }
    }

    /// Returns whether a refused send is tried again.
    #[cold]
    fn should_retry(
        &mut self,
        number: u64,
        errno: Errno,
        sink: &mut impl CompletionSink<B, C>,
    ) -> bool {
        let Some(operation) = self.operations.get_mut(number) else { return false };
        let via = IndexedSocket::of(&self.sockets, operation.socket);
        if operation.is_cut_off {
            return false;
        }
        if errno == Errno::ECANCELED && via.socket.transport() == Transport::Tcp {
            // Its chain was broken, before or behind it (`io_submit_fail_init` in `io_uring/io_uring.c`): it
            // keeps its place, unless its owner has canceled it.
            return !operation.is_canceled;
        }
        let was_moved = operation.uses_stand_in;
        let is_copied = sink.should_retry_copied(via, errno, operation.lend || was_moved);
        if is_copied {
            operation.lend = false;
            operation.uses_stand_in = false;
            // Registered memory is locked already, so a stand-in needs no more locked memory.
            if errno == Errno::ENOMEM && !was_moved && operation.usage.bytes == 0 {
                operation.move_into(&self.pools);
            }
        }
        is_copied
    }

    /// Processes a notification: the kernel no longer needs the memory of a request.
    #[inline]
    pub(super) fn notified(
        &mut self,
        number: u64,
        copied: bool,
        sink: &mut impl CompletionSink<B, C>,
    ) {
        let is_reported = self.ability.reports;
        let Some(operation) = self.operations.get_mut(number) else { return };
        let Some(left) = operation.owed.checked_sub(1) else { return };
        operation.owed = left;
        operation.usage.copied_later |= copied;
        operation.usage.is_unreported |= !is_reported;
        let stage = operation.stage;
        self.in_kernel -= 1;
        match stage {
            Stage::Lent { again: true } if left == 0 => self.requeue(number),
            Stage::Lent { again: false } if left == 0 => self.complete(number, sink),
            // More notifications are to come, or the result of a later part.
            _ => {}
        }
    }

    /// Completes an operation that the kernel does not have.
    #[inline]
    fn complete(&mut self, number: u64, sink: &mut impl CompletionSink<B, C>) {
        let Some(operation) = self.operations.take(number) else { return };
        let Operation { payload, usage, socket, context, .. } = operation;
        let via = IndexedSocket::of(&self.sockets, socket);
        sink.completed(via, Completed { number, payload, usage }, context);
    }

    /// Returns the streams whose chain was split because the kernel left `left` requests in the queue: the
    /// next call would submit the rest without the link.
    #[cold]
    pub(super) fn split_streams(&self, left: u64) -> Vec<Arc<InetSocket>> {
        let first_left = self.requests.saturating_sub(left);
        let submitted = |is_left: bool| {
            let operations = self.operations.iter().map(|(_, operation)| operation);
            operations.filter(move |operation| {
                operation.stage == Stage::Submitted && (operation.request >= first_left) == is_left
            })
        };
        let has_begun = |stream| submitted(false).any(|known| self.stream(known) == Some(stream));
        let mut split: Vec<Arc<InetSocket>> = Vec::new();
        for operation in submitted(true) {
            let socket = &self.sockets[operation.socket];
            if self.stream(operation).is_some_and(has_begun)
                && !split.iter().any(|known| Arc::ptr_eq(known, socket))
            {
                split.push(socket.clone());
            }
        }
        split
    }

    /// Returns the sockets of all sends that the kernel has, each once.
    pub(super) fn sockets_in_kernel(&self) -> Vec<Arc<InetSocket>> {
        let mut found: Vec<Arc<InetSocket>> = Vec::new();
        for (_, operation) in self.operations.iter() {
            let socket = &self.sockets[operation.socket];
            if operation.is_in_kernel() && !found.iter().any(|known| Arc::ptr_eq(known, socket)) {
                found.push(socket.clone());
            }
        }
        found
    }
}

impl<B: StableBytes, C> Drop for OperationTable<B, C> {
    /// Leaks all operations if the kernel may still read any of them: without a ring its notifications are
    /// not seen.
    fn drop(&mut self) {
        if self.operations.iter().any(|(_, operation)| operation.is_in_kernel()) {
            std::mem::forget(std::mem::replace(&mut self.operations, SequenceMap::new()));
            parking::leaked();
        }
    }
}

/// Returns the result of the whole send, after its last request had this one.
#[inline]
fn whole_result<B: StableBytes, C>(
    operation: &Operation<B, C>,
    socket: &InetSocket,
    result: Sys<usize>,
) -> Sys<usize> {
    let is_whole = operation.usage.bytes >= operation.payload.len();
    match result {
        Ok(_) if operation.is_given_up() && !is_whole => Err(Errno::ECANCELED),
        Err(_) if operation.is_cut_off => Err(Errno::ECANCELED),
        // The kernel took no more bytes although some are left.
        Ok(_) if socket.transport() == Transport::Tcp && !is_whole => {
            Err(socket.take_error().unwrap_or(Errno::EPIPE))
        }
        Ok(_) => Ok(operation.usage.bytes),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use super::*;
    use crate::room::Payload;

    type Bytes = Arc<Vec<u8>>;

    /// Makes a table with one send of the buffer, in requests of 20 bytes each.
    fn table(buffer: &Bytes) -> (OperationTable<Bytes, ()>, UdpSocket) {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut table = OperationTable::new(Ability { fixed_vectors: true, reports: true });
        let socket = InetSocket::connect_udp(peer.local_addr().unwrap()).unwrap();
        table.sockets.push(Arc::new(socket));
        let payload = Payload::One(buffer.clone());
        table.push(|| Operation::new(payload, 0, None, true, ()).in_parts_of(20));
        (table, peer)
    }

    /// Gives the next part to the kernel.
    fn submit(table: &mut OperationTable<Bytes, ()>) {
        let number = table.first_waiting().unwrap();
        table.pop_waiting();
        table.operations.get_mut(number).unwrap().stage = Stage::Submitted;
        table.in_kernel += 1;
    }

    fn is_free(buffer: &Bytes) -> bool {
        Arc::strong_count(buffer) == 1
    }

    #[test]
    fn operations_in_the_kernel_outlive_their_table() {
        for (steps, freed) in [(0, true), (1, false), (2, false), (3, false), (4, true)] {
            let buffer = Arc::new(vec![1; 20]);
            let (mut table, _peer) = table(&buffer);
            let all: [fn(&mut OperationTable<Bytes, ()>); 4] = [
                submit,
                |table| table.ended(0, Ok(20), true, &mut DiscardSink),
                // A notification that was not announced.
                |table| table.notified(1, false, &mut DiscardSink),
                |table| table.notified(0, false, &mut DiscardSink),
            ];
            all.iter().take(steps).for_each(|step| step(&mut table));
            drop(table);
            assert_eq!(is_free(&buffer), freed, "after {steps} steps");
        }
    }

    #[test]
    fn a_retried_send_waits_for_its_notification() {
        let buffer = Arc::new(vec![1; 50]);
        let (mut table, _peer) = table(&buffer);
        let mut log = EventLog::default();
        submit(&mut table);
        table.ended(0, Err(Errno::ENOBUFS), true, &mut log);
        assert_eq!(table.operations.get(0).unwrap().stage, Stage::Lent { again: true });
        assert_eq!((table.waiting(), table.in_kernel, log.0.len()), (0, 1, 0));
        table.notified(0, false, &mut log);
        assert_eq!(table.operations.get(0).unwrap().stage, Stage::Waiting);
        assert_eq!((table.waiting(), table.in_kernel, log.0.len()), (1, 0, 0));
        assert!(!table.operations.get(0).unwrap().lend, "the retry is copied");
    }

    /// Records results and completions.
    #[derive(Default)]
    struct EventLog(Vec<(&'static str, Sys<usize>)>);

    impl CompletionSink<Bytes, ()> for EventLog {
        fn should_retry_copied(&mut self, _: IndexedSocket<'_>, errno: Errno, _: bool) -> bool {
            errno == Errno::ENOBUFS
        }

        fn ended(
            &mut self,
            _: u64,
            _: IndexedSocket<'_>,
            _: impl FnOnce() -> Option<SocketAddr>,
            result: Sys<usize>,
        ) {
            self.0.push(("ended", result));
        }

        fn completed(&mut self, _: IndexedSocket<'_>, completed: Completed<Bytes>, (): ()) {
            self.0.push(("completed", Ok(completed.usage.bytes)));
        }
    }

    /// Events of the kernel and the caller.
    #[derive(Clone, Copy)]
    enum KernelEvent {
        Lent(Sys<usize>),
        Copied(Sys<usize>),
        Released,
        Cancel,
    }

    type Records = Vec<(&'static str, Sys<usize>)>;

    /// Sequences with a refusal that has a notification: the retry waits for it, and is not canceled.
    fn refused_with_a_notification() -> impl Iterator<Item = (Vec<KernelEvent>, Records)> {
        use KernelEvent::{Cancel, Copied, Lent, Released};
        let refused = || Lent(Err(Errno::ENOBUFS));
        let later = [refused(), Released, Released, Copied(Ok(20)), Lent(Ok(10)), Released];
        [
            vec![refused(), Released, Copied(Ok(20)), Copied(Ok(30))],
            [Lent(Ok(20))].into_iter().chain(later).collect(),
            vec![refused(), Cancel, Released, Copied(Ok(50))],
        ]
        .into_iter()
        .map(|events| (events, vec![("ended", Ok(50)), ("completed", Ok(50))]))
    }

    #[test]
    fn parts_have_one_result_and_complete_when_all_are_released() {
        use KernelEvent::{Cancel, Copied, Lent, Released};
        const ENDED: (&str, Sys<usize>) = ("ended", Ok(50));
        const COMPLETED: (&str, Sys<usize>) = ("completed", Ok(50));
        let failed = |errno, bytes| vec![("ended", Err(errno)), ("completed", Ok(bytes))];
        for (events, expected) in [
            (vec![Copied(Ok(20)), Copied(Ok(20)), Copied(Ok(10))], vec![ENDED, COMPLETED]),
            (
                vec![Lent(Ok(20)), Released, Lent(Ok(20)), Released, Lent(Ok(10)), Released],
                vec![ENDED, COMPLETED],
            ),
            (
                vec![Lent(Ok(20)), Lent(Ok(20)), Lent(Ok(10)), Released, Released, Released],
                vec![ENDED, COMPLETED],
            ),
            (vec![Lent(Ok(20)), Lent(Ok(20)), Lent(Ok(10)), Released, Released], vec![ENDED]),
            // The last part is copied, and the first is released late.
            (vec![Lent(Ok(20)), Lent(Ok(20)), Released, Copied(Ok(10))], vec![ENDED]),
            (vec![Copied(Ok(20)), Lent(Err(Errno::EPERM))], vec![("ended", Err(Errno::EPERM))]),
            (vec![Lent(Ok(20)), Copied(Err(Errno::EPERM)), Released], failed(Errno::EPERM, 20)),
            // A retry after the memory is free.
            (
                vec![
                    Lent(Ok(20)),
                    Copied(Err(Errno::ENOBUFS)),
                    Released,
                    Copied(Ok(20)),
                    Copied(Ok(10)),
                ],
                vec![ENDED, COMPLETED],
            ),
            (vec![Lent(Ok(20)), Cancel], vec![("ended", Err(Errno::ECANCELED))]),
            // Canceled while it waits for its next part, or for a notification.
            (vec![Copied(Ok(20)), Cancel], failed(Errno::ECANCELED, 20)),
            (vec![Lent(Ok(20)), Cancel, Released], failed(Errno::ECANCELED, 20)),
        ]
        .into_iter()
        .chain(refused_with_a_notification())
        {
            let buffer = Arc::new(vec![1; 50]);
            let (mut table, _peer) = table(&buffer);
            let mut log = EventLog::default();
            for event in &events {
                if matches!(event, Lent(_) | Copied(_)) {
                    submit(&mut table);
                }
                match *event {
                    Lent(result) => table.ended(0, result, true, &mut log),
                    Copied(result) => table.ended(0, result, false, &mut log),
                    Released => table.notified(0, false, &mut log),
                    Cancel => assert!(!table.cancel(0, &mut log)),
                }
            }
            assert_eq!(log.0, expected);
            let is_completed = expected.last().is_some_and(|(what, _)| *what == "completed");
            assert_eq!((table.in_kernel == 0, is_free(&buffer)), (is_completed, is_completed));
            drop(table);
            assert_eq!(is_free(&buffer), is_completed);
        }
    }
}
