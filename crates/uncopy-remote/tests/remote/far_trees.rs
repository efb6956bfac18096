//! Trees of a machine that is far: directories that are opened and listed before they are asked for.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::Duration;

use uncopy_copy::peer::{Peer, PeerAttribute, PeerContents, PeerHandle};
use uncopy_os::xattr;
use uncopy_remote::RemoteSource;

use super::support::{Line, Pulled, errno, list_all, name};

const LATE: Line = Line::Delayed(Duration::from_millis(3));

/// 12 directories of 12 directories of 3 files.
fn plant(root: &Path) {
    for above in 0..12 {
        for below in 0..12 {
            let directory = root.join(format!("{above}/{below}"));
            fs::create_dir_all(&directory).unwrap();
            for file in 0..3 {
                let contents = format!("{above} {below} {file}");
                fs::write(directory.join(file.to_string()), contents).unwrap();
            }
        }
    }
}

fn names(source: &RemoteSource, directory: PeerHandle, contents_up_to: u32) -> Vec<OsString> {
    let entries = list_all(source, directory, contents_up_to).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

/// Enters everything below a directory as the engine does; `asks`: which directories. Returns the contents of the files.
fn enter(
    source: &RemoteSource,
    directory: PeerHandle,
    contents_up_to: u32,
    asks: fn(usize) -> bool,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let entries = list_all(source, directory, contents_up_to).unwrap();
    for (number, entry) in entries.into_iter().enumerate() {
        if entry.stat.file_type().is_file() {
            let has_contents = entry.contents.is_some();
            assert_eq!(has_contents, contents_up_to > 0, "{entry:?}");
            found.extend(entry.contents.map(|bytes| String::from_utf8(bytes.into()).unwrap()));
        } else if asks(number) {
            let opened = source.open(directory, &entry.name, false).unwrap();
            assert_eq!(opened.stat.inode, entry.stat.inode);
            found.extend(enter(source, opened.handle, contents_up_to, asks));
            source.close(opened.handle);
        }
    }
    found
}

/// Each order of questions gets the tree as it is, several at a time too, and nothing stays open.
#[test]
fn trees_that_are_far_are_what_they_are_near() {
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    for line in [LATE, Line::Socket] {
        for contents_up_to in [0, 100] {
            let asks: [fn(usize) -> bool; 3] = [|_| true, |number| number % 3 == 0, |_| false];
            for asks in asks {
                let session = Pulled::new(line, &[root.path(), root.path()]);
                let source = session.source();
                let [one, other] = [0, 1].map(|number| {
                    let source = session.source();
                    thread::spawn(move || {
                        let top = source.open_root(number, false).unwrap();
                        let found = enter(&source, top.handle, contents_up_to, asks);
                        source.close(top.handle);
                        found
                    })
                });
                let [one, other] = [one, other].map(|thread| thread.join().unwrap());
                assert_eq!(one, other);
                if contents_up_to > 0 && asks(1) {
                    assert_eq!(one.len(), 12 * 12 * 3);
                }
                drop(source);
                session.end();
            }
        }
    }
}

/// A directory that was opened ahead is the one that was there then, another one that got the name since is found when it is
/// asked for again, and a name that is gone is an error of whoever asks.
#[test]
fn what_changes_meanwhile_is_seen_or_refused() {
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    let session = Pulled::new(LATE, &[root.path()]);
    let source = session.source();
    let top = source.open_root(0, false).unwrap();
    let listed = names(&source, top.handle, 100);
    let first = source.open(top.handle, &listed[0], false).unwrap();
    // By now the next ones are open.
    assert_eq!(names(&source, first.handle, 100).len(), 12);
    fs::rename(root.path().join(&listed[1]), root.path().join("away")).unwrap();
    fs::create_dir(root.path().join(&listed[1])).unwrap();
    let second = source.open(top.handle, &listed[1], false).unwrap();
    let inside = names(&source, second.handle, 100);
    assert!(inside.len() == 12 || inside.is_empty(), "{inside:?}");
    // Asked again, it is the new one.
    let again = source.open(top.handle, &listed[1], false).unwrap();
    assert!(names(&source, again.handle, 100).is_empty());
    assert_eq!(errno(source.open(top.handle, name("none"), false)), 2);
    for handle in [first.handle, second.handle, again.handle, top.handle] {
        source.close(handle);
    }
    drop(source);
    session.end();
}

/// Each directory has its own, whether they were asked for ahead or not, and after a handle was given again.
#[test]
fn directories_that_are_far_have_the_attributes_that_they_have_near() {
    const WITH: PeerContents = PeerContents { up_to: 100, with_attributes: true };
    let root = tempfile::tempdir().unwrap();
    plant(root.path());
    let value =
        |name: &str| vec![PeerAttribute { name: "user.k".into(), value: Some(name.into()) }];
    for above in 0..12 {
        let directory = File::open(root.path().join(above.to_string())).unwrap();
        xattr::set(directory, c"user.k", above.to_string().as_bytes()).unwrap();
    }
    for line in [LATE, Line::Socket] {
        let session = Pulled::new(line, &[root.path()]);
        let source = session.source();
        for _ in 0..2 {
            let top = source.open_root(0, false).unwrap().handle;
            let mut entries = Vec::new();
            loop {
                let page = source.list(top, WITH).unwrap();
                entries.extend(page.entries);
                if page.is_last {
                    break;
                }
            }
            assert_eq!(entries.len(), 12);
            for entry in entries {
                let opened = source.open(top, &entry.name, false).unwrap().handle;
                let listed = source.list(opened, WITH).unwrap();
                assert_eq!((listed.is_last, listed.entries.len()), (true, 12));
                assert_eq!(source.attributes(opened), Ok(value(entry.name.to_str().unwrap())));
                source.close(opened);
            }
            source.close(top);
        }
        drop(source);
        session.end();
    }
}
