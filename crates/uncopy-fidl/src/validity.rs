//! Types whose validity is one bit mask.
//!
//! The upper seven bits of a boolean, undefined bits of a strict type, and padding must be 0; all
//! other bits of a flat struct of numbers, booleans and bits are free. Many such items are checked
//! without a branch for each: their words are combined by OR, and masked once.

use crate::layout::Layout;

/// Maximum size of a type with a mask. Longer types are checked field by field.
const MASK_BYTES: usize = 64;
const WORD_BYTES: usize = 8;
const WORDS: usize = MASK_BYTES / WORD_BYTES;
/// Number of items combined in parallel, so that none waits for the one before it.
const LANES: usize = 4;

/// Condition for the bytes of an inline part to be valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// All bytes are valid.
    Any,
    /// Bytes are valid if and only if all bits that are set here are 0.
    Zeros([u8; MASK_BYTES]),
    /// A mask is not enough.
    Checked,
}

/// A field of a struct, for [`Validity::of_fields`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaskedField {
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) validity: Validity,
}

impl Validity {
    /// Whether all bytes are valid.
    #[must_use]
    pub const fn is_any(self) -> bool {
        matches!(self, Validity::Any)
    }

    /// Makes the validity of a number in which these bits must be 0.
    #[must_use]
    pub const fn zeros_in_number(zeros: u64) -> Validity {
        let (zeros, mut mask) = (zeros.to_le_bytes(), [0; MASK_BYTES]);
        let mut index = 0;
        while index < WORD_BYTES {
            mask[index] = zeros[index];
            index += 1;
        }
        Validity::Zeros(mask)
    }

    /// Makes the validity of `count` items of `size` bytes each.
    #[must_use]
    pub(crate) const fn repeated(self, size: usize, count: usize) -> Validity {
        let Validity::Zeros(item) = self else { return self };
        if size * count > MASK_BYTES {
            return Validity::Checked;
        }
        let (mut mask, mut index) = ([0; MASK_BYTES], 0);
        while index < size * count {
            mask[index] = item[index % size];
            index += 1;
        }
        Validity::Zeros(mask)
    }

    /// Makes the validity of a struct of `size` bytes. Padding must be 0.
    #[must_use]
    pub(crate) const fn of_fields(size: usize, fields: &[MaskedField]) -> Validity {
        let (mut used, mut is_any, mut index) = (0, true, 0);
        while index < fields.len() {
            used += fields[index].size;
            match fields[index].validity {
                Validity::Any => {}
                Validity::Zeros(_) => is_any = false,
                Validity::Checked => return Validity::Checked,
            }
            index += 1;
        }
        if is_any && used == size {
            return Validity::Any;
        }
        if size > MASK_BYTES {
            return Validity::Checked;
        }
        let (mut mask, mut index) = ([0; MASK_BYTES], 0);
        while index < size {
            mask[index] = u8::MAX;
            index += 1;
        }
        index = 0;
        while index < fields.len() {
            fields[index].apply_to(&mut mask);
            index += 1;
        }
        Validity::Zeros(mask)
    }

    /// Returns the mask as words.
    const fn words(self) -> [u64; WORDS] {
        let Validity::Zeros(mask) = self else { return [0; WORDS] };
        let (mut words, mut index) = ([0; WORDS], 0);
        while index < MASK_BYTES {
            words[index / WORD_BYTES] |= (mask[index] as u64) << (index % WORD_BYTES * 8);
            index += 1;
        }
        words
    }
}

impl MaskedField {
    const fn apply_to(&self, mask: &mut [u8; MASK_BYTES]) {
        let mut index = 0;
        while index < self.size {
            mask[self.offset + index] = match self.validity {
                Validity::Zeros(zeros) => zeros[index],
                Validity::Any | Validity::Checked => 0,
            };
            index += 1;
        }
    }
}

/// Whether `bytes`, a multiple of [`SIZE`](Layout::SIZE), are valid values of `T`. `false` if that
/// takes more than a mask.
#[inline]
pub(crate) fn are_values<T: Layout>(bytes: &[u8]) -> bool {
    match T::VALIDITY {
        Validity::Any => true,
        Validity::Zeros(_) => zeros_are_zero::<T>(bytes),
        Validity::Checked => false,
    }
}

#[inline]
fn zeros_are_zero<T: Layout>(bytes: &[u8]) -> bool {
    let mut lanes = [[0; WORDS]; LANES];
    let rounds = bytes.chunks_exact(LANES * T::SIZE);
    let rest = rounds.remainder();
    for round in rounds {
        for (lane, item) in lanes.iter_mut().zip(round.chunks_exact(T::SIZE)) {
            join::<T>(lane, item);
        }
    }
    for item in rest.chunks_exact(T::SIZE) {
        join::<T>(&mut lanes[0], item);
    }
    let mask = const { T::VALIDITY.words() };
    let wrong = lanes.iter().flat_map(|lane| lane.iter().zip(mask).map(|(word, mask)| word & mask));
    wrong.fold(0, |all, word| all | word) == 0
}

/// Combines the masked words of `item` with those in `lane`.
#[inline]
fn join<T: Layout>(lane: &mut [u64; WORDS], item: &[u8]) {
    let mask = const { T::VALIDITY.words() };
    for (index, word) in item.chunks(WORD_BYTES).enumerate().take(WORDS) {
        // Decided at compile time.
        if mask[index] != 0 {
            lane[index] |= number(word);
        }
    }
}

/// Reads at most eight bytes as a number.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    let mut number = [0; WORD_BYTES];
    number[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{FieldLayout, StructLayout};

    const BOOL: FieldLayout = FieldLayout { size: 1, align: 1, validity: bool::VALIDITY };
    const U64: FieldLayout = FieldLayout { size: 8, align: 8, validity: u64::VALIDITY };

    fn zeros(mask: &[u8]) -> Validity {
        let mut zeros = [0; MASK_BYTES];
        zeros[..mask.len()].copy_from_slice(mask);
        Validity::Zeros(zeros)
    }

    #[test]
    fn structs_have_the_masks_of_their_fields_and_padding() {
        assert_eq!(StructLayout::new([U64, U64]).validity, Validity::Any);
        assert_eq!(StructLayout::new([]).validity, zeros(&[0xff]));
        let padded = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(StructLayout::new([BOOL, U64]).validity, zeros(&padded));
        let text = FieldLayout { size: 16, align: 8, validity: String::VALIDITY };
        assert_eq!(StructLayout::new([U64, text]).validity, Validity::Checked);
    }

    #[test]
    fn arrays_repeat_the_mask() {
        assert_eq!(<[bool; 3]>::VALIDITY, zeros(&[0xfe; 3]));
        assert_eq!(<[bool; 65]>::VALIDITY, Validity::Checked);
        assert_eq!(<[u8; 65]>::VALIDITY, Validity::Any);
        assert_eq!(<[String; 2]>::VALIDITY, Validity::Checked);
    }

    #[test]
    fn every_bit_of_every_item_counts() {
        for (index, bit) in (0..16).flat_map(|index| (0..8).map(move |bit| (index, bit))) {
            let mut bytes = [0u8; 16];
            bytes[index] = 1 << bit;
            assert_eq!(are_values::<[bool; 4]>(&bytes), bit == 0, "{index} {bit}");
            assert_eq!(are_values::<[bool; 16]>(&bytes), bit == 0, "{index} {bit}");
            assert!(are_values::<u32>(&bytes));
        }
        assert!(!are_values::<String>(&[0; 16]), "that takes more");
    }
}
