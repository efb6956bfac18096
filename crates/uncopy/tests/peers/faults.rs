//! Each question fails once at each step: an entry fails, or the job ends; nothing is left half done.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;

use testbed::by_extent;
use uncopy::copy::job::{Delete, JobOptions, Sources, Summary};
use uncopy::copy::peer::PeerError;
use uncopy::copy::{CopyOptions, IfChanged, Preserve};
use uncopy::{Errno, Objection, Reason};

use crate::played::{Fault, Played, QUESTIONS};
use crate::scene::{Scene, receive};

fn options() -> JobOptions {
    let copy = CopyOptions::new().preserve(Preserve::all());
    // The attributes of a FIFO that cannot be opened are a note.
    JobOptions::new().copy(copy)
}

/// Number of times that each question is asked without a fault.
///
/// It is not the same in each run: a second name is looked at only if its first name took the inode before.
fn times_asked(scene: &Scene) -> Vec<(&'static str, u64)> {
    let peer = Arc::new(Played::new([scene.path("tree")]));
    receive(&peer, &scene.path("without fault"), &options()).unwrap();
    fs::remove_dir_all(scene.path("without fault")).unwrap();
    QUESTIONS.into_iter().map(|question| (question, peer.asked_about(question))).collect()
}

/// Numbers of the questions that fail.
fn steps(times: u64) -> BTreeSet<u64> {
    let few = BTreeSet::from([1, times.div_ceil(2), times]);
    let all: BTreeSet<u64> = (1..=times).collect();
    let few = few.intersection(&all).copied().collect();
    by_extent([few, all.clone(), all])
}

/// Checks a copy in which the question that was to fail was not asked, and removes it.
#[track_caller]
fn assert_whole_without_fault(scene: &Scene, question: &str, summary: &Summary) {
    assert_eq!(question, "look", "every other question is asked each time");
    assert_eq!(summary.failed, 0);
    scene.assert_copy();
    fs::remove_dir_all(scene.path("there")).unwrap();
}

#[test]
fn an_error_number_is_that_of_one_entry() {
    let scene = Scene::new();
    let tree = scene.tree();
    for (question, times) in times_asked(&scene) {
        for number in steps(times) {
            let there = scene.path("there");
            let error = PeerError::System(Errno::EIO);
            let peer = Arc::new(Played::new([&tree]).failing(Fault { question, number, error }));
            let at = format!("{question} {number}");
            let summary = receive(&peer, &there, &options()).expect(&at);
            if peer.asked_about(question) < number {
                assert_whole_without_fault(&scene, question, &summary);
                continue;
            }
            let is_noted =
                matches!(question, "open_link" | "attributes" | "attribute" | "data_ranges");
            // Attributes that could not be asked for are a note, and holes are filled.
            assert_eq!(summary.failed > 0, !is_noted, "{at}: {summary:?}");
            assert!(summary.failed <= 3, "{at}: {summary:?}");
            assert_eq!(peer.left_open(), 0, "{at}");
            scene.assert_no_temporary_names(false);
            if question != "open_root" && !is_noted {
                // Only root may write to what is read-only.
                let _ = fs::remove_file(there.join("nothing"));
                let peer = Arc::new(Played::new([&tree]));
                let summary = receive(&peer, &there, &options()).unwrap();
                assert_eq!(summary.failed, 0, "{at}");
                scene.assert_copy();
            }
            let _ = fs::remove_dir_all(&there);
        }
    }
}

#[test]
fn a_lost_connection_ends_the_job() {
    let scene = Scene::new();
    let tree = scene.tree();
    for resume in [false, true] {
        for (question, times) in times_asked(&scene) {
            for number in steps(times) {
                let there = scene.path("there");
                let error = PeerError::Lost { what: "it ended".into() };
                let fault = Fault { question, number, error };
                let peer = Arc::new(Played::new([&tree]).failing(fault));
                let at = format!("{question} {number}, resume: {resume}");
                let ended = receive(&peer, &there, &options().resume(resume));
                if peer.asked_about(question) < number {
                    assert_whole_without_fault(&scene, question, &ended.expect(&at));
                    continue;
                }
                let error = ended.expect_err(&at);
                let what = "it ended".to_owned();
                let expected = Reason::Refused(Objection::PeerLost { what });
                assert_eq!(*error.cause().reason(), expected, "{at}");
                assert!(error.cause().to_string().contains("there:tree"), "{error}");
                assert!(error.summary().stopped_early, "{at}");
                assert_eq!(error.summary().failed, 0, "{at}: {:?}", error.summary());
                assert!(!there.exists(), "{at}");
                scene.assert_no_temporary_names(resume);
                if resume {
                    let peer = Arc::new(Played::new([&tree]));
                    let summary = receive(&peer, &there, &options().resume(true)).expect(&at);
                    assert_eq!(summary.failed, 0, "{at}");
                    scene.assert_copy();
                    scene.assert_no_temporary_names(false);
                }
                let _ = fs::remove_dir_all(&there);
            }
        }
    }
}

#[test]
fn nothing_is_deleted_while_the_source_cannot_be_asked() {
    // By one worker no name waits for another one of its file, so that only deletions look at a name.
    let options = options().jobs(NonZeroUsize::new(1)).delete(Some(Delete::default()));
    let lost = PeerError::Lost { what: "it ended".into() };
    for error in [PeerError::System(Errno::EIO), lost] {
        let scene = Scene::new();
        let (tree, there) = (scene.tree(), scene.path("there"));
        receive(&Arc::new(Played::new([&tree])), &there, &options).unwrap();
        fs::remove_file(tree.join("nothing")).unwrap();
        let is_lost = matches!(error, PeerError::Lost { .. });
        let fault = Fault { question: "look", number: 1, error };
        let ended = receive(&Arc::new(Played::new([&tree]).failing(fault)), &there, &options);
        assert_eq!(ended.is_err(), is_lost, "{ended:?}");
        let summary = match &ended {
            Ok(summary) => summary,
            Err(error) => error.summary(),
        };
        assert_eq!((summary.deleted, summary.failed), (0, u64::from(!is_lost)), "{summary:?}");
        assert!(there.join("nothing").exists());
        let summary = receive(&Arc::new(Played::new([&tree])), &there, &options).unwrap();
        assert_eq!((summary.deleted, summary.failed), (1, 0), "{summary:?}");
        scene.assert_copy();
    }
}

#[test]
fn a_root_that_is_not_there_is_named() {
    let scene = Scene::new();
    let peer = Arc::new(Played::new([scene.path("missing")]));
    for sources in [Sources::Trees, Sources::Entries] {
        let options = JobOptions::new().sources(sources);
        let summary = receive(&peer, &scene.path("there"), &options).unwrap();
        assert_eq!((summary.failed, summary.files), (1, 0));
    }
    scene.assert_no_temporary_names(false);
}

#[test]
fn files_whose_bytes_were_seen_to_change_are_changed_sources() {
    for if_changed in [IfChanged::Fail, IfChanged::Accept] {
        let scene = Scene::new();
        let (tree, there) = (scene.path("tree"), scene.path("there"));
        fs::create_dir(&tree).unwrap();
        for name in ["one", "two"] {
            fs::write(tree.join(name), vec![7; 1 << 20]).unwrap();
        }
        let peer = Arc::new(Played::new([&tree]).changing());
        let options = JobOptions::new().copy(CopyOptions::new().if_changed(if_changed));
        let summary = receive(&peer, &there, &options).unwrap();
        let accepts = if_changed == IfChanged::Accept;
        assert_eq!((summary.files, summary.failed), if accepts { (2, 0) } else { (0, 2) });
        for name in ["one", "two"] {
            assert_eq!(there.join(name).exists(), accepts);
        }
        scene.assert_no_temporary_names(false);
    }
}
