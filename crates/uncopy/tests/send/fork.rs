//! Tests senders and rings in a child made by `fork(2)`: operations are refused, and drops have no effect on
//! the parent.

use std::io::{ErrorKind, Read};
use std::net::UdpSocket;
use std::time::Duration;

use testbed::{Case, cases, in_a_child, seeded};
use uncopy::Reason;
use uncopy::send::{
    InetSocket, Message, Mode, PageSize, Pool, PoolSlice, RegisteredPools, Release, Ring,
    RingSocket, SendId, Sender,
};

use crate::send::receiver::{expect, tcp, to_the_end};
use crate::send::{LONG, all_releases, here, register, ring_options, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        [] a_sender_in_a_child_leaves_its_parents_stream_alone,
        [] a_ring_in_a_child_leaves_its_parents_streams_alone,
        [] a_child_can_make_its_own_senders_and_rings,
    ]
}

const BYTES: usize = 200_000;

fn content(seed: u64) -> Vec<u8> {
    seeded(seed, 0, BYTES as u64)
}

fn is_forked<T>(result: Result<T, uncopy::Error>) -> bool {
    result.is_err_and(|error| {
        *error.reason() == Reason::Forked && error.to_string().contains("in this process")
    })
}

/// Returns the number of descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns whether every operation on a socket is refused.
fn is_socket_refused(socket: &InetSocket) -> bool {
    is_forked(socket.finish())
        && is_forked(socket.receive(&mut [0]))
        && is_forked(socket.set_no_delay(true))
        && is_forked(socket.set_send_buffer_bytes(1))
        && is_forked(socket.set_segment_bytes(None))
        && is_forked(socket.reconnect(here(false)))
        && is_forked(socket.local_address())
}

fn a_sender_in_a_child_leaves_its_parents_stream_alone() {
    for mode in [Mode::Zerocopy, Mode::Copy, Mode::Auto] {
        let (stream, socket) = tcp(false);
        let mut lending = Some(sender(socket, mode));
        let (_, idle) = tcp(false);
        let mut idle = Some(sender::<Vec<u8>>(idle, mode));
        let send = |lending: &mut Option<Sender<Vec<u8>>>, seed| {
            lending.as_mut().unwrap().send(content(seed)).result.unwrap();
        };
        for seed in 0..3 {
            send(&mut lending, seed);
        }
        assert!(in_a_child(|| {
            let mut own = lending.take().unwrap();
            let refused = is_forked(own.send(vec![1; 10]).result)
                && is_forked(own.send_to(vec![1; 10], here(false)).result)
                && is_forked(own.next_release())
                && is_forked(own.wait_release(Some(Duration::ZERO)))
                && is_socket_refused(own.socket());
            own.abort();
            let before = descriptors();
            drop(own);
            let is_closed = descriptors() == before - 1;
            refused
                && is_closed
                && is_forked(idle.take().unwrap().close(None).map_err(|closed| closed.error))
                && uncopy::send::parked() == 0
        }));
        send(&mut lending, 3);
        let reader = to_the_end(stream);
        let mut lending = lending.unwrap();
        let releases = all_releases(&mut lending);
        assert_eq!(releases.len(), 4, "{mode:?}");
        assert!(releases.iter().all(|release| release.bytes == BYTES));
        drop(lending);
        let expected: Vec<u8> = (0..4).flat_map(content).collect();
        assert!(reader.join().unwrap() == expected, "{mode:?}");
    }
}

/// A ring of the parent, with its socket and pools.
struct Parent {
    ring: Ring<PoolSlice>,
    socket: RingSocket,
    pool: Pool,
    registered: Option<RegisteredPools>,
    last: Option<SendId>,
}

impl Parent {
    fn send(&mut self, seed: u64) {
        let mut slice = self.pool.take().unwrap();
        slice.copy_from_slice(&content(seed));
        self.last = Some(self.ring.send(self.socket, Message::new(slice)).unwrap());
        self.ring.submit().unwrap();
    }

    fn is_refused(&mut self, own_slice: PoolSlice, shared: &Sender<Vec<u8>>) -> bool {
        let Parent { ring, socket, pool, registered, .. } = self;
        let not_taken =
            ring.send(*socket, Message::new(own_slice)).map_err(|refused| refused.error);
        let batch = ring.send_batch(*socket, Vec::new(), 0);
        let added = ring.add_shared(shared);
        ring.unregister_slots();
        ring.cancel(self.last.unwrap());
        let mut fresh = Ring::<PoolSlice>::new(&ring_options(Mode::Zerocopy));
        is_forked(not_taken)
            && batch.is_ok()
            && ring.socket(added).is_some()
            && is_forked(ring.submit())
            && is_forked(ring.wait(Some(Duration::ZERO)))
            && is_forked(ring.register_pool(pool))
            && is_forked(ring.registered_pools())
            && registered.as_ref().is_none_or(|pools| is_forked(fresh.register_pools_of(pools)))
            && is_forked(fresh.register_pool(pool))
            && pool.take().is_none()
            && is_forked(ring.register_slots(&[1]))
            && is_forked(ring.flush(&[0]))
            && ring.next_event().is_none()
            && is_socket_refused(ring.socket(*socket).unwrap())
    }
}

fn a_ring_in_a_child_leaves_its_parents_streams_alone() {
    testbed::need(testbed::KernelFeature::RingZerocopySends);
    for (mode, without_io_uring) in
        [Mode::Zerocopy, Mode::Copy].into_iter().flat_map(|mode| [(mode, false), (mode, true)])
    {
        // Leaves an orphan in this thread.
        let (mut parked_stream, parked) = tcp(false);
        drop_with_something_outstanding(parked, without_io_uring);
        let (stream, socket) = tcp(false);
        let mut options = ring_options(mode);
        options.without_io_uring = without_io_uring;
        let mut ring = Ring::new(&options);
        let socket = ring.add(socket);
        let pool = Pool::new(8, BYTES, PageSize::Base).unwrap();
        let registered = (!without_io_uring).then(|| {
            register(&mut ring, &pool);
            ring.registered_pools().unwrap()
        });
        ring.register_slots(&[5]).unwrap();
        let lending = sender::<Vec<u8>>(tcp(false).1, mode);
        let mut parent = Some(Parent { ring, socket, pool, registered, last: None });
        for seed in 0..4 {
            parent.as_mut().unwrap().send(seed);
        }
        let slice = parent.as_ref().unwrap().pool.take().unwrap();
        let mut given = Some((slice, lending));
        assert!(in_a_child(|| {
            let mut own = parent.take().unwrap();
            let (slice, lending) = given.take().unwrap();
            let refused = own.is_refused(slice, &lending);
            drop(lending);
            let before = descriptors();
            drop(own.registered.take());
            let unfinished = own.ring.close(None);
            let is_closed = descriptors() < before;
            refused
                && is_closed
                && unfinished.is_err_and(|u| is_forked(Err::<(), _>(u.error.unwrap())))
        }));
        drop(given);
        let mut parent = parent.unwrap();
        parent.send(4);
        let reader = to_the_end(stream);
        let events = run(&mut parent.ring);
        assert_eq!(events.results.len(), 5, "{mode:?} {without_io_uring}");
        let bytes: Vec<usize> = events.releases.iter().map(|release| release.bytes).collect();
        assert_eq!(bytes, [BYTES; 5], "{mode:?} {without_io_uring}");
        drop(parent);
        let expected: Vec<u8> = (0..5).flat_map(content).collect();
        assert!(reader.join().unwrap() == expected, "{mode:?} {without_io_uring}");
        if without_io_uring {
            // Nobody goes on with it: it was cut off when its ring was dropped.
            let end = parked_stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
            assert_eq!(end, Err(ErrorKind::ConnectionReset), "{mode:?}");
            continue;
        }
        let parked = to_the_end(parked_stream);
        // Using any ring makes progress with the orphans of the thread.
        while !parked.is_finished() {
            Ring::<Vec<u8>>::new(&ring_options(Mode::Copy)).submit().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!parked.join().unwrap().is_empty());
    }
}

/// Drops a ring in the middle of a send that the peer does not read.
fn drop_with_something_outstanding(socket: InetSocket, without_io_uring: bool) {
    let mut options = ring_options(Mode::Zerocopy);
    options.without_io_uring = without_io_uring;
    let mut ring = Ring::new(&options);
    socket.set_send_buffer_bytes(64 << 10).unwrap();
    let socket = ring.add(socket);
    ring.send(socket, Message::new(vec![7; 4 << 20])).unwrap();
    ring.submit().unwrap();
    assert_eq!(ring.outstanding().sends, 1);
}

fn a_child_can_make_its_own_senders_and_rings() {
    // Starts the parking thread of the parent.
    let (stream, socket) = tcp(false);
    let mut parents = sender(socket, Mode::Zerocopy);
    parents.send(content(0)).result.unwrap();
    drop(parents);
    assert!(in_a_child(|| {
        let receiver = UdpSocket::bind(here(false)).unwrap();
        receiver.set_read_timeout(Some(LONG)).unwrap();
        let to = receiver.local_addr().unwrap();
        let mut own = sender(InetSocket::connect_udp(to).unwrap(), Mode::Zerocopy);
        own.send(vec![3; 5000]).result.unwrap();
        expect(&receiver, &[3; 5000]);
        let releases: Vec<Release<_>> = all_releases(&mut own);
        let mut ring = Ring::new(&ring_options(Mode::Zerocopy));
        let socket = ring.add(InetSocket::connect_udp(to).unwrap());
        ring.send(socket, Message::new(vec![4; 5000])).unwrap();
        let events = run(&mut ring);
        expect(&receiver, &[4; 5000]);
        // Uses the child's own parking thread.
        let (stream, socket) = tcp(false);
        let mut left = sender(socket, Mode::Zerocopy);
        left.send(content(1)).result.unwrap();
        drop(left);
        let read = to_the_end(stream).join().unwrap();
        releases.len() == 1 && events.releases.len() == 1 && read == content(1)
    }));
    assert!(to_the_end(stream).join().unwrap() == content(0));
}
