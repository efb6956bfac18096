//! Policy rules of routing (`ip-rule(8)`, `rtnetlink(7)`).

use super::{Netlink, Request, attribute, short_at};
use crate::Sys;

/// `struct fib_rule_hdr`, `FRA_SPORT_RANGE` and `FRA_DPORT_RANGE` (`linux/fib_rules.h`).
const RULE_BYTES: usize = 12;
const SOURCE_PORTS: u16 = 23;
const DESTINATION_PORTS: u16 = 24;

/// Port ranges, first and last, that policy rules select by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports {
    pub source: Vec<(u16, u16)>,
    pub destination: Vec<(u16, u16)>,
}

/// Returns the port ranges that the rules of a family (`AF_INET`) select by.
pub fn ports(family: libc::c_int) -> Sys<Ports> {
    let answers = rules(family)?;
    let of = |kind| answers.iter().filter_map(|answer| ports_in(answer, kind)).collect();
    Ok(Ports { source: of(SOURCE_PORTS), destination: of(DESTINATION_PORTS) })
}

/// Whether a rule of a family selects by source address.
pub fn select_by_source(family: libc::c_int) -> Sys<bool> {
    Ok(rules(family)?.iter().any(|answer| looks_at_source(answer)))
}

fn rules(family: libc::c_int) -> Sys<Vec<Vec<u8>>> {
    let mut fixed = [0; RULE_BYTES];
    fixed[0] = family as u8;
    Netlink::open(None)?.query(Request::new(libc::RTM_GETRULE, &fixed).dump())
}

/// Whether a rule has a source prefix, by the prefix length.
fn looks_at_source(answer: &[u8]) -> bool {
    answer.get(2).is_some_and(|bits| *bits != 0)
}

fn ports_in(answer: &[u8], kind: u16) -> Option<(u16, u16)> {
    let (_, rest) = answer.split_at_checked(RULE_BYTES)?;
    let range = attribute(rest, kind)?;
    Some((short_at(range, 0)?, short_at(range, 2)?))
}

#[cfg(fuzzing)]
pub fn fuzz(answer: &[u8]) {
    let _ = ports_in(answer, SOURCE_PORTS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_parsed() {
        assert!(ports(libc::AF_INET).is_ok() && select_by_source(libc::AF_INET6).is_ok());
        for (bits, expected) in [(0, false), (1, true), (128, true)] {
            assert_eq!(looks_at_source(&[10, 0, bits, 0]), expected);
        }
        let mut answer = vec![0; RULE_BYTES];
        assert_eq!(ports_in(&answer, SOURCE_PORTS), None);
        answer.extend([8, 0, 23, 0]);
        answer.extend([5555u16.to_ne_bytes(), 5560u16.to_ne_bytes()].concat());
        #[cfg(target_endian = "little")]
        assert_eq!(ports_in(&answer, SOURCE_PORTS), Some((5555, 5560)));
        for end in 0..answer.len() {
            assert_eq!(ports_in(&answer[..end], SOURCE_PORTS), None);
        }
    }
}
