//! The cases of the suite `zx`, and what is to be reached in them.

use std::path::PathBuf;

use super::published;
use super::subjects::{self, Shape, What};
use crate::compare::brief::BriefRuns;
use crate::compare::case::{Case, Subject};
use crate::compare::message::Message;
use crate::compare::metric::TIME_EACH;
use crate::compare::verdict::at_most;

/// Bytes in a byte vector. With the last the message is full.
const VECTORS: [usize; 3] = [256, 4096, FULL_VECTOR];
const FULL_VECTOR: usize = 65_504;
/// Bytes of a message in several regions.
const SIZES: [usize; 3] = [64, 1024, FULL];
const FULL: usize = 65_536;
/// Bytes that are copied, and in how many regions.
const COPIES: [usize; 3] = [256, 4096, FULL];
const COPY_COUNTS: [usize; 3] = [1, 16, 64];

/// Messages over a socket.
const OVER_SOCKET: [Message; 3] = [
    Message { bytes: 4096, regions: 16 },
    Message { bytes: FULL, regions: 16 },
    Message { bytes: FULL, regions: 64 },
];
/// Name of a call, and the words of the program in front of the figures and behind them, for its regions
/// and for one buffer.
const SOCKET_CALLS: [(&str, [CallWords; 2]); 4] = [
    ("write", [("iovec", &[]), ("linear", &[])]),
    ("write_etc", [("write_etc", &[]), ("write_etc", &["JOINED"])]),
    ("call", [("call", &[]), ("call", &["JOINED"])]),
    ("call_etc", [("call_etc", &[]), ("call_etc", &["JOINED"])]),
];
type CallWords = (&'static str, &'static [&'static str]);

/// Limits of C relative to Rust, for a full message and for a short one.
const LIMIT_OF_FULL: f64 = 1.25;
const LIMIT_OF_SHORT: f64 = 1.6;

const C_LINEAR: &str = "C, linear";
const RUST_LINEAR: &str = "Rust, linear";
const C_IOVEC: &str = "C, iovec";
const RUST_IOVEC: &str = "Rust, iovec";
const C: &str = "C";
const RUST: &str = "Rust";
const C_WRITE: &str = "C, write_etc";
const RUST_WRITE: &str = "Rust, write_etc";
const C_GATHERED: &str = "C, gathered";
const C_JOINED: &str = "C, put together first";
const SURE: &str = "copies that survive";
const PLAIN: &str = "memcpy";

/// Parts shared by all cases.
pub(super) struct Setting {
    /// The program in C.
    pub(super) program: PathBuf,
    pub(super) runs: BriefRuns,
}

impl Setting {
    /// Every case.
    pub(super) fn cases(&self) -> Vec<Case> {
        let messages = SIZES.into_iter().flat_map(|bytes| {
            published::COUNTS.into_iter().map(move |regions| Message { bytes, regions })
        });
        let copies = COPIES.into_iter().flat_map(|bytes| {
            COPY_COUNTS.into_iter().map(move |regions| Message { bytes, regions })
        });
        let mut cases: Vec<Case> = VECTORS.into_iter().map(|length| self.vector(length)).collect();
        cases.extend(messages.map(|message| self.iovecs(message)));
        cases.extend(copies.map(|message| self.copy(message)));
        for (name, calls) in SOCKET_CALLS {
            cases.extend(OVER_SOCKET.map(|message| self.over_socket(name, calls, message)));
        }
        cases
    }

    fn in_c(&self, name: &str, what: What, shape: Shape) -> Subject {
        subjects::in_c(name, self.program.clone(), what, shape, self.runs.time)
    }

    fn in_rust(&self, name: &str, what: What, shape: Shape) -> Subject {
        subjects::in_rust(name, what, shape, self.runs.time)
    }

    fn vector(&self, contents: usize) -> Case {
        let shape = Shape::Vector(contents);
        let mut subjects = vec![
            self.in_c(C_LINEAR, What::Linear, shape),
            self.in_rust(RUST_LINEAR, What::Linear, shape),
            self.in_c(C_IOVEC, What::Iovec, shape),
            self.in_rust(RUST_IOVEC, What::Iovec, shape),
        ];
        if let Some((before, after)) = published::vector(contents) {
            subjects.push(subjects::published("published, RFC-0010: linear", before));
            subjects.push(subjects::published("published, RFC-0010: iovec", after));
        }
        let limit = match contents {
            256 => Some(LIMIT_OF_SHORT),
            FULL_VECTOR => Some(LIMIT_OF_FULL),
            _ => None,
        };
        let pairs = [(C_LINEAR, RUST_LINEAR), (C_IOVEC, RUST_IOVEC)];
        let against_rust = limit.into_iter().flat_map(|limit| {
            pairs.map(|(subject, against)| at_most(limit, TIME_EACH, subject, against))
        });
        let gathered = at_most(1.0, TIME_EACH, C_IOVEC, C_LINEAR);
        let targets = against_rust.chain([gathered]).collect();
        self.runs.case(format!("vector/{contents}B"), RUST_IOVEC, subjects, targets)
    }

    fn iovecs(&self, message: Message) -> Case {
        let shape = Shape::Even(message);
        let mut subjects = vec![
            self.in_c(C, What::Iovec, shape),
            self.in_rust(RUST, What::Iovec, shape),
            self.in_c(C_WRITE, What::Write, shape),
            self.in_rust(RUST_WRITE, What::Write, shape),
        ];
        let Message { bytes, regions } = message;
        if let Some(figure) = published::iovecs(bytes, regions) {
            subjects.push(subjects::published("published, Zircon: write_etc", figure));
        }
        let is_full = bytes == FULL;
        let targets = is_full.then(|| at_most(LIMIT_OF_FULL, TIME_EACH, C, RUST));
        let name = format!("iovecs/{bytes}B/{regions}");
        self.runs.case(name, RUST, subjects, targets.into_iter().collect())
    }

    fn over_socket(&self, name: &str, calls: [CallWords; 2], message: Message) -> Case {
        let [gathered, joined] = calls;
        let subject = |name, (what, last): CallWords| {
            let program = self.program.clone();
            subjects::over_socket(name, program, what, last, message, self.runs.time)
        };
        let subjects = vec![subject(C_GATHERED, gathered), subject(C_JOINED, joined)];
        let limit = if message == OVER_SOCKET[1] { 0.9 } else { 1.03 };
        let target = at_most(limit, TIME_EACH, C_GATHERED, C_JOINED);
        let name = format!("socket/{}B/{}/{name}", message.bytes, message.regions);
        self.runs.case(name, C_JOINED, subjects, vec![target])
    }

    fn copy(&self, message: Message) -> Case {
        let subjects = vec![
            subjects::sure_copies(SURE, message, self.runs.time),
            subjects::plain_copies(PLAIN, message, self.runs.time),
        ];
        let limit = match message.regions {
            1 => Some(1.1),
            64 => Some(1.4),
            _ => None,
        };
        let targets = limit.map(|limit| at_most(limit, TIME_EACH, SURE, PLAIN));
        let name = format!("copy/{}B/{}", message.bytes, message.regions);
        self.runs.case(name, PLAIN, subjects, targets.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ROUNDS, RUN};
    use super::*;
    use crate::compare::brief::Options;
    use crate::compare::case::assert;
    use crate::compare::verdict::Against;

    fn setting() -> Setting {
        let runs = BriefRuns::new(Options::nowhere(), RUN, ROUNDS);
        Setting { program: "/nonexistent".into(), runs }
    }

    #[test]
    fn cases_are_sound() {
        let cases = setting().cases();
        assert::sound(&cases);
        assert_eq!(cases.len(), 3 + 12 + 9 + 12);
    }

    /// Each row: case, subject, limit, what it is set against.
    #[test]
    fn every_named_target_has_a_row() {
        let cases = setting().cases();
        for (case, subject, limit, against) in [
            ("vector/256B", C_LINEAR, 1.6, RUST_LINEAR),
            ("vector/256B", C_IOVEC, 1.6, RUST_IOVEC),
            ("vector/256B", C_IOVEC, 1.0, C_LINEAR),
            ("vector/4096B", C_IOVEC, 1.0, C_LINEAR),
            ("vector/65504B", C_LINEAR, 1.25, RUST_LINEAR),
            ("vector/65504B", C_IOVEC, 1.25, RUST_IOVEC),
            ("iovecs/65536B/1", C, 1.25, RUST),
            ("iovecs/65536B/64", C, 1.25, RUST),
            ("copy/256B/1", SURE, 1.1, PLAIN),
            ("copy/4096B/1", SURE, 1.1, PLAIN),
            ("copy/4096B/64", SURE, 1.4, PLAIN),
        ] {
            let against = Against::Subject(against.to_owned());
            assert::target(&cases, case, subject, limit, &against);
        }
    }

    #[test]
    fn published_figures_stand_beside_what_they_are_of() {
        let cases = setting().cases();
        let published = |case: &&Case| {
            case.subjects.iter().filter(|subject| subject.name.starts_with("published")).count()
        };
        let count_of = |name: &str| cases.iter().find(|c| c.name == name).as_ref().map(published);
        assert_eq!(count_of("vector/256B"), Some(2));
        assert_eq!(count_of("vector/65504B"), Some(0));
        assert_eq!(count_of("iovecs/1024B/16"), Some(1));
        assert_eq!(cases.iter().filter(|case| published(case) == 1).count(), 12);
    }
}
