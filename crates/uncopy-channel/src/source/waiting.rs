//! Waiting for a signal, an answer, or a deadline.

use std::time::Instant;

use arrayvec::ArrayVec;

use super::{Intake, Source};
use crate::MAX_WAIT_ITEMS;
use crate::observers::{Observer, ObserverKind};
use crate::rights::Rights;
use crate::signals::Signals;
use crate::sleep::{Deadline, PollTarget, Slept, Waiter, Wake, with_waiter};
use crate::status::Status;
use crate::sync::Arc;

impl Wake {
    /// Returns the same wake-up after a look at the object, which may be the first at its socket.
    fn up_to_date<'a>(
        self,
        mut items: impl Iterator<Item = (&'a dyn Source, Signals)>,
        intake: Intake,
    ) -> Wake {
        match self {
            Wake::Signaled { index, observed } if intake == Intake::All => {
                let looked =
                    items.nth(index).map(|(source, trigger)| look(source, trigger, observed));
                Wake::Signaled { index, observed: looked.unwrap_or(observed) }
            }
            Wake::Signaled { .. } | Wake::Canceled { .. } | Wake::Answered => self,
        }
    }
}

/// Returns all signals of an object that had a signal of `trigger` set; `observed`, if it has none
/// any more.
fn look(source: &dyn Source, trigger: Signals, observed: Signals) -> Signals {
    source.refresh(trigger);
    let now = source.current_signals();
    if now.intersects(trigger) { now } else { observed }
}

impl Waiter {
    /// Sleeps until a wake-up or the deadline (`None`), and receives from the sockets of `items`
    /// meanwhile. Each item has the signals that are waited for; no signals stand for any packet.
    /// `targets` are the first to poll.
    pub(crate) fn sleep_until_woken<'a>(
        self: &Arc<Waiter>,
        items: &(impl Iterator<Item = (&'a dyn Source, Signals)> + Clone),
        targets: &mut PollTargets,
        deadline: Deadline,
        intake: Intake,
    ) -> Result<Option<Wake>, Status> {
        if let Some(end) = deadline.spin_end()
            && let Some(wake) = self.spin(items, end, intake)
        {
            return Ok(Some(wake));
        }
        loop {
            let slept = if targets.is_empty() {
                self.sleep(deadline)
            } else {
                self.poll(targets, deadline)?
            };
            let is_over = match slept {
                Slept::Woken(wake) if targets.is_empty() => return Ok(Some(wake)),
                Slept::Woken(wake) => return Ok(Some(wake.up_to_date(items.clone(), intake))),
                Slept::TimedOut if targets.is_empty() => return Ok(self.woken()),
                Slept::TimedOut => true,
                Slept::Recheck => false,
            };
            let wake = self.settle_all(items, intake);
            if is_over || wake.is_some() {
                return Ok(wake);
            }
            targets.clear();
            targets
                .extend(items.clone().filter_map(|(source, trigger)| source.poll_target(trigger)));
        }
    }

    /// Looks at the items until a wake-up or `end`, without sleeping.
    fn spin<'a>(
        self: &Arc<Waiter>,
        items: &(impl Iterator<Item = (&'a dyn Source, Signals)> + Clone),
        end: Instant,
        intake: Intake,
    ) -> Option<Wake> {
        loop {
            let wake = self.settle_all(items, intake);
            if wake.is_some() || Instant::now() >= end {
                return wake;
            }
            std::hint::spin_loop();
        }
    }

    /// Receives from the sockets of `items`; returns the wake-up, if there was one.
    fn settle_all<'a>(
        self: &Arc<Waiter>,
        items: &(impl Iterator<Item = (&'a dyn Source, Signals)> + Clone),
        intake: Intake,
    ) -> Option<Wake> {
        for (index, (source, trigger)) in items.clone().enumerate() {
            if let Some(observed) = source.settle(self, trigger, intake) {
                return Some(Wake::Signaled { index, observed });
            }
        }
        self.woken().map(|wake| wake.up_to_date(items.clone(), intake))
    }
}

/// Descriptors that a wait polls.
pub(crate) type PollTargets = ArrayVec<PollTarget, MAX_WAIT_ITEMS>;

/// Waits for any of `trigger` on one object; returns all signals that are set.
#[cold]
pub(crate) fn wait_one(
    source: &dyn Source,
    trigger: Signals,
    deadline: Deadline,
) -> Result<Signals, Status> {
    wait(source, trigger, deadline, Intake::All)
}

/// Waits for any of `trigger` on one object, and receives no packets behind the one that sets it.
pub(crate) fn wait_for_packet(
    source: &dyn Source,
    trigger: Signals,
    deadline: Deadline,
) -> Result<(), Status> {
    wait(source, trigger, deadline, Intake::UpToWake).map(drop)
}

fn wait(
    source: &dyn Source,
    trigger: Signals,
    deadline: Deadline,
    intake: Intake,
) -> Result<Signals, Status> {
    let wake = with_waiter(|waiter| {
        let mut targets = PollTargets::new();
        if let Some(observed) = watch(source, waiter, 0, trigger, &mut targets)? {
            let wake = Wake::Signaled { index: 0, observed };
            let item = std::iter::once((source, trigger));
            return Ok(Some(wake.up_to_date(item, intake)));
        }
        let item = std::iter::once((source, trigger));
        let rested = waiter.sleep_until_woken(&item, &mut targets, deadline, intake);
        if let Ok(Some(wake)) = rested {
            // The waking thread has taken the observer off the list.
            return Ok(Some(wake));
        }
        source.observers(&mut |_, observers| drop(observers.forget(waiter)));
        // A wake-up between the deadline and `forget` counts.
        rested.map(|_| waiter.woken())
    });
    match wake? {
        Some(Wake::Signaled { observed, .. }) => Ok(observed),
        Some(Wake::Canceled { .. } | Wake::Answered) => Err(Status::Canceled),
        None => Err(Status::TimedOut),
    }
}

/// Adds `waiter` to the object's observers, and what to poll to `targets`, unless a signal of
/// `trigger` is already set as far as this process knows.
pub(crate) fn watch(
    source: &dyn Source,
    waiter: &Arc<Waiter>,
    index: usize,
    trigger: Signals,
    targets: &mut PollTargets,
) -> Result<Option<Signals>, Status> {
    // If the closure does not run, the object belongs to the process that forked this one.
    let mut result = Err(Status::BadState);
    let poll_target = source.observers_and_poll_target(trigger, &mut |signals, observers| {
        // Under the object's lock: revoking the handle either sees this observer or has already
        // taken the right.
        if let Err(status) = source.grant().check_binding(Rights::WAIT) {
            result = Err(status);
        } else if signals.intersects(trigger) {
            result = Ok(Some(signals));
        } else {
            let kind = ObserverKind::Thread { waiter: waiter.clone(), index };
            observers.add(Observer { handle: source.grant().id(), trigger, kind });
            result = Ok(None);
        }
    });
    targets.extend(poll_target);
    result
}
