//! `uncopy tune`.

mod json;
mod words;

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::time::SystemTime;

use uncopy::copy::Control;
use uncopy::copy::tune::{Measured, tune};

use crate::config::tuned::{self, Tuned};
use crate::exit::Exit;
use crate::flags::tune::TuneArgs;
use crate::progress::StatusLine;
use crate::report::{self, Failure};
use crate::stop::{self, Stop};

/// Measures, prints the results, and saves them with `--save`.
pub(crate) fn run(flags: &TuneArgs) -> Result<Exit, clap::Error> {
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    stop.listen();
    // Before the time is spent.
    let place = match flags.save.then(tuned::writable).transpose() {
        Ok(place) => place,
        Err(message) => {
            report::say(&message);
            return Ok(Exit::Failure);
        }
    };
    let mut line = stderr().is_terminal().then(StatusLine::default);
    let measured = tune(&flags.path, &mut |setting| {
        if let Some(line) = &mut line {
            line.show_text(&format!("measuring {setting}"));
        }
        if stop.requested().is_some() { Control::Stop } else { Control::Continue }
    });
    drop(line);
    let measured = match (measured, stop.requested()) {
        (Ok(measured), _) => measured,
        (Err(error), Some(signal)) if error.is_cancelled() => {
            report::say(&format!(
                "stopped by {}; no files are left, and nothing was saved",
                signal.name()
            ));
            return Ok(signal.end());
        }
        (Err(error), _) => {
            let failure = Failure::from(&error);
            report::say(&failure.to_string());
            return Ok(failure.exit);
        }
    };
    let kept = place.as_deref().map(|file| save(file, &flags.path, &measured)).transpose();
    let file = place.as_deref().filter(|_| kept.is_ok());
    let text = match flags.json {
        true => json::report(&flags.path, &measured, file),
        false => words::report(&flags.path, &measured, file),
    };
    let mut exit = match report::print(&text) {
        Ok(()) => Exit::Success,
        Err(error) => report::output_failed(&error),
    };
    if let Err(message) = kept {
        report::say(&message);
        exit = exit.and(Exit::Failure);
    }
    Ok(exit)
}

/// Saves the values that differ from those built in.
fn save(file: &Path, path: &Path, measured: &Measured) -> Result<(), String> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let changed = measured.settings.iter().filter(|setting| setting.value != setting.built_in);
    let values: BTreeMap<String, u64> =
        changed.map(|setting| (setting.setting.to_owned(), setting.value)).collect();
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let tuned = Tuned { path: path.to_string_lossy().into_owned(), time, values };
    tuned::save(file, &measured.identity, tuned)
}
