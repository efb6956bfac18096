//! Endpoints in the queues of endpoints, and cycles of them.

use std::io::{PipeWriter, pipe};
use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use testbed::LONG;
use uncopy::channel::{Channel, Descriptor, EventPair, Handle, Object, Signals};

use crate::channel::{is_orphan, moved, send_handles, socket_pair};

/// Zircon's test nests 200; recursion would overflow the stack at this depth.
#[test]
fn deep_nesting_is_destroyed_without_recursion() {
    const DEPTH: usize = 100_000;
    let (witness, moved) = EventPair::pair();
    let (near, mut inner) = Channel::pair();
    send_handles(&near, vec![moved.into()]).unwrap();
    let mut writers = vec![near];
    for _ in 0..DEPTH {
        let (near, far) = Channel::pair();
        send_handles(&near, vec![inner.into()]).unwrap();
        inner = far;
        if writers.len() < 200 {
            writers.push(near);
        }
    }
    assert!(!is_orphan(&witness));
    drop(inner);
    assert!(is_orphan(&witness));
    assert!(writers.iter().all(|writer| writer.signals() == Signals::PEER_CLOSED));
}

#[test]
fn an_endpoint_in_its_own_queue_is_freed_with_its_peer() {
    let (witness, moved) = EventPair::pair();
    let (near, far) = Channel::pair();
    send_handles(&near, vec![moved.into()]).unwrap();
    send_handles(&near, vec![far.into()]).unwrap();
    assert_eq!(near.signals(), Signals::WRITABLE, "nothing is noticed while the peer is open");
    assert!(!is_orphan(&witness));
    drop(near);
    assert!(is_orphan(&witness));
}

#[test]
fn a_cycle_of_many_endpoints_is_freed_with_the_last_writer() {
    for size in [2, 3, 50] {
        let (witness, moved) = EventPair::pair();
        let (mut writers, readers): (Vec<_>, Vec<_>) = (0..size).map(|_| Channel::pair()).unzip();
        send_handles(&writers[0], vec![moved.into()]).unwrap();
        for (n, reader) in readers.into_iter().enumerate() {
            send_handles(&writers[(n + 1) % size], vec![reader.into()]).unwrap();
        }
        while let Some(writer) = writers.pop() {
            assert!(!is_orphan(&witness));
            drop(writer);
        }
        assert!(is_orphan(&witness), "{size}");
    }
}

#[test]
fn a_branch_of_a_cycle_is_freed_with_it() {
    let (witness, moved) = EventPair::pair();
    let (near, far) = Channel::pair();
    let (branch_near, branch_far) = Channel::pair();
    send_handles(&branch_near, vec![moved.into()]).unwrap();
    // The branch and its writer lie in the queue of the cycle.
    send_handles(&near, vec![branch_far.into(), branch_near.into()]).unwrap();
    send_handles(&near, vec![far.into()]).unwrap();
    drop(near);
    assert!(is_orphan(&witness));
}

#[test]
fn endpoints_that_a_program_can_reach_are_kept() {
    let (witness, moved) = EventPair::pair();
    let (outer_near, outer_far) = Channel::pair();
    let (near, far) = Channel::pair();
    send_handles(&near, vec![moved.into()]).unwrap();
    send_handles(&outer_near, vec![far.into()]).unwrap();
    drop(near);
    drop(outer_near);
    assert!(!is_orphan(&witness));
    let far = outer_far.read().unwrap().take_handles().remove(0);
    assert!(is_orphan(&far) && far.signals().contains(Signals::READABLE));
    let Ok(far) = Channel::try_from(far) else { panic!("a channel was sent") };
    assert_eq!(far.read().unwrap().take_handles().len(), 1);
    assert!(is_orphan(&witness));
}

/// Moves it from one end of a socket to the other.
fn sent(channel: Channel) -> Channel {
    let (near, far) = socket_pair();
    send_handles(&near, vec![channel.into()]).unwrap();
    let Ok(channel) = Channel::try_from(far.read().unwrap().take_handles().remove(0)) else {
        panic!("a channel was sent")
    };
    channel
}

/// They were kept while the writer of one lay in the queue of the other.
#[test]
fn cycles_that_hold_writers_of_each_other_are_freed() {
    let [(x, x_in), (y, y_in)] = [(); 2].map(|()| EventPair::pair());
    let [(a_near, a_far), (b_near, b_far), (c_near, c_far), (d_near, d_far)] =
        [(); 4].map(|()| Channel::pair());
    send_handles(&a_near, vec![x_in.into(), b_far.into()]).unwrap();
    send_handles(&b_near, vec![a_far.into()]).unwrap();
    send_handles(&c_near, vec![y_in.into(), d_far.into()]).unwrap();
    send_handles(&d_near, vec![c_far.into()]).unwrap();
    send_handles(&c_near, vec![a_near.into()]).unwrap();
    send_handles(&b_near, vec![c_near.into(), d_near.into()]).unwrap();
    assert!(!is_orphan(&x) && !is_orphan(&y));
    drop(b_near);
    assert!(is_orphan(&x) && is_orphan(&y));
}

/// It was kept for as long as the process ran.
#[test]
fn a_cycle_does_not_wait_for_a_writer_behind_a_socket() {
    let ways: [fn(Channel) -> Channel; 2] = [moved, sent];
    for (way, is_closed) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        // Before the cycle is complete, before the other writer is closed, or last.
        for moment in 0..3 {
            let go = |at, writer| if at == moment { way(writer) } else { writer };
            let (witness, inside) = EventPair::pair();
            let [(a_near, a_far), (b_near, b_far)] = [(); 2].map(|()| Channel::pair());
            send_handles(&a_near, vec![inside.into(), b_far.into()]).unwrap();
            let a_near = go(0, a_near);
            send_handles(&b_near, vec![a_far.into()]).unwrap();
            let a_near = go(1, a_near);
            assert!(!is_orphan(&witness), "{moment}");
            let a_near = if is_closed && moment < 2 { None } else { Some(a_near) };
            drop(b_near);
            assert_eq!(is_orphan(&witness), moment < 2, "{moment}");
            let a_near = a_near.map(|writer| go(2, writer));
            assert!(is_orphan(&witness), "{moment}");
            assert!(a_near.is_none_or(|writer| is_orphan(&writer)), "{moment}");
        }
    }
}

#[derive(Debug, Clone)]
enum EndStep {
    Send {
        through: usize,
        inner: Vec<usize>,
    },
    Read(usize),
    Close(usize),
    /// Goes to a socket and back, in a message or not.
    Move(usize, bool),
}

const ENDS: usize = 12;

fn steps() -> impl Strategy<Value = Vec<EndStep>> {
    let end = 0..ENDS;
    let step = prop_oneof![
        6 => (end.clone(), prop::collection::vec(end.clone(), 1..3))
            .prop_map(|(through, inner)| EndStep::Send { through, inner }),
        1 => end.clone().prop_map(EndStep::Read),
        1 => end.clone().prop_map(EndStep::Close),
        2 => (end, any::<bool>()).prop_map(|(end, is_sent)| EndStep::Move(end, is_sent)),
    ];
    prop::collection::vec(step, 1..60)
}

/// Returns a channel with descriptors of `witness` in both queues.
fn marked_pair(witness: &PipeWriter) -> [Option<Channel>; 2] {
    let (near, far) = Channel::pair();
    for end in [&near, &far] {
        let fd = OwnedFd::from(witness.try_clone().unwrap());
        send_handles(end, vec![Descriptor::from(fd).into()]).unwrap();
    }
    [Some(near), Some(far)]
}

fn apply(step: EndStep, ends: &mut [Option<Channel>]) {
    match step {
        EndStep::Send { through, inner } => {
            let Some(channel) = ends[through].take() else { return };
            let inner: Vec<Handle> =
                inner.into_iter().filter_map(|at| ends[at].take()).map(Handle::from).collect();
            // May fail if the peer is closed.
            let _ = send_handles(&channel, inner);
            ends[through] = Some(channel);
        }
        EndStep::Read(at) => {
            let Some(Ok(mut message)) = ends[at].as_ref().map(Channel::read) else { return };
            for channel in message.take_handles().into_iter().flat_map(Channel::try_from) {
                let free = ends.iter().position(Option::is_none).unwrap();
                ends[free] = Some(channel);
            }
        }
        EndStep::Close(at) => ends[at] = None,
        EndStep::Move(at, is_sent) => {
            let Some(channel) = ends[at].take() else { return };
            ends[at] = if is_sent {
                Some(sent(channel))
            } else {
                // Fails with unread messages from a socket.
                channel.into_fd().ok().map(|fd| Channel::from_fd(fd).unwrap())
            };
        }
    }
}

proptest! {
    // Every failure takes the whole patience.
    #![proptest_config(ProptestConfig { max_shrink_time: 1, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_left_once_all_ends_are_closed(steps in steps()) {
        let (reader, witness) = pipe().unwrap();
        let mut ends: Vec<_> = (0..ENDS / 2).flat_map(|_| marked_pair(&witness)).collect();
        drop(witness);
        steps.into_iter().for_each(|step| apply(step, &mut ends));
        drop(ends);
        // The kernel frees cycles of sockets a little later.
        let mut fds = [PollFd::new(&reader, PollFlags::empty())];
        let patience = Timespec { tv_sec: LONG.as_secs() as i64, tv_nsec: 0 };
        prop_assert_eq!(poll(&mut fds, Some(&patience)).unwrap(), 1);
    }
}
