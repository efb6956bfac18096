//! Packet sockets of this network namespace (`sock_diag(7)`, `linux/packet_diag.h`).

use rustix::net::netlink::SOCK_DIAG;

use super::{Netlink, Request, attribute, number_at};
use crate::Sys;

/// `SOCK_DIAG_BY_FAMILY` (`linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;
/// `struct packet_diag_req` and `struct packet_diag_msg`.
const REQUEST_BYTES: usize = 20;
const ANSWER_BYTES: usize = 16;
/// `PACKET_SHOW_FANOUT`, `PACKET_DIAG_FANOUT`.
const SHOW_FANOUT: u32 = 0x8;
const FANOUT: u16 = 4;

/// Returns the inodes of packet sockets in fanout groups, with the number of their group.
pub fn fanouts() -> Sys<Vec<(u64, u16)>> {
    let mut fixed = [0; REQUEST_BYTES];
    fixed[0] = libc::AF_PACKET as u8;
    fixed[8..12].copy_from_slice(&SHOW_FANOUT.to_ne_bytes());
    let answers = Netlink::open(Some(SOCK_DIAG))?.query(Request::new(BY_FAMILY, &fixed).dump())?;
    Ok(answers.iter().filter_map(|answer| fanout_in(answer)).collect())
}

fn fanout_in(answer: &[u8]) -> Option<(u64, u16)> {
    let (fixed, rest) = answer.split_at_checked(ANSWER_BYTES)?;
    let group = attribute(rest, FANOUT).and_then(|value| number_at(value, 0))?;
    // The low half is the group's number, the high half its mode.
    Some((u64::from(number_at(fixed, 4)?), group as u16))
}

#[cfg(fuzzing)]
pub fn fuzz(answer: &[u8]) {
    let _ = fanout_in(answer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_every_user() {
        // Kernels without CONFIG_PACKET_DIAG.
        match fanouts() {
            Ok(_) | Err(uncopy_core::Errno::ENOENT) => {}
            Err(errno) => panic!("{errno}"),
        }
        assert_eq!(fanout_in(&[0; ANSWER_BYTES]), None);
    }
}
