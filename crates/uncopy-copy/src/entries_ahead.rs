//! Entries of another machine that are asked for by their names before a copy comes to them.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::peer::{PeerContents, PeerFailedEntry, PeerLooks, PeerNamed, PeerNames};
use super::peer_link::{PeerLink, PeerObject};
use uncopy_core::Errno;
use uncopy_os::Sys;

/// Entries that a copy is going to ask for, in this order.
#[derive(Debug)]
pub(crate) struct EntriesAhead {
    /// Directory at or above all of them.
    object: PeerObject,
    names: Arc<[PeerNames]>,
    looks: Box<dyn PeerLooks>,
    /// Place of the first entry that was not handed on: directory, and name there.
    at: (usize, usize),
    /// Entries from there on that have come.
    came: VecDeque<PeerNamed>,
}

impl EntriesAhead {
    pub(crate) fn begin(
        object: &PeerObject,
        names: Arc<[PeerNames]>,
        contents: PeerContents,
    ) -> Option<EntriesAhead> {
        let peer = Arc::clone(&object.link().peer);
        let looks = peer.look_ahead(object.handle(), Arc::clone(&names), contents)?;
        let object = object.clone();
        Some(EntriesAhead { object, names, looks, at: (0, 0), came: VecDeque::new() })
    }

    /// Returns an entry. Those before it that were not asked for are left out. `None`: there is no such name behind them.
    ///
    /// # Errors
    /// The other machine was lost.
    pub(crate) fn take(&mut self, way: &[&OsStr], name: &OsStr) -> Sys<Option<PeerNamed>> {
        let names = Arc::clone(&self.names);
        while let Some(group) = names.get(self.at.0) {
            let Some(next) = group.names.get(self.at.1) else {
                self.at = (self.at.0 + 1, 0);
                continue;
            };
            if self.came.is_empty() {
                self.came = self.receive(&group.names[self.at.1..])?;
            }
            let entry = self.came.pop_front();
            self.at.1 += 1;
            if next == name && group.way.iter().eq(way) {
                return Ok(entry);
            }
        }
        Ok(None)
    }

    pub(crate) fn link(&self) -> &Arc<PeerLink> {
        self.object.link()
    }

    /// Receives the next entries, of which these are the names.
    fn receive(&mut self, names: &[OsString]) -> Sys<VecDeque<PeerNamed>> {
        let link = Arc::clone(self.object.link());
        let came = match link.ask(|_| self.looks.next()) {
            Ok(came) => came,
            Err(_) if link.is_lost() => return Err(Errno::ENOTCONN),
            Err(errno) => {
                let failed = |name: &OsString| {
                    PeerNamed::Failed(PeerFailedEntry { name: name.clone(), errno })
                };
                return Ok(names.iter().map(failed).collect());
            }
        };
        let mut expected = names.iter();
        let mut check = |entry: PeerNamed| {
            let entry = match entry {
                PeerNamed::Seen(entry) => PeerNamed::Seen(link.check_entry(entry)?),
                PeerNamed::Failed(entry) => PeerNamed::Failed(link.check_failed(entry)?),
            };
            let (PeerNamed::Seen(crate::peer::PeerEntry { name, .. })
            | PeerNamed::Failed(PeerFailedEntry { name, .. })) = &entry;
            match expected.next() == Some(name) {
                true => Ok(entry),
                false => Err(link.violated("another entry than the one asked about")),
            }
        };
        let came: VecDeque<PeerNamed> = came.into_iter().map(&mut check).collect::<Sys<_>>()?;
        match came.is_empty() {
            true => Err(link.violated("no entry of those that were asked for")),
            false => Ok(came),
        }
    }
}
