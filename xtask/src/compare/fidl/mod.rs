//! The suite `fidl`: values to messages and back, and the whole way through a channel.

mod before;
mod cases;
mod subjects;
mod values;

use std::time::Duration;

use super::brief::{BriefRuns, Options};
use super::case::Suite;
use cases::Setting;

use crate::peers::Peers;

/// How long a subject works in a round.
const RUN: Duration = Duration::from_millis(5);
/// Runs of some milliseconds vary much.
const ROUNDS: usize = 41;

/// The suite.
pub(super) fn suite(peers: Peers, options: Options) -> Suite {
    let absent = peers.absent.clone();
    let runs = BriefRuns::new(options, RUN, ROUNDS);
    let notes = runs.notes(NOTES);
    Suite { name: "fidl", notes, absent, cases: Setting { peers, runs }.cases() }
}

/// How it is measured.
const NOTES: &[&str] = &[
    "time: wall time of one value that is encoded, decoded or sent; value: median over rounds \
         of a run's mean; ratio: median of each round's ratio",
    "what is encoded, and what it is encoded into, lie at other places of a page in each round",
    "values: a vector of bytes; a struct of so many uint8; a string of 64 bytes; 100 structs \
         with padding; a table and a union",
    "gather: into regions that borrow the value, with the library's default border; gather all: \
         every body stays where it is, however short; reused: into one buffer, which is kept, and made \
         the one region that a write takes; fresh: \
         into a new vector, which grows, the way of encoders that own what they give; \"exact\": \
         into a new vector that has the right capacity from the beginning. All with the header",
    "view: checked, and on the stack; owned: checked, and copied into a value of its own",
    "nested: a tree of 2,047 structs on 11 levels, and 30 boxes in one another; \"at once\": \
         checked and made a value in one walk; printed: by Debug, into a string that is kept; a view \
         that was checked before against the value itself",
    "event: encoded, written to a local channel, waited for, read, decoded into a view; \"lent\": \
         the message is decoded where the channel has it; \"copied\": after read_into; \
         event/socket: over a socket within this process, whose kernel copies",
    "before RFC-0010: a buffer is allocated for each message, every object copied into it with \
         addresses in place of marks, a second walk replaces them and gathers handles (of which a \
         byte vector has none); the write copies all of it, and reading copies it out",
    "the peers of peers/ are processes of their own that measure themselves, into a reused \
         buffer where they have that. Decoding: rkyv checked access; capnp a reader; bincode, \
         postcard and prost owned values. flatbuffers and capnp: only what needs no generated code",
    "granted by rkyv: 1.5 times its checked access, or 10 ns more, whichever is more; FIDL \
         checks padding as well",
    "noise: the larger of a target's band (3 % for gathering against reusing, else 0) and the \
         A/A spread (the baseline's second run of each round against its first)",
];
