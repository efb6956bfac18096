//! `cargo xtask soak`: kills, full disks and power cuts in a loop, and a look at what is left.

pub(crate) mod channel;
pub(crate) mod doctor;
mod fleet;
mod full_disk;
mod kill;
mod memory;
mod power;
pub(crate) mod record;
mod remote;
mod scene;
pub(crate) mod send;
mod span;
mod tree;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use testbed::Place;

use crate::workspace;
use record::Record;
use scene::Dice;
use span::Span;

/// Rounds if no number is named.
const USUAL_ROUNDS: u32 = 300;
/// Rounds of `fleet` if no number is named.
const USUAL_FLEET_ROUNDS: u32 = 40;
/// Kills that count as a full run of `fleet`, each of which is followed by whole units.
const FULL_FLEET: u32 = 100;
/// Kills that count as a full run of `tree`, whose rounds take long.
const FULL_TREE: u64 = 200;

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The subject.
    suite: Suite,
    /// Processes to kill, or senders; 300 and more (200 for trees, here and between machines) are a full run, whose result is
    /// recorded [default: 300]
    #[arg(long)]
    rounds: Option<u32>,
    /// Go on for so long instead; 600 and more are a full run.
    #[arg(long, conflicts_with = "rounds")]
    seconds: Option<u64>,
    /// Connection of the bytes of `remote` (`uncopy cp --data`) [default: that of the program]
    #[arg(long, value_name = "MODE")]
    data: Option<String>,
    /// Entries of a tree for `memory`; 1,000,000 and more are a full run.
    #[arg(long, default_value_t = 200_000)]
    entries: u32,
    /// Files of each plan for `fleet`.
    #[arg(long, default_value_t = 2000)]
    files: u64,
    /// How they lie, for `memory` [default: each way in turn]
    #[arg(long, value_enum)]
    shape: Vec<memory::Shape>,
    /// Repeat the random choices of an earlier run.
    #[arg(long)]
    seed: Option<u64>,
    /// Cases for `doctor`; 800 and more are a full run.
    #[arg(long, default_value_t = 800)]
    cases: u32,
    /// This case of `doctor` alone, with all that is done in it.
    #[arg(long, value_name = "NUMBER", requires = "seed")]
    case: Option<u32>,
    /// The program that `doctor` asks [default: the release build]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where to copy [default: target/soak]
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Suite {
    /// One file to another.
    Copy,
    /// Whole trees with a journal, gone on with until they are whole.
    Tree,
    /// The same between two machines, where either end or what joins them is killed.
    Remote,
    /// Units of work that workers take from a queue, where workers and the queue's server are killed and stopped
    /// [default: 40 rounds].
    Fleet,
    /// How much memory a job with very many entries takes.
    Memory,
    /// Messages from one process to another.
    Channel,
    /// Sends of every kind over networks that change.
    Send,
    /// The doctor's reports on random networks against the kernel's on sends over them.
    Doctor,
}

/// Runs the soak.
///
/// # Errors
/// If a file was found that is neither the old nor the new one, or anything else that must not be;
/// each is printed.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if !matches!(arguments.suite, Suite::Tree | Suite::Remote | Suite::Fleet | Suite::Doctor) {
        // Only the program that these run has to be quick.
        workspace::continue_optimised()?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let seed = arguments.seed.unwrap_or(now.as_nanos() as u64);
    let span = arguments.span();
    match arguments.suite {
        Suite::Channel => return channel::run(span, seed, now.as_secs()),
        Suite::Send => return send::run(span, seed, now.as_secs()),
        Suite::Doctor => return soak_doctor(arguments, seed, now.as_secs()),
        Suite::Copy | Suite::Tree | Suite::Remote | Suite::Fleet | Suite::Memory => {}
    }
    let directory = match &arguments.dir {
        Some(directory) => std::path::absolute(directory)?,
        None => workspace::target_directory().join("soak"),
    };
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    workspace::build_release("uncopy-cli", "uncopy")?;
    if let Suite::Fleet = arguments.suite {
        workspace::build_release("uncopy-fleet", "uncopy-fleet")?;
    }
    let failure = "the soak found something, or did not come to its end";
    workspace::sandboxed(&directory, failure, || soak(arguments, seed, now))
}

/// Kills in one turn of a timed run.
const KILLS_OF_A_TURN: u32 = 20;

impl Arguments {
    fn span(&self) -> Span {
        let rounds = Span::Rounds(self.rounds.unwrap_or(USUAL_ROUNDS));
        self.seconds.map_or(rounds, Span::Seconds)
    }
}

fn soak(arguments: &Arguments, seed: u64, now: Duration) -> Result<()> {
    let span = arguments.span();
    let uncopy = workspace::target_directory().join("release").join("uncopy");
    let mut dice = Dice::new(seed);
    if let Suite::Tree | Suite::Remote = arguments.suite {
        return soak_trees(&uncopy, arguments, &mut dice, seed, now.as_secs());
    }
    if let Suite::Fleet = arguments.suite {
        return soak_fleet(&uncopy, arguments, &mut dice, seed, now.as_secs());
    }
    if let Suite::Memory = arguments.suite {
        return soak_memory(&uncopy, arguments, seed, now.as_secs());
    }
    println!("soak copy: {span}, --seed {seed}");
    let mut record = Record::new(seed, now.as_secs());
    let places = workspace::places();
    // All of it once for each turn; a turn that began ends.
    let (mut turns, kills) = match span {
        Span::Rounds(rounds) => (Span::Rounds(1).start(), rounds),
        Span::Seconds(_) => (span.start(), KILLS_OF_A_TURN),
    };
    while turns.goes_on() {
        kill::run(&uncopy, &places, kills, &mut dice, &mut record)?;
        if rustix::process::geteuid().is_root() {
            full_disk::run(&uncopy, &mut record)?;
            power::run(&uncopy, (kills / 6).max(4), &mut dice, &mut record)?;
        } else {
            println!("full disk, power cut: skipped: need root, to mount");
        }
    }
    if span.is_full() && record.findings() == 0 {
        let file = workspace::root().join("docs/evidence/soak-copy.jsonl");
        record.write(&file)?;
    }
    ensure!(record.findings() == 0, "{} findings", record.findings());
    println!("soak copy: nothing found");
    Ok(())
}

fn soak_doctor(arguments: &Arguments, seed: u64, unix_seconds: u64) -> Result<()> {
    let built;
    let program = match &arguments.program {
        Some(program) => program,
        None => {
            built = workspace::build_release("uncopy-cli", "uncopy")?;
            &built
        }
    };
    let (cases, only) = (arguments.cases, arguments.case);
    doctor::run(&doctor::Plan { seed, cases, only, program, unix_seconds })
}

fn soak_fleet(
    uncopy: &Path,
    arguments: &Arguments,
    dice: &mut Dice,
    seed: u64,
    unix_seconds: u64,
) -> Result<()> {
    let kills = arguments.rounds.unwrap_or(USUAL_FLEET_ROUNDS);
    println!("soak fleet: {kills} kills, {} files, --seed {seed}", arguments.files);
    let fleet = uncopy.with_file_name("uncopy-fleet");
    let (place, files) = (Place::Disk.path(), arguments.files);
    let plan = fleet::Plan { uncopy, fleet: &fleet, place: &place, kills, files };
    let tally = fleet::run(&plan, dice)?;
    if kills >= FULL_FLEET {
        let file = workspace::root().join("docs/evidence/soak-fleet.jsonl");
        let counts = [("killed", kills.into()), ("findings", 0)];
        record::write(&file, "soak fleet", seed, unix_seconds, &counts, &[tally])?;
    }
    println!("soak fleet: nothing found");
    Ok(())
}

fn soak_memory(uncopy: &Path, arguments: &Arguments, seed: u64, unix_seconds: u64) -> Result<()> {
    println!("soak memory: {} entries", arguments.entries);
    let all = &memory::Shape::ALL[..];
    let shapes = if arguments.shape.is_empty() { all } else { &arguments.shape };
    let mut tallies = Vec::new();
    for shape in shapes {
        tallies.extend(memory::run(uncopy, &Place::Disk.path(), *shape, arguments.entries)?);
    }
    let findings = tallies.iter().filter(|tally| tally.is_finding()).count();
    if memory::is_full(arguments.entries) && findings == 0 {
        let file = workspace::root().join("docs/evidence/soak-memory.jsonl");
        let counts = [("killed", shapes.len() as u64), ("findings", 0)];
        record::write(&file, "soak memory", seed, unix_seconds, &counts, &tallies)?;
    }
    ensure!(findings == 0, "{findings} jobs took more than 64 MiB");
    Ok(())
}

fn soak_trees(
    uncopy: &Path,
    arguments: &Arguments,
    dice: &mut Dice,
    seed: u64,
    unix_seconds: u64,
) -> Result<()> {
    let span = arguments.span();
    let is_remote = matches!(arguments.suite, Suite::Remote);
    let name = if is_remote { "soak remote" } else { "soak tree" };
    println!("{name}: {span}, --seed {seed}");
    let places = workspace::places();
    let tallies = match is_remote {
        true => {
            let disk = places.first().context("there is a disk")?;
            remote::run(uncopy, disk, arguments.data.as_deref(), span, dice)?
        }
        false => tree::run(uncopy, &places, span, dice)?,
    };
    let sum = |number: fn(&tree::Tally) -> u64| tallies.iter().map(number).sum::<u64>();
    let killed = sum(|tally| tally.killed.into());
    let resumed = sum(|tally| tally.resumed_rounds.into());
    let in_parts = sum(|tally| tally.part_rounds.into());
    let (bytes, parts) =
        (sum(|tally| tally.resumed_bytes), sum(|tally| tally.resumed_parts.into()));
    let (again, again_bytes) = (sum(|tally| tally.again), sum(|tally| tally.again_bytes));
    println!(
        "{name}: {killed} killed, {resumed} rounds went on from files and {in_parts} from chunks, \
         {bytes} bytes of {parts} large files were not copied again; {again} files and {again_bytes} \
         bytes of noted chunks were"
    );
    let is_full = span.is_full() || killed >= FULL_TREE;
    if is_full {
        let file = if is_remote { "soak-remote.jsonl" } else { "soak-tree.jsonl" };
        let file = workspace::root().join("docs/evidence").join(file);
        let findings = again + u64::from(again_bytes > 0);
        let counts = [("killed", killed), ("findings", findings)];
        record::write(&file, name, seed, unix_seconds, &counts, &tallies)?;
    }
    ensure!(again == 0, "{again} files were done twice without need");
    ensure!(again_bytes == 0, "{again_bytes} bytes of noted chunks were copied again");
    let enough = resumed >= killed / 4 && in_parts >= killed / 10 && bytes > 0;
    ensure!(enough || !is_full, "too few rounds went on to say anything");
    Ok(())
}
