//! Roles of child processes.

use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use uncopy::channel::{
    Channel, Event, EventPair, Fifo, Handle, Kind, MessageBuf, Object, Signals, Socket, SocketKind,
    Status, Vmo,
};

use crate::channel_processes::deaths::{PAYLOAD_BYTES, payload_channel};
use crate::channel_processes::{descriptors, next, next_handle, send, send_with, soon};

/// Environment variable with the role of a child.
pub(crate) const VARIABLE: &str = "UNCOPY_TEST_ROLE";

/// Successful end of a role.
const END: Result<(), Status> = Ok(());

pub(crate) fn play(role: &str) -> ExitCode {
    let channel = Channel::inherited().unwrap();
    assert_eq!(Channel::inherited().unwrap_err(), Status::BadHandle, "once only");
    let played = match role {
        "echo" => echo(&channel),
        "relay" => relay(&channel),
        "objects" => objects(&channel),
        "nudge" => nudge(&channel),
        "starve" => starve(&channel),
        "starving caller" => starving_caller(&channel),
        "starving relay" => starving_relay(&channel),
        "burst" => burst(&channel),
        "flood" => flood(&channel),
        "payloads" => payloads(&channel),
        "hoard" => hoard(&channel),
        "crowd" => crowd(&channel),
        "cramp" => cramp(&channel),
        "sever" => sever(&channel),
        "bridge" => bridge(&channel),
        "silent" => wait_for_the_end(&channel),
        "descriptors" => count(&channel),
        other => unreachable!("no role is called {other}"),
    };
    assert_eq!(played, END, "{role}");
    ExitCode::SUCCESS
}

/// Sends all bytes and handles back, until the peer is closed.
fn echo(channel: &Channel) -> Result<(), Status> {
    loop {
        let mut message = match next(channel) {
            Err(Status::PeerClosed) => return END,
            other => other?,
        };
        let mut handles = message.take_handles();
        while let Err(status) = channel.try_write(&[IoSlice::new(&message)], &mut handles) {
            match status {
                Status::ShouldWait => {
                    channel.wait_one(Signals::WRITABLE | Signals::PEER_CLOSED, soon())?;
                }
                Status::PeerClosed => return END,
                other => return Err(other),
            }
        }
    }
}

/// Echoes the messages of the end that it receives.
fn bridge(channel: &Channel) -> Result<(), Status> {
    echo(&next_handle(channel))
}

/// Receives an end, reads one message of its backlog, and sends it through the other end that it
/// receives.
fn relay(channel: &Channel) -> Result<(), Status> {
    let mut handles = next(channel)?.take_handles();
    let [travelling, to] = [0, 0].map(|_| Channel::try_from(handles.remove(0)).unwrap());
    // One message is read here, the others move on.
    let first = next(&travelling)?;
    send(channel, &first)?;
    // The writer has added more messages behind the backlog.
    next(channel)?;
    send_with(&to, b"yours", vec![travelling.into()])?;
    send(channel, b"passed on")?;
    wait_for_the_end(channel)
}

fn wait_for_the_end(channel: &Channel) -> Result<(), Status> {
    channel.wait_one(Signals::PEER_CLOSED, soon()).map(|_| ())
}

/// Uses one object of each kind.
fn objects(channel: &Channel) -> Result<(), Status> {
    let event: Event = next_handle(channel);
    event.wait_one(Signals::USER_1, soon())?;
    event.signal(Signals::USER_1, Signals::SIGNALED)?;
    let pair: EventPair = next_handle(channel);
    pair.wait_one(Signals::SIGNALED, soon())?;
    pair.signal_peer(Signals::empty(), Signals::USER_3)?;
    let fifo: Fifo = next_handle(channel);
    let mut elements = [0; 8];
    fifo.wait_one(Signals::READABLE, soon())?;
    assert_eq!(fifo.read(&mut elements)?, 2);
    assert_eq!(fifo.write(&elements)?, 2);
    let socket: Socket = next_handle(channel);
    let mut bytes = vec![0; 1 << 20];
    let mut length = 0;
    while length < 300_000 {
        socket.wait_one(Signals::READABLE, soon())?;
        length += socket.read(&mut bytes[length..])?;
    }
    let sum: u64 = bytes[..length].iter().map(|byte| u64::from(*byte)).sum();
    assert_eq!(socket.write(&sum.to_ne_bytes())?, 8);
    let vmo: Vmo = next_handle(channel);
    vmo.read(&mut elements, 4090)?;
    vmo.write(b"seen", 8192)?;
    send(channel, &elements)?;
    wait_for_the_end(channel)
}

/// Sends payloads, each with bytes of its own, over the end that it receives.
fn payloads(channel: &Channel) -> Result<(), Status> {
    let mut end = payload_channel(next_handle(channel));
    for number in 0..=u8::MAX {
        end.send(&vec![number; PAYLOAD_BYTES], soon())?;
    }
    END
}

/// Writes to the ends that it receives, and sets a signal at each.
fn nudge(channel: &Channel) -> Result<(), Status> {
    let ends = next(channel)?.take_handles();
    for end in &ends {
        match end {
            Handle::Channel(channel) => send(channel, b"message")?,
            Handle::Fifo(fifo) => drop(fifo.write(b"four")?),
            Handle::Socket(socket) => drop(socket.write(b"bytes")?),
            other => other.signal_peer(Signals::empty(), Signals::SIGNALED)?,
        }
        end.signal_peer(Signals::empty(), Signals::USER_2)?;
    }
    wait_for_the_end(channel)
}

/// Runs `run` while this process may open `left` more descriptors.
fn with_few_descriptors<T>(left: u64, run: impl FnOnce() -> T) -> T {
    let old = getrlimit(Resource::Nofile);
    // All lower numbers are in use.
    let lowest = std::fs::File::open("/").unwrap().as_raw_fd();
    let few = Rlimit { current: Some(lowest as u64 + left), ..old };
    setrlimit(Resource::Nofile, few).unwrap();
    let result = run();
    setrlimit(Resource::Nofile, old).unwrap();
    result
}

/// Describes a message that was or was not received.
fn describe(outcome: Result<MessageBuf, Status>) -> String {
    match outcome {
        Ok(message) => String::from_utf8_lossy(&message).into_owned(),
        Err(Status::DescriptorLimit { limit }) => {
            assert_eq!(Some(limit), getrlimit(Resource::Nofile).current);
            "lost by the limit".to_owned()
        }
        Err(other) => format!("{other:?}"),
    }
}

/// Reads with almost no descriptors left, reports the results and the number of open descriptors; then
/// echoes.
fn starve(channel: &Channel) -> Result<(), Status> {
    let report: Channel = next_handle(channel);
    // Makes the descriptors that waiting needs once.
    assert!(report.wait_one(Signals::READABLE, crate::channel_processes::tick()).is_err());
    let before = descriptors();
    let said = with_few_descriptors(2, || {
        send(channel, b"ready")?;
        let mut outcomes = Vec::new();
        while outcomes.last().is_none_or(|last| last != "sent" && last != "PeerClosed") {
            outcomes.push(describe(next(channel)));
        }
        outcomes.pop();
        Ok::<_, Status>(outcomes.join(", "))
    })?;
    let more = descriptors() as i64 - before as i64;
    send(&report, format!("{said}, {more} more descriptors").as_bytes())?;
    echo(channel)
}

/// Calls with almost no descriptors left, reports the result and the next message.
fn starving_caller(channel: &Channel) -> Result<(), Status> {
    let said = with_few_descriptors(2, || {
        let answer = channel.call(&[IoSlice::new(b"0000")], vec![], soon());
        [describe(answer), describe(next(channel))].join(", ")
    });
    send(channel, said.as_bytes())?;
    wait_for_the_end(channel)
}

/// Receives messages at an end with almost no descriptors left, and passes it on unread.
fn starving_relay(channel: &Channel) -> Result<(), Status> {
    let end: Channel = next_handle(channel);
    assert!(end.wait_one(Signals::READABLE, crate::channel_processes::tick()).is_err());
    with_few_descriptors(2, || {
        send(channel, b"ready")?;
        next(channel)?;
        end.wait_one(Signals::READABLE, soon())?;
        // Receives the rest.
        end.wait_one(Signals::READABLE, soon())
    })?;
    send_with(channel, &[], vec![end.into()])?;
    wait_for_the_end(channel)
}

/// Writes some messages, reports that over the end that it receives, and waits.
fn burst(channel: &Channel) -> Result<(), Status> {
    let notified: Channel = next_handle(channel);
    (0..crate::channel_processes::deaths::BURST)
        .try_for_each(|number| send(channel, &number.to_ne_bytes()))?;
    send(&notified, b"all are written")?;
    wait_for_the_end(channel)
}

/// Writes numbered messages of many sizes without end, each of which can be checked.
fn flood(channel: &Channel) -> Result<(), Status> {
    for number in 0u64.. {
        let body = crate::channel_processes::deaths::body_of(number);
        while let Err(status) = channel.write(&[IoSlice::new(&body)], handles_of(number)) {
            match status {
                Status::ShouldWait => channel.wait_one(Signals::WRITABLE, soon()).map(|_| ())?,
                other => return Err(other),
            }
        }
    }
    END
}

fn handles_of(number: u64) -> Vec<Handle> {
    if number.is_multiple_of(7) { vec![Event::new().into()] } else { vec![] }
}

/// Number of ends in a queue, each with another one in its own.
pub(crate) const CROWD: u32 = 100;

/// Moves an end with many ends in its queue, with a few descriptors left.
fn crowd(channel: &Channel) -> Result<(), Status> {
    let (near, far) = Channel::pair();
    for n in 0..CROWD {
        let (innermost, inner) = Channel::pair();
        let (middle, outer) = Channel::pair();
        send(&innermost, &n.to_ne_bytes())?;
        send_with(&middle, b"", vec![inner.into()])?;
        send_with(&near, b"", vec![outer.into()])?;
    }
    // The limit itself stays: of a user without privileges as many may be in flight.
    let mut taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/").ok()).collect();
    taken.truncate(taken.len() - 20);
    send_with(channel, b"", vec![far.into()])?;
    drop(taken);
    wait_for_the_end(channel)
}

/// Sends more descriptors than its user may have in flight, to a peer that does not read.
fn hoard(channel: &Channel) -> Result<(), Status> {
    let old = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..old }).unwrap();
    let (inner, other) = Channel::pair();
    let other = Channel::from_fd(other.into_fd()?).map_err(|(_, status)| status)?;
    let refused = loop {
        let before = descriptors();
        let vmos = (0..8).map(|_| Vmo::new(1).map(Handle::from)).collect::<Result<_, _>>()?;
        if let Err(status) = inner.write(&[], vmos) {
            assert_eq!(descriptors(), before, "the moved handles alone are closed");
            break status;
        }
    };
    // The channel itself still works.
    send(&inner, b"still")?;
    let mut count = 0;
    while let Ok(message) = other.read() {
        count += usize::from(&*message == b"still");
    }
    // The kernel counts the descriptors in flight of all processes of the user.
    testbed::wait_for("room for one descriptor more", || {
        match inner.write(&[], vec![Vmo::new(1).unwrap().into()]) {
            Err(Status::NoResources) => false,
            other => {
                other.unwrap();
                true
            }
        }
    });
    send(channel, format!("{refused:?} {count}").as_bytes())?;
    wait_for_the_end(channel)
}

/// Sends ends of local objects with no free descriptor, with one, and so on until it succeeds; reports
/// how often each kind failed.
fn cramp(channel: &Channel) -> Result<(), Status> {
    // Makes the descriptors that waiting needs once.
    assert!(channel.wait_one(Signals::READABLE, crate::channel_processes::tick()).is_err());
    let makers: [Maker; 5] = [
        laden_channel,
        || Event::new().duplicate(None).and_then(|event| both((event.duplicate(None)?, event))),
        || both(EventPair::pair()),
        || both(Fifo::pair(4, 4)?),
        || both(Socket::pair(SocketKind::Stream)),
    ];
    let counts = makers.map(|make| refusals(channel, make).unwrap().to_string());
    send(channel, counts.join(" ").as_bytes())?;
    wait_for_the_end(channel)
}

/// Function that makes an end to keep and one to move.
type Maker = fn() -> Result<(Handle, Handle), Status>;

fn both<T: Into<Handle>>(ends: impl Into<[T; 2]>) -> Result<(Handle, Handle), Status> {
    let [kept, moved] = ends.into();
    Ok((kept.into(), moved.into()))
}

/// Returns an end to keep and one to move, whose backlog is a message with an event.
fn laden_channel() -> Result<(Handle, Handle), Status> {
    let (kept, moved) = Channel::pair();
    send_with(&kept, b"luggage", vec![Event::new().into()])?;
    both((kept, moved))
}

fn refusals(channel: &Channel, make: Maker) -> Result<u64, Status> {
    let limit = getrlimit(Resource::Nofile);
    for spare in 0.. {
        let before = descriptors();
        let (kept, moved) = make()?;
        // All lower numbers are in use.
        let lowest = std::fs::File::open("/").unwrap().as_raw_fd();
        let few = Rlimit { current: Some(lowest as u64 + spare), ..limit };
        setrlimit(Resource::Nofile, few).unwrap();
        let sent = send_with(channel, b"moved", vec![moved]);
        setrlimit(Resource::Nofile, limit).unwrap();
        if sent.is_ok() {
            return Ok(spare);
        }
        assert_eq!(sent, Err(Status::NoResources), "{spare}");
        if kept.kind() == Kind::Event {
            kept.signal(Signals::empty(), Signals::SIGNALED)?;
            assert!(kept.signals().contains(Signals::SIGNALED), "the event still works");
        } else {
            assert!(kept.signals().contains(Signals::PEER_CLOSED), "the moved end is closed");
        }
        drop(kept);
        assert_eq!(descriptors(), before, "{spare}");
        send(channel, b"still there")?;
    }
    unreachable!("there are only so many numbers")
}

/// Reads one message, leaves at least one unread, and exits.
fn sever(channel: &Channel) -> Result<(), Status> {
    next(channel)?;
    channel.wait_one(Signals::READABLE, soon())?;
    (0..100u32).try_for_each(|n| send(channel, &n.to_ne_bytes()))
}

/// Reports how many descriptors it was started with, plus the one that it uses to count them.
fn count(channel: &Channel) -> Result<(), Status> {
    send(channel, descriptors().to_string().as_bytes())?;
    wait_for_the_end(channel)
}
