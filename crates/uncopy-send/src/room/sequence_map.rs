//! A map whose keys are consecutive numbers, given out by the map. Pure.

use std::collections::BTreeMap;

/// Maps numbers to values. Each value gets the next number, counted from zero, when it is put in; values
/// are taken out in any order. Few old values among many newer ones that were taken out are set aside, so that memory
/// and time are those of the values, and not of the numbers between them.
#[derive(Debug)]
pub(crate) struct SequenceMap<T> {
    /// Empty, or a power of two in length; the place of a number is its remainder.
    places: Vec<Option<T>>,
    /// Number of the oldest value that has a place; the next number if there is none.
    first: u64,
    next: u64,
    /// Number of values that have a place.
    placed: usize,
    /// Values with lower numbers.
    aside: BTreeMap<u64, T>,
}

/// Number of places of the first allocation.
const FEW: usize = 16;

impl<T> SequenceMap<T> {
    pub(crate) const fn new() -> SequenceMap<T> {
        SequenceMap { places: Vec::new(), first: 0, next: 0, placed: 0, aside: BTreeMap::new() }
    }

    /// Returns the number that the next value gets.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of values, if they are taken out in their order.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.next - self.first) as usize + self.aside.len()
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
        self.placed += 1;
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
            self.make_room();
        }
        let (number, place) = (self.next, self.place(self.next));
        self.next += 1;
        (number, &mut self.places[place])
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        match self.place_of(number) {
            Some(place) => self.places.get(place)?.as_ref(),
            None => self.aside.get(&number),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        match self.place_of(number) {
            Some(place) => self.places.get_mut(place)?.as_mut(),
            None => self.aside.get_mut(&number),
        }
    }

    /// Removes a value.
    #[inline]
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let Some(place) = self.place_of(number) else { return self.aside.remove(&number) };
        let value = self.places.get_mut(place)?.take()?;
        self.placed -= 1;
        self.skip_empty();
        Some(value)
    }

    /// Advances to the oldest value that has a place.
    #[inline]
    fn skip_empty(&mut self) {
        while self.first < self.next && self.places[self.place(self.first)].is_none() {
            self.first += 1;
        }
    }

    /// Removes the oldest value.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        match self.aside.pop_first() {
            Some((_, value)) => Some(value),
            None => self.take(self.first),
        }
    }

    /// Iterates over all values in ascending order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let aside = self.aside.iter().map(|(number, value)| (*number, value));
        aside.chain((self.first..self.next).filter_map(|number| Some((number, self.get(number)?))))
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

    /// Makes room for another number: sets the oldest values aside until half of the places are free, if few have a
    /// value, and doubles the places otherwise.
    #[cold]
    fn make_room(&mut self) {
        if self.places.len() <= FEW || self.placed > self.places.len() / 4 {
            return self.grow();
        }
        while self.next - self.first > self.places.len() as u64 / 2 {
            let place = self.place(self.first);
            if let Some(value) = self.places[place].take() {
                self.aside.insert(self.first, value);
                self.placed -= 1;
            }
            self.skip_empty();
        }
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
    fn an_old_value_costs_no_memory_for_the_numbers_behind_it() {
        let mut sequence = SequenceMap::new();
        let (oldest, second) = (sequence.push(7u64), sequence.push(8));
        for number in 2..100_000 {
            assert_eq!(sequence.push(number), number);
            // One is there all the time.
            if number > 2 {
                assert_eq!(sequence.take(number - 1), Some(number - 1));
            }
        }
        assert!(sequence.places.len() <= 4 * super::FEW, "{}", sequence.places.len());
        assert_eq!(sequence.get(oldest), Some(&7));
        assert_eq!(sequence.get_mut(second), Some(&mut 8));
        let numbers: Vec<u64> = sequence.iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [oldest, second, 99_999]);
        assert_eq!([(); 4].map(|()| sequence.pop()), [Some(7), Some(8), Some(99_999), None]);
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
