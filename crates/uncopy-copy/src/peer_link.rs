//! Asks another machine for what a job copies from it, and remembers when that machine is lost.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::FileType;

use super::peer::{
    Peer, PeerAttribute, PeerEntry, PeerError, PeerFailedEntry, PeerHandle, PeerOpened,
};
use uncopy_core::{Errno, Error, Objection, Reason};
use uncopy_os::Sys;
use uncopy_os::file::{Stat, Timestamp};
use uncopy_os::follow::{FollowError, FollowResult};

/// Error number of every question after the machine was lost. It is not reported: the job ends with
/// [`PeerLink::lost`].
const LOST: Errno = Errno::ENOTCONN;

/// Returns the error of a root that cannot be opened there.
pub(crate) fn root_not_opened(root: &Path, stopped: FollowError) -> Error {
    match stopped {
        // The other machine looks at no path that leads out of the directory of the login.
        FollowError::System(Errno::EXDEV) => {
            Error::new("open", root, Reason::Refused(Objection::OutsideLogin))
        }
        stopped => stopped.error("open", root),
    }
}

/// Returns the path of a link there with what precedes the path of a root in its name for people: the machine.
fn named_as(root: &Path, path: &Path, link: PathBuf) -> PathBuf {
    match root.as_os_str().as_bytes().strip_suffix(path.as_os_str().as_bytes()) {
        Some(machine) => {
            let mut named = OsStr::from_bytes(machine).to_owned();
            named.push(link);
            named.into()
        }
        None => link,
    }
}

/// Marks device numbers of the other machine, so that none of its files is taken for one of this machine. No device
/// of Linux has this bit (`MAJOR` in `include/linux/kdev_t.h`).
const ELSEWHERE: u32 = 1 << 31;

/// Maximum length of a name (`PATH_MAX`): some filesystems have longer ones than most.
const MAX_NAME_BYTES: usize = 4096;

/// A source on another machine, for as long as a job lasts.
pub(crate) struct PeerLink {
    pub(crate) peer: Arc<dyn Peer>,
    /// Name for people.
    name: PathBuf,
    lost: OnceLock<String>,
}

impl PeerLink {
    pub(crate) fn new(peer: Arc<dyn Peer>, name: PathBuf) -> PeerLink {
        PeerLink { peer, name, lost: OnceLock::new() }
    }

    /// Whether the machine was lost. It is not asked again then.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Returns the error that ends the job, if the machine was lost.
    pub(crate) fn lost(&self) -> Option<Error> {
        let what = self.lost.get()?.clone();
        Some(Error::new("copy from", &self.name, Reason::Refused(Objection::PeerLost { what })))
    }

    /// Notes that the peer did what no peer does. Returns the error number of a lost machine.
    pub(crate) fn violated(&self, what: &str) -> Errno {
        self.lost.get_or_init(|| what.to_owned());
        LOST
    }

    /// Asks a question.
    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(&dyn Peer) -> Result<T, PeerError>,
    ) -> Sys<T> {
        self.follow(question).map_err(|stopped| stopped.errno())
    }

    /// Asks a question whose answer says which link was not followed.
    pub(crate) fn follow<T>(
        &self,
        question: impl FnOnce(&dyn Peer) -> Result<T, PeerError>,
    ) -> FollowResult<T> {
        if self.is_lost() {
            return Err(LOST.into());
        }
        question(&*self.peer).map_err(|error| match error {
            PeerError::System(errno) => errno.into(),
            PeerError::ForeignLink { link, owner } => FollowError::Foreign { link, owner },
            PeerError::Lost { what } => {
                self.lost.get_or_init(|| what);
                LOST.into()
            }
        })
    }

    /// Opens a root. `name`: by which people know it.
    pub(crate) fn open_root(
        self: &Arc<Self>,
        number: u32,
        follows: bool,
        name: &Path,
    ) -> FollowResult<(PeerObject, Stat)> {
        match self.follow(|peer| peer.open_root(number, follows)) {
            Ok(opened) => Ok(self.opened(opened)?),
            Err(FollowError::Foreign { link, owner }) => {
                let link = match self.peer.root_path(number) {
                    Some(path) => named_as(name, path, link),
                    None => link,
                };
                Err(FollowError::Foreign { link, owner })
            }
            Err(stopped) => Err(stopped),
        }
    }

    /// Takes over what was opened. Returns it with its status.
    pub(crate) fn opened(self: &Arc<Self>, opened: PeerOpened) -> Sys<(PeerObject, Stat)> {
        let PeerOpened { handle, stat } = opened;
        let object = PeerObject(Arc::new(OpenThere { link: Arc::clone(self), handle }));
        Ok((object, self.check_stat(&stat)?))
    }

    /// Checks a status, and marks its devices.
    pub(crate) fn check_stat(&self, stat: &Stat) -> Sys<Stat> {
        let is_time = |time: &Timestamp| time.nanoseconds < 1_000_000_000;
        let times = [&stat.accessed, &stat.modified, &stat.changed];
        if i64::try_from(stat.size).is_err()
            || !times.into_iter().all(is_time)
            || stat.file_type() == FileType::Unknown
        {
            return Err(self.violated("a status that no file has"));
        }
        Ok(Stat {
            device: (stat.device.0 | ELSEWHERE, stat.device.1),
            // Only this machine's kernel can say these.
            birth: None,
            direct: None,
            mount_root: false,
            may_be_dax: false,
            is_flagged: false,
            ..stat.clone()
        })
    }

    /// Returns a status by which this machine knows the file, if the files of the peer are its own; else the marked one.
    pub(crate) fn stat_here(&self, stat: &Stat) -> Stat {
        let device = match self.peer.is_here() {
            true => (stat.device.0 & !ELSEWHERE, stat.device.1),
            false => stat.device,
        };
        Stat { device, ..stat.clone() }
    }

    /// Checks an entry, and marks the devices of its status.
    pub(crate) fn check_entry(&self, mut entry: PeerEntry) -> Sys<PeerEntry> {
        if !is_name(&entry.name) {
            return Err(self.violated("a name that no entry has"));
        }
        entry.stat = self.check_stat(&entry.stat)?;
        let kind = entry.stat.file_type();
        let is_target = |target: &OsString| {
            kind == FileType::Symlink && !target.is_empty() && !target.as_bytes().contains(&0)
        };
        if !entry.target.as_ref().is_none_or(is_target) {
            return Err(self.violated("the target of a link that no link has"));
        }
        let is_whole =
            |bytes: &[u8]| kind == FileType::RegularFile && bytes.len() as u64 == entry.stat.size;
        if !entry.contents.as_deref().is_none_or(is_whole) {
            return Err(self.violated("contents of a length that their file does not have"));
        }
        let is_known = kind == FileType::Directory || entry.contents.is_some();
        if entry.attributes.is_some() && !is_known {
            return Err(self.violated("attributes of what has not come"));
        }
        Ok(entry)
    }
}

impl PeerLink {
    /// Checks the name of an entry that could not be looked at.
    pub(crate) fn check_failed(&self, entry: PeerFailedEntry) -> Sys<PeerFailedEntry> {
        match is_name(&entry.name) {
            true => Ok(entry),
            false => Err(self.violated("a name that no entry has")),
        }
    }
}

impl fmt::Debug for PeerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PeerLink { name, lost, .. } = self;
        f.debug_struct("PeerLink").field("name", name).field("lost", lost).finish_non_exhaustive()
    }
}

/// Whether bytes are the name of an entry, and lead nowhere else.
fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !matches!(bytes, b"" | b"." | b"..")
        && bytes.len() <= MAX_NAME_BYTES
        && !bytes.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Something that the other machine has open, closed when the last one is dropped.
#[derive(Debug, Clone)]
pub(crate) struct PeerObject(Arc<OpenThere>);

#[derive(Debug)]
struct OpenThere {
    link: Arc<PeerLink>,
    handle: PeerHandle,
}

impl PeerObject {
    /// Returns its number.
    pub(crate) fn handle(&self) -> PeerHandle {
        self.0.handle
    }

    pub(crate) fn link(&self) -> &Arc<PeerLink> {
        &self.0.link
    }

    /// Asks a question about it.
    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(&dyn Peer, PeerHandle) -> Result<T, PeerError>,
    ) -> Sys<T> {
        self.link().ask(|peer| question(peer, self.0.handle))
    }

    /// Looks at it again.
    pub(crate) fn examine(&self) -> Sys<Stat> {
        self.ask(|peer, handle| peer.examine(handle)).and_then(|stat| self.link().check_stat(&stat))
    }

    /// Returns its extended attributes.
    pub(crate) fn attributes(&self) -> Sys<PeerAttributes> {
        let answer = match self.ask(|peer, handle| peer.attributes(handle)) {
            Err(Errno::EOPNOTSUPP) => return Ok(PeerAttributes::default()),
            other => other?,
        };
        let known = PeerAttributes::known(self.link(), answer)?;
        Ok(PeerAttributes { known, of: Some(self.clone()) })
    }
}

/// Extended attributes of something that the other machine has open. Long values are asked for when they are wanted, so
/// that not all of them take memory at once.
#[derive(Debug, Default)]
pub(crate) struct PeerAttributes {
    known: Vec<(CString, Option<Vec<u8>>)>,
    of: Option<PeerObject>,
}

impl PeerAttributes {
    /// Takes over all attributes of a file, which came with its contents.
    pub(crate) fn of_listed(link: &PeerLink, all: &[PeerAttribute]) -> Sys<PeerAttributes> {
        Ok(PeerAttributes { known: PeerAttributes::known(link, all.to_vec())?, of: None })
    }

    fn known(link: &PeerLink, answer: Vec<PeerAttribute>) -> Sys<Vec<(CString, Option<Vec<u8>>)>> {
        let known = |attribute: PeerAttribute| match CString::new(attribute.name.as_bytes()) {
            Ok(name) if !name.is_empty() => Ok((name, attribute.value)),
            _ => Err(link.violated("a name that no attribute has")),
        };
        answer.into_iter().map(known).collect()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &CString> {
        self.known.iter().map(|(name, _)| name)
    }

    /// Returns the value of one; `None`: there is none of this name.
    pub(crate) fn get(&self, name: &CStr) -> Sys<Option<Vec<u8>>> {
        let known = self.known.iter().find(|(known, _)| known.as_c_str() == name);
        match (known, &self.of) {
            (Some((_, None)), Some(of)) => {
                let name = OsStr::from_bytes(name.to_bytes());
                of.ask(|peer, handle| peer.attribute(handle, name))
            }
            (known, _) => Ok(known.and_then(|(_, value)| value.clone())),
        }
    }
}

impl Drop for OpenThere {
    fn drop(&mut self) {
        if !self.link.is_lost() {
            self.link.peer.close(self.handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_another_machine_is_named_as_its_root_is() {
        for (root, path, link, expected) in [
            ("web:/d/l", "/d/l", "/d/l", "web:/d/l"),
            ("web:/d/l", "/d/l", "/e/next", "web:/e/next"),
            ("me@web:l", "l", "l", "me@web:l"),
            ("[::1]:", "", "l", "[::1]:l"),
            ("a name", "/d/l", "/d/l", "/d/l"),
        ] {
            let named = named_as(Path::new(root), Path::new(path), link.into());
            assert_eq!(named, Path::new(expected), "{root} {path}");
        }
    }

    #[test]
    fn a_name_is_one_component_of_a_path() {
        let long = "a".repeat(4096);
        let too_long = "a".repeat(4097);
        for (name, expected) in [
            (&b"a"[..], true),
            (b"...", true),
            (b"-rf", true),
            (b"\xff\n", true),
            (long.as_bytes(), true),
            (too_long.as_bytes(), false),
            (b"", false),
            (b".", false),
            (b"..", false),
            (b"/", false),
            (b"a/", false),
            (b"../a", false),
            (b"a\0b", false),
        ] {
            assert_eq!(is_name(OsStr::from_bytes(name)), expected, "{name:?}");
        }
    }
}
