//! Neighbour tables and forwarding tables of bridges (`rtnetlink(7)`).

use std::net::IpAddr;

use super::route::address_in;
use super::{Netlink, Request, attribute, number_at, short_at};
use crate::Sys;

/// `struct ndmsg` (`linux/neighbour.h`), and attributes there.
const NEIGHBOUR_BYTES: usize = 12;
const ADDRESS: u16 = 1;
const HARDWARE: u16 = 2;
const MASTER: u16 = 9;
/// `NUD_PERMANENT` (same file): in a bridge's table, an address of the device itself.
const PERMANENT: u16 = 0x80;

/// Entry of a neighbour or forwarding table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    device: u32,
    address: Option<IpAddr>,
    /// Hardware address; 6 bytes for Ethernet.
    hardware: Vec<u8>,
    /// The bridge that has learnt the address.
    master: Option<u32>,
    /// Whether it is an address of the device itself.
    is_own: bool,
}

/// Returns the hardware address of a neighbour on a device; `None`: it is not resolved yet.
pub fn hardware_of(device: u32, address: IpAddr) -> Sys<Option<Vec<u8>>> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let entry = entries(family)?
        .into_iter()
        .find(|entry| entry.device == device && entry.address == Some(address));
    Ok(entry.map(|entry| entry.hardware))
}

/// Returns the hardware addresses for which a device accepts frames, because devices on top of it have
/// them, such as macvlan devices in any network namespace (`ndo_dflt_fdb_dump` in `net/core/rtnetlink.c`).
pub fn accepted_addresses(device: u32) -> Sys<Vec<Vec<u8>>> {
    let own = |entry: &Entry| entry.device == device && entry.master.is_none();
    Ok(entries(libc::AF_BRIDGE)?.into_iter().filter(own).map(|entry| entry.hardware).collect())
}

/// Whether a hardware address belongs to the bridge itself or to one of its ports.
pub fn is_own_of(bridge: u32, hardware: &[u8]) -> Sys<bool> {
    let own = |entry: &Entry| {
        let is_there = entry.master == Some(bridge) || entry.device == bridge;
        is_there && entry.is_own && entry.hardware == hardware
    };
    Ok(entries(libc::AF_BRIDGE)?.iter().any(own))
}

/// Returns the tunnel endpoints to which frames for a hardware address are sent. The default entry, with an
/// address of zeros, counts too (`bridge-fdb(8)`).
pub fn remotes_to(device: u32, hardware: &[u8]) -> Sys<Vec<IpAddr>> {
    let own = |entry: &Entry| {
        let is_meant = entry.hardware == hardware || entry.hardware.iter().all(|byte| *byte == 0);
        entry.device == device && is_meant
    };
    let entries = entries(libc::AF_BRIDGE)?;
    Ok(entries.iter().filter(|entry| own(entry)).filter_map(|entry| entry.address).collect())
}

/// Returns the port through which a bridge sends frames for a hardware address; `None`: it is not learnt,
/// and they leave through all ports.
pub fn port_to(bridge: u32, hardware: &[u8]) -> Sys<Option<u32>> {
    let entry = entries(libc::AF_BRIDGE)?
        .into_iter()
        .find(|entry| entry.master == Some(bridge) && entry.hardware == hardware);
    Ok(entry.map(|entry| entry.device))
}

fn entries(family: libc::c_int) -> Sys<Vec<Entry>> {
    let mut fixed = [0; NEIGHBOUR_BYTES];
    fixed[0] = family as u8;
    let request = Request::new(libc::RTM_GETNEIGH, &fixed).dump();
    let answers = Netlink::open(None)?.query(request)?;
    Ok(answers.iter().filter_map(|answer| entry_in(answer)).collect())
}

/// Parses an entry; `None`: it has no hardware address.
fn entry_in(answer: &[u8]) -> Option<Entry> {
    let (fixed, rest) = answer.split_at_checked(NEIGHBOUR_BYTES)?;
    Some(Entry {
        device: number_at(fixed, 4)?,
        address: attribute(rest, ADDRESS).and_then(address_in),
        hardware: attribute(rest, HARDWARE)?.to_owned(),
        master: attribute(rest, MASTER).and_then(|value| number_at(value, 0)),
        is_own: short_at(fixed, 8)? & PERMANENT != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_parsed() {
        let mut answer = vec![0; NEIGHBOUR_BYTES];
        answer[4] = 7;
        answer.extend([8, 0, 1, 0, 10, 11, 0, 2]);
        let unknown = answer.clone();
        answer.extend([10, 0, 2, 0, 2, 0, 0, 0, 0, 9, 0, 0]);
        answer.extend([8, 0, 9, 0, 5, 0, 0, 0]);
        let entry = Entry {
            device: 7,
            address: Some("10.11.0.2".parse().unwrap()),
            hardware: vec![2, 0, 0, 0, 0, 9],
            master: Some(u32::from_ne_bytes([5, 0, 0, 0])),
            is_own: false,
        };
        #[cfg(target_endian = "little")]
        assert_eq!(entry_in(&answer), Some(entry));
        assert_eq!(entry_in(&unknown), None, "not resolved");
        for end in 0..NEIGHBOUR_BYTES {
            assert_eq!(entry_in(&answer[..end]), None);
        }
    }

    #[test]
    fn tables_can_be_read() {
        assert_eq!(hardware_of(u32::MAX >> 1, "192.0.2.1".parse().unwrap()), Ok(None));
        assert_eq!(port_to(u32::MAX >> 1, &[2, 0, 0, 0, 0, 9]), Ok(None));
    }
}
