//! A filesystem without room for the copy, and an existing destination on it.

use std::path::Path;

use anyhow::{Result, ensure};
use testbed::{Filesystem, Mount};

use super::record::{Record, Tally};
use super::scene::{DestinationContents, Scene};

const IMAGE_MEBIBYTES: u64 = 320;
/// Fits once beside the old file, and not twice.
const SOURCE_BYTES: u64 = 160 << 20;

const METHODS: [&str; 5] =
    ["--method=auto", "--method=direct", "--method=sendfile", "--method=splice", "--no-zero-copy"];

/// Every way over an existing destination and to a new one.
///
/// # Errors
/// If the surroundings fail. What must not be found is counted and printed.
pub(super) fn run(uncopy: &Path, record: &mut Record) -> Result<()> {
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs, Filesystem::Btrfs] {
        for existing in [true, false] {
            let mount = Mount::image(filesystem, IMAGE_MEBIBYTES);
            let scene = Scene::new(mount.path(), existing, SOURCE_BYTES)?;
            // Shared blocks need no room: the old file's blocks are all there is to fill.
            for method in METHODS {
                if method == "--method=auto" && filesystem != Filesystem::Ext4 {
                    continue;
                }
                let mut tally = Tally {
                    what: "full_disk",
                    place: filesystem.name().to_owned(),
                    flags: method.to_owned(),
                    destination: if existing { "existing" } else { "new" },
                    rounds: 1,
                    ..Tally::default()
                };
                match round(uncopy, &scene, method) {
                    Ok(()) => tally.old += 1,
                    Err(error) => {
                        tally.findings += 1;
                        println!("  FOUND {} {method} full: {error:#}", filesystem.name());
                    }
                }
                record.add(tally);
            }
        }
    }
    Ok(())
}

fn round(uncopy: &Path, scene: &Scene, method: &str) -> Result<()> {
    scene.reset()?;
    let output = scene.run(uncopy, &[method])?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "it claims to have copied to a full disk");
    ensure!(said.contains("ENOSPC"), "it does not say that the disk is full: {said}");
    ensure!(scene.found()? == DestinationContents::Old, "the old file is gone");
    let left = scene.leftovers()?;
    ensure!(left.is_empty(), "{left:?} is left after an error");
    Ok(())
}
