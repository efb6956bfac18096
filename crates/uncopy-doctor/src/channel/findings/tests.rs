//! Table tests: each fact has its finding.

use super::*;
use crate::channel_facts::{MessageCharge, ReceiveWork};
use crate::found::ProcessName;
use uncopy_os::capabilities::Limit;

fn holder(pid: u32) -> ChannelHolder {
    let limit = Limit { soft: Some(1024), hard: Some(4096) };
    ChannelHolder {
        process: ProcessName { program: "worker".into(), pid },
        descriptor: 5,
        state: Some('S'),
        is_frozen: false,
        is_exempt: false,
        open_files: Some(10),
        max_open_files: limit,
        locked_bytes: Some(0),
        max_locked_bytes: limit,
    }
}

fn end(inode: u64, holders: Vec<ChannelHolder>) -> ChannelEnd {
    ChannelEnd {
        inode,
        holders,
        is_shut_down: false,
        send_buffer_bytes: Some(32 << 20),
        sent_bytes: Some(0),
        unread_bytes: Some(0),
        unread_descriptors: Some(0),
        work: Ok(ReceiveWork::default()),
    }
}

/// Returns the facts of a channel between two processes about which there is nothing to say.
fn quiet() -> ChannelFacts {
    let charge = |message_bytes, charged_bytes| MessageCharge { message_bytes, charged_bytes };
    ChannelFacts {
        near: end(71, vec![holder(1)]),
        far: FarEnd::Open(end(72, vec![holder(2)])),
        are_holders_complete: true,
        requested_bytes: 16 << 20,
        wmem_max_bytes: Some(16 << 20),
        charges: vec![charge(65_536, 69_888), charge(256, 1280)],
    }
}

fn far(facts: &mut ChannelFacts) -> &mut ChannelEnd {
    match &mut facts.far {
        FarEnd::Open(end) => end,
        other => panic!("{other:?}"),
    }
}

fn found(change: impl FnOnce(&mut ChannelFacts)) -> Vec<DoctorFinding> {
    let mut facts = quiet();
    change(&mut facts);
    findings(&facts)
}

/// Returns the ids and summaries of the findings beyond the one that every channel has.
#[track_caller]
fn more(change: impl FnOnce(&mut ChannelFacts)) -> Vec<(&'static str, String)> {
    let found = found(change);
    let (sockets, others): (Vec<_>, Vec<_>) =
        found.iter().partition(|finding| finding.condition == &is::CHANNEL_SOCKET);
    assert_eq!(sockets.len(), 1, "{found:?}");
    others.iter().map(|finding| (finding.condition.id, finding.summary.to_string())).collect()
}

/// Requires exactly one more finding, with this id and summary.
#[track_caller]
fn one(id: &str, summary: &str, change: impl FnOnce(&mut ChannelFacts)) {
    assert_eq!(more(change), [(id, summary.to_owned())].map(|(id, text)| (static_id(id), text)));
}

fn static_id(id: &str) -> &'static str {
    crate::condition::condition(id).unwrap().id
}

#[test]
fn a_quiet_channel_is_copied_and_nothing_else() {
    assert_eq!(more(|_| ()), []);
    let found = found(|_| ());
    assert_eq!(found[0].severity, Severity::Copies);
    let said = "messages to worker (pid 2) go through a socket";
    assert_eq!(found[0].summary.to_string(), said);
}

#[test]
fn an_ended_channel_has_no_other_finding() {
    for (said, change) in [
        ("no peer", (|f| f.far = FarEnd::Closed) as fn(&mut ChannelFacts)),
        ("shut down", |f| f.near.is_shut_down = true),
    ] {
        let found = found(change);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].condition.id, found[0].severity),
            ("channel-ended", Severity::Unknown)
        );
        assert!(found[0].evidence[0].found.contains(said), "{found:?}");
    }
    // Only the other end cannot send any more.
    assert_eq!(more(|f| far(f).is_shut_down = true), []);
}

#[test]
fn both_ends_in_one_process_lead() {
    let id = "channel-one-process";
    one(id, "worker (pid 1) holds both ends", |f| far(f).holders = vec![holder(1)]);
    let found = found(|f| far(f).holders = vec![holder(1)]);
    assert_eq!(found[0].condition.id, id);
    assert_eq!(found[0].evidence[0].found, "descriptors 5 and 5 of one process, and of no other");
    // A second process with either end may read.
    assert_eq!(more(|f| far(f).holders = vec![holder(1), holder(2)]), []);
    assert_eq!(
        more(|f| {
            f.near.holders = vec![holder(1), holder(3)];
            far(f).holders = vec![holder(1)];
        }),
        []
    );
}

#[test]
fn what_cannot_be_seen_is_named() {
    let id = "channel-peer-unseen";
    let summary = "the process with the other end is unknown";
    let unknown = |f: &mut ChannelFacts| f.far = FarEnd::Unknown { errno: Errno::ENOENT };
    one(id, summary, unknown);
    let socket = &found(unknown)[0].summary.to_string();
    assert_eq!(socket, "messages to an unknown process go through a socket");
    for is_complete in [true, false] {
        let unheld = |f: &mut ChannelFacts| {
            f.are_holders_complete = is_complete;
            far(f).holders = vec![];
            // There is no descriptor to duplicate.
            far(f).work = Err(Errno::EPERM);
        };
        one(id, summary, unheld);
        let unheld = found(unheld).into_iter().find(|one| one.condition.id == id).unwrap();
        assert_eq!((unheld.next_step.is_none(), unheld.needs_root), (is_complete, !is_complete));
    }
    let id = "channel-options-unseen";
    let summary = "the options of the socket cannot be read";
    one(id, summary, |f| f.near.work = Err(Errno::EPERM));
    one(id, summary, |f| far(f).work = Err(Errno::ENOSYS));
}

#[test]
fn queues_are_judged_by_direction() {
    let set = |end: &mut ChannelEnd, sent| {
        (end.sent_bytes, end.send_buffer_bytes) = (Some(sent), Some(32 << 20));
    };
    let full = "channel-queue-full";
    one(full, "the socket to worker (pid 2) is full", |f| set(&mut f.near, 32 << 20));
    one(full, "the socket to worker (pid 1) is full", |f| set(far(f), 33 << 20));
    let crowded = "channel-queue-crowded";
    let said = "the socket to worker (pid 2) has too little room for handles";
    one(crowded, said, |f| set(&mut f.near, (8 << 20) + 1));
    one(crowded, said, |f| set(&mut f.near, (32 << 20) - 1));
    assert_eq!(more(|f| set(&mut f.near, 8 << 20)), []);
    assert_eq!(more(|f| f.near.sent_bytes = None), []);
}

#[test]
fn stopped_readers_are_found_at_both_ends() {
    let id = "channel-reader-stopped";
    for (change, summary, step) in [
        (
            (|f| far(f).holders[0].state = Some('T')) as fn(&mut ChannelFacts),
            "worker (pid 2), which reads, is stopped",
            "Let it continue: kill -CONT 2.",
        ),
        (
            |f| f.near.holders[0].state = Some('t'),
            "worker (pid 1), which reads, is stopped",
            is::CHANNEL_READER_STOPPED.next_step,
        ),
        (
            |f| far(f).holders[0].is_frozen = true,
            "worker (pid 2), which reads, is stopped",
            is::CHANNEL_READER_STOPPED.next_step,
        ),
    ] {
        one(id, summary, change);
        let found = found(change).into_iter().find(|one| one.condition.id == id).unwrap();
        assert_eq!(found.next_step.unwrap().to_string(), step);
    }
    // Another process can read.
    let second = |state| {
        more(move |f| {
            far(f).holders = vec![holder(2), holder(3)];
            far(f).holders[0].state = Some('T');
            far(f).holders[1].state = Some(state);
        })
    };
    assert_eq!(second('R'), []);
    assert_eq!(second('T').len(), 1);
}

#[test]
fn a_small_buffer_names_what_made_it_small() {
    let id = "wmem-max";
    for (max, root, step) in [
        (Some(212_992), true, "sysctl -w net.core.wmem_max=16777216"),
        (Some(16 << 20), false, "Make the channel anew"),
        (None, true, "Raise net.core.wmem_max"),
    ] {
        let change = |f: &mut ChannelFacts| {
            f.wmem_max_bytes = max;
            far(f).send_buffer_bytes = Some(425_984);
        };
        // Six messages take 419,328 bytes, and the seventh is accepted.
        one(id, "the socket holds 7 messages of 65536 bytes", change);
        let found = found(change).into_iter().find(|one| one.condition.id == id).unwrap();
        assert_eq!((found.severity, found.needs_root), (Severity::Limits, root));
        let next_step = found.next_step.unwrap().to_string();
        assert!(next_step.contains(step), "{next_step}");
    }
    assert_eq!(more(|f| f.near.send_buffer_bytes = None), []);
    assert_eq!(more(|f| f.wmem_max_bytes = Some(1)), []);
}

#[test]
fn processes_near_their_limit_are_found_once() {
    let id = "channel-descriptors";
    one(id, "worker (pid 2) can open only 252 more descriptors", |f| {
        far(f).holders[0].open_files = Some(1024 - 252);
    });
    one(id, "worker (pid 1) can open only 0 more descriptors", |f| {
        f.near.holders[0].open_files = Some(2000);
        f.near.holders.push(f.near.holders[0].clone());
    });
    assert_eq!(more(|f| far(f).holders[0].open_files = Some(1024 - 253)), []);
    assert_eq!(more(|f| far(f).holders[0].max_open_files.soft = None), []);
    assert_eq!(more(|f| far(f).holders[0].open_files = None), []);
}

#[test]
fn descriptors_in_messages_count_for_their_sender() {
    let id = "channel-in-flight";
    one(id, "512 descriptors are in messages that worker (pid 2) has not received", |f| {
        far(f).unread_descriptors = Some(512);
        // The receiver's limit does not matter.
        far(f).holders[0].max_open_files.soft = Some(1 << 20);
    });
    assert_eq!(more(|f| far(f).unread_descriptors = Some(511)), []);
    // Nobody who may send them is limited.
    let exempt = |f: &mut ChannelFacts| {
        far(f).unread_descriptors = Some(5000);
        f.near.holders[0].is_exempt = true;
    };
    assert_eq!(more(exempt), []);
    assert_eq!(
        more(|f| {
            far(f).unread_descriptors = Some(512);
            f.near.holders[0].max_open_files.soft = Some(1 << 20);
        }),
        []
    );
}

#[test]
fn what_adds_work_is_found_at_the_end_that_receives() {
    let filter = |end: &mut ChannelEnd| {
        end.work = Ok(ReceiveWork { options: vec![], has_filter: true });
    };
    let id = "channel-filter";
    one(id, "a program filters the messages to worker (pid 1)", |f| filter(&mut f.near));
    one(id, "a program filters the messages to worker (pid 2)", |f| filter(far(f)));
    let options = |f: &mut ChannelFacts| {
        let options = vec!["SO_PASSCRED", "SO_TIMESTAMP"];
        far(f).work = Ok(ReceiveWork { options, has_filter: false });
    };
    one("channel-options", "socket options add work to every message to worker (pid 2)", options);
    let found = found(options);
    let evidence = &found.last().unwrap().evidence[0];
    assert_eq!(evidence.found, "SO_PASSCRED, SO_TIMESTAMP at the socket 72");
}

#[test]
fn the_last_message_may_exceed_the_buffer() {
    let charge = MessageCharge { message_bytes: 256, charged_bytes: 1280 };
    for (buffer, messages) in [(0, 0), (1, 1), (1280, 1), (1281, 2), (212_992, 167)] {
        assert_eq!(charge.messages_in(buffer), messages, "{buffer}");
    }
}
