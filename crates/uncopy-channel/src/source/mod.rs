//! The interface that every object implements within this crate.

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

pub(super) use waiting::{PollTargets, wait_for_packet, wait_one, watch};

/// Packets that a wait receives once one of them has ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// All that are there: the wait returns every signal, and changes of signals come behind messages.
    All,
    /// None: the wait returns no signals.
    UpToWake,
}

/// Interface of every object within this crate. No other crate can name it, which seals
/// [`Object`](crate::Object).
pub trait Source {
    /// Returns the identity and rights of the handle.
    fn grant(&self) -> &Grant;
    /// Returns the identity and rights of a handle that is not shared.
    fn grant_mut(&mut self) -> &mut Grant;
    /// Returns the kind of the object.
    fn object_kind(&self) -> Kind;
    /// Returns the koids of the object and of its peer.
    fn koids(&self) -> (Koid, Option<Koid>);
    /// Returns the signals, without a lock.
    fn current_signals(&self) -> Signals {
        Signals::empty()
    }
    /// Brings the signals up to date if another process can change them, by receiving what has come.
    /// Once one of `until` is set, packets that arrive during this call may be left.
    #[inline]
    fn refresh(&self, _until: Signals) {}
    /// Whether none of `until` is set, and a look before a sleep can be skipped because the last one
    /// found nothing.
    #[inline]
    fn expects_sleep(&self, _until: Signals) -> bool {
        false
    }
    /// Brings the signals up to date after a sleep. If one of `until` is set then, takes `waiter` off
    /// the list of observers and returns all signals that are set.
    fn settle(&self, _waiter: &Arc<Waiter>, until: Signals, _intake: Intake) -> Option<Signals> {
        self.refresh(until);
        None
    }
    /// Returns what to poll while waiting for `trigger`, if another process can set it.
    fn poll_target(&self, _trigger: Signals) -> Option<PollTarget> {
        None
    }
    /// Runs `run` under the object's lock; returns what to poll.
    fn observers_and_poll_target(
        &self,
        trigger: Signals,
        run: &mut dyn FnMut(Signals, &mut Observers),
    ) -> Option<PollTarget> {
        self.observers(run);
        self.poll_target(trigger)
    }
    /// Has the binding's port poll for signals that another process can set.
    fn attach(&self, _binding: &Binding, _trigger: Signals) -> Result<(), Status> {
        Ok(())
    }
    /// Has the descriptor poll for signals that another process can set.
    fn attach_fd(&self, _raised: &Raised, _trigger: Signals) -> Result<(), Status> {
        Ok(())
    }
    /// Runs `run` under the object's lock.
    fn observers(&self, run: &mut dyn FnMut(Signals, &mut Observers)) {
        run(Signals::empty(), &mut Observers::default());
    }
    /// Changes the object's own user signals.
    fn change(&self, _clear: Signals, _set: Signals) -> Result<(), Status> {
        Err(Status::NotSupported)
    }
    /// Changes the peer's user signals.
    fn change_peer(&self, _clear: Signals, _set: Signals) -> Result<(), Status> {
        Err(Status::NotSupported)
    }
    /// Returns the number of handles to the object in this process.
    fn handle_count(&self) -> usize {
        1
    }
    /// Ends blocking operations on this handle other than waits for signals.
    fn cancel_calls(&self) {}
    /// Returns another handle to the object, which must be open.
    fn reissue(&self, grant: Grant) -> Result<Self, Status>
    where
        Self: Sized;
    /// Returns a handle in place of this one, whose grant is succeeded: the object counts the new
    /// handle, and is closed with it even while this one is in use.
    fn succeeded_by(&self, grant: Grant) -> Result<Self, Status>
    where
        Self: Sized,
    {
        self.reissue(grant)
    }
}
