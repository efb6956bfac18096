//! Examines a copy of a directory: the sizes of its files, and its largest file.

use std::fs;
use std::path::{Path, PathBuf};

use super::of;
use crate::Options;
use crate::condition as is;
use crate::finding::DoctorFinding;
use crate::found::FilesFound;
use crate::report::{Report, ReportFact};
use uncopy_copy::CopyOptions;
use uncopy_copy::forecast::forecast;
use uncopy_core::{Errno, Error, Result};

/// Maximum number of entries that are examined.
const MAX_ENTRIES: u64 = 1_000_000;

/// Upper ends and names of the size classes.
const CLASSES: [(u64, &str); 5] = [
    (4 << 10, "below 4 KiB"),
    (64 << 10, "below 64 KiB"),
    (1 << 20, "below 1 MiB"),
    (64 << 20, "below 64 MiB"),
    (u64::MAX, "64 MiB and more"),
];
/// Classes of small and of large files.
const SMALL: std::ops::Range<usize> = 0..2;
const LARGE: std::ops::Range<usize> = 3..5;

/// Histogram of file sizes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Histogram {
    files: [u64; CLASSES.len()],
    bytes: [u64; CLASSES.len()],
    is_cut_off: bool,
}

impl Histogram {
    fn add(&mut self, size: u64) {
        let class = CLASSES.iter().position(|(end, _)| size < *end).unwrap_or(CLASSES.len() - 1);
        self.files[class] += 1;
        self.bytes[class] += size;
    }

    /// Returns the findings about the histogram.
    fn findings(&self) -> Vec<DoctorFinding> {
        let (files, bytes): (u64, u64) = (self.files.iter().sum(), self.bytes.iter().sum());
        let small: u64 = self.files[SMALL].iter().sum();
        let large: u64 = self.bytes[LARGE].iter().sum();
        let mut found = Vec::new();
        if files > 0 && small * 2 > files {
            let many = FilesFound::ManySmall { small, files };
            found.push(DoctorFinding::of(&is::MANY_SMALL, many).seen("statx", self.shown()));
        }
        if bytes > 0 && large * 2 > bytes {
            let many = FilesFound::ManyLarge { large_bytes: large, bytes };
            found.push(DoctorFinding::of(&is::MANY_LARGE, many).seen("statx", self.shown()));
        }
        found
    }

    fn shown(&self) -> String {
        let class = |n: usize| {
            (self.files[n] > 0)
                .then(|| format!("{} {} ({} bytes)", self.files[n], CLASSES[n].1, self.bytes[n]))
        };
        let classes: Vec<String> = (0..CLASSES.len()).filter_map(class).collect();
        let more = if self.is_cut_off { ", and more that were not examined" } else { "" };
        if classes.is_empty() { "no files".to_owned() } else { classes.join(", ") + more }
    }
}

/// Examines a copy of a directory.
pub(super) fn copy(
    source: &Path,
    destination: &Path,
    how: &CopyOptions,
    options: &Options,
) -> Result<Report> {
    let (histogram, largest) = walk(source)?;
    let into = |file: &Path| match (destination.is_dir(), file.file_name()) {
        (true, Some(name)) => destination.join(name),
        _ => destination.to_owned(),
    };
    let target = format!("{} -> {}", source.display(), destination.display());
    let subject = format!("{} to {}", source.display(), destination.display());
    let mut findings = histogram.findings();
    let mut facts = vec![ReportFact { name: "files", value: histogram.shown() }];
    let mut mechanisms = Vec::new();
    if let Some(file) = largest {
        let into = into(&file);
        let report = of(&file, &into, &forecast(&file, &into, how)?, how, options);
        facts.push(ReportFact { name: "largest", value: file.display().to_string() });
        facts.extend(report.facts);
        findings.extend(report.findings);
        mechanisms = report.mechanisms;
    } else {
        let none = FilesFound::NoFiles { directory: source.to_owned() };
        findings.push(DoctorFinding::of(&is::EMPTY, none).seen("statx", "no regular file"));
    }
    let mut report = Report::conclude(target, &subject, findings, facts);
    report.mechanisms = mechanisms;
    Ok(report)
}

/// Counts every regular file below a directory without following links. Also returns the largest one.
fn walk(top: &Path) -> Result<(Histogram, Option<PathBuf>)> {
    let fail = |path: &Path, error: &std::io::Error| {
        Error::system("list", path, Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    };
    let mut histogram = Histogram::default();
    let mut largest: Option<(u64, PathBuf)> = None;
    let mut waiting = vec![top.to_owned()];
    let mut seen = 0;
    while let Some(directory) = waiting.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if directory == top => return Err(fail(top, &error)),
            // An unreadable entry is skipped.
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                histogram.is_cut_off = true;
                return Ok((histogram, largest.map(|(_, path)| path)));
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if let Some(metadata) = entry.metadata().ok().filter(|_| kind.is_file()) {
                histogram.add(metadata.len());
                if largest.as_ref().is_none_or(|(size, _)| metadata.len() > *size) {
                    largest = Some((metadata.len(), entry.path()));
                }
            }
        }
    }
    Ok((histogram, largest.map(|(_, path)| path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(sizes: &[u64]) -> Vec<&'static str> {
        let mut histogram = Histogram::default();
        sizes.iter().for_each(|size| histogram.add(*size));
        histogram.findings().iter().map(|finding| finding.condition.id).collect()
    }

    #[test]
    fn sizes_are_counted_by_files_and_by_bytes() {
        assert_eq!(ids(&[]), [""; 0]);
        assert_eq!(ids(&[1, 2, 3]), ["many-small-files"]);
        assert_eq!(ids(&[1, 2, 3, 5 << 20]), ["many-small-files", "bytes-in-large-files"]);
        assert_eq!(ids(&[1 << 30]), ["bytes-in-large-files"]);
        assert_eq!(ids(&[100 << 10]), [""; 0]);
        let mut histogram = Histogram::default();
        histogram.add(4 << 10);
        histogram.add(1 << 20);
        assert_eq!(
            histogram.shown(),
            "1 below 64 KiB (4096 bytes), 1 below 64 MiB (1048576 bytes)"
        );
    }

    #[test]
    fn links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("large"), [7; 100]).unwrap();
        fs::write(directory.path().join("small"), [7; 10]).unwrap();
        std::os::unix::fs::symlink("..", below.join("up")).unwrap();
        let (histogram, largest) = walk(directory.path()).unwrap();
        assert_eq!((histogram.files[0], histogram.bytes[0]), (2, 110));
        assert_eq!(largest, Some(below.join("large")));
        assert!(walk(&directory.path().join("small")).is_err());
    }
}
