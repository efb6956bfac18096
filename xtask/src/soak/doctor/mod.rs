//! Random networks and sends, in each of which the doctor is asked first, and the completions of the
//! sends are read afterwards.

mod case;
mod devices;
mod draw;
mod filters;
mod leads;
pub(crate) mod play;
mod tally;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::record;
use crate::workspace;
use draw::Offered;
use play::{Outcome, PlayArguments};
use tally::{FULL_CASES, Tallies};

/// The cases to run.
pub(super) struct Plan<'a> {
    pub(super) seed: u64,
    pub(super) cases: u32,
    /// This case alone, with all that is done in it.
    pub(super) only: Option<u32>,
    pub(super) program: &'a Path,
    pub(super) unix_seconds: u64,
}

/// Runs the cases. A full run is recorded.
///
/// # Errors
/// If the doctor said "is not copied" of what is; or, in a full run, left too much open or was asked
/// too little; or a case could not be made.
pub(super) fn run(plan: &Plan<'_>) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "soak doctor needs root, for networks of its own"
    );
    let offered = offered();
    let seed = plan.seed;
    let numbers = plan.only.map_or(0..plan.cases, |case| case..case + 1);
    println!("soak doctor: {} cases, --seed {seed}", numbers.len());
    for (is_offered, name) in [(offered.vlan, "VLANs"), (offered.prio, "prio")] {
        if !is_offered {
            println!("  not offered by this kernel, and left out: {name}");
        }
    }
    let public = PublicProgram::of(plan.program)?;
    let tallies = Mutex::new(Tallies::default());
    let next = AtomicU32::new(numbers.start);
    let workers = std::thread::available_parallelism()?.get();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return;
            }
            one(plan, number, offered, &public.path, &tallies);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.min(numbers.len()) {
            scope.spawn(work);
        }
    });
    let tallies = tallies.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    print!("{}", tallies.table());
    let unmet = tallies.unmet();
    ensure!(unmet.is_empty(), "{}; --seed {seed}", unmet.join("; "));
    if tallies.all.cases >= FULL_CASES {
        write_record(plan, &tallies)?;
    }
    println!("soak doctor: nothing found");
    Ok(())
}

fn write_record(plan: &Plan<'_>, tallies: &Tallies) -> Result<()> {
    let file = workspace::root().join("docs/evidence/soak-doctor.jsonl");
    let mut seen = json!(tallies.all);
    if let Some(seen) = seen.as_object_mut() {
        seen.remove("what");
    }
    seen["findings"] = tallies.all.false_not_copied.into();
    record::write_rows(&file, "soak doctor", plan.seed, plan.unix_seconds, seen, &tallies.rows())
}

/// Runs a case, and says what is wrong with the answer.
fn one(plan: &Plan<'_>, number: u32, offered: Offered, program: &Path, tallies: &Mutex<Tallies>) {
    let case = draw::case(plan.seed, number, offered);
    let played = play(plan.seed, number, offered, program);
    let mut tallies = tallies.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let again = format!("--seed {} --case {number}", plan.seed);
    let details = match plan.only {
        Some(_) => format!("\n{case}"),
        None => format!(" ({})", case.lead.name()),
    };
    match played {
        Ok(outcome) => {
            let Outcome { predicted, headline, sends, copied } = &outcome;
            let seen = format!("{copied} of {sends} sends were copied; the doctor: {headline}");
            let (yes, is_copied) = (play::Prediction::Copied, outcome.is_copied());
            match (*predicted, is_copied) {
                (play::Prediction::NotCopied, true) => {
                    println!("  FALSE NO {again}: {seen}{details}")
                }
                (said, false) if said == yes => println!("  false yes {again}: {seen}{details}"),
                _ if plan.only.is_some() => println!("  {again}: {seen}{details}"),
                _ => {}
            }
            tallies.add(&case, &outcome);
        }
        Err(error) => {
            println!("  FAILED {again}: {error:#}{details}");
            tallies.failed += 1;
        }
    }
}

/// Nothing in a case takes this long; what does hangs.
const HANG: Duration = Duration::from_secs(60);

fn play(seed: u64, number: u32, offered: Offered, program: &Path) -> Result<Outcome> {
    let mut command = PlayArguments::command(seed, number, offered)?;
    command.arg("--program").arg(program);
    let mut limited = Command::new("timeout");
    limited.args(["--signal=KILL", &HANG.as_secs().to_string()]);
    limited.arg(command.get_program()).args(command.get_args());
    let output = limited.stdin(Stdio::null()).output().context("cannot start a case")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", output.status, said.trim());
    }
    serde_json::from_slice(&output.stdout).context("a case says something else than its outcome")
}

/// Finds out which of the features that some kernels lack this one has.
fn offered() -> Offered {
    let works =
        |tool: &str, words: &str| testbed::run_quietly(tool, words.split(' ')).status.success();
    testbed::network::isolated(|_| Offered {
        vlan: works("ip", "link add vlan0 link lo type vlan id 5"),
        prio: works("tc", "qdisc add dev lo root prio"),
    })
}

/// The program where every user may run it, which the build directory need not be.
struct PublicProgram {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl PublicProgram {
    fn of(program: &Path) -> Result<PublicProgram> {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir()?;
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), everybody)?;
        let path = directory.path().join("uncopy");
        std::fs::copy(program, &path)
            .with_context(|| format!("cannot copy {}", program.display()))?;
        Ok(PublicProgram { path, _directory: directory })
    }
}
