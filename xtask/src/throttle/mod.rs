//! `cargo xtask throttle`: whether `--max-bandwidth` is kept over any two seconds.

mod scene;
mod windows;
mod witness;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::json;
use uncopy::copy::Throttle;

use crate::soak::record;
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
    /// Three cases on one filesystem, a quarter of a minute in all. Nothing is recorded.
    #[arg(long, conflicts_with_all = ["only", "up_to"])]
    quick: bool,
}

/// Scenes and rates of a quick run: pieces below and above what the mechanism moves in a call, one
/// file and many.
const QUICK: [(&str, u64); 3] = [
    ("one file, read_write", 256_000),
    ("one file, splice", 50_000_000),
    ("files of 4 KiB, 2 workers", 2_000_000),
];

impl Arguments {
    fn is_full(&self) -> bool {
        !self.quick && self.up_to == u64::MAX && self.only.is_empty()
    }

    /// Whether this scene is to be looked at, at this rate.
    fn wants(&self, scene: &Scene, rate: NonZeroU64) -> bool {
        if self.quick {
            return QUICK.contains(&(scene.name, rate.get()));
        }
        scene.name.contains(&self.only) && rate.get() <= self.up_to && scene.suits(rate)
    }
}

/// What was seen of one scene at one rate.
#[derive(Debug, Serialize)]
struct Seen {
    what: &'static str,
    place: &'static str,
    scene: &'static str,
    bytes_per_second: u64,
    piece_bytes: u64,
    /// Who counted.
    witness: &'static str,
    /// `kept`, `off`, `too_slow`: the device does not manage twice the rate, `too_short`: no window
    /// could be looked at.
    outcome: &'static str,
    /// How often it was copied.
    attempts: usize,
    /// Of the last time.
    windows: usize,
    least_percent: Option<f64>,
    most_percent: Option<f64>,
}

impl Seen {
    fn is_off(&self) -> bool {
        matches!(self.outcome, "off" | "too_short")
    }
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
    let uncopy = workspace::build_release("uncopy-cli", "uncopy")?;
    let failure = "a rate was not kept, or could not be looked at";
    workspace::sandboxed(&directory, failure, || look(arguments, &uncopy))
}

fn look(arguments: &Arguments, uncopy: &Path) -> Result<()> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut all = Vec::new();
    let places = workspace::places();
    let most = if arguments.quick { 1 } else { places.len() };
    for (place, path) in &places[..most] {
        for scene in &SCENES {
            let rates = RATES.into_iter().filter_map(NonZeroU64::new);
            for rate in rates.filter(|rate| arguments.wants(scene, *rate)) {
                all.extend(keeps(uncopy, (place, path), scene, rate)?);
            }
        }
    }
    let off = all.iter().filter(|seen| seen.is_off()).count();
    if arguments.is_full() && off == 0 {
        let windows: usize = all.iter().map(|seen| seen.windows).sum();
        let counters = json!({ "cases": all.len(), "windows": windows, "findings": off });
        let file = workspace::root().join("docs/evidence/throttle.jsonl");
        record::write_rows(&file, "throttle", (None, began), counters, &all)?;
    }
    ensure!(!all.is_empty(), "no scene has such a name, or such a rate");
    ensure!(off == 0, "{off} rates were not kept within {:.0} %", TOLERANCE * 100.0);
    Ok(())
}

/// Whether a scene keeps to its rate, of a few attempts in one. `None`: it cannot be copied so here.
fn keeps(
    uncopy: &Path,
    (place, path): (&'static str, &Path),
    scene: &Scene,
    rate: NonZeroU64,
) -> Result<Option<Seen>> {
    let mut seen = Seen {
        what: "throttle",
        place,
        scene: scene.name,
        bytes_per_second: rate.get(),
        piece_bytes: Throttle::new(rate).piece_bytes(),
        witness: scene.witness().name(),
        outcome: "off",
        attempts: 0,
        windows: 0,
        least_percent: None,
        most_percent: None,
    };
    while seen.attempts < ATTEMPTS {
        let Some(samples) = scene.run(uncopy, path, rate)? else {
            println!("{place}: {}: skipped: it does not work here", scene.name);
            return Ok(None);
        };
        seen.attempts += 1;
        let Some(Spread { windows, least, most }) = windows::spread(&samples, rate.get()) else {
            println!("{place}: {}: {rate} B/s: over before a window was", scene.name);
            return Ok(Some(Seen { outcome: "too_short", ..seen }));
        };
        let percent = |share: f64| (share * 10_000.0).round() / 100.0;
        seen.windows = windows;
        (seen.least_percent, seen.most_percent) = (Some(percent(least)), Some(percent(most)));
        let good = least >= 1.0 - TOLERANCE && most <= 1.0 + TOLERANCE;
        println!(
            "{place}: {}: {rate} B/s in pieces of {}: {:.1} % to {:.1} % in {windows} windows by \
             {}{}",
            scene.name,
            seen.piece_bytes,
            least * 100.0,
            most * 100.0,
            seen.witness,
            if good { "" } else { ", off" },
        );
        if good {
            return Ok(Some(Seen { outcome: "kept", ..seen }));
        }
        // The rate is promised where the device manages twice as much.
        let alone = scene.unthrottled(uncopy, path, rate)?;
        if alone < 2.0 * rate.get() as f64 {
            println!("  passed over: without a rate it is {alone:.0} B/s, less than twice as much");
            return Ok(Some(Seen { outcome: "too_slow", ..seen }));
        }
        if seen.attempts < ATTEMPTS {
            println!("  again: attempt {} of {ATTEMPTS}", seen.attempts + 1);
        }
    }
    Ok(Some(seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_knows_its_scenes() {
        let arguments = Arguments { dir: None, up_to: u64::MAX, only: String::new(), quick: true };
        let rates = || RATES.into_iter().filter_map(NonZeroU64::new);
        let cases = SCENES.iter().flat_map(|scene| rates().map(move |rate| (scene, rate)));
        let wanted: Vec<_> = cases.filter(|(scene, rate)| arguments.wants(scene, *rate)).collect();
        assert_eq!(wanted.len(), QUICK.len());
        assert!(wanted.iter().all(|(scene, rate)| scene.suits(*rate)));
        assert!(!arguments.is_full());
    }
}
