//! Writes the audit log and the manifest of a copy that another machine makes, from what it reports, and of one that never begins.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use uncopy::copy::job::JobOptions;

use super::new_trees::NewTrees;
use crate::cp::target::{Names, Route};
use crate::cp::{self, Held, Pair};
use crate::exit::Exit;
use crate::flags::copy::CopyArgs;
use crate::manifest_file::ManifestFile;
use crate::report::outlet::{FarRecord, ManifestEnd};
use crate::report::{Failure, Report};

/// Longest record that is taken. Those of paths of any depth that Linux makes are shorter.
const MAX_RECORD_BYTES: usize = 8 << 20;

/// How events of entries come from the other machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Events {
    /// For the audit log.
    Recorded,
    /// As output.
    Printed,
    /// Not at all.
    Missing,
}

/// Files of this machine that a copy to another one is recorded in. The other machine chooses what it reports, and
/// nothing else: neither names of files, nor times, nor the chain of the log.
pub(super) struct Recorder {
    report: Report,
    manifest: Option<ManifestFile>,
    end: Option<ManifestEnd>,
    /// New trees there, which have no names if the session ends before they are whole.
    new_trees: NewTrees,
    /// How events of entries come.
    events: Events,
    /// Record that is not whole yet.
    rest: Vec<u8>,
}

impl Recorder {
    /// Begins the files that the flags name.
    ///
    /// # Errors
    /// As [`cp::begin_report`].
    pub(super) fn begin(
        flags: &CopyArgs,
        options: &JobOptions,
        names: &Names,
        held: Held,
    ) -> Result<Result<Recorder, Exit>, clap::Error> {
        let pair = |source: &PathBuf| Pair {
            source: source.clone(),
            destination: names.destination.clone(),
        };
        let pairs: Vec<Pair> = names.sources.iter().map(pair).collect();
        let report = cp::begin_report(flags, options, &pairs, held)?;
        let manifest = flags.manifest.as_deref().map(|file| ManifestFile::new(file, flags.quiet));
        let events = match (&flags.audit, flags.json) {
            (Some(_), _) => Events::Recorded,
            (None, true) => Events::Printed,
            (None, false) => Events::Missing,
        };
        Ok(report.map(|report| Recorder {
            new_trees: NewTrees::of(directories(flags, names)),
            events,
            ..Recorder::new(report, manifest)
        }))
    }

    fn new(report: Report, manifest: Option<ManifestFile>) -> Recorder {
        let (new_trees, events) = (NewTrees::default(), Events::Recorded);
        Recorder { report, manifest, end: None, new_trees, events, rest: Vec::new() }
    }

    /// Takes records.
    pub(super) fn records(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let record: Vec<u8> = self.rest.drain(..=end).collect();
            match serde_json::from_slice(&record) {
                Ok(FarRecord::Entry(event)) => {
                    self.new_trees.entry(&event);
                    self.report.foreign_entry(event);
                }
                Ok(FarRecord::NewTree { source, destination }) => {
                    let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
                    self.new_trees.begin(path(source), path(destination));
                }
                // Nothing comes behind its end.
                Ok(FarRecord::Manifest(end)) => self.end = self.end.or(Some(end)),
                Err(_) => self.refuse(),
            }
        }
        if self.rest.len() > MAX_RECORD_BYTES {
            self.rest = Vec::new();
            self.refuse();
        }
    }

    /// Takes whole lines of the output, which are events where JSON is printed.
    pub(super) fn output(&mut self, lines: &[u8]) {
        if self.events == Events::Printed {
            let events = lines.split(|byte| *byte == b'\n').map(serde_json::from_slice);
            events.flatten().for_each(|event| self.new_trees.entry(&event));
        }
    }

    /// Takes lines of the manifest.
    pub(super) fn lines(&mut self, bytes: &[u8]) {
        if let (Some(manifest), None) = (&mut self.manifest, self.end) {
            manifest.add(bytes);
        }
    }

    fn refuse(&mut self) {
        let what = "the other machine sent what is no record";
        self.report.lose_audit(&io::Error::new(io::ErrorKind::InvalidData, what));
    }

    /// Ends the files when the job has ended. Returns the exit code for errors of them.
    pub(super) fn end(mut self) -> Exit {
        let written = self.end_manifest();
        self.report.finish().and(written)
    }

    /// Ends them when the session failed, so that nothing is known about the job.
    pub(super) fn fail(mut self, names: &Names, failure: &Failure) -> Exit {
        self.lose_trees();
        let (sources, destination) = names.shown();
        self.report.all_failed(&sources, &destination, failure);
        self.end.get_or_insert(ManifestEnd::EndedEarly);
        let written = self.end_manifest();
        self.report.finish().and(written)
    }

    /// Ends them when a signal stopped the job. `in_order`: the other machine has said all.
    pub(super) fn stop(mut self, in_order: bool) {
        if !in_order {
            self.lose_trees();
        }
        self.report.close_audit(true);
    }

    /// Reports the new trees whose names did not come.
    fn lose_trees(&mut self) {
        let lost = self.new_trees.take_lost();
        match self.events {
            Events::Missing if lost.is_empty() => {}
            Events::Missing => self.report.lost_unknown_trees(),
            _ => lost.iter().for_each(|tree| self.report.lost_tree(tree)),
        }
    }

    fn end_manifest(&mut self) -> Exit {
        match (self.manifest.take(), self.end) {
            (Some(manifest), Some(end)) => manifest.end(end),
            // The other machine said why there is none.
            _ => Exit::Success,
        }
    }
}

/// Sources that are directories, of which there may be new trees on the other machine.
fn directories(flags: &CopyArgs, names: &Names) -> Vec<PathBuf> {
    match names.route {
        Route::Push(_) if flags.is_recursive() => {
            names.sources.iter().filter(|source| source.is_dir()).cloned().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::{Args, Command, FromArgMatches};
    use serde_json::Value;

    use super::*;
    use crate::audit::Audit;
    use crate::report::AuditLog;

    fn recorder(directory: &Path) -> Recorder {
        let matches =
            CopyArgs::augment_args(Command::new("cp")).get_matches_from(["cp", "-q", "a", "b"]);
        let flags = CopyArgs::from_arg_matches(&matches).unwrap();
        let audit = Audit::open(&directory.join("log")).unwrap();
        let report = Report::new(&flags, Some(AuditLog::Here(Box::new(audit))));
        Recorder::new(report, Some(ManifestFile::new(&directory.join("sums"), true)))
    }

    fn records(directory: &Path) -> Vec<Value> {
        let text = fs::read_to_string(directory.join("log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    const COPIED: &str = r#"{"entry":{"event":"copied","source":"a","destination":"far:b","bytes":3,
        "mechanisms":[{"name":"read_write","bytes":3,"cost":"user_copied"}]}}"#;

    fn copied() -> Vec<u8> {
        [COPIED.replace('\n', "").as_bytes(), b"\n"].concat()
    }

    #[test]
    fn records_in_any_pieces_are_entries_of_the_log() {
        for length in [1, 7, 1000] {
            let directory = tempfile::tempdir().unwrap();
            let mut recorder = recorder(directory.path());
            for piece in copied().repeat(3).chunks(length) {
                recorder.records(piece);
            }
            assert_eq!(recorder.end(), Exit::Success);
            let records = records(directory.path());
            assert_eq!(records.len(), 5);
            assert_eq!(
                (&records[1]["result"], &records[1]["destination"]),
                (&"copied".into(), &"far:b".into())
            );
            assert_eq!(
                (&records[4]["copied"], &records[4]["buffered_bytes"]),
                (&3.into(), &9.into())
            );
        }
    }

    /// It neither forges a part of the chain nor breaks the log for its readers.
    #[test]
    fn the_other_machine_chooses_the_entries_alone() {
        let forged = r#"{"entry":{"event":"copied","audit":"end","previous":"0","time":"0","job":"0","schema":9,
            "result":"failed","attempts":7}}"#;
        let directory = tempfile::tempdir().unwrap();
        let mut recorder = recorder(directory.path());
        recorder.records(&[forged.replace('\n', "").as_bytes(), b"\n"].concat());
        assert_eq!(recorder.end(), Exit::Success);
        let found = records(directory.path());
        let entry = &found[1];
        assert_eq!((&entry["audit"], &entry["result"]), (&"entry".into(), &"copied".into()));
        assert_eq!((&entry["job"], &entry["schema"]), (&found[0]["job"], &found[0]["schema"]));
        assert_ne!(entry["previous"], "0");
        assert_ne!(entry["time"], "0");
        assert_eq!(entry["attempts"], 1);
    }

    #[test]
    fn what_is_no_record_ends_the_log_and_says_so() {
        for bad in [
            &b"no JSON\n"[..],
            b"{}\n",
            b"\n",
            b"\xff\n",
            br#"{"entry":{"event":"begin"}}
"#,
            br#"{"entry":{"event":"copied","bytes":"many"}}
"#,
            br#"{"entry":{"event":"copied","mechanisms":[1]}}
"#,
            br#"{"entry":[]}
"#,
            br#"{"other":{}}
"#,
            &vec![b'x'; MAX_RECORD_BYTES + 1],
        ] {
            let directory = tempfile::tempdir().unwrap();
            let mut recorder = recorder(directory.path());
            recorder.records(&copied());
            recorder.records(bad);
            recorder.records(&copied());
            let text = String::from_utf8_lossy(&bad[..bad.len().min(60)]).into_owned();
            assert_eq!(recorder.end(), Exit::Failure, "{text}");
            let records = records(directory.path());
            assert_eq!(records.last().unwrap()["result"], "copied", "it has no end: {text}");
            assert_eq!(records.len(), 2, "{text}");
        }
    }

    #[test]
    fn a_manifest_is_there_when_its_end_is() {
        for (end, expected) in [
            (
                &br#"{"manifest":{"listed":{"lines":2,"left_out":0,"refused_by_tool":0}}}
"#[..],
                Some(&b"1  a\n2  b\n"[..]),
            ),
            (b"{\"manifest\":\"nothing_copied\"}\n", None),
            (b"{\"manifest\":\"ended_early\"}\n", None),
            (b"", None),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let mut recorder = recorder(directory.path());
            recorder.lines(b"1  a\n2");
            recorder.lines(b"  b\n");
            recorder.records(end);
            // Nothing comes behind the end.
            recorder.lines(b"3  c\n");
            recorder.records(b"{\"manifest\":\"ended_early\"}\n");
            if end.is_empty() {
                drop(recorder);
            } else {
                assert_eq!(recorder.end(), Exit::Success);
            }
            assert_eq!(fs::read(directory.path().join("sums")).ok().as_deref(), expected);
            let left = fs::read_dir(directory.path()).unwrap().count();
            assert_eq!(left, 1 + usize::from(expected.is_some()), "nothing is left beside it");
        }
    }
}
