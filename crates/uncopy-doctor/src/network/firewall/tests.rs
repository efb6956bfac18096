use super::super::packet::tests::flow;
use super::*;
use uncopy_os::netlink::firewall::{Element, Expression, Set};
use uncopy_os::netlink::route::Route;

/// Builder of nf_tables attributes.
#[derive(Clone, Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn with(mut self, kind: u16, value: &[u8]) -> Attributes {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn number(self, kind: u16, number: u32) -> Attributes {
        self.with(kind, &number.to_be_bytes())
    }

    fn value(self, kind: u16, value: &[u8]) -> Attributes {
        let value = Attributes::default().with(1, value);
        self.with(kind, &value.0)
    }

    fn step(self, name: &str) -> Expression {
        Expression { name: name.to_owned(), data: self.0 }
    }
}

fn with() -> Attributes {
    Attributes::default()
}

/// `udp dport PORT`.
fn port(port: u16) -> Vec<Expression> {
    vec![
        with().number(1, 1).number(2, 16).step("meta"),
        with().number(1, 1).number(2, 0).value(3, &[17]).step("cmp"),
        with().number(1, 1).number(2, 2).number(3, 2).number(4, 2).step("payload"),
        with().number(1, 1).number(2, 0).value(3, &port.to_be_bytes()).step("cmp"),
    ]
}

fn verdict(code: i32, chain: &str) -> Expression {
    let verdict = with().number(1, code as u32).with(2, chain.as_bytes());
    let data = with().with(2, &verdict.0);
    with().number(1, 0).with(2, &data.0).step("immediate")
}

fn perhaps() -> Expression {
    with().step("limit")
}

fn redirect() -> Expression {
    with().step("redir")
}

fn dnat(to: [u8; 4]) -> Vec<Expression> {
    vec![
        with().number(1, 1).value(2, &to).step("immediate"),
        with().number(1, 1).number(2, 2).number(3, 1).number(4, 1).step("nat"),
    ]
}

fn load(key: u32) -> Expression {
    with().number(1, 1).number(2, key).step("meta")
}

fn is(value: &[u8]) -> Expression {
    with().number(1, 1).number(2, 0).value(3, value).step("cmp")
}

/// A base chain `c` and another chain `d`.
fn rules(kind: &str, policy: u32, of_c: &[&[Expression]], of_d: &[&[Expression]]) -> Ruleset {
    let chain = |name: &str, hook| Chain {
        family: IPV4,
        table: "t".into(),
        name: name.into(),
        hook,
        kind: kind.into(),
        policy,
    };
    let rule = |chain: &str, expressions: &&[Expression]| Rule {
        family: IPV4,
        table: "t".into(),
        chain: chain.into(),
        expressions: expressions.to_vec(),
    };
    let hook = Hook { number: OUTPUT, priority: 0, devices: Vec::new() };
    Ruleset {
        chains: vec![chain("c", Some(hook)), chain("d", None)],
        rules: of_c.iter().map(|r| rule("c", r)).chain(of_d.iter().map(|r| rule("d", r))).collect(),
        sets: Vec::new(),
    }
}

fn packet() -> Packet {
    Packet::of(&flow("10.11.0.2", 9), &Route::default()).through(7, "sink")
}

fn effects_and_doubts(rules: &Ruleset) -> (Vec<Effect>, usize) {
    let outcome = outcome(rules, Place::Output, &packet());
    (outcome.effects, outcome.doubts.len())
}

#[test]
fn rules_are_evaluated_or_doubted() {
    let join = |parts: &[&[Expression]]| parts.concat();
    let here = || vec![Effect::Here];
    let (odd, count) = (with().step("tproxy"), with().step("counter"));
    let target = |name: &str| with().with(1, name.as_bytes()).step("target");
    let to = [10, 11, 0, 1];
    for (rule, effects, doubts) in [
        (vec![redirect()], here(), 0),
        (join(&[&port(9), &[redirect()]]), here(), 0),
        (join(&[&port(8), &[redirect()]]), vec![], 0),
        (join(&[&[perhaps()], &[redirect()]]), vec![], 1),
        (join(&[&[perhaps()], &port(8), &[redirect()]]), vec![], 0),
        (vec![count.clone(), redirect()], here(), 0),
        (vec![count.clone()], vec![], 0),
        (vec![with().step("ct"), is(&[1, 0, 0, 0]), redirect()], vec![], 1),
        (dnat(to).to_vec(), vec![Effect::To(to.into())], 0),
        (vec![with().number(1, 0).step("nat")], vec![], 0),
        (vec![odd.clone()], vec![], 1),
        (join(&[&port(8), &[odd]]), vec![], 0),
        (vec![target("MASQUERADE\0")], vec![], 0),
        (vec![target("TEE\0")], vec![], 1),
        (vec![load(META_OUT_NAME), is(b"sink\0"), redirect()], here(), 0),
        (vec![load(META_OUT_NAME), is(b"other\0"), redirect()], vec![], 0),
        (vec![load(META_IN_NAME), is(b"docker0\0"), redirect()], vec![], 0),
        (vec![load(2), is(&[0; 4]), redirect()], vec![], 1),
        (vec![verdict(QUEUE, "")], vec![], 1),
        (vec![verdict(DROP, "")], vec![Effect::Dropped], 0),
        (vec![with().step("reject")], vec![Effect::Dropped], 0),
        (vec![target("REJECT\0")], vec![Effect::Dropped], 0),
        (vec![perhaps(), verdict(DROP, "")], vec![], 0),
        // Writes to the time to live, and to addresses.
        (
            vec![with().number(2, 1).number(3, 8).number(4, 2).number(5, 1).step("payload")],
            vec![],
            0,
        ),
        (
            vec![with().number(2, 1).number(3, 16).number(4, 4).number(5, 1).step("payload")],
            vec![],
            1,
        ),
    ] {
        assert_eq!(
            effects_and_doubts(&rules("nat", 1, &[&rule], &[])),
            (effects, doubts),
            "{rule:?}"
        );
    }
}

const META_OUT_NAME: u32 = 7;
const META_IN_NAME: u32 = 6;

#[test]
fn chains_are_entered_and_left_as_the_kernel_does() {
    let jump = [verdict(JUMP, "d\0")];
    let goto = [verdict(GOTO, "d\0")];
    let (accept, back) = ([verdict(1, "")], [verdict(RETURN, "")]);
    let target = |name: &str| with().with(1, name.as_bytes()).step("target");
    let (masquerade, snat) = ([with().step("masq")], [target("SNAT\0")]);
    let perhaps_jump = [perhaps(), verdict(JUMP, "d\0")];
    let perhaps_accept = [perhaps(), verdict(1, "")];
    let lost = [verdict(JUMP, "nonesuch\0")];
    let turn = [redirect()];
    let here = || vec![Effect::Here];
    let nothing: &[&[Expression]] = &[];
    for (of_c, of_d, effects, doubts) in [
        (&[&jump[..]][..], &[&turn[..]][..], here(), 0),
        (&[&accept[..], &turn], nothing, vec![], 0),
        // The source address changes, and the packet is accepted.
        (&[&masquerade[..], &turn], nothing, vec![], 0),
        (&[&snat[..], &turn], nothing, vec![], 0),
        (&[&[target("LOG\0")][..], &turn], nothing, here(), 0),
        (&[&back[..], &turn], nothing, vec![], 0),
        (&[&jump[..], &turn], &[&accept[..]], vec![], 0),
        (&[&jump[..], &turn], &[&back[..], &accept], here(), 0),
        (&[&goto[..], &turn], &[], vec![], 0),
        (&[&perhaps_jump[..]], &[&turn[..]], vec![], 1),
        // The packet may not get there.
        (&[&perhaps_accept[..], &turn], &[], vec![], 1),
        (&[&perhaps_jump[..], &turn], &[&accept[..]], vec![], 1),
        (&[&lost[..]], &[], vec![], 1),
        (&[&turn[..], &turn], &[], here(), 0),
    ] {
        let found = effects_and_doubts(&rules("nat", 1, of_c, of_d));
        assert_eq!(found, (effects, doubts), "{of_c:?} {of_d:?}");
    }
    assert_eq!(effects_and_doubts(&rules("filter", 0, &[], &[])), (vec![Effect::Dropped], 0));
    assert_eq!(effects_and_doubts(&rules("filter", 0, &[&accept], &[])), (vec![], 0));
    // A loop of chains.
    let round = rules("filter", 1, &[&jump], &[&jump]);
    assert_eq!(effects_and_doubts(&round), (vec![], 1));
}

#[test]
fn marks_matter_where_they_choose_the_route() {
    let mark = [
        with().number(1, 1).value(2, &7u32.to_ne_bytes()).step("immediate"),
        with().number(2, 3).number(3, 1).step("meta"),
    ];
    assert_eq!(effects_and_doubts(&rules("route", 1, &[&mark], &[])), (vec![Effect::Marked(7)], 0));
    assert_eq!(effects_and_doubts(&rules("filter", 1, &[&mark], &[])), (vec![], 0));
    let seen = [&mark[..], &[load(3), is(&7u32.to_ne_bytes()), redirect()]].concat();
    assert_eq!(effects_and_doubts(&rules("filter", 1, &[&seen], &[])), (vec![Effect::Here], 0));
    let unknown = [with().number(1, 1).number(2, 2).step("ct"), mark[1].clone()];
    assert_eq!(effects_and_doubts(&rules("route", 1, &[&unknown], &[])), (vec![], 1));
}

#[test]
fn copies_go_where_the_rule_says() {
    let over = with().number(1, 1).value(2, &8u32.to_ne_bytes()).step("immediate");
    let to = with().number(1, 2).value(2, &[10, 12, 0, 2]).step("immediate");
    let dup = with().number(1, 2).number(2, 1).step("dup");
    let copied = vec![Effect::CopyTo([10, 12, 0, 2].into(), Some(8))];
    let ip = rules("filter", 1, &[&[over.clone(), to, dup]], &[]);
    assert_eq!(effects_and_doubts(&ip), (copied, 0));
    for (name, at, effect) in [("dup", 2, Effect::CopyOver(8)), ("fwd", 1, Effect::Over(8))] {
        let mut egress =
            rules("filter", 1, &[&[over.clone(), with().number(at, 1).step(name)]], &[]);
        for chain in &mut egress.chains {
            chain.family = NETDEV;
            let devices = vec!["sink".to_owned()];
            chain.hook = chain.hook.take().map(|_| Hook { number: EGRESS, priority: 0, devices });
        }
        egress.rules[0].family = NETDEV;
        let at = |device| outcome(&egress, Place::Egress(device), &packet()).effects;
        assert_eq!(at("sink"), [effect]);
        assert_eq!(at("other"), []);
        assert_eq!(effects_and_doubts(&egress), (vec![], 0));
    }
}

#[test]
fn sets_and_maps_are_looked_into() {
    let look = |to: Option<u32>| {
        let look = with().with(1, b"s\0").number(2, 1);
        to.map_or(look.clone(), |to| look.number(3, to)).step("lookup")
    };
    let load = with().number(1, 1).number(2, 2).number(3, 2).number(4, 2).step("payload");
    let source = with().number(1, 1).number(2, 2).number(3, 0).number(4, 2).step("payload");
    let set = |ruleset: Ruleset, data: Option<uncopy_os::netlink::firewall::Data>| {
        let element = Element { key: vec![0, 9], data, ..Element::default() };
        let set = Set {
            family: IPV4,
            table: "t".into(),
            name: "s".into(),
            flags: 0,
            elements: vec![element],
        };
        Ruleset { sets: vec![set], ..ruleset }
    };
    use uncopy_os::netlink::firewall::Data;
    for (steps, data, effects, doubts) in [
        (vec![load.clone(), look(None), redirect()], None, vec![Effect::Here], 0),
        (vec![source.clone(), look(None), redirect()], None, vec![], 1),
        (
            vec![load.clone(), look(Some(0))],
            Some(Data::Verdict(DROP, String::new())),
            vec![Effect::Dropped],
            0,
        ),
        (vec![source.clone(), look(Some(0))], Some(Data::Verdict(DROP, String::new())), vec![], 0),
        (vec![source, look(Some(0))], Some(Data::Verdict(JUMP, "d".into())), vec![], 1),
    ] {
        let ruleset = set(rules("nat", 1, &[&steps], &[]), data);
        assert_eq!(effects_and_doubts(&ruleset), (effects, doubts), "{steps:?}");
    }
    let unseen = rules("nat", 1, &[&[load, look(None), redirect()]], &[]);
    assert_eq!(effects_and_doubts(&unseen).0, []);
    assert!(effects_and_doubts(&unseen).1 > 0);
}
