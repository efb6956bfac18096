//! Listings over data connections: they go on where those end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use uncopy_copy::peer::{Peer, PeerEntry, PeerHandle};
use uncopy_remote::{DataOptions, DataStart, Limits, Pull, RemoteSource, pull};

use crate::data_session::{Relay, Treatment, at_once, offered, options, pattern, wait_until};
use crate::support::{Line, connection, list_all, long, never, serve_within, up_to};

const LATE: Line = Line::Delayed(Duration::from_millis(3));
const FILES: u64 = 2000;
const LENGTH: usize = 3000;
/// Length of all files.
pub(crate) const ALL: u64 = FILES * LENGTH as u64;

fn contents(number: u64) -> Vec<u8> {
    pattern(number, LENGTH)
}

/// Two directories with the same files.
pub(crate) fn plant(root: &Path) {
    for directory in ["a", "b"] {
        fs::create_dir(root.join(directory)).unwrap();
        for number in 0..FILES {
            fs::write(root.join(directory).join(number.to_string()), contents(number)).unwrap();
        }
    }
}

/// Checks that each file came once, whole.
fn check(entries: Vec<PeerEntry>) {
    let count = entries.len();
    let found: BTreeMap<OsString, PeerEntry> =
        entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
    assert_eq!((count, found.len()), (FILES as usize, FILES as usize));
    for number in 0..FILES {
        let entry = &found[&OsString::from(number.to_string())];
        assert!(entry.contents.as_deref() == Some(&contents(number)[..]), "{number}");
    }
}

fn open(source: &RemoteSource, number: u32) -> PeerHandle {
    source.open_root(number, false).unwrap().handle
}

/// Lists both directories at once.
pub(crate) fn list_both(source: &RemoteSource) {
    thread::scope(|scope| {
        for number in [0, 1] {
            scope.spawn(move || {
                let directory = open(source, number);
                check(list_all(source, directory, 1 << 16).unwrap());
                source.close(directory);
            });
        }
    });
}

pub(crate) fn with_session(
    line: Line,
    options: DataOptions,
    limits: Limits,
    root: &Path,
    use_it: impl FnOnce(&Pull),
) {
    let (near, far) = connection(line);
    let far = serve_within(far, offered("127.0.0.1"), limits);
    let roots: Vec<OsString> = ["a", "b"].map(|name| root.join(name).into()).into();
    let begun = pull(near, &limits, Some(options), &roots, &never).unwrap();
    use_it(&begun);
    assert_eq!((begun.end(), far.join().unwrap()), (Ok(()), Ok(())));
}

#[test]
fn listings_come_over_data_connections() {
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    for (line, connections) in [(Line::Socket, 1), (Line::Socket, 4), (LATE, 4)] {
        let options = DataOptions { connections, ..at_once("127.0.0.1") };
        with_session(line, options, long(), root.path(), |begun| {
            list_both(&begun.source());
            let (shell, data) = (begun.traffic().received, begun.data().traffic.received);
            assert!(data > 2 * ALL && shell < 100_000, "{shell} {data}");
        });
    }
}

#[test]
fn what_a_connection_owed_of_a_listing_comes_over_another_one() {
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    let short = Limits { ping: Duration::from_millis(200), silence: Duration::from_secs(3) };
    for treatment in [Treatment::Cut, Treatment::Changed, Treatment::Silence] {
        // In the first page, and far behind it.
        for bytes in [100_000, 1 << 20, 3 << 20] {
            let relay = Relay::start(treatment, bytes);
            let limits = if treatment == Treatment::Silence { short } else { long() };
            with_session(LATE, relay.options(), limits, root.path(), |begun| {
                wait_until("both stand", || begun.data().connections == 2);
                list_both(&begun.source());
                wait_until("a third", || relay.connections.load(Ordering::Relaxed) >= 3);
                relay.is_over.store(true, Ordering::Relaxed);
            });
        }
    }
}

#[test]
fn without_a_connection_a_listing_goes_on_through_the_session() {
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    // The relay cuts the only connection, and nothing else listens on its port any more.
    let relay = Relay::start(Treatment::CutForGood, 2 << 20);
    let options = DataOptions { connections: 1, ..relay.options() };
    with_session(LATE, options, long(), root.path(), |begun| {
        list_both(&begun.source());
        assert!(begun.traffic().received > ALL / 2, "{:?}", begun.traffic());
        assert!(begun.data().traffic.received > 1 << 20, "{:?}", begun.data());
    });
}

#[test]
fn a_listing_that_began_in_the_session_goes_on_over_a_data_connection() {
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    let options = options("127.0.0.1", DataStart::Behind { bytes: 0 });
    with_session(LATE, options, long(), root.path(), |begun| {
        let source = begun.source();
        let directory = open(&source, 0);
        // The first pages come through the session, if no connection stands yet.
        let mut entries = source.list(directory, up_to(1 << 16)).unwrap().entries;
        wait_until("one stands", || begun.data().connections > 0);
        let before = begun.data().traffic.received;
        entries.extend(list_all(&source, directory, 1 << 16).unwrap());
        check(entries);
        assert!(begun.data().traffic.received - before > ALL / 3, "{:?}", begun.data());
        list_both(&source);
    });
}
