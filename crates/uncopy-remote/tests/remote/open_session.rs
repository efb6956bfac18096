//! Sessions with open data connections: what goes over them, and what somebody on the way can do.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use uncopy_copy::peer::Peer;
use uncopy_remote::{
    DataOptions, DataRefusal, DataReport, DataStart, DataWay, FarData, Limits, Pull, RemoteError,
    Restriction, WhyNoData, pull,
};
use uncopy_wire::{
    Call, DataAnnouncement, DataOffer, DataSecurity, DataWish, Frame, FrameKind, Greeting, Kind,
    Message, Server, Status, Versions,
};

use crate::data_session::{
    Files, LENGTH, Relay, Treatment, at_once, offered, options, pulled, pushed, wait_until,
};
use crate::hostile_callers::Raw;
use crate::hostile_servers;
use crate::support::{long, never, of_socket, read_range};

/// Length of a piece.
const PIECE: u64 = 1 << 20;
/// Error of a call for a connection that does not stand.
const ENOTCONN: u8 = 107;

fn open(options: DataOptions) -> DataOptions {
    DataOptions { way: DataWay::Open, ..options }
}

#[test]
fn files_are_read_over_one_and_several_connections_in_both_families() {
    let files = Files::new();
    let all: u64 = files.contents.iter().map(|contents| contents.len() as u64).sum();
    for (address, connections) in [("127.0.0.1", 1), ("127.0.0.1", 4), ("::1", 3)] {
        let options = || DataOptions { connections, ..open(at_once(address)) };
        let report = pulled(Some(options()), offered(address), long(), &files, |begun| {
            wait_until("all stand", || begun.data().connections == u32::from(connections));
            files.check(&begun.source());
            // Two messages for each piece.
            let shell = begun.traffic();
            assert!(shell.received < 10_000, "{shell:?}");
        })
        .unwrap();
        assert_eq!((report.way, report.connections), (DataWay::Open, connections.into()));
        assert_eq!((report.resent, report.why_none), (0, None));
        // The byte with which each begins.
        assert!((all..all + 100).contains(&report.traffic.received), "{report:?}");

        let mut notes = Vec::new();
        let (ran, report) = pushed(Some(options()), &offered(address), &files, &mut notes);
        let report = report.unwrap();
        assert_eq!((ran, notes), (Ok(7), vec![]));
        assert!((1..=u32::from(connections)).contains(&report.connections), "{report:?}");
        assert_eq!((report.way, report.resent), (DataWay::Open, 0));
        assert!((all..all + 100).contains(&report.traffic.received), "{report:?}");
    }
}

#[test]
fn connections_begin_once_enough_has_crossed() {
    let files = Files::new();
    let late = || open(options("127.0.0.1", DataStart::Behind { bytes: 4 << 20 }));
    let report = pulled(Some(late()), offered("127.0.0.1"), long(), &files, |begun| {
        files.check(&begun.source());
        wait_until("a connection", || begun.data().connections > 0);
        files.check(&begun.source());
    });
    let report = report.unwrap();
    assert!(report.why_none.is_none() && report.traffic.received > LENGTH as u64, "{report:?}");
}

/// Whatever is done to the bytes on the way: the files come whole, and it shows.
#[test]
fn what_is_done_on_the_way_changes_no_file() {
    let files = Files::new();
    let short = Limits { ping: Duration::from_millis(200), silence: Duration::from_secs(3) };
    for treatment in [
        Treatment::Cut,
        Treatment::Silence,
        Treatment::Slow,
        Treatment::Changed,
        Treatment::Longer,
        Treatment::Shorter,
        Treatment::Repeated,
    ] {
        let is_timed = matches!(treatment, Treatment::Silence | Treatment::Slow);
        let relay = Relay::start(treatment, 3 << 20);
        let limits = if is_timed { short } else { long() };
        let report =
            pulled(Some(open(relay.options())), offered("127.0.0.1"), limits, &files, |begun| {
                wait_until("both stand", || begun.data().connections == 2);
                files.check(&begun.source());
                // Another one is made in its place; on a slow machine that one may be silent for too long as well.
                wait_until("a third", || relay.connections.load(Ordering::Relaxed) >= 3);
            })
            .unwrap();
        relay.is_over.store(true, Ordering::Relaxed);
        assert!(report.resent > 0, "{treatment:?} {report:?}");
        assert_eq!(report.why_none, None, "{treatment:?}");
        assert!(is_timed || report.connections == 2, "{treatment:?} {report:?}");
        let relay = Relay::start(treatment, 3 << 20);
        if !is_timed {
            let mut notes = Vec::new();
            let options = Some(open(relay.options()));
            let (ran, report) = pushed(options, &offered("127.0.0.1"), &files, &mut notes);
            assert_eq!((ran, notes), (Ok(7), vec![]), "{treatment:?}");
            assert!(report.unwrap().resent > 0, "{treatment:?} {report:?}");
        }
    }
}

/// Connections whose bytes are changed again and again are not used any more.
#[test]
fn connections_that_change_everything_are_left() {
    let files = Files::new();
    let check = |report: DataReport| {
        assert_eq!(report.why_none, Some(WhyNoData::Altered), "{report:?}");
        // Not more than was asked for before it was known.
        assert!((3 * PIECE..64 * PIECE).contains(&report.resent), "{report:?}");
    };
    let relay = Relay::start(Treatment::AllChanged, 1 << 19);
    let options = || Some(DataOptions { connections: 2, ..open(relay.options()) });
    let report = pulled(options(), offered("127.0.0.1"), long(), &files, |begun| {
        wait_until("both stand", || begun.data().connections == 2);
        // Until as many were made in their place as are tried.
        wait_until("distrust", || {
            files.check(&begun.source());
            begun.data().why_none.is_some()
        });
    });
    check(report.unwrap());
    let relay = Relay::start(Treatment::AllChanged, 1 << 19);
    let options = DataOptions { connections: 1, ..open(relay.options()) };
    let (ran, report) = pushed(Some(options), &offered("127.0.0.1"), &files, &mut Vec::new());
    assert_eq!(ran, Ok(7));
    assert!(report.unwrap().resent > 0, "{report:?}");
}

#[test]
fn a_far_end_may_take_those_with_tls_alone() {
    let files = Files::new();
    let FarData::Offered(ssh) = offered("127.0.0.1").data else { panic!("an offer") };
    let tls_alone =
        || Restriction { data: FarData::OfferedWithTls(ssh.clone()), ..Restriction::default() };
    let why = WhyNoData::Refused(DataRefusal::Policy);
    let wanted = || Some(open(at_once("127.0.0.1")));
    let found = pulled(wanted(), tls_alone(), long(), &files, |_| panic!("no job"));
    assert_eq!(found, Err(RemoteError::NoData { why }));
    let (ran, _) = pushed(wanted(), &tls_alone(), &files, &mut Vec::new());
    assert_eq!(ran, Err(RemoteError::NoData { why }));
    let late = open(options("127.0.0.1", DataStart::Behind { bytes: 0 }));
    let report = pulled(Some(late), tls_alone(), long(), &files, |begun| {
        wait_until("a reason", || begun.data().why_none == Some(why));
        files.check(&begun.source());
    });
    assert_eq!(report.unwrap().connections, 0);
    let tls = Some(at_once("127.0.0.1"));
    let report = pulled(tls, tls_alone(), long(), &files, |begun| files.check(&begun.source()));
    let report = report.unwrap();
    assert_eq!((report.way, report.why_none), (DataWay::Tls, None));
}

/// A far end of the first version of the protocol.
#[test]
fn an_older_far_end_is_not_asked_for_them() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let far = thread::spawn(move || {
        let versions = Versions { min: 1, max: 1 };
        let greeting = Greeting { versions, program: "0.1.0".into() };
        far.write_all(&greeting.encode()).unwrap();
        let mut came = Vec::new();
        far.read_to_end(&mut came).unwrap();
        came
    });
    let wanted = open(at_once("127.0.0.1"));
    let begun = pull(of_socket(near), &long(), Some(wanted), &["x".into()], &never);
    assert_eq!(begun.unwrap_err(), RemoteError::NoData { why: WhyNoData::TooOld });
    let own = Greeting { versions: Versions::OWN, program: env!("CARGO_PKG_VERSION").into() };
    assert_eq!(far.join().unwrap(), own.encode(), "no frame");
}

/// A near end that made its data connection by hand.
struct RawOpen {
    raw: Raw,
    socket: TcpStream,
    address: SocketAddr,
    token: [u8; 32],
    file: u32,
}

impl RawOpen {
    fn new(root: &Path) -> RawOpen {
        let mut raw = Raw::with(&[root], offered("127.0.0.1"));
        let security = DataSecurity::Open;
        let wish = DataWish { security, connections: 1, first_port: 0, last_port: 0 };
        raw.say(&Message::DataWanted(wish));
        let Message::DataOffered(DataOffer { security, port }) = raw.hear().unwrap() else {
            panic!("an offer")
        };
        assert_eq!(security, DataSecurity::Open);
        let Some(Message::DataAnnounced(DataAnnouncement { number: 0, token })) = raw.hear() else {
            panic!("an announcement")
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&token).unwrap();
        // It is taken, and ready.
        let mut begin = [0; 2];
        socket.read_exact(&mut begin).unwrap();
        assert_eq!(begin, [1, 2]);
        let answer = raw.call(0, &[1, 0, 0, 0, 0, 0]).unwrap();
        let file = u32::from_le_bytes(answer.payload[..4].try_into().unwrap());
        RawOpen { raw, socket, address, token, file }
    }

    fn send_call(&mut self, id: u32, offset: u64, bytes: u32, over: u32) -> Frame {
        let mut payload = vec![12];
        payload.extend_from_slice(&self.file.to_le_bytes());
        payload.extend_from_slice(&offset.to_le_bytes());
        payload.extend_from_slice(&bytes.to_le_bytes());
        payload.extend_from_slice(&over.to_le_bytes());
        self.raw.call(id, &payload).unwrap()
    }

    fn received(&mut self, bytes: usize) -> Vec<u8> {
        let mut received = vec![0; bytes];
        self.socket.read_exact(&mut received).unwrap();
        received
    }
}

fn sent(call: u32, bytes: &[u8]) -> Frame {
    let digest = blake3::hash(bytes);
    let payload = [&(bytes.len() as u32).to_le_bytes()[..], digest.as_bytes()].concat();
    Frame { kind: FrameKind::Answer, call, payload }
}

fn not_connected(call: u32) -> Frame {
    Frame { kind: FrameKind::Failed, call, payload: vec![ENOTCONN, 0] }
}

#[test]
fn bytes_come_in_the_order_of_the_calls_and_nothing_is_taken_from_the_connection() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f");
    fs::write(&path, "contents").unwrap();
    let mut end = RawOpen::new(&path);
    assert_eq!(end.send_call(1, 2, 3, 0), sent(1, b"nte"));
    // Behind its end; and over a connection that was not announced.
    assert_eq!(end.send_call(2, 6, 90, 0), sent(2, b"ts"));
    assert_eq!(end.send_call(3, 99, 9, 0), sent(3, b""));
    assert_eq!(end.send_call(4, 0, 1, 1), not_connected(4));
    assert_eq!(end.send_call(5, 0, 8, 0), sent(5, b"contents"));
    assert_eq!(end.received(13), b"ntetscontents");
    // A byte from there ends the connection, and not the session.
    end.socket.write_all(b"x").unwrap();
    assert_eq!(end.socket.read(&mut [0]).unwrap_or(0), 0);
    wait_until("the end", || TcpStream::connect(end.address).is_ok());
    // The thread that served it may be a moment behind.
    let mut call = 5;
    wait_until("an answer without it", || {
        call += 1;
        end.send_call(call, 0, 8, 0) == not_connected(call)
    });
    // The token was good once.
    let mut again = TcpStream::connect(end.address).unwrap();
    let _ = again.write_all(&end.token);
    assert_eq!(again.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn a_directory_is_not_sent() {
    let root = tempfile::tempdir().unwrap();
    let mut end = RawOpen::new(root.path());
    let mut payload = vec![12];
    payload.extend_from_slice(&end.file.to_le_bytes());
    payload.extend_from_slice(&[0; 16]);
    assert_eq!(end.raw.call(1, &payload), None);
    assert!(matches!(end.raw.end(), Err(RemoteError::Violation(_))));
}

/// Far end whose file is another one for each way: in digests, over the connection, in the session.
fn with_file(
    digested: &'static [u8],
    came: &'static [u8],
    read: &'static [u8],
    check: impl Fn(&Pull),
) {
    let (near, far) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let token = [9; 32];
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut shown = [0; 32];
        socket.read_exact(&mut shown).unwrap();
        assert_eq!(shown, token);
        socket.write_all(&[1, 2]).unwrap();
        // The near end may have what it needs.
        let _ = socket.write_all(came);
        let _ = socket.read(&mut [0]);
    });
    let far = thread::spawn(move || {
        let mut reply = move |message| {
            let Message::DataWanted(_) = message else { return vec![] };
            let offer = DataOffer { security: DataSecurity::Open, port };
            let announced = DataAnnouncement { number: 0, token };
            vec![Message::DataOffered(offer), Message::DataAnnounced(announced)]
        };
        let answer = |server: &mut Server, id, call: &Call| match call {
            Call::Root { .. } => {
                let status = Status { kind: Kind::File, size: 4, ..Status::default() };
                vec![server.opened(id, &status).unwrap().1]
            }
            Call::Send { .. } => {
                let digest = blake3::hash(digested);
                vec![server.sent(id, digested.len() as u32, digest.as_bytes()).unwrap()]
            }
            Call::Read { .. } => vec![server.data(id, read.to_vec()).unwrap()],
            _ => vec![server.closed(id).unwrap()],
        };
        hostile_servers::run(far, &answer, &mut reply);
    });
    let options = open(options("127.0.0.1", DataStart::Behind { bytes: 0 }));
    let options = DataOptions { connections: 1, ..options };
    let begun = pull(of_socket(near), &long(), Some(options), &["x".into()], &never).unwrap();
    wait_until("a connection", || begun.data().connections == 1);
    check(&begun);
    drop(begun);
    far.join().unwrap();
}

#[test]
fn what_differs_is_read_again_and_counts_as_changed_if_it_differs_again() {
    for (digested, came, read, expected, has_changed) in [
        (b"told", b"told", b"read", b"told", false),
        (b"told", b"came", b"told", b"told", false),
        (b"told", b"came", b"read", b"read", true),
        (b"told", b"came", b"came", b"came", true),
    ] {
        with_file(digested, came, read, |begun| {
            let source = begun.source();
            let file = source.open_root(0, false).unwrap().handle;
            assert_eq!(read_range(&source, file, 0..4).unwrap(), expected);
            assert_eq!(source.has_changed(file), has_changed);
            let resent = begun.data().resent;
            assert_eq!(resent, if digested == came { 0 } else { 4 });
            source.close(file);
            assert!(!source.has_changed(file));
        });
    }
}
