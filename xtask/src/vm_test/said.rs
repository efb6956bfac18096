//! Lines that the machine says to us: a name, a number, and an object.

use anyhow::{Context, Result};
use serde_json::Value;

/// A line.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) name: String,
    /// A count, or the exit code of a program.
    pub(super) number: u64,
    /// Output of the program; null if there was none, or no JSON.
    pub(super) json: Value,
}

impl Said {
    /// `None`: the line is another one.
    pub(super) fn of(line: &str) -> Option<Said> {
        let (name, rest) = line.split_once(' ')?;
        let (number, json) = rest.split_once(' ')?;
        let json = serde_json::from_str(json).unwrap_or_default();
        Some(Said { name: name.to_owned(), number: number.parse().ok()?, json })
    }
}

/// The line of this name.
///
/// # Errors
/// There is none.
pub(super) fn find<'a>(said: &'a [Said], name: &str) -> Result<&'a Said> {
    let found = said.iter().find(|said| said.name == name);
    found.with_context(|| format!("{name} said nothing"))
}
