//! Subjects that are pieces of this program, or programs that measure themselves, and what
//! surrounds them: nothing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::case::{Action, Fixture, Role, Subject, Trial};
use super::metric::{CPU_EACH, Sample, TIME_EACH};
use crate::peers::Installed;

/// A subject whose `open` makes what `run` needs, once, when it is run for the first time.
pub(super) fn subject<T: 'static>(
    name: &str,
    role: Role,
    open: impl Fn() -> Result<T> + 'static,
    mut run: impl FnMut(&mut T) -> Result<Sample> + 'static,
) -> Subject {
    let mut opened = None;
    let action = Action::Closure(Box::new(move |_| {
        let opened = match &mut opened {
            Some(opened) => opened,
            none => none.insert(open()?),
        };
        run(opened)
    }));
    Subject { name: name.to_owned(), role, action }
}

/// What a peer prints.
#[derive(Deserialize)]
struct Printed {
    nanoseconds: f64,
    cpu_nanoseconds: f64,
}

/// Runs a peer that measures itself, with `words` after its own flags.
pub(super) fn run_peer(peer: &Installed, words: &[String]) -> Result<Sample> {
    let Installed { program, flags, .. } = peer;
    let output = Command::new(program).args(*flags).args(words).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.lines().next().unwrap_or("it said nothing"));
    let printed: Printed = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} did not print its figures", program.display()))?;
    Ok(Sample::from([(TIME_EACH, printed.nanoseconds), (CPU_EACH, printed.cpu_nanoseconds)]))
}

/// Nothing surrounds a run but a directory that nobody looks into.
pub(super) struct Bare(pub(super) PathBuf);

impl Fixture for Bare {
    fn prepare(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    fn directory(&self) -> PathBuf {
        self.0.clone()
    }

    fn before(&mut self, _: &[OsString]) -> Result<()> {
        Ok(())
    }

    fn after(&mut self, _: &Trial) -> Result<Sample> {
        Ok(Sample::new())
    }

    fn between_rounds(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
