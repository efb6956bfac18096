//! Evaluates filters of queue disciplines. Pure.

use super::packet::{Match, Packet, equal};
use crate::found::{Doubt, FilterAction};
use uncopy_os::netlink::traffic::{ALL_PROTOCOLS, Action, Filter, Selector};

/// `ETH_P_IP` and `ETH_P_IPV6` (`linux/if_ether.h`).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Actions that neither redirect packets nor change their contents.
const HARMLESS: [&str; 7] = ["gact", "skbedit", "police", "connmark", "ctinfo", "gate", "simple"];

/// Redirections by filters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// Devices that copies are sent over.
    pub(super) mirrors: Vec<u32>,
    /// Device that packets are redirected to.
    pub(super) redirect: Option<u32>,
    /// Reasons why the result is uncertain.
    pub(super) doubts: Vec<Doubt>,
}

/// Evaluates the filters of a device for a packet, one list after the other.
pub(super) fn turns(filters: &[Filter], packet: &Packet) -> Turns {
    let mut turns = Turns::default();
    for list in filters.chunk_by(|one, other| one.parent == other.parent) {
        let mut is_sure = true;
        for filter in list {
            let acts = filter.actions.iter().any(|action| !is_harmless(action));
            match matches(filter, packet) {
                Match::No => continue,
                Match::Yes if is_sure && !filter.is_conditional => act(filter, &mut turns),
                _ if acts => turns.doubts.push(Doubt::Filter {
                    kind: filter.kind.clone(),
                    actions: filter.actions.iter().map(named).collect(),
                }),
                _ => {}
            }
            if turns.redirect.is_some() {
                return turns;
            }
            // A filter without actions chooses a class and ends the list. An action may continue with the
            // next filter.
            if is_sure && filter.actions.is_empty() && matches(filter, packet) == Match::Yes {
                break;
            }
            is_sure = false;
        }
    }
    turns
}

fn act(filter: &Filter, turns: &mut Turns) {
    for action in &filter.actions {
        match action {
            Action::Mirred { device, is_redirect: true } => {
                turns.redirect = Some(*device);
                return;
            }
            Action::Mirred { device, .. } => turns.mirrors.push(*device),
            Action::Other(_) if is_harmless(action) => {}
            Action::Other(kind) => {
                turns.doubts.push(Doubt::UnknownAction { kind: kind.clone() });
            }
        }
    }
}

fn is_harmless(action: &Action) -> bool {
    matches!(action, Action::Other(kind) if HARMLESS.contains(&kind.as_str()))
}

fn named(action: &Action) -> FilterAction {
    match action {
        Action::Mirred { device, is_redirect: true } => FilterAction::Redirect { device: *device },
        Action::Mirred { device, .. } => FilterAction::Mirror { device: *device },
        Action::Other(kind) => FilterAction::Other { kind: kind.clone() },
    }
}

fn matches(filter: &Filter, packet: &Packet) -> Match {
    let protocol = packet.is_v6.map(|is_v6| if is_v6 { IPV6 } else { IPV4 });
    let of_protocol = match protocol {
        _ if filter.protocol == ALL_PROTOCOLS => Match::Yes,
        Some(protocol) if protocol == filter.protocol => Match::Yes,
        Some(_) => return Match::No,
        None => Match::Maybe,
    };
    let selected = match &filter.selector {
        Selector::Everything => Match::Yes,
        Selector::Opaque => Match::Maybe,
        Selector::Bytes(keys) => {
            let mut all = Match::Yes;
            for key in keys {
                let bytes = match usize::try_from(key.at) {
                    Ok(at) => packet.load(false, at, 4),
                    Err(_) => Vec::new(),
                };
                // The transport header follows the network header.
                let bytes = match (packet.is_v6, usize::try_from(key.at)) {
                    (Some(false), Ok(at)) if at >= 20 => packet.load(true, at - 20, 4),
                    (Some(true), Ok(at)) if at >= 40 => packet.load(true, at - 40, 4),
                    _ => bytes,
                };
                let masked: Vec<_> = bytes
                    .iter()
                    .zip(key.mask)
                    .map(|(byte, mask)| super::packet::Byte {
                        value: byte.value & mask,
                        known: byte.known | !mask,
                    })
                    .collect();
                let wanted: Vec<u8> = key.value.iter().zip(key.mask).map(|(v, m)| v & m).collect();
                let one = match masked.is_empty() {
                    true if key.mask == [0; 4] => Match::Yes,
                    true => Match::Maybe,
                    false => equal(&masked, &wanted),
                };
                all = both(all, one);
            }
            all
        }
    };
    both(of_protocol, selected)
}

fn both(one: Match, other: Match) -> Match {
    match (one, other) {
        (Match::No, _) | (_, Match::No) => Match::No,
        (Match::Yes, Match::Yes) => Match::Yes,
        _ => Match::Maybe,
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::flow;
    use super::*;
    use uncopy_os::netlink::route::Route;
    use uncopy_os::netlink::traffic::Key;

    fn filter(keys: &[(i32, u32, u32)], actions: &[Action]) -> Filter {
        let key = |(at, mask, value): &(i32, u32, u32)| Key {
            at: *at,
            mask: mask.to_be_bytes(),
            value: value.to_be_bytes(),
        };
        Filter {
            kind: "u32".into(),
            parent: 1,
            protocol: IPV4,
            is_conditional: false,
            selector: Selector::Bytes(keys.iter().map(key).collect()),
            actions: actions.to_vec(),
        }
    }

    /// Moves a filter to another discipline.
    fn elsewhere(filter: Filter) -> Filter {
        Filter { parent: 2, ..filter }
    }

    fn packet() -> Packet {
        Packet::of(&flow("10.11.0.2", 9), &Route::default())
    }

    const HERE: u32 = 0x0a0b_0002;
    const REDIRECT: Action = Action::Mirred { device: 7, is_redirect: true };
    const MIRROR: Action = Action::Mirred { device: 8, is_redirect: false };

    #[test]
    fn filters_are_evaluated_or_doubted() {
        let drop = Action::Other("gact".into());
        let odd = Action::Other("pedit".into());
        for (filters, mirrors, redirect, is_doubted) in [
            (vec![], vec![], None, false),
            (vec![filter(&[(0, 0, 0)], &[REDIRECT])], vec![], Some(7), false),
            (vec![filter(&[(16, u32::MAX, HERE)], &[REDIRECT])], vec![], Some(7), false),
            (vec![filter(&[(16, u32::MAX, HERE + 1)], &[REDIRECT])], vec![], None, false),
            (
                vec![filter(&[(16, 0xffff_0000, HERE)], &[MIRROR, REDIRECT])],
                vec![8],
                Some(7),
                false,
            ),
            // Destination port 9, the second half of the first four bytes of the transport header.
            (vec![filter(&[(20, 0xffff, 9)], &[MIRROR])], vec![8], None, false),
            (vec![filter(&[(20, 0xffff, 10)], &[MIRROR])], vec![], None, false),
            // The source port is not known.
            (vec![filter(&[(20, 0xffff_0000, 9 << 16)], &[MIRROR])], vec![], None, true),
            (vec![filter(&[(-14, u32::MAX, 9)], &[MIRROR])], vec![], None, true),
            (
                vec![
                    filter(&[(0, 0, 0)], std::slice::from_ref(&drop)),
                    filter(&[(0, 0, 0)], &[MIRROR]),
                ],
                vec![],
                None,
                true,
            ),
            (
                vec![filter(&[(0, 0, 0)], &[]), elsewhere(filter(&[(0, 0, 0)], &[REDIRECT]))],
                vec![],
                Some(7),
                false,
            ),
            (
                vec![filter(&[(0, 0, 0)], &[MIRROR]), elsewhere(filter(&[(0, 0, 0)], &[REDIRECT]))],
                vec![8],
                Some(7),
                false,
            ),
            (vec![filter(&[(0, 0, 0)], &[]), filter(&[(0, 0, 0)], &[MIRROR])], vec![], None, false),
            (vec![filter(&[(0, 0, 0)], &[odd])], vec![], None, true),
        ] {
            let found = turns(&filters, &packet());
            assert_eq!((found.mirrors, found.redirect), (mirrors, redirect), "{filters:?}");
            assert_eq!(!found.doubts.is_empty(), is_doubted, "{filters:?}");
        }
        let mut conditional = filter(&[(0, 0, 0)], &[REDIRECT]);
        conditional.is_conditional = true;
        let found = turns(&[conditional], &packet());
        assert_eq!((found.redirect, found.doubts.len()), (None, 1));
        let mut unseen = filter(&[], &[drop]);
        unseen.selector = Selector::Opaque;
        assert_eq!(turns(&[unseen.clone()], &packet()), Turns::default());
        unseen.actions = vec![MIRROR];
        assert_eq!(turns(&[unseen], &packet()).doubts.len(), 1);
        let other = Packet::of(&flow("fd11::2", 9), &Route::default());
        assert_eq!(turns(&[filter(&[(0, 0, 0)], &[REDIRECT])], &other), Turns::default());
        let wrapped = packet().wrapped();
        assert_eq!(turns(&[filter(&[(0, 0, 0)], &[REDIRECT])], &wrapped).doubts.len(), 1);
    }
}
