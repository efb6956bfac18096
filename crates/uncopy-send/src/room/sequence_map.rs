//! A map whose keys are consecutive numbers, given out by the map. Pure.

/// Maps numbers to values. Each value gets the next number, counted from zero, when it is put in; values
/// are taken out in any order. Uses memory for all numbers from the oldest value on.
#[derive(Debug)]
pub(crate) struct SequenceMap<T> {
    /// Empty, or a power of two in length; the place of a number is its remainder.
    places: Vec<Option<T>>,
    /// Number of the oldest value; the next number if the map is empty.
    first: u64,
    next: u64,
}

/// Number of places of the first allocation.
const FEW: usize = 16;

impl<T> SequenceMap<T> {
    pub(crate) const fn new() -> SequenceMap<T> {
        SequenceMap { places: Vec::new(), first: 0, next: 0 }
    }

    /// Returns the number that the next value gets.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of values, if they are taken out in their order.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.next - self.first) as usize
    }

    /// Puts a value in; returns its number.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> u64 {
        self.push_with(|| value)
    }

    /// Puts in the value that `make` returns, built in place. A large value that is built elsewhere and
    /// moved is written in small pieces and read in large ones, which stalls the processor.
    #[inline]
    pub(crate) fn push_with(&mut self, make: impl FnOnce() -> T) -> u64 {
        let (number, place) = self.vacant();
        // The place is empty. Dropping its old content would force the new value into memory first.
        std::mem::forget(place.replace(make()));
        number
    }

    /// Uses up a number without a value.
    #[inline]
    pub(crate) fn skip(&mut self) -> u64 {
        if self.first == self.next {
            self.first += 1;
            self.next += 1;
            return self.next - 1;
        }
        self.vacant().0
    }

    /// Returns the next number and its empty place.
    #[inline]
    fn vacant(&mut self) -> (u64, &mut Option<T>) {
        if self.next - self.first == self.places.len() as u64 {
            self.grow();
        }
        let (number, place) = (self.next, self.place(self.next));
        self.next += 1;
        (number, &mut self.places[place])
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        self.places.get(self.place_of(number)?)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place_of(number)?;
        self.places.get_mut(place)?.as_mut()
    }

    /// Removes a value.
    #[inline]
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let place = self.place_of(number)?;
        let value = self.places.get_mut(place)?.take()?;
        while self.first < self.next && self.places[self.place(self.first)].is_none() {
            self.first += 1;
        }
        Some(value)
    }

    /// Removes the oldest value.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.take(self.first)
    }

    /// Iterates over all values in ascending order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (self.first..self.next).filter_map(|number| Some((number, self.get(number)?)))
    }

    /// Returns the place of a number that may be in the map.
    #[inline]
    fn place_of(&self, number: u64) -> Option<usize> {
        let is_known = number.wrapping_sub(self.first) < self.next - self.first;
        is_known.then(|| self.place(number))
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & self.places.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self) {
        let count = (self.places.len() * 2).max(FEW);
        let mut larger: Vec<Option<T>> = Vec::new();
        larger.resize_with(count, || None);
        for number in self.first..self.next {
            let place = self.place(number);
            larger[number as usize & (count - 1)] = self.places[place].take();
        }
        self.places = larger;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::SequenceMap;

    #[test]
    fn behaves_like_an_ordered_map() {
        let (mut sequence, mut map) = (SequenceMap::new(), BTreeMap::new());
        let mut dice = 7u64;
        for step in 0..20_000u64 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let roll = dice >> 40;
            match roll % 16 {
                // More values are put in than taken out in the first phase, fewer in the second.
                0..8 if (step / 1000) % 2 == 0 => {
                    let number = sequence.push(step);
                    assert_eq!(map.insert(number, step), None);
                }
                0..2 => assert!(!map.contains_key(&sequence.skip())),
                2 => {
                    let stale = sequence.next().wrapping_sub(roll % 5000);
                    assert_eq!(sequence.get(stale), map.get(&stale));
                }
                3 => {
                    if let Some(value) = sequence.get_mut(roll) {
                        *value += 1;
                        *map.get_mut(&roll).unwrap() += 1;
                    }
                }
                _ => {
                    let keys: Vec<u64> = map.keys().copied().take(64).collect();
                    let key = keys.get(roll as usize % 64).copied().unwrap_or(roll);
                    assert_eq!(sequence.take(key), map.remove(&key));
                    assert_eq!(sequence.take(key), None);
                }
            }
            if step % 16 == 0 {
                assert!(sequence.iter().eq(map.iter().map(|(number, value)| (*number, value))));
            }
        }
        assert!(sequence.next() > 1000);
    }

    #[test]
    fn numbers_that_share_a_place_are_not_confused() {
        let mut sequence = SequenceMap::new();
        (0..16).for_each(|n| assert_eq!(sequence.push(n), n));
        assert_eq!(sequence.take(0), Some(0));
        assert_eq!(sequence.push(16), 16);
        for stale in [0, 32, u64::MAX] {
            assert_eq!(sequence.get(stale), None);
            assert_eq!(sequence.get_mut(stale), None);
            assert_eq!(sequence.take(stale), None);
        }
        assert_eq!(sequence.get(16), Some(&16));
    }
}
