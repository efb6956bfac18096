//! `uncopy config show`.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

use clap::error::ErrorKind;
use serde::Serialize;
use uncopy::Errno;

use super::{Loaded, Origin, Setting, Unread, load};
use crate::exit::Exit;
use crate::flags::config::ConfigArgs;
use crate::flags::usage_error;
use crate::report::json::SCHEMA;
use crate::report::{self, printable};

/// Prints each setting with its value and origin.
pub(crate) fn run(flags: &ConfigArgs) -> Result<Exit, clap::Error> {
    let ConfigArgs::Show { path: destination, config, json } = flags;
    let loaded = load(config.as_deref(), Some(destination))
        .map_err(|message| usage_error("config", ErrorKind::ValueValidation, &message))?;
    loaded.warn();
    let text = if *json { object(&loaded) } else { table(&loaded.settings) };
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

/// JSON output, documented in `docs/json.md`.
#[derive(Serialize)]
struct Shown<'a> {
    schema: u32,
    file: Option<Cow<'a, str>>,
    unread: Vec<NotRead<'a>>,
    settings: Vec<One<'a>>,
}

/// A file in a default place that may not be read.
#[derive(Serialize)]
struct NotRead<'a> {
    file: Cow<'a, str>,
    errno: Option<i32>,
    errno_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_error: Option<i32>,
}

/// A setting, its value and its origin.
#[derive(Serialize)]
struct One<'a> {
    key: &'static str,
    value: &'a str,
    origin: &'static str,
    file: Option<Cow<'a, str>>,
    line: Option<usize>,
    variable: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filesystem: Option<&'a str>,
}

fn object(loaded: &Loaded) -> String {
    report::json::line(&Shown {
        schema: SCHEMA,
        file: loaded.file.as_deref().map(Path::to_string_lossy),
        unread: loaded.unread.iter().map(NotRead::from).collect(),
        settings: loaded.settings.iter().map(One::from).collect(),
    })
}

impl<'a> From<&'a Unread> for NotRead<'a> {
    fn from(unread: &'a Unread) -> NotRead<'a> {
        let errno = Errno::of(&unread.error);
        NotRead {
            file: unread.path.to_string_lossy(),
            errno: errno.map(Errno::raw),
            errno_name: errno.and_then(Errno::name),
            os_error: unread.error.raw_os_error().filter(|_| errno.is_none()),
        }
    }
}

impl<'a> From<&'a Setting> for One<'a> {
    fn from(setting: &'a Setting) -> One<'a> {
        let Setting { key, value, origin } = setting;
        let mut one = One {
            key: key.name,
            value,
            origin: "built_in",
            file: None,
            line: None,
            variable: None,
            filesystem: None,
        };
        match origin {
            Origin::BuiltIn => {}
            Origin::File { path, line } => {
                one.origin = "file";
                one.file = Some(path.to_string_lossy());
                one.line = Some(*line);
            }
            Origin::Variable => {
                one.origin = "variable";
                one.variable = Some(key.variable());
            }
            // A copy for another machine alone has it, and shows no settings.
            Origin::Peer => one.origin = "peer",
            Origin::Tuned { path, filesystem } => {
                one.origin = "tuned";
                one.file = Some(path.to_string_lossy());
                one.filesystem = Some(filesystem);
            }
        }
        one
    }
}
