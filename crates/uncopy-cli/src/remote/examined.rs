//! Answer of the other machine about its end of a copy, for `uncopy doctor`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uncopy::capabilities::{self, Answer};
use uncopy::doctor::BetweenSide;
use uncopy::remote::{DataRefusal, FarData};
use uncopy::{Errno, follow};

/// Begins the words of a job that examines a path.
const EXAMINE: &str = "--examine=";

/// Maximum number of bytes of an answer.
pub(super) const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Protocols above TCP of the kernel (`Documentation/networking/tls.rst`).
const ULP: &str = "/proc/sys/net/ipv4/tcp_available_ulp";

/// Returns the words of a job that examines a path.
pub(super) fn words(path: &Path) -> Vec<OsString> {
    let mut word = OsString::from(EXAMINE);
    word.push(path);
    vec![word]
}

/// Returns the path that a job examines. `None`: the job is a copy.
pub(super) fn path(words: &[OsString]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let [word] = words else { return None };
    let path = word.as_bytes().strip_prefix(EXAMINE.as_bytes())?;
    Some(OsStr::from_bytes(path).into())
}

/// Whether the other machine offers data connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Offer {
    Offered,
    /// With TLS alone.
    OfferedWithTls,
    Policy,
    SettingsUnread,
    NoAddress,
}

impl From<&FarData> for Offer {
    fn from(data: &FarData) -> Offer {
        match data {
            FarData::Offered(_) => Offer::Offered,
            FarData::OfferedWithTls(_) => Offer::OfferedWithTls,
            FarData::Refused(DataRefusal::Policy) => Offer::Policy,
            FarData::Refused(DataRefusal::Settings) => Offer::SettingsUnread,
            FarData::Refused(_) => Offer::NoAddress,
        }
    }
}

/// Facts about one machine and a path on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Examined {
    kernel: String,
    has_kernel_tls: bool,
    filesystem: Option<String>,
    shares_blocks: Option<bool>,
    pub(super) data: Offer,
    /// Whether the path is there. An older program does not say.
    #[serde(default)]
    presence: Presence,
}

/// Whether a path is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Presence {
    /// Error number of looking at it.
    path: Option<i32>,
    /// Error number of looking at the directory before its last name.
    directory: Option<i32>,
}

impl Presence {
    fn of(path: &Path) -> Presence {
        let number = |path: &Path| match follow::metadata(path) {
            Ok(_) => None,
            Err(error) => error.errno().map(Errno::raw),
        };
        Presence { path: number(path), directory: number(&directory(path)) }
    }
}

/// Returns the directory before the last name of a path.
fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
        Some(above) => above.to_owned(),
        None => path.to_owned(),
    }
}

/// Part of a path in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Source,
    Destination,
}

impl Examined {
    /// Examines this machine and the filesystem of a path.
    pub(super) fn here(path: &Path, data: Offer) -> Examined {
        // Something that is not there yet is made beside its name.
        let found = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        let found = if found.as_os_str().is_empty() { Path::new(".") } else { found };
        let storage = capabilities::storage(found).ok();
        let protocols = std::fs::read_to_string(ULP).unwrap_or_default();
        Examined {
            kernel: capabilities::kernel().release.clone(),
            has_kernel_tls: protocols.split_whitespace().any(|name| name == "tls"),
            filesystem: storage.as_ref().map(|storage| storage.filesystem.to_string()),
            shares_blocks: storage.as_ref().and_then(|storage| match storage.reflink {
                Answer::Yes(()) => Some(true),
                Answer::No { .. } => Some(false),
                Answer::Unknown { .. } => None,
            }),
            data,
            presence: Presence::of(path),
        }
    }

    /// Checks that a copy finds the path, which has this part in it: a source, or the directory of a destination.
    ///
    /// # Errors
    /// It is not there, or cannot be looked at. `path`: as people know it.
    pub(super) fn check(&self, part: Part, path: &Path) -> Result<(), uncopy::Error> {
        let Presence { path: found, directory: above } = self.presence;
        let (errno, subject) = match (part, found) {
            (_, None) => return Ok(()),
            (Part::Source, errno) => (errno, path.to_owned()),
            (Part::Destination, _) => (above, directory(path)),
        };
        match errno {
            Some(errno) => Err(uncopy::Error::system("open", subject, Errno::from_raw(errno))),
            None => Ok(()),
        }
    }

    /// Returns the facts for the doctor.
    pub(super) fn side(self, is_confined: bool) -> BetweenSide {
        let Examined { kernel, has_kernel_tls, filesystem, shares_blocks, .. } = self;
        BetweenSide { kernel, has_kernel_tls, is_confined, filesystem, shares_blocks }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn any_path_arrives_and_a_copy_is_none() {
        for name in [&b"a"[..], b"", b"-x", b"\xff\n", b"--examine="] {
            let given = Path::new(OsStr::from_bytes(name));
            assert_eq!(path(&words(given)).as_deref(), Some(given));
        }
        for copy in [&[][..], &["--dest=a"], &["--examine=a", "--recursive"], &["--examine"]] {
            let copy: Vec<OsString> = copy.iter().map(OsString::from).collect();
            assert_eq!(path(&copy), None, "{copy:?}");
        }
    }

    #[test]
    fn what_is_not_there_yet_is_examined_beside_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let there = Examined::here(directory.path(), Offer::Offered);
        assert!(there.filesystem.is_some());
        for (name, source, destination) in
            [("", None, None), ("new", Some("new"), None), ("new/er", Some("new/er"), Some("new"))]
        {
            let path = directory.path().join(name);
            let found = Examined::here(&path, Offer::Offered);
            assert_eq!(Examined { presence: there.presence, ..found.clone() }, there);
            for (part, missing) in [(Part::Source, source), (Part::Destination, destination)] {
                let error = found.check(part, &path).err();
                let subject = error.map(|error| error.subject().to_owned());
                assert_eq!(subject, missing.map(|name| directory.path().join(name)), "{name}");
            }
        }
        assert!(Examined::here(Path::new("no/such"), Offer::Policy).filesystem.is_some());
        let text = serde_json::to_string(&there).unwrap();
        assert_eq!(serde_json::from_str::<Examined>(&text).unwrap(), there);
    }
}
