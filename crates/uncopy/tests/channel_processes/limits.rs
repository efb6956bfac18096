//! Running out of descriptors.

use std::os::unix::process::CommandExt;
use std::process::Command;

use testbed::Case;
use uncopy::channel::{Channel, Event, Handle, Status, Vmo};

use crate::channel_processes::{Actor, next, next_handle, roles, send, send_with};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_call_whose_answer_lost_its_descriptors_is_answered,
        [] a_lost_message_moves_with_its_end,
        [] a_queue_full_of_ends_moves_with_a_few_descriptors,
        [] a_receiver_without_descriptors_loses_only_their_message,
        [] a_sender_with_too_many_descriptors_in_flight_loses_only_those,
        [] a_sender_without_descriptors_loses_only_the_moved_handles,
    ]
}

/// A kind of handle, and the number of them that a message carries.
type Cargo = (fn() -> Handle, usize);

/// Descriptors that cannot be received, and descriptors that can while there is none for the epoll set of
/// an event.
fn a_receiver_without_descriptors_loses_only_their_message() {
    let vmo = || Vmo::new(1).unwrap().into();
    let event = || Event::new().into();
    let cargoes: [Cargo; 4] = [(vmo, 4), (vmo, 20), (vmo, 64), (event, 1)];
    for (make, count) in cargoes {
        let actor = Actor::start("starve");
        let (report, there) = Channel::pair();
        send_with(&actor.channel, &[], vec![there.into()]).unwrap();
        assert_eq!(&*next(&actor.channel).unwrap(), b"ready");
        send(&actor.channel, b"before").unwrap();
        send_with(&actor.channel, b"too many", (0..count).map(|_| make()).collect()).unwrap();
        send(&actor.channel, b"behind").unwrap();
        send(&actor.channel, b"sent").unwrap();
        let said = String::from_utf8_lossy(&next(&report).unwrap()).into_owned();
        assert_eq!(said, "before, lost by the limit, behind, 0 more descriptors", "{count}");
        // The channel carries handles again.
        send_with(&actor.channel, b"now", (0..count).map(|_| make()).collect()).unwrap();
        assert_eq!(next(&actor.channel).unwrap().take_handles().len(), count);
        drop(report);
        actor.finish();
    }
}

/// The caller of a call gets the status in the place of its answer.
fn a_call_whose_answer_lost_its_descriptors_is_answered() {
    let actor = Actor::start("starving caller");
    let request = next(&actor.channel).unwrap();
    let id = request[..4].to_vec();
    let vmos = (0..20).map(|_| Vmo::new(1).unwrap().into()).collect();
    send_with(&actor.channel, &id, vmos).unwrap();
    send(&actor.channel, b"behind").unwrap();
    assert_eq!(&*next(&actor.channel).unwrap(), b"lost by the limit, behind");
    actor.finish();
}

/// An end with such a message in its queue moves on with it.
fn a_lost_message_moves_with_its_end() {
    let actor = Actor::start("starving relay");
    let (near, far) = Channel::pair();
    // Connected by a socket, so that the child receives its messages itself.
    send_with(&actor.channel, &[], vec![far.into()]).unwrap();
    assert_eq!(&*next(&actor.channel).unwrap(), b"ready");
    send(&near, b"before").unwrap();
    send_with(&near, b"too many", (0..20).map(|_| Vmo::new(1).unwrap().into()).collect()).unwrap();
    send(&near, b"behind").unwrap();
    send(&actor.channel, b"sent").unwrap();
    let end: Channel = next_handle(&actor.channel);
    assert_eq!(&*end.read().unwrap(), b"before");
    assert!(matches!(end.read(), Err(Status::DescriptorLimit { limit: 1.. })));
    assert_eq!(&*next(&end).unwrap(), b"behind");
    actor.finish();
}

/// Those of the ends in one message are closed before the next message is sent.
fn a_queue_full_of_ends_moves_with_a_few_descriptors() {
    let actor = Actor::start("crowd");
    let crowd: Channel = next_handle(&actor.channel);
    for n in 0..roles::CROWD {
        let outer: Channel = next_handle(&crowd);
        let inner: Channel = next_handle(&outer);
        assert_eq!(*next(&inner).unwrap(), n.to_ne_bytes());
        for end in [outer, inner] {
            assert_eq!(next(&end).unwrap_err(), Status::PeerClosed);
        }
    }
    actor.finish();
}

fn a_sender_with_too_many_descriptors_in_flight_loses_only_those() {
    // The limit applies to a user without privileges.
    let mut command = Command::new("/proc/self/exe");
    command.env(roles::VARIABLE, "hoard");
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let actor = Actor::start_by(&mut command);
    let said = next(&actor.channel).unwrap();
    assert_eq!(String::from_utf8_lossy(&said), "NoResources 1");
    send_with(&actor.channel, &[], vec![Event::new().into()]).unwrap();
    actor.finish();
}

fn a_sender_without_descriptors_loses_only_the_moved_handles() {
    let actor = Actor::start("cramp");
    let (mut moved, mut refused) = (0, 0);
    let said = loop {
        let mut message = next(&actor.channel).unwrap();
        match &*message {
            b"moved" => moved += message.take_handles().len(),
            b"still there" => refused += 1,
            _ => break String::from_utf8_lossy(&message).into_owned(),
        }
    };
    let counts: Vec<u64> = said.split(' ').map(|count| count.parse().unwrap()).collect();
    assert_eq!((moved, counts.len()), (5, 5));
    assert!(counts.iter().all(|count| *count > 0), "{said}");
    assert_eq!(counts.iter().sum::<u64>(), refused);
    actor.finish();
}
