//! Defines a directory of a source on another machine: its entries, and its listing.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;

use super::entries_ahead::EntriesAhead;
use super::peer::{PeerAttribute, PeerContents, PeerEntry, PeerFailedEntry, PeerNames};
use super::peer_link::{PeerAttributes, PeerLink, PeerObject};
use uncopy_core::Errno;
use uncopy_os::Sys;
use uncopy_os::file::Stat;
use uncopy_os::follow::FollowResult;

/// Maximum number of entries of a directory: a peer could list without end.
const MAX_ENTRIES: usize = 1 << 26;

/// Number of names that may come again beyond those that came once. A name that is removed and made anew during a
/// listing may come twice (`readdir(3)`).
const SPARE_REPETITIONS: usize = 10_000;

/// Digest of a name, by two keys of this process: no other name has the same.
type NameDigest = (u64, u64);

/// A directory of the other machine.
#[derive(Debug)]
pub(crate) struct PeerDirectory {
    at: At,
    stat: Stat,
    listing: Mutex<PeerListing>,
}

/// Where the entries are.
#[derive(Debug)]
enum At {
    /// In an open directory.
    Opened(PeerObject),
    /// The one entry is a root of the job, which is no directory.
    AboveRoot { link: Arc<PeerLink>, number: u32, follows: bool },
    /// It was looked at by its name, and is not open.
    Looked { link: Arc<PeerLink>, attributes: Vec<PeerAttribute> },
}

/// Entry of a listing, or one that the other machine could not look at.
#[derive(Debug)]
pub(crate) enum ListedThere {
    Seen(PeerEntry),
    Failed(PeerFailedEntry),
}

/// Listing of one directory, which begins once.
#[derive(Debug, Default)]
struct PeerListing {
    /// Entries that came and were not taken yet.
    waiting: VecDeque<ListedThere>,
    is_ended: bool,
    /// Digests of the names that came. A hash table would need twice the memory each time that it grows.
    seen: BTreeSet<NameDigest>,
    digests: (RandomState, RandomState),
    /// Number of names that came again.
    repeated: usize,
    /// Names that came, if they are kept.
    names: Option<Vec<OsString>>,
}

impl PeerListing {
    fn digest(&self, name: &OsStr) -> NameDigest {
        (self.digests.0.hash_one(name), self.digests.1.hash_one(name))
    }
}

impl PeerDirectory {
    /// Makes the directory of a root that is none itself; `stat` is the root's status.
    pub(crate) fn above_root(
        link: &Arc<PeerLink>,
        number: u32,
        follows: bool,
        stat: Stat,
    ) -> PeerDirectory {
        PeerDirectory::new(At::AboveRoot { link: Arc::clone(link), number, follows }, stat)
    }

    /// Takes over a directory that was opened.
    pub(crate) fn of_opened(object: PeerObject, stat: Stat) -> PeerDirectory {
        PeerDirectory::new(At::Opened(object), stat)
    }

    /// Makes a directory of which status and extended attributes are known, and nothing is asked.
    pub(crate) fn looked(link: &Arc<PeerLink>, entry: PeerEntry) -> PeerDirectory {
        let attributes = entry.attributes.unwrap_or_default();
        PeerDirectory::new(At::Looked { link: Arc::clone(link), attributes }, entry.stat)
    }

    fn new(at: At, stat: Stat) -> PeerDirectory {
        PeerDirectory { at, stat, listing: Mutex::default() }
    }

    pub(crate) fn link(&self) -> &Arc<PeerLink> {
        match &self.at {
            At::Opened(object) => object.link(),
            At::AboveRoot { link, .. } | At::Looked { link, .. } => link,
        }
    }

    /// Returns its status when it was opened.
    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Looks at it again.
    pub(crate) fn examine(&self) -> Sys<Stat> {
        match &self.at {
            At::Opened(object) => object.examine(),
            At::AboveRoot { .. } | At::Looked { .. } => Ok(self.stat.clone()),
        }
    }

    /// Returns its extended attributes.
    pub(crate) fn attributes(&self) -> Sys<PeerAttributes> {
        match &self.at {
            At::Opened(object) => object.attributes(),
            At::AboveRoot { .. } => Ok(PeerAttributes::default()),
            At::Looked { link, attributes } => PeerAttributes::of_listed(link, attributes),
        }
    }

    /// Opens an entry, which is no symbolic link unless it is followed. Returns it with its status.
    pub(crate) fn open(&self, name: &OsStr, follows: bool) -> Sys<(PeerObject, Stat)> {
        self.find(name, follows).map_err(|stopped| stopped.errno())
    }

    /// Opens what an entry leads to, or says which link is not followed.
    pub(crate) fn follow(&self, name: &OsStr) -> FollowResult<(PeerObject, Stat)> {
        self.find(name, true)
    }

    fn find(&self, name: &OsStr, follows: bool) -> FollowResult<(PeerObject, Stat)> {
        let (object, stat) = self.find_any(name, follows)?;
        match (&self.at, stat.file_type()) {
            (At::Opened(_), FileType::Symlink) => Err(Errno::ELOOP.into()),
            _ => Ok((object, stat)),
        }
    }

    /// Opens an entry of any kind, as [`PeerDirectory::open`] does.
    pub(crate) fn open_any(&self, name: &OsStr, follows: bool) -> Sys<(PeerObject, Stat)> {
        self.find_any(name, follows).map_err(|stopped| stopped.errno())
    }

    fn find_any(&self, name: &OsStr, follows: bool) -> FollowResult<(PeerObject, Stat)> {
        let opened = match &self.at {
            At::Opened(object) => {
                object.link().follow(|peer| peer.open(object.handle(), name, follows))?
            }
            At::AboveRoot { link, number, follows: root } => {
                link.follow(|peer| peer.open_root(*number, follows || *root))?
            }
            At::Looked { .. } => return Err(Errno::EBADF.into()),
        };
        Ok(self.link().opened(opened)?)
    }

    /// Looks at an entry.
    pub(crate) fn look(&self, name: &OsStr) -> Sys<PeerEntry> {
        let object = match &self.at {
            At::Opened(object) => object,
            At::AboveRoot { link, number, .. } => {
                let (_, stat) = self.open(name, false)?;
                let target = match stat.file_type() {
                    FileType::Symlink => Some(link.ask(|peer| peer.root_target(*number))?),
                    _ => None,
                };
                let name = name.to_owned();
                let entry = PeerEntry { name, stat, target, contents: None, attributes: None };
                return link.check_entry(entry);
            }
            At::Looked { .. } => return Err(Errno::EBADF),
        };
        let entry = object.ask(|peer, handle| peer.look(handle, name))?;
        if entry.name != name {
            return Err(self.link().violated("another entry than the one asked about"));
        }
        self.link().check_entry(entry)
    }

    /// Begins to look at entries at and below it by their names. `None`: the other machine cannot.
    pub(crate) fn look_ahead(
        &self,
        names: Arc<[PeerNames]>,
        contents: PeerContents,
    ) -> Option<EntriesAhead> {
        match &self.at {
            At::Opened(object) => EntriesAhead::begin(object, names, contents),
            At::AboveRoot { .. } | At::Looked { .. } => None,
        }
    }

    /// Says which directories in it are going to be opened, in this order.
    pub(crate) fn expect_directories(&self, names: Vec<OsString>) {
        if let At::Opened(object) = &self.at {
            let expected = object.ask(|peer, handle| {
                peer.expect_directories(handle, names);
                Ok(())
            });
            // Nothing is expected of a machine that was lost.
            expected.unwrap_or(());
        }
    }

    fn listing(&self) -> MutexGuard<'_, PeerListing> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the names of the entries that come from now on.
    pub(crate) fn keep_names(&self) {
        self.listing().names.get_or_insert_default();
    }

    /// Returns the next entry of the listing; `None`: there are no more.
    pub(crate) fn next(&self, contents: PeerContents) -> Sys<Option<ListedThere>> {
        let mut listing = self.listing();
        while listing.waiting.is_empty() && !listing.is_ended {
            self.ask_for_more(&mut listing, contents)?;
        }
        Ok(listing.waiting.pop_front())
    }

    /// Lets all entries come, without contents, and returns them; the listing returns them again.
    pub(crate) fn peek_all(&self, mut visit: impl FnMut(&PeerEntry)) -> Sys<()> {
        let mut listing = self.listing();
        while !listing.is_ended {
            self.ask_for_more(&mut listing, PeerContents::default())?;
        }
        for listed in &listing.waiting {
            if let ListedThere::Seen(entry) = listed {
                visit(entry);
            }
        }
        Ok(())
    }

    fn ask_for_more(&self, listing: &mut PeerListing, contents: PeerContents) -> Sys<()> {
        let At::Opened(object) = &self.at else { return Err(Errno::ENOTDIR) };
        let page = object.ask(|peer, handle| peer.list(handle, contents))?;
        let link = self.link();
        let came = page.entries.len() + page.failed.len();
        if came == 0 && !page.is_last {
            return Err(link.violated("a part of a listing that has no entry"));
        }
        if listing.seen.len() + came > MAX_ENTRIES {
            return Err(Errno::EOVERFLOW);
        }
        let seen = page.entries.into_iter().map(|entry| link.check_entry(entry));
        let failed = page.failed.into_iter().map(|entry| link.check_failed(entry));
        let seen = seen.map(|entry| entry.map(ListedThere::Seen));
        for listed in seen.chain(failed.map(|entry| entry.map(ListedThere::Failed))) {
            let listed = listed?;
            let name = match &listed {
                ListedThere::Seen(entry) => &entry.name,
                ListedThere::Failed(entry) => &entry.name,
            };
            let digest = listing.digest(name);
            if !listing.seen.insert(digest) {
                listing.repeated += 1;
                if listing.repeated > listing.seen.len() + SPARE_REPETITIONS {
                    return Err(link.violated("the same names without end in a directory"));
                }
                continue;
            }
            if let Some(names) = &mut listing.names {
                names.push(name.clone());
            }
            listing.waiting.push_back(listed);
        }
        listing.is_ended = page.is_last;
        Ok(())
    }

    /// Whether the listing came to its end and had an entry of this name. `None`: the other machine has to be asked.
    pub(crate) fn has_listed(&self, name: &OsStr) -> Option<bool> {
        let listing = self.listing();
        listing.is_ended.then(|| listing.seen.contains(&listing.digest(name)))
    }

    /// Whether the listing came to its end and had no entry.
    pub(crate) fn is_empty(&self) -> Sys<bool> {
        let mut listing = self.listing();
        while listing.seen.is_empty() && !listing.is_ended {
            self.ask_for_more(&mut listing, PeerContents::default())?;
        }
        Ok(listing.seen.is_empty())
    }

    /// Returns the names of all entries: those that were kept, or of a directory that was opened again and not listed yet.
    ///
    /// # Errors
    /// They were not kept, or cannot be listed.
    pub(crate) fn names(&self) -> Sys<Vec<OsString>> {
        let mut listing = self.listing();
        if listing.names.is_none() && !listing.seen.is_empty() {
            return Err(Errno::EOPNOTSUPP);
        }
        listing.names.get_or_insert_default();
        while !listing.is_ended {
            self.ask_for_more(&mut listing, PeerContents::default())?;
        }
        Ok(listing.names.clone().unwrap_or_default())
    }
}
