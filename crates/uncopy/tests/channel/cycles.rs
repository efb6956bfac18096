//! Endpoints in the queues of endpoints, and cycles of them.

use uncopy::channel::{Channel, EventPair, Object, Signals};

use crate::channel::{is_orphan, send_handles};

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
