//! What was learnt of each path that the sends of a socket take.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::auto::{Auto, Lending};
use super::cost_model::{CostModel, SizeClass};
use super::counters::FallbackReason;
use crate::room::inet::{InetSocket, outlet_to};
use uncopy_os::clock;
use uncopy_os::netlink::route::scope;

/// Addresses whose way out is remembered at most; of others it is learnt together.
const MAX_ADDRESSES: usize = 1024;
/// For so long the way out to an address is taken to hold.
const FRESH: Duration = Duration::from_secs(10);

/// Which path a send takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Path(u16);

/// A send whose cost is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CostSample {
    path: Path,
    class: SizeClass,
}

/// The paths of a socket: that to its peer, and one for each device that datagrams with addresses of
/// their own leave through.
#[derive(Debug)]
pub(super) struct Paths {
    /// To the peer first.
    autos: Vec<Auto>,
    /// Of which device each of the others is; and whether to this machine's own addresses.
    outlets: Vec<(u32, bool)>,
    /// Where addresses are reached, and since when that is known.
    addresses: HashMap<(IpAddr, u32), (Path, Duration)>,
    /// To which peer, counted, the first is.
    peer: u32,
}

impl Paths {
    pub(super) fn new() -> Paths {
        let (outlets, addresses) = Default::default();
        Paths { autos: vec![Auto::new()], outlets, addresses, peer: 0 }
    }

    /// Whether to lend a send of `bytes` bytes, and on which path it is, or why not; and whether what
    /// it costs is to be told.
    #[inline]
    pub(super) fn choose(
        &mut self,
        bytes: usize,
        way: Lending,
        (socket, to): (&InetSocket, Option<&SocketAddr>),
    ) -> (Result<Path, FallbackReason>, Option<CostSample>) {
        if bytes < way.never_pays_below() {
            return (Err(FallbackReason::TooSmall), None);
        }
        let path = match to {
            None => self.of_peer(socket.reconnections()),
            Some(to) => self.of_address(*to, clock::coarse(), outlet_to),
        };
        let (lend, sample) = self.autos[usize::from(path.0)].choose(bytes, way);
        (lend.map(|()| path), sample.map(|class| CostSample { path, class }))
    }

    /// So much was spent on timed sends.
    pub(super) fn add_cost(&mut self, sample: CostSample, time: Duration) {
        self.cost_model(sample).add_cost(sample.class, time);
    }

    /// Enough was sent one way to know what it costs.
    pub(super) fn is_sample_complete(&mut self, sample: CostSample) -> bool {
        self.cost_model(sample).is_sample_complete(sample.class)
    }

    /// All is told of a burst that is over.
    pub(super) fn finish_sample(&mut self, sample: CostSample) {
        self.cost_model(sample).finish_sample(sample.class);
    }

    /// What was spent was not for that send alone.
    pub(super) fn invalidate_sample(&mut self, sample: CostSample) {
        self.cost_model(sample).invalidate_sample(sample.class);
    }

    fn cost_model(&mut self, sample: CostSample) -> &mut CostModel {
        self.autos[usize::from(sample.path.0)].cost_model()
    }

    /// What came of a send on this path: it was copied all the same, it was not, or it is not known.
    #[inline]
    pub(super) fn learn(&mut self, path: Path, copied: Option<bool>) {
        self.autos[usize::from(path.0)].learn(copied);
    }

    fn of_peer(&mut self, peer: u32) -> Path {
        if self.peer != peer {
            self.peer = peer;
            self.autos[0] = Auto::new();
        }
        Path(0)
    }

    fn of_address(
        &mut self,
        to: SocketAddr,
        now: Duration,
        outlet_to: impl FnOnce(SocketAddr) -> Option<(u32, bool)>,
    ) -> Path {
        let key = (to.ip(), scope(to));
        let known = self.addresses.get(&key);
        match known {
            Some((path, since)) if now.saturating_sub(*since) < FRESH => return *path,
            None if self.addresses.len() >= MAX_ADDRESSES => return Path(0),
            _ => {}
        }
        let path = outlet_to(to).map_or(Path(0), |outlet| self.of_outlet(outlet));
        self.addresses.insert(key, (path, now));
        path
    }

    fn of_outlet(&mut self, outlet: (u32, bool)) -> Path {
        let place = self.outlets.iter().position(|known| *known == outlet).unwrap_or_else(|| {
            self.outlets.push(outlet);
            self.autos.push(Auto::new());
            self.outlets.len() - 1
        });
        // More devices than that are no machine's.
        u16::try_from(place + 1).map_or(Path(0), Path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, last / 100, last], 9))
    }

    /// Two devices by the hundreds of the address; nothing known of others.
    fn outlet(to: SocketAddr) -> Option<(u32, bool)> {
        let IpAddr::V4(v4) = to.ip() else { return None };
        Some((u32::from(v4.octets()[2]), v4.octets()[3] == 0))
    }

    #[test]
    fn each_device_has_a_path_of_its_own() {
        let mut paths = Paths::new();
        let mut path = |last| paths.of_address(address(last), Duration::ZERO, outlet);
        let near = path(1);
        assert_ne!(near, Path(0));
        assert_eq!(path(2), near);
        assert_ne!(path(101), near);
        assert_ne!(path(0), near, "this machine's own");
        assert_eq!(paths.autos.len(), 4);
    }

    #[test]
    fn what_cannot_be_looked_up_shares_the_path_to_the_peer() {
        let mut paths = Paths::new();
        let v6 = "[::1]:9".parse().unwrap();
        assert_eq!(paths.of_address(v6, Duration::ZERO, outlet), Path(0));
    }

    #[test]
    fn an_address_is_looked_up_again_after_a_while() {
        let mut paths = Paths::new();
        let asked = std::cell::Cell::new(0);
        let mut at = |seconds| {
            let now = Duration::from_secs(seconds);
            paths.of_address(address(1), now, |_| {
                asked.set(asked.get() + 1);
                Some((asked.get(), false))
            })
        };
        let before = at(1);
        assert_eq!((at(10), asked.get()), (before, 1));
        assert_ne!(at(11), before);
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn addresses_do_not_grow_without_bound() {
        let mut paths = Paths::new();
        for n in 0..3000u32 {
            let to = SocketAddr::from((std::net::Ipv4Addr::from(n), 9));
            paths.of_address(to, Duration::ZERO, |_| Some((1, false)));
        }
        assert_eq!((paths.addresses.len(), paths.autos.len()), (MAX_ADDRESSES, 2));
    }

    #[test]
    fn another_peer_is_another_path() {
        let mut paths = Paths::new();
        let lends = |paths: &mut Paths| paths.autos[0].choose(64_000, Lending::Ring).0.is_ok();
        while lends(&mut paths) {
            let path = paths.of_peer(0);
            paths.learn(path, Some(true));
        }
        paths.of_peer(0);
        assert!(!lends(&mut paths));
        paths.of_peer(1);
        assert!(lends(&mut paths));
    }
}
