//! Features of network devices (`Documentation/networking/ethtool-netlink.rst`, Linux 5.6).

use rustix::net::netlink::GENERIC;

use super::{Netlink, Request, attribute, attributes, short_at, text};
use crate::Sys;
use uncopy_core::Errno;

/// `struct genlmsghdr` (`linux/genetlink.h`).
const GENERIC_BYTES: usize = 4;
/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_NAME`, `CTRL_ATTR_FAMILY_ID`.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_NAME: u16 = 2;
const FAMILY_ID: u16 = 1;
/// `ETHTOOL_MSG_FEATURES_GET`, and its attributes (`linux/ethtool_netlink.h`).
const GET_FEATURES: u8 = 11;
const HEADER: u16 = 1;
const HEADER_DEVICE_INDEX: u16 = 1;
const CHANGEABLE: u16 = 2;
const REQUESTED: u16 = 3;
const ACTIVE: u16 = 4;
const NEVER_CHANGE: u16 = 5;
/// `ETHTOOL_A_BITSET_NOMASK`, `ETHTOOL_A_BITSET_BITS`, and the name and value of each bit.
const NO_MASK: u16 = 1;
const BITS: u16 = 3;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// Features of a device, with the names that `ethtool -k` shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    active: Vec<String>,
    requested: Vec<String>,
    changeable: Vec<String>,
    never_change: Vec<String>,
}

/// State of one feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Feature {
    pub is_active: bool,
    /// Whether it is requested; it may need another feature to become active.
    pub is_requested: bool,
    /// Whether it cannot be changed.
    pub is_fixed: bool,
}

impl Features {
    /// Returns the state of the feature of this name.
    pub fn get(&self, name: &str) -> Feature {
        let has = |names: &[String]| names.iter().any(|found| found == name);
        Feature {
            is_active: has(&self.active),
            is_requested: has(&self.requested),
            is_fixed: !has(&self.changeable) || has(&self.never_change),
        }
    }
}

/// Reads the features of a device.
pub fn features(device: u32) -> Sys<Features> {
    let netlink = Netlink::open(Some(GENERIC))?;
    let family = Request::new(CONTROL, &[GET_FAMILY, 1, 0, 0]).with(FAMILY_NAME, b"ethtool\0");
    let answers = netlink.query(family)?;
    let rest = answers.first().and_then(|answer| answer.get(GENERIC_BYTES..)).ok_or(Errno::EIO)?;
    let id = attribute(rest, FAMILY_ID).and_then(|value| short_at(value, 0)).ok_or(Errno::EIO)?;
    let request = Request::new(id, &[GET_FEATURES, 1, 0, 0])
        .with_nested(HEADER, &[(HEADER_DEVICE_INDEX, &device.to_ne_bytes())]);
    let answers = netlink.query(request)?;
    let rest = answers.first().and_then(|answer| answer.get(GENERIC_BYTES..)).ok_or(Errno::EIO)?;
    Ok(features_in(rest))
}

fn features_in(answer: &[u8]) -> Features {
    let set = |kind| attribute(answer, kind).map(names_in).unwrap_or_default();
    Features {
        active: set(ACTIVE),
        requested: set(REQUESTED),
        changeable: set(CHANGEABLE),
        never_change: set(NEVER_CHANGE),
    }
}

/// Returns the names of the bits that are set. A set without a mask lists only these.
fn names_in(set: &[u8]) -> Vec<String> {
    let lists_set_bits = attribute(set, NO_MASK).is_some();
    let bits = attribute(set, BITS).unwrap_or_default();
    attributes(bits)
        .filter(|(_, bit)| lists_set_bits || attribute(bit, BIT_VALUE).is_some())
        .filter_map(|(_, bit)| attribute(bit, BIT_NAME).map(text))
        .collect()
}

#[cfg(fuzzing)]
pub fn fuzz(answer: &[u8]) {
    let _ = features_in(answer).get("tx-scatter-gather");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::route;

    #[test]
    fn scatter_gather_of_loopback_is_fixed() {
        let route = route::route_to("127.0.0.1".parse().unwrap(), 0).unwrap();
        let features = features(route.device).unwrap();
        let gather = features.get("tx-scatter-gather");
        assert!(gather.is_active && gather.is_fixed, "{gather:?}");
        assert!(features.get("tx-tcp-segmentation").is_active);
        assert_eq!(
            features.get("no such feature"),
            Feature { is_fixed: true, ..Feature::default() }
        );
    }

    #[test]
    fn a_missing_device_is_an_error() {
        assert_eq!(features(u32::MAX >> 1), Err(Errno::ENODEV));
        assert_eq!(features_in(&[1, 2, 3]), Features::default());
    }
}
