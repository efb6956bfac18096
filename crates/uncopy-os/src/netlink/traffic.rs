//! Queue disciplines and traffic filters of devices (`tc(8)`, `rtnetlink(7)`).

use super::{Netlink, Request, attribute, attributes, number_at, text};
use crate::Sys;
use uncopy_core::Errno;

/// `struct tcmsg` (`linux/rtnetlink.h`), and `TCA_CHAIN` there.
const QUEUE_BYTES: usize = 20;
const CHAIN: u16 = 11;
/// Parent of egress filters: `TC_H_CLSACT` and `TC_H_MIN_EGRESS` (`linux/pkt_sched.h`).
const EGRESS: u32 = 0xFFFF_FFF3;
/// `TCA_U32_LINK`, `TCA_U32_DIVISOR`, `TCA_U32_SEL`, `TCA_U32_ACT`, `TCA_U32_INDEV` and
/// `TCA_U32_MARK` (`linux/pkt_cls.h`).
const U32_LINK: u16 = 3;
const U32_DIVISOR: u16 = 4;
const U32_SELECTOR: u16 = 5;
const U32_ACTIONS: u16 = 7;
const U32_OTHERS: [u16; 2] = [8, 10];
/// `struct tc_u32_sel` before its keys, and one key (same file).
const SELECTOR_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
/// `TC_U32_TERMINAL`: the other flags change the offset of keys.
const U32_TERMINAL: u8 = 1;
/// `TCA_MATCHALL_ACT`, `TCA_BPF_ACT`, `TCA_BPF_FLAGS` and its `TCA_BPF_FLAG_ACT_DIRECT` (same file).
const EVERYTHING_ACTIONS: u16 = 2;
const BPF_ACTIONS: u16 = 1;
const BPF_FLAGS: u16 = 8;
const BPF_DECIDES: u32 = 1;
/// Action attributes of other kinds of filters: `TCA_FLOWER_ACT`, `TCA_BASIC_ACT`, `TCA_FW_ACT`,
/// `TCA_FLOW_ACT`, `TCA_CGROUP_ACT`, `TCA_ROUTE4_ACT` (same file).
const ACTIONS: [(&str, u16); 6] =
    [("flower", 3), ("basic", 3), ("fw", 4), ("flow", 9), ("cgroup", 1), ("route", 6)];
/// `TCA_ACT_KIND`, `TCA_ACT_OPTIONS`; `TCA_MIRRED_PARMS` and `TCA_MIRRED_BLOCKID`
/// (`linux/tc_act/tc_mirred.h`).
const ACTION_KIND: u16 = 1;
const ACTION_OPTIONS: u16 = 2;
const MIRRED: u16 = 2;
const MIRRED_BLOCK: u16 = 4;

/// A queue discipline of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub device: u32,
    /// `pfifo_fast`, `tbf`, `clsact`.
    pub kind: String,
    /// 0: filters cannot be attached to it.
    pub handle: u32,
}

/// A filter for outgoing packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// `u32`, `bpf`.
    pub kind: String,
    /// The discipline or class that it is attached to.
    pub parent: u32,
    /// `ETH_P_IP`, or `ETH_P_ALL`.
    pub protocol: u16,
    /// Whether it applies only to some packets, by rules that are not evaluated here: a filter of a class, or
    /// in another chain than the first.
    pub is_conditional: bool,
    pub selector: Selector,
    pub actions: Vec<Action>,
}

/// Packets that a filter matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    Everything,
    /// Packets with all of these bytes in the network header.
    Bytes(Vec<Key>),
    Opaque,
}

/// Four bytes of a header that a filter compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub at: i32,
    pub mask: [u8; 4],
    pub value: [u8; 4],
}

/// Something done to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends it, or a copy of it, over another device.
    Mirred { device: u32, is_redirect: bool },
    /// Another action, by its kind.
    Other(String),
}

/// Returns the queue disciplines of all devices.
pub fn queues() -> Sys<Vec<Queue>> {
    let request = Request::new(libc::RTM_GETQDISC, &[0; QUEUE_BYTES]).dump();
    let answers = Netlink::open(None)?.query(request)?;
    let queue = |answer: &Vec<u8>| {
        let (fixed, rest) = answer.split_at_checked(QUEUE_BYTES)?;
        Some(Queue {
            device: number_at(fixed, 4)?,
            kind: attribute(rest, libc::TCA_KIND).map(text)?,
            handle: number_at(fixed, 8)?,
        })
    };
    answers.iter().map(|answer| queue(answer).ok_or(Errno::EIO)).collect()
}

/// Returns the egress filters of a device with these disciplines, in order of evaluation.
pub fn egress_filters(device: u32, queues: &[Queue]) -> Sys<Vec<Filter>> {
    let netlink = Netlink::open(None)?;
    let mut found = Vec::new();
    let mut add = |parent, is_conditional| -> Sys<()> {
        let mut fixed = [0; QUEUE_BYTES];
        fixed[4..8].copy_from_slice(&device.to_ne_bytes());
        fixed[12..16].copy_from_slice(&u32::to_ne_bytes(parent));
        let request = Request::new(libc::RTM_GETTFILTER, &fixed).dump();
        let answers = netlink.query(request)?;
        let mut filters: Vec<(u16, Filter)> =
            answers.iter().filter_map(|answer| filter_in(answer, is_conditional)).collect();
        filters.sort_by_key(|(priority, _)| *priority);
        found.extend(filters.into_iter().map(|(_, filter)| filter));
        Ok(())
    };
    let own = || queues.iter().filter(|queue| queue.device == device);
    if own().any(|queue| queue.kind == "clsact") {
        add(EGRESS, false)?;
    }
    for queue in own().filter(|q| q.handle != 0 && !["clsact", "ingress"].contains(&&*q.kind)) {
        add(queue.handle, false)?;
    }
    for class in classes(&netlink, device)? {
        add(class, true)?;
    }
    Ok(found)
}

/// Returns the handles of the classes of a device's disciplines.
fn classes(netlink: &Netlink, device: u32) -> Sys<Vec<u32>> {
    let mut fixed = [0; QUEUE_BYTES];
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    let answers = netlink.query(Request::new(libc::RTM_GETTCLASS, &fixed).dump())?;
    Ok(answers.iter().filter_map(|answer| number_at(answer, 8)).collect())
}

/// Parses a filter and its priority. `None`: it is the head of a list, or a hash table.
fn filter_in(answer: &[u8], is_conditional: bool) -> Option<(u16, Filter)> {
    let (fixed, rest) = answer.split_at_checked(QUEUE_BYTES)?;
    let info = number_at(fixed, 16)?;
    let kind = text(attribute(rest, libc::TCA_KIND)?);
    // An entry without handle is a head, except for kinds with a single filter.
    let options = attribute(rest, libc::TCA_OPTIONS)?;
    if number_at(fixed, 8)? == 0 && attributes(options).next().is_none() {
        return None;
    }
    if kind == "u32" && attribute(options, U32_DIVISOR).is_some() {
        return None;
    }
    let is_first_chain = attribute(rest, CHAIN).and_then(|chain| number_at(chain, 0)) == Some(0)
        || attribute(rest, CHAIN).is_none();
    let (selector, actions) = match kind.as_str() {
        "u32" => (selector_in(options), attribute(options, U32_ACTIONS)),
        "matchall" => (Selector::Everything, attribute(options, EVERYTHING_ACTIONS)),
        "bpf" => (Selector::Opaque, attribute(options, BPF_ACTIONS)),
        kind => {
            let known = ACTIONS.iter().find(|(name, _)| *name == kind);
            (Selector::Opaque, known.and_then(|(_, at)| attribute(options, *at)))
        }
    };
    let mut actions = actions.map(actions_in).unwrap_or_default();
    let decides = attribute(options, BPF_FLAGS).and_then(|flags| number_at(flags, 0));
    let is_known = ["u32", "matchall", "bpf"].contains(&kind.as_str())
        || ACTIONS.iter().any(|(name, _)| *name == kind);
    if !is_known || kind == "bpf" && decides.is_some_and(|flags| flags & BPF_DECIDES != 0) {
        actions.push(Action::Other(kind.clone()));
    }
    let filter = Filter {
        kind,
        parent: number_at(fixed, 12)?,
        protocol: u16::from_be(info as u16),
        is_conditional: is_conditional || !is_first_chain,
        selector,
        actions,
    };
    Some(((info >> 16) as u16, filter))
}

fn selector_in(options: &[u8]) -> Selector {
    let others = U32_OTHERS.iter().any(|kind| attribute(options, *kind).is_some());
    let keys = || {
        let selector = attribute(options, U32_SELECTOR)?;
        let (flags, count) = (*selector.first()?, usize::from(*selector.get(2)?));
        let keys = selector.get(SELECTOR_BYTES..SELECTOR_BYTES + count * KEY_BYTES)?;
        let four = |key: &[u8], at| <[u8; 4]>::try_from(&key[at..at + 4]).ok();
        let key = |key: &[u8]| {
            let at = number_at(key, 8)? as i32;
            let is_fixed = number_at(key, 12)? == 0;
            is_fixed.then_some(Key { mask: four(key, 0)?, value: four(key, 4)?, at })
        };
        let keys = keys.chunks_exact(KEY_BYTES).map(key).collect::<Option<Vec<Key>>>()?;
        (flags & !U32_TERMINAL == 0).then_some(keys)
    };
    match keys() {
        Some(keys) if !others && attribute(options, U32_LINK).is_none() => Selector::Bytes(keys),
        _ => Selector::Opaque,
    }
}

fn actions_in(list: &[u8]) -> Vec<Action> {
    let action = |action: &[u8]| {
        let kind = attribute(action, ACTION_KIND).map(text).unwrap_or_default();
        let options = attribute(action, ACTION_OPTIONS).unwrap_or_default();
        // `struct tc_mirred`: `tc_gen` of five numbers, what it does, the device.
        let parameters = attribute(options, MIRRED).filter(|_| kind == "mirred");
        let device = parameters.and_then(|parameters| number_at(parameters, 24));
        let does = parameters.and_then(|parameters| number_at(parameters, 20));
        match (does, device, attribute(options, MIRRED_BLOCK)) {
            (Some(1), Some(device), None) => Action::Mirred { device, is_redirect: true },
            (Some(2), Some(device), None) => Action::Mirred { device, is_redirect: false },
            _ => Action::Other(kind),
        }
    };
    attributes(list).map(|(_, bytes)| action(bytes)).collect()
}

/// Protocol number that matches all frames (`ETH_P_ALL`, `linux/if_ether.h`).
pub const ALL_PROTOCOLS: u16 = 0x0003;

#[cfg(fuzzing)]
pub fn fuzz(answer: &[u8]) {
    let _ = filter_in(answer, false);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(mut bytes: Vec<u8>, kind: u16, value: &[u8]) -> Vec<u8> {
        bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// The answer of Linux 6.18 for `protocol ip u32 match ip dst 10.11.0.2/32 action mirred egress
    /// redirect`.
    #[test]
    fn a_recorded_filter_is_parsed() {
        assert!(queues().is_ok());
        let mut parameters = vec![0; 28];
        (parameters[20], parameters[24]) = (1, 7);
        let options = with(Vec::new(), MIRRED, &parameters);
        let action = with(with(Vec::new(), ACTION_KIND, b"mirred\0"), ACTION_OPTIONS, &options);
        let mut selector = vec![1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        selector.extend([255, 255, 255, 255, 10, 11, 0, 2, 16, 0, 0, 0, 0, 0, 0, 0]);
        let options = with(Vec::new(), U32_SELECTOR, &selector);
        let options = with(options, U32_ACTIONS, &with(Vec::new(), 1, &action));
        let mut answer = vec![0; QUEUE_BYTES];
        answer[8..12].copy_from_slice(&0x8000_0800_u32.to_ne_bytes());
        let info = 49_152 << 16 | u32::from(0x0800_u16.to_be());
        answer[16..20].copy_from_slice(&info.to_ne_bytes());
        let answer = with(with(answer, libc::TCA_KIND, b"u32\0"), libc::TCA_OPTIONS, &options);
        let (priority, filter) = filter_in(&answer, false).unwrap();
        assert_eq!((priority, filter.protocol), (49_152, 0x0800));
        #[cfg(target_endian = "little")]
        {
            let key = Key { at: 16, mask: [255; 4], value: [10, 11, 0, 2] };
            assert_eq!(filter.selector, Selector::Bytes(vec![key]));
            assert_eq!(filter.actions, [Action::Mirred { device: 7, is_redirect: true }]);
        }
        for end in 0..QUEUE_BYTES {
            assert_eq!(filter_in(&answer[..end], false), None);
        }
    }
}
