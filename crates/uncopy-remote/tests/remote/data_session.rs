//! Sessions with data connections: what goes over them, and what happens when they are not made, break or lie.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uncopy_copy::peer::Peer;
use uncopy_remote::data::{
    self, DataListener, EndKeys, ListenOptions, ListenerEvent, PortRange, PublicKey, Token,
};
use uncopy_remote::{
    Accepted, DataLoss, DataOptions, DataRefusal, DataReport, DataStart, FarData, Limits, Pull,
    RemoteError, RemoteSource, Restriction, RunJob, WhyNoData, accept, pull, push,
};
use uncopy_wire::{
    Call, DataAnnouncement, DataLost, DataOffer, DataSecurity, DataWish, Frame, FrameKind, Frames,
    Kind, Message, Server, Status,
};

use crate::hostile_callers::Raw;
use crate::hostile_servers;
use crate::support::{Line, connection, long, never, of_socket, read_range, serve_within};

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Length of the files: many pieces.
pub(crate) const LENGTH: usize = 24 << 20;

pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        state.to_le_bytes()
    });
    next.flatten().take(length).collect()
}

/// Two files below a directory.
pub(crate) struct Files {
    pub(crate) root: tempfile::TempDir,
    pub(crate) contents: [Vec<u8>; 2],
}

impl Files {
    pub(crate) fn new() -> Files {
        let root = tempfile::tempdir().unwrap();
        let contents = [pattern(1, LENGTH), pattern(2, LENGTH / 2 + 5)];
        for (name, contents) in ["a", "b"].iter().zip(&contents) {
            fs::write(root.path().join(name), contents).unwrap();
        }
        Files { root, contents }
    }

    fn names(&self) -> Vec<std::path::PathBuf> {
        ["a", "b"].iter().map(|name| self.root.path().join(name)).collect()
    }

    /// Reads both at once, and checks them.
    pub(crate) fn check(&self, source: &RemoteSource) {
        thread::scope(|scope| {
            for (number, expected) in (0..).zip(&self.contents) {
                scope.spawn(move || {
                    let opened = source.open_root(number, false).unwrap();
                    let found = read_range(source, opened.handle, 0..opened.stat.size).unwrap();
                    assert!(found == *expected, "file {number}");
                    source.close(opened.handle);
                });
            }
        });
    }
}

/// A far end on this machine, as ssh would have come to it.
pub(crate) fn offered(address: &str) -> Restriction {
    let connection = format!("{address} 50000 {address} 22");
    Restriction { data: FarData::of_ssh(Some(connection.as_ref())), ..Restriction::default() }
}

fn refused(refusal: DataRefusal) -> Restriction {
    Restriction { data: FarData::Refused(refusal), ..Restriction::default() }
}

pub(crate) fn options(address: &str, start: DataStart) -> DataOptions {
    let address = SocketAddr::new(address.parse::<IpAddr>().unwrap(), 0);
    DataOptions { start, ..DataOptions::new(Box::new(move || Ok(vec![address]))) }
}

pub(crate) fn at_once(address: &str) -> DataOptions {
    options(address, DataStart::First)
}

/// A port that was free a moment ago on both addresses.
fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Pulls both files; `use_source` gets the session.
pub(crate) fn pulled(
    options: Option<DataOptions>,
    restriction: Restriction,
    limits: Limits,
    files: &Files,
    use_session: impl FnOnce(&Pull),
) -> Result<DataReport, RemoteError> {
    pulled_over(Line::Socket, options, restriction, limits, files, use_session)
}

pub(crate) fn pulled_over(
    line: Line,
    options: Option<DataOptions>,
    restriction: Restriction,
    limits: Limits,
    files: &Files,
    use_session: impl FnOnce(&Pull),
) -> Result<DataReport, RemoteError> {
    let (near, far) = connection(line);
    let far = serve_within(far, restriction, limits);
    let roots: Vec<_> = files.names().into_iter().map(Into::into).collect();
    let begun = match pull(near, &limits, options, &roots, &never) {
        Ok(begun) => begun,
        Err(error) => {
            // It ends with the near end, whatever it says.
            let _ = far.join().unwrap();
            return Err(error);
        }
    };
    use_session(&begun);
    let report = begun.data();
    assert_eq!((begun.end(), far.join().unwrap()), (Ok(()), Ok(())));
    Ok(report)
}

#[test]
fn files_are_read_over_one_and_several_connections_in_both_families() {
    let files = Files::new();
    let all: u64 = files.contents.iter().map(|contents| contents.len() as u64).sum();
    for (address, connections) in [("127.0.0.1", 1), ("127.0.0.1", 4), ("::1", 3)] {
        let options = DataOptions { connections, ..at_once(address) };
        let report = pulled(Some(options), offered(address), long(), &files, |begun| {
            wait_until("all stand", || begun.data().connections == u32::from(connections));
            files.check(&begun.source());
            let shell = begun.traffic();
            assert!(shell.received < 10_000, "{shell:?}");
        })
        .unwrap();
        assert_eq!((report.connections, report.resent), (connections.into(), 0));
        assert_eq!(report.why_none, None);
        assert!((all..all + all / 100).contains(&report.traffic.received), "{report:?}");
    }
}

/// Runs a job at the far end that reads both files; returns what both ends say.
pub(crate) fn pushed(
    options: Option<DataOptions>,
    restriction: &Restriction,
    files: &Files,
    notes: &mut Vec<String>,
) -> (Result<u8, RemoteError>, Option<DataReport>) {
    pushed_over(Line::Pipes, options, restriction, files, notes)
}

pub(crate) fn pushed_over(
    line: Line,
    options: Option<DataOptions>,
    restriction: &Restriction,
    files: &Files,
    notes: &mut Vec<String>,
) -> (Result<u8, RemoteError>, Option<DataReport>) {
    let (near, far) = connection(line);
    let mut report = None;
    let ran = thread::scope(|scope| {
        let report = &mut report;
        let far = scope.spawn(move || match accept(far, &long(), restriction)? {
            Accepted::Run(request) => request.run(&[], |source, output| {
                files.check(&source);
                *report = Some(output.data());
                7
            }),
            Accepted::Serve(_) => panic!("a job is to be run"),
        });
        let job = RunJob { arguments: vec![], sources: vec!["x".into()] };
        let on_event = &mut |event: uncopy_remote::FarEvent<'_>| notes.push(format!("{event:?}"));
        let ran = push(near, &long(), options, &job, &files.names(), &never, on_event);
        let far = far.join().unwrap();
        assert_eq!(far.is_ok(), ran.is_ok(), "{far:?} {ran:?}");
        ran
    });
    (ran, report)
}

#[test]
fn a_job_at_the_far_end_reads_over_them_too() {
    let files = Files::new();
    for connections in [1, 4] {
        let options = DataOptions { connections, ..at_once("127.0.0.1") };
        let mut notes = Vec::new();
        let (ran, report) = pushed(Some(options), &offered("127.0.0.1"), &files, &mut notes);
        let report = report.unwrap();
        assert_eq!((ran, notes), (Ok(7), vec![]));
        assert!(report.traffic.received > LENGTH as u64, "{report:?}");
        assert!((1..=u32::from(connections)).contains(&report.connections));
        assert_eq!((report.why_none, report.resent), (None, 0));
    }
}

#[test]
fn connections_begin_once_enough_has_crossed() {
    let files = Files::new();
    let start = DataStart::Behind { bytes: 4 << 20 };
    let options = || Some(options("127.0.0.1", start));
    let report = pulled(options(), offered("127.0.0.1"), long(), &files, |begun| {
        let source = begun.source();
        let file = source.open_root(0, false).unwrap().handle;
        read_range(&source, file, 0..(2 << 20)).unwrap();
        thread::sleep(Duration::from_millis(100));
        assert_eq!(begun.data().connections, 0);
        assert_eq!(begun.data().why_none, Some(WhyNoData::Small));
        wait_until("a connection", || {
            read_range(&source, file, 0..(1 << 20)).unwrap();
            begun.data().connections > 0
        });
        files.check(&source);
    });
    assert_eq!(report.unwrap().why_none, None);
}

#[test]
fn without_them_files_come_through_the_session_and_the_reason_is_known() {
    let files = Files::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let at = |address: &str| options(address, DataStart::Behind { bytes: 0 });
    let unresolved =
        || DataOptions { lookup: Box::new(|| Err(DataLoss::Unresolved)), ..at("127.0.0.1") };
    let in_use = || DataOptions { ports: PortRange::new(port, port).unwrap(), ..at("127.0.0.1") };
    let cases: [(&dyn Fn() -> DataOptions, Restriction, WhyNoData); 6] = [
        (
            &|| at("127.0.0.1"),
            refused(DataRefusal::Policy),
            WhyNoData::Refused(DataRefusal::Policy),
        ),
        (&|| at("127.0.0.1"), Restriction::default(), WhyNoData::Refused(DataRefusal::NoAddress)),
        (&|| at("127.0.0.3"), offered("127.0.0.1"), WhyNoData::Lost(DataLoss::Refused)),
        (&unresolved, offered("127.0.0.1"), WhyNoData::Lost(DataLoss::Unresolved)),
        (&in_use, offered("127.0.0.1"), WhyNoData::Refused(DataRefusal::PortsInUse)),
        // The far end expects another machine.
        (&|| at("127.0.0.1"), seen_from("127.0.0.9"), WhyNoData::Lost(DataLoss::Ended)),
    ];
    for (options, restriction, why) in &cases {
        let report = pulled(Some(options()), restriction.clone(), long(), &files, |begun| {
            wait_until("a reason", || begun.data().why_none == Some(*why));
            files.check(&begun.source());
        });
        let report = report.unwrap();
        assert_eq!((report.connections, report.resent), (0, 0));

        let mut notes = Vec::new();
        let (ran, _) = pushed(Some(options()), restriction, &files, &mut notes);
        assert_eq!(ran, Ok(7));
        assert!(notes.iter().all(|note| note.contains("NoData")), "{notes:?}");

        let first = || Some(DataOptions { start: DataStart::First, ..options() });
        let found = pulled(first(), restriction.clone(), long(), &files, |_| panic!("no job"));
        assert_eq!(found, Err(RemoteError::NoData { why: *why }));
        let (ran, report) = pushed(first(), restriction, &files, &mut Vec::new());
        assert_eq!((ran, report), (Err(RemoteError::NoData { why: *why }), None));
    }
    let report = pulled(None, offered("127.0.0.1"), long(), &files, |begun| {
        files.check(&begun.source());
    });
    assert_eq!(report.unwrap().why_none, Some(WhyNoData::NotWanted));
    let (ran, report) = pushed(None, &offered("127.0.0.1"), &files, &mut Vec::new());
    assert_eq!((ran, report.unwrap().why_none), (Ok(7), Some(WhyNoData::NotWanted)));
}

fn seen_from(client: &str) -> Restriction {
    let connection = format!("{client} 50000 127.0.0.1 22");
    Restriction { data: FarData::of_ssh(Some(connection.as_ref())), ..Restriction::default() }
}

/// Relay between 127.0.0.2, where the near end connects, and the far end.
pub(crate) struct Relay {
    port: u16,
    /// Number of bytes of both directions after which the next connection is treated badly.
    left: Arc<AtomicU64>,
    treatment: Treatment,
    pub(crate) connections: Arc<AtomicU64>,
    pub(crate) is_over: Arc<AtomicBool>,
}

/// Treatment of the bytes behind the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Both connections are closed.
    Cut,
    /// So are all that come later.
    CutForGood,
    /// Nothing comes any more.
    Silence,
    /// A bit is turned over.
    Changed,
    /// A bit of every part from then on is, but not of tokens and their answers.
    AllChanged,
    /// A byte comes that nobody sent.
    Longer,
    /// A byte is missing.
    Shorter,
    /// A part comes twice.
    Repeated,
    /// From then on a byte comes now and then.
    Slow,
}

impl Relay {
    pub(crate) fn start(treatment: Treatment, bytes: u64) -> Arc<Relay> {
        let port = free_port();
        let relay = Arc::new(Relay {
            port,
            left: Arc::new(AtomicU64::new(bytes)),
            treatment,
            connections: Arc::default(),
            is_over: Arc::default(),
        });
        let listener = TcpListener::bind(("127.0.0.2", port)).unwrap();
        let accepting = Arc::clone(&relay);
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                if accepting.treatment == Treatment::CutForGood
                    && accepting.is_over.load(Ordering::Relaxed)
                {
                    continue;
                }
                accepting.connections.fetch_add(1, Ordering::Relaxed);
                let Ok(far) = TcpStream::connect(("127.0.0.1", accepting.port)) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let relay = Arc::clone(&accepting);
                    thread::spawn(move || relay.carry(from, to));
                }
            }
        });
        relay
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let taken = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                Some(left.saturating_sub(count as u64))
            });
            let left = taken.unwrap();
            // Only one connection reaches the limit.
            let is_at_limit = left > 0 && left <= count as u64;
            let changes_all = self.treatment == Treatment::AllChanged;
            let is_behind = left <= count as u64 && changes_all && count > 32;
            let mut part = 0..count;
            if is_at_limit || is_behind {
                match self.treatment {
                    Treatment::Cut => break,
                    Treatment::CutForGood => {
                        self.is_over.store(true, Ordering::Relaxed);
                        break;
                    }
                    Treatment::Silence => {
                        while !self.is_over.load(Ordering::Relaxed) {
                            thread::sleep(Duration::from_millis(5));
                        }
                        break;
                    }
                    Treatment::Changed | Treatment::AllChanged => buffer[count / 2] ^= 4,
                    Treatment::Longer => drop(to.write_all(&[7])),
                    Treatment::Shorter => part.end -= 1,
                    Treatment::Repeated => drop(to.write_all(&buffer[..count])),
                    Treatment::Slow => {
                        for byte in buffer[..count].chunks(1) {
                            if self.is_over.load(Ordering::Relaxed) || to.write_all(byte).is_err() {
                                break;
                            }
                            thread::sleep(Duration::from_millis(100));
                        }
                        part = 0..0;
                    }
                }
            }
            if to.write_all(&buffer[part]).is_err() {
                break;
            }
        }
        for socket in [from, to] {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn options(&self) -> DataOptions {
        let ports = PortRange::new(self.port, self.port).unwrap();
        DataOptions { ports, connections: 2, ..at_once("127.0.0.2") }
    }
}

#[test]
fn what_a_broken_connection_owes_is_asked_for_again() {
    let files = Files::new();
    let short = Limits { ping: Duration::from_millis(200), silence: Duration::from_secs(3) };
    for treatment in [Treatment::Cut, Treatment::Silence, Treatment::Changed] {
        let relay = Relay::start(treatment, 3 << 20);
        let is_timed = treatment == Treatment::Silence;
        let limits = if is_timed { short } else { long() };
        let report = pulled(Some(relay.options()), offered("127.0.0.1"), limits, &files, |begun| {
            wait_until("both stand", || begun.data().connections == 2);
            files.check(&begun.source());
            // Another one is made in its place; on a slow machine that one may be silent for too long as well.
            wait_until("a third", || relay.connections.load(Ordering::Relaxed) >= 3);
        })
        .unwrap();
        relay.is_over.store(true, Ordering::Relaxed);
        assert!(report.resent > 0 && report.resent < LENGTH as u64, "{treatment:?} {report:?}");
        assert_eq!(report.why_none, None, "{treatment:?}");
        assert!(is_timed || report.connections == 2, "{treatment:?} {report:?}");
    }
    // The same for a job of the far end.
    let relay = Relay::start(Treatment::Cut, 3 << 20);
    let mut notes = Vec::new();
    let (ran, report) = pushed(Some(relay.options()), &offered("127.0.0.1"), &files, &mut notes);
    assert_eq!((ran, notes), (Ok(7), vec![]));
    assert!(report.unwrap().resent > 0, "{report:?}");
}

/// A near end that made its data connection by hand.
struct RawData {
    raw: Raw,
    stream: data::DataStream,
    file: u32,
}

impl RawData {
    fn new(root: &Path) -> RawData {
        let mut raw = Raw::with(&[root], offered("127.0.0.1"));
        let keys = EndKeys::generate().unwrap();
        let key = *keys.public().as_bytes();
        let security = DataSecurity::Tls { key };
        let wish = DataWish { security, connections: 1, first_port: 0, last_port: 0 };
        raw.say(&Message::DataWanted(wish));
        let offer = raw.hear().unwrap();
        let Message::DataOffered(DataOffer { security: DataSecurity::Tls { key }, port }) = offer
        else {
            panic!("an offer")
        };
        let Some(Message::DataAnnounced(DataAnnouncement { number: 0, token })) = raw.hear() else {
            panic!("an announcement")
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let keys = keys.pin(PublicKey::from_bytes(key));
        let stream = data::connect(&[address], &keys, &Token::from_bytes(token), LONG).unwrap();
        let answer = raw.call(0, &[1, 0, 0, 0, 0, 0]).unwrap();
        let file = u32::from_le_bytes(answer.payload[..4].try_into().unwrap());
        RawData { raw, stream, file }
    }
}

pub(crate) fn read_call(id: u32, file: u32, offset: u64, bytes: u32) -> Frame {
    let payload =
        [&[7][..], &file.to_le_bytes(), &offset.to_le_bytes(), &bytes.to_le_bytes()].concat();
    Frame { kind: FrameKind::Call, call: id, payload }
}

/// Reads frames until the connection ends.
fn frames_of(reader: &mut impl Read, count: usize) -> Vec<Frame> {
    let (mut frames, mut found, mut buffer) = (Frames::default(), Vec::new(), vec![0; 4096]);
    while found.len() < count {
        match frames.next().unwrap() {
            Some(frame) if frame.kind == FrameKind::Ping => {}
            Some(frame) => found.push(frame),
            None => match reader.read(&mut buffer) {
                Ok(count @ 1..) => frames.feed(&buffer[..count]),
                _ => return found,
            },
        }
    }
    found
}

#[test]
fn a_data_connection_reads_open_files_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f");
    fs::write(&path, "contents").unwrap();
    let RawData { mut raw, stream, file } = RawData::new(&path);
    let (mut reader, mut writer) = stream.into_split();
    let calls = [read_call(0, file, 2, 3), read_call(1, file + 1, 0, 1), read_call(2, file, 99, 9)];
    for call in &calls {
        writer.write_all(&call.encode()).unwrap();
    }
    let answers = frames_of(&mut reader, 3);
    let expected = [
        Frame { kind: FrameKind::Answer, call: 0, payload: b"nte".to_vec() },
        Frame { kind: FrameKind::Failed, call: 1, payload: vec![9, 0] },
        Frame { kind: FrameKind::Answer, call: 2, payload: vec![] },
    ];
    assert_eq!(answers, expected);
    // A call behind it is not answered, and the session lives.
    writer.write_all(&Frame { call: 3, ..read_call(3, file, 0, 1) }.encode()).unwrap();
    writer
        .write_all(&Frame { kind: FrameKind::Call, call: 4, payload: vec![5, 0, 0, 0, 0] }.encode())
        .unwrap();
    // An answer that was not sent yet is dropped with it.
    assert!(frames_of(&mut reader, 2).len() < 2);
    let status = raw.call(5, &[&[5][..], &file.to_le_bytes()].concat()).unwrap();
    assert_eq!((status.kind, status.call), (FrameKind::Answer, 5));
    // Another one is announced in its place; one that was not announced cannot be lost.
    let lost = |number| DataLost { number, why: DataLoss::Broken, again: true };
    raw.say(&Message::DataLost(lost(0)));
    let again = raw.hear();
    assert!(matches!(again, Some(Message::DataAnnounced(DataAnnouncement { number: 1, .. }))));
    raw.say(&Message::DataLost(lost(0)));
    assert_eq!(raw.hear(), None);
    assert!(matches!(raw.end(), Err(RemoteError::Violation(_))));
}

#[test]
fn a_directory_is_not_read_over_a_data_connection() {
    let root = tempfile::tempdir().unwrap();
    let RawData { mut raw, stream, file } = RawData::new(root.path());
    let (mut reader, mut writer) = stream.into_split();
    writer.write_all(&read_call(0, file, 0, 1).encode()).unwrap();
    let bad_handle = Frame { kind: FrameKind::Failed, call: 0, payload: vec![9, 0] };
    assert_eq!(frames_of(&mut reader, 1), [bad_handle]);
    assert!(raw.call(5, &[&[5][..], &file.to_le_bytes()].concat()).is_some());
}

#[test]
fn calls_of_every_other_kind_end_a_data_connection() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f");
    fs::write(&path, "contents").unwrap();
    let bad: [Vec<u8>; 6] = [
        Frame { kind: FrameKind::Call, call: 0, payload: vec![1, 0, 0, 0, 0, 0] }.encode(),
        Frame { kind: FrameKind::Call, call: 0, payload: vec![9, 0, 0, 0, 0] }.encode(),
        Frame { kind: FrameKind::Answer, call: 0, payload: vec![] }.encode(),
        Frame { kind: FrameKind::Stop, call: 0, payload: vec![] }.encode(),
        read_call(0, 0, u64::MAX, 1).encode(),
        vec![0xff; 64],
    ];
    for bytes in bad {
        let RawData { mut raw, stream, file } = RawData::new(&path);
        let (mut reader, mut writer) = stream.into_split();
        writer.write_all(&bytes).unwrap();
        assert_eq!(frames_of(&mut reader, 1), []);
        let answer = raw.call(5, &read_call(5, file, 0, 8).payload).unwrap();
        assert_eq!(answer.payload, b"contents");
    }
}

fn key_of(wish: &DataWish) -> PublicKey {
    let DataSecurity::Tls { key } = wish.security else { panic!("a key") };
    PublicKey::from_bytes(key)
}

/// Frames of a data connection that lies, in answer to a read.
type Lie = dyn Fn(&Frame) -> Vec<Vec<u8>> + Send + Sync;

/// Far end with a data connection that lies. Through the session each piece has its own byte.
fn with_lies(lie: Arc<Lie>, ask: impl FnOnce(&Pull)) {
    let (near, far) = UnixStream::pair().unwrap();
    let keys = EndKeys::generate().unwrap();
    let mut listening = Vec::new();
    let mut reply = move |message| {
        let Message::DataWanted(wish) = message else { return vec![] };
        let local = || "127.0.0.1".parse().unwrap();
        let pinned = keys.pin(key_of(&wish));
        let listener = ListenOptions::new(local(), local());
        let listener = Arc::new(DataListener::bind(&listener, &pinned).unwrap());
        let token = *listener.announce().unwrap().1.as_bytes();
        let (key, port) = (*keys.public().as_bytes(), listener.address().port());
        let (accepting, lie) = (Arc::clone(&listener), Arc::clone(&lie));
        listening.push(listener);
        thread::spawn(move || {
            let ListenerEvent::Connected { stream, .. } = accepting.wait(Some(LONG)) else {
                panic!("a connection")
            };
            let (mut reader, mut writer) = stream.into_split();
            while let [call] = &frames_of(&mut reader, 1)[..] {
                for bytes in lie(call) {
                    // The near end may have cut it.
                    let _ = writer.write_all(&bytes);
                }
            }
        });
        let announced = DataAnnouncement { number: 0, token };
        let security = DataSecurity::Tls { key };
        let offer = DataOffer { security, port };
        vec![Message::DataOffered(offer), Message::DataAnnounced(announced)]
    };
    let far = thread::spawn(move || {
        let answer = |server: &mut Server, id, call: &Call| match call {
            Call::Root { .. } => {
                let status = Status { kind: Kind::File, size: 3 << 18, ..Status::default() };
                vec![server.opened(id, &status).unwrap().1]
            }
            Call::Read { bytes, offset, .. } => {
                vec![server.data(id, vec![(offset >> 18) as u8; *bytes as usize]).unwrap()]
            }
            _ => vec![server.closed(id).unwrap()],
        };
        hostile_servers::run(far, &answer, &mut reply);
    });
    let options = options("127.0.0.1", DataStart::Behind { bytes: 0 });
    let options = DataOptions { connections: 1, ..options };
    let begun = pull(of_socket(near), &long(), Some(options), &["x".into()], &never).unwrap();
    wait_until("a connection", || begun.data().connections == 1);
    ask(&begun);
    drop(begun);
    far.join().unwrap();
}

#[test]
fn pieces_of_a_connection_that_lies_are_asked_for_elsewhere() {
    let answer = |call: u32, bytes: usize| {
        Frame { kind: FrameKind::Answer, call, payload: vec![0xee; bytes] }.encode()
    };
    let lies: [Arc<Lie>; 5] = [
        // More than was asked for, an answer to nothing, one that comes twice.
        Arc::new(move |call| vec![answer(call.call, (1 << 18) + 1)]),
        Arc::new(move |call| vec![answer(call.call + 1000, 1)]),
        Arc::new(move |_| {
            let failed = Frame { kind: FrameKind::Failed, call: 0, payload: vec![0, 0] };
            vec![failed.encode()]
        }),
        Arc::new(|_| vec![Frame { kind: FrameKind::Exit, call: 0, payload: vec![0] }.encode()]),
        Arc::new(|_| vec![vec![0xff; 100]]),
    ];
    for lie in lies {
        with_lies(lie, |begun| {
            let source = begun.source();
            let file = source.open_root(0, false).unwrap().handle;
            let found = read_range(&source, file, 0..(3 << 18)).unwrap();
            let expected: Vec<u8> = (0..3).flat_map(|at| vec![at; 1 << 18]).collect();
            assert!(found == expected);
            let report = begun.data();
            assert!(report.resent >= 1 << 18, "{report:?}");
        });
    }
}

/// Something else answers on the port: the key that came through the session is not its own.
#[test]
fn what_has_another_key_is_no_far_end() {
    let (near, far) = UnixStream::pair().unwrap();
    let far = thread::spawn(move || {
        let mut listening = Vec::new();
        let mut reply = move |message| {
            let Message::DataWanted(wish) = message else { return vec![] };
            let local = || "127.0.0.1".parse().unwrap();
            let keys = EndKeys::generate().unwrap().pin(key_of(&wish));
            let listener =
                DataListener::bind(&ListenOptions::new(local(), local()), &keys).unwrap();
            let token = *listener.announce().unwrap().1.as_bytes();
            let port = listener.address().port();
            listening.push(listener);
            let key = *EndKeys::generate().unwrap().public().as_bytes();
            vec![
                Message::DataOffered(DataOffer { security: DataSecurity::Tls { key }, port }),
                Message::DataAnnounced(DataAnnouncement { number: 0, token }),
            ]
        };
        let answer = |server: &mut Server, id, call: &Call| match call {
            Call::Root { .. } => {
                let status = Status { kind: Kind::File, size: 4, ..Status::default() };
                vec![server.opened(id, &status).unwrap().1]
            }
            Call::Read { .. } => vec![server.data(id, b"good".to_vec()).unwrap()],
            _ => vec![server.closed(id).unwrap()],
        };
        hostile_servers::run(far, &answer, &mut reply);
    });
    let options = options("127.0.0.1", DataStart::Behind { bytes: 0 });
    let options = DataOptions { connections: 1, ..options };
    let begun = pull(of_socket(near), &long(), Some(options), &["x".into()], &never).unwrap();
    let other_key = Some(WhyNoData::Lost(DataLoss::OtherKey));
    wait_until("a reason", || begun.data().why_none == other_key);
    let source = begun.source();
    let file = source.open_root(0, false).unwrap().handle;
    assert_eq!(read_range(&source, file, 0..4).unwrap(), b"good");
    drop(begun);
    far.join().unwrap();
}

#[test]
fn an_answer_that_comes_twice_ends_the_connection() {
    let twice: Arc<Lie> = Arc::new(|call| {
        let offset = u64::from_le_bytes(call.payload[5..13].try_into().unwrap());
        let payload = vec![(offset >> 18) as u8; 1 << 18];
        let frame = Frame { kind: FrameKind::Answer, call: call.call, payload }.encode();
        vec![frame.clone(), frame]
    });
    with_lies(twice, |begun| {
        let source = begun.source();
        let file = source.open_root(0, false).unwrap().handle;
        let found = read_range(&source, file, 0..(3 << 18)).unwrap();
        assert!(found == (0..3).flat_map(|at| vec![at; 1 << 18]).collect::<Vec<u8>>());
        assert!(begun.data().resent > 0);
    });
}
