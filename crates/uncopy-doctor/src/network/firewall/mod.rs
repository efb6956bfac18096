//! Evaluates nf_tables rules for outgoing packets. Pure.
//!
//! An expression that is not understood becomes a doubt, unless it cannot cause a copy.

mod set;
mod step;

use std::net::IpAddr;

use super::packet::{Match, Packet};
use crate::found::{Doubt, RuleDoubt};
use step::{Registers, RuleStep};
use uncopy_os::netlink::firewall::{Chain, Hook, Rule, Ruleset};

/// `NFPROTO_INET` and others (`linux/netfilter.h`).
const INET: u8 = 1;
const IPV4: u8 = 2;
const NETDEV: u8 = 5;
const BRIDGE: u8 = 7;
const IPV6: u8 = 10;
/// `NF_INET_LOCAL_OUT`, `NF_INET_POST_ROUTING`; `NF_NETDEV_EGRESS`.
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;
const EGRESS: u32 = 1;
/// `NF_ACCEPT`; `NFT_CONTINUE`, `NFT_BREAK`, `NFT_JUMP`, `NFT_GOTO`, `NFT_RETURN`.
const ACCEPT: i32 = 1;
const CONTINUE: i32 = -1;
const BREAK: i32 = -2;
const JUMP: i32 = -3;
const GOTO: i32 = -4;
const RETURN: i32 = -5;
/// `NF_DROP`, `NF_QUEUE`.
const DROP: i32 = 0;
const QUEUE: i32 = 3;
const VERDICT_MASK: i32 = 0xff;
/// `NFT_JUMP_STACK_SIZE` (`include/net/netfilter/nf_tables.h`).
const MAX_DEPTH: u32 = 16;

/// Place where rules are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// Before and after a device is chosen.
    Output,
    Postrouting,
    /// On the way to this device.
    Egress(&'a str),
    /// On the way out of a bridge.
    Bridge,
}

/// A certain effect of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Packets go to another address.
    To(IpAddr),
    /// Packets go to this machine.
    Here,
    /// The route is looked up again with this mark.
    Marked(u32),
    /// A copy goes to this address, over this device if one is named.
    CopyTo(IpAddr, Option<u32>),
    /// A copy goes over this device.
    CopyOver(u32),
    /// Packets go over this device instead.
    Over(u32),
    /// Nothing is sent.
    Dropped,
}

impl Effect {
    /// Returns the doubt for packets that may not match the rule.
    fn doubtful(&self) -> RuleDoubt {
        match self {
            Effect::To(_) | Effect::Here => RuleDoubt::MayChangeAddress,
            Effect::Marked(_) => RuleDoubt::MayMark,
            Effect::CopyTo(..) | Effect::CopyOver(_) => RuleDoubt::MayCopy,
            Effect::Over(_) => RuleDoubt::MayRedirect,
            Effect::Dropped => RuleDoubt::TakesAway,
        }
    }
}

/// Result of evaluating rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) effects: Vec<Effect>,
    /// Possible effects, and expressions that are not understood.
    pub(super) doubts: Vec<Doubt>,
}

/// End of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChainEnd {
    /// Evaluation continues in the calling chain.
    Through,
    /// A verdict ends the evaluation.
    Verdict,
    Either,
}

/// Evaluates the rules of a place for a packet.
pub(super) fn outcome(rules: &Ruleset, place: Place<'_>, packet: &Packet) -> Outcome {
    let mut run = Run {
        rules,
        packet: packet.clone(),
        is_route: false,
        is_directed: false,
        out: Outcome::default(),
    };
    let mut chains: Vec<(&Chain, i32)> = Vec::new();
    for chain in &rules.chains {
        if let Some(hook) = &chain.hook
            && is_asked(chain, hook, place, packet)
        {
            chains.push((chain, hook.priority));
        }
    }
    chains.sort_by_key(|(_, priority)| *priority);
    for (chain, _) in chains {
        run.is_route = chain.kind == "route";
        let end = run.chain(chain, true, 0);
        if chain.policy == DROP as u32 && end == ChainEnd::Through {
            run.out.effects.push(Effect::Dropped);
        }
    }
    run.out
}

fn is_asked(chain: &Chain, hook: &Hook, place: Place<'_>, packet: &Packet) -> bool {
    let of_family = match chain.family {
        INET => true,
        IPV4 => packet.is_v6 != Some(true),
        IPV6 => packet.is_v6 != Some(false),
        _ => false,
    };
    match place {
        Place::Output => of_family && hook.number == OUTPUT,
        Place::Postrouting => of_family && hook.number == POSTROUTING,
        Place::Egress(device) => {
            // Names of devices can end in `*`, since Linux 6.16.
            let names = hook.devices.iter().any(|name| {
                name == device || name.strip_suffix('*').is_some_and(|n| device.starts_with(n))
            });
            chain.family == NETDEV && hook.number == EGRESS && names
        }
        Place::Bridge => {
            chain.family == BRIDGE && (hook.number == OUTPUT || hook.number == POSTROUTING)
        }
    }
}

/// State of evaluating chains for a packet.
struct Run<'a> {
    rules: &'a Ruleset,
    packet: Packet,
    /// Whether the chain has the type `route`, in which a new mark causes a new route lookup.
    is_route: bool,
    /// Whether the destination was changed: only the first such rule applies.
    is_directed: bool,
    out: Outcome,
}

impl Run<'_> {
    /// Evaluates a chain. `is_sure`: the packet certainly enters it.
    fn chain(&mut self, chain: &Chain, mut is_sure: bool, depth: u32) -> ChainEnd {
        let rules = self.rules;
        let own = |rule: &&Rule| {
            (rule.family, &rule.table, &rule.chain) == (chain.family, &chain.table, &chain.name)
        };
        let (mut may_have_ended, mut may_have_returned) = (false, false);
        for rule in rules.rules.iter().filter(own) {
            let (matched, verdict) = self.rule(rule, is_sure);
            let Some((code, name)) = verdict.filter(|_| matched != Match::No) else { continue };
            let is_certain = matched == Match::Yes;
            let goes_on = is_sure && is_certain;
            let (ends, returns) = match code {
                CONTINUE | BREAK => continue,
                RETURN => (false, true),
                JUMP => match self.enter(chain, &name, goes_on, depth + 1) {
                    ChainEnd::Through => continue,
                    ChainEnd::Verdict => (true, false),
                    ChainEnd::Either => {
                        (is_sure, may_have_ended) = (false, true);
                        continue;
                    }
                },
                GOTO => match self.enter(chain, &name, goes_on, depth + 1) {
                    ChainEnd::Through => (false, true),
                    ChainEnd::Verdict => (true, false),
                    ChainEnd::Either => (true, true),
                },
                _ => {
                    self.verdict(chain, code, goes_on);
                    (true, false)
                }
            };
            may_have_ended |= ends;
            may_have_returned |= returns;
            if is_certain {
                return match (may_have_ended, may_have_returned) {
                    (true, false) => ChainEnd::Verdict,
                    (true, true) => ChainEnd::Either,
                    (false, _) => ChainEnd::Through,
                };
            }
            is_sure = false;
        }
        if may_have_ended { ChainEnd::Either } else { ChainEnd::Through }
    }

    fn enter(&mut self, from: &Chain, name: &str, is_sure: bool, depth: u32) -> ChainEnd {
        let rules = self.rules;
        let found = rules.chains.iter().find(|chain| {
            (chain.family, &chain.table, chain.name.as_str()) == (from.family, &from.table, name)
        });
        match found {
            Some(chain) if depth <= MAX_DEPTH => self.chain(chain, is_sure, depth),
            _ => {
                self.out.doubts.push(Doubt::ChainNotSeen { chain: name.to_owned() });
                ChainEnd::Either
            }
        }
    }

    /// Records a verdict that ends the evaluation of a chain.
    fn verdict(&mut self, chain: &Chain, code: i32, is_sure: bool) {
        match code & VERDICT_MASK {
            ACCEPT => {}
            // A packet that is possibly dropped needs no doubt: if it is sent, it was not dropped.
            DROP if is_sure => self.out.effects.push(Effect::Dropped),
            DROP => {}
            QUEUE => self.doubt(&chain.table, &chain.name, RuleDoubt::ToProgram),
            _ => self.doubt(&chain.table, &chain.name, RuleDoubt::TakesAway),
        }
    }

    fn doubt(&mut self, table: &str, chain: &str, doubt: RuleDoubt) {
        let (table, chain) = (table.to_owned(), chain.to_owned());
        self.out.doubts.push(Doubt::Rule { table, chain, doubt });
    }

    /// Records an effect, or a doubt if it is not certain.
    fn effect(&mut self, rule: &Rule, effect: Effect, is_sure: bool) {
        if is_sure {
            self.out.effects.push(effect);
        } else {
            self.doubt(&rule.table, &rule.chain, effect.doubtful());
        }
    }

    /// Returns whether the packet matches the rule, and the rule's verdict.
    fn rule(&mut self, rule: &Rule, is_sure: bool) -> (Match, Option<(i32, String)>) {
        let mut registers = Registers::default();
        let mut matched = Match::Yes;
        for expression in &rule.expressions {
            let sure = is_sure && matched == Match::Yes;
            match self.step(rule, expression, &mut registers, sure) {
                RuleStep::Next => {}
                RuleStep::Maybe => matched = Match::Maybe,
                RuleStep::No => return (Match::No, None),
                RuleStep::Verdict(BREAK, _) => return (Match::No, None),
                RuleStep::Verdict(CONTINUE, _) => {}
                RuleStep::Verdict(code, chain) => return (matched, Some((code, chain))),
            }
        }
        (matched, None)
    }
}

#[cfg(test)]
mod tests;
