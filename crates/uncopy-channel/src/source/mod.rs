//! Answers that every object gives within this crate.

use super::eventfd::Raised;
use super::identity::{Kind, Koid};
use super::observers::Observers;
use super::packets::Binding;
use super::rights::Grant;
use super::signals::Signals;
use super::sleep::{PollTarget, Waiter};
use super::status::Status;
use super::sync::Arc;

mod waiting;

pub(super) use waiting::{PollTargets, wait_one, watch};

/// Requests that every object answers within this crate. No other crate can name it, which seals
/// [`Object`](crate::Object).
pub trait Source {
    /// Identity and rights of the handle.
    fn grant(&self) -> &Grant;
    /// The same, of a handle that nobody else holds.
    fn grant_mut(&mut self) -> &mut Grant;
    /// What it is.
    fn object_kind(&self) -> Kind;
    /// The object's koid, and its peer's.
    fn koids(&self) -> (Koid, Option<Koid>);
    /// The signals, without a lock.
    fn current_signals(&self) -> Signals {
        Signals::empty()
    }
    /// Brings the signals up to date, where another process changes them: takes in what has come.
    /// If one of `until` is set then, what comes meanwhile can wait.
    #[inline]
    fn refresh(&self, _until: Signals) {}
    /// None of `until` is set, and looking before a sleep has been of no use lately.
    #[inline]
    fn expects_sleep(&self, _until: Signals) -> bool {
        false
    }
    /// The same after a sleep. If `waiter` is listed for what is set then, it no longer is: all
    /// signals that are set.
    fn settle(&self, _waiter: &Arc<Waiter>, until: Signals) -> Option<Signals> {
        self.refresh(until);
        None
    }
    /// What to poll while waiting for `trigger`, where that shows nowhere else.
    fn poll_target(&self, _trigger: Signals) -> Option<PollTarget> {
        None
    }
    /// Runs under the object's lock; what to poll then.
    fn observers_and_poll_target(
        &self,
        trigger: Signals,
        run: &mut dyn FnMut(Signals, &mut Observers),
    ) -> Option<PollTarget> {
        self.observers(run);
        self.poll_target(trigger)
    }
    /// Has the binding's port poll what shows nowhere else.
    fn attach(&self, _binding: &Binding, _trigger: Signals) -> Result<(), Status> {
        Ok(())
    }
    /// Has the descriptor poll what shows nowhere else.
    fn attach_fd(&self, _raised: &Raised, _trigger: Signals) -> Result<(), Status> {
        Ok(())
    }
    /// Runs under the object's lock.
    fn observers(&self, run: &mut dyn FnMut(Signals, &mut Observers)) {
        run(Signals::empty(), &mut Observers::default());
    }
    /// Changes own user signals.
    fn change(&self, _clear: Signals, _set: Signals) -> Result<(), Status> {
        Err(Status::NotSupported)
    }
    /// Changes the peer's user signals.
    fn change_peer(&self, _clear: Signals, _set: Signals) -> Result<(), Status> {
        Err(Status::NotSupported)
    }
    /// Handles to the object in this process.
    fn handle_count(&self) -> usize {
        1
    }
    /// Ends what blocks on this handle other than waits for signals.
    fn cancel_calls(&self) {}
    /// Another handle to the object, which must be open.
    fn reissue(&self, grant: Grant) -> Result<Self, Status>
    where
        Self: Sized;
    /// A handle in the place of this one, whose grant is succeeded: the object counts that one, and
    /// is closed with it even while this one is in use.
    fn succeeded_by(&self, grant: Grant) -> Result<Self, Status>
    where
        Self: Sized,
    {
        self.reissue(grant)
    }
}
