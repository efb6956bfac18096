//! Evaluates one expression of a rule. Pure.

use std::net::IpAddr;

use super::super::packet::{Byte, Match, equal, known, values};
use super::set::{SetMatch, find};
use super::{Effect, Run};
use crate::found::RuleDoubt;
use uncopy_os::netlink::attribute;
use uncopy_os::netlink::firewall::{Data, Expression, Rule, be_u32_at, data_in};

/// Size of `struct nft_regs`: registers of 16 bytes (1 to 4) and of 4 bytes (from 8 on) share it.
const REGISTER_BYTES: usize = 64;
/// Expressions that only load a register, with the attribute that names it. The loaded value depends on more
/// than packet headers.
const LOADS: [(&str, u16); 12] = [
    ("ct", 1),
    ("rt", 1),
    ("socket", 2),
    ("osf", 1),
    ("hash", 2),
    ("numgen", 1),
    ("exthdr", 1),
    ("xfrm", 1),
    ("tunnel", 2),
    ("fib", 1),
    ("inner", 0),
    ("symhash", 2),
];
/// Expressions that do not affect the path of packets.
const HARMLESS: [&str; 6] = ["counter", "log", "notrack", "last", "flow_offload", "connmark"];
/// Expressions whose match cannot be predicted.
const CHANCES: [&str; 6] = ["limit", "quota", "connlimit", "dynset", "objref", "match"];
/// Targets of `iptables(8)` that neither copy nor redirect packets, behind which the next rule follows.
const TARGETS: [&str; 13] = [
    "LOG", "NFLOG", "TCPMSS", "CHECKSUM", "CLASSIFY", "CT", "NOTRACK", "TRACE", "TTL", "HL",
    "DSCP", "ECN", "SET",
];
/// Targets that change the source address and accept the packet (`net/netfilter/xt_MASQUERADE.c`, `xt_nat.c`).
const SOURCE_TARGETS: [&str; 2] = ["MASQUERADE", "SNAT"];
/// `NFT_META_PROTOCOL` and others (`linux/netfilter/nf_tables.h`).
const META_PROTOCOL: u32 = 1;
const META_MARK: u32 = 3;
const META_IN: u32 = 4;
const META_OUT: u32 = 5;
const META_IN_NAME: u32 = 6;
const META_OUT_NAME: u32 = 7;
const META_FAMILY: u32 = 15;
const META_TRANSPORT: u32 = 16;
const NAME_BYTES: usize = 16;

/// Result of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RuleStep {
    Next,
    /// The packet may not match the rule.
    Maybe,
    No,
    Verdict(i32, String),
}

/// Registers loaded by earlier expressions of a rule.
pub(super) struct Registers([Byte; REGISTER_BYTES]);

impl Default for Registers {
    fn default() -> Registers {
        Registers([Byte::default(); REGISTER_BYTES])
    }
}

impl Registers {
    fn place(number: u32) -> usize {
        match number {
            8..24 => (number as usize - 8) * 4,
            1..5 => (number as usize - 1) * 16,
            _ => REGISTER_BYTES,
        }
    }

    fn from(&self, number: u32) -> &[Byte] {
        &self.0[Self::place(number).min(REGISTER_BYTES)..]
    }

    fn put(&mut self, number: u32, bytes: &[Byte]) {
        let at = Self::place(number);
        for (to, from) in self.0.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }

    /// Marks a register as unknown.
    fn forget(&mut self, number: u32) {
        self.put(number, &[Byte::default(); 16]);
    }

    /// Returns a number in native byte order, such as a mark or a device index.
    fn number(&self, number: u32) -> Option<u32> {
        let bytes = values(self.from(number).get(..4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }
}

/// Attributes of an expression.
struct Attributes<'a>(&'a [u8]);

impl Attributes<'_> {
    fn number(&self, kind: u16) -> Option<u32> {
        attribute(self.0, kind).and_then(be_u32_at)
    }

    fn value(&self, kind: u16) -> Vec<u8> {
        match attribute(self.0, kind).and_then(data_in) {
            Some(Data::Value(value)) => value,
            _ => Vec::new(),
        }
    }

    fn text(&self, kind: u16) -> String {
        attribute(self.0, kind).map(uncopy_os::netlink::text).unwrap_or_default()
    }
}

fn of(matched: Match) -> RuleStep {
    match matched {
        Match::Yes => RuleStep::Next,
        Match::No => RuleStep::No,
        Match::Maybe => RuleStep::Maybe,
    }
}

fn negated(matched: Match) -> Match {
    match matched {
        Match::Yes => Match::No,
        Match::No => Match::Yes,
        Match::Maybe => Match::Maybe,
    }
}

impl Run<'_> {
    /// Evaluates an expression. `is_sure`: the packet certainly matches the rule so far.
    pub(super) fn step(
        &mut self,
        rule: &Rule,
        expression: &Expression,
        registers: &mut Registers,
        is_sure: bool,
    ) -> RuleStep {
        let data = Attributes(&expression.data);
        match expression.name.as_str() {
            "immediate" => match attribute(data.0, 2).and_then(data_in) {
                Some(Data::Verdict(code, chain)) => RuleStep::Verdict(code, chain),
                Some(Data::Value(value)) => {
                    registers.put(data.number(1).unwrap_or(0), &known(&value));
                    RuleStep::Next
                }
                None => self.odd(rule, RuleDoubt::UnknownValue),
            },
            "payload" => self.payload(rule, &data, registers),
            "meta" => self.meta(rule, &data, registers, is_sure),
            "cmp" => of(compared(&data, registers)),
            "range" => of(ranged(&data, registers)),
            "bitwise" => {
                masked(&data, registers);
                RuleStep::Next
            }
            "byteorder" => {
                swapped(&data, registers);
                RuleStep::Next
            }
            "lookup" => self.lookup(rule, &data, registers),
            "fib" => {
                self.fib(&data, registers);
                RuleStep::Next
            }
            name if HARMLESS.contains(&name) => RuleStep::Next,
            name if CHANCES.contains(&name) => self.chance(name, &data),
            name => match LOADS.iter().find(|(load, _)| *load == name) {
                Some((_, at)) => {
                    // Without a register the expression sets a property of the connection.
                    registers.forget(data.number(*at).unwrap_or(0));
                    RuleStep::Next
                }
                None => self.act(rule, name, &data, registers, is_sure),
            },
        }
    }

    fn odd(&mut self, rule: &Rule, doubt: RuleDoubt) -> RuleStep {
        self.doubt(&rule.table, &rule.chain, doubt);
        RuleStep::Maybe
    }

    /// `NFTA_PAYLOAD_DREG`, `_BASE`, `_OFFSET`, `_LEN`, `_SREG`.
    fn payload(
        &mut self,
        rule: &Rule,
        data: &Attributes<'_>,
        registers: &mut Registers,
    ) -> RuleStep {
        let (base, at) = (data.number(2), data.number(3).unwrap_or(u32::MAX) as usize);
        let length = data.number(4).unwrap_or(0) as usize;
        let Some(to) = data.number(1) else {
            // Writing traffic class or hop limit does not affect the path.
            let is_v6 = self.packet.is_v6 == Some(true);
            let is_aside = base == Some(1) && at + length <= if is_v6 { 8 } else { 12 };
            return match is_aside {
                true => RuleStep::Next,
                false => self.odd(rule, RuleDoubt::ChangesContents),
            };
        };
        match base {
            Some(base @ 1..=2) if at + length <= 1024 => {
                registers.put(to, &self.packet.load(base == 2, at, length));
            }
            _ => registers.forget(to),
        }
        RuleStep::Next
    }

    /// `NFTA_META_DREG`, `_KEY`, `_SREG`.
    fn meta(
        &mut self,
        rule: &Rule,
        data: &Attributes<'_>,
        registers: &mut Registers,
        is_sure: bool,
    ) -> RuleStep {
        let key = data.number(2).unwrap_or(u32::MAX);
        let Some(to) = data.number(1) else {
            if key == META_MARK {
                let mark = data.number(3).and_then(|from| registers.number(from));
                self.marked(rule, mark, is_sure);
            }
            return RuleStep::Next;
        };
        let packet = &self.packet;
        let name = |name: &str| {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(NAME_BYTES, 0);
            known(&bytes)
        };
        let family = |four: &[u8], six: &[u8]| {
            packet.is_v6.map(|is_v6| known(if is_v6 { six } else { four }))
        };
        let found = match key {
            META_PROTOCOL => family(&[0x08, 0x00], &[0x86, 0xdd]),
            META_FAMILY => family(&[2], &[10]),
            META_TRANSPORT => packet.protocol.map(|protocol| known(&[protocol])),
            META_MARK => packet.mark.map(|mark| known(&mark.to_ne_bytes())),
            META_OUT => packet.device.as_ref().map(|(index, _)| known(&index.to_ne_bytes())),
            META_OUT_NAME => packet.device.as_ref().map(|(_, device)| name(device)),
            // Locally sent packets have no input device.
            META_IN => Some(known(&[0; 4])),
            META_IN_NAME => Some(name("")),
            _ => None,
        };
        match found {
            Some(bytes) => registers.put(to, &bytes),
            None => registers.forget(to),
        }
        RuleStep::Next
    }

    fn marked(&mut self, rule: &Rule, mark: Option<u32>, is_sure: bool) {
        let before = self.packet.mark;
        self.packet.mark = mark.filter(|_| is_sure || mark == before);
        match mark {
            _ if !self.is_route || mark == before && before.is_some() => {}
            Some(mark) => self.effect(rule, Effect::Marked(mark), is_sure),
            None => self.doubt(&rule.table, &rule.chain, RuleDoubt::Marks),
        }
    }

    /// `NFTA_LOOKUP_SET`, `_SREG`, `_DREG`, `_FLAGS`.
    fn lookup(
        &mut self,
        rule: &Rule,
        data: &Attributes<'_>,
        registers: &mut Registers,
    ) -> RuleStep {
        let name = data.text(1);
        let rules = self.rules;
        let set = rules
            .sets
            .iter()
            .find(|set| (set.family, &set.table, &set.name) == (rule.family, &rule.table, &name));
        let Some(set) = set else { return self.odd(rule, RuleDoubt::SetNotSeen) };
        let is_inverted = data.number(5).is_some_and(|flags| flags & 1 != 0);
        let found = find(set, registers.from(data.number(2).unwrap_or(0)));
        let to = data.number(3);
        match (found, to) {
            (SetMatch::None, None) if is_inverted => RuleStep::Next,
            (SetMatch::None, _) => RuleStep::No,
            (SetMatch::One(_), None) if is_inverted => RuleStep::No,
            (SetMatch::One(_), None) => RuleStep::Next,
            (SetMatch::One(element), Some(to)) => match &element.data {
                Some(Data::Verdict(code, chain)) => RuleStep::Verdict(*code, chain.clone()),
                Some(Data::Value(value)) => {
                    registers.put(to, &known(value));
                    RuleStep::Next
                }
                None => RuleStep::Maybe,
            },
            (SetMatch::Unsure, None) => RuleStep::Maybe,
            (SetMatch::Unsure, Some(0)) => {
                let harmless = |element: &uncopy_os::netlink::firewall::Element| {
                    matches!(element.data, None | Some(Data::Verdict(0 | 1 | -1 | -5, _)))
                };
                match set.elements.iter().all(harmless) {
                    true => RuleStep::Maybe,
                    false => self.odd(rule, RuleDoubt::Map),
                }
            }
            (SetMatch::Unsure, Some(to)) => {
                registers.forget(to);
                RuleStep::Maybe
            }
        }
    }

    /// `NFTA_FIB_DREG`, `_RESULT`, `_FLAGS`: only the type of the destination address is known.
    fn fib(&self, data: &Attributes<'_>, registers: &mut Registers) {
        let to = data.number(1).unwrap_or(0);
        let is_kind = data.number(2) == Some(3) && data.number(3) == Some(2);
        match self.packet.address_kind.filter(|_| is_kind) {
            Some(kind) => registers.put(to, &known(&u32::from(kind).to_ne_bytes())),
            None => registers.forget(to),
        }
    }

    /// `NFTA_MATCH_NAME`, `NFTA_MATCH_INFO`: of the matches of `iptables(8)` only ports are evaluated.
    fn chance(&self, name: &str, data: &Attributes<'_>) -> RuleStep {
        let kind = data.text(1);
        let info = attribute(data.0, 3).unwrap_or_default();
        if name != "match" || kind != "udp" && kind != "tcp" {
            return if name == "match" && kind == "comment" {
                RuleStep::Next
            } else {
                RuleStep::Maybe
            };
        }
        // `struct xt_udp` and `struct xt_tcp`: first and last source port, first and last destination port.
        let port = |at: usize| Some(u16::from_ne_bytes(info.get(at..at + 2)?.try_into().ok()?));
        let inverted = info.get(if kind == "udp" { 8 } else { 11 });
        let own =
            values(&self.packet.load(true, 2, 2)).map(|own| u16::from_be_bytes([own[0], own[1]]));
        match (port(4), port(6), own, inverted) {
            (Some(first), Some(last), Some(own), Some(inverted)) => {
                let is_in = (first..=last).contains(&own) != (inverted & 2 != 0);
                let any_source = (port(0), port(2)) == (Some(0), Some(u16::MAX));
                match (is_in, any_source && inverted & 1 == 0 && kind == "udp") {
                    (false, _) => RuleStep::No,
                    (true, true) => RuleStep::Next,
                    (true, false) => RuleStep::Maybe,
                }
            }
            _ => RuleStep::Maybe,
        }
    }

    /// Evaluates expressions that act on the packet.
    fn act(
        &mut self,
        rule: &Rule,
        name: &str,
        data: &Attributes<'_>,
        registers: &Registers,
        is_sure: bool,
    ) -> RuleStep {
        let device = |at| data.number(at).and_then(|from| registers.number(from));
        match name {
            "reject" => RuleStep::Verdict(super::DROP, String::new()),
            // Source NAT, as below.
            "masq" => RuleStep::Verdict(super::ACCEPT, String::new()),
            "redir" => self.direct(rule, Some(Effect::Here), is_sure),
            // `NFTA_NAT_TYPE`: source NAT happens after a device is chosen.
            "nat" if data.number(1) == Some(0) => RuleStep::Verdict(super::ACCEPT, String::new()),
            // `NFTA_NAT_REG_ADDR_MIN`, `NFTA_NAT_REG_ADDR_MAX`.
            "nat" => {
                let (least, most) = (data.number(3), data.number(4));
                let is_one = most.is_none()
                    || most.map(|most| address(self.packet.is_v6, registers, most))
                        == least.map(|least| address(self.packet.is_v6, registers, least));
                match (least, data.number(5)) {
                    // Only the port changes.
                    (None, _) => RuleStep::Verdict(super::ACCEPT, String::new()),
                    (Some(least), _) => {
                        let to = address(self.packet.is_v6, registers, least).filter(|_| is_one);
                        self.direct(rule, to.map(Effect::To), is_sure)
                    }
                }
            }
            "dup" if rule.family == super::NETDEV => {
                match device(2) {
                    Some(over) => self.effect(rule, Effect::CopyOver(over), is_sure),
                    None => self.doubt(&rule.table, &rule.chain, RuleDoubt::CopiesOver),
                }
                RuleStep::Next
            }
            // `NFTA_DUP_SREG_ADDR`, `NFTA_DUP_SREG_DEV`.
            "dup" => {
                let to = data.number(1).and_then(|at| address(self.packet.is_v6, registers, at));
                match (to, data.number(2).is_some(), device(2)) {
                    (Some(to), named, over) if named == over.is_some() => {
                        self.effect(rule, Effect::CopyTo(to, over), is_sure);
                    }
                    _ => self.doubt(&rule.table, &rule.chain, RuleDoubt::CopiesTo),
                }
                RuleStep::Next
            }
            // `NFTA_FWD_SREG_DEV`.
            "fwd" => {
                match device(1) {
                    Some(over) => self.effect(rule, Effect::Over(over), is_sure),
                    None => self.doubt(&rule.table, &rule.chain, RuleDoubt::RedirectsOver),
                }
                RuleStep::Verdict(super::ACCEPT, String::new())
            }
            "target" if TARGETS.contains(&data.text(1).as_str()) => RuleStep::Next,
            "target" if SOURCE_TARGETS.contains(&data.text(1).as_str()) => {
                RuleStep::Verdict(super::ACCEPT, String::new())
            }
            "target" if data.text(1) == "REJECT" => RuleStep::Verdict(super::DROP, String::new()),
            "target" => {
                let target = data.text(1);
                self.odd(rule, RuleDoubt::UnknownTarget { target })
            }
            _ => self.odd(rule, RuleDoubt::UnknownStep { step: name.to_owned() }),
        }
    }

    /// Records a new destination; `None`: it is unknown.
    fn direct(&mut self, rule: &Rule, to: Option<Effect>, is_sure: bool) -> RuleStep {
        if !self.is_directed {
            match to {
                Some(to) => self.effect(rule, to, is_sure),
                None => self.doubt(&rule.table, &rule.chain, RuleDoubt::ChangesAddress),
            }
        }
        self.is_directed |= is_sure;
        self.packet.forget_destination();
        RuleStep::Verdict(super::ACCEPT, String::new())
    }
}

fn address(is_v6: Option<bool>, registers: &Registers, at: u32) -> Option<IpAddr> {
    let length = if is_v6? { 16 } else { 4 };
    let bytes = values(registers.from(at).get(..length)?)?;
    match is_v6? {
        true => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        false => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
    }
}

/// `NFTA_CMP_SREG`, `_OP`, `_DATA`.
fn compared(data: &Attributes<'_>, registers: &Registers) -> Match {
    let wanted = data.value(3);
    let own = registers.from(data.number(1).unwrap_or(0));
    let matched = equal(own, &wanted);
    let order = own.get(..wanted.len()).and_then(values).map(|own| own.cmp(&wanted));
    let is = |yes: Option<bool>| {
        yes.map_or(Match::Maybe, |yes| if yes { Match::Yes } else { Match::No })
    };
    match data.number(2) {
        Some(0) => matched,
        Some(1) => negated(matched),
        Some(2) => is(order.map(|order| order.is_lt())),
        Some(3) => is(order.map(|order| order.is_le())),
        Some(4) => is(order.map(|order| order.is_gt())),
        Some(5) => is(order.map(|order| order.is_ge())),
        _ => Match::Maybe,
    }
}

/// `NFTA_RANGE_SREG`, `_OP`, `_FROM_DATA`, `_TO_DATA`.
fn ranged(data: &Attributes<'_>, registers: &Registers) -> Match {
    let (first, last) = (data.value(3), data.value(4));
    let own = registers.from(data.number(1).unwrap_or(0));
    let Some(own) = own.get(..first.len()).and_then(values) else { return Match::Maybe };
    let matched = if (first..=last).contains(&own) { Match::Yes } else { Match::No };
    match data.number(2) {
        Some(0) => matched,
        Some(1) => negated(matched),
        _ => Match::Maybe,
    }
}

/// `NFTA_BITWISE_SREG`, `_DREG`, `_LEN`, `_MASK`, `_XOR`, `_OP`.
fn masked(data: &Attributes<'_>, registers: &mut Registers) {
    let to = data.number(2).unwrap_or(0);
    if data.number(6).unwrap_or(0) != 0 {
        registers.forget(to);
        return;
    }
    let (mask, xor) = (data.value(4), data.value(5));
    let own = registers.from(data.number(1).unwrap_or(0));
    let bytes = own.iter().zip(mask.iter().zip(&xor)).map(|(byte, (mask, xor))| Byte {
        value: (byte.value & mask) ^ xor,
        known: byte.known | !mask,
    });
    let bytes: Vec<Byte> = bytes.collect();
    registers.put(to, &bytes);
}

/// `NFTA_BYTEORDER_SREG`, `_DREG`, `_OP`, `_LEN`, `_SIZE`.
fn swapped(data: &Attributes<'_>, registers: &mut Registers) {
    let length = data.number(4).unwrap_or(0).min(16) as usize;
    let size = data.number(5).unwrap_or(0) as usize;
    let own = registers.from(data.number(1).unwrap_or(0));
    let mut bytes = own.get(..length).unwrap_or_default().to_vec();
    if cfg!(target_endian = "little") && size > 0 {
        bytes.chunks_mut(size).for_each(<[Byte]>::reverse);
    }
    registers.put(data.number(2).unwrap_or(0), &bytes);
}
