//! `kill -9` at a random moment.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::record::{Record, Tally};
use super::scene::{Dice, Found, SOURCE_BYTES, Scene};

/// Flags that lead to different files, calls and orders of them.
const FLAGS: [&[&str]; 8] = [
    &[],
    &["--durable"],
    &["--verify"],
    &["--durable", "--method=direct"],
    &["--method=direct"],
    &["--method=copy-file-range"],
    &["--method=read-write"],
    &["--preserve=all"],
];

/// Kills `rounds` processes, spread over places, flags and kinds of destination.
///
/// # Errors
/// If the surroundings fail. What must not be found is counted and printed.
pub(super) fn run(
    uncopy: &Path,
    places: &[(&'static str, PathBuf)],
    rounds: u32,
    dice: &mut Dice,
    record: &mut Record,
) -> Result<()> {
    let mut conditions = Vec::new();
    for flags in FLAGS {
        for (name, root) in places {
            conditions.extend([true, false].map(|existing| (name, root, flags, existing)));
        }
    }
    let count = conditions.len() as u32;
    for (index, (name, root, flags, existing)) in conditions.into_iter().enumerate() {
        // Spread evenly, also if there are fewer rounds than conditions.
        let share = rounds * (index as u32 + 1) / count - rounds * index as u32 / count;
        if share == 0 {
            continue;
        }
        let mut tally = Tally {
            what: "kill",
            place: (*name).to_owned(),
            flags: flags.join(" "),
            destination: if existing { "existing" } else { "new" },
            ..Tally::default()
        };
        let scene = Scene::new(root, existing, SOURCE_BYTES)?;
        let whole = duration_of_a_run(uncopy, &scene, flags)?;
        // Some processes end before they are struck; those rounds do not count.
        while tally.killed < share && tally.rounds < share * 4 {
            let delay = whole.mul_f64(dice.fraction());
            if let Err(error) = round(uncopy, &scene, flags, delay, &mut tally) {
                tally.findings += 1;
                println!("  FOUND {name} {} killed after {delay:?}: {error:#}", flags.join(" "));
            }
        }
        record.add(tally);
    }
    Ok(())
}

fn duration_of_a_run(uncopy: &Path, scene: &Scene, flags: &[&str]) -> Result<Duration> {
    scene.reset()?;
    let begin = Instant::now();
    let output = scene.run(uncopy, flags)?;
    let whole = begin.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "uncopy cp {}: {said}", flags.join(" "));
    Ok(whole)
}

fn round(
    uncopy: &Path,
    scene: &Scene,
    flags: &[&str],
    delay: Duration,
    tally: &mut Tally,
) -> Result<()> {
    tally.rounds += 1;
    scene.reset()?;
    let mut child = scene.command(uncopy, flags).spawn().context("cannot start uncopy")?;
    sleep(delay);
    child.kill().context("cannot kill it")?;
    let status = child.wait()?;
    tally.killed += u32::from(!status.success());
    match scene.found()? {
        Found::Old => tally.old += 1,
        Found::New => tally.new += 1,
    }
    tally.leftovers += u32::from(!scene.leftovers()?.is_empty());
    scene.recover(uncopy)
}
