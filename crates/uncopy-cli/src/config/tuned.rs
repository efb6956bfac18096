//! Results of `uncopy tune --save`: one table for each filesystem, by its identity.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uncopy::capabilities::identity;

use super::key::Key;
use super::{DefaultFile, Origin, Setting, Unread, default_place, read_default};
use crate::replaced_file::{Replacement, replace};
use crate::report::describe;

const FILE: &str = "tuned.toml";

const HEAD: &str = "# Written by `uncopy tune --save`; each table is a filesystem. Remove values that you do not want.\n";

type Tables = BTreeMap<String, Tuned>;

/// Results for one filesystem, without values that are the same as built in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tuned {
    /// Path where it was measured.
    pub(crate) path: String,
    /// Time of the measurement.
    pub(crate) time: String,
    /// Values of the settings.
    #[serde(flatten)]
    pub(crate) values: BTreeMap<String, u64>,
}

/// Returns the settings that were measured on the filesystem of `path`, or of its nearest existing
/// parent directory. A file that may not be read is added to `unread`.
///
/// # Errors A sentence for people: the file is not valid.
pub(super) fn settings(path: &Path, unread: &mut Vec<Unread>) -> Result<Vec<Setting>, String> {
    let Some(file) = default_place(FILE, |name| std::env::var_os(name)) else {
        return Ok(Vec::new());
    };
    let tables = match read_default(&file)? {
        DefaultFile::Text(text) => parse(&file, &text)?,
        DefaultFile::Missing => Tables::new(),
        DefaultFile::Unread(why) => {
            unread.push(why);
            Tables::new()
        }
    };
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let known = path.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        identity(path).ok()
    });
    let Some((known, tuned)) = known.and_then(|known| {
        let tuned = tables.get(&known.id)?.clone();
        Some((known.id, tuned))
    }) else {
        return Ok(Vec::new());
    };
    tuned.values.into_iter().map(|(name, value)| setting(&file, &known, &name, value)).collect()
}

fn setting(file: &Path, filesystem: &str, name: &str, value: u64) -> Result<Setting, String> {
    let wrong = |text: &str| {
        let file = file.display();
        format!("{file}, [{filesystem:?}]: {text}; remove it, or measure again: uncopy tune --save")
    };
    let key = Key::named(name).map_err(|text| wrong(&text))?;
    let value = value.to_string();
    key.check(&value).map_err(|next_step| wrong(&format!("{name} is {value}; {next_step}")))?;
    let origin = Origin::Tuned { path: file.to_owned(), filesystem: filesystem.to_owned() };
    Ok(Setting { key, value, origin })
}

fn parse(file: &Path, text: &[u8]) -> Result<Tables, String> {
    let next_step = "remove it, or measure again: uncopy tune --save";
    toml::from_slice(text).map_err(|error| {
        let message = error.message().trim().replace('\n', ", ");
        format!("{} is not valid: {message}; {next_step}", file.display())
    })
}

/// Checks, for `fuzz/`, that a file is refused with a sentence or survives being written and read
/// again.
#[cfg(fuzzing)]
pub(crate) fn fuzz(text: &[u8]) {
    let file = Path::new("/tuned.toml");
    let tables = match parse(file, text) {
        Ok(tables) => tables,
        Err(error) => return assert!(error.starts_with("/tuned.toml is not valid: "), "{error}"),
    };
    for (filesystem, tuned) in &tables {
        for (name, value) in &tuned.values {
            match setting(file, filesystem, name, *value) {
                Ok(setting) => assert_eq!(setting.value, value.to_string()),
                Err(error) => assert!(error.ends_with("uncopy tune --save"), "{error}"),
            }
        }
    }
    // TOML has no numbers above 2^63 - 1.
    if let Ok(text) = toml::to_string(&tables) {
        assert_eq!(parse(file, text.as_bytes()).as_ref(), Ok(&tables));
    }
}

/// Returns the path of the file, if results can be saved there. Nothing of the trial is left.
///
/// # Errors A sentence for people.
pub(crate) fn writable() -> Result<PathBuf, String> {
    let Some(file) = default_place(FILE, |name| std::env::var_os(name)) else {
        return Err(String::from(
            "there is no directory for the results; set HOME or XDG_CONFIG_HOME to your own",
        ));
    };
    let is_missing = |path: &&Path| matches!(path.try_exists(), Ok(false));
    let missing: Vec<&Path> = file.ancestors().skip(1).take_while(is_missing).collect();
    let tried = make_directory(&file).and_then(|()| Replacement::begin(&file).map(drop));
    missing.into_iter().for_each(|directory| drop(fs::remove_dir(directory)));
    match tried {
        Ok(()) => Ok(file),
        Err(error) => Err(cannot_write(&file, &error)),
    }
}

/// Saves the results for a filesystem, replacing earlier ones, in the file that [`writable`] returned.
///
/// # Errors A sentence for people; the file is unchanged.
pub(crate) fn save(file: &Path, filesystem: &str, tuned: Tuned) -> Result<(), String> {
    // A file that is not valid contains nothing worth keeping.
    let mut tables = match read_default(file) {
        Ok(DefaultFile::Text(text)) => parse(file, &text).unwrap_or_default(),
        _ => Tables::new(),
    };
    tables.insert(filesystem.to_owned(), tuned);
    let text = toml::to_string(&tables).map_err(|error| error.to_string())?;
    let written =
        make_directory(file).and_then(|()| replace(file, format!("{HEAD}\n{text}").as_bytes()));
    written.map_err(|error| cannot_write(file, &error))
}

fn make_directory(file: &Path) -> io::Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))
}

fn cannot_write(file: &Path, error: &io::Error) -> String {
    let (file, error) = (file.display(), describe(error));
    format!("cannot write {file}: {error}; set XDG_CONFIG_HOME to another directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_written_as_they_are_read() {
        let tuned = Tuned {
            path: String::from("/srv"),
            time: String::from("2026-01-02T03:04:05Z"),
            values: BTreeMap::from([("jobs".into(), 4), ("zero-copy-min".into(), 131_072)]),
        };
        let tables = Tables::from([(String::from("ext4 uuid 01"), tuned)]);
        let text = toml::to_string(&tables).unwrap();
        assert_eq!(
            text,
            "[\"ext4 uuid 01\"]\npath = \"/srv\"\ntime = \"2026-01-02T03:04:05Z\"\njobs = 4\n\
             zero-copy-min = 131072\n"
        );
        assert_eq!(toml::from_str::<Tables>(&text).unwrap(), tables);
    }

    #[test]
    fn errors_name_file_and_next_step() {
        for (name, value, says) in [
            ("jobs", 0, "jobs is 0; set it to auto, or a number of workers from 1"),
            ("buffer-size", 1, "buffer-size is 1; set it to"),
            ("speed", 9, "there is no setting \"speed\""),
        ] {
            let error = setting(Path::new("/t"), "xfs uuid 2", name, value).unwrap_err();
            assert!(error.starts_with("/t, [\"xfs uuid 2\"]: ") && error.contains(says), "{error}");
            assert!(error.ends_with("measure again: uncopy tune --save"), "{error}");
        }
        let setting = setting(Path::new("/t"), "xfs uuid 2", "jobs", 4).unwrap();
        assert_eq!(setting.to_string(), "jobs = 4 (measured on xfs uuid 2, /t)");
    }
}
