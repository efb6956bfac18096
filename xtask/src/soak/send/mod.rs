//! Sends of every kind while taps come and go, links go down and up, and receivers are killed.

mod courier;
pub(crate) mod receiver;
mod round;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::json;

use super::record;
use super::scene::Dice;
use super::span::Span;
use crate::workspace;
use round::Scene;

/// Memory that the allocator may keep beyond that of the first rounds.
const GROWTH_BYTES: u64 = 48 << 20;
/// Rounds after which memory is what it stays.
const WARM_UP: u32 = 30;

/// Counters of the run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    pub(super) rounds: u32,
    /// One to three a round, on one ring where it is by a ring.
    pub(super) sockets: u64,
    pub(super) sends: u64,
    pub(super) bytes: u64,
    /// Sends that failed, all of them after something was done to the network or the receiver.
    pub(super) failed_sends: u64,
    pub(super) not_copied_sends: u64,
    pub(super) copied_sends: u64,
    pub(super) unknown_sends: u64,
    /// Taps started or stopped.
    pub(super) taps: u32,
    /// Links taken down and up again.
    pub(super) links: u32,
    pub(super) killed_receivers: u32,
    /// Senders and rings dropped with something outstanding.
    pub(super) dropped: u32,
    /// Bytes of streams that a receiver found right.
    pub(super) checked_bytes: u64,
    /// Bytes of streams that a receiver did not get or found wrong, without having been killed.
    pub(super) lost_bytes: u64,
    /// Anything that must not be.
    pub(super) findings: u32,
}

/// Sends for `span`. A full run is recorded.
///
/// # Errors
/// If a byte was lost or wrong, a buffer did not come back, a send failed without cause, or memory,
/// descriptors or parked sockets became more.
pub(super) fn run(span: Span, seed: u64, unix_seconds: u64) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "soak send needs root, for a network of its own");
    println!("soak send: {span}, --seed {seed}");
    let (tally, memory) = testbed::network::isolated(|_| soak(span, &mut Dice::new(seed)))?;
    let parked = uncopy::send::parked();
    println!(
        "  {} rounds, {} sockets, {} sends, {} failed; {} taps, {} links, {} receivers killed, {} dropped; {} \
         bytes checked, {} lost; {} bytes resident, {} after the first rounds",
        tally.rounds,
        tally.sockets,
        tally.sends,
        tally.failed_sends,
        tally.taps,
        tally.links,
        tally.killed_receivers,
        tally.dropped,
        tally.checked_bytes,
        tally.lost_bytes,
        memory.end,
        memory.begin,
    );
    ensure!(tally.findings == 0, "{} findings", tally.findings);
    ensure!(tally.lost_bytes == 0, "{} bytes were lost", tally.lost_bytes);
    ensure!(parked == 0, "{parked} sockets are parked at the end");
    ensure!(memory.end <= memory.begin + GROWTH_BYTES, "memory has grown");
    if span.is_full() {
        let file = workspace::root().join("docs/evidence/soak-send.jsonl");
        let mut seen = json!(tally);
        seen["in_flight_at_end"] = parked.into();
        seen["resident_bytes_after_warm_up"] = memory.begin.into();
        seen["resident_bytes_at_end"] = memory.end.into();
        record::write_line(&file, "soak send", seed, unix_seconds, seen)?;
    }
    println!("soak send: nothing found");
    Ok(())
}

/// Resident bytes.
struct Memory {
    begin: u64,
    end: u64,
}

fn soak(span: Span, dice: &mut Dice) -> Result<(Tally, Memory)> {
    let mut scene = Scene::new()?;
    scene.warm_up(dice)?;
    scene.tally = Tally::default();
    let descriptors = super::channel::open_descriptors()?;
    let mut memory = Memory { begin: resident_bytes()?, end: 0 };
    let mut clock = span.start();
    while clock.goes_on() {
        let number = scene.tally.rounds;
        let result = scene.round(dice).and_then(|()| check_descriptors(descriptors + scene.taps()));
        if let Err(error) = result {
            println!("  FOUND in round {number}: {error:#}");
            scene.tally.findings += 1;
        }
        scene.tally.rounds += 1;
        if scene.tally.rounds <= WARM_UP {
            memory.begin = memory.begin.max(resident_bytes()?);
        }
    }
    memory.end = resident_bytes()?;
    Ok((scene.tally, memory))
}

/// As many descriptors are open as `before`. The thread that parked sockets are served by has one more
/// or less for a moment.
fn check_descriptors(before: usize) -> Result<()> {
    let begin = Instant::now();
    loop {
        let now = super::channel::open_descriptors()?;
        if now == before {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "{now} descriptors are open, and {before} before");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn resident_bytes() -> Result<u64> {
    let statm = fs::read_to_string("/proc/self/statm").context("cannot read /proc/self/statm")?;
    let pages = statm.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
    Ok(pages.context("/proc/self/statm has another form")? * rustix::param::page_size() as u64)
}

/// Time limit for a peer.
const PATIENCE: Duration = Duration::from_secs(30);
