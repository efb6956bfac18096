//! The payloads of one socket by number, and the reports that the kernel still owes for each. Pure.

use std::collections::VecDeque;

use super::errqueue::Report;
use super::ids::{CompletedRange, Ids, StrayRange};
use super::{Completed, Foreign, Usage};
use crate::room::Payload;
use crate::room::sequence_map::SequenceMap;

#[derive(Debug)]
struct Outgoing<B> {
    payload: Payload<B>,
    /// Number of lent parts that the kernel has not reported.
    lent_parts: u32,
    /// Whether more parts may follow.
    is_open: bool,
    usage: Usage,
}

pub(super) struct Ledger<B> {
    ids: Ids<u64>,
    /// Sends that are not completed.
    sends: SequenceMap<Outgoing<B>>,
    completed: VecDeque<Completed<B>>,
    /// Number of completed sends, from the first on, that `newly_completed` has returned.
    reported: usize,
    /// Whether the reports do not match the sends, so that nothing can be released any more.
    is_lost: bool,
    foreign: Foreign,
}

impl<B> Ledger<B> {
    pub(super) fn new() -> Ledger<B> {
        Ledger {
            ids: Ids::new(0),
            sends: SequenceMap::new(),
            completed: VecDeque::new(),
            reported: 0,
            is_lost: false,
            foreign: Foreign::default(),
        }
    }

    /// Returns the number of reports that the kernel still owes.
    pub(super) fn outstanding(&self) -> usize {
        self.ids.outstanding()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub(super) fn foreign(&self) -> Foreign {
        self.foreign
    }

    /// Takes a payload in; returns its number.
    pub(super) fn begin(&mut self, payload: Payload<B>) -> u64 {
        let usage = Usage::default();
        self.sends.push(Outgoing { payload, lent_parts: 0, is_open: true, usage })
    }

    /// Takes in a payload that the kernel has copied in the call, known to the caller of `newly_completed`,
    /// which has returned all payloads that were completed before; returns its number.
    #[inline]
    pub(super) fn complete_copied(&mut self, payload: Payload<B>, bytes: usize) -> u64 {
        debug_assert!(!self.has_newly_completed());
        self.reported += 1;
        let number = self.sends.skip();
        let usage = Usage { copied_parts: 1, bytes, ..Usage::default() };
        self.completed.push_back(Completed { number, payload, usage });
        number
    }

    /// Uses up a number for a payload that is not taken in.
    pub(super) fn skip_number(&mut self) -> u64 {
        self.sends.skip()
    }

    /// Returns a payload that was begun and not ended, and reserves memory for the number of its next part.
    pub(super) fn open(&mut self, number: u64) -> Option<&Payload<B>> {
        self.ids.reserve();
        self.sends.get(number).filter(|send| send.is_open).map(|send| &send.payload)
    }

    /// Records that the kernel took a part, `lent` or copied.
    pub(super) fn record(&mut self, number: u64, bytes: usize, lent: bool) {
        let Some(send) = self.sends.get_mut(number) else { return };
        send.usage.bytes += bytes;
        if lent {
            send.lent_parts += 1;
            send.usage.lent_parts += 1;
            self.ids.record(number);
        } else {
            send.usage.copied_parts += 1;
        }
    }

    /// Records that a datagram failed. Whether the kernel counted it is known after its reports have been
    /// read.
    pub(super) fn doubt(&mut self) {
        self.ids.doubt();
    }

    /// Ends that doubt, after the reports have been read. Returns whether no number was reported for the
    /// datagram.
    pub(super) fn settle(&mut self) -> bool {
        self.ids.settle()
    }

    /// Ends a payload: no more parts follow.
    pub(super) fn end(&mut self, number: u64) {
        let Some(send) = self.sends.get_mut(number) else { return };
        send.is_open = false;
        if send.lent_parts == 0 {
            complete(&mut self.sends, &mut self.completed, number);
        }
    }

    /// Processes a report of the kernel.
    pub(super) fn report(&mut self, report: Report) {
        match report {
            // After the first report that does not match the sends, no report is reliable.
            Report::Completed(_) if self.is_lost => {}
            Report::Completed(range) => self.is_lost = self.apply(range).is_err(),
            Report::Foreign { errno, .. } => {
                self.foreign.count += 1;
                self.foreign.last = Some(errno);
            }
            Report::Lost => self.is_lost = true,
        }
    }

    /// Returns whether payloads were completed since the last call of `newly_completed`.
    #[inline]
    pub(super) fn has_newly_completed(&self) -> bool {
        self.reported < self.completed.len()
    }

    /// Returns the payloads completed since the last call, in their order.
    #[inline]
    pub(super) fn newly_completed(&mut self) -> impl Iterator<Item = &Completed<B>> {
        let reported = std::mem::replace(&mut self.reported, self.completed.len());
        self.completed.range(reported..)
    }

    /// Returns the number of payloads that are completed and were not taken.
    #[inline]
    pub(super) fn completed(&self) -> usize {
        self.completed.len()
    }

    /// Takes the next completed payload, in their order.
    #[inline]
    pub(super) fn next_completed(&mut self) -> Option<Completed<B>> {
        self.reported = self.reported.saturating_sub(1);
        self.completed.pop_front()
    }

    /// Frees the completed payloads; returns whether nothing is outstanding.
    pub(super) fn is_drained(&mut self) -> bool {
        self.reported = 0;
        self.completed.clear();
        self.outstanding() == 0
    }

    /// Returns the part that outlives the owner, if anything is outstanding: all payloads that are not
    /// completed.
    pub(super) fn take_outstanding(&mut self) -> Option<Ledger<B>> {
        if self.outstanding() == 0 {
            return None;
        }
        let mut left = std::mem::replace(self, Ledger::new());
        self.completed = std::mem::take(&mut left.completed);
        self.reported = std::mem::take(&mut left.reported);
        Some(left)
    }

    /// Returns whether this payload was not taken yet.
    #[cfg(feature = "tokio")]
    pub(super) fn has(&self, number: u64) -> bool {
        let is_under_way = self.sends.get(number).is_some();
        is_under_way || self.completed.iter().any(|completed| completed.number == number)
    }

    fn apply(&mut self, range: CompletedRange) -> Result<(), StrayRange> {
        let Ledger { ids, sends, completed, .. } = self;
        ids.complete(range, |number, copied| {
            let Some(send) = sends.get_mut(number) else { return };
            send.lent_parts -= 1;
            send.usage.copied_later |= copied;
            if send.lent_parts == 0 && !send.is_open {
                complete(sends, completed, number);
            }
        })
    }
}

/// Completes a payload that is ended and of which no part is lent.
#[inline]
fn complete<B>(
    sends: &mut SequenceMap<Outgoing<B>>,
    completed: &mut VecDeque<Completed<B>>,
    number: u64,
) {
    if let Some(Outgoing { payload, usage, .. }) = sends.take(number) {
        completed.push_back(Completed { number, payload, usage });
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::CompletedRange;
    use super::{Ledger, Report};
    use crate::room::Payload;

    #[test]
    fn copied_payloads_are_completed_past_those_that_are_lent() {
        for lent in [0, 1, 3, 40] {
            for copied in [1, 2, 40] {
                for is_counted_first in [false, true] {
                    check(lent, copied, is_counted_first);
                }
            }
        }
    }

    /// Lends payloads, has others copied, and releases the lent ones then.
    fn check(lent: u64, copied: u64, is_counted_first: bool) {
        let case = format!("{lent} {copied} {is_counted_first}");
        let mut ledger = Ledger::new();
        // A payload that is completed by its end is not known yet when the next is copied.
        if is_counted_first {
            let number = ledger.begin(Payload::One("first"));
            ledger.record(number, 5, false);
            ledger.end(number);
        }
        let first = u64::from(is_counted_first);
        for number in first..first + lent {
            assert_eq!(ledger.begin(Payload::One("lent")), number, "{case}");
            ledger.record(number, 4, true);
            ledger.end(number);
        }
        for number in first + lent..first + lent + copied {
            let counted = ledger.newly_completed().count();
            assert_eq!(counted, usize::from(is_counted_first && number == first + lent), "{case}");
            assert_eq!(ledger.complete_copied(Payload::One("copied"), 6), number, "{case}");
        }
        if let Some(last) = lent.checked_sub(1) {
            let range = CompletedRange { first: 0, last: last as u32, copied: false };
            ledger.report(Report::Completed(range));
        }
        let counted: Vec<u64> =
            ledger.newly_completed().map(|completed| completed.number).collect();
        assert!(counted.into_iter().eq(first..first + lent), "{case}: the lent ones, once");
        let mut taken = Vec::new();
        while let Some(completed) = ledger.next_completed() {
            taken.push(completed.number);
            if let Payload::One("copied") = completed.payload {
                assert_eq!((completed.usage.copied_parts, completed.usage.bytes), (1, 6), "{case}");
            }
        }
        let expected = (0..first).chain(first + lent..first + lent + copied);
        let expected: Vec<u64> = expected.chain(first..first + lent).collect();
        assert_eq!(taken, expected, "{case}");
        assert_eq!(ledger.outstanding(), 0, "{case}");
        // Numbers go on, and nothing that is taken is found again.
        assert_eq!(ledger.begin(Payload::One("next")), first + lent + copied, "{case}");
    }
}
