//! Few questions are asked: what came with a listing is not asked for again.

use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;

use testbed::{Compared, assert_same_tree};
use uncopy::copy::job::JobOptions;
use uncopy::copy::{CopyOptions, Digest, Preserve};

use crate::played::Played;
use crate::scene::{Scene, bytes, receive};

const FILES: usize = 3000;

#[test]
fn small_files_come_with_their_listing() {
    for workers in [1, 4] {
        let scene = Scene::new();
        let (tree, there) = (scene.path("tree"), scene.path("there"));
        for number in 0..FILES {
            let directory = tree.join(format!("{}", number % 10));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(format!("{number}")), bytes(number, 5)).unwrap();
        }
        let copy = CopyOptions::new()
            .preserve(Preserve::default().mode(true).timestamps(true))
            .digest(Some(Digest::Xxh3));
        let options = JobOptions::new().jobs(NonZeroUsize::new(workers)).copy(copy);
        let peer = Arc::new(Played::new([&tree]));
        let summary = receive(&peer, &there, &options).unwrap();
        assert_eq!((summary.files, summary.failed), (FILES as u64, 0));
        let questions = peer.questions();
        // Ten directories of 300 entries, 100 in a part, and the root.
        assert_eq!(questions.get("list"), Some(&31), "{questions:?}");
        assert_eq!(questions.get("open"), Some(&10), "{questions:?}");
        assert_eq!(questions.get("open_root"), Some(&1), "{questions:?}");
        assert_eq!(questions.len(), 3, "{questions:?}");
        assert_same_tree(&tree, &there, Compared { holes: false, ..Compared::wholly() });
        assert_eq!(peer.left_open(), 0);
    }
}

#[test]
fn each_larger_file_is_opened_read_and_looked_at_once() {
    let scene = Scene::new();
    let (tree, there) = (scene.path("tree"), scene.path("there"));
    fs::create_dir(&tree).unwrap();
    for name in ["one", "two", "three"] {
        fs::write(tree.join(name), bytes(100_000, 6)).unwrap();
    }
    let peer = Arc::new(Played::new([&tree]));
    receive(&peer, &there, &JobOptions::new()).unwrap();
    let questions = peer.questions();
    for (question, expected) in [("open", 3), ("read", 3), ("examine", 3), ("list", 1)] {
        assert_eq!(questions.get(question), Some(&expected), "{question}: {questions:?}");
    }
    assert_eq!(questions.get("attributes"), None);
    assert_eq!(questions.get("data_ranges"), None, "its blocks are all there");
}

/// At a rate nothing comes that was not admitted.
#[test]
fn a_rate_holds_for_small_files_too() {
    let scene = Scene::new();
    let (tree, there) = (scene.path("tree"), scene.path("there"));
    fs::create_dir(&tree).unwrap();
    for number in 0..5 {
        fs::write(tree.join(format!("{number}")), bytes(2000, number)).unwrap();
    }
    let peer = Arc::new(Played::new([&tree]));
    let options = JobOptions::new().bytes_per_second(NonZeroU64::new(1 << 20));
    receive(&peer, &there, &options).unwrap();
    assert_eq!((peer.asked_about("read"), peer.sent()), (5, 10_000));
    assert_same_tree(&tree, &there, Compared::default());
}
