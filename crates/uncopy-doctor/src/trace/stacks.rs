//! Counts kernel stacks that contain a copying function. Pure.

use std::collections::HashMap;

use super::super::report::Stack;

/// Number of stacks that are reported.
const SHOWN: usize = 5;
/// Maximum number of different stacks that are kept, which bounds the memory of a long trace.
const KEPT: usize = 4096;

/// Source of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Sample,
    Call,
}

/// Numbers of samples and calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    samples: u64,
    calls: u64,
}

/// Stacks, each counted.
#[derive(Debug, Default)]
pub(super) struct Stacks<'a> {
    /// Counts by the names of functions, the innermost first.
    counts: HashMap<Vec<&'a str>, Count>,
    left_out: u64,
}

impl<'a> Stacks<'a> {
    /// Counts a stack.
    pub(super) fn add(&mut self, chain: &[&'a str], by: By) {
        if !self.counts.contains_key(chain) {
            if self.counts.len() == KEPT {
                self.left_out += 1;
                return;
            }
            self.counts.insert(chain.to_vec(), Count::default());
        }
        if let Some(count) = self.counts.get_mut(chain) {
            match by {
                By::Sample => count.samples += 1,
                By::Call => count.calls += 1,
            }
        }
    }

    /// Returns the number of sightings of stacks that are not kept.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the most frequent stacks, the most frequent first. Equal ones are sorted by the names of their
    /// functions.
    pub(super) fn commonest(self) -> Vec<Stack> {
        let mut counted: Vec<(Vec<&str>, Count)> = self.counts.into_iter().collect();
        counted.sort_by(|(one, of_one), (other, of_other)| {
            let seen = |count: &Count| count.samples + count.calls;
            seen(of_other).cmp(&seen(of_one)).then_with(|| one.cmp(other))
        });
        counted.truncate(SHOWN);
        let stack = |(names, count): (Vec<&str>, Count)| Stack {
            functions: names.into_iter().map(str::to_owned).collect(),
            samples: count.samples,
            calls: count.calls,
        };
        counted.into_iter().map(stack).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commonest_come_first() {
        let mut stacks = Stacks::default();
        let chains = [["a", "x"], ["b", "x"], ["c", "x"], ["d", "x"], ["e", "x"], ["f", "x"]];
        for (times, chain) in [2, 9, 2, 3, 1, 7].into_iter().zip(&chains) {
            (0..times).for_each(|_| stacks.add(chain, By::Sample));
        }
        (0..8).for_each(|_| stacks.add(&chains[3], By::Call));
        let found: Vec<(String, u64, u64)> = stacks
            .commonest()
            .into_iter()
            .map(|stack| (stack.functions.join(" "), stack.samples, stack.calls))
            .collect();
        let expected = [("d x", 3, 8), ("b x", 9, 0), ("f x", 7, 0), ("a x", 2, 0), ("c x", 2, 0)];
        assert_eq!(found, expected.map(|(names, s, c)| (names.to_owned(), s, c)));
        assert_eq!(Stacks::default().commonest(), []);
    }

    /// A part of a stack is a different stack.
    #[test]
    fn different_stacks_are_counted_separately() {
        let mut stacks = Stacks::default();
        for chain in [&["a", "b"][..], &["a", "b", "c"], &["b", "a"], &["a", "b"], &[]] {
            stacks.add(chain, By::Call);
        }
        let found = stacks.commonest();
        assert_eq!(found.len(), 4);
        assert_eq!((found[0].functions.join(" "), found[0].calls), ("a b".to_owned(), 2));
    }

    #[test]
    fn memory_is_bounded_and_what_is_left_out_is_counted() {
        let names: Vec<String> = (0..KEPT + 3).map(|number| format!("f{number}")).collect();
        let mut stacks = Stacks::default();
        for name in &names {
            stacks.add(&[name], By::Sample);
        }
        // Stacks that are kept are still counted.
        stacks.add(&["f0"], By::Sample);
        assert_eq!((stacks.counts.len(), stacks.left_out()), (KEPT, 3));
        let first = &stacks.commonest()[0];
        assert_eq!((first.functions.join(" "), first.samples), ("f0".to_owned(), 2));
    }
}
