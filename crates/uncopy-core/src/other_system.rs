//! Errors of systems other than Linux: kept as `std::io::Error`, and classified by their kind.

use std::io;
use std::path::Path;

use crate::{Error, Reason};

/// Makes an error from a refused call, whatever its number.
pub fn refused(operation: &'static str, subject: impl AsRef<Path>, error: io::Error) -> Error {
    Error::new(operation, subject, Reason::OtherSystem { error: error.into() })
}

/// Makes an error from a refused call that concerns the destination only.
pub fn refused_by_destination(
    operation: &'static str,
    subject: impl AsRef<Path>,
    error: io::Error,
) -> Error {
    let lasts = lasts(error.kind());
    refused(operation, subject, error).with_lasting(lasts)
}

/// Whether the next file would fail with it too. A failing device has no kind.
fn lasts(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | ReadOnlyFilesystem | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io::ErrorKind;

    use super::*;
    use crate::NextStep;

    #[test]
    fn an_error_is_kept_with_its_number() {
        // 63 is ENAMETOOLONG on macOS and ENOSR on Linux; 112 is ERROR_DISK_FULL on Windows and EHOSTDOWN
        // on Linux.
        for number in [2, 28, 35, 63, 112, 10_054] {
            let error = refused("open", "a", io::Error::from_raw_os_error(number));
            assert_eq!(error.errno(), None, "{number}");
            assert_eq!(error.source().unwrap().to_string(), error.reason().to_string());
            let Reason::OtherSystem { error: kept } = error.reason() else { panic!("{error}") };
            assert_eq!(kept.get().raw_os_error(), Some(number));
        }
    }

    #[test]
    fn what_it_means_is_known_by_the_kind() {
        for (kind, is_lasting, is_not_found) in [
            (ErrorKind::NotFound, false, true),
            (ErrorKind::PermissionDenied, false, false),
            (ErrorKind::StorageFull, true, false),
            (ErrorKind::QuotaExceeded, true, false),
            (ErrorKind::ReadOnlyFilesystem, true, false),
            (ErrorKind::FileTooLarge, true, false),
            (ErrorKind::Other, false, false),
        ] {
            let found = refused_by_destination("write to", "b", io::Error::new(kind, "words"));
            assert!(found.is_at_destination());
            assert_eq!(found.is_lasting(), is_lasting, "{kind:?}");
            assert_eq!(found.is_not_found(), is_not_found, "{kind:?}");
            let step = found.next_step().map_or("", NextStep::text);
            assert!(!step.contains("ulimit") && !step.contains("dmesg"), "{step}");
        }
        let of_source = refused("read", "a", ErrorKind::StorageFull.into());
        assert!(!of_source.is_at_destination() && !of_source.is_lasting());
    }
}
