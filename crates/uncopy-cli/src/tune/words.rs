//! Results of `uncopy tune` for people.

use std::fmt::Write;
use std::path::Path;

use uncopy::copy::tune::{Measured, MeasuredSetting};

use crate::report::printable;

/// Formats a table for each setting, with its result.
pub(super) fn report(path: &Path, measured: &Measured, file: Option<&Path>) -> String {
    let mut text = format!(
        "{} at {}, measured in {:.1} s\n",
        measured.identity,
        printable(&path.display().to_string()),
        measured.duration.as_secs_f64()
    );
    for setting in &measured.settings {
        describe(&mut text, setting);
    }
    if let Some(file) = file {
        let file = file.display().to_string();
        let _ = writeln!(text, "\nsaved in {}", printable(&file));
    }
    text
}

fn describe(text: &mut String, setting: &MeasuredSetting) {
    let value = formatted(setting, setting.value);
    let verdict = match setting.value == setting.built_in {
        true => "same as built in".to_owned(),
        false => format!("instead of {}", formatted(setting, setting.built_in)),
    };
    let _ = writeln!(text, "\n{}  {value}, {verdict}", setting.setting);
    let (usual, other) = columns(setting.setting);
    if !setting.compared.is_empty() {
        let _ = writeln!(text, "  {:>9}  {usual:>12}  {other:>12}  share  rounds", "");
    }
    for row in &setting.compared {
        let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let _ = writeln!(
            text,
            "  {:>9}  {:>9.3} ms  {:>9.3} ms  {:>3.0} %  {:>6}",
            formatted(setting, row.at),
            milliseconds(row.usual),
            milliseconds(row.other),
            row.ratio * 100.0,
            row.rounds,
        );
    }
    if let Some(missing) = &setting.missing {
        let _ = writeln!(text, "  not everything was measured: {missing}");
    }
}

/// Returns the headings of the two times of a setting.
fn columns(setting: &str) -> (&'static str, &'static str) {
    match setting {
        "zero-copy-min" => ("read_write", "in kernel"),
        "direct-min" => ("flushed", "direct"),
        "direct-cpu-min" => ("kernel, CPU", "direct, CPU"),
        _ => ("built in", "this one"),
    }
}

fn formatted(setting: &MeasuredSetting, value: u64) -> String {
    match value {
        value if setting.setting == "jobs" => value.to_string(),
        value if value >= 1 << 20 && value % (1 << 20) == 0 => format!("{} MiB", value >> 20),
        value if value >= 1 << 10 && value % (1 << 10) == 0 => format!("{} KiB", value >> 10),
        value => format!("{value} bytes"),
    }
}
