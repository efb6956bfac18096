//! Temporary names, and the leftovers of killed runs under such names.
//!
//! A name is no evidence: a user's file may have any name. Leftovers are identified by inode and time of
//! birth, which the run's record ([`Register`]) lists; all other entries are reported and left alone.

mod format;
mod record;
mod sweep;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::FileType;
use uncopy_core::Errno;
use uncopy_os::file::{self, Stat};
use uncopy_os::{Sys, name};

#[cfg(feature = "trees")]
pub(crate) use crate::journal_name::journal_name;
use crate::journal_name::{BEGIN as BEGIN_TEXT, DIGEST_DIGITS, JOURNAL, name_digest};
#[cfg(fuzzing)]
pub use format::fuzz;
pub(crate) use record::{Noted, Noting, Register};
pub(crate) use sweep::{SweepAnew, SweepSeldom, Sweeper, Unproven};
#[cfg(feature = "trees")]
pub(crate) use sweep::{TemporaryNames, claim, look_up, remove_leftovers, sweep, sweep_proven};

/// Kind of object that is built under a temporary name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file, or an entry of a tree that is no directory.
    File,
    /// A whole tree.
    Tree,
    /// A record of a run's temporary names.
    Record,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::File, Kind::Tree, Kind::Record];

    const fn suffix(self) -> &'static str {
        match self {
            Kind::File => ".tmp",
            Kind::Tree => ".tree",
            Kind::Record => ".record",
        }
    }
}

/// Refuses a directory in which a temporary name would stay: in one that is append-only it could neither be renamed
/// nor removed (`ioctl_iflags(2)`).
///
/// # Errors
/// `EPERM`, as the rename would return.
pub(crate) fn check_directory(directory: impl AsFd) -> Sys<()> {
    match file::is_append_only(directory) {
        Ok(true) => Err(Errno::EPERM),
        _ => Ok(()),
    }
}

/// `.uncopy-<digest of the destination's name>-<random>.tmp` (`.tree`, `.record`): recognisable,
/// unguessable, and short enough for every filesystem however long the destination's name is.
pub(crate) fn temporary_name(destination: &OsStr, kind: Kind) -> Sys<OsString> {
    let random = u128::from_ne_bytes(name::random_bytes()?);
    Ok(format!("{}{random:032x}{}", prefix(destination), kind.suffix()).into())
}

/// Whether an entry lies on the filesystem of a record: a file of `device` in `directory`. On overlayfs directories have
/// another device than files (`Documentation/filesystems/overlayfs.rst`, "Inode properties").
fn is_on_filesystem(entry: &Stat, device: (u32, u32), directory: impl AsFd) -> bool {
    match entry.file_type() {
        FileType::Directory => {
            file::stat(directory).is_ok_and(|directory| directory.device == entry.device)
        }
        _ => entry.device == device,
    }
}

/// Whether a name looks like a temporary name of a file or tree, or like that of a record or journal. A
/// user's file may have such a name too.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    kind_of(name).is_some() || is_journal(name)
}

const BEGIN: &[u8] = BEGIN_TEXT.as_bytes();
const RANDOM_DIGITS: usize = 32;

/// Returns the name of the journal for the destination of a tree with this temporary name.
fn journal_beside(tree: &OsStr) -> Option<OsString> {
    let digest = tree.as_bytes().strip_prefix(BEGIN)?.get(..DIGEST_DIGITS)?;
    let name = [BEGIN, digest, JOURNAL.as_bytes()].concat();
    (kind_of(tree) == Some(Kind::Tree)).then(|| OsString::from_vec(name))
}

fn is_journal(name: &OsStr) -> bool {
    let digest = name.as_bytes().strip_prefix(BEGIN);
    let digest = digest.and_then(|rest| rest.strip_suffix(JOURNAL.as_bytes()));
    digest.is_some_and(|digest| is_hexadecimal(digest, DIGEST_DIGITS))
}

/// Returns the kind that a temporary name is for.
fn kind_of(name: &OsStr) -> Option<Kind> {
    let (digest, rest) = name.as_bytes().strip_prefix(BEGIN)?.split_at_checked(DIGEST_DIGITS)?;
    let (random, suffix) = rest.strip_prefix(b"-")?.split_at_checked(RANDOM_DIGITS)?;
    let digits = is_hexadecimal(digest, DIGEST_DIGITS) && is_hexadecimal(random, RANDOM_DIGITS);
    Kind::ALL.into_iter().find(|kind| digits && suffix == kind.suffix().as_bytes())
}

fn is_hexadecimal(text: &[u8], digits: usize) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    text.len() == digits && text.iter().all(is_digit)
}

fn prefix(destination: &OsStr) -> String {
    format!("{BEGIN_TEXT}{}-", name_digest(destination))
}

/// Lets the owner open a new file again, which the umask may forbid.
pub(crate) fn for_its_owner(file: OwnedFd) -> Sys<OwnedFd> {
    if file::stat(&file)?.permissions() & 0o600 != 0o600 {
        file::set_permissions(&file, 0o600)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_recognisable_short_and_different() {
        let long = OsString::from("x".repeat(255));
        let (a, b) = (
            temporary_name(&long, Kind::File).unwrap(),
            temporary_name(&long, Kind::File).unwrap(),
        );
        assert_ne!(a, b);
        assert!(a.as_bytes().starts_with(prefix(&long).as_bytes()));
        assert!(a.len() < 100);
        assert_ne!(prefix(&long), prefix(OsStr::new("y")));
        for kind in Kind::ALL {
            assert_eq!(kind_of(&temporary_name(&long, kind).unwrap()), Some(kind));
        }
        assert!(is_temporary(&journal_name(&long)));
        for (kind, beside) in [(Kind::Tree, Some(journal_name(&long))), (Kind::File, None)] {
            assert_eq!(journal_beside(&temporary_name(&long, kind).unwrap()), beside);
        }
    }

    #[test]
    fn other_names_are_distinguished_from_temporary_ones() {
        let (digest, random) = ("0123456789abcdef", "0123456789abcdef0123456789abcdef");
        for name in [
            String::new(),
            ".uncopy-".to_owned(),
            ".uncopy-notes.tmp".to_owned(),
            format!(".uncopy-{digest}.tmp"),
            format!(".uncopy-{digest}-.tmp"),
            format!(".uncopy-{digest}-{random}"),
            format!(".uncopy-{digest}-{random}.bak"),
            format!(".uncopy-{digest}-{random}.tmp.keep"),
            format!(".uncopy-{digest}-{random}0.tmp"),
            format!(".uncopy-{digest}-{}.tmp", random.to_uppercase()),
            format!(".uncopy-{digest}-{random}.journal"),
            format!("x.uncopy-{digest}-{random}.tmp"),
            format!(".uncopy-{digest}0.journal"),
        ] {
            assert!(!is_temporary(OsStr::new(&name)), "{name}");
        }
        assert!(is_temporary(OsStr::new(&format!(".uncopy-{digest}-{random}.tree"))));
    }
}
