//! Batches: several messages in one write.

use testbed::Transport;
use uncopy::channel::{
    BatchError, BatchRegion, Bounds, Channel, EventPair, Handle, Object, Rights, Signals, Status,
};

use crate::channel::is_orphan;

fn region(bytes: &[u8], message: u16, handles: u16) -> BatchRegion<'_> {
    BatchRegion { bytes, message, handles }
}

fn event_pairs(count: usize) -> (Vec<EventPair>, Vec<Handle>) {
    (0..count).map(|_| EventPair::pair()).map(|(a, b)| (a, Handle::from(b))).unzip()
}

fn has_closed_peers(witnesses: &[EventPair]) -> Vec<bool> {
    witnesses.iter().map(|witness| is_orphan(witness)).collect()
}

pub(crate) fn a_batch_arrives_as_separate_messages(over: Transport) {
    let (near, far) = over.channels();
    let (witnesses, mut handles) = event_pairs(3);
    let regions = [region(b"a", 0, 1), region(b"b", 0, 1), region(b"", 1, 0), region(b"c", 2, 1)];
    assert_eq!(near.write_batch(&regions, &mut handles), Ok(3));
    assert!(handles.is_empty());
    for (bytes, count, first) in [(&b"ab"[..], 2, Some(0)), (b"", 0, None), (b"c", 1, Some(2))] {
        let message = far.read().unwrap();
        assert_eq!((&*message, message.handles().len()), (bytes, count));
        if let Some(first) = first {
            let witness: &EventPair = &witnesses[first];
            witness.signal_peer(Signals::empty(), Signals::SIGNALED).unwrap();
            assert_eq!(message.handles()[0].signals(), Signals::SIGNALED);
        }
    }
    assert_eq!(near.write_batch(&[], &mut handles), Ok(0));
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
}

#[test]
fn a_full_queue_in_the_middle_of_a_batch_returns_the_unsent_handles() {
    let bounds = Bounds::new().messages(2);
    let (near, far) = Channel::pair_with(bounds);
    let (witnesses, mut handles) = event_pairs(4);
    let regions: Vec<_> = (0..4).map(|n| region(b"x", n, 1)).collect();
    let error = near.write_batch(&regions, &mut handles).unwrap_err();
    assert_eq!(error, BatchError { status: Status::ShouldWait, sent: 2 });
    let back: Vec<_> = handles.iter().map(Object::koid).collect();
    let expected: Vec<_> = witnesses[2..].iter().map(|w| w.related_koid().unwrap()).collect();
    assert_eq!(back, expected);
    (0..2).for_each(|_| drop(far.read().unwrap()));
    assert_eq!(has_closed_peers(&witnesses), [true, true, false, false]);
    assert_eq!(near.write_batch(&regions[..2], &mut handles), Ok(2));
}

pub(crate) fn a_bad_handle_in_the_middle_of_a_batch_fails_only_its_message(over: Transport) {
    let (near, far) = over.channels();
    let (witnesses, mut handles) = event_pairs(4);
    let stuck = handles.remove(1).replace(Some(Rights::WAIT)).unwrap();
    handles.insert(1, stuck);
    let regions = [region(b"1", 0, 1), region(b"2", 1, 2), region(b"3", 2, 1)];
    let error = near.write_batch(&regions, &mut handles).unwrap_err();
    assert_eq!(error, BatchError { status: Status::AccessDenied, sent: 1 });
    assert_eq!(has_closed_peers(&witnesses), [false, true, true, false]);
    assert_eq!(handles.len(), 1);
    assert_eq!(&*far.read().unwrap(), b"1");
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
}

pub(crate) fn batches_with_broken_rules_or_a_closed_peer_send_nothing(over: Transport) {
    for (regions, close, status, back) in [
        (vec![region(b"1", 0, 1), region(b"2", 2, 1)], false, Status::InvalidArgs, 0),
        (vec![region(b"1", 0, 1), region(b"2", 1, 1)], true, Status::PeerClosed, 1),
    ] {
        let (near, far) = over.channels();
        let (_witnesses, mut handles) = event_pairs(2);
        let far = (!close).then_some(far);
        let error = near.write_batch(&regions, &mut handles).unwrap_err();
        assert_eq!(error, BatchError { status, sent: 0 });
        assert_eq!(handles.len(), back, "{status}");
        if let Some(far) = far {
            assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
        }
    }
}
