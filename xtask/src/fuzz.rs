//! Everything that reads bytes from outside, fed with what libFuzzer makes of the seeds.
//!
//! The stable compiler builds the targets: what cargo-fuzz asks of the instrumentation are code
//! generation flags that are stable. (Sanitizers are not; see `fuzz/Cargo.toml`.)

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::workspace;

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run this target alone.
    target: Option<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Targets at a time [default: as many as there are processors]
    #[arg(long, value_name = "TARGETS")]
    jobs: Option<NonZero<usize>>,
    /// Note no record in docs/evidence/fuzz.jsonl.
    #[arg(long)]
    no_record: bool,
    /// The system to build for, which must be named so that build scripts are not instrumented.
    #[arg(long, default_value = "x86_64-unknown-linux-gnu")]
    system: String,
}

/// A line of `docs/evidence/fuzz.jsonl`.
#[derive(Debug, Serialize)]
struct Record<'a> {
    target: &'a str,
    /// Seconds that it ran, which may be fewer than asked for.
    seconds: u64,
    executions: u64,
    findings: u64,
    commit: &'a str,
}

/// As cargo-fuzz has them: edges counted in line, comparisons traced.
const FLAGS: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Runs the targets, several side by side.
///
/// # Errors
/// If one finds something, or cannot be built; the others run to their end all the same.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let all = targets()?;
    let chosen: Vec<&String> = match &arguments.target {
        None => all.iter().collect(),
        Some(name) => all.iter().filter(|target| *target == name).collect(),
    };
    ensure!(!chosen.is_empty(), "no such target; there are {}", all.join(", "));
    let programs = build(&arguments.system)?;
    let commit = commit()?;
    let processors = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let jobs = arguments.jobs.unwrap_or(processors).get().min(chosen.len());
    let next = Mutex::new(chosen.into_iter());
    // Whoever has done with one takes the next.
    let work = || -> Result<u64> {
        let mut findings = 0;
        while let Some(target) = { next.lock().expect("nobody panics with it").next() } {
            let attack = attack(target, &programs, arguments.seconds)?;
            findings += attack.findings;
            let Attack { seconds, executions, findings } = attack;
            let record = Record { target, seconds, executions, findings, commit: &commit };
            let line = serde_json::to_string(&record)?;
            println!("{line}");
            if !arguments.no_record {
                note(&line)?;
            }
        }
        Ok(findings)
    };
    let findings = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let ends = workers.into_iter().map(|worker| worker.join().expect("it says what is wrong"));
        // All are waited for, and then the first error counts.
        ends.collect::<Vec<_>>().into_iter().sum::<Result<u64>>()
    })?;
    if findings > 0 {
        bail!("{findings} findings; the inputs are in fuzz/artifacts");
    }
    Ok(())
}

/// Every target has a file of its name.
///
/// # Errors
/// If they cannot be listed.
pub(crate) fn targets() -> Result<Vec<String>> {
    let folder = workspace::root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let stem = |entry: fs::DirEntry| Some(entry.path().file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = entries.filter_map(|entry| stem(entry.ok()?)).collect();
    names.sort();
    Ok(names)
}

/// Builds all of them; where their programs are.
fn build(system: &str) -> Result<PathBuf> {
    let into = workspace::target_directory().join("fuzz");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--bins", "--target", system])
        .arg("--target-dir")
        .arg(&into)
        .current_dir(workspace::root().join("fuzz"))
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the targets do not build: {status}");
    Ok(into.join(system).join("release"))
}

/// The result of attacking one target.
#[derive(Debug, Default)]
struct Attack {
    /// Proof that it was really attacked.
    seconds: u64,
    executions: u64,
    findings: u64,
}

/// After so many inputs these start again, as the program does not take apart what it made of its
/// command line.
const RUNS_AT_A_TIME: [(&str, u32); 2] = [("audit_log", 50_000), ("configuration", 50_000)];

/// Runs a target until the time is over, or it finds something.
fn attack(target: &str, programs: &Path, seconds: u64) -> Result<Attack> {
    let root = workspace::root().join("fuzz");
    let (corpus, seeds) = (root.join("corpus").join(target), root.join("seeds").join(target));
    let artifacts = root.join("artifacts").join(target);
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    let count = || fs::read_dir(&artifacts).map_or(0, |entries| entries.flatten().count());
    let before = count();
    let runs = RUNS_AT_A_TIME.iter().find(|(name, _)| *name == target);
    let begin = Instant::now();
    let mut attack = Attack::default();
    // A last moment is too short to begin anew in.
    while attack.findings == 0 && attack.seconds + 1 < seconds.max(2) {
        let left = seconds.saturating_sub(attack.seconds).max(1);
        let mut command = Command::new(programs.join(target));
        // The program's own output about each input is discarded.
        command.args(["-print_final_stats=1", "-close_fd_mask=3", "-timeout=10"]);
        command.args(["-rss_limit_mb=2048", &format!("-max_total_time={left}")]);
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        command.args(runs.map(|(_, runs)| format!("-runs={runs}")));
        command.arg(&corpus).args(seeds.is_dir().then_some(&seeds));
        let output = command.output().with_context(|| format!("cannot start {target}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let (executions, earlier) = (executions_in(&said), attack.seconds);
        attack.executions += executions;
        attack.seconds = begin.elapsed().as_secs();
        attack.findings = (count() - before).max(usize::from(!output.status.success())) as u64;
        if attack.findings > 0 {
            println!("{said}");
        } else {
            let went_on = executions > 0 && (runs.is_some() || attack.seconds + 2 >= seconds);
            ensure!(went_on, "{target} ended after {} s: {said}", attack.seconds - earlier);
        }
    }
    Ok(attack)
}

/// From `stat::number_of_executed_units: 1234`, or the last line that counts.
fn executions_in(said: &str) -> u64 {
    let stat = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let last = || said.lines().rev().find_map(|line| line.strip_prefix('#')?.split('\t').next());
    stat.or_else(last).and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

fn commit() -> Result<String> {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .current_dir(workspace::root())
        .output()
        .context("cannot start git, which knows the commit")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn note(line: &str) -> Result<()> {
    let path = workspace::root().join("docs/evidence/fuzz.jsonl");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::executions_in;

    #[test]
    fn executions_are_read_from_what_the_fuzzer_says() {
        let whole = "#2\tINITED cov: 5\n#900\tDONE\nstat::number_of_executed_units: 912\n";
        assert_eq!(executions_in(whole), 912);
        assert_eq!(executions_in("#2\tINITED\n#77\tNEW    cov: 9\n==1== ERROR: libFuzzer\n"), 77);
        assert_eq!(executions_in("nothing"), 0);
    }
}
