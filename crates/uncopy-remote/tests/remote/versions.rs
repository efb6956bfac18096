//! Sessions between ends of different versions: both speak the older one, and do what it can.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use uncopy_copy::peer::{Peer, PeerAttribute, PeerContents, PeerError};
use uncopy_core::Errno;
use uncopy_os::xattr;
use uncopy_remote::{DataOptions, DataStart, DataWay, RemoteError, WhyNoData};
use uncopy_wire::{
    FOREIGN_LINK_VERSION, LIST_FROM_VERSION, LISTED_ATTRIBUTES_VERSION, MIN_VERSION, OPEN_VERSION,
    VERSION,
};

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

/// With and without data connections, which have listings of their own.
#[test]
fn extended_attributes_come_with_a_listing_from_the_version_on_that_can() {
    const WITH: PeerContents = PeerContents { up_to: 1000, with_attributes: true };
    let root = tempfile::tempdir().unwrap();
    for name in ["a", "b", "a/directory"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    let value = |bytes: usize| vec![b'v'; bytes];
    for (name, length, attribute) in [
        ("none", 10, None),
        ("short", 10, Some(value(20))),
        ("empty", 0, Some(value(0))),
        // Its contents do not come either.
        ("large", 2000, Some(value(20))),
    ] {
        let path = root.path().join("a").join(name);
        fs::write(&path, vec![1; length]).unwrap();
        if let Some(value) = attribute {
            xattr::set(File::open(&path).unwrap(), c"user.k", &value).unwrap();
        }
    }
    for version in MIN_VERSION..=VERSION {
        for connections in [0, 2] {
            let line = Line::Speaking(version);
            let options = DataOptions { connections: 2, ..at_once("127.0.0.1") };
            let options = match connections {
                0 => DataOptions { start: DataStart::Behind { bytes: 1 << 40 }, ..options },
                _ => options,
            };
            with_session(line, options, long(), root.path(), |begun| {
                wait_until("all stand", || begun.data().connections == connections);
                let source = begun.source();
                let directory = source.open_root(0, false).unwrap().handle;
                let page = source.list(directory, WITH).unwrap();
                assert!(page.is_last && page.failed.is_empty());
                let mut found: Vec<(String, Option<Vec<PeerAttribute>>)> = (page.entries)
                    .into_iter()
                    .map(|entry| (entry.name.into_string().unwrap(), entry.attributes))
                    .collect();
                found.sort_by(|one, other| one.0.cmp(&other.0));
                let one =
                    |bytes| PeerAttribute { name: "user.k".into(), value: Some(value(bytes)) };
                let can = version >= LISTED_ATTRIBUTES_VERSION;
                let expected = [
                    ("directory", None),
                    ("empty", can.then(|| vec![one(0)])),
                    ("large", None),
                    ("none", can.then(Vec::new)),
                    ("short", can.then(|| vec![one(20)])),
                ];
                assert_eq!(found, expected.map(|(name, all)| (name.to_owned(), all)), "{version}");
                // Whoever wants them all the same asks for them.
                let file = source.open(directory, OsStr::new("large"), false).unwrap().handle;
                assert_eq!(source.attributes(file), Ok(vec![one(20)]));
                source.close(file);
                source.close(directory);
            });
        }
    }
}

/// Nobody but root makes such a link.
#[test]
fn links_of_other_users_are_named_from_the_version_on_that_can() {
    let root = tempfile::tempdir().unwrap();
    let shared = root.path().join("a/shared");
    fs::create_dir_all(&shared).unwrap();
    fs::write(root.path().join("a/file"), "1").unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    for link in [root.path().join("b"), shared.join("l")] {
        symlink("../file", &link).unwrap();
        if lchown(&link, Some(1234), None).is_err() {
            return;
        }
    }
    fs::set_permissions(root.path(), Permissions::from_mode(0o1777)).unwrap();
    for version in MIN_VERSION..=VERSION {
        with_session(Line::Speaking(version), first(DataWay::Tls), long(), root.path(), |begun| {
            let source = begun.source();
            let found = |link: &Path| match version >= FOREIGN_LINK_VERSION {
                true => PeerError::ForeignLink { link: link.to_owned(), owner: 1234 },
                false => PeerError::System(Errno::EACCES),
            };
            let opened = source.open_root(1, true).map(drop);
            assert_eq!(opened, Err(found(&root.path().join("b"))), "{version}");
            assert!(source.open_root(1, false).is_ok());
            let directory = source.open_root(0, false).unwrap().handle;
            let shared = source.open(directory, OsStr::new("shared"), false).unwrap().handle;
            let opened = source.open(shared, OsStr::new("l"), true).map(drop);
            assert_eq!(opened, Err(found(Path::new("shared/l"))), "{version}");
            source.close(shared);
            source.close(directory);
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
