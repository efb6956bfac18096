//! Rules of nf_tables as the kernel stores them (`nft(8)`, `linux/netfilter/nf_tables.h`).

use rustix::net::netlink::NETFILTER;

use super::{Netlink, Request, attribute, attributes, text};
use crate::Sys;
use uncopy_core::Errno;

/// `struct nfgenmsg` (`linux/netfilter/nfnetlink.h`).
const FIXED_BYTES: usize = 4;
/// `NFT_MSG_GETTABLE` and others.
const GET_TABLE: u16 = 1;
const GET_CHAIN: u16 = 4;
const GET_RULE: u16 = 7;
const GET_SET: u16 = 10;
const GET_ELEMENTS: u16 = 13;
/// `NFTA_TABLE_NAME`, `NFTA_TABLE_FLAGS`, `NFT_TABLE_F_DORMANT`.
const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
const DORMANT: u32 = 1;
/// `NFTA_CHAIN_TABLE`, `NFTA_CHAIN_NAME`, `NFTA_CHAIN_HOOK`, `NFTA_CHAIN_POLICY`,
/// `NFTA_CHAIN_TYPE`.
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
/// `NFTA_HOOK_HOOKNUM`, `NFTA_HOOK_PRIORITY`, `NFTA_HOOK_DEV`, `NFTA_HOOK_DEVS`,
/// `NFTA_DEVICE_NAME`.
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const HOOK_DEVICE: u16 = 3;
const HOOK_DEVICES: u16 = 4;
/// `NFTA_RULE_TABLE`, `NFTA_RULE_CHAIN`, `NFTA_RULE_EXPRESSIONS`, `NFTA_EXPR_NAME`,
/// `NFTA_EXPR_DATA`.
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
/// `NFTA_SET_TABLE`, `NFTA_SET_NAME`, `NFTA_SET_FLAGS`; lists of elements have the same first two, and
/// `NFTA_SET_ELEM_LIST_ELEMENTS`.
const SET_TABLE: u16 = 1;
const SET_NAME: u16 = 2;
const SET_FLAGS: u16 = 3;
const LIST_ELEMENTS: u16 = 3;
/// `NFTA_SET_ELEM_KEY`, `NFTA_SET_ELEM_DATA`, `NFTA_SET_ELEM_FLAGS`, `NFTA_SET_ELEM_KEY_END`.
const ELEMENT_KEY: u16 = 1;
const ELEMENT_DATA: u16 = 2;
const ELEMENT_FLAGS: u16 = 3;
const ELEMENT_KEY_END: u16 = 10;
/// `NFTA_DATA_VALUE`, `NFTA_DATA_VERDICT`, `NFTA_VERDICT_CODE`, `NFTA_VERDICT_CHAIN`.
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;

/// All rules of nf_tables in this network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruleset {
    pub chains: Vec<Chain>,
    pub rules: Vec<Rule>,
    pub sets: Vec<Set>,
}

/// A chain of rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// `NFPROTO_IPV4` and others.
    pub family: u8,
    pub table: String,
    pub name: String,
    /// `None`: only other chains enter it.
    pub hook: Option<Hook>,
    /// `filter`, `nat`, `route`.
    pub kind: String,
    /// `NF_DROP` or `NF_ACCEPT`.
    pub policy: u32,
}

/// Hook at which packets enter a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hook {
    /// `NF_INET_LOCAL_OUT`, or a hook of the chain's family.
    pub number: u32,
    pub priority: i32,
    pub devices: Vec<String>,
}

/// A rule of a chain. Rules are evaluated in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    pub family: u8,
    pub table: String,
    pub chain: String,
    pub expressions: Vec<Expression>,
}

/// One expression of a rule, with its attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expression {
    pub name: String,
    pub data: Vec<u8>,
}

/// A set or map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    pub family: u8,
    pub table: String,
    pub name: String,
    /// `NFT_SET_INTERVAL` and others.
    pub flags: u32,
    pub elements: Vec<Element>,
}

/// An element of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Element {
    pub key: Vec<u8>,
    pub key_end: Option<Vec<u8>>,
    /// `NFT_SET_ELEM_INTERVAL_END` and others.
    pub flags: u32,
    pub data: Option<Data>,
}

/// Data of an element, or of an expression that loads a register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    Value(Vec<u8>),
    /// Code (`NF_ACCEPT`, `NFT_JUMP` and others) and the target chain.
    Verdict(i32, String),
}

/// Reads all rules. Returns none on a kernel without nf_tables.
///
/// # Errors
/// `EPERM`: CAP_NET_ADMIN is missing.
pub fn ruleset() -> Sys<Ruleset> {
    let netlink = match Netlink::open(Some(NETFILTER)) {
        Err(Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT) => return Ok(Ruleset::default()),
        netlink => netlink?,
    };
    let chains = match netlink.query(request(GET_CHAIN, 0).dump()) {
        // The kernel lacks this subsystem.
        Err(Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok(Ruleset::default()),
        chains => chains?,
    };
    let mut found = Ruleset::default();
    for chain in &chains {
        found.chains.push(chain_in(chain).ok_or(Errno::EIO)?);
    }
    if found.chains.iter().all(|chain| chain.hook.is_none()) {
        return Ok(Ruleset::default());
    }
    for rule in netlink.query(request(GET_RULE, 0).dump())? {
        found.rules.push(rule_in(&rule).ok_or(Errno::EIO)?);
    }
    for set in netlink.query(request(GET_SET, 0).dump())? {
        let mut set = set_in(&set).ok_or(Errno::EIO)?;
        let (table, name) = (zero_ended(&set.table), zero_ended(&set.name));
        let request = request(GET_ELEMENTS, set.family).with(SET_TABLE, &table);
        for list in netlink.query(request.with(SET_NAME, &name).dump())? {
            set.elements.extend(elements_in(&list).ok_or(Errno::EIO)?);
        }
        found.sets.push(set);
    }
    for table in netlink.query(request(GET_TABLE, 0).dump())? {
        if let Some((family, name)) = dormant_table(&table) {
            found.chains.retain(|chain| chain.family != family || chain.table != name);
        }
    }
    Ok(found)
}

fn request(message: u16, family: u8) -> Request {
    Request::new((libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | message, &[family, 0, 0, 0])
}

fn zero_ended(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// Returns the first four bytes as a big-endian number, as nf_tables stores numbers.
pub fn be_u32_at(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.get(..4)?.try_into().ok()?))
}

fn number(attributes: &[u8], kind: u16) -> Option<u32> {
    attribute(attributes, kind).and_then(be_u32_at)
}

/// Returns family and name of a table that is dormant (switched off).
fn dormant_table(answer: &[u8]) -> Option<(u8, String)> {
    let (fixed, rest) = answer.split_at_checked(FIXED_BYTES)?;
    let is_dormant = number(rest, TABLE_FLAGS)? & DORMANT != 0;
    is_dormant.then_some((fixed[0], text(attribute(rest, TABLE_NAME)?)))
}

fn chain_in(answer: &[u8]) -> Option<Chain> {
    let (fixed, rest) = answer.split_at_checked(FIXED_BYTES)?;
    let hook = attribute(rest, CHAIN_HOOK).map(|hook| {
        let mut devices: Vec<String> = attribute(hook, HOOK_DEVICE).map(text).into_iter().collect();
        let more = attribute(hook, HOOK_DEVICES).unwrap_or_default();
        devices.extend(attributes(more).map(|(_, name)| text(name)));
        Some(Hook {
            number: number(hook, HOOK_NUMBER)?,
            priority: number(hook, HOOK_PRIORITY)? as i32,
            devices,
        })
    });
    Some(Chain {
        family: fixed[0],
        table: text(attribute(rest, CHAIN_TABLE)?),
        name: text(attribute(rest, CHAIN_NAME)?),
        hook: match hook {
            Some(hook) => Some(hook?),
            None => None,
        },
        kind: attribute(rest, CHAIN_TYPE).map(text).unwrap_or_default(),
        policy: number(rest, CHAIN_POLICY).unwrap_or(1),
    })
}

fn rule_in(answer: &[u8]) -> Option<Rule> {
    let (fixed, rest) = answer.split_at_checked(FIXED_BYTES)?;
    let list = attribute(rest, RULE_EXPRESSIONS).unwrap_or_default();
    let expression = |(_, bytes): (u16, &[u8])| {
        Some(Expression {
            name: text(attribute(bytes, EXPRESSION_NAME)?),
            data: attribute(bytes, EXPRESSION_DATA).unwrap_or_default().to_owned(),
        })
    };
    Some(Rule {
        family: fixed[0],
        table: text(attribute(rest, RULE_TABLE)?),
        chain: text(attribute(rest, RULE_CHAIN)?),
        expressions: attributes(list).map(expression).collect::<Option<Vec<_>>>()?,
    })
}

fn set_in(answer: &[u8]) -> Option<Set> {
    let (fixed, rest) = answer.split_at_checked(FIXED_BYTES)?;
    Some(Set {
        family: fixed[0],
        table: text(attribute(rest, SET_TABLE)?),
        name: text(attribute(rest, SET_NAME)?),
        flags: number(rest, SET_FLAGS).unwrap_or_default(),
        elements: Vec::new(),
    })
}

fn elements_in(answer: &[u8]) -> Option<Vec<Element>> {
    let (_, rest) = answer.split_at_checked(FIXED_BYTES)?;
    let list = attribute(rest, LIST_ELEMENTS).unwrap_or_default();
    let value = |bytes: &[u8], kind| match attribute(bytes, kind).and_then(data_in) {
        Some(Data::Value(value)) => Some(value),
        _ => None,
    };
    let element = |(_, bytes): (u16, &[u8])| Element {
        key: value(bytes, ELEMENT_KEY).unwrap_or_default(),
        key_end: value(bytes, ELEMENT_KEY_END),
        flags: number(bytes, ELEMENT_FLAGS).unwrap_or_default(),
        data: attribute(bytes, ELEMENT_DATA).and_then(data_in),
    };
    Some(attributes(list).map(element).collect())
}

/// Parses a value or verdict.
pub fn data_in(bytes: &[u8]) -> Option<Data> {
    if let Some(value) = attribute(bytes, DATA_VALUE) {
        return Some(Data::Value(value.to_owned()));
    }
    let verdict = attribute(bytes, DATA_VERDICT)?;
    let chain = attribute(verdict, VERDICT_CHAIN).map(text).unwrap_or_default();
    Some(Data::Verdict(number(verdict, VERDICT_CODE)? as i32, chain))
}

#[cfg(fuzzing)]
pub fn fuzz(answer: &[u8]) {
    let _ = (chain_in(answer), rule_in(answer), set_in(answer), elements_in(answer));
    let _ = (dormant_table(answer), data_in(answer));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_answers_are_none() {
        assert_eq!(chain_in(&[1, 0, 0]), None);
        assert_eq!(rule_in(&[1, 0, 0, 0]), None);
        assert_eq!(set_in(&[1, 0, 0, 0]), None);
        assert_eq!(elements_in(&[1, 0]), None);
        assert_eq!(elements_in(&[1, 0, 0, 0]), Some(Vec::new()));
        assert_eq!(dormant_table(&[1, 0, 0, 0]), None);
        assert_eq!(be_u32_at(&[0, 0, 1, 2, 9]), Some(258));
        assert_eq!(be_u32_at(&[0, 0, 1]), None);
    }

    #[test]
    fn the_rules_are_read_or_the_permission_is_missing() {
        match ruleset() {
            Ok(_) | Err(Errno::EPERM) => {}
            Err(errno) => panic!("{errno}"),
        }
    }
}
