//! Sources and destinations of a command line.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use clap::error::ErrorKind;
use uncopy::System;
use uncopy::copy::Transform;
use uncopy::copy::job::Parents;

use crate::flags::copy::CopyArgs;
use crate::flags::operand::{BadOperand, Machine, Operand, Place};

/// One file to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub source: PathBuf,
    pub destination: PathBuf,
}

impl Pair {
    /// Returns the path of the copy. Where paths are kept, the destination is the directory that they begin at, and a `..`
    /// of the source takes back the name before it.
    pub(crate) fn copy(&self, parents: &Parents) -> PathBuf {
        let Pair { source, destination } = self;
        let kept = match parents {
            Parents::Omit => return destination.clone(),
            Parents::Keep => source.as_path(),
            Parents::KeepBelow(directory) => source.strip_prefix(directory).unwrap_or(source),
        };
        let (mut above, mut below) = (destination.clone(), Vec::<&OsStr>::new());
        for part in kept.components() {
            match part {
                Component::Normal(name) => below.push(name),
                Component::ParentDir if below.pop().is_none() => above.push(".."),
                _ => {}
            }
        }
        above.extend(below);
        above
    }
}

/// Returns the directory that the names of copies begin at: the destination, or the one that it is an entry of.
pub(crate) fn directory_of_names(destination: &Path) -> &Path {
    match destination.parent() {
        Some(parent) if !destination.is_dir() => match parent.as_os_str().is_empty() {
            true => Path::new("."),
            false => parent,
        },
        _ => destination,
    }
}

/// Returns an absolute path without links, also of a file that does not exist yet.
pub(super) fn resolved(path: &Path) -> PathBuf {
    if let Ok(found) = fs::canonicalize(path) {
        return found;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
            resolved(Path::new(".")).join(name)
        }
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

/// Paths of the command line, before the filesystem is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub sources: Vec<PathBuf>,
    pub destination: PathBuf,
    pub kind: Kind,
    pub route: Route,
}

/// Machines that a copy goes from and to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// Both sides are here.
    Here,
    /// The sources are on another machine.
    Pull(Machine),
    /// The destination is on another machine.
    Push(Machine),
}

/// How the operands of a command line are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A colon may name another machine.
    Operands,
    /// As paths here, whatever they contain: a machine has been taken off already.
    Paths,
}

impl Names {
    /// Whether the copies are placed inside the destination, given whether it is a directory.
    pub(crate) fn is_inside(&self, is_directory: bool) -> bool {
        self.kind != Kind::File && is_directory
    }

    /// Returns the sources and the destination as people know them: with the machine before those that are not here.
    pub(crate) fn shown(&self) -> (Vec<PathBuf>, PathBuf) {
        let Names { sources, destination, route, .. } = self;
        match route {
            Route::Here => (sources.clone(), destination.clone()),
            Route::Pull(machine) => {
                let sources = sources.iter().map(|source| machine.with_path(source));
                (sources.collect(), destination.clone())
            }
            Route::Push(machine) => (sources.clone(), machine.with_path(destination)),
        }
    }
}

/// Required kind of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The file to write (`-T`).
    File,
    /// A directory: several sources, `-t`, or a name that ends in a slash.
    Directory,
    /// A file or a directory.
    Either,
}

/// A command line with too few or too many paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Misuse {
    NoSource,
    NoDestination { source: PathBuf },
    SeveralSourcesOneFile,
    SeveralSourcesOneList,
    SameTarget { first: PathBuf, second: PathBuf, target: PathBuf },
    Operand(BadOperand),
    BothAway,
    SourcesOfSeveralMachines { first: PathBuf, second: PathBuf },
}

impl Misuse {
    /// Returns the parser's kind of such an error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Misuse::NoSource
            | Misuse::NoDestination { .. }
            | Misuse::SeveralSourcesOneFile
            | Misuse::SeveralSourcesOneList => ErrorKind::MissingRequiredArgument,
            Misuse::SameTarget { .. } => ErrorKind::ArgumentConflict,
            Misuse::Operand(_) | Misuse::BothAway | Misuse::SourcesOfSeveralMachines { .. } => {
                ErrorKind::ValueValidation
            }
        }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misuse::NoSource => f.write_str("no file to copy; name it: uncopy cp SRC DST"),
            Misuse::NoDestination { source } => write!(
                f,
                "no destination for {}; name it last: uncopy cp SRC DST",
                source.display()
            ),
            Misuse::SeveralSourcesOneFile => f.write_str(
                "--no-target-directory takes one source; leave it out to copy into a directory",
            ),
            Misuse::SeveralSourcesOneList => f.write_str(
                "--files-from names files below one directory; name it alone before the destination",
            ),
            Misuse::SameTarget { first, second, target } => write!(
                f,
                "{} and {} would both become {}; copy them one at a time under different names",
                first.display(),
                second.display(),
                target.display()
            ),
            Misuse::Operand(bad) => bad.fmt(f),
            Misuse::BothAway => f.write_str(
                "the sources and the destination are on other machines; run the copy on one of them, or write ./ \
                 before a file here whose name has a colon",
            ),
            Misuse::SourcesOfSeveralMachines { first, second } => write!(
                f,
                "{} and {} are not on one machine; copy from one machine at a time, or write ./ before a file here \
                 whose name has a colon",
                first.display(),
                second.display()
            ),
        }
    }
}

/// Sorts the paths of the command line into sources and destination.
pub(crate) fn names(flags: &CopyArgs, reading: Reading) -> Result<Names, Misuse> {
    let mut sources: Vec<PathBuf> = flags.source.iter().chain(&flags.paths).cloned().collect();
    let named = flags.target_directory.as_ref().or(flags.dest.as_ref()).cloned();
    let destination = match named {
        Some(destination) => destination,
        None if flags.paths.is_empty() => match sources.first() {
            Some(source) => return Err(Misuse::NoDestination { source: source.clone() }),
            None => return Err(Misuse::NoSource),
        },
        None => sources.pop().ok_or(Misuse::NoSource)?,
    };
    if sources.is_empty() {
        return Err(match flags.paths.first() {
            Some(only) => Misuse::NoDestination { source: only.clone() },
            None => Misuse::NoSource,
        });
    }
    let (mut sources, destination, route) = match reading {
        Reading::Operands => routed(&sources, &destination)?,
        Reading::Paths => (sources, destination, Route::Here),
    };
    if flags.strip_trailing_slashes {
        sources.iter_mut().for_each(strip_slashes);
    }
    // A directory that is copied becomes the directory that the slash requires.
    let slash = destination.as_os_str().as_encoded_bytes().ends_with(b"/") && !flags.is_recursive();
    let kind = if flags.no_target_directory {
        if sources.len() > 1 {
            return Err(Misuse::SeveralSourcesOneFile);
        }
        Kind::File
    } else if flags.files_from.is_some() && sources.len() > 1 {
        return Err(Misuse::SeveralSourcesOneList);
    } else if flags.keeps_paths() || sources.len() > 1 || flags.target_directory.is_some() || slash
    {
        Kind::Directory
    } else {
        Kind::Either
    };
    Ok(Names { sources, destination, kind, route })
}

/// Takes the other machine off the operands.
fn routed(
    sources: &[PathBuf],
    destination: &Path,
) -> Result<(Vec<PathBuf>, PathBuf, Route), Misuse> {
    let parse =
        |text: &Path| Operand::parse(text.as_os_str(), System::HERE).map_err(Misuse::Operand);
    let mut paths = Vec::with_capacity(sources.len());
    let mut from: Option<Option<Machine>> = None;
    for source in sources {
        let (machine, path) = match parse(source)? {
            Operand::Here(path) => (None, path),
            Operand::There(Place { machine, path }) => (Some(machine), path),
        };
        if from.as_ref().is_some_and(|known| *known != machine) {
            let first = sources.first().cloned().unwrap_or_default();
            return Err(Misuse::SourcesOfSeveralMachines { first, second: source.clone() });
        }
        from = Some(machine);
        paths.push(path);
    }
    match (from.flatten(), parse(destination)?) {
        (None, Operand::Here(path)) => Ok((paths, path, Route::Here)),
        (Some(machine), Operand::Here(path)) => Ok((paths, path, Route::Pull(machine))),
        (None, Operand::There(place)) => Ok((paths, place.path, Route::Push(place.machine))),
        (Some(_), Operand::There(_)) => Err(Misuse::BothAway),
    }
}

/// Removes the slashes at the end of a path, but for the root's.
fn strip_slashes(path: &mut PathBuf) {
    let bytes = path.as_os_str().as_encoded_bytes();
    let Some(last) = bytes.iter().rposition(|byte| *byte != b'/') else { return };
    let mut kept = path.components().as_path().as_os_str().to_owned();
    if bytes[..=last].ends_with(b"/.") {
        kept.push("/.");
    }
    *path = kept.into();
}

/// Returns the files to copy, given whether the destination is a directory.
///
/// The caller has checked that it is one where [`Kind::Directory`] requires it. If `.zst` may be
/// added to names or removed, names that differ only by it count as one. Directories that `is_merged` says are merged may
/// have one destination.
pub(crate) fn pairs(
    names: Names,
    is_directory: bool,
    transform: Transform,
    is_merged: impl Fn(&Path) -> bool,
) -> Result<Vec<Pair>, Misuse> {
    let inside = names.is_inside(is_directory);
    let Names { sources, destination, .. } = names;
    let pairs: Vec<Pair> = sources
        .into_iter()
        .map(|source| {
            let destination =
                if inside { place(&destination, &source) } else { destination.clone() };
            Pair { source, destination }
        })
        .collect();
    if let Some(misuse) = same_target(&pairs, inside && transform != Transform::None, is_merged) {
        return Err(misuse);
    }
    Ok(pairs)
}

/// Finds the first two files with the same destination.
fn same_target(
    pairs: &[Pair],
    folds_suffix: bool,
    is_merged: impl Fn(&Path) -> bool,
) -> Option<Misuse> {
    if pairs.len() < 2 {
        return None;
    }
    let mut taken: HashMap<PathBuf, &Path> = HashMap::new();
    pairs.iter().find_map(|pair| {
        let has_suffix = pair.destination.extension().is_some_and(|found| found == "zst");
        let target = match folds_suffix && has_suffix {
            true => pair.destination.with_extension(""),
            false => pair.destination.clone(),
        };
        let first = taken.insert(target, &pair.source)?;
        let are_merged = is_merged(first) && is_merged(&pair.source);
        (!are_merged).then(|| Misuse::SameTarget {
            first: first.to_owned(),
            second: pair.source.clone(),
            target: pair.destination.clone(),
        })
    })
}

/// Returns the path of the copy of `source` in `directory`. The contents of a source that ends in `.`
/// or has no file name (`/`, `..`) are placed in `directory` itself, as by `cp`.
fn place(directory: &Path, source: &Path) -> PathBuf {
    let bytes = source.as_os_str().as_encoded_bytes();
    let bytes = &bytes[..bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1)];
    let is_contents = bytes == b"." || bytes.ends_with(b"/.");
    let name = source.file_name().filter(|_| !is_contents);
    directory.join(name.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};
    use uncopy::copy::Level;

    use super::*;

    fn parse(line: &str) -> Result<Names, Misuse> {
        let arguments = std::iter::once("cp").chain(line.split_whitespace());
        let matches = CopyArgs::augment_args(clap::Command::new("cp")).get_matches_from(arguments);
        names(&CopyArgs::from_arg_matches(&matches).unwrap(), Reading::Operands)
    }

    #[test]
    fn names_are_sorted_as_cp_does() {
        use Kind::{Directory, Either, File};
        for (line, sources, destination, kind) in [
            ("a b", &["a"][..], "b", Either),
            ("a b c", &["a", "b"], "c", Directory),
            ("a b/", &["a"], "b/", Directory),
            ("-T a b", &["a"], "b", File),
            ("-T a b/", &["a"], "b/", File),
            ("-t d a", &["a"], "d", Directory),
            ("-t d a b", &["a", "b"], "d", Directory),
            ("--source a --dest b", &["a"], "b", Either),
            ("--source a b", &["a"], "b", Either),
            ("--dest b a", &["a"], "b", Either),
            ("--source a --source b --dest c", &["a", "b"], "c", Directory),
            ("--source a b c", &["a", "b"], "c", Directory),
            ("--source b -t d a", &["b", "a"], "d", Directory),
            ("a --dest b c", &["a", "c"], "b", Directory),
            ("-r a b/", &["a"], "b/", Either),
            ("--parents a b", &["a"], "b", Directory),
            ("-r --parents a b/", &["a"], "b/", Directory),
            ("--files-from l a b", &["a"], "b", Directory),
            ("-r a b c/", &["a", "b"], "c/", Directory),
        ] {
            let expected = Names {
                sources: sources.iter().map(PathBuf::from).collect(),
                destination: PathBuf::from(destination),
                kind,
                route: Route::Here,
            };
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn other_machines_are_taken_off_the_operands() {
        use Kind::{Directory, Either};
        for (line, sources, destination, kind, expected) in [
            ("h:a b", &["a"][..], "b", Either, "pull h"),
            ("h:a h:/b/ d", &["a", "/b/"], "d", Directory, "pull h"),
            ("--source h:a --dest b", &["a"], "b", Either, "pull h"),
            ("h: d", &["."], "d", Either, "pull h"),
            ("--strip-trailing-slashes h:/ h:a/ d", &["/", "a"], "d", Directory, "pull h"),
            ("a u@h:b", &["a"], "b", Either, "push u@h"),
            ("a h:b/", &["a"], "b/", Directory, "push h"),
            ("a b h:", &["a", "b"], ".", Directory, "push h"),
            ("-t [::1]:d a", &["a"], "d", Directory, "push [::1]"),
            ("a ssh://h:22/b", &["a"], "/b", Either, "push h:22"),
            ("./h:a b", &["./h:a"], "b", Either, "here"),
        ] {
            let found = parse(line).unwrap();
            assert_eq!(
                found.sources,
                sources.iter().map(PathBuf::from).collect::<Vec<_>>(),
                "{line}"
            );
            assert_eq!(
                (found.destination.to_str(), found.kind),
                (Some(destination), kind),
                "{line}"
            );
            let route = match found.route {
                Route::Here => "here".to_owned(),
                Route::Pull(machine) => format!("pull {machine}"),
                Route::Push(machine) => format!("push {machine}"),
            };
            assert_eq!(route, expected, "{line}");
        }
    }

    #[test]
    fn a_copy_crosses_once() {
        for (line, expected) in [
            ("h:a h:b", "run the copy on one of them"),
            ("h:a g:b", "run the copy on one of them"),
            ("h:a g:b d", "h:a and g:b are not on one machine"),
            ("h:a u@h:b d", "h:a and u@h:b are not on one machine"),
            ("a h:b d", "a and h:b are not on one machine"),
            ("-h:a b", "a host cannot begin with -"),
        ] {
            let line = line.split(' ').map(PathBuf::from).collect();
            let flags = CopyArgs { paths: line, ..CopyArgs::default() };
            let misuse = names(&flags, Reading::Operands).unwrap_err();
            assert_eq!(misuse.kind(), ErrorKind::ValueValidation, "{misuse}");
            assert!(misuse.to_string().contains(expected), "{misuse}");
            // Where no machine is taken off, they are paths.
            assert_eq!(names(&flags, Reading::Paths).unwrap().route, Route::Here);
        }
    }

    #[test]
    fn slashes_at_the_end_of_sources_are_stripped_where_a_flag_says_so() {
        for (line, expected) in [
            (
                "--strip-trailing-slashes x/a/ b// / ../ c x/./ .// d/",
                &["x/a", "b", "/", "..", "c", "x/.", "."][..],
            ),
            ("x/a/ b// d/", &["x/a/", "b//"]),
        ] {
            let sources = parse(line).unwrap().sources;
            let sources: Vec<&str> = sources.iter().map(|path| path.to_str().unwrap()).collect();
            assert_eq!(sources, expected, "{line}");
        }
    }

    #[test]
    fn too_few_names_are_misuse() {
        let missing = |source: &str| Misuse::NoDestination { source: PathBuf::from(source) };
        for (line, expected) in [
            ("", Misuse::NoSource),
            ("--dest b", Misuse::NoSource),
            ("-t d", Misuse::NoSource),
            ("a", missing("a")),
            ("--source a", missing("a")),
            ("-T a b c", Misuse::SeveralSourcesOneFile),
            ("--files-from l a b c", Misuse::SeveralSourcesOneList),
        ] {
            assert_eq!(parse(line), Err(expected), "{line}");
        }
    }

    fn destinations(line: &str, is_directory: bool) -> Result<Vec<String>, Misuse> {
        let pairs = pairs(parse(line).unwrap(), is_directory, Transform::None, |_| false)?;
        Ok(pairs.iter().map(|pair| pair.destination.display().to_string()).collect())
    }

    #[test]
    fn a_directory_takes_the_name_of_each_source() {
        for (line, is_directory, expected) in [
            ("x/a d", true, &["d/a"][..]),
            ("x/a d", false, &["d"]),
            ("-T x/a d", true, &["d"]),
            ("x/a y/b d", true, &["d/a", "d/b"]),
            ("x/a/ d", true, &["d/a"]),
            (".. d", true, &["d/"]),
            (". d", true, &["d/"]),
            ("-r x/. d", true, &["d/"]),
            ("-r x/.// d", true, &["d/"]),
            ("-r x/.a d", true, &["d/.a"]),
        ] {
            assert_eq!(destinations(line, is_directory).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn where_paths_are_kept_dots_take_names_back_or_lead_out() {
        let below = Parents::KeepBelow("s/t".into());
        for (parents, source, expected) in [
            (&Parents::Omit, "x/f", "d"),
            (&Parents::Keep, "x/./f", "d/x/f"),
            (&Parents::Keep, "/x/f", "d/x/f"),
            (&Parents::Keep, "../x/f", "d/../x/f"),
            (&Parents::Keep, "x/../f", "d/f"),
            (&Parents::Keep, "x/y/../../../f", "d/../f"),
            (&Parents::Keep, ".", "d"),
            (&below, "s/t/x/f", "d/x/f"),
        ] {
            let pair = Pair { source: source.into(), destination: "d".into() };
            assert_eq!(pair.copy(parents), Path::new(expected), "{source}");
        }
    }

    #[test]
    fn names_that_a_suffix_makes_one_are_misuse() {
        for (line, is_directory, expected) in [
            ("x/a y/a.zst d", true, false),
            ("x/a.zst y/a d", true, false),
            ("x/a y/b.zst d", true, true),
            ("x/a.zst y/a.zst.zst d", true, true),
        ] {
            for transform in [Transform::Compress(Level::default()), Transform::Decompress] {
                let found = pairs(parse(line).unwrap(), is_directory, transform, |_| false);
                assert_eq!(found.is_ok(), expected, "{line}");
            }
            let found = pairs(parse(line).unwrap(), is_directory, Transform::None, |_| false);
            assert!(found.is_ok());
        }
    }

    #[test]
    fn directories_that_are_merged_may_have_one_target() {
        for (line, expected) in
            [("-r x/. y/. d", true), ("-r x/a y/a d", true), ("-r x/a f/a d", false)]
        {
            let is_merged = |source: &Path| !source.starts_with("f");
            let found = pairs(parse(line).unwrap(), true, Transform::None, is_merged);
            assert_eq!(found.is_ok(), expected, "{line}");
        }
    }

    #[test]
    fn two_sources_with_one_target_are_misuse() {
        for line in ["x/a y/a d", "a a d", "x/a b y/a/ d"] {
            let error = destinations(line, true).unwrap_err();
            assert!(matches!(error, Misuse::SameTarget { .. }), "{line}: {error}");
        }
    }
}
