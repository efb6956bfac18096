//! Linux error numbers, and the errors of other systems.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::{fmt, io};

/// A Linux error number (`errno(3)`), displayed by name: `EXDEV`, not `18`.
///
/// The numbers are those of the generic Linux ABI (`include/uapi/asm-generic/errno*.h`), which
/// x86-64, aarch64 and riscv64 share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident = $number:literal),* $(,)?) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($name), "`, see `errno(3)`.")]
                pub const $name: Errno = Errno($number);
            )*

            /// Returns the symbolic name (`"EXDEV"`), if this library knows it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, ENOENT = 2, ESRCH = 3, EINTR = 4, EIO = 5, ENXIO = 6, EBADF = 9, EAGAIN = 11, ENOMEM = 12,
    EACCES = 13, EFAULT = 14, EBUSY = 16, EEXIST = 17, EXDEV = 18, ENODEV = 19, ENOTDIR = 20,
    EISDIR = 21, EINVAL = 22, ENFILE = 23, EMFILE = 24, ENOTTY = 25, ETXTBSY = 26, EFBIG = 27,
    ENOSPC = 28, ESPIPE = 29, EROFS = 30, EMLINK = 31, EPIPE = 32, ERANGE = 34, ENAMETOOLONG = 36,
    ENOLCK = 37, ENOSYS = 38, ENOTEMPTY = 39, ELOOP = 40, ENODATA = 61, EOVERFLOW = 75,
    ENOTSOCK = 88, EDESTADDRREQ = 89, EMSGSIZE = 90, EPROTONOSUPPORT = 93, EOPNOTSUPP = 95, EAFNOSUPPORT = 97,
    EADDRINUSE = 98, EADDRNOTAVAIL = 99, ENETDOWN = 100, ENETUNREACH = 101, ECONNABORTED = 103,
    ECONNRESET = 104, ENOBUFS = 105, EISCONN = 106, ENOTCONN = 107, ETOOMANYREFS = 109,
    ETIMEDOUT = 110, ECONNREFUSED = 111, EHOSTDOWN = 112, EHOSTUNREACH = 113, EINPROGRESS = 115, ESTALE = 116,
    EUCLEAN = 117, EDQUOT = 122, ECANCELED = 125, ENOTSUPP = 524,
}

impl Errno {
    /// Makes an error number from the kernel's (positive) value.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Errno {
        Errno(raw)
    }

    /// Returns the number.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// Returns the standard library's kind. `Other` if it has none, and on systems other than
    /// Linux, where the numbers have other meanings.
    #[must_use]
    pub fn kind(self) -> io::ErrorKind {
        match crate::IS_LINUX {
            true => io::Error::from_raw_os_error(self.0).kind(),
            false => io::ErrorKind::Other,
        }
    }

    pub(crate) fn from_io(error: &io::Error, is_linux: bool) -> Option<Errno> {
        error.raw_os_error().filter(|_| is_linux).map(Errno)
    }

    /// Returns the text of `strerror(3)`: `No such file or directory`. On systems other than Linux,
    /// the name.
    #[must_use]
    pub fn message(self) -> String {
        self.text(crate::IS_LINUX)
    }

    fn text(self, is_linux: bool) -> String {
        if !is_linux {
            return self.to_string();
        }
        if self == Errno::ENOTSUPP {
            // NFS's internal number, which leaks through socket options and is unknown to C
            // libraries.
            return Errno::EOPNOTSUPP.message();
        }
        let text = io::Error::from_raw_os_error(self.0).to_string();
        text.split(" (os error").next().unwrap_or_default().to_owned()
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

/// An error of a system other than Linux, as `std::io::Error`. Its number, if any, is that
/// system's.
#[derive(Debug, Clone)]
pub struct SystemError(Arc<io::Error>);

impl SystemError {
    /// Returns the error.
    #[must_use]
    pub fn get(&self) -> &io::Error {
        &self.0
    }
}

/// Immutable after its construction, so a panic cannot leave it half changed.
impl UnwindSafe for SystemError {}

/// As for [`UnwindSafe`].
impl RefUnwindSafe for SystemError {}

impl From<io::Error> for SystemError {
    fn from(error: io::Error) -> SystemError {
        SystemError(Arc::new(error))
    }
}

/// Compares kind, number and text.
impl PartialEq for SystemError {
    fn eq(&self, other: &SystemError) -> bool {
        let key = |error: &io::Error| (error.kind(), error.raw_os_error(), error.to_string());
        key(&self.0) == key(&other.0)
    }
}

impl Eq for SystemError {}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_only_on_linux() {
        let error = io::Error::from_raw_os_error(63);
        assert_eq!(Errno::from_io(&error, true), Some(Errno(63)));
        assert_eq!(Errno::from_io(&error, false), None);
        let without = io::Error::new(io::ErrorKind::NotFound, "no such thing");
        assert_eq!(Errno::from_io(&without, true), None);
    }

    #[test]
    fn other_systems_show_the_name_instead_of_their_own_text() {
        assert_eq!(Errno::ENOENT.text(true), "No such file or directory");
        assert_eq!(Errno::ENOENT.text(false), "ENOENT");
        assert_eq!(Errno::from_raw(4095).text(false), "errno 4095");
    }
}
