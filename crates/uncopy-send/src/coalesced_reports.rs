//! Finds out which of io_uring's reports of copies over TCP are reliable. Pure.

use crate::room::inet::InetSocket;
use crate::room::zerocopy::Usage;

/// Reports of the lent sends on one stream, in their order.
///
/// Since Linux 6.10 io_uring joins the notifications of sends whose bytes share a packet
/// (`io_link_skb` in `io_uring/notif.c`). The first of the joined notifications reports what the device
/// did; the followers always report a copy, because no packet refers to them. All joined notifications are
/// posted together, the first one first (`io_notif_tw_complete`).
///
/// So a report of no copy is always true. A report of a copy is reliable if it cannot be a follower's: the
/// send was lent alone, or more reports of copies came in a row than there can be followers of the last
/// reliable report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CoalescedReports {
    lent: usize,
    /// Maximum number of sends lent at once since nothing was lent.
    together: usize,
    /// Number of unreliable reports of copies in a row.
    copied: usize,
    /// Maximum number of followers of the last reliable report.
    followers: usize,
}

impl CoalescedReports {
    /// Notes that a send is lent.
    pub(crate) fn lend(&mut self) {
        self.together = if self.lent == 0 { 1 } else { self.together.max(self.lent + 1) };
        self.lent += 1;
    }

    /// Removes a send that was not lent in the end, or whose report does not count.
    fn withdraw(&mut self) {
        self.lent = self.lent.saturating_sub(1);
    }

    /// Processes the report of a send; returns it if it is reliable.
    fn report(&mut self, copied: bool) -> Option<bool> {
        self.lent = self.lent.saturating_sub(1);
        self.copied += 1;
        let is_reliable = !copied || self.copied > self.followers;
        if is_reliable {
            (self.copied, self.followers) = (0, self.lent);
        }
        is_reliable.then_some(copied)
    }

    /// Returns whether the path copied a lent send that was released; `None`: unknown.
    pub(crate) fn path_copied(&mut self, usage: Usage, socket: &InetSocket) -> Option<bool> {
        // One of several parts may be the follower of another.
        if usage.lent_parts != 1 || usage.copied_parts > 0 || usage.is_unreported {
            self.withdraw();
            return None;
        }
        match self.report(usage.copied_later) {
            // The device may show that the path copies all the same.
            Some(false) => usage.path_copied(socket),
            reliable => reliable.or((socket.scatter_gather() == Some(false)).then_some(true)),
        }
    }

    /// Returns whether the notification of the last released send was not joined to another.
    pub(crate) fn was_alone(&self) -> bool {
        self.lent == 0 && self.together == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::CoalescedReports;

    #[test]
    fn reports_of_sends_lent_alone_are_reliable() {
        let mut coalesced = CoalescedReports::default();
        for copied in [true, false, true, true] {
            coalesced.lend();
            assert_eq!(coalesced.report(copied), Some(copied));
            assert!(coalesced.was_alone());
        }
    }

    #[test]
    fn possible_followers_are_unreliable() {
        let mut coalesced = CoalescedReports::default();
        (0..4).for_each(|_| coalesced.lend());
        let reliable = [false, true, true, true].map(|copied| coalesced.report(copied));
        assert_eq!(reliable, [Some(false), None, None, None]);
        assert!(!coalesced.was_alone());
        (0..4).for_each(|_| coalesced.lend());
        let reliable = [true; 4].map(|copied| coalesced.report(copied));
        assert_eq!(
            reliable,
            [Some(true), None, None, None],
            "three followers are possible, and this is the fourth copy"
        );
    }

    proptest! {
        /// On a path that copies nothing no report of a copy is taken as reliable, for chains of any length.
        #[test]
        fn followers_are_never_reliable(
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

        /// A path that copies everything is recognized, however much is lent at once.
        #[test]
        fn a_path_that_copies_is_recognized(depth in 1usize..100) {
            let mut coalesced = CoalescedReports::default();
            (0..depth).for_each(|_| coalesced.lend());
            let mut reliable = 0;
            for _ in 0..20 * depth {
                reliable += usize::from(coalesced.report(true) == Some(true));
                coalesced.lend();
            }
            prop_assert!(reliable >= 19, "{reliable}");
        }
    }
}
