//! `kill -9` at a random moment.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::record::{Record, Tally};
use super::scene::{DestinationContents, Dice, SOURCE_BYTES, Scene};

/// Flags that lead to different files, calls and orders of them.
const FLAGS: [&[&str]; 8] = [
    &[],
    &["--durable"],
    &["--verify"],
    &["--method=direct"],
    &["--method=copy-file-range"],
    &["--preserve=all"],
    &["--method=read-write"],
    &["--durable", "--method=direct"],
];

/// A run that shares blocks takes two milliseconds and is seldom hit.
const TRIES: u32 = 10;

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
    dice.shuffle(&mut conditions);
    // The slowest one comes last: it makes up for rounds that struck nothing.
    if let Some((name, root)) = places.first() {
        conditions.push((name, root, &["--durable"], true));
    }
    let count = conditions.len() as u32;
    let mut killed = 0;
    for (index, (name, root, flags, existing)) in conditions.into_iter().enumerate() {
        // Spread evenly, also if there are fewer rounds than conditions.
        let share = (rounds * (index as u32 + 1) / count).saturating_sub(killed);
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
        let whole = scene.duration_of_a_run(uncopy, flags)?;
        // Some processes end before they are struck; those rounds do not count.
        while tally.killed < share && tally.rounds < share * TRIES {
            let delay = whole.mul_f64(dice.fraction());
            if let Err(error) = round(uncopy, &scene, flags, delay, &mut tally) {
                tally.findings += 1;
                println!("  FOUND {name} {} killed after {delay:?}: {error:#}", flags.join(" "));
            }
        }
        killed += tally.killed;
        record.add(tally);
    }
    ensure!(killed >= rounds, "{killed} processes could be killed, and {rounds} were to be");
    Ok(())
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
        DestinationContents::Old => tally.old += 1,
        DestinationContents::New => tally.new += 1,
    }
    tally.leftovers += u32::from(!scene.leftovers()?.is_empty());
    scene.recover(uncopy)
}
