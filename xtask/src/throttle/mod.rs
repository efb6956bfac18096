//! `cargo xtask throttle`: whether `--max-bandwidth` is kept over any two seconds.

mod scene;
mod windows;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use uncopy::copy::Throttle;

use crate::workspace;
use scene::{SCENES, Scene};
use windows::Spread;

/// How far a window may be off.
const TOLERANCE: f64 = 0.03;

/// A window that is off may have met a device or a processor that had something else to do.
const ATTEMPTS: usize = 3;

/// Bytes a second.
const RATES: [u64; 5] = [256_000, 2_000_000, 10_000_000, 50_000_000, 200_000_000];

/// Arguments of `cargo xtask throttle`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to copy [default: target/throttle]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only rates up to this one, in bytes a second.
    #[arg(long, default_value_t = u64::MAX)]
    up_to: u64,
    /// Only scenes whose name holds this.
    #[arg(long, default_value = "")]
    only: String,
}

/// Copies at rates, and looks at every window of two seconds.
///
/// # Errors
/// A window was further off than 3 %, each time it was tried.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let directory = match &arguments.dir {
        Some(directory) => std::path::absolute(directory)?,
        None => workspace::target_directory().join("throttle"),
    };
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let failure = "a rate was not kept, or could not be looked at";
    workspace::sandboxed(&directory, failure, || look(arguments))
}

fn look(arguments: &Arguments) -> Result<()> {
    let mut off = 0;
    for (name, path) in workspace::places() {
        for scene in SCENES.iter().filter(|scene| scene.name.contains(&arguments.only)) {
            let rates = RATES.into_iter().filter(|rate| *rate <= arguments.up_to);
            for rate in rates.filter_map(NonZeroU64::new).filter(|rate| scene.suits(*rate)) {
                off += usize::from(!keeps(name, &path, scene, rate)?);
            }
        }
    }
    ensure!(off == 0, "{off} rates were not kept within {:.0} %", TOLERANCE * 100.0);
    Ok(())
}

/// Whether a scene keeps to its rate, of a few attempts in one.
fn keeps(place: &str, path: &Path, scene: &Scene, rate: NonZeroU64) -> Result<bool> {
    let piece = Throttle::new(rate).piece_bytes();
    for attempt in 1..=ATTEMPTS {
        let samples = match scene.run(path, rate) {
            Ok(samples) => samples,
            Err(error) if error.is::<uncopy::Error>() => {
                println!("{place}: {}: skipped: {error}", scene.name);
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let Some(Spread { windows, least, most }) = windows::spread(&samples, rate.get()) else {
            println!("{place}: {}: {rate} B/s: over before a window was", scene.name);
            return Ok(false);
        };
        let good = least >= 1.0 - TOLERANCE && most <= 1.0 + TOLERANCE;
        println!(
            "{place}: {}: {rate} B/s in pieces of {piece}: {:.1} % to {:.1} % in {windows} \
             windows{}",
            scene.name,
            least * 100.0,
            most * 100.0,
            if good { "" } else { ", off" },
        );
        if good {
            return Ok(true);
        }
        // The rate is promised where the device manages twice as much.
        let alone = scene.unthrottled(path, rate)?;
        if alone < 2.0 * rate.get() as f64 {
            println!("  passed over: without a rate it is {alone:.0} B/s, less than twice as much");
            return Ok(true);
        }
        if attempt < ATTEMPTS {
            println!("  again: attempt {} of {ATTEMPTS}", attempt + 1);
        }
    }
    Ok(false)
}
