//! Counts entries and bytes ahead of the copy, so that the remaining work is known.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;

use super::ending::Ending;
use super::tally::Tally;
use super::target::names_directory;
use crate::count::{CountState, TreeCount, length};
use crate::jobs::{JobOptions, Links, Sources};
use crate::peer_link::PeerLink;
use crate::{Control, Gate};
use uncopy_os::file::Stat;
use uncopy_os::{Sys, directory, follow};

/// A scan, and the parts of the job that it uses.
pub(super) struct Scan<'a> {
    pub(super) options: &'a JobOptions,
    pub(super) tally: &'a Tally<'a>,
    pub(super) ending: &'a Ending,
}

impl Scan<'_> {
    /// Counts the contents of the sources. No error is reported: the copy will meet the same errors.
    pub(super) fn run(&self, sources: &[PathBuf], peer: Option<&Arc<PeerLink>>) {
        let _inside = self.options.gate.as_ref().map(Gate::enter);
        let mut roots = sources.iter().zip(0..);
        let whole = roots.all(|(source, number)| match peer {
            None => self.scan(source).unwrap_or(true),
            // Whatever it does not count stays unknown.
            Some(link) => self.scan_there(link, number, source).unwrap_or(false),
        });
        if whole && !self.ending.is_over() {
            self.tally.end_scan();
        }
    }

    /// Counts a directory. Returns `false` if counting was given up.
    fn scan(&self, source: &Path) -> Sys<bool> {
        let stat = match self.options.sources {
            Sources::Trees | Sources::Entries => directory::stat_path(source)?,
            Sources::Files => {
                let stat = follow::stat(source).map_err(|stopped| stopped.errno())?;
                self.count(&stat);
                return Ok(true);
            }
        };
        if stat.file_type() != FileType::Directory {
            self.count(&stat);
            return Ok(true);
        }
        let root = follow::open_root(source).map_err(|stopped| stopped.errno())?;
        let mut tree = TreeCount::new(self.options.one_filesystem);
        loop {
            let mut goes_on = self.may_continue();
            let state = tree.next_directory(&root, &mut |bytes| {
                self.tally.count_scanned(bytes);
                goes_on = goes_on && self.may_continue();
                goes_on
            });
            match state {
                _ if !goes_on => return Ok(false),
                CountState::Waiting => {}
                CountState::GivenUp => return Ok(false),
                CountState::Done => break,
            }
        }
        // The root itself.
        self.tally.count_scanned(None);
        Ok(true)
    }

    /// Has another machine count a root.
    fn scan_there(&self, link: &Arc<PeerLink>, number: u32, source: &Path) -> Sys<bool> {
        let options = self.options;
        let follow =
            options.links == Links::Follow || options.follow_roots || names_directory(source);
        let (root, stat) = link.opened(link.ask(|peer| peer.open_root(number, follow))?)?;
        if stat.file_type() != FileType::Directory {
            self.count(&stat);
            return Ok(true);
        }
        while self.may_continue() {
            let found = root.ask(|peer, handle| peer.count(handle, options.one_filesystem))?;
            self.tally.add_scanned(found.entries, found.bytes);
            if found.is_last {
                // The root itself.
                self.tally.count_scanned(None);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits while the job is paused. Returns `false` if it is over.
    fn may_continue(&self) -> bool {
        let control = || if self.ending.is_over() { Control::Stop } else { Control::Continue };
        self.options.gate.as_ref().map_or_else(control, |gate| gate.control(control))
            == Control::Continue
    }

    fn count(&self, stat: &Stat) {
        self.tally.count_scanned(length(stat));
    }
}
