//! Settings of `uncopy cp`: built in, measured, from a file, from the environment. Flags override
//! them.

mod file;
mod key;
pub(crate) mod show;
pub(crate) mod tuned;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use uncopy::copy::CopyOption;
use uncopy::follow;

use crate::flags::copy::CopyArgs;
use crate::flags::usage_error;
use crate::report::{describe, of_file, say};
use key::{KEYS, Key};

/// Variable with the path of the file.
const UNCOPY_CONFIG: &str = "UNCOPY_CONFIG";

/// Maximum size of a configuration file; a larger one may be a device by mistake.
const MAX_BYTES: u64 = 1 << 20;

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    BuiltIn,
    File {
        path: PathBuf,
        line: usize,
    },
    Variable,
    /// On the machine where the command line was typed.
    Peer,
    /// Measured on the filesystem of the destination.
    Tuned {
        path: PathBuf,
        filesystem: String,
    },
}

/// A setting with its value.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    key: &'static Key,
    value: String,
    origin: Origin,
}

impl Setting {
    /// Describes the origin of the value.
    pub(crate) fn origin(&self) -> String {
        match &self.origin {
            Origin::BuiltIn => String::from("built in"),
            Origin::File { path, line } => format!("{}, line {line}", path.display()),
            Origin::Variable => format!("{} in the environment", self.key.variable()),
            Origin::Peer => String::from("on the machine of the command line"),
            Origin::Tuned { path, filesystem } => {
                format!("measured on {filesystem}, {}", path.display())
            }
        }
    }

    /// Whether the value was measured, not chosen.
    pub(crate) fn is_tuned(&self) -> bool {
        matches!(self.origin, Origin::Tuned { .. })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key.name, self.value, self.origin())
    }
}

/// Flags of `uncopy cp`, with the values of settings where no flag was given.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) flags: CopyArgs,
    /// Settings that were applied to `flags`.
    pub(crate) applied: Vec<Setting>,
}

/// A file in a default place that this user may not read, or whose link is not followed.
#[derive(Debug)]
struct Unread {
    path: PathBuf,
    error: io::Error,
}

/// Settings that were found.
struct Loaded {
    /// Configuration file that was read.
    file: Option<PathBuf>,
    /// Every setting.
    settings: Vec<Setting>,
    unread: Vec<Unread>,
}

impl Loaded {
    /// Warns of files that could not be read, in one line. The copy continues: after `sudo` or `su`
    /// the home directory may belong to another user.
    fn warn(&self) {
        let files: Vec<String> = self
            .unread
            .iter()
            .map(|Unread { path, error }| format!("{}: {}", path.display(), describe(error)))
            .collect();
        if !files.is_empty() {
            say(&format!(
                "warning: cannot read {}; its settings are ignored; make it readable, set HOME to your \
                 own directory, or name a file with --config",
                files.join(", ")
            ));
        }
    }
}

/// A file in a default place.
enum DefaultFile {
    Text(Vec<u8>),
    Missing,
    Unread(Unread),
}

impl Configured {
    /// Reads the file that the flags name, or the default one, and the environment; and values that
    /// were measured on the filesystem of `destination`, or of the destination in the flags.
    /// `is_given` says whether a flag is on the command line. A file in a default place that may
    /// not be read is ignored with a warning.
    ///
    /// # Errors A value is invalid, or the file that is named cannot be read.
    pub(crate) fn new(
        flags: CopyArgs,
        destination: Option<&Path>,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<Configured, clap::Error> {
        let named = destination.map(Path::to_owned).or_else(|| flags.destination());
        // Measured values are those of copies with both sides here.
        let named = named.filter(|_| !flags.names_machine());
        let loaded = load(flags.config.as_deref(), named.as_deref());
        let misuse =
            |message: String| usage_error(flags.subcommand(), ErrorKind::ValueValidation, &message);
        let loaded = loaded.map_err(misuse)?;
        loaded.warn();
        Ok(apply(flags, loaded.settings, is_given))
    }

    /// As [`Configured::new`], for flags from the parser.
    pub(crate) fn parsed(
        matches: &ArgMatches,
        destination: Option<&Path>,
    ) -> Result<Configured, clap::Error> {
        let is_given = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
        Configured::new(CopyArgs::from_arg_matches(matches)?, destination, is_given)
    }

    /// Returns the names and values of the settings that were applied.
    #[cfg(target_os = "linux")]
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.applied.iter().map(|setting| (setting.key.name, setting.value.as_str()))
    }

    /// Applies the settings of another machine, and none of this one.
    ///
    /// # Errors
    /// A sentence for people: this version has no such setting, or not with this value.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_peer<'a>(
        flags: CopyArgs,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<Configured, String> {
        let settings = settings.into_iter().map(|(name, value)| {
            let key = Key::named(name)?;
            key.check(value).map_err(|next_step| format!("{name} is {value:?}; {next_step}"))?;
            Ok(Setting { key, value: value.to_owned(), origin: Origin::Peer })
        });
        Ok(apply(flags, settings.collect::<Result<_, String>>()?, is_given))
    }

    /// Returns the value of a setting of this machine, whatever a command line says.
    ///
    /// # Errors
    /// A sentence for people: a setting is invalid, or the file cannot be read.
    #[cfg(all(feature = "remote", target_os = "linux"))]
    pub(crate) fn of_this_machine(name: &str) -> Result<Option<String>, String> {
        let loaded = load(None, None)?;
        if let Some(Unread { path, error }) = loaded.unread.first() {
            return Err(format!("cannot read {}: {}", path.display(), describe(error)));
        }
        let found = loaded.settings.into_iter().find(|setting| setting.key.name == name);
        Ok(found.map(|setting| setting.value))
    }

    /// Returns the origins of the settings that were applied.
    pub(crate) fn origins(&self) -> BTreeMap<CopyOption, String> {
        let options = self.applied.iter().flat_map(|setting| {
            setting.key.options.iter().map(|option| (*option, setting.origin()))
        });
        options.collect()
    }

    /// Returns the setting of this name, if it was applied.
    pub(crate) fn setting(&self, name: &str) -> Option<&Setting> {
        self.applied.iter().find(|setting| setting.key.name == name)
    }
}

/// Sets flags that were not given to the values of the settings.
fn apply(
    mut flags: CopyArgs,
    settings: Vec<Setting>,
    is_given: impl Fn(&str) -> bool,
) -> Configured {
    let applies = |setting: &Setting| {
        setting.origin != Origin::BuiltIn && !setting.key.is_overridden(&is_given)
    };
    let applied: Vec<Setting> = settings.into_iter().filter(applies).collect();
    for setting in &applied {
        setting.key.apply(&mut flags, &setting.value);
    }
    Configured { flags, applied }
}

/// Returns every setting, with the value of the environment, else of the file, else the measured
/// one, else the one built in. An empty variable counts as not set.
///
/// # Errors A sentence for people: a variable has an invalid value.
fn merge(
    file: &[Setting],
    tuned: &[Setting],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<Setting>, String> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let settings = KEYS.iter().map(|key| {
        let name = key.variable();
        if let Some(value) = set(&name) {
            let value = value.to_string_lossy().into_owned();
            key.check(&value).map_err(|next_step| {
                format!("{name} in the environment is {value:?}; {next_step}, or unset it")
            })?;
            return Ok(Setting { key, value, origin: Origin::Variable });
        }
        let found = file.iter().chain(tuned).find(|setting| setting.key.name == key.name);
        Ok(found.cloned().unwrap_or_else(|| Setting {
            key,
            value: key.built_in.to_owned(),
            origin: Origin::BuiltIn,
        }))
    });
    settings.collect()
}

/// Loads every setting. Measured values are those of the filesystem of `destination`.
///
/// # Errors A sentence for people: the file that is named cannot be read, or a file or variable has
/// an invalid value.
fn load(named: Option<&Path>, destination: Option<&Path>) -> Result<Loaded, String> {
    let variable = |name: &str| std::env::var_os(name);
    let mut unread = Vec::new();
    let (file, settings) = match place(named, variable) {
        Some((path, true)) => {
            let text = read(&path).map_err(|error| {
                let (path, error) = (path.display(), describe(&error));
                format!(
                    "cannot read the configuration file {path}: {error}; name one that can be read \
                     with --config"
                )
            })?;
            (Some(path.clone()), file::parse(&path, &text)?)
        }
        Some((path, false)) => match read_default(&path)? {
            DefaultFile::Text(text) => (Some(path.clone()), file::parse(&path, &text)?),
            DefaultFile::Missing => (None, Vec::new()),
            DefaultFile::Unread(why) => {
                unread.push(why);
                (None, Vec::new())
            }
        },
        None => (None, Vec::new()),
    };
    let tuned = match destination {
        Some(destination) => tuned::settings(destination, &mut unread)?,
        None => Vec::new(),
    };
    Ok(Loaded { file, settings: merge(&settings, &tuned, variable)?, unread })
}

/// Returns the configuration file, and whether it must exist. Without a home directory there is
/// none.
///
/// A relative `XDG_CONFIG_HOME` is ignored, as the XDG Base Directory Specification requires.
fn place(
    named: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<(PathBuf, bool)> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = named.map(Path::to_owned).or_else(|| set(UNCOPY_CONFIG)) {
        return Some((path, true));
    }
    Some((default_place("config.toml", variable)?, false))
}

/// Returns the path of this file in the user's configuration directory.
fn default_place(name: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let below = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let below = below.or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(below.join("uncopy").join(name))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = follow::open(path).map_err(|error| of_file(&error))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

/// Reads a file that may be missing.
///
/// # Errors A sentence for people: the file is too large.
fn read_default(path: &Path) -> Result<DefaultFile, String> {
    match read(path) {
        Ok(text) => Ok(DefaultFile::Text(text)),
        Err(error) if is_absence(&error) => Ok(DefaultFile::Missing),
        // Without a number it is a link that another user may have planted.
        Err(error)
            if error.raw_os_error().is_some()
                || error.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(DefaultFile::Unread(Unread { path: path.to_owned(), error }))
        }
        Err(error) => {
            Err(format!("cannot read {}: {error}; remove it, or write a new one", path.display()))
        }
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;
    use crate::flags::links::Following;

    fn file(text: &str) -> Vec<Setting> {
        file::parse(Path::new("/c"), text.as_bytes()).unwrap()
    }

    fn variables(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    fn configured(line: &str, text: &str, pairs: &[(&str, &str)]) -> Configured {
        let words = std::iter::once("cp").chain(line.split_whitespace());
        let matches = CopyArgs::augment_args(Command::new("cp")).get_matches_from(words);
        let settings = merge(&file(text), &[], variables(pairs)).unwrap();
        let is_given = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
        apply(CopyArgs::from_arg_matches(&matches).unwrap(), settings, is_given)
    }

    fn measured(name: &str, value: &str) -> Setting {
        let origin = Origin::Tuned { path: PathBuf::from("/t"), filesystem: String::from("ext4") };
        Setting { key: Key::named(name).unwrap(), value: value.to_owned(), origin }
    }

    #[test]
    fn what_was_measured_displaces_only_what_is_built_in() {
        let measured = [measured("jobs", "9")];
        for (line, text, pairs, expected, origin) in [
            ("-r", "", &[][..], Some(9), Some("jobs = 9 (measured on ext4, /t)")),
            ("-r", "jobs = 5", &[], Some(5), Some("jobs = 5 (/c, line 1)")),
            ("-r", "jobs = 'auto'", &[], None, Some("jobs = auto (/c, line 1)")),
            (
                "-r",
                "",
                &[("UNCOPY_JOBS", "7")],
                Some(7),
                Some("jobs = 7 (UNCOPY_JOBS in the environment)"),
            ),
            ("-r --jobs=3", "", &[], Some(3), None),
        ] {
            let words = std::iter::once("cp").chain(line.split_whitespace());
            let matches = CopyArgs::augment_args(Command::new("cp")).get_matches_from(words);
            let settings = merge(&file(text), &measured, variables(pairs)).unwrap();
            let is_given = |f: &str| matches.value_source(f) == Some(ValueSource::CommandLine);
            let flags = CopyArgs::from_arg_matches(&matches).unwrap();
            let found = apply(flags, settings, is_given);
            assert_eq!(found.flags.tree.jobs.map(usize::from), expected, "{line} {text}");
            let setting = found.setting("jobs").map(ToString::to_string);
            assert_eq!(setting.as_deref(), origin, "{line} {text}");
        }
    }

    #[test]
    fn a_variable_displaces_the_file_and_both_what_is_built_in() {
        let measured = [measured("links", "skip")];
        for (text, pairs, expected) in [
            ("", &[][..], "retries = 3 (built in)"),
            ("retries = 5", &[], "retries = 5 (/c, line 1)"),
            ("", &[("UNCOPY_RETRIES", "7")], "retries = 7 (UNCOPY_RETRIES in the environment)"),
            (
                "retries = 5",
                &[("UNCOPY_RETRIES", "7")],
                "retries = 7 (UNCOPY_RETRIES in the environment)",
            ),
            ("retries = 5", &[("UNCOPY_RETRIES", "")], "retries = 5 (/c, line 1)"),
            ("jobs = 1\nretries = 5", &[("UNCOPY_JOBS", "7")], "retries = 5 (/c, line 2)"),
        ] {
            let merged = merge(&file(text), &measured, variables(pairs)).unwrap();
            assert_eq!(merged.len(), KEYS.len());
            let found = merged.iter().find(|setting| setting.key.name == "retries").unwrap();
            assert_eq!(found.to_string(), expected, "{text} {pairs:?}");
        }
    }

    #[test]
    fn a_variable_that_makes_no_sense_is_an_error() {
        let merged = merge(&[], &[], variables(&[("UNCOPY_MAX_BANDWIDTH", "fast")]));
        assert_eq!(
            merged.unwrap_err(),
            "UNCOPY_MAX_BANDWIDTH in the environment is \"fast\"; set it to none, or bytes per \
             second such as 50M or 1.5MiB, or unset it"
        );
    }

    /// Each key with a value that is not the built-in one: as a flag, it is the same.
    #[test]
    fn a_setting_is_its_flag() {
        let rows = [
            ("verify = 'sha256'", "--verify=sha256"),
            ("digest = 'xxh3'", "--digest=xxh3"),
            ("durable = true", "--durable"),
            ("preserve = ['mode', 'acl']", "--preserve=mode,acl"),
            ("if-changed = 'retry'", "--if-changed=retry"),
            ("method = 'direct'", "--method=direct"),
            ("require = 'moved'", "--require=moved"),
            ("prefer = 'cpu'", "--prefer=cpu"),
            ("sparse = 'never'", "--sparse=never"),
            ("cache = 'skip'", "--cache=skip"),
            ("compress = 'zstd:19'", "--compress=zstd:19"),
            ("decompress = true", "--decompress"),
            ("max-bandwidth = '1M'", "--max-bandwidth=1M"),
            ("zero-copy-min = '16Ki'", "--zero-copy-min=16Ki"),
            ("direct-min = '2Mi'", "--direct-min=2Mi"),
            ("direct-cpu-min = 0", "--direct-cpu-min=0"),
            ("buffer-size = 65536", "--buffer-size=64Ki"),
            ("jobs = 3", "-r --jobs=3"),
            ("retries = 0", "-r --retries=0"),
            ("on-error = 'abort'", "-r --on-error=abort"),
            ("links = 'skip'", "-r --links=skip"),
            ("rsh = 'krsh'", "--rsh=krsh"),
            ("remote-program = '/opt/uncopy'", "--remote-program=/opt/uncopy"),
            ("data = 'ssh'", "--data=ssh"),
            ("connections = 16", "--connections=16"),
            ("data-ports = '7000-7010'", "--data-ports=7000-7010"),
        ];
        assert_eq!(
            rows.map(|(text, _)| text.split(' ').next()),
            KEYS.each_ref().map(|key| Some(key.name))
        );
        let rules = ["require-zero-copy", "no-user-copy", "no-zero-copy"]
            .map(|rule| (format!("method = '{rule}'"), format!("--{rule}")));
        let rules = rules.iter().map(|(text, flag)| (text.as_str(), flag.as_str()));
        for (text, flag) in rows.into_iter().chain(rules) {
            let recursive = if flag.starts_with("-r") { "-r" } else { "" };
            let by_file = configured(recursive, text, &[]);
            let mut by_flag = configured(flag, "", &[]);
            if let Some(Following::As(how)) = by_flag.flags.tree.links.symbolic.take() {
                // A setting applies to trees alone, a flag to single files too.
                by_flag.flags.tree.links.of_trees = how;
            }
            assert_eq!(format!("{:?}", by_file.flags), format!("{:?}", by_flag.flags), "{text}");
            assert_eq!((by_file.applied.len(), by_flag.applied.len()), (1, 0), "{text}");
        }
    }

    #[test]
    fn what_is_built_in_is_what_the_flags_have_by_themselves() {
        let bare = configured("", "", &[]);
        // Naming the built-in value means more here: the source is flushed first.
        for key in KEYS.iter().filter(|key| key.name != "if-changed") {
            let mut flags = configured("", "", &[]).flags;
            key.apply(&mut flags, key.built_in);
            assert_eq!(format!("{flags:?}"), format!("{:?}", bare.flags), "{}", key.name);
        }
    }

    #[test]
    fn flags_displace_settings() {
        for (line, text) in [
            ("--verify", "verify = 'sha256'"),
            ("--no-verify", "verify = 'sha256'"),
            ("--digest", "digest = 'sha256'"),
            ("--no-digest", "digest = 'sha256'"),
            ("--durable", "durable = false"),
            ("--no-durable", "durable = true"),
            ("-p", "preserve = 'xattr'"),
            ("--no-preserve", "preserve = 'xattr'"),
            ("--method=auto", "method = 'direct'"),
            ("--zero-copy", "method = 'direct'"),
            ("--no-zero-copy", "method = 'direct'"),
            ("--require-zero-copy", "method = 'no-zero-copy'"),
            ("--require=shared", "method = 'direct'"),
            ("--require=none", "require = 'shared'"),
            ("--no-user-copy", "require = 'shared'"),
            ("--zero-copy", "require = 'shared'"),
            ("--no-zero-copy", "require = 'shared'"),
            ("--cache=auto", "cache = 'skip'"),
            ("--compress=zstd", "compress = 'zstd:19'"),
            ("--compress=zstd", "decompress = true"),
            ("--decompress", "compress = 'zstd'"),
            ("--no-compress", "compress = 'zstd'"),
            ("--no-compress", "decompress = true"),
            ("-r --retries=3", "retries = 9"),
        ] {
            let (with, without) = (configured(line, text, &[]), configured(line, "", &[]));
            assert_eq!(format!("{:?}", with.flags), format!("{:?}", without.flags), "{line}");
            assert!(with.applied.is_empty(), "{line}");
        }
    }

    #[test]
    fn the_file_is_named_or_in_the_default_place() {
        type Variables = &'static [(&'static str, &'static str)];
        type Row = (Option<&'static str>, Variables, Option<(&'static str, bool)>);
        let rows: [Row; 7] = [
            (Some("a"), &[("UNCOPY_CONFIG", "b"), ("HOME", "/h")], Some(("a", true))),
            (None, &[("UNCOPY_CONFIG", "b"), ("HOME", "/h")], Some(("b", true))),
            (
                None,
                &[("UNCOPY_CONFIG", ""), ("HOME", "/h")],
                Some(("/h/.config/uncopy/config.toml", false)),
            ),
            (
                None,
                &[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")],
                Some(("/x/uncopy/config.toml", false)),
            ),
            (
                None,
                &[("XDG_CONFIG_HOME", "x"), ("HOME", "/h")],
                Some(("/h/.config/uncopy/config.toml", false)),
            ),
            (None, &[("HOME", "")], None),
            (None, &[], None),
        ];
        for (named, pairs, expected) in rows {
            let found = place(named.map(Path::new), variables(pairs));
            let expected = expected.map(|(path, must_exist)| (PathBuf::from(path), must_exist));
            assert_eq!(found, expected, "{named:?} {pairs:?}");
        }
    }
}
