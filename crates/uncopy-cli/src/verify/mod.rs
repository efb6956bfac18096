//! `uncopy verify`.

mod json;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::error::ErrorKind;
use indicatif::BinaryBytes;
use uncopy::copy::Control;
use uncopy::copy::compare::{
    CompareFinding, CompareObserver, CompareOptions, CompareProgress, CompareSummary, Difference,
    FindingKind, check_manifest, compare,
};
use uncopy::copy::job::JobProgress;

use crate::exit::Exit;
use crate::flags::copy::DigestArg;
use crate::flags::{usage_error, verify::VerifyArgs};
use crate::job_control::JobControl;
use crate::progress::JobBar;
use crate::report::{self, Failure, printable};
use crate::stop::{self, Stop};

/// Two sides that are compared.
enum Sides {
    Paths { source: PathBuf, destination: PathBuf },
    Manifest { manifest: PathBuf, directory: PathBuf },
}

/// Said where no digest of 32 digits agrees.
const DOUBT: &str = "note: no file has its digest of 32 digits: they were read as those of XXH3 (xxhsum -H128); MD5 writes as \
                     many, and is not known here: md5sum -c checks those";

/// Compares, and reports each difference.
///
/// # Errors
/// The command line has too few or too many paths.
pub(crate) fn run(flags: &VerifyArgs) -> Result<Exit, clap::Error> {
    let sides = sides(flags)
        .map_err(|message| usage_error("verify", ErrorKind::WrongNumberOfValues, message))?;
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => return Ok(stop::failed(&error)),
    };
    stop.listen();
    let control = JobControl::new();
    let watch = Watch {
        flags,
        compared: sides.compared(),
        stop: &stop,
        bar: JobBar::new(!flags.quiet, false, control.clock()),
        unwritten: Mutex::new(None),
    };
    let mut options = CompareOptions::default();
    options.strict = flags.strict;
    options.jobs = flags.jobs;
    options.digest = flags.digest.map(DigestArg::digest);
    let compared = match &sides {
        Sides::Paths { source, destination } => compare(source, destination, &options, &watch),
        Sides::Manifest { manifest, directory } => {
            check_manifest(manifest, directory, &options, &watch)
        }
    };
    let Watch { bar, unwritten, .. } = watch;
    drop(bar);
    let mut unwritten = unwritten.into_inner().unwrap_or_else(PoisonError::into_inner);
    let summary = match (compared, stop.requested()) {
        (Ok(summary), _) => summary,
        (Err(error), Some(signal)) if error.is_cancelled() => {
            report::say(&format!("stopped by {}; not everything was compared", signal.name()));
            return Ok(signal.end());
        }
        (Err(error), _) => {
            report::say(&Failure::from(&error).to_string());
            // Whatever kind of error: it could not look.
            return Ok(Exit::Failure);
        }
    };
    let text = match (flags.json, flags.quiet || !summary.is_same()) {
        (true, _) => json::summary(&summary),
        (false, true) => String::new(),
        (false, false) => format!("{}\n", words(&summary)),
    };
    if let Err(error) = report::print(&text) {
        unwritten.get_or_insert(error);
    }
    if !summary.is_same() {
        report::say(&words(&summary));
    }
    if summary.doubted.is_some() {
        report::say(DOUBT);
    }
    let exit = exit_of(&summary);
    let written = unwritten.map_or(Exit::Success, |error| report::output_failed(&error));
    Ok(match exit {
        // Whatever else was found.
        Exit::VerificationFailed => exit,
        exit => exit.and(written),
    })
}

impl Sides {
    /// Path whose entries findings name.
    fn compared(&self) -> &Path {
        match self {
            Sides::Paths { destination, .. } => destination,
            Sides::Manifest { directory, .. } => directory,
        }
    }
}

fn sides(flags: &VerifyArgs) -> Result<Sides, &'static str> {
    match (&flags.manifest, flags.paths.as_slice()) {
        (Some(manifest), []) => {
            Ok(Sides::Manifest { manifest: manifest.clone(), directory: PathBuf::from(".") })
        }
        (Some(manifest), [directory]) => {
            Ok(Sides::Manifest { manifest: manifest.clone(), directory: directory.clone() })
        }
        (Some(_), _) => Err("--manifest takes one directory: uncopy verify --manifest FILE DIR"),
        (None, [source, destination]) => {
            let (source, mut destination) = (source.clone(), destination.clone());
            if source.is_file() && destination.is_dir() {
                // Where `uncopy cp` puts it.
                destination.push(source.file_name().unwrap_or_default());
            }
            Ok(Sides::Paths { source, destination })
        }
        (None, _) => {
            Err("name two files or directories, or a manifest: uncopy verify SRC DST, or \
                 uncopy verify --manifest FILE DIR")
        }
    }
}

/// A difference is certain, and decides; an entry that could not be read may be the same or not.
fn exit_of(summary: &CompareSummary) -> Exit {
    match (summary.differs(), summary.unreadable) {
        (true, _) => Exit::VerificationFailed,
        (false, 0) => Exit::Success,
        (false, _) => Exit::Failure,
    }
}

/// Watches a comparison from all its threads.
struct Watch<'a> {
    flags: &'a VerifyArgs,
    /// Shown for what was named on the command line itself.
    compared: &'a Path,
    stop: &'a Stop,
    bar: JobBar,
    /// First error of standard output.
    unwritten: Mutex<Option<std::io::Error>>,
}

impl CompareObserver for Watch<'_> {
    fn progress(&self, progress: CompareProgress) -> Control {
        if self.stop.requested().is_some() {
            return Control::Stop;
        }
        let mut shown = JobProgress::default();
        (shown.entries, shown.bytes) = (progress.entries, progress.bytes);
        self.bar.draw(shown);
        Control::Continue
    }

    fn found(&self, finding: &CompareFinding) {
        let text = match self.flags.json {
            true => json::finding(finding),
            false => format!("{}\n", printable(&line(finding, self.compared))),
        };
        self.bar.aside(|| {
            if let Err(error) = report::print(&text) {
                let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
                unwritten.get_or_insert(error);
            }
        });
    }
}

/// Describes a finding in one line; `compared` is what has no name below itself.
fn line(finding: &CompareFinding, compared: &Path) -> String {
    let name = match finding.name.as_os_str().is_empty() {
        true => compared.display(),
        false => finding.name.display(),
    };
    match &finding.kind {
        FindingKind::Differs(difference) => format!("{name}: {}", difference_words(*difference)),
        FindingKind::Unreadable(error) => format!("{name}: {}", Failure::from(error)),
        FindingKind::Outside => {
            format!("{name}: this name leads out of the directory; nothing was opened")
        }
        FindingKind::Malformed { line } => {
            format!("line {line} of the manifest names no file and digest")
        }
        _ => format!("{name}: could not be compared"),
    }
}

fn difference_words(difference: Difference) -> &'static str {
    match difference {
        Difference::Content => "the contents differ",
        Difference::Type => "it is of another type",
        Difference::LinkTarget => "the link has another target",
        Difference::Device => "the device file has another number",
        Difference::Missing => "it is missing",
        Difference::Extra => "there is no such entry to compare it with",
        _ => "it differs",
    }
}

/// Describes the result in one line.
fn words(summary: &CompareSummary) -> String {
    let mut text = format!(
        "{} entries and {} compared in {:.1?}: ",
        summary.entries,
        BinaryBytes(summary.bytes),
        summary.duration
    );
    let counts = [
        (summary.different, "different"),
        (summary.missing, "missing"),
        (summary.extra, "extra"),
        (summary.unreadable, "could not be compared"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    text.push_str(&if counts.is_empty() { "all the same".into() } else { counts.join(", ") });
    text
}
