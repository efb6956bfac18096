//! The engine that makes a ring's sends: io_uring, or single system calls where io_uring is not available.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{Calls, LedgerSink};
use super::request::Request;
use super::ring_state::Context;
use crate::room::inet::InetSocket;
use crate::room::send_ring::{Operation, ParkOnDrop, Registered, sweep};
use crate::room::{Pool, StableBytes};
use uncopy_core::{Errno, Reason, Result};

pub(super) enum Engine<B: StableBytes> {
    Ring(ParkOnDrop<B, Context>),
    Calls(Calls<B, Context>),
}

impl<B: StableBytes> Engine<B> {
    /// Makes the engine without io_uring.
    pub(super) fn calls(park_timeout: Duration) -> Engine<B> {
        Engine::Calls(Calls::new(park_timeout))
    }

    /// Adds a socket, under the next index.
    pub(super) fn add(&mut self, socket: InetSocket) {
        match self {
            Engine::Ring(ring) => ring.add(Arc::new(socket)),
            Engine::Calls(calls) => calls.add(socket),
        }
    }

    /// Adds a socket that a sender owns, under the next index.
    pub(super) fn add_shared(&mut self, socket: Arc<InetSocket>) {
        match self {
            Engine::Ring(ring) => ring.add(socket),
            Engine::Calls(calls) => calls.add_shared(socket),
        }
    }

    pub(super) fn socket(&self, index: usize) -> Option<&InetSocket> {
        match self {
            Engine::Ring(ring) => ring.socket(index),
            Engine::Calls(calls) => calls.socket(index),
        }
    }

    /// Returns the socket of a send, or why the send cannot be taken.
    #[inline]
    pub(super) fn known(&self, index: usize) -> Result<&InetSocket, Reason> {
        let refused = "its socket does not belong to this ring; add it first";
        self.socket(index).ok_or_else(|| Reason::Refused(refused.into()))
    }

    pub(super) fn register(&mut self, pool: &Pool) -> Result<(), Errno> {
        match self {
            Engine::Ring(ring) => ring.register(pool),
            Engine::Calls(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    pub(super) fn registered(&self) -> Result<Registered, Errno> {
        match self {
            Engine::Ring(ring) => Ok(ring.registered()),
            Engine::Calls(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Registers what another ring has registered; again from scratch where the kernel cannot clone it.
    pub(super) fn register_clone(&mut self, registered: &Registered) -> Result<(), Errno> {
        let Engine::Ring(ring) = self else { return Err(Errno::EOPNOTSUPP) };
        if ring.register_clone(registered).is_ok() {
            return Ok(());
        }
        // Before Linux 6.12, or where this ring has registered buffers already.
        registered.pools.iter().try_for_each(|pool| match ring.has(pool) {
            true => Ok(()),
            false => ring.register(pool),
        })
    }

    /// Returns whether the pool is registered with the kernel.
    pub(super) fn has(&self, pool: &Pool) -> bool {
        matches!(self, Engine::Ring(ring) if ring.has(pool))
    }

    /// Takes in a send over a socket that is [`known`](Self::known); returns its number.
    #[inline]
    pub(super) fn push(&mut self, request: Request<'_, B>, context: Context) -> Option<u64> {
        match self {
            Engine::Ring(ring) => Some(ring.push(|| {
                let Request { payload, socket, to, max_bytes, lend, huge_by_index } = request;
                let operation = Operation::new(payload, socket, to, lend, context);
                operation.in_parts_of(max_bytes).with_huge_by_index(huge_by_index)
            })),
            Engine::Calls(calls) => calls.push(request, context),
        }
    }

    /// Ends each stream as soon as all sends over it have their results; no more sends are taken in.
    pub(super) fn end_streams(&mut self) {
        match self {
            Engine::Ring(ring) => ring.end_streams(),
            Engine::Calls(calls) => calls.end_streams(),
        }
    }

    /// Returns the number of sends that were not submitted.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Engine::Ring(ring) => ring.waiting(),
            Engine::Calls(calls) => calls.waiting(),
        }
    }

    /// Submits the waiting sends; waits for `want` completions or until the timeout.
    pub(super) fn submit(
        &mut self,
        want: usize,
        timeout: Option<Duration>,
        sink: &mut impl LedgerSink<B, Context>,
    ) -> Result<(), Errno> {
        match self {
            Engine::Ring(ring) => {
                sweep();
                ring.submit(want, timeout)
            }
            Engine::Calls(calls) => {
                calls.submit(want, timeout, sink);
                Ok(())
            }
        }
    }

    pub(super) fn cancel(&mut self, number: u64, sink: &mut impl LedgerSink<B, Context>) {
        match self {
            Engine::Ring(ring) => ring.cancel(number, sink),
            Engine::Calls(calls) => calls.cancel(number, sink),
        }
    }

    /// Reports events to the sink; returns whether there were any.
    pub(super) fn reap(&mut self, sink: &mut impl LedgerSink<B, Context>) -> Result<bool, Errno> {
        match self {
            Engine::Ring(ring) => ring.reap(sink),
            Engine::Calls(calls) => Ok(calls.reap(sink)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use super::*;
    use crate::counters::{Counters, FallbackReason};
    use crate::room::Payload;
    use crate::room::send_ring::{CompletionSink, IndexedSocket};
    use crate::room::zerocopy::Completed;

    /// Events by send: results, and lengths of completed payloads.
    #[derive(Default)]
    struct Recorded {
        ended: Vec<(u64, Result<usize, Errno>)>,
        completed: Vec<(u64, usize)>,
        ledger: Counters,
    }

    impl LedgerSink<Vec<u8>, Context> for Recorded {
        fn ledger(&mut self, _: usize) -> &mut Counters {
            &mut self.ledger
        }
    }

    impl CompletionSink<Vec<u8>, Context> for Recorded {
        fn should_retry_copied(&mut self, _: IndexedSocket<'_>, _: Errno, _: bool) -> bool {
            unreachable!("only io_uring asks this")
        }

        fn ended(
            &mut self,
            number: u64,
            _: IndexedSocket<'_>,
            _: impl FnOnce() -> Option<SocketAddr>,
            result: Result<usize, Errno>,
        ) {
            self.ended.push((number, result));
        }

        fn completed(&mut self, _: IndexedSocket<'_>, completed: Completed<Vec<u8>>, _: Context) {
            self.completed.push((completed.number, completed.payload.len()));
        }
    }

    fn push(engine: &mut Engine<Vec<u8>>, socket: usize, bytes: usize) -> Option<u64> {
        let payload = Payload::One(vec![7; bytes]);
        let (max_bytes, lend, huge_by_index) = (usize::MAX, true, false);
        let request = Request { payload, socket, to: None, max_bytes, lend, huge_by_index };
        engine.push(request, Context::default())
    }

    #[test]
    fn calls_copy_on_a_socket_that_a_sender_owns() {
        let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let socket = InetSocket::connect_udp(receiver.local_addr().unwrap()).unwrap();
        let mut engine = Engine::calls(Duration::from_secs(60));
        engine.add_shared(Arc::new(socket));
        assert!(push(&mut engine, 1, 5).is_none(), "there is no such socket");
        let [sent, canceled, too_long] =
            [5, 6, 70_000].map(|bytes| push(&mut engine, 0, bytes).unwrap());
        let mut recorded = Recorded::default();
        engine.cancel(canceled, &mut recorded);
        engine.cancel(canceled, &mut recorded);
        assert_eq!(engine.waiting(), 2);
        engine.submit(0, None, &mut recorded).unwrap();
        assert!(engine.reap(&mut recorded).unwrap());
        assert!(!engine.reap(&mut recorded).unwrap());
        let expected =
            [(canceled, Err(Errno::ECANCELED)), (sent, Ok(5)), (too_long, Err(Errno::EMSGSIZE))];
        assert_eq!(recorded.ended, expected);
        assert_eq!(recorded.completed, [(canceled, 6), (sent, 5), (too_long, 70_000)]);
        assert_eq!(receiver.recv(&mut [0; 10]).unwrap(), 5);
    }

    #[test]
    fn calls_enter_why_a_send_is_copied_into_the_ledger_of_its_socket() {
        let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let mut engine = Engine::calls(Duration::from_secs(60));
        engine.add(InetSocket::connect_udp(receiver.local_addr().unwrap()).unwrap());
        let mut recorded = Recorded::default();
        for lend in [true, false] {
            // More regions than one call takes cannot be lent.
            let payload = Payload::Many(vec![vec![7]; 1100]);
            let (max_bytes, huge_by_index) = (usize::MAX, false);
            let request = Request { payload, socket: 0, to: None, max_bytes, lend, huge_by_index };
            engine.push(request, Context::default()).unwrap();
        }
        engine.submit(0, None, &mut recorded).unwrap();
        assert_eq!(recorded.ended, [(0, Ok(1100)), (1, Ok(1100))]);
        assert_eq!(recorded.completed.len(), 2);
        let ledger = &recorded.ledger;
        assert_eq!(ledger.fallbacks_for(FallbackReason::TooManyRegions), 1);
        assert_eq!((ledger.fallbacks.len(), ledger.no_buffer_space), (1, 0));
    }
}
