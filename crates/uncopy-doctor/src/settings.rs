//! Names and origins of the options of a copy.

use std::collections::BTreeMap;
use std::fmt;

use uncopy_core::{Choice, CopyOption};

/// Names of the options of a copy, and the places where they were set. The default has the names of
/// `CopyOptions`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Names of choices that differ from [`Choice::name`]: a program's flags.
    pub names: BTreeMap<Choice, String>,
    /// Place where options are set that are not in `origins`: "the flag".
    pub place: &'static str,
    /// Places where the other options are set, for people: an environment variable, a file and its line.
    pub origins: BTreeMap<CopyOption, String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { names: BTreeMap::new(), place: "the option", origins: BTreeMap::new() }
    }
}

impl Settings {
    pub(crate) fn name(&self, choice: Choice) -> &str {
        self.names.get(&choice).map_or(choice.name(), String::as_str)
    }

    /// Returns the origin of a choice; `None`: the usual place.
    pub(crate) fn origin(&self, choice: Choice) -> Option<&str> {
        self.origins.get(&choice.option()).map(String::as_str)
    }

    /// Returns the name of a choice, and its origin if that is not the usual place.
    pub(crate) fn setting(&self, choice: Choice) -> Setting {
        let name = self.name(choice).to_owned();
        Setting { choice, name, origin: self.origin(choice).map(str::to_owned) }
    }
}

/// Choice of the caller, with the caller's name for it.
///
/// Displayed as its name, with the origin behind it: `cache=keep (/etc/uncopy.toml, line 2)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The choice.
    pub choice: Choice,
    /// Name of the choice in [`Settings::names`], or its own.
    pub name: String,
    /// Origin in [`Settings::origins`]; `None`: the usual place.
    pub origin: Option<String>,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.origin.as_ref().map_or(Ok(()), |origin| write!(f, " ({origin})"))
    }
}
