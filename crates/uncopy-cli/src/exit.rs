//! Exit codes: what a script can learn from how the program ended.

use uncopy::{Error, Objection, Reason};

/// Exit code of the program. The numbers are part of its interface.
///
/// A signal that stops a copy (`SIGINT`, `SIGTERM`, `SIGHUP`) has no code here: the program cleans
/// up and then dies of that very signal, so that a shell sees 128 + its number (130, 143, 129) and
/// a loop around it stops too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything requested was done.
    Success = 0,
    /// A copy failed, or files failed for different reasons, or a report could not be written.
    Failure = 1,
    /// The command line or a setting makes no sense; nothing was touched.
    Usage = 2,
    /// The copy differs from its source when read back.
    VerificationFailed = 3,
    /// A source changed while it was copied.
    SourceChanged = 4,
    /// No mechanism that the options allow works for this file here.
    NoMechanism = 5,
    /// `uncopy doctor`: the bytes will be copied.
    Copied = 6,
    /// `uncopy doctor`: it is not known whether the bytes are copied.
    NotKnown = 7,
    /// `uncopy doctor`: the bytes are not copied, but only up to a limit or without a gain.
    Limited = 8,
    /// The other machine cannot be reached, has no uncopy or too old a one, or the connection to it ended.
    Unreachable = 9,
    /// `uncopy unit`: some units are not done yet.
    NotFinished = 10,
    /// `uncopy fleet`: the engine, or the program for it, is not here, cannot be reached or is too old.
    NoEngine = 11,
}

impl Exit {
    /// Returns the code for `error`.
    pub(crate) fn of(error: &Error) -> Exit {
        Exit::after(error.reason())
    }

    fn after(reason: &Reason) -> Exit {
        match reason {
            Reason::VerificationFailed { .. } => Exit::VerificationFailed,
            Reason::SourceChanged { .. } => Exit::SourceChanged,
            Reason::NoMechanism { .. } => Exit::NoMechanism,
            Reason::Options(_) | Reason::NotHere { .. } => Exit::Usage,
            Reason::Refused(Objection::PeerLost { .. }) => Exit::Unreachable,
            _ => Exit::Failure,
        }
    }

    /// Combines the codes of several files: success only if all succeeded; one kind of failure
    /// keeps its code, and different kinds become [`Exit::Failure`].
    pub(crate) fn and(self, next: Exit) -> Exit {
        match (self, next) {
            (one, Exit::Success) => one,
            (Exit::Success, other) => other,
            (one, other) if one == other => one,
            _ => Exit::Failure,
        }
    }

    /// Returns the code that a program on another machine ended with.
    #[cfg(all(feature = "remote", target_os = "linux"))]
    pub(crate) fn of_code(code: u8) -> Exit {
        let all = [
            Exit::Success,
            Exit::Failure,
            Exit::Usage,
            Exit::VerificationFailed,
            Exit::SourceChanged,
            Exit::NoMechanism,
            Exit::Unreachable,
            Exit::NotFinished,
        ];
        all.into_iter().find(|exit| exit.code() == code).unwrap_or(Exit::Failure)
    }

    /// Returns the number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Exit codes in `--help` and the man page.
pub(crate) const TABLE: &str = "\
Exit codes:
  0  everything was copied, or left alone as the options say
  1  a copy failed, or several failed for different reasons
  2  the command line or a setting makes no sense; nothing was touched
  3  verification failed: the copy differs from its source
  4  a source changed while it was copied
  5  no mechanism that the options allow works for a file
  9  the other machine cannot be reached, has no uncopy or too old a one, or the connection ended
  129, 130, 143  stopped by SIGHUP, SIGINT, SIGTERM; with --resume the next run continues";

#[cfg(test)]
mod tests {
    use uncopy::copy::Contradiction;

    use super::*;

    #[test]
    fn several_files_have_one_code() {
        use Exit::{Failure, NoMechanism, SourceChanged, Success};
        for (codes, expected) in [
            (&[][..], Success),
            (&[Success, Success], Success),
            (&[Success, NoMechanism, Success], NoMechanism),
            (&[NoMechanism, NoMechanism], NoMechanism),
            (&[NoMechanism, SourceChanged], Failure),
            (&[Failure, Success, NoMechanism], Failure),
        ] {
            assert_eq!(codes.iter().fold(Success, |all, one| all.and(*one)), expected, "{codes:?}");
        }
    }

    #[test]
    fn options_that_cannot_be_obeyed_are_an_error_of_the_command_line() {
        let options = vec![uncopy::copy::CopyOption::Sparse];
        assert_eq!(Exit::after(&Reason::NotHere { options }), Exit::Usage);
        assert_eq!(Exit::after(&Reason::Options(Contradiction::TreeInPlace)), Exit::Usage);
        let error = std::io::Error::from_raw_os_error(22).into();
        assert_eq!(Exit::after(&Reason::OtherSystem { error }), Exit::Failure);
    }

    #[test]
    fn the_table_names_every_code() {
        for exit in [
            Exit::Success,
            Exit::Failure,
            Exit::Usage,
            Exit::VerificationFailed,
            Exit::SourceChanged,
            Exit::NoMechanism,
            Exit::Unreachable,
        ] {
            let start = format!("\n  {}  ", exit as u8);
            assert_eq!(TABLE.matches(&start).count(), 1, "{exit:?}");
        }
    }
}
