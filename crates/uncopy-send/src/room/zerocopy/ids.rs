//! Maps the numbers that the kernel gives to `MSG_ZEROCOPY` sends back to the sends
//! (`Documentation/networking/msg_zerocopy.rst`). Pure.
//!
//! The kernel counts the successful sends of a socket, from zero and wrapping at 2³², and reports inclusive
//! ranges of numbers whose memory it no longer needs. It joins neighbouring ranges in its queue; ranges need
//! not come in order.
//!
//! A send that fails normally uses up no number. A datagram can be refused after it got one, however: by a
//! firewall (`EPERM`), by a device that is down, by the checks of a segment train. Its memory is then
//! released before the call returns, so its number is in the queue by the time the queue is read.

use std::collections::VecDeque;

/// An inclusive range of numbers whose memory is free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompletedRange {
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Whether the kernel copied the bytes of the first send in the range.
    pub(crate) copied: bool,
}

/// A range that does not match this socket's sends: something else sends on the socket, or the count was
/// lost. From then on outstanding sends cannot be distinguished from completed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StrayRange(pub(crate) CompletedRange);

/// The outstanding numbers, each with the key of its send.
#[derive(Debug)]
pub(crate) struct Ids<K> {
    /// Number of the first entry.
    base: u32,
    /// `None`: reported, while an older number is not.
    entries: VecDeque<Option<K>>,
    outstanding: usize,
    /// Whether the last datagram failed and may have used up the next number.
    in_doubt: bool,
}

impl<K> Ids<K> {
    /// Makes a map in which the next send gets the number `next`.
    pub(crate) fn new(next: u32) -> Ids<K> {
        Ids { base: next, entries: VecDeque::new(), outstanding: 0, in_doubt: false }
    }

    /// Reserves memory for one more number, so that [`record`](Self::record) cannot fail.
    pub(crate) fn reserve(&mut self) {
        self.entries.reserve(1);
    }

    /// Records a successful send for `key`.
    pub(crate) fn record(&mut self, key: K) {
        self.entries.push_back(Some(key));
        self.outstanding += 1;
    }

    /// Records that a datagram failed. Whether it used up a number is known after the queue has been read.
    pub(crate) fn doubt(&mut self) {
        self.in_doubt = true;
        self.reserve();
    }

    /// Ends the doubt, after the queue has been read to its end. Returns whether no number was reported for
    /// the failed datagram.
    pub(crate) fn settle(&mut self) -> bool {
        std::mem::take(&mut self.in_doubt)
    }

    /// Returns how many numbers were not reported yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Passes the key of each number in the range to `release`, with whether the kernel copied.
    ///
    /// # Errors
    /// [`StrayRange`], and nothing is released: a number in the range is not outstanding.
    pub(crate) fn complete(
        &mut self,
        range: CompletedRange,
        mut release: impl FnMut(K, bool),
    ) -> Result<(), StrayRange> {
        let stray = StrayRange(range);
        let begin = range.first.wrapping_sub(self.base) as usize;
        let others = range.last.wrapping_sub(range.first) as usize;
        let end = begin.checked_add(others).and_then(|last| last.checked_add(1)).ok_or(stray)?;
        let doubted = self.entries.len();
        let is_doubted = self.in_doubt && end == doubted + 1;
        let known = end - usize::from(is_doubted);
        let is_outstanding = known <= doubted
            && begin <= known
            && self.entries.range(begin..known).all(Option::is_some);
        if !is_outstanding {
            return Err(stray);
        }
        if is_doubted {
            self.in_doubt = false;
            self.entries.push_back(None);
        }
        for entry in self.entries.range_mut(begin..known) {
            if let Some(key) = entry.take() {
                self.outstanding -= 1;
                release(key, range.copied);
            }
        }
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.base = self.base.wrapping_add(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CompletedRange, Ids, StrayRange};

    fn range(first: u32, last: u32) -> CompletedRange {
        CompletedRange { first, last, copied: false }
    }

    fn complete(ids: &mut Ids<char>, completed: CompletedRange) -> Result<String, StrayRange> {
        let mut given = String::new();
        ids.complete(completed, |key, _| given.push(key)).map(|()| given)
    }

    fn with(next: u32, keys: &str) -> Ids<char> {
        let mut ids = Ids::new(next);
        keys.chars().for_each(|key| ids.record(key));
        ids
    }

    #[test]
    fn ranges_release_their_sends() {
        const LAST: u32 = u32::MAX;
        for (next, keys, ranges, expected) in [
            (0, "a", vec![(0, 0)], "a"),
            (0, "abc", vec![(0, 2)], "abc"),
            // Ranges out of order, and joined.
            (0, "abcd", vec![(2, 3), (0, 1)], "cdab"),
            (7, "abcd", vec![(8, 8), (10, 10), (7, 7), (9, 9)], "bdac"),
            // Ranges that wrap.
            (LAST, "abc", vec![(LAST, 1)], "abc"),
            (LAST - 1, "abcd", vec![(0, 1), (LAST - 1, LAST)], "cdab"),
            (LAST, "ab", vec![(0, 0), (LAST, LAST)], "ba"),
        ] {
            let mut ids = with(next, keys);
            let mut given = String::new();
            for (first, last) in ranges {
                given += &complete(&mut ids, range(first, last)).unwrap();
            }
            assert_eq!((given.as_str(), ids.outstanding()), (expected, 0));
        }
    }

    #[test]
    fn a_range_with_a_number_that_is_not_outstanding_is_stray() {
        for (next, keys, first, last) in [
            (0, "", 0, 0),
            (0, "ab", 0, 2),
            (0, "ab", 2, 2),
            (0, "ab", u32::MAX, 0),
            (0, "ab", 1, 0), // All 2³² numbers.
            (5, "ab", 4, 5),
            (5, "ab", 0, u32::MAX),
        ] {
            let mut ids = with(next, keys);
            let stray = range(first, last);
            assert_eq!(complete(&mut ids, stray), Err(StrayRange(stray)), "{next} {keys} {first}");
            assert_eq!(ids.outstanding(), keys.len());
        }
        let mut ids = with(0, "abc");
        assert_eq!(complete(&mut ids, range(1, 1)).unwrap(), "b");
        assert!(complete(&mut ids, range(0, 2)).is_err(), "b a second time");
        assert_eq!(complete(&mut ids, range(0, 0)).unwrap(), "a");
    }

    #[test]
    fn each_send_gets_the_copied_bit_of_its_range() {
        let mut ids = with(0, "abc");
        let mut given = Vec::new();
        let copied = CompletedRange { first: 0, last: 1, copied: true };
        ids.complete(copied, |key, copied| given.push((key, copied))).unwrap();
        ids.complete(range(2, 2), |key, copied| given.push((key, copied))).unwrap();
        assert_eq!(given, [('a', true), ('b', true), ('c', false)]);
    }

    #[test]
    fn a_number_used_by_a_failed_datagram_is_found_in_the_queue() {
        // Its number alone, joined with the last number, or with all outstanding ones.
        for (keys, first, last, given) in
            [("", 9, 9, ""), ("a", 10, 10, ""), ("a", 9, 10, "a"), ("ab", 10, 11, "b")]
        {
            let mut ids = with(9, keys);
            ids.doubt();
            assert_eq!(complete(&mut ids, range(first, last)).unwrap(), given, "{keys} {first}");
            assert!(!ids.settle(), "{keys}: no doubt is left");
            // The next send gets the number after it.
            ids.record('z');
            let next = 9 + keys.len() as u32 + 1;
            assert_eq!(complete(&mut ids, range(next, next)).unwrap(), "z");
        }
    }

    #[test]
    fn a_failed_datagram_without_a_number_leaves_the_count() {
        let mut ids = with(9, "a");
        ids.doubt();
        assert_eq!(complete(&mut ids, range(9, 9)).unwrap(), "a");
        assert!(ids.settle(), "no number was reported");
        assert!(complete(&mut ids, range(10, 10)).is_err(), "the doubt is over");
        ids.record('b');
        assert_eq!(complete(&mut ids, range(10, 10)).unwrap(), "b");
    }

    /// An action of the modelled kernel, which joins completions at random and reports them in any order.
    #[derive(Debug, Clone)]
    enum ModelStep {
        Send,
        Fail { used_number: bool },
        Report { at: usize, count: usize },
    }

    fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
        let step = prop_oneof![
            4 => Just(ModelStep::Send),
            1 => any::<bool>().prop_map(|used_number| ModelStep::Fail { used_number }),
            3 => (0..20usize, 1..6usize).prop_map(|(at, count)| ModelStep::Report { at, count }),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn every_send_is_released_once_and_none_early(next: u32, steps in steps()) {
            let mut ids = Ids::new(next);
            let mut number = next;
            // Sends that the kernel still has, by number; and sent and released keys.
            let mut held: Vec<(u32, usize)> = Vec::new();
            let (mut sent, mut released) = (0usize, std::collections::BTreeSet::new());
            for step in steps {
                match step {
                    ModelStep::Send => {
                        ids.record(sent);
                        held.push((number, sent));
                        number = number.wrapping_add(1);
                        sent += 1;
                    }
                    ModelStep::Fail { used_number } => {
                        ids.doubt();
                        if used_number {
                            let found = range(number, number);
                            ids.complete(found, |_, _| panic!("no send has that number")).unwrap();
                            number = number.wrapping_add(1);
                        }
                        prop_assert_eq!(ids.settle(), !used_number);
                    }
                    ModelStep::Report { at, count } if !held.is_empty() => {
                        let at = at % held.len();
                        let count = count.min(held.len() - at);
                        let run = (1..count)
                            .take_while(|i| held[at + i].0 == held[at].0.wrapping_add(*i as u32))
                            .count() + 1;
                        let keys: Vec<_> = held.drain(at..at + run).collect();
                        let reported = range(keys[0].0, keys[run - 1].0);
                        let mut given = Vec::new();
                        ids.complete(reported, |key, _| given.push(key)).unwrap();
                        let expected: Vec<_> = keys.iter().map(|(_, key)| *key).collect();
                        prop_assert_eq!(&given, &expected);
                        for key in given {
                            prop_assert!(released.insert(key), "{key} released twice");
                        }
                    }
                    ModelStep::Report { .. } => {}
                }
                prop_assert_eq!(ids.outstanding(), held.len());
            }
            for (number, key) in held {
                let mut given = Vec::new();
                ids.complete(range(number, number), |key, _| given.push(key)).unwrap();
                prop_assert_eq!(given, vec![key]);
                released.insert(key);
            }
            prop_assert_eq!(released.len(), sent);
        }
    }
}
