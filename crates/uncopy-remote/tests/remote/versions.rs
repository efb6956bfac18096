//! Sessions between ends of different versions: both speak the older one, and do what it can.

use uncopy_remote::{DataOptions, DataWay, RemoteError, WhyNoData};
use uncopy_wire::{LIST_FROM_VERSION, MIN_VERSION, OPEN_VERSION, VERSION};

use crate::data_session::{Files, at_once, offered, pulled_over, pushed_over, wait_until};
use crate::listings::{ALL, list_both, plant, with_session};
use crate::support::{Line, long};

/// Wish for data connections of a kind before anything else.
fn first(way: DataWay) -> DataOptions {
    DataOptions { way, connections: 2, ..at_once("127.0.0.1") }
}

#[test]
fn directories_are_listed_over_data_connections_from_the_version_on_that_can() {
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    for version in MIN_VERSION..=VERSION {
        let line = Line::Speaking(version);
        with_session(line, first(DataWay::Tls), long(), root.path(), |begun| {
            wait_until("both stand", || begun.data().connections == 2);
            list_both(&begun.source());
            let (shell, data) = (begun.traffic().received, begun.data().traffic.received);
            let is_over_data = data > 2 * ALL && shell < 100_000;
            let is_over_shell = shell > 2 * ALL && data < 100_000;
            let expected = version >= LIST_FROM_VERSION;
            assert_eq!(
                (is_over_data, is_over_shell),
                (expected, !expected),
                "{version}: {shell} {data}"
            );
        });
    }
}

#[test]
fn files_are_read_over_data_connections_in_every_version() {
    let files = Files::new();
    let all: u64 = files.contents.iter().map(|contents| contents.len() as u64).sum();
    for version in MIN_VERSION..=VERSION {
        let line = Line::Speaking(version);
        for way in [DataWay::Tls, DataWay::Open] {
            let pull = pulled_over(
                line,
                Some(first(way)),
                offered("127.0.0.1"),
                long(),
                &files,
                |begun| {
                    files.check(&begun.source());
                },
            );
            let mut notes = Vec::new();
            let push =
                pushed_over(line, Some(first(way)), &offered("127.0.0.1"), &files, &mut notes);
            if way == DataWay::Open && version < OPEN_VERSION {
                let too_old = RemoteError::NoData { why: WhyNoData::TooOld };
                assert_eq!((pull.unwrap_err(), push.0.unwrap_err()), (too_old.clone(), too_old));
                continue;
            }
            assert_eq!(push.0, Ok(7), "{version} {notes:?}");
            for report in [pull.unwrap(), push.1.unwrap()] {
                assert_eq!((report.way, report.why_none), (way, None));
                assert!(report.traffic.received >= all, "{version} {report:?}");
            }
        }
    }
}
