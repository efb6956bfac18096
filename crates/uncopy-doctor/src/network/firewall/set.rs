//! Looks keys up in sets, as far as their bytes are known. Pure.

use super::super::packet::{Byte, Match, equal, values};
use uncopy_os::netlink::firewall::{Element, Set};

/// `NFT_SET_INTERVAL`, `NFT_SET_CONCAT`; `NFT_SET_ELEM_INTERVAL_END`, `NFT_SET_ELEM_CATCHALL`
/// (`linux/netfilter/nf_tables.h`).
const INTERVAL: u32 = 0x4;
const CONCAT: u32 = 0x80;
const INTERVAL_END: u32 = 0x1;
const CATCHALL: u32 = 0x2;

/// Result of looking up a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetMatch<'a> {
    One(&'a Element),
    None,
    Unsure,
}

/// Looks up the key at the beginning of these registers.
pub(super) fn find<'a>(set: &'a Set, registers: &[Byte]) -> SetMatch<'a> {
    let rest = set.elements.iter().find(|element| element.flags & CATCHALL != 0);
    let otherwise = rest.map_or(SetMatch::None, SetMatch::One);
    let is_odd = set.elements.iter().any(|element| element.key_end.is_some());
    match set.flags {
        flags if flags & INTERVAL == 0 => {
            let mut found = otherwise;
            for element in set.elements.iter().filter(|element| element.flags & CATCHALL == 0) {
                match equal(registers, &element.key) {
                    Match::Yes => return SetMatch::One(element),
                    Match::Maybe => found = SetMatch::Unsure,
                    Match::No => {}
                }
            }
            found
        }
        flags if flags & CONCAT != 0 || is_odd => {
            let is_empty = set.elements.is_empty();
            if is_empty { SetMatch::None } else { SetMatch::Unsure }
        }
        _ => between(set, registers, otherwise),
    }
}

/// Looks up a key in a set of intervals, whose elements are the start of an interval or the first value
/// behind one.
fn between<'a>(set: &'a Set, registers: &[Byte], otherwise: SetMatch<'a>) -> SetMatch<'a> {
    let mut bounds: Vec<&Element> =
        set.elements.iter().filter(|element| element.flags & CATCHALL == 0).collect();
    // If an interval begins where another one ends, the beginning is used.
    bounds.sort_by_key(|element| (&element.key, element.flags & INTERVAL_END == 0));
    let Some(length) = bounds.first().map(|element| element.key.len()) else { return otherwise };
    let Some(key) = registers.get(..length).and_then(values) else { return SetMatch::Unsure };
    match bounds.iter().rev().find(|element| element.key <= key) {
        Some(element) if element.flags & INTERVAL_END == 0 => SetMatch::One(element),
        _ => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::packet::known;
    use super::*;

    fn set(flags: u32, elements: &[(u16, u32)]) -> Set {
        let element = |(key, flags): &(u16, u32)| Element {
            key: key.to_be_bytes().to_vec(),
            flags: *flags,
            ..Element::default()
        };
        Set { flags, elements: elements.iter().map(element).collect(), ..Set::default() }
    }

    #[test]
    fn keys_are_found_as_far_as_they_are_known() {
        let values = set(0, &[(9, 0), (80, 0)]);
        // The kernel's list for `{ 7, 100-200 }`.
        let ranges = set(INTERVAL, &[(201, 1), (100, 0), (8, 1), (7, 0), (0, 1)]);
        let adjacent = set(INTERVAL, &[(5, 0), (7, 1), (7, 0), (9, 1)]);
        let other = set(0, &[(0, CATCHALL)]);
        for (set, key, expected) in [
            (&values, 9, true),
            (&values, 10, false),
            (&ranges, 7, true),
            (&ranges, 8, false),
            (&ranges, 100, true),
            (&ranges, 200, true),
            (&ranges, 201, false),
            (&ranges, 6, false),
            (&adjacent, 7, true),
            (&adjacent, 9, false),
            (&other, 9, true),
        ] {
            let found = find(set, &known(&u16::to_be_bytes(key)));
            assert_eq!(matches!(found, SetMatch::One(_)), expected, "{key} {set:?}");
            assert_ne!(found, SetMatch::Unsure);
        }
        let nothing = [Byte::default(); 2];
        assert_eq!(find(&values, &nothing), SetMatch::Unsure);
        assert_eq!(find(&ranges, &nothing), SetMatch::Unsure);
        assert_eq!(find(&set(0, &[]), &nothing), SetMatch::None);
        assert_eq!(find(&set(INTERVAL | CONCAT, &[(1, 0)]), &nothing), SetMatch::Unsure);
    }
}
