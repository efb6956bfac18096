//! Entries that are asked for by their names, over data connections and without them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use uncopy_copy::peer::{Peer, PeerContents, PeerError, PeerNamed, PeerNames};
use uncopy_core::Errno;
use uncopy_remote::{DataWay, RemoteSource};
use uncopy_wire::{LOOK_ALL_VERSION, MIN_VERSION, VERSION};

use crate::data_session::{Relay, Treatment, at_once, pattern, wait_until};
use crate::listings::with_session;
use crate::support::{Line, long};

const FILES: u64 = 600;
const LENGTH: usize = 5000;
/// Length of all files.
const ALL: u64 = FILES * LENGTH as u64;

fn plant(root: &Path) {
    fs::create_dir(root.join("b")).unwrap();
    let below = root.join("a/below/it");
    fs::create_dir_all(&below).unwrap();
    for number in 0..FILES {
        fs::write(below.join(number.to_string()), pattern(number, LENGTH)).unwrap();
    }
    symlink("it", root.join("a/below/link")).unwrap();
}

fn names(way: &[&str], names: impl IntoIterator<Item = String>) -> PeerNames {
    let way = way.iter().map(OsString::from).collect();
    PeerNames { way, names: names.into_iter().map(OsString::from).collect() }
}

/// Looks at all files and others; `None`: the other end cannot.
fn look_at_all(source: &Arc<RemoteSource>) -> Option<()> {
    let directory = source.open_root(0, false).unwrap().handle;
    let files: Vec<String> = (0..FILES).map(|number| number.to_string()).collect();
    let groups: Vec<PeerNames> = vec![
        names(&[], ["below".to_owned(), "nowhere".to_owned()]),
        names(&["below", "it"], files.clone()),
        // Nothing leads there.
        names(&["below", "link"], files.iter().take(2).cloned()),
        names(&["nowhere"], files.iter().take(2).cloned()),
        names(&["below"], ["link".to_owned()]),
        names(&["below"], ["n".repeat(2000)]),
        names(&["below"], ["it".to_owned()]),
    ];
    let contents = PeerContents { up_to: 1 << 16, with_attributes: true };
    let looks = Arc::clone(source).look_ahead(directory, groups.into(), contents);
    let Some(mut looks) = looks else {
        source.close(directory);
        return None;
    };
    let mut found = Vec::new();
    let mut failures = Vec::new();
    while found.len() + failures.len() < 2 + FILES as usize + 5 {
        match looks.next() {
            Ok(entries) => {
                assert!(!entries.is_empty());
                found.extend(entries);
            }
            Err(PeerError::System(errno)) => failures.push(errno),
            Err(lost) => panic!("{lost:?}"),
        }
    }
    drop(looks);
    source.close(directory);
    assert_eq!(failures, [Errno::ENOTDIR, Errno::ENOENT, Errno::ENAMETOOLONG]);
    let shown: Vec<String> = found
        .iter()
        .map(|named| match named {
            PeerNamed::Seen(entry) => {
                let (contents, target) = (entry.contents.is_some(), entry.target.is_some());
                let attributes = entry.attributes.is_some();
                format!("{:?} {contents} {target} {attributes}", entry.name)
            }
            PeerNamed::Failed(entry) => format!("{:?} {}", entry.name, entry.errno),
        })
        .collect();
    assert_eq!(shown[0], "\"below\" false false true");
    assert_eq!(shown[1], "\"nowhere\" ENOENT");
    assert_eq!(
        shown[2 + FILES as usize..],
        ["\"link\" false true false".to_owned(), "\"it\" false false true".to_owned()]
    );
    for number in 0..FILES {
        let PeerNamed::Seen(entry) = &found[2 + number as usize] else { panic!() };
        assert_eq!(entry.name, *number.to_string());
        assert!(entry.contents.as_deref() == Some(&pattern(number, LENGTH)[..]), "{number}");
    }
    Some(())
}

#[test]
fn entries_come_by_their_names_from_the_version_on_that_can() {
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    for version in MIN_VERSION..=VERSION {
        let line = Line::Speaking(version);
        let options = at_once("127.0.0.1");
        let connections = options.connections;
        assert_eq!(options.way, DataWay::Tls);
        with_session(line, options, long(), root.path(), |begun| {
            wait_until("all stand", || begun.data().connections == u32::from(connections));
            let looked = look_at_all(&begun.source());
            assert_eq!(looked.is_some(), version >= LOOK_ALL_VERSION, "{version}");
            if looked.is_some() {
                let (shell, data) = (begun.traffic().received, begun.data().traffic.received);
                assert!(data > ALL && shell < 100_000, "{shell} {data}");
            }
        });
    }
}

#[test]
fn what_a_connection_owed_comes_over_another_one_or_the_session() {
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    let line = Line::Delayed(Duration::from_millis(3));
    for bytes in [50_000, 1 << 20] {
        let relay = Relay::start(Treatment::Cut, bytes);
        with_session(line, relay.options(), long(), root.path(), |begun| {
            wait_until("both stand", || begun.data().connections == 2);
            look_at_all(&begun.source()).unwrap();
            relay.is_over.store(true, Ordering::Relaxed);
        });
    }
    let relay = Relay::start(Treatment::CutForGood, 1 << 20);
    let options = uncopy_remote::DataOptions { connections: 1, ..relay.options() };
    with_session(line, options, long(), root.path(), |begun| {
        look_at_all(&begun.source()).unwrap();
    });
}
