//! Conversations of clients and servers: methods of every kind, handles, events, epitaphs, and
//! unknown messages on either side.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::IoSlice;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uncopy_channel::{self as channel, Channel, Deadline, Event, Object, Signals, Status};
use uncopy_fidl::{
    EPITAPH_ORDINAL, Fidl, HandleRights, Header, ObjectType, OwnedHandle, encode_message,
};
use uncopy_fidl_channel::{
    Failure, FidlHandle, MethodResult, Request, protocol, send_epitaph, serve,
};

/// Longer than any successful operation takes.
const LONG: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Fidl)]
struct Line {
    text: String,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[repr(u32)]
enum Problem {
    Empty = 1,
}

#[derive(Debug, Fidl)]
#[fidl(resource = FidlHandle)]
struct Gift {
    #[fidl(kind = ObjectType::EVENT, rights = HandleRights::TRANSFER.union(HandleRights::SIGNAL))]
    event: OwnedHandle<FidlHandle>,
}

#[derive(Debug, PartialEq, Fidl)]
struct Count {
    count: u32,
}

/// A protocol with every kind of method.
#[protocol(library = "test.uncopy", open)]
trait Desk {
    /// One-way.
    fn note(line: Line);
    fn ping() -> ();
    fn reverse(line: Line) -> Line;
    fn first(line: Line) -> Result<Count, Problem>;
    fn check(line: Line) -> Result<(), Problem>;
    #[fidl(flexible)]
    fn count(line: Line) -> Count;
    #[fidl(flexible)]
    fn nothing() -> ();
    fn swap(gift: Gift) -> Gift;
    #[fidl(event)]
    fn on_count(count: Count);
    #[fidl(event, flexible)]
    fn on_done();
}

/// A later version of the protocol.
#[protocol(library = "test.uncopy", open)]
trait Newer {
    #[fidl(ordinal = 1)]
    fn strict_hint(count: Count);
    #[fidl(flexible, ordinal = 2)]
    fn hint(count: Count);
    #[fidl(flexible, ordinal = 3)]
    fn ask(count: Count) -> Count;
    #[fidl(ordinal = 4)]
    fn strict_ask(count: Count) -> Count;
}

struct Server(Sender<String>);

impl DeskServer for Server {
    fn note(&self, line: Request<'_, Line>) {
        self.0.send(line.into_owned().text).unwrap();
    }

    fn ping(&self) {}

    fn reverse(&self, line: Request<'_, Line>) -> Line {
        let text = line.view.text.chars().rev().collect();
        Line { text, bytes: line.view.bytes.iter().rev().copied().collect() }
    }

    fn first(&self, line: Request<'_, Line>) -> Result<Count, Problem> {
        let first = line.view.bytes.first().ok_or(Problem::Empty)?;
        Ok(Count { count: u32::from(*first) })
    }

    fn check(&self, line: Request<'_, Line>) -> Result<(), Problem> {
        if line.view.text.is_empty() { Err(Problem::Empty) } else { Ok(()) }
    }

    fn count(&self, line: Request<'_, Line>) -> Count {
        Count { count: line.view.bytes.len() as u32 }
    }

    fn nothing(&self) {}

    fn swap(&self, gift: Request<'_, Gift>) -> Gift {
        let event = gift.into_owned().event.into_inner().unwrap().into_inner();
        event.signal(Signals::empty(), Signals::SIGNALED).unwrap();
        assert_eq!(event.rights(), channel::Rights::TRANSFER | channel::Rights::SIGNAL);
        Gift { event: FidlHandle::new(Event::new()).into() }
    }

    fn unknown_method(&self, ordinal: u64) {
        self.0.send(format!("unknown {ordinal}")).unwrap();
    }
}

fn soon() -> Deadline {
    Deadline::after(LONG)
}

/// A served channel: the server's notes, and its result.
fn served(far: Channel) -> (std::sync::mpsc::Receiver<String>, JoinHandle<Result<(), Failure>>) {
    let (sender, notes) = channel();
    (notes, thread::spawn(move || serve(&far, &DeskService(Server(sender)))))
}

fn line(text: &str, bytes: usize) -> Line {
    Line { text: text.into(), bytes: (0..bytes).map(|n| n as u8 | 1).collect() }
}

fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    (near, Channel::from_fd(far.into_fd().unwrap()).unwrap())
}

#[test]
fn every_kind_of_method_works_over_both_transports() {
    for (near, far) in [Channel::pair(), socket_pair()] {
        let (notes, server) = served(far);
        let client = DeskClient::new(near);
        let written = line("written", 0);
        client.note(&written).unwrap();
        assert_eq!(notes.recv_timeout(LONG).unwrap(), "written");
        client.ping(soon()).unwrap();
        let answer = client.reverse(line("abc", 10_000), soon()).unwrap();
        let view = answer.view().unwrap();
        assert_eq!((view.text, view.bytes.len(), view.bytes[9999]), ("cba", 10_000, 1));

        let first = client.first(line("", 3), soon()).unwrap();
        assert!(matches!(first.view().unwrap(), MethodResult::Success(CountView { count: 1, .. })));
        let none = client.first(line("", 0), soon()).unwrap();
        assert!(matches!(none.view().unwrap(), MethodResult::Failure(Problem::Empty)));
        let checked = client.check(line("x", 0), soon()).unwrap();
        assert!(matches!(checked.view().unwrap(), MethodResult::Success(_)));

        let counted = client.count(line("", 7), soon()).unwrap().to_owned_value().unwrap();
        assert_eq!(counted, MethodResult::Success(Count { count: 7 }));
        assert!(matches!(
            client.nothing(soon()).unwrap().view().unwrap(),
            MethodResult::Success(_)
        ));
        drop(client);
        server.join().unwrap().unwrap();
    }
}

#[test]
fn handles_go_with_the_rights_that_their_fields_name() {
    let (near, far) = Channel::pair();
    let (_notes, server) = served(far);
    let client = DeskClient::new(near);
    let event = Event::new();
    let sent: channel::Handle = event.duplicate(None).unwrap().into();
    let mut answer = client.swap(Gift { event: FidlHandle::new(sent).into() }, soon()).unwrap();
    assert!(event.signals().contains(Signals::SIGNALED));
    let index = answer.view().unwrap().event;
    let received = answer.handles().take(index).unwrap().into_inner();
    assert_eq!(received.rights(), channel::Rights::TRANSFER | channel::Rights::SIGNAL);
    assert!(answer.handles().take(index).is_none());

    let (end, _peer) = Channel::pair();
    let wrong = client.swap(Gift { event: FidlHandle::new(end).into() }, soon());
    assert_eq!(wrong.unwrap_err(), Failure::Channel(Status::WrongType));
    drop(client);
    server.join().unwrap().unwrap();
}

#[test]
fn events_and_last_words_come_in_order() {
    let (near, far) = Channel::pair();
    let events = DeskEventSender(&far);
    events.on_count(&Count { count: 5 }).unwrap();
    let unknown = encode_message(&Header::one_way(77).flexible(), &1u32).unwrap();
    far.write(&[IoSlice::new(&unknown)], vec![]).unwrap();
    events.on_done().unwrap();
    send_epitaph(&far, -20).unwrap();
    drop(far);

    let client = DeskClient::new(near);
    let first = client.next_event(soon()).unwrap();
    let DeskEvent::OnCount(count) = first else { panic!("{first:?}") };
    assert_eq!(count.view().unwrap().count, 5);
    assert!(matches!(client.next_event(soon()).unwrap(), DeskEvent::OnDone(_)));
    assert_eq!(client.next_event(soon()).unwrap_err(), Failure::Epitaph(-20));
    assert_eq!(client.next_event(soon()).unwrap_err(), Failure::Channel(Status::PeerClosed));
}

/// A protocol whose client has no events to wait for.
#[protocol(library = "test.uncopy")]
trait Silent {
    fn ask(count: Count) -> Count;
    fn note(count: Count);
}

/// Returns a channel whose server takes a message, and then sends an event and an epitaph.
fn ending(near: Channel, far: Channel) -> (Channel, JoinHandle<()>) {
    let server = thread::spawn(move || {
        drop(far.receive(soon()).unwrap());
        DeskEventSender(&far).on_count(&Count { count: 5 }).unwrap();
        send_epitaph(&far, -30).unwrap();
    });
    (near, server)
}

/// A client without events has no other way to it.
#[test]
fn last_words_end_calls_and_messages() {
    for (near, far) in [Channel::pair(), socket_pair()] {
        let (near, server) = ending(near, far);
        let client = SilentClient::new(near);
        // While it waits, and at once.
        for _ in 0..2 {
            let failure = client.ask(&Count { count: 1 }, soon()).unwrap_err();
            assert_eq!(failure, Failure::Epitaph(-30));
        }
        assert_eq!(client.note(&Count { count: 1 }).unwrap_err(), Failure::Epitaph(-30));
        server.join().unwrap();
    }
}

#[test]
fn events_before_last_words_stay_when_a_call_ends() {
    for (near, far) in [Channel::pair(), socket_pair()] {
        let (near, server) = ending(near, far);
        let client = DeskClient::new(near);
        assert_eq!(client.ping(soon()).unwrap_err(), Failure::Epitaph(-30));
        assert!(matches!(client.next_event(soon()).unwrap(), DeskEvent::OnCount(_)));
        assert_eq!(client.ping(soon()).unwrap_err(), Failure::Epitaph(-30));
        assert_eq!(client.next_event(soon()).unwrap_err(), Failure::Epitaph(-30));
        assert_eq!(client.ping(soon()).unwrap_err(), Failure::Channel(Status::PeerClosed));
        server.join().unwrap();
    }
}

/// Only an epitaph says why the channel was closed.
#[test]
fn another_last_message_explains_nothing() {
    let epitaph = Header::epitaph().to_bytes();
    for last in [
        encode_message(&Header::one_way(7), &-30i32).unwrap(),
        epitaph.to_vec(),
        [&epitaph[..], &[0xff; 8]].concat(),
        [&epitaph[..], &[0; 16]].concat(),
        vec![],
    ] {
        let (near, far) = Channel::pair();
        far.write(&[IoSlice::new(&last)], vec![]).unwrap();
        drop(far);
        let closed = SilentClient::new(near).ask(&Count { count: 1 }, soon()).unwrap_err();
        assert_eq!(closed, Failure::Channel(Status::PeerClosed), "{last:?}");
    }
}

/// The answer to a call that has ended is no event, and ends nothing.
#[test]
fn a_late_answer_is_passed_over() {
    let (near, far) = Channel::pair();
    let client = DeskClient::new(near);
    let past = Deadline::after(Duration::ZERO);
    for _ in 0..2 {
        assert_eq!(client.ping(past).unwrap_err(), Failure::Channel(Status::TimedOut));
    }
    DeskEventSender(&far).on_count(&Count { count: 5 }).unwrap();
    let (_notes, server) = served(far);
    assert!(matches!(client.next_event(soon()).unwrap(), DeskEvent::OnCount(_)));
    // The answers come.
    client.ping(soon()).unwrap();
    assert_eq!(client.next_event(past).unwrap_err(), Failure::Channel(Status::TimedOut));
    assert_eq!(client.next_event(past).unwrap_err(), Failure::Channel(Status::TimedOut));
    assert!(!client.channel().signals().contains(Signals::READABLE));
    drop(client);
    server.join().unwrap().unwrap();
}

#[test]
fn an_event_is_waited_for() {
    let (near, far) = Channel::pair();
    let server = thread::spawn(move || {
        // The client sleeps, or will soon.
        thread::sleep(Duration::from_millis(20));
        DeskEventSender(&far).on_count(&Count { count: 9 }).unwrap();
    });
    let client = DeskClient::new(near);
    let past = Deadline::after(Duration::ZERO);
    assert_eq!(client.next_event(past).unwrap_err(), Failure::Channel(Status::TimedOut));
    let event = client.next_event(soon()).unwrap();
    assert!(matches!(event, DeskEvent::OnCount(_)), "{event:?}");
    server.join().unwrap();
}

#[test]
fn a_client_that_is_faster_than_its_server_waits_for_room() {
    const MESSAGES: usize = 6000;
    let (near, far) = Channel::pair();
    let client = DeskClient::new(near);
    let server = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..MESSAGES).try_for_each(|number| client.note(line(&number.to_string(), 0)))
        });
        while client.channel().signals().contains(Signals::WRITABLE) {
            thread::yield_now();
        }
        let (notes, server) = served(far);
        let noted: Vec<String> = notes.iter().take(MESSAGES).collect();
        assert!(noted.iter().enumerate().all(|(number, note)| *note == number.to_string()));
        writer.join().unwrap().unwrap();
        server
    });
    drop(client);
    server.join().unwrap().unwrap();
}

#[test]
fn an_event_is_no_answer() {
    let (near, far) = Channel::pair();
    far.write(&[IoSlice::new(&Header::two_way(5, 77).to_bytes())], vec![]).unwrap();
    let error = DeskClient::new(near).next_event(soon()).unwrap_err();
    assert_eq!(error, Failure::WrongTransaction { ordinal: 77, txid: 5 });
}

#[test]
fn what_the_channel_refuses_ends_the_conversation() {
    let (_near, far) = Channel::pair();
    let deaf = far.replace(Some(channel::Rights::WRITE)).unwrap();
    let (_notes, server) = served(deaf);
    assert_eq!(server.join().unwrap(), Err(Failure::Channel(Status::AccessDenied)));
}

#[test]
fn an_unknown_strict_event_ends_the_conversation() {
    let (near, far) = Channel::pair();
    let unknown = encode_message(&Header::one_way(77), &1u32).unwrap();
    far.write(&[IoSlice::new(&unknown)], vec![]).unwrap();
    let error = DeskClient::new(near).next_event(soon()).unwrap_err();
    assert_eq!(error, Failure::UnknownInteraction { ordinal: 77 });
}

#[test]
fn a_server_that_is_older_goes_on_where_it_may() {
    let (near, far) = Channel::pair();
    let (notes, server) = served(far);
    let client = NewerClient::new(near);
    client.hint(&Count { count: 1 }).unwrap();
    let answer = client.ask(&Count { count: 1 }, soon()).unwrap();
    assert!(matches!(answer.view().unwrap(), MethodResult::Framework(uncopy_fidl::UNKNOWN_METHOD)));
    assert_eq!(notes.iter().take(2).collect::<Vec<_>>(), ["unknown 2", "unknown 3"]);
    client.strict_hint(&Count { count: 1 }).unwrap();
    let ended = server.join().unwrap();
    assert_eq!(ended.unwrap_err(), Failure::UnknownInteraction { ordinal: 1 });
    let closed = client.strict_ask(&Count { count: 1 }, soon()).unwrap_err();
    assert_eq!(closed, Failure::Channel(Status::PeerClosed));
}

#[test]
fn what_breaks_the_protocol_ends_it() {
    let (ping, note) = (ordinal_of_ping(), ordinal_of_note());
    for (message, is_expected) in [
        (vec![1, 2, 3], is_message as fn(&Failure) -> bool),
        (Header::one_way(5).to_bytes().to_vec(), is_unknown),
        (Header::one_way(EPITAPH_ORDINAL).to_bytes().to_vec(), is_unknown),
        (Header::one_way(ping).to_bytes().to_vec(), is_transaction),
        (Header::two_way(9, note).to_bytes().to_vec(), is_transaction),
        ([&Header::two_way(9, ping).to_bytes()[..], &[0; 8]].concat(), is_message),
    ] {
        let (near, far) = Channel::pair();
        let (_notes, server) = served(far);
        near.write(&[IoSlice::new(&message)], vec![]).unwrap();
        let failure = server.join().unwrap().unwrap_err();
        assert!(is_expected(&failure), "{message:?}: {failure}");
        assert!(failure.to_string().contains(';'), "{failure}");
    }
}

fn is_message(failure: &Failure) -> bool {
    matches!(failure, Failure::Message(_))
}

fn is_unknown(failure: &Failure) -> bool {
    matches!(failure, Failure::UnknownInteraction { .. })
}

fn is_transaction(failure: &Failure) -> bool {
    matches!(failure, Failure::WrongTransaction { .. })
}

/// Returns the ordinal of `Desk.Ping`, from a message that a client writes.
fn ordinal_of_ping() -> u64 {
    let (near, far) = Channel::pair();
    let client = DeskClient::new(near);
    let past = Deadline::after(Duration::ZERO);
    assert_eq!(client.ping(past).unwrap_err(), Failure::Channel(Status::TimedOut));
    Header::parse(&far.read().unwrap()).unwrap().ordinal
}

/// Returns the ordinal of `Desk.Note`.
fn ordinal_of_note() -> u64 {
    let (near, far) = Channel::pair();
    DeskClient::new(near).note(line("", 0)).unwrap();
    Header::parse(&far.read().unwrap()).unwrap().ordinal
}

#[test]
fn an_answer_to_something_else_is_refused() {
    let (near, far) = Channel::pair();
    let server = thread::spawn(move || {
        far.wait_one(Signals::READABLE, soon()).unwrap();
        let txid = Header::parse(&far.read().unwrap()).unwrap().txid;
        far.write(&[IoSlice::new(&Header::two_way(txid, 5).to_bytes())], vec![]).unwrap();
        far
    });
    let failure = DeskClient::new(near).ping(soon()).unwrap_err();
    assert!(matches!(failure, Failure::WrongAnswer { found: 5, .. }));
    drop(server.join().unwrap());
}
