//! Events and event pairs.

use testbed::Transport;
use uncopy::channel::{Object, Rights, Signals, Status};

use crate::channel::{is_orphan, past};

pub(crate) fn an_event_has_its_own_signal_and_user_signals(over: Transport) {
    let (event, again) = over.events();
    event.signal(Signals::empty(), Signals::SIGNALED | Signals::USER_7).unwrap();
    assert_eq!(again.signals(), Signals::SIGNALED | Signals::USER_7);
    again.signal(Signals::SIGNALED, Signals::USER_0).unwrap();
    assert_eq!(event.signals(), Signals::USER_0 | Signals::USER_7);
    for signals in [Signals::READABLE, Signals::PEER_CLOSED, Signals::HANDLE_CLOSED] {
        assert_eq!(again.signal(Signals::empty(), signals), Err(Status::InvalidArgs));
    }
    assert_eq!(again.signal_peer(Signals::empty(), Signals::USER_0), Err(Status::AccessDenied));
    let deaf = again.duplicate(Some(Rights::TRANSFER)).unwrap();
    assert_eq!(deaf.wait_one(Signals::USER_0, past()), Err(Status::AccessDenied));
    assert_eq!(deaf.signal(Signals::empty(), Signals::USER_0), Err(Status::AccessDenied));
}

pub(crate) fn an_event_pair_signals_the_other_end_and_reports_when_it_is_closed(over: Transport) {
    let (near, far) = over.event_pairs();
    near.signal_peer(Signals::empty(), Signals::SIGNALED | Signals::USER_1).unwrap();
    near.signal(Signals::empty(), Signals::USER_2).unwrap();
    assert_eq!(far.signals(), Signals::SIGNALED | Signals::USER_1);
    assert_eq!(near.signals(), Signals::USER_2);
    far.signal(Signals::USER_1, Signals::empty()).unwrap();
    assert_eq!(far.signals(), Signals::SIGNALED);
    let refused = far.signal_peer(Signals::empty(), Signals::READABLE);
    assert_eq!(refused, Err(Status::InvalidArgs));
    let twin = near.duplicate(None).unwrap();
    drop(near);
    assert!(!is_orphan(&far), "there is a duplicate");
    drop(twin);
    assert_eq!(far.signals(), Signals::SIGNALED | Signals::PEER_CLOSED);
    let refused = far.signal_peer(Signals::empty(), Signals::USER_0);
    assert_eq!(refused, Err(Status::PeerClosed));
}
