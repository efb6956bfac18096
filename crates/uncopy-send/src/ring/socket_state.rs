//! The state of one of a ring's sockets: its counters, and what was learnt of its paths.

use std::net::SocketAddr;

use crate::auto::Lending;
use crate::choice::{Choice, Decision, Path};
use crate::coalesced_reports::CoalescedReports;
use crate::counters::{Counters, FallbackReason};
use crate::paths::Paths;
use crate::plan::Mode;
use crate::release::Fate;
use crate::room::inet::{InetSocket, Transport};
use crate::room::zerocopy::{MAX_REGIONS, Usage};
use crate::room::{Payload, StableBytes};

/// A send that is about to be taken in.
pub(super) struct NewSend<'a, B> {
    /// Index of the socket.
    pub(super) index: usize,
    pub(super) socket: &'a InetSocket,
    pub(super) to: Option<&'a SocketAddr>,
    pub(super) payload: &'a Payload<B>,
    /// Bytes of all buffers.
    pub(super) bytes: usize,
    /// Whether registered huge pages are sent as registered memory.
    pub(super) huge_by_index: bool,
}

pub(super) struct SocketState {
    transport: Transport,
    by_io_uring: bool,
    pub(super) paths: Paths,
    /// Reports of io_uring over a stream.
    coalesced: CoalescedReports,
    /// The ledger of the socket.
    pub(super) counters: Counters,
    /// Whether a release said that the path copies.
    path_copies: bool,
}

impl SocketState {
    pub(super) fn new(transport: Transport, by_io_uring: bool) -> SocketState {
        SocketState {
            transport,
            by_io_uring,
            paths: Paths::new(),
            coalesced: CoalescedReports::default(),
            counters: Counters::default(),
            path_copies: false,
        }
    }

    /// Decides whether to lend a send, and enters the reason if not.
    #[inline]
    pub(super) fn decide<B: StableBytes>(&mut self, mode: Mode, send: &NewSend<'_, B>) -> Decision {
        let NewSend { socket, to, payload, bytes, huge_by_index, .. } = *send;
        let buffers = payload.as_slice();
        let decision = match mode {
            Mode::Copy => Choice::Copy(FallbackReason::CopyRequested).into(),
            _ if buffers.len() > MAX_REGIONS => Choice::Copy(FallbackReason::TooManyRegions).into(),
            Mode::Zerocopy => Choice::Lend(Path::default()).into(),
            Mode::Auto => {
                let is_registered =
                    || huge_by_index && buffers.iter().all(|buffer| buffer.pool_slice().is_some());
                let method = match self.by_io_uring {
                    false => Lending::MsgZerocopy(self.transport),
                    true if is_registered() => Lending::RingRegistered,
                    true => Lending::Ring,
                };
                self.paths.decide(bytes, method, socket, to)
            }
        };
        match decision.choice {
            Choice::Lend(_) => self.counters.huge_pages_unnamed += u64::from(!huge_by_index),
            Choice::Copy(reason) => self.counters.fell_back(reason),
        }
        decision
    }

    /// Returns whether registered huge pages are sent as registered memory to the peer or `to`.
    pub(super) fn names_huge_pages(&self, socket: &InetSocket, to: Option<&SocketAddr>) -> bool {
        // For an address of its own, only the check that needs no system call.
        let is_local = || to.map_or_else(|| socket.is_local(), |to| to.ip().is_loopback());
        names_huge_pages(self.transport, self.path_copies) && !is_local()
    }

    /// Notes that a send is lent.
    #[inline]
    pub(super) fn note_lent(&mut self) {
        if !report_is_reliable(self.by_io_uring, self.transport) {
            self.coalesced.lend();
        }
    }

    /// Counts a completed send and learns from it; `lent` is the path it was lent on.
    #[inline]
    pub(super) fn complete(
        &mut self,
        usage: Usage,
        lent: Option<Path>,
        socket: &InetSocket,
        mode: Mode,
    ) -> Fate {
        let mut fate = usage.fate(socket);
        if let Some(path) = lent {
            let is_reliable = report_is_reliable(self.by_io_uring, self.transport);
            let copied = match is_reliable {
                true => usage.path_copied(socket),
                false => self.coalesced.path_copied(usage, socket),
            };
            let is_certain = is_reliable || (copied == Some(true) && self.coalesced.was_alone());
            if fate == Fate::Copied && usage.copied_parts == 0 && !is_certain {
                fate = Fate::Unknown;
            }
            // A copy that was made in the call says nothing about the path.
            if usage.copied_parts == 0 {
                if mode == Mode::Auto {
                    self.paths.learn(path, copied);
                }
                self.path_copies |= fate == Fate::Copied;
            }
        }
        self.counters.released(fate, usage.bytes);
        fate
    }
}

/// Returns whether each report of a copy stands for itself. Those of io_uring over TCP may not
/// ([`CoalescedReports`]).
fn report_is_reliable(by_io_uring: bool, transport: Transport) -> bool {
    !by_io_uring || transport != Transport::Tcp
}

/// Returns whether registered huge pages may be sent as registered memory, depending on whether the path
/// copies.
///
/// The kernel charges a packet of registered memory with its offset in the page, up to 2 MiB each
/// (`io_sg_from_iter` in `io_uring/net.c` of Linux 6.1 and 6.12: `truesize +=
/// PAGE_ALIGN(v.bv_len + v.bv_offset)`, where a huge page is one vector). A few packets fill the send
/// buffer of a stream, and one fills the receive buffer of a socket on the same machine, which then drops
/// the next.
fn names_huge_pages(transport: Transport, path_copies: bool) -> bool {
    transport == Transport::Udp && !path_copies
}

#[cfg(test)]
mod tests {
    use super::{Transport, names_huge_pages, report_is_reliable};

    #[test]
    fn huge_pages_are_named_to_devices_that_do_not_copy_datagrams() {
        for (transport, path_copies, expected) in [
            (Transport::Udp, false, true),
            (Transport::Udp, true, false),
            (Transport::Tcp, false, false),
            (Transport::Tcp, true, false),
        ] {
            let named = names_huge_pages(transport, path_copies);
            assert_eq!(named, expected, "{transport:?} {path_copies}");
        }
    }

    #[test]
    fn only_io_urings_reports_over_tcp_are_unreliable() {
        for (by_io_uring, transport, expected) in [
            (true, Transport::Tcp, false),
            (true, Transport::Udp, true),
            (false, Transport::Tcp, true),
            (false, Transport::Udp, true),
        ] {
            assert_eq!(report_is_reliable(by_io_uring, transport), expected);
        }
    }
}
