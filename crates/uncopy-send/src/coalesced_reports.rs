//! Which of io_uring's reports over TCP stand for themselves. Pure.

use crate::room::inet::InetSocket;
use crate::room::zerocopy::Usage;

/// Reports of the lent sends on one stream, in their order.
///
/// Since Linux 6.10 io_uring joins the notifications of sends whose bytes share a packet
/// (`io_link_skb` in `io_uring/notif.c`). The first of those that are joined reports what the device
/// did; the others say that they were copied whatever happened, since no packet refers to them. All
/// that are joined are posted together, the first of them first (`io_notif_tw_complete`).
///
/// So that a report of no copy is always true, and one of a copy where it can be no follower: what
/// was sent when nothing else was lent; or one of so many in a row that not all of them can have
/// followed what was reported before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CoalescedReports {
    lent: usize,
    /// The most that were lent at once since nothing was.
    together: usize,
    /// Copies in a row, of which none could be told.
    copied: usize,
    /// So many in a row can have followed what was reported before.
    followers: usize,
}

impl CoalescedReports {
    /// One more is lent.
    pub(crate) fn lend(&mut self) {
        self.together = if self.lent == 0 { 1 } else { self.together.max(self.lent + 1) };
        self.lent += 1;
    }

    /// One was not lent in the end, or of it there is no report that can be counted.
    fn withdraw(&mut self) {
        self.lent = self.lent.saturating_sub(1);
    }

    /// One was released; gives what can be believed of the report that it was copied, or not.
    fn report(&mut self, copied: bool) -> Option<bool> {
        self.lent = self.lent.saturating_sub(1);
        self.copied += 1;
        let is_reliable = !copied || self.copied > self.followers;
        if is_reliable {
            (self.copied, self.followers) = (0, self.lent);
        }
        is_reliable.then_some(copied)
    }

    /// What can be believed of the path of a lent send that was released.
    pub(crate) fn path_copied(&mut self, usage: Usage, socket: &InetSocket) -> Option<bool> {
        // Of several parts one may have followed another.
        if usage.lent_parts != 1 || usage.copied_parts > 0 || usage.is_unreported {
            self.withdraw();
            return None;
        }
        match self.report(usage.copied_later) {
            // Unless the device says otherwise.
            Some(false) => usage.path_copied(socket),
            believed => believed.or((socket.scatter_gather() == Some(false)).then_some(true)),
        }
    }

    /// What was released last was joined to nothing.
    pub(crate) fn was_alone(&self) -> bool {
        self.lent == 0 && self.together == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::CoalescedReports;

    #[test]
    fn what_is_lent_alone_is_believed() {
        let mut coalesced = CoalescedReports::default();
        for copied in [true, false, true, true] {
            coalesced.lend();
            assert_eq!(coalesced.report(copied), Some(copied));
            assert!(coalesced.was_alone());
        }
    }

    #[test]
    fn as_many_as_can_have_followed_tell_nothing() {
        let mut coalesced = CoalescedReports::default();
        (0..4).for_each(|_| coalesced.lend());
        let believed = [false, true, true, true].map(|copied| coalesced.report(copied));
        assert_eq!(believed, [Some(false), None, None, None]);
        assert!(!coalesced.was_alone());
        (0..4).for_each(|_| coalesced.lend());
        let believed = [true; 4].map(|copied| coalesced.report(copied));
        assert_eq!(
            believed,
            [Some(true), None, None, None],
            "three followed, and this is the fourth"
        );
    }

    proptest! {
        /// Chains of any length on a path that copies nothing: no report of a copy is believed.
        #[test]
        fn followers_are_never_believed(
            chains in prop::collection::vec((1usize..6, 0usize..12), 1..200),
        ) {
            let mut coalesced = CoalescedReports::default();
            let mut unreported = std::collections::VecDeque::new();
            for (length, reported) in chains {
                (0..length).for_each(|_| coalesced.lend());
                unreported.push_back(length);
                for _ in 0..reported {
                    let Some(length) = unreported.pop_front() else { break };
                    prop_assert_eq!(coalesced.report(false), Some(false));
                    for _ in 1..length {
                        prop_assert_ne!(coalesced.report(true), Some(true));
                    }
                }
            }
        }

        /// A path that copies everything is found out, however much is lent at once.
        #[test]
        fn a_path_that_copies_is_told(depth in 1usize..100) {
            let mut coalesced = CoalescedReports::default();
            (0..depth).for_each(|_| coalesced.lend());
            let mut believed = 0;
            for _ in 0..20 * depth {
                believed += usize::from(coalesced.report(true) == Some(true));
                coalesced.lend();
            }
            prop_assert!(believed >= 19, "{believed}");
        }
    }
}
