//! One table of options: what comes from another machine is what a local job makes of the same tree.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use testbed::{Compared, assert_same_tree, by_extent};
use uncopy::copy::job::{
    Compare, Delete, HardLinks, JobOptions, LinkDest, Links, Selection, Sources, Summary,
    copy_from_peer, copy_trees,
};
use uncopy::copy::{
    Backup, CopyOptions, Digest, Existing, ModeChanges, Preserve, Require, Sparse, Transform,
    Verify,
};
use uncopy::{Mechanism, Reason};

use crate::played::Played;
use crate::scene::{Scene, bytes, make_tree, receive};

/// Returns the counts of a summary.
fn counts(summary: &Summary) -> [u64; 11] {
    [
        summary.files,
        summary.directories,
        summary.symlinks,
        summary.hard_links,
        summary.specials,
        summary.skipped,
        summary.deleted,
        summary.failed,
        summary.compared,
        summary.bytes,
        summary.not_tried,
    ]
}

type Row = (&'static str, JobOptions);

fn copied(change: impl FnOnce(CopyOptions) -> CopyOptions) -> JobOptions {
    JobOptions::new().copy(change(CopyOptions::new()))
}

fn rows() -> Vec<Row> {
    let preserve = |job: JobOptions| {
        let copy = job.copy.clone().preserve(Preserve::all());
        job.specials(true).copy(copy)
    };
    let select = |patterns: &[(&str, bool)]| {
        let mut selection = Selection::default();
        for (pattern, includes) in patterns {
            match includes {
                true => selection.include(pattern).unwrap(),
                false => selection.exclude(pattern).unwrap(),
            };
        }
        selection
    };
    let plain = JobOptions::new;
    let verify = |algorithm| copied(|copy| copy.verify(Some(Verify::from(algorithm))));
    vec![
        ("nothing", plain()),
        ("all metadata", preserve(plain())),
        ("no hard links", preserve(plain().hard_links(HardLinks::Separate))),
        ("links skipped", plain().links(Links::Skip)),
        // Which names become one depends on their order.
        ("links followed", plain().links(Links::Follow).hard_links(HardLinks::Separate)),
        ("special files", plain().specials(true)),
        ("times", copied(|copy| copy.preserve(Preserve::default().timestamps(true)))),
        ("mode", copied(|copy| copy.preserve(Preserve::default().mode(true)))),
        ("attributes", copied(|copy| copy.preserve(Preserve::default().xattr(true)))),
        ("ACLs", copied(|copy| copy.preserve(Preserve::default().acl(true)))),
        ("sparse", copied(|copy| copy.sparse(Sparse::Always))),
        ("dense", copied(|copy| copy.sparse(Sparse::Never))),
        ("durable", copied(|copy| copy.durable(true))),
        ("verified", verify(Digest::Blake3)),
        ("verified by another digest", verify(Digest::Xxh3)),
        ("digest", copied(|copy| copy.digest(Some(Digest::Sha256)))),
        (
            "two digests",
            copied(|copy| {
                copy.digest(Some(Digest::Sha256)).verify(Some(Verify::from(Digest::Blake3)))
            }),
        ),
        ("everything", {
            let job = verify(Digest::Blake3);
            let copy = job.copy.clone().durable(true).digest(Some(Digest::Blake3));
            preserve(job.copy(copy))
        }),
        ("update", plain().update(true)),
        ("by size", plain().compare(Compare::Size)),
        ("by contents", plain().compare(Compare::Contents)),
        ("kept", copied(|copy| copy.existing(Existing::Keep))),
        ("removed first", copied(|copy| copy.existing(Existing::Remove))),
        ("backups", copied(|copy| copy.backup(Some(Backup::new())))),
        ("attributes alone", copied(|copy| copy.attributes_only(true))),
        ("changed modes", copied(|copy| copy.mode_changes("go-rwx".parse::<ModeChanges>().ok()))),
        ("mirror", plain().delete(Some(Delete::default()))),
        ("selection", plain().selection(select(&[("*.o", false), ("below", false)]))),
        ("one filesystem", plain().one_filesystem(true)),
        ("one worker", plain().jobs(NonZeroUsize::new(1))),
        ("six workers", preserve(plain().jobs(NonZeroUsize::new(6)))),
        ("journal", preserve(plain().resume(true))),
        ("rate", plain().bytes_per_second(std::num::NonZeroU64::new(1 << 30))),
        ("scanned ahead", plain().scan_ahead(true)),
    ]
}

/// Makes a destination that exists, with entries that differ, that are alike, and that the source does not have.
fn make_existing(destination: &Path, source: &Path) {
    fs::create_dir_all(destination.join("a directory/below")).unwrap();
    fs::write(destination.join("small"), "other text").unwrap();
    fs::write(destination.join("stranger"), "not in the source").unwrap();
    fs::create_dir(destination.join("strange directory")).unwrap();
    fs::write(destination.join("strange directory/file"), "x").unwrap();
    symlink("elsewhere", destination.join("link")).unwrap();
    fs::copy(source.join("a directory/below/other"), destination.join("a directory/below/other"))
        .unwrap();
    let time = fs::metadata(source.join("a directory/below/other")).unwrap().modified().unwrap();
    let other = File::open(destination.join("a directory/below/other")).unwrap();
    other.set_modified(time).unwrap();
    fs::write(destination.join("a directory/below/large"), bytes(3 << 20, 9)).unwrap();
    // Strangers are alike in both destinations.
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    for name in ["stranger", "strange directory/file", "strange directory"] {
        File::open(destination.join(name)).unwrap().set_modified(long_ago).unwrap();
    }
    let future = SystemTime::now() + Duration::from_secs(5000);
    File::open(destination.join("small")).unwrap().set_modified(future).unwrap();
}

fn compared(options: &JobOptions) -> Compared {
    Compared {
        modes: true,
        times: options.copy.preserve == Preserve::all(),
        attributes: true,
        holes: true,
    }
}

#[test]
fn a_tree_of_another_machine_becomes_what_a_local_one_does() {
    let both = by_extent([false, true, true]);
    for exists in [false, true] {
        for (number, (what, options)) in rows().into_iter().enumerate() {
            if !both && (number % 2 == 0) == exists {
                continue;
            }
            let scene = Scene::new();
            let tree = scene.tree();
            fs::write(tree.join("a directory/code.o"), "o").unwrap();
            let (here, there) = (scene.path("here"), scene.path("there"));
            if exists {
                make_existing(&here, &tree);
                make_existing(&there, &tree);
            }
            let expected = copy_trees([(&tree, &here)], &options);
            let peer = Arc::new(Played::new([&tree]));
            let found = receive(&peer, &there, &options);
            let at = format!("{what}, exists: {exists}");
            match (expected, found) {
                (Ok(expected), Ok(found)) => {
                    assert_eq!(counts(&found), counts(&expected), "{at}");
                    let by_others =
                        found.portions.iter().find(|p| p.mechanism != Mechanism::ReadWrite);
                    assert_eq!(by_others, None, "{at}");
                    assert!(found.refusals.is_empty(), "{at}: {:?}", found.refusals);
                }
                (Err(expected), Err(found)) => {
                    assert_eq!(
                        std::mem::discriminant(found.cause().reason()),
                        std::mem::discriminant(expected.cause().reason()),
                        "{at}"
                    );
                }
                (expected, found) => panic!("{at}: {expected:?}, found {found:?}"),
            }
            println!("{at}");
            assert_same_tree(&here, &there, compared(&options));
            assert_eq!(peer.left_open(), 0, "{at}");
            scene.assert_no_temporary_names(false);
        }
    }
}

#[test]
fn a_dry_run_reads_and_makes_nothing() {
    let scene = Scene::new();
    let (tree, there) = (scene.tree(), scene.path("there"));
    let options = JobOptions::new().dry_run(true);
    let peer = Arc::new(Played::new([&tree]));
    let summary = receive(&peer, &there, &options).unwrap();
    let expected = copy_trees([(&tree, &there)], &options).unwrap();
    assert_eq!(counts(&summary), counts(&expected));
    assert!(!there.exists());
    assert_eq!(peer.asked_about("read"), 0);
    assert_eq!(peer.left_open(), 0);
}

#[test]
fn roots_that_are_files_and_links_and_directories_are_copied() {
    for (sources, links) in [
        (Sources::Trees, Links::Preserve),
        (Sources::Trees, Links::Follow),
        (Sources::Entries, Links::Follow),
    ] {
        let scene = Scene::new();
        let tree = scene.tree();
        let mut names = vec!["small", "sparse", "a directory/below/large", "fifo", "nothing"];
        for (name, target) in [("a", "small"), ("b", "a directory"), ("c", "none"), ("d", "/")] {
            symlink(target, tree.join(name)).unwrap();
            if links == Links::Preserve {
                names.push(name);
            }
        }
        let roots: Vec<_> = names.iter().map(|name| tree.join(name)).collect();
        let options = JobOptions::new()
            .sources(sources)
            .links(links)
            .specials(true)
            .copy(CopyOptions::new().preserve(Preserve::all()));
        let (here, there) = (scene.path("here"), scene.path("there"));
        fs::create_dir(&here).unwrap();
        fs::create_dir(&there).unwrap();
        let to = |at: &Path, name: &str| at.join(Path::new(name).file_name().unwrap());
        let pairs = roots.iter().zip(&names).map(|(root, name)| (root, to(&here, name)));
        let expected = copy_trees(pairs, &options).unwrap();
        let peer = Arc::new(Played::new(&roots));
        let pairs = names.iter().map(|name| (format!("there:{name}"), to(&there, name)));
        let found = copy_from_peer(peer.clone(), pairs, &options, &()).unwrap();
        assert_eq!(counts(&found), counts(&expected));
        let compared = Compared { times: false, ..Compared::wholly() };
        assert_same_tree(&here, &there, compared);
        assert_eq!(peer.left_open(), 0);
    }
}

#[test]
fn unchanged_files_of_an_earlier_copy_are_linked() {
    let scene = Scene::new();
    let (tree, earlier, there) = (scene.tree(), scene.path("earlier"), scene.path("there"));
    let kept = JobOptions::new().copy(CopyOptions::new().preserve(Preserve::all()));
    copy_trees([(&tree, &earlier)], &kept).unwrap();
    fs::write(tree.join("small"), "changed text").unwrap();
    let linked = LinkDest::default().directories(vec![earlier]);
    let peer = Arc::new(Played::new([&tree]));
    let summary = receive(&peer, &there, &kept.link_dest(Some(linked))).unwrap();
    assert!(summary.hard_links >= 6, "{summary:?}");
    assert_eq!(summary.files, 1);
    let inode = |path: &Path| fs::metadata(path.join("a directory/below/large")).unwrap().ino();
    assert_eq!(inode(&there), inode(&scene.path("earlier")));
    assert_eq!(fs::read_to_string(there.join("small")).unwrap(), "changed text");
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_asked() {
    let scene = Scene::new();
    let (tree, there) = (scene.tree(), scene.path("there"));
    let level = uncopy::copy::Level::default();
    for (options, expected) in [
        (JobOptions::new().link(true), "link"),
        (JobOptions::new().remove_source(true), "remove_source"),
        (JobOptions::new().parents(uncopy::copy::job::Parents::Keep), "parents"),
        (JobOptions::new().sources(Sources::Files), "sources = Files"),
        (copied(|copy| copy.require(Require::Reflink)), "require"),
        (copied(|copy| copy.allow(uncopy::copy::Allow::Only(Mechanism::Reflink))), "allow"),
        (copied(|copy| copy.transform(Transform::Compress(level))), "transform"),
    ] {
        let peer = Arc::new(Played::new([&tree]));
        let error = receive(&peer, &there, &options).unwrap_err();
        let contradiction = uncopy::copy::Contradiction::SourceElsewhere { option: expected };
        let is_expected = *error.cause().reason() == Reason::Options(contradiction)
            || expected == "transform" && options.copy.check().is_err();
        assert!(is_expected, "{expected}: {error}");
        assert!(peer.questions().is_empty());
        assert!(!there.exists());
    }
}

#[test]
fn files_made_when_they_are_read_have_their_contents() {
    let scene = Scene::new();
    let there = scene.path("version");
    let peer = Arc::new(Played::new(["/proc/version"]));
    let pairs = [("there:/proc/version", &there)];
    copy_from_peer(peer, pairs, &JobOptions::new(), &()).unwrap();
    assert_eq!(fs::read(&there).unwrap(), fs::read("/proc/version").unwrap());
}

#[test]
fn a_second_run_with_update_sends_nothing() {
    let scene = Scene::new();
    let (tree, there) = (scene.tree(), scene.path("there"));
    let copy = CopyOptions::new().preserve(Preserve::default().timestamps(true));
    let options = JobOptions::new().update(true).copy(copy);
    receive(&Arc::new(Played::new([&tree])), &there, &options).unwrap();
    let peer = Arc::new(Played::new([&tree]));
    let summary = receive(&peer, &there, &options).unwrap();
    assert_eq!((summary.files, summary.bytes, summary.failed), (0, 0, 0));
    assert_eq!(peer.asked_about("read"), 0);
}

#[test]
fn what_the_source_lost_is_deleted_and_what_it_has_is_not_asked_about_again() {
    let scene = Scene::new();
    let (tree, there) = (scene.path("tree"), scene.path("there"));
    make_tree(&tree);
    // By one worker no name waits for another one of its file.
    let one = NonZeroUsize::new(1);
    let options = JobOptions::new().jobs(one).delete(Some(Delete::default()));
    receive(&Arc::new(Played::new([&tree])), &there, &options).unwrap();
    fs::remove_file(tree.join("small")).unwrap();
    let peer = Arc::new(Played::new([&tree]));
    let summary = receive(&peer, &there, &options).unwrap();
    assert_eq!(summary.deleted, 1);
    assert!(!there.join("small").exists());
    // Only the one that is missing.
    assert_eq!(peer.asked_about("look"), 1, "{:?}", peer.questions());
    let empty = scene.path("empty");
    fs::create_dir(&empty).unwrap();
    let peer = Arc::new(Played::new([&empty]));
    let summary = receive(&peer, &there, &options).unwrap();
    assert_eq!((summary.deleted, summary.failed), (0, 1), "{summary:?}");
}
