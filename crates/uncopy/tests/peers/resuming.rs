//! A run that was cut off is resumed: finished files are not sent again, and a large file goes on where it ended.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use testbed::{Compared, assert_same_tree};
use uncopy::copy::Control;
use uncopy::copy::job::{JobObserver, JobOptions, JobProgress, copy_from_peer, is_built_from_peer};
use uncopy::copy::peer::PeerError;
use uncopy::copy::{CopyOptions, Digest, Preserve, Verify};

use crate::played::{Fault, Played};
use crate::scene::{LARGE_BYTES, Scene, bytes, receive};

fn lost() -> PeerError {
    PeerError::Lost { what: "it ended".into() }
}

fn options() -> JobOptions {
    let copy = CopyOptions::new()
        .preserve(Preserve::default().mode(true).timestamps(true))
        .verify(Some(Verify::from(Digest::Blake3)))
        .digest(Some(Digest::Sha256));
    JobOptions::new().resume(true).copy(copy)
}

#[test]
fn finished_files_are_not_sent_again() {
    let scene = Scene::new();
    let (tree, there) = (scene.path("tree"), scene.path("there"));
    fs::create_dir(&tree).unwrap();
    for number in 0..40 {
        fs::write(tree.join(format!("{number:02}")), bytes(80_000, number)).unwrap();
    }
    let fault = Fault { question: "read", number: 21, error: lost() };
    let peer = Arc::new(Played::new([&tree]).failing(fault));
    let one = options().jobs(std::num::NonZeroUsize::new(1));
    let error = receive(&peer, &there, &one).unwrap_err();
    assert_eq!(error.summary().files, 20);
    let peer = Arc::new(Played::new([&tree]));
    let summary = receive(&peer, &there, &one).unwrap();
    assert_eq!((summary.resumed, summary.files, summary.failed), (20, 20, 0));
    assert_eq!(peer.asked_about("read"), 20, "{:?}", peer.questions());
    assert_same_tree(&tree, &there, Compared { holes: false, ..Compared::wholly() });
    scene.assert_no_temporary_names(false);
}

/// A machine that is lost within the fourth chunk of a file.
fn lost_on_the_way(tree: &Path) -> Arc<Played> {
    Arc::new(Played::new([tree]).lost_after(28 << 20))
}

/// A tree with one large file.
fn large(scene: &Scene) -> (PathBuf, PathBuf) {
    let (tree, there) = (scene.path("tree"), scene.path("there"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("large"), bytes(LARGE_BYTES as usize, 1)).unwrap();
    (tree, there)
}

#[test]
fn a_large_file_goes_on_behind_its_last_whole_chunk() {
    for is_changed in [false, true] {
        let scene = Scene::new();
        let (tree, there) = large(&scene);
        receive(&lost_on_the_way(&tree), &there, &options()).unwrap_err();
        if is_changed {
            fs::write(tree.join("large"), bytes(LARGE_BYTES as usize, 2)).unwrap();
        }
        let peer = Arc::new(Played::new([&tree]));
        let summary = receive(&peer, &there, &options()).unwrap();
        let expected = if is_changed { 0 } else { 24 << 20 };
        assert_eq!((summary.failed, summary.resumed_bytes), (0, expected));
        assert_eq!(peer.sent(), LARGE_BYTES - expected);
        assert_same_tree(&tree, &there, Compared { holes: false, ..Compared::wholly() });
        scene.assert_no_temporary_names(false);
    }
}

/// Bytes that were noted and damaged since are sent again.
#[test]
fn a_damaged_part_is_not_trusted() {
    let scene = Scene::new();
    let (tree, there) = large(&scene);
    receive(&lost_on_the_way(&tree), &there, &options()).unwrap_err();
    let entries = |at: &Path| fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path());
    let aside = entries(&scene.path(""))
        .find(|path| path.extension().is_some_and(|end| end == "tree"))
        .unwrap();
    let part = entries(&aside).next().unwrap();
    File::options().write(true).open(part).unwrap().write_all_at(b"damage", 9 << 20).unwrap();
    let peer = Arc::new(Played::new([&tree]));
    let summary = receive(&peer, &there, &options()).unwrap();
    assert_eq!((summary.failed, summary.resumed_bytes), (0, 8 << 20));
    assert_eq!(peer.sent(), LARGE_BYTES - (8 << 20));
    assert_same_tree(&tree, &there, Compared { holes: false, ..Compared::wholly() });
}

/// Stops a job when this number of bytes are copied.
struct StopsAt(u64);

impl JobObserver for StopsAt {
    fn progress(&self, progress: JobProgress) -> Control {
        if progress.bytes >= self.0 { Control::Stop } else { Control::Continue }
    }
}

#[test]
fn a_job_that_is_stopped_ends_within_a_file_and_can_go_on() {
    for resume in [false, true] {
        let scene = Scene::new();
        let (tree, there) = large(&scene);
        let options = options().resume(resume);
        let peer = Arc::new(Played::new([&tree]));
        let pairs = [("there:tree", &there)];
        let error = copy_from_peer(peer.clone(), pairs, &options, &StopsAt(20 << 20)).unwrap_err();
        assert!(error.cause().is_cancelled(), "{error}");
        assert_eq!(peer.left_open(), 0);
        // The rest of a piece is dropped.
        assert!((20 << 20..=22 << 20).contains(&peer.sent()), "{}", peer.sent());
        assert!(!there.exists());
        scene.assert_no_temporary_names(resume);
        let peer = Arc::new(Played::new([&tree]));
        receive(&peer, &there, &options).unwrap();
        let expected = if resume { LARGE_BYTES - (16 << 20) } else { LARGE_BYTES };
        assert_eq!(peer.sent(), expected);
        scene.assert_no_temporary_names(false);
    }
}

/// A kill between the name of the tree and the end of the journal.
#[test]
fn a_tree_that_is_built_is_known() {
    let scene = Scene::new();
    let (tree, there) = large(&scene);
    fs::create_dir(scene.path("second")).unwrap();
    let known = |options: &JobOptions| {
        let peer = Arc::new(Played::new([&tree]));
        is_built_from_peer(peer, 0, Path::new("there:tree"), &there, options)
    };
    assert!(!known(&options()));
    // The journal of the first root is kept until the second is done.
    let roots = [tree.clone(), scene.path("second")];
    let fault = Fault { question: "open_root", number: 2, error: lost() };
    let peer = Arc::new(Played::new(&roots).failing(fault));
    let pairs = [("there:tree", there.clone()), ("there:second", scene.path("second copy"))];
    copy_from_peer(peer, pairs, &options(), &()).unwrap_err();
    assert!(there.exists());
    assert!(known(&options()));
    assert!(!known(&options().resume(false)));
    assert!(!known(&options().specials(true)), "another job");
}
