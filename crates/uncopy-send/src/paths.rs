//! The network paths that the sends of a socket take, and what was learnt of each.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::auto::{Auto, Lending};
use super::choice::{Choice, CostSample, Decision, Path};
use super::cost_model::CostModel;
use super::counters::FallbackReason;
use crate::room::inet::{InetSocket, Outlet, outlet_to};
use uncopy_os::clock;
use uncopy_os::netlink::route::scope;

/// Maximum number of addresses whose outlet is remembered; all others share the path to the peer.
const MAX_ADDRESSES: usize = 1024;
/// Time after which the outlet of an address is looked up again.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The paths of a socket: the path to its peer, and one for each device through which datagrams with
/// addresses of their own leave.
#[derive(Debug)]
pub(super) struct Paths {
    /// By path; the path to the peer is first.
    autos: Vec<Auto>,
    /// Outlets of the other paths.
    outlets: Vec<Outlet>,
    /// Known addresses, by address and scope.
    addresses: HashMap<(IpAddr, u32), KnownAddress>,
    /// Number of the peer that the first path leads to.
    peer: u32,
}

#[derive(Debug, Clone, Copy)]
struct KnownAddress {
    path: Path,
    /// Time of the lookup.
    since: Duration,
}

impl Paths {
    pub(super) fn new() -> Paths {
        let (outlets, addresses) = Default::default();
        Paths { autos: vec![Auto::new(Path::default())], outlets, addresses, peer: 0 }
    }

    /// Decides whether to lend a send of `bytes` bytes to the peer or to `to`, and whether its cost is
    /// measured.
    #[inline]
    pub(super) fn decide(
        &mut self,
        bytes: usize,
        method: Lending,
        socket: &InetSocket,
        to: Option<&SocketAddr>,
    ) -> Decision {
        if bytes < method.never_pays_below() {
            return Choice::Copy(FallbackReason::TooSmall).into();
        }
        let path = match to {
            None => self.path_to_peer(socket.reconnections()),
            Some(to) => self.path_to_address(*to, clock::coarse(), outlet_to),
        };
        self.auto(path).decide(bytes, method)
    }

    /// Adds processor time spent on measured sends.
    pub(super) fn add_cost(&mut self, sample: CostSample, time: Duration) {
        self.cost_model(sample).add_cost(sample.class, time);
    }

    /// Returns whether the sample has enough sends.
    pub(super) fn is_sample_complete(&mut self, sample: CostSample) -> bool {
        self.cost_model(sample).is_sample_complete(sample.class)
    }

    /// Evaluates a complete sample, whose cost is known.
    pub(super) fn finish_sample(&mut self, sample: CostSample) {
        self.cost_model(sample).finish_sample(sample.class);
    }

    /// Restarts a sample: other sends were measured with it.
    pub(super) fn invalidate_sample(&mut self, sample: CostSample) {
        self.cost_model(sample).invalidate_sample(sample.class);
    }

    fn cost_model(&mut self, sample: CostSample) -> &mut CostModel {
        self.auto(sample.path).cost_model()
    }

    /// Learns from the release of a send that was lent on this path whether it was copied all the same;
    /// `None`: unknown.
    #[inline]
    pub(super) fn learn(&mut self, path: Path, copied: Option<bool>) {
        self.auto(path).learn(copied);
    }

    #[inline]
    fn auto(&mut self, path: Path) -> &mut Auto {
        &mut self.autos[usize::from(path.0)]
    }

    fn path_to_peer(&mut self, peer: u32) -> Path {
        let path = Path::default();
        if self.peer != peer {
            self.peer = peer;
            *self.auto(path) = Auto::new(path);
        }
        path
    }

    fn path_to_address(
        &mut self,
        to: SocketAddr,
        now: Duration,
        outlet_to: impl FnOnce(SocketAddr) -> Option<Outlet>,
    ) -> Path {
        let key = (to.ip(), scope(to));
        match self.addresses.get(&key) {
            Some(known) if now.saturating_sub(known.since) < MAX_AGE => return known.path,
            None if self.addresses.len() >= MAX_ADDRESSES => return Path::default(),
            _ => {}
        }
        let path = outlet_to(to).map_or(Path::default(), |outlet| self.path_through(outlet));
        self.addresses.insert(key, KnownAddress { path, since: now });
        path
    }

    fn path_through(&mut self, outlet: Outlet) -> Path {
        let known = self.outlets.iter().position(|known| *known == outlet);
        let place = known.unwrap_or(self.outlets.len());
        // No machine has that many devices.
        let Ok(path) = u16::try_from(place + 1).map(Path) else { return Path::default() };
        if known.is_none() {
            self.outlets.push(outlet);
            self.autos.push(Auto::new(path));
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, last / 100, last], 9))
    }

    /// Two devices, by the hundreds of the address; no outlet for IPv6.
    fn outlet(to: SocketAddr) -> Option<Outlet> {
        let IpAddr::V4(v4) = to.ip() else { return None };
        Some(Outlet { device: u32::from(v4.octets()[2]), is_local: v4.octets()[3] == 0 })
    }

    #[test]
    fn each_device_has_its_own_path() {
        let mut paths = Paths::new();
        let mut path = |last| paths.path_to_address(address(last), Duration::ZERO, outlet);
        let near = path(1);
        assert_ne!(near, Path(0));
        assert_eq!(path(2), near);
        assert_ne!(path(101), near);
        assert_ne!(path(0), near, "an address of this machine");
        assert_eq!(paths.autos.len(), 4);
    }

    #[test]
    fn addresses_without_an_outlet_share_the_path_to_the_peer() {
        let mut paths = Paths::new();
        let v6 = "[::1]:9".parse().unwrap();
        assert_eq!(paths.path_to_address(v6, Duration::ZERO, outlet), Path(0));
    }

    #[test]
    fn an_address_is_looked_up_again_after_a_while() {
        let mut paths = Paths::new();
        let lookups = std::cell::Cell::new(0);
        let mut at = |seconds| {
            let now = Duration::from_secs(seconds);
            paths.path_to_address(address(1), now, |_| {
                lookups.set(lookups.get() + 1);
                Some(Outlet { device: lookups.get(), is_local: false })
            })
        };
        let before = at(1);
        assert_eq!((at(10), lookups.get()), (before, 1));
        assert_ne!(at(11), before);
        assert_eq!(lookups.get(), 2);
    }

    #[test]
    fn the_number_of_known_addresses_is_bounded() {
        let mut paths = Paths::new();
        for n in 0..3000u32 {
            let to = SocketAddr::from((std::net::Ipv4Addr::from(n), 9));
            paths.path_to_address(to, Duration::ZERO, |_| {
                Some(Outlet { device: 1, is_local: false })
            });
        }
        assert_eq!((paths.addresses.len(), paths.autos.len()), (MAX_ADDRESSES, 2));
    }

    #[test]
    fn a_new_peer_resets_the_path() {
        let mut paths = Paths::new();
        let lends =
            |paths: &mut Paths| paths.autos[0].decide(64_000, Lending::Ring).choice.is_lend();
        while lends(&mut paths) {
            let path = paths.path_to_peer(0);
            paths.learn(path, Some(true));
        }
        paths.path_to_peer(0);
        assert!(!lends(&mut paths));
        paths.path_to_peer(1);
        assert!(lends(&mut paths));
    }
}
