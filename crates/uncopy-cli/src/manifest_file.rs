//! The file of `--manifest`: it appears under its name when it is whole, or not at all.

use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::replaced_file::Replacement;
use crate::report::outlet::{Listed, ManifestEnd};
use crate::report::{self, quoted};

/// A manifest that is being written.
#[derive(Debug)]
pub(crate) struct ManifestFile {
    file: PathBuf,
    is_quiet: bool,
    /// Lines so far, if there are some; or the first error.
    begun: io::Result<Option<Replacement>>,
}

impl ManifestFile {
    /// Begins it; nothing is made before the first line.
    pub(crate) fn new(file: &Path, is_quiet: bool) -> ManifestFile {
        ManifestFile { file: file.to_owned(), is_quiet, begun: Ok(None) }
    }

    /// Adds lines. An error shows at the end.
    pub(crate) fn add(&mut self, lines: &[u8]) {
        let added = match std::mem::replace(&mut self.begun, Ok(None)) {
            Ok(Some(begun)) => Ok(begun),
            Ok(None) => Replacement::begin(&self.file),
            Err(error) => Err(error),
        };
        self.begun = added.and_then(|mut begun| begun.write(lines).map(|()| Some(begun)));
    }

    /// Puts it in place if all lines are there, and says otherwise why it is not there.
    pub(crate) fn end(mut self, end: ManifestEnd) -> Exit {
        let why = match end {
            ManifestEnd::Listed(listed) => {
                self.add(&[]);
                return self.put(listed);
            }
            ManifestEnd::NothingCopied => "no file was copied",
            ManifestEnd::EndedEarly => "the copy ended early",
        };
        report::say(&format!("the manifest {} was not written, because {why}", quoted(&self.file)));
        Exit::Success
    }

    fn put(self, listed: Listed) -> Exit {
        let ManifestFile { file, is_quiet, begun } = self;
        let put = begun.and_then(|begun| begun.map_or(Ok(()), Replacement::end));
        if let Err(error) = put {
            let operation = format!("write the manifest {}", file.display());
            let next_step = "the copies are complete; write it with the tool of its digest";
            return report::failed_to(&operation, &error, next_step);
        }
        if !is_quiet {
            note(&file, listed);
        }
        Exit::Success
    }
}

fn note(file: &Path, listed: Listed) {
    let Listed { lines, left_out, refused_by_tool } = listed;
    let file = quoted(file);
    if left_out > 0 {
        let files = if left_out == 1 { "file" } else { "files" };
        report::say(&format!(
            "note: {file} lacks {left_out} {files} that this run did not copy and no earlier run is known \
             to have copied"
        ));
    }
    if refused_by_tool > 0 {
        report::say(&format!(
            "note: names in {file} are not UTF-8, which b3sum refuses ({refused_by_tool} of {lines}); check it by \
             `uncopy verify --manifest`, or use another digest"
        ));
    }
}
