//! The suite `channel`: messages of bytes, within a process and between two.

mod bare;
mod cases;
pub(crate) mod echo;
mod endpoint;
mod own;
pub(crate) mod payload;
mod subjects;

use std::time::Duration;

use super::brief::{BriefRuns, Options};
use super::case::Suite;
use cases::Setting;

use crate::peers::Peers;

/// How long a subject sends messages in a round.
const RUN: Duration = Duration::from_millis(10);
/// Runs of some milliseconds vary much.
const ROUNDS: usize = 41;

/// The suite.
pub(super) fn suite(peers: Peers, options: Options) -> Suite {
    let absent = peers.absent.clone();
    let runs = BriefRuns::new(options, RUN, ROUNDS);
    let notes = runs.notes(NOTES);
    Suite { name: "channel", notes, absent, cases: Setting { peers, runs }.cases() }
}

/// How it is measured.
const NOTES: &[&str] = &[
    "time: wall time of one message that is sent, waited for and received; value: median over \
     rounds of a run's mean; ratio: median of each round's ratio. Between two processes: half a \
     round trip",
    "cpu: user and system time of a message; between two processes that of the first alone",
    "a run lasts some 10 ms, after one of an eighth that warms up and counts; rounds are \
     interleaved in an order shuffled anew in each",
    "uncopy: the regions as they are, waited for with wait_one(READABLE); copied out with \
     read_into, or lent with read (\"lent\"); \"linearised\": the regions are first copied into \
     one buffer, which is kept, and that is written",
    "between two processes uncopy waits and takes the message with one call (receive), and copies it \
     out unless it is \"lent\"; the other way is a subject of its own",
    "what is sent lies at another place of a page in each round; between two processes, both of \
     which are pinned to one processor, of each 500 messages in the second",
    "2-processors: the second process is pinned to one processor and this one to another; \
     \"spinning\": both look for 200 µs before they sleep",
    "local: both ends in this process; socket: the far end went through into_fd and from_fd",
    "memcpy, memcpy twice: into a buffer of the channel's own pool, and out of it again",
    "bare sendmsg + poll + recvmsg: SOCK_SEQPACKET, the same regions, room for 253 descriptors, \
     no header; pipes: writev + poll + read, which keep no borders of messages. Neither can \
     send more than 1,024 regions",
    "the peers of peers/ are processes of their own that measure themselves; none of them \
     gathers, so that several regions are linearised first. crossbeam-channel: Vec<u8>, within \
     a process only; ipc-channel: bytes_channel; iceoryx2: publish and subscribe, where who \
     receives looks again and again, and with its events, where it sleeps",
    "socket/1-process/…/write_etc, call, call_etc, write_batch: one message sent by that call, of its \
     regions (gathered) or of one buffer that they were copied to first, and read; a call has a \
     deadline that has passed, so that the answer is not waited for; bare: the same over a bare socket, which \
     shows what the kernel gains by it",
    "payload: bytes of any length through a PayloadChannel: by default (\"Payload\": messages, or a stream), as \
     fresh sealed memory, and in a pool that is used again, where the sender copies them into a \
     slot and the receiver trusts it; read whole, or one page in 64. stream socket: write and read \
     into a kept buffer",
    "each region of 64: the time that 64 regions take longer than one, divided by 63; memcpy: the \
     same for copies into one buffer alone",
    "noise: the larger of a target's band (3 % for gathering against linearising, else 0) and \
     the A/A spread (the baseline's second run of each round against its first)",
];
