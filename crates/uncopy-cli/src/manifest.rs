//! `--manifest FILE`: digests of all files of a copy, for `b3sum -c`, `sha256sum -c`, `xxhsum -c` and
//! `uncopy verify`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use uncopy::copy::compare::{digest_beneath, manifest_line};
use uncopy::copy::job::{EntryKind, EntryOutcome, Record};
use uncopy::copy::{Digest, Skip};
use uncopy::{Error, Receipt};

use crate::cp::target::directory_of_names;
use crate::exit::Exit;
use crate::replaced_file::replace;
use crate::report::{self, Failure, quoted};

/// A manifest that is being collected.
#[derive(Debug)]
pub(crate) struct Manifest {
    file: PathBuf,
    algorithm: Digest,
    /// Destination as the command line has it.
    destination: PathBuf,
    /// Files by their paths in the destination, so that the order depends on the names alone.
    entries: BTreeMap<PathBuf, Contents>,
    /// Directories that failed: a new tree may not have got its name.
    failed: Vec<PathBuf>,
    /// Files that are left out.
    left_out: u64,
}

/// Origin of the digest of a file.
#[derive(Debug)]
enum Contents {
    /// Computed when the file was copied.
    Digest(String),
    /// The file is another name of this one.
    LinkTo(PathBuf),
    /// An earlier run copied it: it is read in the destination.
    Unread,
}

impl Manifest {
    pub(crate) fn new(file: &Path, algorithm: Digest, destination: &Path) -> Manifest {
        let (file, destination) = (file.to_owned(), destination.to_owned());
        let (entries, failed) = (BTreeMap::new(), Vec::new());
        Manifest { file, algorithm, destination, entries, failed, left_out: 0 }
    }

    /// Adds a file that was copied.
    pub(crate) fn copied(&mut self, destination: &Path, receipt: &Receipt) {
        let contents = match &receipt.source_digest {
            Some(digest) => Contents::Digest(digest.value.clone()),
            None => Contents::Unread,
        };
        self.entries.insert(destination.to_owned(), contents);
    }

    /// Adds an entry of a job, if it is a file that is in place.
    pub(crate) fn entry(&mut self, record: &Record) {
        let is_doubtful =
            matches!(record.outcome, EntryOutcome::Failed(_) | EntryOutcome::Discarded { .. });
        if record.kind == EntryKind::Directory && is_doubtful {
            self.failed.push(record.destination.clone());
        }
        if record.kind != EntryKind::File {
            return;
        }
        let contents = match &record.outcome {
            EntryOutcome::Copied(receipt) => return self.copied(&record.destination, receipt),
            EntryOutcome::Linked { to } => Contents::LinkTo(to.clone()),
            EntryOutcome::Resumed
            | EntryOutcome::Skipped { reason: Skip::AsNew | Skip::SameContents | Skip::SameSize } => {
                Contents::Unread
            }
            EntryOutcome::Skipped { .. } | EntryOutcome::Failed(_) => {
                self.left_out += 1;
                return;
            }
            _ => return,
        };
        self.entries.insert(record.destination.clone(), contents);
    }

    /// Counts a file that was not copied.
    pub(crate) fn left_out(&mut self) {
        self.left_out += 1;
    }

    /// Writes the manifest, of which no part appears under its name before. `go_on`: whether no signal asks to
    /// stop, in which case nothing is written.
    pub(crate) fn write(mut self, quiet: bool, go_on: impl Fn() -> bool) -> Exit {
        self.leave_out_unplaced();
        let file = self.file.clone();
        let (left_out, algorithm) = (self.left_out, self.algorithm);
        if self.entries.is_empty() && left_out > 0 {
            report::say(&format!(
                "the manifest {} was not written, because no file was copied",
                quoted(&file)
            ));
            return Exit::Success;
        }
        let lines = match self.lines(go_on) {
            Ok(Some(lines)) => lines,
            Ok(None) => return Exit::Success,
            Err(Unlisted { message, exit }) => {
                report::say(&format!("no manifest was written: {message}"));
                return exit;
            }
        };
        // Renaming over /dev/stdout would replace it.
        let written = match fs::symlink_metadata(&file) {
            Ok(found) if !found.is_file() => Err(io::Error::other("it is no regular file")),
            _ => replace(&file, |new| lines.iter().try_for_each(|line| new.write_all(line))),
        };
        if let Err(error) = written {
            let operation = format!("write the manifest {}", file.display());
            let next_step = "the copies are complete; write it with the tool of its digest";
            return report::failed_to(&operation, &error, next_step);
        }
        if !quiet {
            note(&file, algorithm, left_out, &lines);
        }
        Exit::Success
    }

    /// Takes out files below directories that failed, unless they are in place.
    fn leave_out_unplaced(&mut self) {
        let Manifest { entries, failed, left_out, .. } = self;
        entries.retain(|path, _| {
            let is_doubtful = failed.iter().any(|failed| path.starts_with(failed));
            let is_placed = !is_doubtful || fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
            *left_out += u64::from(!is_placed);
            is_placed
        });
    }

    /// Says that the manifest was not written.
    pub(crate) fn give_up(self) {
        let file = quoted(&self.file);
        report::say(&format!("the manifest {file} was not written, because the copy ended early"));
    }

    fn lines(self, go_on: impl Fn() -> bool) -> Result<Option<Vec<Vec<u8>>>, Unlisted> {
        let Manifest { algorithm, entries, destination, .. } = self;
        let directory = directory_of_names(&destination);
        let mut named = BTreeMap::new();
        for (path, contents) in &entries {
            let first = match contents {
                Contents::LinkTo(first) => entries.get(first).unwrap_or(contents),
                other => other,
            };
            // A file that was copied twice is as the second copy left it.
            named
                .entry(name_below(directory, path)?)
                .and_modify(|known| *known = &Contents::Unread)
                .or_insert(first);
        }
        let mut lines = Vec::with_capacity(named.len());
        for (name, contents) in named {
            if !go_on() {
                return Ok(None);
            }
            let value = match contents {
                Contents::Digest(value) => value.clone(),
                _ => digest_beneath(directory, &name, algorithm)?,
            };
            lines.push(manifest_line(algorithm, &value, name.as_os_str()));
        }
        Ok(Some(lines))
    }
}

/// Why a file has no line.
struct Unlisted {
    message: String,
    exit: Exit,
}

impl From<Error> for Unlisted {
    fn from(error: Error) -> Unlisted {
        let failure = Failure::from(&error);
        Unlisted { message: failure.to_string(), exit: failure.exit }
    }
}

/// Returns the name by which a checker of the manifest finds a file: without `..`, and through no link.
fn name_below(directory: &Path, path: &Path) -> Result<PathBuf, Unlisted> {
    let here = if directory == Path::new(".") { Path::new("") } else { directory };
    let is_plain =
        |below: &&Path| below.components().all(|part| matches!(part, Component::Normal(_)));
    let is_link = || fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if let Some(below) = path.strip_prefix(here).ok().filter(is_plain)
        && !is_link()
    {
        return Ok(below.to_owned());
    }
    let resolve = |path: &Path| {
        fs::canonicalize(path).map_err(|error| Unlisted {
            message: format!("cannot resolve {}: {}", path.display(), report::describe(&error)),
            exit: Exit::Failure,
        })
    };
    let (file, root) = (resolve(path)?, resolve(directory)?);
    match file.strip_prefix(&root) {
        Ok(below) => Ok(below.to_owned()),
        Err(_) => Err(Unlisted {
            message: format!(
                "{} lies outside of {}; write it with the tool of its digest",
                file.display(),
                directory.display()
            ),
            exit: Exit::Failure,
        }),
    }
}

fn note(file: &Path, algorithm: Digest, left_out: u64, lines: &[Vec<u8>]) {
    let file = quoted(file);
    if left_out > 0 {
        let files = if left_out == 1 { "file" } else { "files" };
        report::say(&format!(
            "note: {file} lacks {left_out} {files} that this run did not copy and no earlier run is known \
             to have copied"
        ));
    }
    let is_text = |line: &&Vec<u8>| std::str::from_utf8(line).is_ok();
    let unusual = lines.len() - lines.iter().filter(is_text).count();
    if unusual > 0 && algorithm == Digest::Blake3 {
        report::say(&format!(
            "note: names in {file} are not UTF-8, which b3sum refuses ({unusual} of {}); check it by \
             `uncopy verify --manifest`, or use another digest",
            lines.len()
        ));
    }
}
