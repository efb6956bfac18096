//! Which calls of a program are changed, and how.

use std::fmt::{self, Debug, Display, Formatter};
use std::panic::RefUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use uncopy::Errno;

use super::SystemCall;
use super::watched_call::WatchedCall;

type Condition = Arc<dyn Fn(&WatchedCall) -> bool + Send + Sync + RefUnwindSafe>;

/// Some of a program's system calls: those of certain kinds, on certain files, by number.
#[derive(Clone)]
pub struct CallPattern {
    calls: Vec<SystemCall>,
    below: Option<PathBuf>,
    condition: Option<Condition>,
    first: usize,
    last: usize,
    step: usize,
}

impl Debug for CallPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Display for CallPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.calls.iter().map(|call| call.name()).collect();
        write!(f, "{} number {}", names.join(" or "), self.first)?;
        if self.last != self.first {
            write!(f, " and later")?;
        }
        match &self.below {
            Some(path) => write!(f, " on {}", path.display()),
            None => Ok(()),
        }
    }
}

impl CallPattern {
    /// Makes a pattern of every call of these kinds.
    #[must_use]
    pub fn of(calls: &[SystemCall]) -> CallPattern {
        let calls = calls.to_vec();
        CallPattern { calls, below: None, condition: None, first: 1, last: usize::MAX, step: 1 }
    }

    /// Leaves only calls on a file at this path or below it.
    #[must_use]
    pub fn on(mut self, path: impl Into<PathBuf>) -> CallPattern {
        self.below = Some(path.into());
        self
    }

    /// Leaves only calls that this function accepts.
    #[must_use]
    pub fn when(
        mut self,
        accepts: impl Fn(&WatchedCall) -> bool + Send + Sync + RefUnwindSafe + 'static,
    ) -> CallPattern {
        self.condition = Some(Arc::new(accepts));
        self
    }

    /// Leaves only the `nth` of these calls, from 1, counted over all threads.
    #[must_use]
    pub fn nth(self, nth: usize) -> CallPattern {
        self.between(nth, nth)
    }

    /// Leaves out the calls before the `first`, from 1.
    #[must_use]
    pub fn from(self, first: usize) -> CallPattern {
        self.between(first, usize::MAX)
    }

    /// Leaves only the calls from the `first` to the `last`, from 1.
    #[must_use]
    pub fn between(mut self, first: usize, last: usize) -> CallPattern {
        (self.first, self.last) = (first, last);
        self
    }

    /// Leaves only the first call, the third, the fifth.
    #[must_use]
    pub fn every_second(mut self) -> CallPattern {
        self.step = 2;
        self
    }

    /// Makes them fail.
    #[must_use]
    pub fn fails(self, errno: Errno) -> Fault {
        self.with(Effect::Fail(errno))
    }

    /// Makes them return this value without doing anything.
    #[must_use]
    pub fn returns(self, value: i64) -> Fault {
        self.with(Effect::Return(value))
    }

    /// Makes them return 0, with these bytes where an argument points to.
    #[must_use]
    pub fn answers(self, argument: usize, bytes: Vec<u8>) -> Fault {
        self.with(Effect::Answer { argument, bytes })
    }

    /// Makes them move at most this number of bytes: reads and writes of one buffer, on pipes and sockets.
    #[must_use]
    pub fn moves_at_most(self, bytes: usize) -> Fault {
        self.with(Effect::Cut(bytes))
    }

    /// Makes them begin later.
    #[must_use]
    pub fn delayed(self, by: Duration) -> Fault {
        self.with(Effect::Delay(by))
    }

    /// Kills the program in the first of them, before it does anything.
    #[must_use]
    pub fn kills(self) -> Fault {
        self.with(Effect::Kill)
    }

    /// Stops the program as soon as they end. A call that waits ends by that, as by every signal.
    #[must_use]
    pub(crate) fn stops(self) -> Fault {
        self.with(Effect::Stop)
    }

    fn with(self, effect: Effect) -> Fault {
        Fault { pattern: self, effect }
    }

    pub(crate) fn calls(&self) -> &[SystemCall] {
        &self.calls
    }

    /// Whether it is one of these, whatever its number.
    pub(crate) fn holds(&self, call: &WatchedCall) -> bool {
        self.calls.contains(&call.call)
            && self.below.as_ref().is_none_or(|path| call.touches(path))
            && self.condition.as_ref().is_none_or(|accepts| accepts(call))
    }

    pub(crate) fn has_number(&self, nth: usize) -> bool {
        (self.first..=self.last).contains(&nth) && (nth - self.first).is_multiple_of(self.step)
    }
}

/// Effect on a call.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    Fail(Errno),
    Return(i64),
    Answer {
        argument: usize,
        bytes: Vec<u8>,
    },
    Delay(Duration),
    Cut(usize),
    Kill,
    /// And what another fault does.
    Stop,
}

/// Calls of a program that are changed.
#[derive(Debug, Clone)]
pub struct Fault {
    pub(crate) pattern: CallPattern,
    pub(crate) effect: Effect,
}

impl Fault {
    /// Returns the (first) kind of call.
    #[must_use]
    pub fn call(&self) -> SystemCall {
        self.pattern.calls[0]
    }

    /// Returns the error, if calls fail.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self.effect {
            Effect::Fail(errno) => Some(errno),
            _ => None,
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.effect {
            Effect::Fail(errno) => write!(f, "{errno} from {}", self.pattern),
            _ => write!(f, "{:?} in {}", self.effect, self.pattern),
        }
    }
}
