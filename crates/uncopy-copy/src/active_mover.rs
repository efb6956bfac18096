//! Defines the active mechanism of one copy.

use super::digest::StreamedDigest;
use super::mechanism::{Ends, FromPeer, Moved, Mover, Refused};
use super::ranges;
use uncopy_core::Mechanism;

pub(super) struct ActiveMover<'a> {
    pub(super) mechanism: Mechanism,
    way: MoverWay<'a>,
    pub(super) moved_bytes: u64,
}

/// Where the bytes come from.
enum MoverWay<'a> {
    /// From a file of this machine.
    Between {
        ends: Ends<'a>,
        mover: Box<dyn Mover>,
        /// Mover of a second thread, made on first use.
        second_mover: Option<Box<dyn Mover + Send>>,
    },
    /// From another machine.
    FromPeer(FromPeer<'a>),
}

impl<'a> ActiveMover<'a> {
    /// Makes it for two files of this machine.
    pub(super) fn between(
        mechanism: Mechanism,
        ends: Ends<'a>,
        mover: Box<dyn Mover>,
    ) -> ActiveMover<'a> {
        let way = MoverWay::Between { ends, mover, second_mover: None };
        ActiveMover { mechanism, way, moved_bytes: 0 }
    }

    /// Makes it for a source on another machine.
    pub(super) fn from_peer(mover: FromPeer<'a>) -> ActiveMover<'a> {
        let (mechanism, way) = (Mechanism::ReadWrite, MoverWay::FromPeer(mover));
        ActiveMover { mechanism, way, moved_bytes: 0 }
    }

    /// Moves bytes by one thread, or by two if `parallel` and the mechanism can, which is returned too. Adds them to
    /// the digests. What comes from another machine is reported to `go_on` while it comes, which may end the step, and
    /// is asked for up to `ahead_to`.
    pub(super) fn step(
        &mut self,
        offset: u64,
        length: u64,
        ahead_to: u64,
        parallel: bool,
        mut digests: [Option<&mut StreamedDigest>; 2],
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> (Result<Moved, Refused>, bool) {
        let (ends, mover, second_mover) = match &mut self.way {
            MoverWay::FromPeer(mover) => {
                return (mover.step(offset, length, ahead_to, &mut digests, go_on), false);
            }
            MoverWay::Between { ends, mover, second_mover } => (*ends, mover, second_mover),
        };
        if parallel && second_mover.is_none() {
            *second_mover = mover.second_mover();
        }
        if let Some(second) = second_mover.as_deref_mut().filter(|_| parallel) {
            let range = offset..offset + length;
            return (ranges::step(&mut **mover, second, ends, range, ranges::MAX_TIME), true);
        }
        let [digest, _] = digests;
        let moved = match digest {
            Some(digest) => mover.step_digesting(ends, offset, length, digest),
            None => mover.step(ends, offset, length),
        };
        (moved, false)
    }
}
