//! What carries a ring's sends out: io_uring, or single calls where there is none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::calls::Calls;
use crate::buf::{Payload, Pool, StableBytes};
use crate::error::{Errno, Reason, Result};
use crate::send::counters::FallbackReason;
use crate::send::paths::Path;
use crate::send::sender::SenderOptions;
use crate::sys::inet::Socket;
use crate::sys::send_ring::{Operation, Parking, Registered, Witness, sweep};

/// A send that is handed to an engine.
pub(super) struct Request<B> {
    pub(super) payload: Payload<B>,
    pub(super) socket: usize,
    pub(super) to: Option<SocketAddr>,
    /// Bytes that one call may send.
    pub(super) most: usize,
    pub(super) lend: Result<Path, FallbackReason>,
    /// Registered huge pages are sent as such.
    pub(super) huge_by_index: bool,
}

pub(super) enum Engine<B: StableBytes> {
    Ring(Parking<B>),
    Calls(Calls<B>),
}

impl<B: StableBytes> Engine<B> {
    pub(super) fn calls(options: SenderOptions) -> Engine<B> {
        Engine::Calls(Calls::new(options))
    }

    /// Takes a socket in; it has the next index.
    pub(super) fn add(&mut self, socket: Socket) {
        match self {
            Engine::Ring(ring) => ring.add(Arc::new(socket)),
            Engine::Calls(calls) => calls.add(socket),
        }
    }

    /// Takes in a socket that a sender has.
    pub(super) fn add_shared(&mut self, socket: Arc<Socket>) {
        match self {
            Engine::Ring(ring) => ring.add(socket),
            Engine::Calls(calls) => calls.add_shared(socket),
        }
    }

    pub(super) fn socket(&self, index: usize) -> Option<&Socket> {
        match self {
            Engine::Ring(ring) => ring.socket(index),
            Engine::Calls(calls) => calls.socket(index),
        }
    }

    /// The same of a send, or why it cannot be taken.
    #[inline]
    pub(super) fn known(&self, index: usize) -> Result<&Socket, Reason> {
        let refused = "its socket is not this ring's; add it first";
        self.socket(index).ok_or_else(|| Reason::Refused(refused.to_owned()))
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

    /// Takes a send in; gives its number. `None`: there is no such socket.
    pub(super) fn push(&mut self, request: Request<B>) -> Option<u64> {
        match self {
            Engine::Ring(ring) => {
                let Request { payload, socket, to, most, lend, huge_by_index } = request;
                let operation = Operation::new(payload, socket, to, lend.is_ok()).in_parts_of(most);
                ring.push(match huge_by_index {
                    true => operation,
                    false => operation.without_huge_by_index(),
                })
            }
            Engine::Calls(calls) => calls.push(request),
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

    pub(super) fn cancel(&mut self, number: u64, witness: &mut impl Witness<B>) {
        match self {
            Engine::Ring(ring) => ring.cancel(number, witness),
            Engine::Calls(calls) => calls.cancel(number),
        }
    }

    /// Collects what happened; says whether anything did.
    pub(super) fn reap(&mut self, witness: &mut impl Witness<B>) -> Result<bool, Errno> {
        match self {
            Engine::Ring(ring) => ring.reap(witness),
            Engine::Calls(calls) => Ok(calls.tell(witness)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::sys::inet::Transport;
    use crate::sys::zerocopy::Landed;

    /// What an engine told, by number: how sends ended, and what of them came back.
    #[derive(Default)]
    struct Told {
        ended: Vec<(u64, Result<usize, Errno>)>,
        landed: Vec<(u64, usize)>,
    }

    impl Witness<Vec<u8>> for Told {
        fn is_made_again(&mut self, _: u64, _: Errno, _: Transport, _: bool) -> bool {
            unreachable!("that is for rings of the kernel")
        }

        fn ended(&mut self, number: u64, _: &Socket, result: Result<usize, Errno>) {
            self.ended.push((number, result));
        }

        fn landed(&mut self, _: &Socket, landed: Landed<Vec<u8>>) {
            self.landed.push((landed.number, landed.payload.len()));
        }
    }

    fn request(socket: usize, bytes: usize) -> Request<Vec<u8>> {
        let payload = Payload::One(vec![7; bytes]);
        let lend = Ok(Path::default());
        Request { payload, socket, to: None, most: usize::MAX, lend, huge_by_index: false }
    }

    #[test]
    fn calls_copy_on_a_socket_that_a_sender_has() {
        let receiver = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let socket = Socket::connect_udp(receiver.local_addr().unwrap()).unwrap();
        let mut engine = Engine::calls(SenderOptions::default());
        engine.add_shared(Arc::new(socket));
        assert!(engine.push(request(1, 5)).is_none(), "there is no such socket");
        let [sent, canceled, too_long] =
            [5, 6, 70_000].map(|bytes| engine.push(request(0, bytes)).unwrap());
        let mut told = Told::default();
        engine.cancel(canceled, &mut told);
        engine.cancel(canceled, &mut told);
        assert_eq!(engine.waiting(), 2);
        engine.submit(0, None).unwrap();
        assert!(engine.reap(&mut told).unwrap());
        assert!(!engine.reap(&mut told).unwrap());
        let expected =
            [(canceled, Err(Errno::ECANCELED)), (sent, Ok(5)), (too_long, Err(Errno::EMSGSIZE))];
        assert_eq!(told.ended, expected);
        assert_eq!(told.landed, [(canceled, 6), (sent, 5), (too_long, 70_000)]);
        assert_eq!(receiver.recv(&mut [0; 10]).unwrap(), 5);
    }
}
