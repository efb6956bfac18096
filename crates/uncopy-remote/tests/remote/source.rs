//! Sources on another machine: everything arrives as it is there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use uncopy_copy::peer::{Peer, PeerContents, PeerError, PeerHandle};
use uncopy_os::directory::stat_path;
use uncopy_remote::RemoteSource;

use crate::support::{Line, Pulled, errno, list_all, name, read_range, up_to};

const LINES: [Line; 4] = [Line::Socket, Line::Pipes, Line::Chopped(7), Line::Chopped(4096)];
const KIND: u32 = 0o170000;
const LINK: u32 = 0o120000;
const DIRECTORY: u32 = 0o040000;
const FILE: u32 = 0o100000;

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + (at >> 8) * 7 + seed) as u8).collect()
}

/// Makes a tree with every kind of entry and odd names.
fn make_tree(root: &Path, large: usize) {
    fs::create_dir_all(root.join("a/b/empty")).unwrap();
    let odd = OsString::from_vec(b"\xff\n -rf $(x)'\"".to_vec());
    fs::write(root.join(&odd), pattern(100, 1)).unwrap();
    fs::write(root.join("n".repeat(255)), "").unwrap();
    for (number, size) in [0, 1, 4096, 65536, 65537, large].into_iter().enumerate() {
        fs::write(root.join(format!("a/b/{size}")), pattern(size, number)).unwrap();
    }
    fs::set_permissions(root.join("a/b/1"), fs::Permissions::from_mode(0o4751)).unwrap();
    symlink("../b/1", root.join("a/b/link")).unwrap();
    symlink("/nowhere/\u{e9}", root.join("a/dangling")).unwrap();
    fs::hard_link(root.join("a/b/1"), root.join("a/hard")).unwrap();
    let status = std::process::Command::new("mkfifo").arg(root.join("a/fifo")).status().unwrap();
    assert!(status.success());
}

/// Description of an entry.
type Found = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn local(root: &Path, at: &Path, found: &mut Found) {
    for entry in fs::read_dir(root.join(at)).unwrap() {
        let entry = entry.unwrap();
        let (path, metadata) = (at.join(entry.file_name()), entry.metadata().unwrap());
        let whole = root.join(&path);
        let bytes = match metadata.mode() & KIND {
            LINK => fs::read_link(&whole).unwrap().into_os_string().into_vec(),
            FILE => fs::read(&whole).unwrap(),
            _ => Vec::new(),
        };
        found.insert(path.clone(), (metadata.mode(), bytes));
        if metadata.is_dir() {
            local(root, &path, found);
        }
    }
}

/// Walks with several workers, as the engine does.
fn remote(source: &RemoteSource, workers: usize, local_root: &Path) -> Found {
    let root = source.open_root(0, false).unwrap();
    let queue = Mutex::new(vec![(root.handle, PathBuf::new())]);
    let (found, busy) = (Mutex::new(Found::new()), Mutex::new(0));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = {
                        let mut queue = queue.lock().unwrap();
                        let next = queue.pop();
                        *busy.lock().unwrap() += usize::from(next.is_some());
                        next
                    };
                    let Some((directory, at)) = next else {
                        if *busy.lock().unwrap() == 0 && queue.lock().unwrap().is_empty() {
                            return;
                        }
                        thread::yield_now();
                        continue;
                    };
                    walk(source, directory, &at, local_root, &queue, &found);
                    *busy.lock().unwrap() -= 1;
                }
            });
        }
    });
    found.into_inner().unwrap()
}

fn walk(
    source: &RemoteSource,
    directory: PeerHandle,
    at: &Path,
    local_root: &Path,
    queue: &Mutex<Vec<(PeerHandle, PathBuf)>>,
    found: &Mutex<Found>,
) {
    for entry in list_all(source, directory, 65536).unwrap() {
        let path = at.join(&entry.name);
        let expected = stat_path(&local_root.join(&path)).unwrap();
        assert_eq!(entry.stat.mode, expected.mode, "{path:?}");
        assert_eq!(entry.stat.modified, expected.modified);
        assert_eq!((entry.stat.uid, entry.stat.links), (expected.uid, expected.links));
        assert_eq!((entry.stat.device, entry.stat.inode), (expected.device, expected.inode));
        let bytes = match entry.stat.mode & KIND {
            LINK => {
                // It is opened itself, and nothing is read through it.
                let opened = source.open(directory, &entry.name, false).unwrap();
                assert_eq!((opened.stat.inode, opened.stat.mode), (expected.inode, expected.mode));
                assert_eq!(errno(read_range(source, opened.handle, 0..1)), 9);
                source.close(opened.handle);
                let looked = source.look(directory, &entry.name).unwrap();
                assert_eq!(looked.target, entry.target);
                entry.target.unwrap().into_vec()
            }
            FILE => {
                let opened = source.open(directory, &entry.name, false).unwrap();
                assert_eq!(source.examine(opened.handle).unwrap().inode, expected.inode);
                let size = opened.stat.size;
                let bytes = read_range(source, opened.handle, 0..size + 10).unwrap();
                assert_eq!(entry.contents.is_some(), size <= 65536, "{path:?}");
                if let Some(contents) = entry.contents {
                    assert!(*contents == bytes[..]);
                }
                source.close(opened.handle);
                bytes
            }
            DIRECTORY => {
                let opened = source.open(directory, &entry.name, false).unwrap();
                queue.lock().unwrap().push((opened.handle, path.clone()));
                Vec::new()
            }
            _ => Vec::new(),
        };
        assert!(found.lock().unwrap().insert(path, (entry.stat.mode, bytes)).is_none());
    }
    source.close(directory);
}

#[test]
fn a_tree_arrives_whole_over_any_line_and_with_any_number_of_workers() {
    let root = tempfile::tempdir().unwrap();
    make_tree(root.path(), 5 << 20);
    let small = tempfile::tempdir().unwrap();
    make_tree(small.path(), 70_000);
    for line in LINES {
        // Seven bytes at a time take their time.
        let root = if matches!(line, Line::Chopped(7)) { small.path() } else { root.path() };
        let mut expected = Found::new();
        local(root, Path::new(""), &mut expected);
        for workers in [1, 4] {
            let pulled = Pulled::new(line, &[root]);
            let found = remote(&pulled.source(), workers, root);
            assert!(found == expected, "{line:?} {workers}");
            assert_eq!(pulled.pull.notes(), []);
            let traffic = pulled.pull.traffic();
            assert!(traffic.received > 70_000 && traffic.sent > 100, "{traffic:?}");
            pulled.end();
        }
    }
}

#[test]
fn thousands_of_entries_come_once_each_in_pages() {
    const FILES: usize = 5000;
    let root = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        fs::write(root.path().join(format!("{number}")), pattern(number % 300, number)).unwrap();
    }
    for contents_up_to in [0, 100, u32::MAX] {
        let pulled = Pulled::new(Line::Pipes, &[root.path()]);
        let source = pulled.source();
        let directory = source.open_root(0, false).unwrap().handle;
        let mut names = BTreeMap::new();
        let mut pages = 0;
        loop {
            let page = source.list(directory, up_to(contents_up_to)).unwrap();
            pages += 1;
            for entry in page.entries {
                let number: usize = entry.name.to_str().unwrap().parse().unwrap();
                let contents = entry.contents.map(Vec::from);
                let is_wanted = number % 300 <= contents_up_to as usize;
                assert_eq!(contents, is_wanted.then(|| pattern(number % 300, number)));
                assert!(names.insert(number, ()).is_none(), "{number} comes twice");
            }
            if page.is_last {
                break;
            }
        }
        assert!(names.len() == FILES && pages > 1, "{pages}");
        let after = source.list(directory, PeerContents::default()).unwrap();
        assert!(after.is_last && after.entries.is_empty());
        // Another handle has a listing of its own.
        let again = source.open_root(0, false).unwrap().handle;
        assert_eq!(list_all(&source, again, 0).unwrap().len(), FILES);
        pulled.end();
    }
}

#[test]
fn holes_are_found_and_not_sent() {
    const TIB: u64 = 1 << 40;
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(TIB).unwrap();
    let places = [0, 1 << 30, TIB - 4096];
    for place in places {
        file.write_all_at(&pattern(4096, 3), place).unwrap();
    }
    let pulled = Pulled::new(Line::Socket, &[&path]);
    let source = pulled.source();
    let opened = source.open_root(0, false).unwrap();
    assert_eq!(opened.stat.size, TIB);
    let found = source.data_ranges(opened.handle, 0).unwrap();
    assert!(found.is_last);
    assert_eq!(found.ranges, places.map(|place| place..place + 4096));
    let rest = source.data_ranges(opened.handle, 4096).unwrap();
    assert_eq!(rest.ranges, places[1..].iter().map(|p| *p..p + 4096).collect::<Vec<_>>());
    assert_eq!(source.data_ranges(opened.handle, TIB).unwrap().ranges, []);
    for range in found.ranges {
        assert!(read_range(&source, opened.handle, range).unwrap() == pattern(4096, 3));
    }
    assert!(pulled.pull.traffic().received < 20_000);
    pulled.end();
    // More ranges than one answer holds.
    const RANGES: u64 = 5000;
    let path = root.path().join("many");
    let file = File::create(&path).unwrap();
    for number in 0..RANGES {
        file.write_all_at(b"x", number << 16).unwrap();
    }
    let pulled = Pulled::new(Line::Socket, &[&path]);
    let source = pulled.source();
    let handle = source.open_root(0, false).unwrap().handle;
    let (mut all, mut from, mut answers) = (Vec::new(), 0, 0);
    loop {
        let found = source.data_ranges(handle, from).unwrap();
        answers += 1;
        from = found.ranges.last().map_or(from, |range| range.end);
        all.extend(found.ranges);
        if found.is_last {
            break;
        }
    }
    assert_eq!((all.len() as u64, answers), (RANGES, 2));
    assert!(all.iter().zip(0..).all(|(range, number)| range.start == number << 16));
    pulled.end();
}

/// Between two ranges the connections had nothing to do for a whole way there and back.
#[test]
fn what_follows_a_range_is_asked_for_while_it_is_read() {
    let root = tempfile::tempdir().unwrap();
    let paths = [root.path().join("a"), root.path().join("b")];
    let contents = [pattern(9_000_001, 5), pattern(7_000_003, 6)];
    for (path, contents) in paths.iter().zip(&contents) {
        fs::write(path, contents).unwrap();
    }
    let pulled = Pulled::new(Line::Socket, &[&paths[0], &paths[1]]);
    let source = pulled.source();
    let files = [0, 1].map(|number| source.open_root(number, false).unwrap().handle);
    let read = |file: usize, range: std::ops::Range<usize>, ahead_to: usize| {
        let mut bytes = Vec::new();
        let range = range.start as u64..range.end as u64;
        let take = &mut |part: &[u8]| {
            bytes.extend_from_slice(part);
            true
        };
        let count = source.read(files[file], range, ahead_to as u64, take).unwrap();
        assert_eq!(count, bytes.len() as u64);
        bytes
    };
    // More than the range comes by itself.
    assert!(read(0, 0..1000, contents[0].len()) == contents[0][..1000]);
    let begun = std::time::Instant::now();
    while pulled.pull.traffic().received < 3 << 20 {
        assert!(begun.elapsed() < testbed::LONG, "{:?}", pulled.pull.traffic());
        thread::sleep(std::time::Duration::from_millis(2));
    }
    // Ranges of all lengths, of two files in turn; now and then one begins elsewhere, or ends the asking ahead.
    let mut at = [1000, 0];
    for turn in 0..200_usize {
        let (file, length) = (turn % 2, 1 + turn * 7919 % 700_001);
        let whole = &contents[file];
        let begin = if turn % 31 == 30 { whole.len() / 3 + turn } else { at[file] };
        let end = begin + length;
        let ahead_to = if turn % 11 == 10 { 0 } else { whole.len() + turn % 3 * 100_000 };
        let expected = &whole[begin.min(whole.len())..end.min(whole.len())];
        assert!(read(file, begin..end, ahead_to) == expected, "{turn}: {begin}..{end}");
        at[file] = if end >= whole.len() { 0 } else { end };
    }
    files.into_iter().for_each(|file| source.close(file));
}

#[test]
fn reads_may_be_given_up_and_are_bounded() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f");
    let contents = pattern(20 << 20, 5);
    fs::write(&path, &contents).unwrap();
    let pulled = Pulled::new(Line::Socket, &[&path]);
    let source = pulled.source();
    let file = source.open_root(0, false).unwrap().handle;
    let mut parts = 0;
    let count = source
        .read(file, 0..contents.len() as u64, 0, &mut |_| {
            parts += 1;
            parts < 3
        })
        .unwrap();
    assert!(parts == 3 && count < 1 << 20, "{parts} {count}");
    let (begin, end) = (12_345, 15 << 20);
    let part = read_range(&source, file, begin..end).unwrap();
    assert!(part == contents[begin as usize..end as usize]);
    let size = contents.len() as u64;
    assert_eq!(read_range(&source, file, size..size + 5).unwrap(), b"");
    assert_eq!(read_range(&source, file, size - 1..size + 5).unwrap().len(), 1);
    assert_eq!(read_range(&source, file, 5..5).unwrap(), b"");
    assert_eq!(errno(read_range(&source, file, 0..u64::MAX)), 22);
    // A slow receiver holds nothing up for others, and only as much is ahead as may be.
    let before = pulled.pull.traffic().received;
    source
        .read(file, 0..size, 0, &mut |_| {
            thread::sleep(std::time::Duration::from_millis(300));
            assert_eq!(source.examine(file).unwrap().size, size);
            false
        })
        .unwrap();
    let ahead = pulled.pull.traffic().received - before;
    assert!(ahead < 5 << 20, "{ahead}");
    // Thirty readers at once, each with its own bytes.
    thread::scope(|scope| {
        for reader in 0..30_u64 {
            let (source, contents) = (&source, &contents);
            scope.spawn(move || {
                let begin = reader * 300_000;
                let part = read_range(source, file, begin..begin + 2_000_000).unwrap();
                assert!(part == contents[begin as usize..][..2_000_000]);
            });
        }
    });
    pulled.end();
}

#[test]
fn attributes_arrive() {
    let root = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let path = root.path().join("f");
    fs::write(&path, "").unwrap();
    let file = File::open(&path).unwrap();
    let large = pattern(3000, 1);
    for (name, value) in [(c"user.a", &b"\0\xff"[..]), (c"user.b", b""), (c"user.c", &large)] {
        if uncopy_os::xattr::set(&file, name, value).is_err() {
            panic!("the build directory has no extended attributes");
        }
    }
    let link = root.path().join("link");
    symlink("nowhere", &link).unwrap();
    let pulled = Pulled::new(Line::Socket, &[&path, root.path(), &link]);
    let source = pulled.source();
    let handle = source.open_root(0, false).unwrap().handle;
    let mut found = source.attributes(handle).unwrap();
    found.retain(|attribute| attribute.name.as_bytes().starts_with(b"user."));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let expected = [("user.a", b"\0\xff".to_vec()), ("user.b", vec![]), ("user.c", large.clone())];
    let expected = expected.map(|(name, value)| (OsString::from(name), Some(value)));
    let found: Vec<_> = found.into_iter().map(|found| (found.name, found.value)).collect();
    assert_eq!(found, expected);
    assert_eq!(source.attribute(handle, name("user.c")), Ok(Some(large)));
    assert_eq!(source.attribute(handle, name("user.none")), Ok(None));
    for bad in ["", "user.\0", &"a".repeat(256)] {
        assert_eq!(errno(source.attribute(handle, name(bad))), 22);
    }
    let directory = source.open_root(1, false).unwrap().handle;
    source.attributes(directory).unwrap();
    // Those of a link itself, which is only looked at.
    for link in [source.open_root(2, false), source.open(directory, name("link"), false)] {
        let link = link.unwrap();
        assert_eq!(link.stat.file_type(), rustix::fs::FileType::Symlink);
        source.attributes(link.handle).unwrap();
        assert_eq!(source.attribute(link.handle, name("user.a")), Ok(None));
        assert_eq!(errno(read_range(&source, link.handle, 0..1)), 9);
    }
    pulled.end();
}

#[test]
fn errors_of_the_system_are_those_of_the_entry() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), "1").unwrap();
    fs::create_dir(root.path().join("d")).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    let nowhere = root.path().join("nowhere");
    let pulled = Pulled::new(
        Line::Socket,
        &[root.path(), &nowhere, Path::new("/proc/self/mem"), Path::new("/dev/null")],
    );
    let source = pulled.source();
    let directory = source.open_root(0, false).unwrap().handle;
    assert_eq!(errno(source.open_root(1, false)), 2);
    assert_eq!(errno(source.open(directory, name("nowhere"), false)), 2);
    assert_eq!(errno(source.look(directory, name("nowhere"))), 2);
    assert_eq!(errno(source.open(directory, name("loop"), true)), 40);
    let file = source.open(directory, name("f"), false).unwrap().handle;
    for bad in ["", ".", "..", "a/b", "a\0"] {
        assert_eq!(errno(source.open(directory, name(bad), true)), 22);
        assert_eq!(errno(source.look(directory, name(bad))), 22);
    }
    assert_eq!(errno(source.examine(PeerHandle(77))), 9);
    // A handle of another kind is an error of the question, and the connection stays.
    assert_eq!(errno(source.list(file, up_to(0))), 9);
    assert_eq!(errno(read_range(&source, directory, 0..1)), 9);
    source.close(file);
    assert_eq!(errno(source.examine(file)), 9);
    // A file that cannot be read, and one that is only looked at.
    let memory = source.open_root(2, false);
    match memory {
        Ok(memory) => assert_eq!(errno(read_range(&source, memory.handle, 0..100)), 5),
        Err(error) => assert_eq!(error, PeerError::System(uncopy_core::Errno::EACCES)),
    }
    let device = source.open_root(3, false).unwrap();
    assert_eq!(device.stat.special, (1, 3));
    source.examine(device.handle).unwrap();
    let gone = source.open(directory, name("d"), false).unwrap().handle;
    fs::remove_dir(root.path().join("d")).unwrap();
    for _ in 0..2 {
        assert_eq!(errno(source.list(gone, up_to(0))), 2);
    }
    pulled.end();
}

#[test]
fn a_source_that_changes_shows() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f");
    fs::write(&path, pattern(100_000, 0)).unwrap();
    let pulled = Pulled::new(Line::Socket, &[root.path()]);
    let source = pulled.source();
    let directory = source.open_root(0, false).unwrap().handle;
    let opened = source.open(directory, name("f"), false).unwrap();
    // Shorter than it was: fewer bytes come.
    File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
    assert_eq!(read_range(&source, opened.handle, 0..opened.stat.size).unwrap().len(), 10);
    let now = source.examine(opened.handle).unwrap();
    assert!(now.size == 10 && now.changed != opened.stat.changed);
    // Gone: what is open stays.
    fs::remove_file(&path).unwrap();
    assert_eq!(source.examine(opened.handle).unwrap().links, 0);
    assert_eq!(errno(source.open(directory, name("f"), false)), 2);
    pulled.end();
}

#[test]
fn contents_that_do_not_agree_with_the_status_are_left_out() {
    let pulled = Pulled::new(Line::Socket, &[Path::new("/proc/sys/kernel")]);
    let source = pulled.source();
    let directory = source.open_root(0, false).unwrap().handle;
    let entries = list_all(&source, directory, 4096).unwrap();
    let version = entries.iter().find(|entry| entry.name == "osrelease").unwrap();
    assert_eq!((version.stat.size, &version.contents), (0, &None));
    let file = source.open(directory, name("osrelease"), false).unwrap().handle;
    assert!(!read_range(&source, file, 0..100).unwrap().is_empty());
    pulled.end();
}

#[test]
fn contents_of_small_files_with_holes_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str| File::create(root.path().join(name)).unwrap();
    file("hole").set_len(60_000).unwrap();
    let half = file("half");
    half.set_len(60_000).unwrap();
    half.write_all_at(&pattern(5000, 1), 0).unwrap();
    fs::write(root.path().join("zeros"), [0; 60_000]).unwrap();
    fs::write(root.path().join("empty"), "").unwrap();
    let pulled = Pulled::new(Line::Socket, &[root.path()]);
    let source = pulled.source();
    let directory = source.open_root(0, false).unwrap().handle;
    let entries = list_all(&source, directory, 1 << 16).unwrap();
    let contents = |name: &str| {
        let entry = entries.iter().find(|entry| entry.name == name).unwrap();
        entry.contents.as_ref().map(|bytes| bytes.len())
    };
    let found = ["hole", "half", "zeros", "empty"].map(contents);
    assert_eq!(found, [None, None, Some(60_000), Some(0)]);
    pulled.end();
}

#[test]
fn links_are_followed_where_it_is_wanted_and_within_the_root() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/f"), "inside").unwrap();
    fs::write(outer.path().join("secret"), "outside").unwrap();
    symlink("../f", root.join("a/b/up")).unwrap();
    symlink("..", root.join("a/b/dots")).unwrap();
    for (number, target) in
        ["../../../secret", "../../..", "/etc/passwd", "/proc/self/root", "out4"].iter().enumerate()
    {
        symlink(target, root.join(format!("a/b/out{number}"))).unwrap();
    }
    let link = outer.path().join("link");
    symlink("root", &link).unwrap();
    let slash = outer.path().join("link/");
    let pulled = Pulled::new(Line::Socket, &[&link, &slash]);
    let source = pulled.source();
    assert_eq!(source.open_root(0, false).unwrap().stat.mode & KIND, LINK);
    assert_eq!(source.open_root(1, false).unwrap().stat.mode & KIND, DIRECTORY);
    assert_eq!(source.root_target(0).unwrap(), "root");
    assert_eq!(errno(source.root_target(1)), 22);
    let directory = source.open_root(0, true).unwrap();
    assert_eq!(directory.stat.mode & KIND, DIRECTORY);
    let a = source.open(directory.handle, name("a"), false).unwrap().handle;
    let b = source.open(a, name("b"), true).unwrap().handle;
    let file = source.open(b, name("up"), true).unwrap().handle;
    assert_eq!(read_range(&source, file, 0..100).unwrap(), b"inside");
    assert_eq!(source.open(b, name("up"), false).unwrap().stat.mode & KIND, LINK);
    // Through a link to a directory, and on from there.
    let again = source.open(b, name("dots"), true).unwrap();
    let looked = source.look(again.handle, name("f")).unwrap();
    assert_eq!(looked.stat.size, 6);
    let b_again = source.open(again.handle, name("b"), false).unwrap().handle;
    source.open(b_again, name("up"), true).unwrap();
    for (out, expected) in [("out0", 18), ("out1", 18), ("out2", 18), ("out3", 18), ("out4", 40)] {
        assert_eq!(errno(source.open(b, name(out), true)), expected, "{out}");
    }
    pulled.end();
}

#[test]
fn nothing_is_answered_once_the_session_has_ended() {
    let root = tempfile::tempdir().unwrap();
    let pulled = Pulled::new(Line::Socket, &[root.path()]);
    let source = pulled.source();
    source.open_root(0, false).unwrap();
    pulled.end();
    for _ in 0..2 {
        assert!(matches!(source.open_root(0, false), Err(PeerError::Lost { .. })));
    }
    source.close(PeerHandle(0));
}

#[test]
fn more_roots_than_descriptors_are_served() {
    let root = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> =
        (0..3000).map(|number| root.path().join(number.to_string())).collect();
    for path in &paths {
        fs::write(path, path.as_os_str().as_bytes()).unwrap();
    }
    let roots: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let pulled = Pulled::new(Line::Socket, &roots);
    let source = pulled.source();
    for (number, path) in paths.iter().enumerate() {
        let opened = source.open_root(number as u32, false).unwrap();
        let bytes = read_range(&source, opened.handle, 0..opened.stat.size).unwrap();
        assert_eq!(bytes, path.as_os_str().as_bytes());
        source.close(opened.handle);
    }
    pulled.end();
}
