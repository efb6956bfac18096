//! Announcements: who gets a connection, how often, for how long.

use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use uncopy_remote::data::{
    self, AnnounceError, ConnectFailure, DataListener, EndKeys, ListenError, ListenerEvent,
    PortRange, Token,
};

use crate::support::{Ends, LONG, options};

fn is_refused(result: &Result<impl Sized, ConnectFailure>) -> bool {
    // A listener that expects nobody closes without a handshake.
    matches!(result, Err(ConnectFailure::TokenRefused { .. } | ConnectFailure::Ended { .. }))
}

#[test]
fn a_token_is_good_once() {
    let ends = Ends::local();
    let (first, token) = ends.listener.announce().unwrap();
    let (second, other_token) = ends.listener.announce().unwrap();
    let _near = ends.connect(&token).unwrap();
    let (connected, _far) = ends.connected();
    assert_eq!(connected, first);
    for token in [&token, &Token::from_bytes([0; 32])] {
        let address = ends.listener.address();
        let failure = ends.connect(token).err();
        assert_eq!(failure, Some(ConnectFailure::TokenRefused { address }));
    }
    assert_eq!(ends.listener.refusals().token, 2);
    let _near = ends.connect(&other_token).unwrap();
    assert_eq!(ends.connected().0, second);
}

#[test]
fn more_connections_than_announced_are_closed() {
    let ends = Ends::local();
    let unknown = Token::from_bytes([1; 32]);
    assert!(matches!(ends.connect(&unknown), Err(ConnectFailure::Ended { .. })));
    assert_eq!(ends.listener.refusals().unannounced, 1);
    let (_, token) = ends.listener.announce().unwrap();
    let results = thread::scope(|scope| {
        let connecting: Vec<_> = (0..8).map(|_| scope.spawn(|| ends.connect(&token))).collect();
        connecting.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let (connected, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(connected.len(), 1);
    assert!(refused.into_iter().all(|result| is_refused(&result)));
    assert!(is_refused(&ends.connect(&token)));
    let _ = ends.connected();
    assert!(matches!(ends.listener.wait(Some(Duration::ZERO)), ListenerEvent::TimedOut));
}

#[test]
fn places_are_freed_by_their_streams() {
    let mut options = options("127.0.0.1");
    options.max_connections = 2;
    let ends = Ends::new(&options);
    let (_, first_near, first_far) = ends.pair();
    let (second, second_near, second_far) = ends.pair();
    assert_eq!(ends.listener.announce().err(), Some(AnnounceError::Full { max: 2 }));
    let (reader, writer) = first_far.into_split();
    drop(reader);
    assert_eq!(
        ends.listener.announce().err(),
        Some(AnnounceError::Full { max: 2 }),
        "half is left"
    );
    drop((writer, first_near));
    let (_, _near, _far) = ends.pair();

    // The near end knows that one broke, and this end does not yet.
    assert_eq!(ends.listener.announce().err(), Some(AnnounceError::Full { max: 2 }));
    let (third, token) = ends.listener.announce_again(second).unwrap();
    assert_ne!(third, second);
    let (mut reader, writer) = second_far.into_split();
    assert!(std::io::Read::read(&mut reader, &mut [0]).is_err(), "it is cut");
    let _third_near = ends.connect(&token).unwrap();
    let (connected, _third_far) = ends.connected();
    assert_eq!(connected, third);
    drop(second_near);
    drop((reader, writer));
    assert_eq!(ends.listener.announce().err(), Some(AnnounceError::Full { max: 2 }), "freed once");
}

#[test]
fn an_announcement_expires() {
    let mut options = options("127.0.0.1");
    // Long enough for a handshake on a busy machine.
    options.announced = Duration::from_secs(3);
    options.max_connections = 1;
    let ends = Ends::new(&options);
    let (announced, token) = ends.listener.announce().unwrap();
    let event = ends.listener.wait(Some(LONG));
    assert!(
        matches!(event, ListenerEvent::Expired { announcement } if announcement == announced),
        "{event:?}"
    );
    assert!(is_refused(&ends.connect(&token)));
    // Its place is free.
    let (again, token) = ends.listener.announce_again(announced).unwrap();
    let _near = ends.connect(&token).unwrap();
    assert_eq!(ends.connected().0, again);
}

#[test]
fn an_announcement_wakes_those_who_wait_for_its_expiry() {
    let mut options = options("127.0.0.1");
    options.announced = Duration::from_millis(50);
    let ends = Ends::new(&options);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| ends.listener.wait(Some(LONG)));
        thread::sleep(Duration::from_millis(20));
        ends.listener.announce().unwrap();
        assert!(matches!(waiting.join().unwrap(), ListenerEvent::Expired { .. }));
    });
}

#[test]
fn a_closed_listener_takes_nobody() {
    let ends = Ends::local();
    let (_, near, far) = ends.pair();
    let (_, token) = ends.listener.announce().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| ends.listener.wait(None));
        thread::sleep(Duration::from_millis(20));
        ends.listener.close();
        assert!(matches!(waiting.join().unwrap(), ListenerEvent::Closed));
    });
    assert!(matches!(ends.connect(&token), Err(ConnectFailure::Refused { .. })));
    assert_eq!(ends.listener.announce().err(), Some(AnnounceError::Closed));
    ends.listener.close();
    // Streams that were given out remain.
    let ((_near_reader, mut writer), (mut reader, _far_writer)) =
        (near.into_split(), far.into_split());
    std::io::Write::write_all(&mut writer, b"still here").unwrap();
    writer.close().unwrap();
    assert_eq!(std::io::read_to_string(&mut reader).unwrap(), "still here");
}

#[test]
fn a_port_is_taken_from_the_range() {
    let (near, far) = (EndKeys::generate().unwrap(), EndKeys::generate().unwrap());
    let keys = far.pin(near.public());
    let mut options = options("127.0.0.1");
    // Two ports side by side that are free, and a third one that is taken below them.
    let (taken, port) = std::iter::repeat_with(|| TcpListener::bind("127.0.0.1:0").unwrap())
        .map(|taken| (taken.local_addr().unwrap().port(), taken))
        .find(|(port, _)| *port < 65_000 && TcpListener::bind(("127.0.0.1", port + 1)).is_ok())
        .map(|(port, taken)| (taken, port))
        .unwrap();
    options.ports = PortRange::new(port, port).unwrap();
    let address = "127.0.0.1".to_owned();
    let expected = ListenError::PortsInUse { address, first: port, last: port };
    assert_eq!(DataListener::bind(&options, &keys).err(), Some(expected));
    options.ports = PortRange::new(port, port + 400).unwrap();
    let listener = DataListener::bind(&options, &keys).unwrap();
    assert!((port + 1..=port + 400).contains(&listener.address().port()));
    drop(taken);

    options.address = "192.0.2.1".parse().unwrap();
    options.ports = PortRange::ANY;
    let error = DataListener::bind(&options, &keys).err();
    assert!(matches!(error, Some(ListenError::Bind { .. })), "{error:?}");
    options.address = "fe80::1%none-such".parse().unwrap();
    let error = DataListener::bind(&options, &keys).err();
    assert!(matches!(error, Some(ListenError::Bind { .. })), "{error:?}");
}

#[test]
fn a_connector_says_why_it_failed() {
    let ends = Ends::local();
    let (announced, token) = ends.listener.announce().unwrap();
    let connect = |addresses: &[SocketAddr], limit| {
        data::connect(addresses, &ends.near, &token, Duration::from_millis(limit))
    };
    assert_eq!(connect(&[], 100).err(), Some(ConnectFailure::NoAddress));

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = ConnectFailure::Refused { address: closed };
    assert_eq!(connect(&[closed], 5000).err(), Some(refused));

    // The system takes connections for it, and nobody answers them.
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listening.local_addr().unwrap();
    let timed_out = ConnectFailure::TimedOut { address: silent };
    assert_eq!(connect(&[silent], 200).err(), Some(timed_out.clone()));
    assert_eq!(connect(&[closed, silent, closed], 300).err(), Some(timed_out), "furthest");

    // One that answers comes after those that do not.
    let _near = connect(&[closed, silent, ends.listener.address()], 3000).unwrap();
    assert_eq!(ends.connected().0, announced);
    drop(listening);
}
