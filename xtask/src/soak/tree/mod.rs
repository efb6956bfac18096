//! `kill -9` at random moments of a job with a journal, and going on from it, until the tree is whole.

mod job;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::scene::Dice;
use super::span::{Clock, Span};
pub(super) use job::Route;
use job::{Job, Noted, Round};

/// A job is killed at most so often before it is let through.
const MAX_KILLS: u32 = 6;

/// By the cheapest way, and by one that shares nothing.
const WAYS: [&str; 2] = ["--method=auto", "--method=read-write"];

/// Where large files are shared by [`WAYS`]`[0]`.
const SHARING: [&str; 2] = ["xfs", "btrfs"];

/// A job of one process, with this flag.
struct Here(&'static str);

impl Route for Here {
    /// So slow that kills fall all over the job, and most of them into large files.
    fn rate(&self) -> &'static str {
        "--max-bandwidth=48Mi"
    }

    fn flags(&self) -> Vec<OsString> {
        vec![self.0.into()]
    }

    fn operands(&self, source: &Path, destination: &Path) -> [OsString; 2] {
        [source.into(), destination.into()]
    }

    fn reads_source(&self) -> bool {
        true
    }

    fn strike(&self, child: &mut Child, _: &mut Dice) -> Result<Option<&'static str>> {
        child.kill().context("cannot kill it")?;
        Ok(None)
    }

    fn end(&self, child: &mut Child, _: Option<&'static str>) -> Result<ExitStatus> {
        Ok(child.wait()?)
    }
}

/// Counters of one place and one way.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    what: &'static str,
    pub(super) place: String,
    pub(super) way: &'static str,
    /// `new`, or `existing`: one that the tree is merged into.
    pub(super) destination: &'static str,
    /// Jobs, each killed several times and then let through.
    pub(super) jobs: u32,
    pub(super) killed: u32,
    /// Rounds, killed or not, that began with files noted in the journal.
    pub(super) resumed_rounds: u32,
    /// Those that began with chunks of a large file noted.
    pub(super) part_rounds: u32,
    /// Files that were not copied again.
    pub(super) resumed_files: u64,
    /// Large files that a round ended behind chunks that an earlier one had noted, and these chunks.
    pub(super) resumed_parts: u32,
    pub(super) resumed_bytes: u64,
    /// Files that were noted in the journal and copied all the same.
    pub(super) again: u64,
    /// Bytes of noted chunks that were.
    pub(super) again_bytes: u64,
    /// Entries that nothing shows to be a killed run's, which the last round of a job named and left.
    pub(super) leftovers: u64,
    /// Processes that were killed, by what they are, where a job has several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) victims: BTreeMap<&'static str, u32>,
}

/// Conditions of jobs.
pub(super) struct Setting<'a> {
    /// Name of the filesystem, and a directory on it.
    pub(super) place: (&'static str, &'a Path),
    /// Name of the route.
    pub(super) way: &'static str,
    /// The tree is merged into a destination that is there.
    pub(super) merges: bool,
    /// Large files are shared at once, whatever the rate is.
    pub(super) shares: bool,
    pub(super) route: &'a dyn Route,
}

/// Kills processes for `span`, in each place and by each way in turn.
///
/// # Errors
/// If a tree appeared that is not whole, a file was lost, or something stayed behind that the last round
/// did not name.
pub(super) fn run(
    uncopy: &Path,
    places: &[(&'static str, PathBuf)],
    span: Span,
    dice: &mut Dice,
) -> Result<Vec<Tally>> {
    let routes = WAYS.map(Here);
    let mut settings = Vec::new();
    for route in &routes {
        for merges in [false, true] {
            for (name, place) in places {
                let shares = route.0 == WAYS[0] && SHARING.contains(name);
                let place = (*name, place.as_path());
                settings.push(Setting { place, way: route.0, merges, shares, route });
            }
        }
    }
    kill_each(uncopy, &settings, span, dice)
}

/// Kills jobs under each of these conditions in turn.
///
/// # Errors
/// As [`run`].
pub(super) fn kill_each(
    uncopy: &Path,
    settings: &[Setting<'_>],
    span: Span,
    dice: &mut Dice,
) -> Result<Vec<Tally>> {
    let tally = |setting: &Setting<'_>| Tally {
        what: "resume",
        place: setting.place.0.to_owned(),
        way: setting.way,
        destination: if setting.merges { "existing" } else { "new" },
        ..Tally::default()
    };
    let mut tallies: Vec<Tally> = settings.iter().map(tally).collect();
    let mut clock = span.start();
    let mut jobs = Vec::new();
    for number in (0..tallies.len()).cycle() {
        let tally = &mut tallies[number];
        if jobs.len() == number {
            jobs.push(Job::new(uncopy, &settings[number])?);
        }
        if !clock.goes_on() {
            break;
        }
        kill_and_finish(&mut jobs[number], &mut clock, dice, tally)
            .with_context(|| format!("{}, {}, {}", tally.place, tally.way, tally.destination))?;
    }
    for tally in &tallies {
        println!("  {}", serde_json::to_string(tally)?);
    }
    Ok(tallies)
}

/// Kills a job several times, of which the first has begun on the clock, and then lets it through.
fn kill_and_finish(
    job: &mut Job<'_>,
    clock: &mut Clock,
    dice: &mut Dice,
    tally: &mut Tally,
) -> Result<()> {
    let whole = job.duration()?;
    tally.jobs += 1;
    job.prepare(&job.destination())?;
    let (mut kills, mut ended) = (0, None);
    while ended.is_none() {
        let delay = (kills < MAX_KILLS && (kills == 0 || clock.goes_on())).then(|| {
            // The rest takes its part of the time, and a little to find that out.
            whole.mul_f64(dice.fraction() * job.left().max(0.1))
        });
        let noted = job.noted();
        let round = job.round(delay, dice)?;
        if let (Some(_), Some(took)) = (delay, round.took) {
            // It came too late: what was measured before was slower than it is.
            clock.take_back();
            if kills == 0 {
                job.whole = Some(whole.min(took));
            }
        }
        kills += 1;
        tally.killed += u32::from(round.took.is_none());
        if let (None, Some(victim)) = (round.took, round.victim) {
            *tally.victims.entry(victim).or_default() += 1;
        }
        tally.add(&noted, &round);
        ended = round.took.is_some().then_some((noted, round));
    }
    let (noted, round) = ended.context("it ended")?;
    let leftovers = job.remove_leftovers(&round)?;
    ensure!(leftovers < kills.into(), "{leftovers} leftovers of {kills} rounds");
    tally.leftovers += leftovers;
    let resumed = job.check_whole(&round)?;
    tally.resumed_files += resumed;
    tally.again += noted.files.saturating_sub(resumed);
    println!(
        "  {}, {}, {}: {kills} rounds, {resumed} files were done",
        tally.place, tally.way, tally.destination
    );
    job.remove_copy()
}

impl Tally {
    fn add(&mut self, noted: &Noted, round: &Round) {
        self.resumed_rounds += u32::from(noted.files > 0);
        self.part_rounds += u32::from(!noted.parts.is_empty());
        for (path, resumed) in &round.copied {
            self.resumed_parts += u32::from(*resumed > 0);
            self.resumed_bytes += resumed;
            self.add_again(noted, round, path, *resumed);
        }
        // A job that was killed again: its notes have stayed.
        for (path, end) in &round.parts {
            self.add_again(noted, round, path, *end);
        }
    }

    /// Counts noted chunks of a file behind the place where a round went on, or which its journal has no longer.
    fn add_again(&mut self, noted: &Noted, round: &Round, path: &Path, kept: u64) {
        let known = noted.parts.get(path).copied().unwrap_or(0);
        if known > kept {
            self.again_bytes += known - kept;
            let ended = match (round.took, round.victim) {
                (Some(_), _) => "nobody killed",
                (None, victim) => victim.unwrap_or("it was killed"),
            };
            println!(
                "  FOUND {}, {}, {}: {} had {known} bytes noted, of which {kept} were kept ({ended})",
                self.place,
                self.way,
                self.destination,
                path.display(),
            );
        }
    }
}
