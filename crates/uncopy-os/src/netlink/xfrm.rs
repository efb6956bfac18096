//! Policies of IPsec (`ip-xfrm(8)`, `linux/xfrm.h`).

use rustix::net::netlink::XFRM;

use super::{Netlink, Request, attribute, number_at};
use crate::Sys;
use uncopy_core::Errno;

/// `XFRM_MSG_GETSPDINFO`, `XFRMA_SPD_INFO`, and `outcnt` in `struct xfrmu_spdinfo`.
const GET_COUNTS: u16 = 0x25;
const COUNTS: u16 = 1;
const OUTGOING: usize = 4;

/// Returns the number of policies for outgoing packets.
///
/// # Errors
/// `EPERM`: CAP_NET_ADMIN is missing.
pub fn policies() -> Sys<u32> {
    let netlink = match Netlink::open(Some(XFRM)) {
        // Kernels without IPsec.
        Err(Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT) => return Ok(0),
        netlink => netlink?,
    };
    let answers = netlink.query(Request::new(GET_COUNTS, &[0; 4]))?;
    let counts = answers.first().and_then(|answer| attribute(answer.get(4..)?, COUNTS));
    counts.and_then(|counts| number_at(counts, OUTGOING)).ok_or(Errno::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_counted() {
        match policies() {
            Ok(_) | Err(Errno::EPERM) => {}
            Err(errno) => panic!("{errno}"),
        }
    }
}
