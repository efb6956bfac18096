//! Allocations: none for a message in the steady state, and no leaks. A separate program, because its
//! allocator counts.

mod intruder;

use std::io::{IoSlice, IoSliceMut};

use testbed::CountingAllocator;
use uncopy::channel::{
    BatchRegion, Channel, Deadline, Descriptor, Event, EventPair, Fifo, Object, Signals, Socket,
    SocketKind, Vmo,
};

use crate::alone;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

fn past() -> Deadline {
    Deadline::after(std::time::Duration::ZERO)
}

fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    (near, Channel::from_fd(far.into_fd().unwrap()).unwrap())
}

fn wait(channel: &Channel) {
    channel.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
}

/// Returns the allocations of `rounds` rounds, after some that grow pools and queues.
fn counted(rounds: u64, mut round: impl FnMut()) -> u64 {
    (0..100).for_each(|_| round());
    let before = ALLOCATOR.allocations();
    (0..rounds).for_each(|_| round());
    ALLOCATOR.allocations() - before
}

#[test]
fn messages_allocate_nothing_on_the_steady_path() {
    let _alone = alone();
    assert_eq!(counted(10, || drop(vec![1])), 10, "the allocator counts");
    for (transport, (near, far)) in [("queue", Channel::pair()), ("socket", socket_pair())] {
        for size in [0usize, 1, 256, 4096, 20_000, 65_536] {
            let bytes = vec![7; size];
            let mut out = vec![0; size];
            let (front, back) = bytes.split_at(size / 3);
            let regions = [front, back].map(IoSlice::new);
            let lent = counted(1000, || {
                near.write(&regions, Vec::new()).unwrap();
                wait(&far);
                assert_eq!(far.read().unwrap().len(), size);
            });
            let copied = counted(1000, || {
                near.write(&regions, Vec::new()).unwrap();
                wait(&far);
                assert_eq!(far.read_into(&mut out, &mut []).unwrap().bytes, size);
            });
            let scattered = counted(1000, || {
                near.write(&regions, Vec::new()).unwrap();
                let (front, back) = out.split_at_mut(size / 2);
                far.read_scattered(&mut [front, back].map(IoSliceMut::new), &mut []).unwrap();
            });
            assert_eq!((lent, copied, scattered), (0, 0, 0), "{transport}, {size} bytes");
        }
    }
}

#[test]
fn filling_and_emptying_a_queue_again_allocates_nothing() {
    let _alone = alone();
    for (transport, (near, far)) in [("queue", Channel::pair()), ("socket", socket_pair())] {
        let allocated = counted(100, || {
            // As many as a thread caches buffers of one size.
            (0..16).for_each(|_| near.write(&[IoSlice::new(&[1; 100])], Vec::new()).unwrap());
            far.signals();
            (0..16).for_each(|_| drop(far.read().unwrap()));
        });
        assert_eq!(allocated, 0, "{transport}");
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Performs some of every operation; more than ten in total.
fn round(n: usize, near: &Channel, far: &Channel) {
    let body = [n.to_le_bytes()[0]; 300];
    near.write(&[IoSlice::new(&body), IoSlice::new(&body[..n % 200])], vec![]).unwrap();
    wait(far);
    drop(far.read().unwrap());
    let region = |message| BatchRegion { bytes: &body, message, handles: 0 };
    near.write_batch(&[region(0), region(1)], &mut vec![]).unwrap();
    (0..2).for_each(|_| drop(far.read().unwrap()));
    assert!(near.call(&[IoSlice::new(b"0000")], vec![], past()).is_err());
    assert!(far.read_into(&mut [0; 2], &mut []).is_err());
    let question = far.read().unwrap();
    far.write(&[IoSlice::new(&question)], vec![]).unwrap();
    assert_eq!(near.read().unwrap().len(), 4);
    near.signal_peer(Signals::empty(), Signals::USER_0).unwrap();
    far.signal(Signals::USER_0, Signals::empty()).unwrap();
    if n.is_multiple_of(16) {
        objects(near, far);
    }
}

/// Sends objects; some are read, some are dropped with their message.
fn objects(near: &Channel, far: &Channel) {
    let (inner_near, inner_far) = Channel::pair();
    inner_near.write(&[IoSlice::new(b"queued")], vec![Event::new().into()]).unwrap();
    let (pair, _) = EventPair::pair();
    let (fifo, _) = Fifo::pair(8, 4).unwrap();
    let (socket, other) = Socket::pair(SocketKind::Stream);
    socket.write(b"bytes").unwrap();
    let file = Descriptor::from(std::os::fd::OwnedFd::from(std::io::pipe().unwrap().0));
    let handles = vec![inner_far.into(), pair.into(), fifo.into(), other.into(), file.into()];
    near.write(&[], handles).unwrap();
    near.write(&[], vec![Vmo::new(1).unwrap().into(), Event::new().into()]).unwrap();
    let mut handles = far.read().unwrap().take_handles();
    let inner_far = Channel::try_from(handles.remove(0)).unwrap();
    assert_eq!(inner_far.read().unwrap().handles().len(), 1);
    drop((inner_near, inner_far, handles));
    drop(far.read().unwrap());
}

#[test]
fn a_million_operations_over_a_socket_leak_nothing() {
    let rounds = testbed::by_extent([8_000, 80_000, 80_000]);
    let _alone = alone();
    let (near, far) = socket_pair();
    (0..1000).for_each(|n| round(n, &near, &far));
    let before = (descriptors(), ALLOCATOR.live_bytes());
    (0..rounds).for_each(|n| round(n, &near, &far));
    let after = (descriptors(), ALLOCATOR.live_bytes());
    assert_eq!(after, before);
}
