//! Waiting for several objects at once.

use super::MAX_WAIT_ITEMS;
use super::object::Object;
use super::rights::Rights;
use super::signals::Signals;
use super::sleep::{Deadline, Waiter, Wake, with_waiter};
use super::source::{Intake, PollTargets, Source, watch};
use super::status::Status;
use super::sync::Arc;

/// One item of [`wait_many`].
pub struct WaitItem<'a> {
    /// The object.
    pub object: &'a dyn Object,
    /// Signals that end the wait.
    pub wait_for: Signals,
    /// Signals that were set when the wait ended.
    pub pending: Signals,
}

impl<'a> WaitItem<'a> {
    /// Waits for any of `wait_for` on `object`.
    #[must_use]
    pub fn new(object: &'a dyn Object, wait_for: Signals) -> WaitItem<'a> {
        WaitItem { object, wait_for, pending: Signals::empty() }
    }
}

/// Waits until one of at most 64 objects has a signal of its `wait_for`. Sets `pending` of every item
/// to the signals that are set, also after the deadline.
///
/// # Errors
/// [`Status::OutOfRange`] for more than 64 items; [`Status::AccessDenied`] without
/// [`Rights::WAIT`]; [`Status::TimedOut`]; [`Status::Canceled`] if a handle was revoked meanwhile
/// (that item's `pending` then contains [`Signals::HANDLE_CLOSED`]). Without items it sleeps until
/// the deadline, and returns `TimedOut`.
pub fn wait_many(items: &mut [WaitItem<'_>], deadline: Deadline) -> Result<(), Status> {
    if items.len() > MAX_WAIT_ITEMS {
        return Err(Status::OutOfRange);
    }
    for item in &*items {
        item.object.grant().check(Rights::WAIT)?;
    }
    with_waiter(|waiter| wait_many_at(waiter, items, deadline))
}

fn wait_many_at(
    waiter: &Arc<Waiter>,
    items: &mut [WaitItem<'_>],
    deadline: Deadline,
) -> Result<(), Status> {
    let mut targets = PollTargets::new();
    let mut watched = 0;
    let mut found = Ok(None);
    for (index, item) in items.iter().enumerate() {
        item.object.refresh(item.wait_for);
        found = watch(item.object, waiter, index, item.wait_for, &mut targets);
        watched = index + 1;
        if !matches!(found, Ok(None)) {
            break;
        }
    }
    let mut rested = Ok(None);
    if let Ok(None) = found {
        let sources = items.iter().map(|item| (item.object as &dyn Source, item.wait_for));
        rested = waiter.sleep_until_woken(&sources, &mut targets, deadline, Intake::All);
    }
    for item in &items[..watched] {
        item.object.observers(&mut |_, observers| drop(observers.forget(waiter)));
    }
    let found = found?;
    for (index, item) in items.iter_mut().enumerate() {
        // The items before the one that was found are up to date.
        let is_fresh = found.is_some() && index < watched;
        let object = item.object;
        item.pending = if is_fresh { object.current_signals() } else { object.signals() };
    }
    let wake = match found {
        Some(observed) => Some(Wake::Signaled { index: watched - 1, observed }),
        None => rested?.or_else(|| waiter.woken()),
    };
    match wake {
        Some(Wake::Signaled { index, observed }) => {
            let item = &mut items[index];
            if !item.pending.intersects(item.wait_for) {
                item.pending = observed;
            }
            Ok(())
        }
        Some(Wake::Canceled { index }) => {
            items[index].pending |= Signals::HANDLE_CLOSED;
            Err(Status::Canceled)
        }
        Some(Wake::Answered) => Err(Status::Canceled),
        None => Err(Status::TimedOut),
    }
}
