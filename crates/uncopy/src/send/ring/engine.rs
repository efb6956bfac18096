//! What carries a ring's sends out: io_uring, or single calls where there is none.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::buf::{Payload, Pool, StableBytes};
use crate::error::{Errno, Result};
use crate::send::counters::FallbackReason;
use crate::send::sender::{Sender, SenderOptions};
use crate::sys::inet::Socket;
use crate::sys::send_ring::{Operation, Parking, Registered, Witness, sweep};
use crate::sys::zerocopy::Landed;

/// A send that is handed to an engine.
pub(super) struct Request<B> {
    pub(super) payload: Payload<B>,
    pub(super) socket: usize,
    pub(super) to: Option<SocketAddr>,
    /// Bytes that one call may send.
    pub(super) most: usize,
    pub(super) lend: Result<(), FallbackReason>,
    /// Registered huge pages are sent as such.
    pub(super) huge_by_index: bool,
}

pub(super) enum Engine<B: StableBytes> {
    Ring(Parking<B>),
    Calls(Calls<B>),
}

/// One call for each send.
pub(super) struct Calls<B: StableBytes> {
    lanes: Vec<Lane<B>>,
    /// Not carried out yet, by number.
    waiting: VecDeque<(u64, Request<B>)>,
    next: u64,
    options: SenderOptions,
    /// What has happened, each with the index of the socket.
    steps: VecDeque<(usize, Step<B>)>,
}

/// What became of a send.
enum Step<B> {
    /// The kernel took so many bytes, or refused.
    Ended { number: u64, result: Result<usize, Errno> },
    /// Its memory is free.
    Landed(Landed<B>),
}

/// A socket, and which of the ring's numbers its sends have.
enum Lane<B: StableBytes> {
    Own {
        sender: Box<Sender<B>>,
        numbers: VecDeque<(u64, u64)>,
    },
    /// Of a sender elsewhere, which counts what is lent there: nothing is lent here.
    Shared {
        socket: Arc<Socket>,
    },
}

impl<B: StableBytes> Engine<B> {
    pub(super) fn calls(options: SenderOptions) -> Engine<B> {
        let (lanes, waiting, steps) = Default::default();
        Engine::Calls(Calls { lanes, waiting, next: 0, options, steps })
    }

    /// Takes a socket in; it has the next index.
    pub(super) fn add(&mut self, socket: Socket) {
        match self {
            Engine::Ring(ring) => ring.add(Arc::new(socket)),
            Engine::Calls(calls) => {
                let sender = Box::new(Sender::new(socket, &calls.options));
                calls.lanes.push(Lane::Own { sender, numbers: VecDeque::new() });
            }
        }
    }

    /// Takes in a socket that a sender has.
    pub(super) fn add_shared(&mut self, socket: Arc<Socket>) {
        match self {
            Engine::Ring(ring) => ring.add(socket),
            Engine::Calls(calls) => calls.lanes.push(Lane::Shared { socket }),
        }
    }

    pub(super) fn socket(&self, index: usize) -> Option<&Socket> {
        match self {
            Engine::Ring(ring) => ring.socket(index),
            Engine::Calls(calls) => calls.lanes.get(index).map(Lane::socket),
        }
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
            Engine::Calls(calls) => {
                calls.lanes.get(request.socket)?;
                let number = calls.next;
                calls.next += 1;
                calls.waiting.push_back((number, request));
                Some(number)
            }
        }
    }

    /// Sends that were not submitted.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Engine::Ring(ring) => ring.waiting(),
            Engine::Calls(calls) => calls.waiting.len(),
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
                calls.carry_out();
                calls.wait(want, timeout);
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

impl<B: StableBytes> Lane<B> {
    fn socket(&self) -> &Socket {
        match self {
            Lane::Own { sender, .. } => sender.socket(),
            Lane::Shared { socket } => socket,
        }
    }
}

impl<B: StableBytes> Calls<B> {
    fn carry_out(&mut self) {
        for (number, request) in std::mem::take(&mut self.waiting) {
            let Request { payload, socket: lane, to, lend, .. } = request;
            let result = match &mut self.lanes[lane] {
                Lane::Own { sender, numbers } => {
                    let (own, result) = sender.send_chosen(payload, to, lend);
                    numbers.push_back((own, number));
                    result
                }
                Lane::Shared { socket } => {
                    let (landed, result) = super::plain::send(socket, number, payload, to);
                    let steps = [Step::Ended { number, result }, Step::Landed(landed)];
                    self.steps.extend(steps.map(|step| (lane, step)));
                    continue;
                }
            };
            self.steps.push_back((lane, Step::Ended { number, result }));
        }
    }

    fn cancel(&mut self, number: u64) {
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == number);
        let Some((number, request)) = place.and_then(|place| self.waiting.remove(place)) else {
            return;
        };
        let landed = super::plain::unsent(number, request.payload);
        let ended = Step::Ended { number, result: Err(Errno::ECANCELED) };
        self.steps.extend([ended, Step::Landed(landed)].map(|step| (request.socket, step)));
    }

    /// Tells what happened since, if anything did.
    fn tell(&mut self, witness: &mut impl Witness<B>) -> bool {
        self.look();
        let has_happened = !self.steps.is_empty();
        for (lane, step) in self.steps.drain(..) {
            let socket = self.lanes[lane].socket();
            match step {
                Step::Ended { number, result } => witness.ended(number, socket, result),
                Step::Landed(landed) => witness.landed(socket, landed),
            }
        }
        has_happened
    }

    /// Collects releases.
    fn look(&mut self) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let Lane::Own { sender, numbers } = lane else { continue };
            // A queue that cannot be read gives nothing more.
            while let Ok(Some(mut landed)) = sender.next_landed() {
                let place = numbers.iter().position(|(own, _)| *own == landed.number);
                if let Some((_, number)) = place.and_then(|place| numbers.remove(place)) {
                    landed.number = number;
                    self.steps.push_back((index, Step::Landed(landed)));
                }
            }
        }
    }

    fn wait(&mut self, want: usize, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            self.look();
            let is_outstanding = self.lanes.iter().any(
                |lane| matches!(lane, Lane::Own { sender, .. } if sender.outstanding().sends > 0),
            );
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if self.steps.len() >= want || !is_outstanding || left == Some(Duration::ZERO) {
                return;
            }
            // Several sockets, each of which may be the first: looked at in turn.
            std::thread::sleep(Duration::from_micros(200).min(left.unwrap_or(Duration::MAX)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::sys::inet::Transport;

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
        let lend = Ok(());
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
