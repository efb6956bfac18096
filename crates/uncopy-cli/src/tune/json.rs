//! Results of `uncopy tune` for programs, documented in `docs/json.md`.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;
use uncopy::copy::tune;

use crate::report::json::{SCHEMA, line, microseconds};

#[derive(Serialize)]
struct Measured<'a> {
    schema: u32,
    path: Cow<'a, str>,
    filesystem: String,
    identity: &'a str,
    settings: Vec<Setting<'a>>,
    duration_us: u64,
    saved: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Setting<'a> {
    key: &'static str,
    built_in: u64,
    value: u64,
    missing: Option<&'a str>,
    compared: Vec<Compared>,
}

#[derive(Serialize)]
struct Compared {
    at: u64,
    usual_us: u64,
    other_us: u64,
    ratio: f64,
    rounds: usize,
}

/// Formats the results as one object on one line.
pub(super) fn report(path: &Path, measured: &tune::Measured, saved: Option<&Path>) -> String {
    line(&Measured {
        schema: SCHEMA,
        path: path.to_string_lossy(),
        filesystem: measured.filesystem.to_string(),
        identity: &measured.identity,
        settings: measured.settings.iter().map(Setting::from).collect(),
        duration_us: microseconds(measured.duration),
        saved: saved.map(Path::to_string_lossy),
    })
}

impl<'a> From<&'a tune::MeasuredSetting> for Setting<'a> {
    fn from(setting: &'a tune::MeasuredSetting) -> Setting<'a> {
        Setting {
            key: setting.setting,
            built_in: setting.built_in,
            value: setting.value,
            missing: setting.missing.as_deref(),
            compared: setting.compared.iter().map(Compared::from).collect(),
        }
    }
}

impl From<&tune::Compared> for Compared {
    fn from(compared: &tune::Compared) -> Compared {
        Compared {
            at: compared.at,
            usual_us: microseconds(compared.usual),
            other_us: microseconds(compared.other),
            ratio: compared.ratio,
            rounds: compared.rounds,
        }
    }
}
