//! Error numbers: Linux's, and what other systems have in their place.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::{fmt, io};

/// A Linux error number (`errno(3)`), printed by its name: `EXDEV`, not `18`.
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

            /// The symbolic name (`"EXDEV"`), where this library knows it.
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
    EDESTADDRREQ = 89, EMSGSIZE = 90, EPROTONOSUPPORT = 93, EOPNOTSUPP = 95, EAFNOSUPPORT = 97,
    EADDRINUSE = 98, EADDRNOTAVAIL = 99, ENETDOWN = 100, ENETUNREACH = 101, ECONNABORTED = 103,
    ECONNRESET = 104, ENOBUFS = 105, EISCONN = 106, ENOTCONN = 107, ETOOMANYREFS = 109,
    ETIMEDOUT = 110, ECONNREFUSED = 111, EHOSTUNREACH = 113, EINPROGRESS = 115, ESTALE = 116,
    EDQUOT = 122, ECANCELED = 125, ENOTSUPP = 524,
}

impl Errno {
    /// The error number `raw`, as the kernel gives it (positive).
    #[must_use]
    pub const fn from_raw(raw: i32) -> Errno {
        Errno(raw)
    }

    /// The number.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// The kind that the standard library gives it; `Other` where it has none, and off Linux, where
    /// numbers mean something else.
    #[must_use]
    pub fn kind(self) -> io::ErrorKind {
        match crate::IS_LINUX {
            true => io::Error::from_raw_os_error(self.0).kind(),
            false => io::ErrorKind::Other,
        }
    }

    pub(crate) fn answered(error: &io::Error, is_linux: bool) -> Option<Errno> {
        error.raw_os_error().filter(|_| is_linux).map(Errno)
    }

    /// What it means, in the words of `strerror(3)`: `No such file or directory`. On other systems, which
    /// have no words for it, its name.
    #[must_use]
    pub fn message(self) -> String {
        self.words(crate::IS_LINUX)
    }

    fn words(self, is_linux: bool) -> String {
        if !is_linux {
            return self.to_string();
        }
        if self == Errno::ENOTSUPP {
            // NFS's own number, which socket options let out, and which no C library knows.
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

/// An error of a system other than Linux, as the standard library has it. Its number, if it has one, is
/// that system's own.
#[derive(Debug, Clone)]
pub struct SystemError(Arc<io::Error>);

impl SystemError {
    /// The error itself.
    #[must_use]
    pub fn get(&self) -> &io::Error {
        &self.0
    }
}

/// An answer is never changed once it is here, so a panic leaves none half done.
impl UnwindSafe for SystemError {}

/// As for [`UnwindSafe`].
impl RefUnwindSafe for SystemError {}

impl From<io::Error> for SystemError {
    fn from(error: io::Error) -> SystemError {
        SystemError(Arc::new(error))
    }
}

/// Equal if kind, number and words are.
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
    fn numbers_are_read_on_linux_alone() {
        let told = io::Error::from_raw_os_error(63);
        assert_eq!(Errno::answered(&told, true), Some(Errno(63)));
        assert_eq!(Errno::answered(&told, false), None);
        let without = io::Error::new(io::ErrorKind::NotFound, "no such thing");
        assert_eq!(Errno::answered(&without, true), None);
    }

    #[test]
    fn elsewhere_an_error_number_has_a_name_and_no_words_of_that_system() {
        assert_eq!(Errno::ENOENT.words(true), "No such file or directory");
        assert_eq!(Errno::ENOENT.words(false), "ENOENT");
        assert_eq!(Errno::from_raw(4095).words(false), "errno 4095");
    }
}
