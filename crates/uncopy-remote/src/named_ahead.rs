//! Entries that are looked at by their names, as many at a time as come in one answer, and asked for ahead.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use uncopy_copy::peer::{PeerContents, PeerError, PeerHandle, PeerLooks, PeerNamed, PeerNames};
use uncopy_core::Errno;
use uncopy_wire::{Answer, Call, Handle, MAX_NAMES, PageEntry, is_name};

use crate::lanes::{PendingAnswer, other_answer};
use crate::source::{self, PAGE_BYTES, RemoteSource};

/// Names of one directory, from one of them on.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Number of the names of the directory.
    group: usize,
    /// Number of the first one.
    from: usize,
}

/// Part that was asked for.
#[derive(Debug)]
struct AskedPart {
    part: Part,
    asked: Result<PendingAnswer, PeerError>,
}

/// Names of entries, of which some are asked for.
#[derive(Debug)]
pub(crate) struct NamedAhead {
    source: Arc<RemoteSource>,
    directory: Handle,
    names: Arc<[PeerNames]>,
    contents: PeerContents,
    /// Number of names of directories that were asked for.
    begun: usize,
    ahead: VecDeque<AskedPart>,
}

impl NamedAhead {
    pub(crate) fn new(
        source: Arc<RemoteSource>,
        directory: PeerHandle,
        names: Arc<[PeerNames]>,
        contents: PeerContents,
    ) -> NamedAhead {
        let contents = source::within_limits(contents);
        let (directory, begun, ahead) = (Handle(directory.0), 0, VecDeque::new());
        NamedAhead { source, directory, names, contents, begun, ahead }
    }

    /// Asks for further parts as long as memory allows. The one that is waited for needs no share: there are as many as
    /// readers.
    fn ask_ahead(&mut self) {
        while self.begun < self.names.len() && self.ahead.len() < self.source.pages_ahead() {
            let mut share = self.source.budget.try_take(PAGE_BYTES);
            if share.is_none() && !self.ahead.is_empty() {
                break;
            }
            let part = Part { group: self.begun, from: 0 };
            self.begun += 1;
            let asked = self
                .call(part)
                .and_then(|call| self.source.lanes.begin_anywhere(&call, &mut share));
            self.ahead.push_back(AskedPart { part, asked });
        }
    }

    /// Makes the call that asks for a part.
    fn call(&self, part: Part) -> Result<Call, PeerError> {
        let PeerNames { way, names } = &self.names[part.group];
        let names = &names[part.from..];
        let is_known = |name: &OsString| is_name(name.as_bytes());
        let is_short = way.len() <= MAX_NAMES && names.len() <= MAX_NAMES;
        if !is_short || !way.iter().chain(names).all(is_known) {
            return Err(PeerError::System(Errno::ENAMETOOLONG));
        }
        let bytes =
            |names: &[OsString]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Call::LookAll {
            directory: self.directory,
            way: bytes(way),
            names: bytes(names),
            contents_up_to: self.contents.up_to,
            wants_attributes: self.contents.with_attributes,
        })
    }

    /// Waits for a part. If its connection ends before, asks again.
    fn wait(&self, AskedPart { part, asked }: AskedPart) -> Result<Answer, PeerError> {
        let lanes = &self.source.lanes;
        let mut pending = asked?;
        loop {
            match lanes.wait_for_answer(pending)? {
                Some(answer) => return Ok(answer),
                None => pending = lanes.begin_anywhere(&self.call(part)?, &mut None)?,
            }
        }
    }
}

impl PeerLooks for NamedAhead {
    fn next(&mut self) -> Result<Vec<PeerNamed>, PeerError> {
        let source = Arc::clone(&self.source);
        let _place = source.readers.enter();
        self.ask_ahead();
        let Some(asked) = self.ahead.pop_front() else { return Ok(Vec::new()) };
        let part = asked.part;
        let answer = self.wait(asked);
        let Answer::Named { entries } = answer? else { return Err(other_answer()) };
        let rest = Part { from: part.from + entries.len(), ..part };
        if rest.from < self.names[part.group].names.len() {
            // They are longer than was expected.
            let call = self.call(rest)?;
            let asked = source.lanes.begin_anywhere(&call, &mut None);
            self.ahead.push_front(AskedPart { part: rest, asked });
        }
        self.ask_ahead();
        Ok(entries.into_iter().map(named).collect())
    }
}

fn named(entry: PageEntry) -> PeerNamed {
    match entry {
        PageEntry::Seen(entry) => PeerNamed::Seen(source::entry(entry)),
        PageEntry::Failed(entry) => PeerNamed::Failed(source::failed_entry(entry)),
    }
}
