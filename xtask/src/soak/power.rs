//! Power cuts: the filesystem is stopped with nothing of what it holds in memory written, and
//! mounted again.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testbed::{Filesystem, Mount};

use super::record::{Record, Tally};
use super::scene::{DestinationContents, Dice, SOURCE_BYTES, Scene};

const IMAGE_MEBIBYTES: u64 = 512;

/// Cuts the power `rounds` times on each filesystem: half of the times right after a durable copy
/// has said that it is done, half in the middle of one.
///
/// # Errors
/// If the surroundings fail. What must not be found is counted and printed.
pub(super) fn run(uncopy: &Path, rounds: u32, dice: &mut Dice, record: &mut Record) -> Result<()> {
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs] {
        for existing in [true, false] {
            let mount = Mount::image(filesystem, IMAGE_MEBIBYTES);
            let scene = Scene::new(mount.path(), existing, SOURCE_BYTES)?;
            let mut tally = Tally {
                what: "power_cut",
                place: filesystem.name().to_owned(),
                flags: "--durable".to_owned(),
                destination: if existing { "existing" } else { "new" },
                ..Tally::default()
            };
            let whole = scene.duration_of_a_run(uncopy, &["--durable"])?;
            for index in 0..rounds.div_ceil(2) {
                let moment = (index % 2 == 1).then(|| whole.mul_f64(dice.fraction()));
                if let Err(error) = round(uncopy, &mount, &scene, moment, &mut tally) {
                    tally.findings += 1;
                    println!("  FOUND {} power cut at {moment:?}: {error:#}", filesystem.name());
                }
            }
            record.add(tally);
        }
    }
    Ok(())
}

fn round(
    uncopy: &Path,
    mount: &Mount,
    scene: &Scene,
    moment: Option<Duration>,
    tally: &mut Tally,
) -> Result<()> {
    tally.rounds += 1;
    scene.reset()?;
    let mut child = scene.command(uncopy, &["--durable"]).spawn().context("cannot start uncopy")?;
    if let Some(moment) = moment {
        sleep(moment);
        // Nothing can be mounted again while a process has files open there.
        child.kill().context("cannot kill it")?;
    }
    let status = child.wait()?;
    mount.cut_power();
    mount.restore_power();
    tally.killed += u32::from(!status.success());
    let found = scene.found()?;
    ensure!(
        found == DestinationContents::New || !status.success(),
        "it said that the copy is durable, and it is not there"
    );
    match found {
        DestinationContents::Old => tally.old += 1,
        DestinationContents::New => tally.new += 1,
    }
    tally.leftovers += u32::from(!scene.leftovers()?.is_empty());
    scene.recover(uncopy)
}
