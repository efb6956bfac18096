//! What carries a ring's sends out: io_uring, or single calls where there is none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::calls::Calls;
use super::socket_state::Context;
use crate::counters::FallbackReason;
use crate::options::SenderOptions;
use crate::paths::Path;
use crate::room::inet::InetSocket;
use crate::room::send_ring::{CompletionSink, Operation, ParkOnDrop, Registered, sweep};
use crate::room::{Payload, Pool, StableBytes};
use uncopy_core::{Errno, Reason, Result};

/// A send that is handed to an engine.
pub(super) struct Request<'a, B> {
    pub(super) payload: Payload<B>,
    pub(super) socket: usize,
    pub(super) to: Option<&'a SocketAddr>,
    /// Bytes that one call may send.
    pub(super) most: usize,
    pub(super) lend: Result<Path, FallbackReason>,
    /// Registered huge pages are sent as such.
    pub(super) huge_by_index: bool,
}

pub(super) enum Engine<B: StableBytes> {
    Ring(ParkOnDrop<B, Context>),
    Calls(Calls<B, Context>),
}

impl<B: StableBytes> Engine<B> {
    pub(super) fn calls(options: SenderOptions) -> Engine<B> {
        Engine::Calls(Calls::new(options))
    }

    /// Takes a socket in; it has the next index.
    pub(super) fn add(&mut self, socket: InetSocket) {
        match self {
            Engine::Ring(ring) => ring.add(Arc::new(socket)),
            Engine::Calls(calls) => calls.add(socket),
        }
    }

    /// Takes in a socket that a sender has.
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

    /// The same of a send, or why it cannot be taken.
    #[inline]
    pub(super) fn known(&self, index: usize) -> Result<&InetSocket, Reason> {
        let refused = "its socket is not this ring's; add it first";
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

    /// Takes over what another ring has registered, anew where the kernel cannot do better.
    pub(super) fn register_clone(&mut self, registered: &Registered) -> Result<(), Errno> {
        let Engine::Ring(ring) = self else { return Err(Errno::EOPNOTSUPP) };
        if ring.register_clone(registered).is_ok() {
            return Ok(());
        }
        // Before Linux 6.12; or other buffers are registered here.
        registered.pools.iter().try_for_each(|pool| match ring.has(pool) {
            true => Ok(()),
            false => ring.register(pool),
        })
    }

    /// The pool is registered with the kernel.
    pub(super) fn has(&self, pool: &Pool) -> bool {
        matches!(self, Engine::Ring(ring) if ring.has(pool))
    }

    /// Takes in a send over a socket that is [`known`](Self::known); gives its number.
    #[inline]
    pub(super) fn push(&mut self, request: Request<'_, B>, context: Context) -> Option<u64> {
        let Request { payload, socket, to, most, lend, huge_by_index } = request;
        match self {
            Engine::Ring(ring) => Some(ring.push(|| {
                let operation = Operation::new(payload, (socket, to), lend.is_ok(), context);
                operation.in_parts_of(most).with_huge_by_index(huge_by_index)
            })),
            Engine::Calls(calls) => {
                let request = Request { payload, socket, to, most, lend, huge_by_index };
                calls.push(request, context)
            }
        }
    }

    /// Nothing more is taken in: streams end as soon as all sends over them have their results.
    pub(super) fn end_streams(&mut self) {
        match self {
            Engine::Ring(ring) => ring.end_streams(),
            Engine::Calls(calls) => calls.end_streams(),
        }
    }

    /// Sends that were not submitted.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Engine::Ring(ring) => ring.waiting(),
            Engine::Calls(calls) => calls.waiting(),
        }
    }

    /// Submits what waits; waits for `want` completions or until the time is over.
    pub(super) fn submit(&mut self, want: usize, timeout: Option<Duration>) -> Result<(), Errno> {
        match self {
            Engine::Ring(ring) => {
                sweep();
                ring.submit(want, timeout)
            }
            Engine::Calls(calls) => {
                calls.submit(want, timeout);
                Ok(())
            }
        }
    }

    pub(super) fn cancel(&mut self, number: u64, sink: &mut impl CompletionSink<B, Context>) {
        match self {
            Engine::Ring(ring) => ring.cancel(number, sink),
            Engine::Calls(calls) => calls.cancel(number),
        }
    }

    /// Collects what happened; says whether anything did.
    pub(super) fn reap(
        &mut self,
        sink: &mut impl CompletionSink<B, Context>,
    ) -> Result<bool, Errno> {
        match self {
            Engine::Ring(ring) => ring.reap(sink),
            Engine::Calls(calls) => Ok(calls.report(sink)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::room::send_ring::IndexedSocket;
    use crate::room::zerocopy::Completed;

    /// What an engine told, by number: how sends ended, and what of them came back.
    #[derive(Default)]
    struct Recorded {
        ended: Vec<(u64, Result<usize, Errno>)>,
        completed: Vec<(u64, usize)>,
    }

    impl CompletionSink<Vec<u8>, Context> for Recorded {
        fn should_retry_copied(&mut self, _: IndexedSocket<'_>, _: Errno, _: bool) -> bool {
            unreachable!("that is for rings of the kernel")
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
        let lend = Ok(Path::default());
        let request =
            Request { payload, socket, to: None, most: usize::MAX, lend, huge_by_index: false };
        engine.push(request, Context::default())
    }

    #[test]
    fn calls_copy_on_a_socket_that_a_sender_has() {
        let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let socket = InetSocket::connect_udp(receiver.local_addr().unwrap()).unwrap();
        let mut engine = Engine::calls(SenderOptions::default());
        engine.add_shared(Arc::new(socket));
        assert!(push(&mut engine, 1, 5).is_none(), "there is no such socket");
        let [sent, canceled, too_long] =
            [5, 6, 70_000].map(|bytes| push(&mut engine, 0, bytes).unwrap());
        let mut recorded = Recorded::default();
        engine.cancel(canceled, &mut recorded);
        engine.cancel(canceled, &mut recorded);
        assert_eq!(engine.waiting(), 2);
        engine.submit(0, None).unwrap();
        assert!(engine.reap(&mut recorded).unwrap());
        assert!(!engine.reap(&mut recorded).unwrap());
        let expected =
            [(canceled, Err(Errno::ECANCELED)), (sent, Ok(5)), (too_long, Err(Errno::EMSGSIZE))];
        assert_eq!(recorded.ended, expected);
        assert_eq!(recorded.completed, [(canceled, 6), (sent, 5), (too_long, 70_000)]);
        assert_eq!(receiver.recv(&mut [0; 10]).unwrap(), 5);
    }
}
