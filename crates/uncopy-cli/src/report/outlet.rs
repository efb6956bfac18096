//! Where the output of this process goes: to its own streams, or to the other machine that it copies for.

use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uncopy::copy::job::JobProgress;

/// One of two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

/// The other machine, whose person or program reads the output.
pub(crate) trait Outlet: Send + Sync {
    /// Writes to a stream of the process there.
    ///
    /// # Errors
    /// The connection is gone.
    fn write(&self, stream: Stream, bytes: &[u8]) -> io::Result<()>;

    /// Sends a record, whose file is there.
    ///
    /// # Errors
    /// The connection is gone.
    fn record(&self, record: &FarRecord) -> io::Result<()>;

    /// Sends contents of the manifest, which is there.
    ///
    /// # Errors
    /// The connection is gone.
    fn manifest(&self, bytes: &[u8]) -> io::Result<()>;

    /// Shows how far the copy is.
    fn progress(&self, progress: JobProgress);
}

/// Record for the machine of the command line, which has the file that it is for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FarRecord {
    /// Event of an entry, for the audit log.
    Entry(Map<String, Value>),
    /// End of the manifest.
    Manifest(ManifestEnd),
    /// A tree that gets its name when it is whole, and until then is removed if the copy ends.
    NewTree {
        /// Its source, as bytes of a path.
        source: Vec<u8>,
        /// Its destination, as events name it.
        destination: Vec<u8>,
    },
}

/// End of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ManifestEnd {
    /// All lines are there.
    Listed(Listed),
    /// There are none, because no file was copied.
    NothingCopied,
    /// There are none, because the copy ended early.
    EndedEarly,
}

/// Numbers of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub lines: u64,
    /// Files that it lacks.
    pub left_out: u64,
    /// Lines that the tool of its digest refuses, since their names are not UTF-8.
    pub refused_by_tool: u64,
}

static OUTLET: OnceLock<Box<dyn Outlet>> = OnceLock::new();

/// Sends all output of this process to the other machine from now on.
pub(crate) fn redirect(to: Box<dyn Outlet>) {
    let is_first = OUTLET.set(to).is_ok();
    debug_assert!(is_first, "a process copies for one other machine");
}

/// Returns the other machine, if the output goes there.
pub(crate) fn away() -> Option<&'static dyn Outlet> {
    OUTLET.get().map(|outlet| &**outlet)
}

/// Sends the event of an entry, a line of JSON, for the audit log on the other machine.
///
/// # Errors
/// The connection is gone.
pub(crate) fn record(event: &str) -> io::Result<()> {
    match away() {
        Some(outlet) => outlet.record(&FarRecord::Entry(serde_json::from_str(event)?)),
        None => Ok(()),
    }
}

/// Tells the other machine of a tree that gets its name when it is whole.
pub(crate) fn new_tree(source: &Path, destination: &Path) {
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    let (source, destination) = (bytes(source), bytes(destination));
    if let Some(outlet) = away() {
        // The end of the connection shows elsewhere.
        let _ = outlet.record(&FarRecord::NewTree { source, destination });
    }
}

/// Writes to a stream in one piece.
///
/// # Errors
/// Nobody reads it, or it has no room.
pub(crate) fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match (away(), stream) {
        (Some(outlet), stream) => outlet.write(stream, bytes),
        (None, Stream::Output) => {
            let mut output = io::stdout().lock();
            output.write_all(bytes)?;
            output.flush()
        }
        (None, Stream::Error) => io::stderr().write_all(bytes),
    }
}
