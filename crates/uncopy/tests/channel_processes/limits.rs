//! Running out of descriptors.

use std::os::unix::process::CommandExt;
use std::process::Command;

use testbed::Case;
use uncopy::channel::{Channel, Event, Handle, Vmo};

use crate::channel_processes::{Actor, next, roles, send_with};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_receiver_without_descriptors_ends_the_channel_and_leaks_none,
        [] a_sender_with_too_many_descriptors_in_flight_loses_only_those,
        [] a_sender_without_descriptors_loses_only_the_moved_handles,
    ]
}

fn a_receiver_without_descriptors_ends_the_channel_and_leaks_none() {
    for count in [4usize, 20, 64] {
        let actor = Actor::start("starve");
        let (report, there) = Channel::pair();
        send_with(&actor.channel, &[], vec![there.into()]).unwrap();
        assert_eq!(&*next(&actor.channel).unwrap(), b"ready");
        let vmos: Vec<Handle> = (0..count).map(|_| Vmo::new(1).unwrap().into()).collect();
        send_with(&actor.channel, b"too many", vmos).unwrap();
        let said = next(&report).unwrap();
        assert_eq!(String::from_utf8_lossy(&said), "Err(PeerClosed) 0", "{count}");
        // This end is notified.
        assert!(next(&actor.channel).is_err());
        drop(report);
        actor.finish();
    }
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
