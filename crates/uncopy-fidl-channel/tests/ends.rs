//! Channel ends in messages: one conversation opens another.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::thread;
use std::time::Duration;

use uncopy_channel::{Channel, Deadline, Event, Object, Status};
use uncopy_fidl::{
    ClientEnd, CodecHandle as _, Departing, Fidl, ObjectType, OwnedHandle, ServerEnd, decode_owned,
    encode, take_handles,
};
use uncopy_fidl_channel::{Failure, FidlHandle, Request, protocol, serve};

#[derive(Debug, PartialEq, Fidl)]
struct Number {
    number: u64,
}

#[protocol(library = "test.uncopy", closed)]
trait Adder {
    fn add(number: Number) -> Number;
}

#[derive(Debug, Fidl)]
#[fidl(resource = FidlHandle)]
struct Ends {
    clients: Vec<ClientEnd<Adder, FidlHandle>>,
    servers: [ServerEnd<Adder, FidlHandle>; 2],
    spare: Option<ClientEnd<Adder, FidlHandle>>,
}

#[derive(Debug, Fidl)]
#[fidl(resource = FidlHandle)]
struct Adders {
    adders: Vec<ServerEnd<Adder, FidlHandle>>,
}

/// Serves the adders that it receives, one after the other.
#[protocol(library = "test.uncopy", closed)]
trait Office {
    fn employ(adders: Adders);
    fn spawn_worker(number: Number) -> Ends;
}

struct Sum(RefCell<u64>);

impl AdderServer for Sum {
    fn add(&self, request: Request<'_, Number>) -> Number {
        *self.0.borrow_mut() += request.view.number;
        Number { number: *self.0.borrow() }
    }
}

struct Clerk;

impl OfficeServer for Clerk {
    fn employ(&self, request: Request<'_, Adders>) {
        for (number, end) in (0..).zip(request.into_owned().adders) {
            serve_end(end, number);
        }
    }

    fn spawn_worker(&self, request: Request<'_, Number>) -> Ends {
        let count = request.view.number;
        let (clients, served): (Vec<_>, Vec<_>) = (0..count).map(|_| ends()).unzip();
        for (number, end) in (100..).zip(served) {
            thread::spawn(move || serve_end(end, number));
        }
        let ((first, a), (_, b)) = (ends(), ends());
        Ends { clients, servers: [a, b], spare: Some(first) }
    }
}

/// Both ends of a conversation.
fn ends() -> (ClientEnd<Adder, FidlHandle>, ServerEnd<Adder, FidlHandle>) {
    let (near, far) = Channel::pair();
    (FidlHandle::new(near).into(), FidlHandle::new(far).into())
}

/// Serves until the client is closed; the sum starts at `number`.
fn serve_end(end: ServerEnd<Adder, FidlHandle>, number: u64) {
    let channel = Channel::try_from(end.into_inner().unwrap().into_inner()).unwrap();
    serve(&channel, &AdderService(Sum(number.into()))).unwrap();
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

fn add(client: &AdderClient, number: u64) -> Result<u64, Failure> {
    Ok(client.add(Number { number }, soon())?.view()?.number)
}

#[test]
fn ends_that_came_in_an_answer_are_spoken_over() {
    let (near, far) = Channel::pair();
    let office = thread::spawn(move || serve(&far, &OfficeService(Clerk)));
    let client = OfficeClient::new(near);
    let answer = client.spawn_worker(Number { number: 3 }, soon()).unwrap();
    let Ends { clients, servers, spare } = answer.to_owned_value().unwrap();
    assert_eq!((clients.len(), servers.len()), (3, 2));
    for (number, end) in (100..).zip(clients) {
        let adder = AdderClient::from_end(end).unwrap();
        assert_eq!(add(&adder, 1), Ok(number + 1));
        assert_eq!(add(&adder, 10), Ok(number + 11));
    }
    let [served, _] = servers;
    let adder = AdderClient::from_end(spare.unwrap()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| serve_end(served, 7));
        assert_eq!(add(&adder, 1), Ok(8));
        drop(adder);
    });
    drop(client);
    office.join().unwrap().unwrap();
}

#[test]
fn ends_that_came_in_a_request_are_served() {
    let (near, far) = Channel::pair();
    let office = thread::spawn(move || serve(&far, &OfficeService(Clerk)));
    let client = OfficeClient::new(near);
    let (clients, adders): (Vec<_>, Vec<_>) = (0..3).map(|_| ends()).unzip();
    client.employ(Adders { adders }).unwrap();
    for (number, end) in (0..).zip(clients) {
        let adder = AdderClient::from_end(end).unwrap();
        assert_eq!(add(&adder, 5), Ok(number + 5));
    }
    drop(client);
    office.join().unwrap().unwrap();
}

#[test]
fn what_is_no_end_of_a_channel_is_no_client() {
    let event = ClientEnd::<Adder, FidlHandle>::new(FidlHandle::new(Event::new()));
    assert!(AdderClient::from_end(event).is_none());

    // It was sent with a message.
    let (mut end, _server) = ends();
    let mut leaving: Vec<Departing<FidlHandle>> = Vec::new();
    take_handles(&mut end, &mut leaving).unwrap();
    assert_eq!(leaving[0].constraint.object_type, ObjectType::CHANNEL);
    assert!(AdderClient::from_end(end).is_none());

    // A server refuses a handle that is not a channel.
    let (near, far) = Channel::pair();
    let office = thread::spawn(move || serve(&far, &OfficeService(Clerk)));
    let adders = vec![FidlHandle::new(Event::new()).into()];
    let refused = OfficeClient::new(near).employ(Adders { adders });
    assert_eq!(refused, Err(Failure::Channel(Status::WrongType)));
    office.join().unwrap().unwrap();
}

#[test]
fn a_field_gets_no_more_rights_than_it_names() {
    use uncopy_channel::Rights;
    use uncopy_fidl::HandleRights as Wanted;

    #[derive(Debug, Fidl)]
    #[fidl(resource = FidlHandle)]
    struct Signalled {
        #[fidl(kind = ObjectType::EVENT, rights = Wanted::TRANSFER.union(Wanted::SIGNAL))]
        event: OwnedHandle<FidlHandle>,
    }
    let event = Event::new();
    let all: uncopy_channel::Handle = event.duplicate(None).unwrap().into();
    let mut sent = Signalled { event: FidlHandle::new(all).into() };
    let mut leaving: Vec<Departing<FidlHandle>> = Vec::new();
    take_handles(&mut sent, &mut leaving).unwrap();
    let bytes = encode(&sent).unwrap();
    // With more rights than the field allows, as a hostile or careless peer sends it.
    let came: Vec<FidlHandle> = leaving.into_iter().map(|departing| departing.handle).collect();
    assert_ne!(came[0].rights(), Wanted::TRANSFER | Wanted::SIGNAL);
    let received: Signalled = decode_owned(&bytes, came).unwrap();
    let narrowed = received.event.into_inner().unwrap().into_inner();
    assert_eq!(narrowed.rights(), Rights::TRANSFER | Rights::SIGNAL);
}

/// Ends without an attribute are sent with exactly the rights of a channel.
#[test]
fn an_end_with_fewer_rights_than_a_channel_is_not_sent() {
    use uncopy_channel::Rights;
    use uncopy_fidl::{HandleRights as Wanted, Rule};

    let fewer = Rights::CHANNEL - Rights::WRITE;
    let (near, far) = Channel::pair();
    let (_kept, end) = Channel::pair();
    let end: uncopy_channel::Handle = end.into();
    let adders = vec![FidlHandle::new(end.replace(Some(fewer)).unwrap()).into()];
    let refused = OfficeClient::new(near).employ(Adders { adders }).unwrap_err();
    let Failure::Message(error) = refused else { panic!("{refused}") };
    let found = Wanted::from_bits_retain(fewer.bits());
    assert_eq!(error.rule(), Rule::MissingRights { expected: Wanted::CHANNEL_DEFAULT, found });
    assert_eq!(far.read().err(), Some(Status::PeerClosed), "nothing was sent");
}
