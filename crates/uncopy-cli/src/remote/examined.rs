//! Answer of the other machine about its end of a copy, for `uncopy doctor`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uncopy::capabilities::{self, Answer};
use uncopy::doctor::BetweenSide;
use uncopy::remote::{DataRefusal, FarData};

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
        for name in ["new", "new/er"] {
            assert_eq!(Examined::here(&directory.path().join(name), Offer::Offered), there);
        }
        assert!(Examined::here(Path::new("no/such"), Offer::Policy).filesystem.is_some());
        let text = serde_json::to_string(&there).unwrap();
        assert_eq!(serde_json::from_str::<Examined>(&text).unwrap(), there);
    }
}
