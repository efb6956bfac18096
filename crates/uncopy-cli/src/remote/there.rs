//! Sources that another machine shows, and the copy of them that is made here.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use uncopy::copy::job::{
    JobError, JobObserver, JobOptions, Summary, copy_from_peer, is_built_from_peer,
};
use uncopy::copy::peer::Peer;
use uncopy::remote::{DataReport, RemoteSource, Traffic};

use super::session;
use crate::config::Configured;
use crate::cp::target::{self, Names};
use crate::cp::{self, Held, Pair, Reports, Signals, job};
use crate::exit::Exit;
use crate::flags::operand::Machine;
use crate::flags::usage_error;
use crate::report::Wire;

/// Kind of a file in its mode, and those of regular files and directories (`inode(7)`).
const FORMAT: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;

/// Sources that another machine shows.
pub(super) struct There<'a> {
    pub(super) source: Arc<RemoteSource>,
    /// Machine that people know the sources by, if they do not know them as files here.
    pub(super) machine: Option<&'a Machine>,
    /// Traffic so far.
    pub(super) crossed: &'a (dyn Fn() -> (Traffic, DataReport) + Sync),
    pub(super) since: Instant,
    /// Whether the other machine reads the report, and wants to know which trees are new.
    pub(super) reports_new_trees: bool,
}

impl job::Sources for There<'_> {
    fn copy(
        &self,
        pairs: &[Pair],
        options: &JobOptions,
        observer: &dyn JobObserver,
    ) -> Result<Summary, JobError> {
        let pairs = pairs.iter().map(|pair| (&pair.source, &pair.destination));
        copy_from_peer(self.source.clone(), pairs, options, observer)
    }

    fn is_built(
        &self,
        number: u32,
        source: &Path,
        destination: &Path,
        options: &JobOptions,
    ) -> bool {
        let source = match self.machine {
            Some(machine) => &machine.with_path(source),
            None => source,
        };
        is_built_from_peer(self.source.clone(), number, source, destination, options)
    }

    fn wire(&self) -> Option<Wire> {
        let (traffic, data) = (self.crossed)();
        Some(session::wire(traffic, &data, self.since.elapsed()))
    }
}

impl There<'_> {
    /// Copies them to the destination here, and reports it.
    ///
    /// # Errors
    /// The command line makes no sense with what is there; nothing was changed.
    pub(super) fn copy(
        &self,
        configured: &Configured,
        mut options: JobOptions,
        names: &Names,
        held: Held,
        signals: Signals<'_>,
    ) -> Result<Exit, clap::Error> {
        let flags = &configured.flags;
        let is_directory = match cp::settle(configured, &mut options, names, self, held)? {
            Ok(is_directory) => is_directory,
            Err(exit) => return Ok(exit),
        };
        let pairs = target::pairs(names.clone(), is_directory, options.copy.transform, |path| {
            flags.is_recursive() && self.is(DIRECTORY, names, path, false)
        })
        .map_err(|same| usage_error(flags.subcommand(), same.kind(), &same.to_string()))?;
        let is_file = |pair: &Pair, follows| self.is(REGULAR, names, &pair.source, follows);
        let manifest = cp::manifest(flags, &options, &names.destination, &pairs, &is_file, held)?;
        cp::note_slashes(&pairs, flags, self.machine);
        let shown = |pair: Pair| match self.machine {
            Some(machine) => Pair { source: machine.with_path(&pair.source), ..pair },
            None => pair,
        };
        let pairs: Vec<Pair> = pairs.into_iter().map(shown).collect();
        let report = match cp::begin_report(flags, &options, &pairs, held)? {
            Ok(report) => report,
            Err(exit) => return Ok(exit),
        };
        if self.reports_new_trees && flags.is_recursive() && !options.resume && !options.dry_run {
            let is_new = |pair: &&Pair| {
                let found = pair.destination.symlink_metadata();
                found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            };
            pairs.iter().filter(is_new).for_each(|pair| report.new_tree(pair));
        }
        options.gate = Some(signals.control.gate());
        let reports = Reports { report, manifest };
        Ok(job::copy(self, &pairs, options, flags.tree.progress, signals, reports))
    }

    /// Whether a source is of a kind.
    fn is(&self, kind: u32, names: &Names, path: &Path, follows: bool) -> bool {
        let numbers = names.sources.iter().zip(0..);
        numbers.filter(|(root, _)| *root == path).any(|(_, number)| {
            self.source.open_root(number, follows).is_ok_and(|opened| {
                self.source.close(opened.handle);
                opened.stat.mode & FORMAT == kind
            })
        })
    }
}
