//! The cases of the suite `fidl`, and what is to be reached in them.

use super::subjects::{self, Border, Sent, Taken, Transport};
use super::values::{self, Bytes16, Bytes256};
use crate::compare::brief::BriefRuns;
use crate::compare::case::{Case, Subject};
use crate::compare::metric::TIME_EACH;
use crate::compare::verdict::{Target, at_most};
use crate::peers::Peers;

const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 65_280];
/// Bytes of an event over a socket.
const SOCKET_SIZES: [usize; 2] = [256, 4096];

/// Limit of gathering, relative to one reused buffer.
const BAND: f64 = 0.03;

const GATHER: &str = "uncopy, gather";
const GATHER_ALL: &str = "uncopy, gather all";
const REUSED: &str = "uncopy, reused";
const FRESH: &str = "uncopy, fresh";
const EXACT: &str = "uncopy, fresh, exact";
const VIEW: &str = "uncopy, view";
const OWNED: &str = "uncopy, owned";
const RKYV: &str = "rkyv";
const GRANTED: &str = "granted by rkyv";

const AT_ONCE: &str = "uncopy, owned at once";
const VIEW_PRINTED: &str = "uncopy, view, printed";
const VALUE_PRINTED: &str = "uncopy, owned, printed";

/// Limit for making nested objects, as a multiple of checking them: each level is visited once.
const NESTED: f64 = 3.0;

const GATHER_LENT: &str = "uncopy, gather, lent";
const GATHER_ALL_LENT: &str = "uncopy, gather all, lent";
const GATHER_ALL_COPIED: &str = "uncopy, gather all, copied";
const REUSED_LENT: &str = "uncopy, reused, lent";
const FRESH_LENT: &str = "uncopy, fresh, lent";
const BEFORE: &str = "before RFC-0010";

/// Parts shared by all cases.
pub(super) struct Setting {
    pub(super) peers: Peers,
    pub(super) runs: BriefRuns,
}

impl Setting {
    /// Every case.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for bytes in SIZES {
            self.value(&mut cases, &format!("bytes/{bytes}"), move || values::byte_vector(bytes));
        }
        self.value(&mut cases, "struct/16", || Bytes16::of(1));
        self.value(&mut cases, "struct/256", || Bytes256::of(1));
        self.value(&mut cases, "text", values::text);
        self.value(&mut cases, "points", values::points);
        self.value(&mut cases, "entry", values::entry);
        cases.push(self.nested("tree", values::tree));
        cases.push(self.nested("boxes", values::boxes));
        cases.extend(SIZES.map(|bytes| self.event(bytes)));
        cases.extend(SOCKET_SIZES.map(|bytes| self.event_over_a_socket(bytes)));
        cases
    }

    /// Decoding of deeply nested objects.
    fn nested<T: subjects::Value>(
        &self,
        name: &str,
        make: impl Fn() -> T + Copy + 'static,
    ) -> Case {
        let time = self.runs.time;
        let subjects = vec![
            subjects::view(VIEW, make, time),
            subjects::at_once(AT_ONCE, make, time),
            subjects::owned(OWNED, make, time),
            subjects::view_printed(VIEW_PRINTED, make, time),
            subjects::value_printed(VALUE_PRINTED, make, time),
        ];
        let targets = vec![
            at_most(NESTED, TIME_EACH, AT_ONCE, VIEW),
            at_most(NESTED, TIME_EACH, VIEW_PRINTED, VALUE_PRINTED),
        ];
        self.runs.case(format!("nested/{name}"), VIEW, subjects, targets)
    }

    /// Encoding and decoding of one value.
    fn value<T: subjects::Value>(
        &self,
        cases: &mut Vec<Case>,
        name: &str,
        make: impl Fn() -> T + Copy + 'static,
    ) {
        let time = self.runs.time;
        let mut encoders = vec![
            subjects::gather(GATHER, Border::Default, make, time),
            subjects::gather(GATHER_ALL, Border::None, make, time),
            subjects::reused(REUSED, make, time),
            subjects::fresh(FRESH, make, time),
            subjects::exact(EXACT, make, time),
        ];
        encoders.extend(self.peers("encode", name));
        let targets = encode_targets(name);
        cases.push(self.runs.case(format!("encode/{name}"), REUSED, encoders, targets));
        let mut decoders =
            vec![subjects::view(VIEW, make, time), subjects::owned(OWNED, make, time)];
        decoders.extend(self.peers("decode", name));
        let rkyv = self.peers.installed.iter().find(|peer| peer.name == RKYV);
        decoders.extend(rkyv.map(|peer| subjects::granted(GRANTED, peer, name, time)));
        let targets = vec![at_most(1.0, TIME_EACH, VIEW, GRANTED)];
        cases.push(self.runs.case(format!("decode/{name}"), VIEW, decoders, targets));
    }

    /// Those that are there, and can do it.
    fn peers(&self, operation: &str, value: &str) -> Vec<Subject> {
        let able = self.peers.installed.iter().filter(|peer| can(peer.name, operation, value));
        able.map(|peer| subjects::peer(peer, operation, value, self.runs.time)).collect()
    }

    fn event(&self, bytes: usize) -> Case {
        let time = self.runs.time;
        let event =
            |name, sent, taken| subjects::event(name, sent, taken, Transport::Local, bytes, time);
        let (default, all) = (Sent::Gathered(Border::Default), Sent::Gathered(Border::None));
        let subjects = vec![
            event(GATHER_LENT, default, Taken::Lent),
            event(GATHER_ALL_LENT, all, Taken::Lent),
            event("uncopy, gather, copied", default, Taken::Copied),
            event(GATHER_ALL_COPIED, all, Taken::Copied),
            event(REUSED_LENT, Sent::Reused, Taken::Lent),
            event(FRESH_LENT, Sent::Fresh, Taken::Lent),
            event("uncopy, fresh, copied", Sent::Fresh, Taken::Copied),
            event(BEFORE, Sent::Before, Taken::Copied),
        ];
        let mut targets = best_of_both(GATHER_LENT, GATHER_ALL_LENT, REUSED_LENT);
        targets.extend(match bytes {
            256 => vec![
                at_most(1.0 / 2.3, TIME_EACH, GATHER_LENT, FRESH_LENT),
                at_most(1.0 / 2.3, TIME_EACH, GATHER_LENT, BEFORE),
            ],
            4096 => vec![
                at_most(1.0 / 1.4, TIME_EACH, GATHER_LENT, FRESH_LENT),
                at_most(1.0 / 2.09, TIME_EACH, GATHER_LENT, FRESH_LENT),
                at_most(1.0 / 2.09, TIME_EACH, GATHER_LENT, BEFORE),
            ],
            _ => Vec::new(),
        });
        self.runs.case(format!("event/bytes/{bytes}"), FRESH_LENT, subjects, targets)
    }

    /// The same through a kernel.
    fn event_over_a_socket(&self, bytes: usize) -> Case {
        let time = self.runs.time;
        let event =
            |name, sent, taken| subjects::event(name, sent, taken, Transport::Socket, bytes, time);
        let (default, all) = (Sent::Gathered(Border::Default), Sent::Gathered(Border::None));
        let subjects = vec![
            event(GATHER_LENT, default, Taken::Lent),
            event(GATHER_ALL_LENT, all, Taken::Lent),
            event(REUSED_LENT, Sent::Reused, Taken::Lent),
            event(FRESH_LENT, Sent::Fresh, Taken::Lent),
            event(BEFORE, Sent::Before, Taken::Copied),
        ];
        self.runs.case(format!("event/socket/{bytes}"), FRESH_LENT, subjects, Vec::new())
    }
}

/// flatbuffers and capnp need generated code for more than bytes and text, flatbuffers also to
/// decode.
fn can(peer: &str, operation: &str, value: &str) -> bool {
    let is_simple = value.starts_with("bytes") || value == "text";
    match peer {
        "flatbuffers" => is_simple && operation == "encode",
        "capnp" => is_simple,
        _ => true,
    }
}

/// The default is as good as gathering everything and as one buffer, whichever is better.
fn best_of_both(default: &str, all: &str, linear: &str) -> Vec<Target> {
    let within =
        |against| Target { band: BAND, ..at_most(1.0 + BAND, TIME_EACH, default, against) };
    vec![within(all), within(linear)]
}

/// The ratios of RFC-0010's own table, and what comes beside it.
fn encode_targets(value: &str) -> Vec<Target> {
    let mut targets = best_of_both(GATHER, GATHER_ALL, REUSED);
    targets.push(at_most(1.0, TIME_EACH, GATHER, RKYV));
    let of_rfc = match value {
        "bytes/4096" => Some(3.9),
        "bytes/256" => Some(2.9),
        "struct/256" => Some(1.36),
        _ => None,
    };
    targets.extend(of_rfc.map(|times| at_most(1.0 / times, TIME_EACH, GATHER, FRESH)));
    targets
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compare::brief::Options;
    use crate::compare::case::assert;
    use crate::compare::verdict::Against;
    use crate::peers::{CODECS, find};

    fn setting() -> Setting {
        let peers = find(std::path::Path::new("/nonexistent"), &CODECS);
        let time = Duration::from_micros(1);
        Setting { peers, runs: BriefRuns::new(Options::nowhere(), time, 1) }
    }

    #[test]
    fn cases_are_sound() {
        assert::sound(&setting().cases());
    }

    /// Which of a body's ways is best depends on its length, so each size has all of them.
    #[test]
    fn every_size_is_gathered_by_default_and_linear() {
        let cases = setting().cases();
        for bytes in SIZES {
            for (case, subjects) in [
                (format!("encode/bytes/{bytes}"), [GATHER_ALL, GATHER, REUSED]),
                (format!("event/bytes/{bytes}"), [GATHER_ALL_LENT, GATHER_LENT, REUSED_LENT]),
            ] {
                let found = cases.iter().find(|found| found.name == case);
                let found = found.unwrap_or_else(|| panic!("{case}: no such case"));
                let has = |name: &str| found.subjects.iter().any(|subject| subject.name == name);
                assert!(subjects.into_iter().all(has), "{case}");
            }
        }
    }

    /// Each row: case, subject, limit, what it is set against.
    #[test]
    fn every_named_target_has_a_row() {
        let cases = setting().cases();
        for (case, subject, limit, against) in [
            ("encode/bytes/4096", GATHER, 1.0 / 3.9, FRESH),
            ("encode/bytes/256", GATHER, 1.0 / 2.9, FRESH),
            ("encode/struct/256", GATHER, 1.0 / 1.36, FRESH),
            ("encode/entry", GATHER, 1.03, REUSED),
            ("encode/bytes/1024", GATHER, 1.03, GATHER_ALL),
            ("encode/points", GATHER, 1.0, RKYV),
            ("decode/points", VIEW, 1.0, GRANTED),
            ("event/bytes/4096", GATHER_LENT, 1.0 / 1.4, FRESH_LENT),
            ("event/bytes/4096", GATHER_LENT, 1.0 / 2.09, FRESH_LENT),
            ("event/bytes/4096", GATHER_LENT, 1.0 / 2.09, BEFORE),
            ("event/bytes/256", GATHER_LENT, 1.0 / 2.3, FRESH_LENT),
            ("event/bytes/256", GATHER_LENT, 1.0 / 2.3, BEFORE),
            ("event/bytes/1024", GATHER_LENT, 1.03, GATHER_ALL_LENT),
            ("event/bytes/1024", GATHER_LENT, 1.03, REUSED_LENT),
            ("nested/tree", AT_ONCE, 3.0, VIEW),
            ("nested/tree", VIEW_PRINTED, 3.0, VALUE_PRINTED),
            ("nested/boxes", AT_ONCE, 3.0, VIEW),
            ("nested/boxes", VIEW_PRINTED, 3.0, VALUE_PRINTED),
        ] {
            let against = Against::Subject(against.to_owned());
            assert::target(&cases, case, subject, limit, &against);
        }
    }
}
