//! `uncopy config show`.

use std::fmt::Write;
use std::path::Path;

use clap::error::ErrorKind;
use serde_json::{Value, json};

use super::{Origin, Setting, load};
use crate::exit::Exit;
use crate::flags::config::ConfigArgs;
use crate::flags::usage_error;
use crate::report::json::SCHEMA;
use crate::report::{self, printable};

/// Prints each setting with its value and origin.
pub(crate) fn run(flags: &ConfigArgs) -> Result<Exit, clap::Error> {
    let ConfigArgs::Show { path: destination, config, json } = flags;
    let (path, settings) = load(config.as_deref(), Some(destination))
        .map_err(|message| usage_error("config", ErrorKind::ValueValidation, &message))?;
    let text = if *json { object(path.as_deref(), &settings) } else { table(&settings) };
    Ok(match report::print(&text) {
        Ok(()) => Exit::Success,
        Err(error) => report::output_failed(&error),
    })
}

fn table(settings: &[Setting]) -> String {
    let width = |text: fn(&Setting) -> &str| {
        settings.iter().map(|setting| text(setting).len()).max().unwrap_or(0)
    };
    let (names, values) = (width(|setting| setting.key.name), width(|setting| &setting.value));
    settings.iter().fold(String::new(), |mut lines, setting| {
        let (name, value, origin) = (setting.key.name, &setting.value, setting.origin());
        let _ = writeln!(lines, "{name:names$}  {value:values$}  {}", printable(&origin));
        lines
    })
}

fn object(path: Option<&Path>, settings: &[Setting]) -> String {
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let settings: Vec<Value> = settings
        .iter()
        .map(|setting| {
            let (origin, file, line, variable) = match &setting.origin {
                Origin::BuiltIn => ("built_in", None, None, None),
                Origin::File { path, line } => ("file", Some(name(path)), Some(line), None),
                Origin::Variable => ("variable", None, None, Some(setting.key.variable())),
                Origin::Tuned { path, .. } => ("tuned", Some(name(path)), None, None),
            };
            let mut told = json!({
                "key": setting.key.name, "value": setting.value, "origin": origin,
                "file": file, "line": line, "variable": variable,
            });
            if let Origin::Tuned { filesystem, .. } = &setting.origin {
                told["filesystem"] = json!(filesystem);
            }
            told
        })
        .collect();
    report::json::line(&json!({ "schema": SCHEMA, "file": path.map(name), "settings": settings }))
}
