//! The suite `remote`: files over sockets, beside the bare calls; and between two machines, beside scp, rsync and tar.

pub(crate) mod bare;
mod command;
mod far;
mod fixture;
mod line;
mod machines;
pub(crate) mod meter;
mod sockets;

use super::brief::Options;
use super::case::Suite;
pub(super) use far::{Far, beside_another_machine};
pub(super) use machines::Programs;

/// The suite. Without `far` the cases between machines are skipped.
pub(super) fn suite(options: &Options, programs: &Programs, far: Option<&Far>) -> Suite {
    let absent = programs.peers.absent.clone();
    let mut cases = sockets::cases(options);
    cases.extend(machines::cases(options, programs, far));
    let mut notes: Vec<String> =
        sockets::NOTES.iter().chain(machines::NOTES).map(|note| (*note).to_owned()).collect();
    if options.quick {
        notes.push(
            "quick: two rounds; over sockets of 2 ms each, between machines of a 64th of a file and a \
             sixteenth of a tree; no target is judged"
                .to_owned(),
        );
    }
    Suite { name: "remote", notes, absent, cases }
}
