//! Exit codes, as `docs/exit-codes.md` says them.

/// Exit code of the program. The numbers are part of its interface, and those of `uncopy` keep their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything requested was done.
    Success = 0,
    /// A unit failed, or a file could not be read or written.
    Failure = 1,
    /// The command line makes no sense; nothing was touched.
    Usage = 2,
    /// The machine of the destination, where the ledger is, cannot be reached.
    Unreachable = 9,
    /// Units are not done yet, and none has failed.
    NotFinished = 10,
    /// The engine is not here, cannot be reached, lets nobody in or is too old.
    NoEngine = 11,
}

impl Exit {
    /// Returns the number.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

/// Exit codes in `--help`.
pub(crate) const TABLE: &str = "\
Exit codes:
  0   done: submitted, or every unit has a record
  1   a unit failed or was given up, or something could not be read or written
  2   the command line makes no sense, or this uncopy does not know the options of a unit
  9   the machine of the destination cannot be reached, or the connection to it ended
  10  no unit has failed, and some are not done yet
  11  the engine is not here, cannot be reached, lets nobody in or is too old
  130, 143  stopped by SIGINT, SIGTERM; units that were begun are handed back";
