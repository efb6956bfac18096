//! Programs of tests that run in guests, by part of the project.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::workspace;

/// Tests of one program.
#[derive(Debug)]
pub(super) struct Selection {
    /// Name of its files.
    pub(super) name: &'static str,
    pub(super) part: &'static str,
    package: &'static str,
    /// Name of the target: a test of the package, or the library itself with its unit tests.
    target: &'static str,
    /// Filters, as the harness takes them.
    words: &'static [&'static str],
    /// Whether it runs with `--quick` too.
    is_quick: bool,
}

/// A test that needs Cargo, which would build in the guest.
const BUILDS: &str = "the_sandboxed_child_of_the_example";

/// Unit tests are those of system calls alone: others ask no kernel.
const SELECTIONS: [Selection; 16] = [
    of("os", "copying", "uncopy-os", "uncopy_os", &[], true),
    of("library", "copying", "uncopy", "library", &["copy::"], true),
    of("copy", "copying", "uncopy-copy", "uncopy_copy", &[], false),
    of("sends", "sending", "uncopy", "library", &["send::"], true),
    of(
        "rooms",
        "sending",
        "uncopy-send",
        "uncopy_send",
        &["room::", "--skip=sequence_map", "--skip=ids::"],
        false,
    ),
    of("between", "channels", "uncopy", "library", &["channel_", "--skip", BUILDS], true),
    of("channels", "channels", "uncopy", "api", &["channel::"], false),
    of("alone", "channels", "uncopy", "alone", &[], false),
    of("c", "c", "uncopy-zx", "c", &["/c11"], true),
    of("overflow", "c", "uncopy-zx", "stack_overflow", &[], false),
    of("matrix", "program", "uncopy-cli", "cli", &["cp::matrix::"], true),
    of(
        "files",
        "program",
        "uncopy-cli",
        "cli",
        &["cp::", "--skip=::matrix::", "--skip=::faults::"],
        false,
    ),
    of("trees", "program", "uncopy-cli", "cli", &["tree::"], false),
    of("verify", "program", "uncopy-cli", "cli", &["verify::"], false),
    of("faults", "program", "uncopy-cli", "cli", &["faults::"], false),
    of("doctor", "program", "uncopy-cli", "cli", &["doctor::"], false),
];

/// Time for the tests of one program: an emulated processor may need twenty times as long.
const LIMIT: Duration = Duration::from_secs(1200);

const fn of(
    name: &'static str,
    part: &'static str,
    package: &'static str,
    target: &'static str,
    words: &'static [&'static str],
    is_quick: bool,
) -> Selection {
    Selection { name, part, package, target, words, is_quick }
}

/// Returns the selections of these parts, or of all if none is named.
///
/// # Errors
/// There is no such part.
pub(super) fn selected(parts: &[String], is_quick: bool) -> Result<Vec<&'static Selection>> {
    let exists = |part: &String| SELECTIONS.iter().any(|selection| selection.part == part);
    if let Some(unknown) = parts.iter().find(|part| !exists(part)) {
        anyhow::bail!("no part {unknown}: copying, sending, channels, c, program");
    }
    let is_chosen = |selection: &&Selection| {
        (parts.is_empty() || parts.iter().any(|part| part == selection.part))
            && (!is_quick || selection.is_quick)
    };
    Ok(SELECTIONS.iter().filter(is_chosen).collect())
}

/// Test program that was built, and the directory of its package.
pub(super) struct Built {
    program: PathBuf,
    directory: PathBuf,
}

/// Builds the programs of these selections; returns them by package and target.
///
/// # Errors
/// Cargo fails; its messages stand above.
pub(super) fn build(selections: &[&Selection]) -> Result<BTreeMap<(String, String), Built>> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--no-run", "--quiet", "--all-features", "--lib", "--tests"]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let mut packages = selections.iter().map(|selection| selection.package).collect::<Vec<_>>();
    packages.sort_unstable();
    packages.dedup();
    for package in packages {
        cargo.args(["--package", package]);
    }
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "the tests do not build");
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let artefacts = lines.filter_map(|line| serde_json::from_slice::<Artefact>(line).ok());
    let built = artefacts.filter_map(|artefact| {
        let directory = artefact.manifest_path.parent()?.to_owned();
        let package = directory.file_name()?.to_string_lossy().into_owned();
        Some(((package, artefact.target.name), Built { program: artefact.executable?, directory }))
    });
    Ok(built.collect())
}

#[derive(Deserialize)]
struct Artefact {
    manifest_path: PathBuf,
    target: Target,
    executable: Option<PathBuf>,
    // Only those of test programs are read: others have no such executable.
    #[serde(rename = "profile")]
    _profile: TestProfile,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Profile of a test program; another one is no [`Artefact`].
#[derive(Deserialize)]
#[serde(try_from = "Profile")]
struct TestProfile;

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl TryFrom<Profile> for TestProfile {
    type Error = &'static str;

    fn try_from(profile: Profile) -> Result<TestProfile, Self::Error> {
        if profile.test { Ok(TestProfile) } else { Err("no test program") }
    }
}

/// Lines that the guest reads: name, directory, limit in seconds, command.
///
/// # Errors
/// A program was not built.
pub(super) fn plan(
    selections: &[&Selection],
    built: &BTreeMap<(String, String), Built>,
) -> Result<String> {
    let mut plan = String::new();
    for selection in selections {
        let key = (selection.package.to_owned(), selection.target.to_owned());
        let Built { program, directory } =
            built.get(&key).with_context(|| format!("cargo built no {}", selection.target))?;
        writeln!(
            plan,
            "{}|{}|{}|{} {} -Z unstable-options --format json",
            selection.name,
            directory.display(),
            LIMIT.as_secs(),
            without_spaces(program)?,
            selection.words.join(" "),
        )?;
    }
    Ok(plan)
}

/// Time after which a guest that runs them all is stuck.
pub(super) fn patience(selections: &[&Selection]) -> Duration {
    LIMIT * u32::try_from(selections.len() + 1).unwrap_or(u32::MAX)
}

fn without_spaces(path: &Path) -> Result<std::path::Display<'_>> {
    let text = path.to_string_lossy();
    ensure!(
        !text.contains([' ', '|']),
        "the guest cannot start {text}; build in another directory"
    );
    Ok(path.display())
}
