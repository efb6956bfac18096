//! Conversion to and from `std::io::Error`.

use std::io;

use super::{Errno, Error, Reason};

/// Keeps the error as the inner one: [`get_ref`](io::Error::get_ref) returns it, and
/// [`Errno::of`](super::Errno::of) its number. The kind follows the number or the reason. It is
/// never `Interrupted`, because callers would retry.
///
/// ```
/// use std::io::{Error, ErrorKind};
///
/// use uncopy::Errno;
///
/// fn copy() -> std::io::Result<()> {
///     uncopy::copy::copy_file("/nonexistent/a", "/tmp/b", &Default::default())?;
///     Ok(())
/// }
///
/// let error: Error = copy().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert!(error.to_string().starts_with("cannot open /nonexistent/a"));
/// assert_eq!(Errno::of(&error), Some(Errno::ENOENT));
/// ```
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(kind(error.reason()), error)
    }
}

impl Errno {
    /// Returns Linux's number in a standard error, also in one made from an [`Error`]. `None` on
    /// other systems, whose numbers differ: 35 is `EDEADLK` on Linux and `EAGAIN` on macOS.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Errno> {
        let within = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match within {
            Some(within) => within.errno(),
            None => Errno::from_io(error, crate::IS_LINUX),
        }
    }
}

fn kind(reason: &Reason) -> io::ErrorKind {
    let kind = match reason {
        Reason::System { errno } | Reason::Network { errno } => errno.kind(),
        Reason::OtherSystem { error } => error.get().kind(),
        Reason::ForeignLink { .. } => io::ErrorKind::PermissionDenied,
        Reason::SameFile { .. } | Reason::NotRegular { .. } | Reason::Options(_) => {
            io::ErrorKind::InvalidInput
        }
        Reason::VerificationFailed { .. } | Reason::Damaged { .. } => io::ErrorKind::InvalidData,
        Reason::NoMechanism { .. } | Reason::NotHere { .. } => io::ErrorKind::Unsupported,
        Reason::SourceChanged { .. } | Reason::Forked | Reason::Cancelled | Reason::Refused(_) => {
            io::ErrorKind::Other
        }
    };
    match kind {
        io::ErrorKind::Interrupted => io::ErrorKind::Other,
        kind => kind,
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::{Contradiction, Errno};

    #[test]
    fn kind_number_and_words_are_kept() {
        let system = |errno| Reason::System { errno };
        let table = [
            (system(Errno::ENOENT), ErrorKind::NotFound, Some(Errno::ENOENT)),
            (system(Errno::EACCES), ErrorKind::PermissionDenied, Some(Errno::EACCES)),
            (system(Errno::EEXIST), ErrorKind::AlreadyExists, Some(Errno::EEXIST)),
            (system(Errno::EXDEV), ErrorKind::CrossesDevices, Some(Errno::EXDEV)),
            (system(Errno::EINTR), ErrorKind::Other, Some(Errno::EINTR)),
            (
                Reason::Network { errno: Errno::ECONNRESET },
                ErrorKind::ConnectionReset,
                Some(Errno::ECONNRESET),
            ),
            (
                Reason::ForeignLink { link: "l".into(), owner: 7 },
                ErrorKind::PermissionDenied,
                Some(Errno::EACCES),
            ),
            (Reason::Options(Contradiction::TreeInPlace), ErrorKind::InvalidInput, None),
            (Reason::Damaged { what: "bad".into(), offset: 3 }, ErrorKind::InvalidData, None),
            (Reason::NoMechanism { refusals: Vec::new() }, ErrorKind::Unsupported, None),
            (Reason::Cancelled, ErrorKind::Other, None),
        ];
        for (reason, kind, errno) in table {
            let error = Error::new("open", "a", reason);
            let words = error.to_string();
            let standard = io::Error::from(error.clone());
            assert_eq!((standard.kind(), Errno::of(&standard)), (kind, errno), "{words}");
            assert_eq!(standard.to_string(), words);
            let inner = standard.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
            assert_eq!(inner.map(Error::reason), Some(error.reason()));
        }
    }
}
