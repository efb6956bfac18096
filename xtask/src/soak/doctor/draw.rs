//! Which case has which number: a pure function of the seed and of what the kernel has.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use testbed::LenderOptions;

use super::case::{Case, Cause, NetworkStep, Question, Receiver, Send, Tapping};
use super::devices::{ALL_PROTOCOLS, Exit, device, hop, lower, target};
use crate::soak::scene::Dice;

/// Port of receivers.
pub(super) const PORT: u16 = 4000;
/// Port of connections that nobody answers.
pub(super) const SILENT_PORT: u16 = 4001;
/// Where packets are redirected to.
pub(super) const OTHER_PORT: u16 = 4002;
/// A port that nothing is sent to.
pub(super) const UNUSED_PORT: u16 = 9;
/// The table of policy rules.
pub(super) const TABLE: u32 = 50;

/// The largest packet of the devices here.
pub(super) const WIDE: u32 = 65_535;
/// Bytes of headers, of tunnels too.
const HEADERS: usize = 100;

/// Features that some kernels lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offered {
    /// VLAN devices.
    pub(super) vlan: bool,
    /// The queue discipline prio.
    pub(super) prio: bool,
}

/// The case of this number.
pub(super) fn case(seed: u64, number: u32, offered: Offered) -> Case {
    let lead = lead(seed, number);
    let mut dice = Dice::new(mix(seed, u64::from(number)));
    let mut draft = Draft::new(&mut dice, offered, lead);
    draft.lead();
    draft.noise();
    draft.finish()
}

/// Returns the cause for the case of this number. Every deck has each cause as often as its weight says.
fn lead(seed: u64, number: u32) -> Cause {
    let mut deck: Vec<Cause> =
        Cause::ALL.iter().flat_map(|cause| std::iter::repeat_n(*cause, cause.weight())).collect();
    let turn = number as usize / deck.len();
    Dice::new(mix(!seed, turn as u64)).shuffle(&mut deck);
    deck[number as usize % deck.len()]
}

fn mix(seed: u64, number: u64) -> u64 {
    seed ^ number.wrapping_add(1).wrapping_mul(0xD1B5_4A32_D192_ED03)
}

/// The fate of packets over an exit, as far as it is chosen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitFate {
    Lends,
    Copies,
}

/// A case that is being made.
pub(super) struct Draft<'a> {
    pub(super) dice: &'a mut Dice,
    pub(super) offered: Offered,
    pub(super) case: Case,
    pub(super) exits: usize,
    pub(super) asides: usize,
    /// The least of the exits.
    pub(super) mtu: u32,
    pub(super) is_v6: bool,
    /// A receiver answers, whichever way packets take.
    pub(super) is_answered: bool,
    /// Bytes of a datagram, where they are not to be what fits.
    pub(super) bytes: Option<usize>,
}

impl<'a> Draft<'a> {
    fn new(dice: &'a mut Dice, offered: Offered, lead: Cause) -> Draft<'a> {
        let is_v6 = dice.fraction() < 0.35;
        let options =
            LenderOptions { is_stream: dice.fraction() < 0.4, ..LenderOptions::default() };
        let question = match dice.fraction() < 0.2 {
            true => Question::Process,
            false => Question::Address,
        };
        let send = Send { to: address(target(is_v6)), bytes: 0, options };
        let case = Case {
            lead,
            causes: BTreeSet::from([lead]),
            links: Vec::new(),
            far: Vec::new(),
            near: Vec::new(),
            send,
            question,
        };
        Draft {
            dice,
            offered,
            case,
            exits: 0,
            asides: 0,
            mtu: WIDE,
            is_v6,
            is_answered: false,
            bytes: None,
        }
    }

    pub(super) fn chance(&mut self, of: f64) -> bool {
        self.dice.fraction() < of
    }

    pub(super) fn step(&mut self, step: NetworkStep) {
        self.case.near.push(step);
    }

    pub(super) fn options(&mut self) -> &mut LenderOptions {
        &mut self.case.send.options
    }

    pub(super) fn is_stream(&self) -> bool {
        self.case.send.options.is_stream
    }

    /// Sends to somebody else.
    pub(super) fn send_to(&mut self, host: &str) {
        self.case.send.to = address(host);
    }

    pub(super) fn use_v4(&mut self) {
        self.is_v6 = false;
        self.send_to(target(false));
    }

    pub(super) fn use_udp(&mut self) {
        self.options().is_stream = false;
    }

    /// An exit, with an MTU by chance.
    pub(super) fn random_exit(&mut self, way: ExitFate) -> usize {
        let mtu = self.dice.pick(&[WIDE, WIDE, WIDE, 20_000, 9000]);
        let kind = match way {
            ExitFate::Lends => {
                let vlan = if self.offered.vlan { Exit::Vlan } else { Exit::Macvlan };
                self.dice.pick(&[
                    Exit::Sink,
                    Exit::Sink,
                    Exit::Sink,
                    Exit::Macvlan,
                    Exit::Bridge,
                    Exit::Vxlan,
                    vlan,
                ])
            }
            ExitFate::Copies => self.dice.pick(&[
                Exit::Veth,
                Exit::Veth,
                Exit::Sibling,
                Exit::BridgedVeth,
                Exit::Tun,
                Exit::Sink,
                Exit::Sink,
            ]),
        };
        let exit = self.exit(kind, mtu);
        if way == ExitFate::Copies && kind == Exit::Sink {
            let tapped = Some(device(exit));
            self.tap(tapped, ALL_PROTOCOLS, false);
        }
        exit
    }

    /// An exit that leads nowhere, with something below it.
    pub(super) fn layered_exit(&mut self) -> usize {
        let vlan = if self.offered.vlan { Exit::Vlan } else { Exit::Bridge };
        let kind = self.dice.pick(&[Exit::Macvlan, Exit::Bridge, Exit::Vxlan, vlan]);
        self.exit(kind, WIDE)
    }

    /// The device of an exit, or the one below it where there is one.
    pub(super) fn either_device(&mut self, exit: usize) -> String {
        let l = lower(exit);
        let has_lower = self.case.links.iter().any(|step| match step {
            NetworkStep::Ip(words) => words.starts_with(&format!("link add {l} ")),
            _ => false,
        });
        if has_lower && self.chance(0.5) { l } else { device(exit) }
    }

    /// Where packets to the target go.
    pub(super) fn route(&mut self, exit: usize, more: &str) {
        let (to, by) = (target(self.is_v6), hop(exit, self.is_v6));
        let e = device(exit);
        let words = format!("route add {to} via {by} dev {e} initcwnd 1000 {more}");
        self.step(NetworkStep::Ip(words.trim_end().to_owned()));
    }

    pub(super) fn tap(&mut self, device: Option<String>, protocol: u16, ignores_outgoing: bool) {
        self.step(NetworkStep::Tap(Tapping { device, protocol, ignores_outgoing }));
    }

    /// A process of the near network takes what comes to a port.
    pub(super) fn receive_here(&mut self, port: u16) {
        self.is_answered = true;
        let receiver = match self.is_stream() {
            true => Receiver::Stream(port),
            false => Receiver::Datagrams(port),
        };
        self.step(NetworkStep::Receive(receiver));
    }

    /// Sizes, ports and who answers follow from everything else.
    fn finish(mut self) -> Case {
        let fits = (self.mtu as usize).saturating_sub(HEADERS);
        let sizes = [1400, 4000, 8000, 16_384, 30_000, 60_000];
        let sizes: Vec<usize> = sizes.into_iter().filter(|bytes| *bytes <= fits).collect();
        let (small, large) = (self.dice.pick(&sizes), self.dice.pick(&[16_384, 16_384, 65_536]));
        let is_stream = self.is_stream();
        let is_silent = is_stream && !self.is_answered;
        self.case.send.options.is_silent = is_silent;
        self.case.send.bytes = if is_stream { large } else { self.bytes.unwrap_or(small) };
        self.case.send.to.set_port(if is_silent { SILENT_PORT } else { PORT });
        if self.is_answered && self.case.has_far() {
            self.case.far.push(NetworkStep::Receive(match is_stream {
                true => Receiver::Stream(PORT),
                false => Receiver::Datagrams(PORT),
            }));
        }
        self.case
    }
}

fn address(host: &str) -> SocketAddr {
    let host: IpAddr = host.parse().unwrap_or(IpAddr::from([127, 0, 0, 1]));
    SocketAddr::new(host, PORT)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tally::FULL_CASES;
    use super::*;

    const EVERYTHING: Offered = Offered { vlan: true, prio: true };
    const LITTLE: Offered = Offered { vlan: false, prio: false };

    #[test]
    fn a_case_follows_from_its_seed_and_number() {
        for number in 0..300 {
            let shown = |seed| case(seed, number, EVERYTHING).to_string();
            assert_eq!(shown(1), shown(1), "case {number}");
        }
        let all = |seed| (0..40).map(|n| case(seed, n, EVERYTHING).to_string()).collect::<Vec<_>>();
        assert_ne!(all(1), all(2));
    }

    /// A full run has whole decks: no cause is left out by the end of it.
    #[test]
    fn decks_make_a_full_run() {
        let cards: usize = Cause::ALL.iter().map(|cause| cause.weight()).sum();
        assert_eq!(FULL_CASES as usize % cards, 0, "a deck has {cards} cards");
        let decks = FULL_CASES as usize / cards;
        let rarest = Cause::ALL.iter().map(|cause| cause.weight()).min();
        assert!(rarest.is_some_and(|cards| cards * decks >= 10));
    }

    #[test]
    fn every_cause_occurs_in_a_full_run() {
        for (seed, offered) in [(0, LITTLE), (1, LITTLE), (u64::MAX, EVERYTHING)] {
            let mut found: BTreeMap<Cause, u32> = BTreeMap::new();
            for number in 0..FULL_CASES {
                for cause in case(seed, number, offered).causes {
                    *found.entry(cause).or_default() += 1;
                }
            }
            for cause in Cause::ALL {
                let count = found.get(cause).copied().unwrap_or_default();
                assert!(count >= 10, "seed {seed}: {} occurs {count} times", cause.name());
            }
        }
    }

    #[test]
    fn only_what_the_kernel_offers_is_used() {
        let uses = |offered, words: &str| {
            (0..800).any(|number| case(3, number, offered).to_string().contains(words))
        };
        for words in ["type vlan", "handle 1: prio"] {
            assert!(uses(EVERYTHING, words) && !uses(LITTLE, words), "{words}");
        }
    }

    /// A payload that cannot be sent in one piece would not be sent.
    #[test]
    fn cases_are_whole() {
        for number in 0..1600 {
            let case = case(4, number, EVERYTHING);
            let Send { to, bytes, options } = &case.send;
            let text = case.to_string();
            assert!(options.is_stream || (1400..=65_000).contains(bytes), "{text}");
            assert!(!options.is_silent || options.is_stream, "{text}");
            assert!(!options.is_unconnected || case.question == Question::Process, "{text}");
            assert_eq!(text.contains("{far}"), case.has_far(), "{text}");
            assert!(to.port() == PORT || to.port() == SILENT_PORT, "{text}");
            assert!(case.causes.contains(&case.lead), "{text}");
        }
    }
}
