//! Copies in a row, whose directory is listed for leftovers at most once a second.

use std::thread;

use super::*;
use crate::{CopyContext, CopyOptions, copy_file_in};

/// Time after which a test fails that waits for something.
const LONG: Duration = Duration::from_secs(120);

/// Replaces the destination, and checks what it has then.
fn replace(scene: &Scene, contents: &str) {
    let (from, to) = (scene.from.join(NAME), scene.to.join(NAME));
    fs::write(&from, contents).unwrap();
    let context = CopyContext::new().sweeps_seldom(true);
    copy_file_in(&from, &to, &CopyOptions::new(), &context, &mut ()).unwrap();
    assert_eq!(fs::read_to_string(&to).unwrap(), contents);
}

/// Makes the leftover of a killed run, and its record.
fn plant(scene: &Scene) -> [PathBuf; 2] {
    let register = scene.register();
    let file = scene.temporary("", Kind::File);
    fs::write(&file, "half").unwrap();
    scene.note(&register, &file);
    let record = scene.killed(register);
    [file, record]
}

/// Replaces the destination until leftovers are gone.
fn replace_until_gone(scene: &Scene, leftovers: &[PathBuf]) {
    let begun = Instant::now();
    while leftovers.iter().any(|path| path.exists()) {
        assert!(begun.elapsed() < LONG, "{leftovers:?} stay");
        replace(scene, "again");
        thread::sleep(Duration::from_millis(20));
    }
}

fn scene_with_destination() -> Scene {
    let scene = Scene::new();
    fs::write(scene.to.join(NAME), "old").unwrap();
    scene
}

#[test]
fn a_listing_serves_for_a_second_in_its_directory() {
    let (at, directory) = (Instant::now(), ((8, 1), 7));
    let listed = Listed { directory, at, names: Vec::new() };
    for (id, millis, expected) in [
        (directory, 0, true),
        (directory, 999, true),
        (directory, 1000, false),
        (directory, 3_600_000, false),
        (((8, 1), 8), 0, false),
        (((8, 2), 7), 0, false),
    ] {
        let now = at + Duration::from_millis(millis);
        assert_eq!(listed.is_recent(id, now), expected, "{id:?} after {millis} ms");
    }
    // A clock that another processor reads may be behind.
    let later = Listed { directory, at: at + Duration::from_millis(1), names: Vec::new() };
    assert!(later.is_recent(directory, at));
}

#[test]
fn what_is_left_within_the_second_is_removed_later() {
    let scene = scene_with_destination();
    replace(&scene, "first");
    let leftovers = plant(&scene);
    // The listing may be older than these: the copy is made all the same.
    replace(&scene, "second");
    replace_until_gone(&scene, &leftovers);
    assert_eq!(fs::read_dir(&scene.to).unwrap().count(), 2, "the destination and `a`");
}

/// Each copy is to another directory than the one before, and lists its own.
#[test]
fn two_directories_in_turn_are_listed_each_time() {
    let scenes = [scene_with_destination(), scene_with_destination()];
    for round in ["first", "second", "third"] {
        for scene in &scenes {
            let leftovers = plant(scene);
            replace(scene, round);
            assert!(leftovers.iter().all(|path| !path.exists()), "{leftovers:?} in {round}");
        }
    }
}

/// Threads that copy at once, into one directory and into several, find what was left and disturb no copy.
#[test]
fn two_threads_share_what_was_listed() {
    const ROUNDS: usize = 100;
    let scenes = [scene_with_destination(), scene_with_destination()];
    let mut leftovers = scenes.each_ref().map(plant);
    thread::scope(|scope| {
        for (name, scene) in ["left", "right"].into_iter().zip(&scenes) {
            let scenes = &scenes;
            scope.spawn(move || {
                let from = scene.from.join(name);
                for round in 0..ROUNDS {
                    let contents = format!("{name} {round}");
                    fs::write(&from, &contents).unwrap();
                    let context = CopyContext::new().sweeps_seldom(true);
                    for to in scenes.iter().map(|other| other.to.join(name)) {
                        copy_file_in(&from, &to, &CopyOptions::new(), &context, &mut ()).unwrap();
                        assert_eq!(fs::read_to_string(&to).unwrap(), contents);
                    }
                    replace(scene, &contents);
                }
            });
        }
    });
    for (scene, leftovers) in scenes.iter().zip(&mut leftovers) {
        replace_until_gone(scene, leftovers);
        *leftovers = plant(scene);
        replace_until_gone(scene, leftovers);
        assert_eq!(scene.records(), [] as [PathBuf; 0]);
    }
}
