//! Rules that choose a routing table (`ip-rule(8)`, `rtnetlink(7)`).

use super::{Netlink, Question, attribute, short_at};
use crate::sys::Sys;

/// `struct fib_rule_hdr` and `FRA_SPORT_RANGE` (`linux/fib_rules.h`).
const RULE_BYTES: usize = 12;
const SOURCE_PORTS: u16 = 23;

/// Ranges of source ports, first and last, that rules of a family (`AF_INET`) select by.
pub(crate) fn source_ports(family: libc::c_int) -> Sys<Vec<(u16, u16)>> {
    let mut fixed = [0; RULE_BYTES];
    fixed[0] = family as u8;
    let answers = Netlink::open(None)?.ask(Question::new(libc::RTM_GETRULE, &fixed).dump())?;
    Ok(answers.iter().filter_map(|answer| ports_in(answer)).collect())
}

fn ports_in(answer: &[u8]) -> Option<(u16, u16)> {
    let (_, rest) = answer.split_at_checked(RULE_BYTES)?;
    let range = attribute(rest, SOURCE_PORTS)?;
    Some((short_at(range, 0)?, short_at(range, 2)?))
}

#[cfg(fuzzing)]
pub(super) fn fuzz(answer: &[u8]) {
    let _ = ports_in(answer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_understood() {
        assert!(source_ports(libc::AF_INET).is_ok());
        let mut answer = vec![0; RULE_BYTES];
        assert_eq!(ports_in(&answer), None);
        answer.extend([8, 0, 23, 0]);
        answer.extend([5555u16.to_ne_bytes(), 5560u16.to_ne_bytes()].concat());
        #[cfg(target_endian = "little")]
        assert_eq!(ports_in(&answer), Some((5555, 5560)));
        for end in 0..answer.len() {
            assert_eq!(ports_in(&answer[..end]), None);
        }
    }
}
