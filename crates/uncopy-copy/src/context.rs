//! Defines the context of a copy: what it shares with other copies, in addition to its options.

use std::fmt;
use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::Duration;

use super::history::{FileClass, History};
use super::pause::Gate;
use super::permit::Permit;
use super::throttle::Throttle;
use uncopy_core::{Cost, Receipt};

/// Surroundings that copies share: the gate where they wait, their rate, the history they learn from, and the
/// threads they may use.
///
/// The default has no gate, no rate and no history, and lets a copy use every processor.
///
/// ```
/// use std::num::NonZeroU64;
/// use uncopy::copy::{CopyContext, CopyOptions, Throttle, copy_file_in};
/// # let directory = tempfile::tempdir()?;
/// # let (source, destination) = (directory.path().join("a"), directory.path().join("b"));
/// # std::fs::write(&source, "text")?;
/// let throttle = Throttle::new(NonZeroU64::new(50_000_000).unwrap());
/// let context = CopyContext::new().throttle(&throttle);
/// copy_file_in(&source, &destination, &CopyOptions::new(), &context, &mut ())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct CopyContext<'a> {
    pub(crate) gate: Option<&'a Gate>,
    pub(crate) throttle: Option<&'a Throttle>,
    pub(crate) history: Option<&'a History>,
    pub(crate) spare_threads: Option<&'a (dyn Fn() -> usize + Sync)>,
    /// Permit to give names, where it can be withdrawn.
    pub(crate) permit: Option<&'a Permit>,
}

impl<'a> CopyContext<'a> {
    /// Makes a context without anything shared: the default.
    #[must_use]
    pub fn new() -> CopyContext<'a> {
        CopyContext::default()
    }

    /// Sets the gate where copies wait while a [`Pause`](super::Pause) lasts.
    #[must_use]
    pub fn gate(mut self, gate: &'a Gate) -> CopyContext<'a> {
        self.gate = Some(gate);
        self
    }

    /// Sets the rate that copies keep to together.
    #[must_use]
    pub fn throttle(mut self, throttle: &'a Throttle) -> CopyContext<'a> {
        self.throttle = Some(throttle);
        self
    }

    /// Sets the history that copies learn from and add to.
    #[must_use]
    pub fn history(mut self, history: &'a History) -> CopyContext<'a> {
        self.history = Some(history);
        self
    }

    /// Sets the function that returns how many threads a copy may use besides its own, for as long
    /// as one piece takes: a large file is moved by two where that is quicker. Without it: one for each
    /// further processor.
    #[must_use]
    pub fn spare_threads(mut self, count: &'a (dyn Fn() -> usize + Sync)) -> CopyContext<'a> {
        self.spare_threads = Some(count);
        self
    }

    /// Gives names by `act`, unless the permit to do so was withdrawn.
    pub(crate) fn give_names<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        match self.permit {
            Some(permit) => permit.use_for(act),
            None => Some(act()),
        }
    }

    /// Whether a copy may use another thread now.
    pub(crate) fn has_spare_thread(&self) -> bool {
        static FURTHER: OnceLock<usize> = OnceLock::new();
        let further =
            || *FURTHER.get_or_init(|| available_parallelism().map_or(0, |count| count.get() - 1));
        self.spare_threads.map_or_else(further, |count| count()) > 0
    }

    /// Adds to the history how long a copy took, if it used a single mechanism.
    pub(crate) fn learn(&self, class: FileClass, receipt: &Receipt, took: Duration) {
        // Where a rate is given, mechanisms do not differ in speed.
        let Some(history) = self.history.filter(|_| self.throttle.is_none()) else { return };
        let verified = receipt.verification.as_ref().map_or(Duration::ZERO, |v| v.duration);
        let mut portions = receipt.portions.iter().filter(|p| p.cost != Cost::Hole);
        if let Some(first) = portions.next()
            && portions.all(|p| p.mechanism == first.mechanism)
        {
            let refused = receipt.refusals.iter().filter(|refusal| refusal.errno.is_some());
            let refused = refused.map(|refusal| refusal.mechanism);
            let bytes = receipt.bytes_by(first.mechanism);
            history.record(class, first.mechanism, refused, bytes, took.saturating_sub(verified));
        }
    }
}

impl fmt::Debug for CopyContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyContext")
            .field("gate", &self.gate)
            .field("throttle", &self.throttle)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}
