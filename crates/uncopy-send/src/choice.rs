//! The choice between lending a send to the kernel and copying it. Pure.

use super::cost_model::SizeClass;
use super::counters::FallbackReason;

/// One of the network paths that a socket's sends take, as numbered by [`Paths`](super::paths::Paths).
/// The default is the path to the connected peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Path(pub(crate) u16);

/// Whether a send is lent or copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Lend the memory. The send takes this path.
    Lend(Path),
    /// Have the kernel copy the bytes, for this reason.
    Copy(FallbackReason),
}

impl Choice {
    /// Returns whether the memory is lent.
    pub(crate) const fn is_lend(self) -> bool {
        matches!(self, Choice::Lend(_))
    }

    /// Returns the path of a send that is lent.
    pub(crate) const fn lent_path(self) -> Option<Path> {
        match self {
            Choice::Lend(path) => Some(path),
            Choice::Copy(_) => None,
        }
    }
}

/// A sample of the cost model that a send belongs to: its processor time is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CostSample {
    pub(crate) path: Path,
    pub(crate) class: SizeClass,
}

/// A choice, and the sample that the send belongs to, if its cost is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) choice: Choice,
    pub(crate) sample: Option<CostSample>,
}

impl From<Choice> for Decision {
    /// Decides without measuring the cost.
    fn from(choice: Choice) -> Decision {
        Decision { choice, sample: None }
    }
}
