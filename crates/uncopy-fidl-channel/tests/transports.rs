//! Each way to send a value, within a process and over a socket: limits, the order of checks, that
//! failures send nothing and consume the handles, and what of a message is copied.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use testbed::witness::Strace;
use testbed::{Need, Program, SentParts};
use uncopy_channel::{Channel, Deadline, EventPair, MAX_HANDLES, Object, Rights, Signals, Status};
use uncopy_fidl::{Fidl, OwnedHandle, Rule};
use uncopy_fidl_channel::{Failure, FidlHandle, protocol};

fn main() -> ExitCode {
    testbed::run(env!("CARGO_TARGET_TMPDIR"), || {
        testbed::cases![
            [] a_value_at_a_limit_is_sent_and_one_past_it_is_refused,
            [] a_value_is_refused_for_the_first_of_its_faults,
            [] a_call_for_which_there_is_no_room_sends_nothing_and_consumes_the_handles,
            [Need::Tool("strace")] large_pieces_of_a_value_are_passed_to_the_kernel_where_they_lie,
        ]
    })
}

#[derive(Debug, Fidl)]
#[fidl(resource = FidlHandle)]
struct Parcel {
    pieces: Vec<Vec<u8>>,
    handles: Vec<OwnedHandle<FidlHandle>>,
}

#[protocol(library = "test.transports")]
trait Store {
    fn put(parcel: Parcel);
    fn fetch(parcel: Parcel) -> Parcel;
    #[fidl(event)]
    fn on_put(parcel: Parcel);
}

/// A way to send a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    OneWay,
    Call,
    Event,
}

const SENDINGS: [Sending; 3] = [Sending::OneWay, Sending::Call, Sending::Event];

impl Sending {
    /// Sends; a call does not wait for its answer, and returns that it timed out.
    fn send(self, client: &StoreClient, parcel: Parcel) -> Result<(), Failure> {
        let past = Deadline::after(Duration::ZERO);
        match self {
            Sending::OneWay => client.put(parcel),
            Sending::Call => client.fetch(parcel, past).map(drop),
            Sending::Event => StoreEventSender(client.channel()).on_put(parcel),
        }
    }

    /// Result of sending a message that nobody answers.
    fn success(self) -> Result<(), Failure> {
        if self == Sending::Call { Err(Failure::Channel(Status::TimedOut)) } else { Ok(()) }
    }
}

/// Held by a test that starts a program, and shared by those that look whether something is closed: until it runs, the
/// program has a copy of every descriptor.
static STARTING: RwLock<()> = RwLock::new(());

/// Keeps programs from being started.
fn nothing_starts() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    (near, Channel::from_fd(far.into_fd().unwrap()).unwrap())
}

type MakePair = fn() -> (Channel, Channel);

const TRANSPORTS: [(&str, MakePair); 2] = [("local", Channel::pair), ("socket", socket_pair)];

fn on_each(run: impl Fn(&str, Sending, (Channel, Channel))) {
    let _nothing_starts = nothing_starts();
    for (name, pair) in TRANSPORTS {
        for sending in SENDINGS {
            run(&format!("{name}, {sending:?}"), sending, pair());
        }
    }
}

/// A parcel with handles, and what shows whether each of them was closed.
fn parcel(pieces: &[usize], handles: usize) -> (Parcel, Vec<EventPair>) {
    let (witnesses, moved): (Vec<_>, Vec<_>) = (0..handles).map(|_| EventPair::pair()).unzip();
    let handles = moved.into_iter().map(|end| FidlHandle::new(end).into()).collect();
    (Parcel { pieces: pieces.iter().map(|length| vec![7; *length]).collect(), handles }, witnesses)
}

fn are_closed(witnesses: &[EventPair]) -> bool {
    witnesses.iter().all(|witness| witness.signals().contains(Signals::PEER_CLOSED))
}

/// Header, both vectors, and the entry of one piece: the bytes of a message beside those of a piece.
const BESIDE_ONE_PIECE: usize = 16 + 2 * 16 + 16;
const LONGEST_PIECE: usize = uncopy_channel::MAX_BYTES - BESIDE_ONE_PIECE;

fn is_too_long(failure: &Failure) -> bool {
    matches!(failure, Failure::Message(error) if matches!(error.rule(), Rule::MessageTooLong { .. }))
}

fn a_value_at_a_limit_is_sent_and_one_past_it_is_refused() {
    on_each(|case, sending, (near, far)| {
        let client = StoreClient::new(near);
        for (what, pieces, handles) in
            [("bytes", vec![LONGEST_PIECE], 0), ("handles", vec![40], MAX_HANDLES)]
        {
            let (parcel, witnesses) = parcel(&pieces, handles);
            assert_eq!(sending.send(&client, parcel), sending.success(), "{case}, {what}");
            let message = far.read().unwrap();
            assert_eq!(message.handles().len(), handles, "{case}, {what}");
            let indices = handles.next_multiple_of(2) * size_of::<u32>();
            assert_eq!(message.len(), BESIDE_ONE_PIECE + pieces[0] + indices, "{case}, {what}");
            assert!(handles == 0 || !are_closed(&witnesses), "{case}, {what}");
        }
        for (what, pieces, handles) in [
            ("bytes", vec![LONGEST_PIECE + 1], 2),
            ("a sum of bytes", vec![30_000; 3], 2),
            ("handles", vec![40], MAX_HANDLES + 1),
        ] {
            let (refused, witnesses) = parcel(&pieces, handles);
            let failure = sending.send(&client, refused).unwrap_err();
            let Failure::Message(error) = failure else { panic!("{case}, {what}: {failure}") };
            match error.rule() {
                Rule::MessageTooLong { .. } => assert_ne!(what, "handles", "{case}"),
                Rule::TooManyHandles { .. } => assert_eq!(what, "handles", "{case}"),
                rule => panic!("{case}, {what}: {rule}"),
            }
            assert!(are_closed(&witnesses), "{case}, {what}");
            assert_eq!(far.read().unwrap_err(), Status::ShouldWait, "{case}, {what}");
            let (whole, _witnesses) = parcel(&[5000, 3], 1);
            assert_eq!(sending.send(&client, whole), sending.success(), "{case}, {what}");
            assert_eq!(far.read().unwrap().handles().len(), 1, "{case}, {what}");
        }
    });
}

/// Faults of a value, from which it is refused for the first: it is encoded before the channel looks at
/// it, which then checks in Zircon's order.
fn a_value_is_refused_for_the_first_of_its_faults() {
    for (may_write, is_long, may_move, is_open, expected) in [
        (false, true, false, false, None),
        (false, false, false, false, Some(Status::AccessDenied)),
        (true, false, false, false, Some(Status::AccessDenied)),
        (true, false, true, false, Some(Status::PeerClosed)),
    ] {
        on_each(|case, sending, (near, far)| {
            let rights = if may_write { Rights::CHANNEL } else { Rights::CHANNEL - Rights::WRITE };
            let client = StoreClient::new(near.replace(Some(rights)).unwrap());
            let far = is_open.then_some(far);
            let length = if is_long { LONGEST_PIECE + 1 } else { 5000 };
            let (mut value, witnesses) = parcel(&[length], 2);
            if !may_move {
                let fixed = EventPair::pair().0.replace(Some(Rights::WAIT)).unwrap();
                value.handles.push(FidlHandle::new(fixed).into());
            }
            let failure = sending.send(&client, value).unwrap_err();
            let is_right = match expected {
                Some(status) => failure == Failure::Channel(status),
                None => is_too_long(&failure),
            };
            assert!(is_right, "{case}: {failure}, not {expected:?}");
            assert!(are_closed(&witnesses), "{case}, {expected:?}");
            drop(far);
        });
    }
}

fn a_call_for_which_there_is_no_room_sends_nothing_and_consumes_the_handles() {
    let _nothing_starts = nothing_starts();
    for (name, pair) in TRANSPORTS {
        let (near, far) = pair();
        let client = StoreClient::new(near);
        let full = [0; 60_000];
        while client.channel().write(&[std::io::IoSlice::new(&full)], vec![]).is_ok() {}
        let (value, witnesses) = parcel(&[60_000], 2);
        let failure = Sending::Call.send(&client, value).unwrap_err();
        assert_eq!(failure, Failure::Channel(Status::ShouldWait), "{name}");
        assert!(are_closed(&witnesses), "{name}");
        loop {
            match far.read() {
                Ok(message) => assert_eq!(message.len(), full.len(), "{name}"),
                Err(status) => break assert_eq!(status, Status::ShouldWait, "{name}"),
            }
        }
        let (value, _witnesses) = parcel(&[60_000], 2);
        assert_eq!(Sending::Call.send(&client, value), Sending::Call.success(), "{name}");
        assert_eq!(far.read().unwrap().handles().len(), 2, "{name}");
    }
}

/// Environment variable of the run that strace shows.
const TRACED: &str = "UNCOPY_TEST_TRACED";

/// Pieces and handles of a value, and the parts of the system call that sends it: the header in front of
/// the small parts, and each large piece where it lies. Indices and records of handles come last.
const PARTS: [(&[usize], usize, SentParts); 5] = [
    (&[64], 0, SentParts { count: 1, first: 8 + BESIDE_ONE_PIECE + 64 }),
    (&[4096], 0, SentParts { count: 2, first: 8 + BESIDE_ONE_PIECE }),
    (&[LONGEST_PIECE], 0, SentParts { count: 2, first: 8 + BESIDE_ONE_PIECE }),
    (&[4096], 1, SentParts { count: 3, first: 8 + BESIDE_ONE_PIECE }),
    (&[8000; 8], 0, SentParts { count: 9, first: 8 + BESIDE_ONE_PIECE + 7 * 16 }),
];

fn large_pieces_of_a_value_are_passed_to_the_kernel_where_they_lie() {
    const NAME: &str = "large_pieces_of_a_value_are_passed_to_the_kernel_where_they_lie";
    if std::env::var_os(TRACED).is_some() {
        let (near, far) = socket_pair();
        let client = StoreClient::new(near);
        for (pieces, handles, _) in PARTS {
            for sending in SENDINGS {
                let (value, _witnesses) = parcel(pieces, handles);
                assert_eq!(sending.send(&client, value), sending.success());
                drop(far.read().unwrap());
            }
        }
        return;
    }
    let _starting = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let program = Program::new(std::env::current_exe().unwrap()).args(["--exact", NAME]);
    let (run, trace) = Strace::new(&program.env(TRACED, "1")).run();
    assert!(run.status.success(), "{}", run.stderr);
    let expected = PARTS.into_iter().flat_map(|(_, _, parts)| [parts; SENDINGS.len()]);
    assert_eq!(SentParts::of(&trace), expected.collect::<Vec<_>>());
}
