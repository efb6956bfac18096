//! Tests sends over real sockets and devices: arrival, copies, and when buffers are released.
//!
//! Loopback needs no privilege; devices that do not copy need root and network namespaces.

mod arrival;
mod ending;
mod files;
mod filter;
mod fork;
mod limits;
mod loopback;
mod order;
mod parking;
mod paths;
mod receiver;
mod refusals;
mod registered;
mod ring;
mod sockets;
mod trains;
mod turns;
mod veth;

use std::net::SocketAddr;

use testbed::{KernelFeature, LONG, Need, wait_for};
use uncopy::Errno;
use uncopy::send::{
    Fate, InetSocket, Mode, Notification, Pool, Release, Ring, RingEvent, RingOptions, Sender,
    SenderOptions, StableBytes,
};

/// Returns the loopback address of a family, with any port.
fn here(is_v6: bool) -> SocketAddr {
    let address = if is_v6 { "[::1]:0" } else { "127.0.0.1:0" };
    address.parse().unwrap()
}

fn options(mode: Mode) -> SenderOptions {
    SenderOptions::new().mode(mode).send_timeout(Some(LONG))
}

fn sender<B: StableBytes>(socket: InetSocket, mode: Mode) -> Sender<B> {
    Sender::new(socket, &options(mode))
}

fn ring_options(mode: Mode) -> RingOptions {
    RingOptions::new().mode(mode)
}

/// Makes a ring with io_uring, which must be available if the kernel has what it takes. Its queues count as locked
/// memory, which another test may have for the moment.
fn ring<B: StableBytes>(mode: Mode) -> Ring<B> {
    testbed::need(KernelFeature::RingZerocopySends);
    let mut ring = Ring::new(&ring_options(mode));
    wait_for("memory for a ring", || {
        let is_short = ring.io_uring_refusal() == Some(Errno::ENOMEM);
        if is_short {
            ring = Ring::new(&ring_options(mode));
        }
        !is_short
    });
    assert_eq!(ring.io_uring_refusal(), None, "these tests need io_uring");
    ring
}

/// Registers a pool with a ring. All processes of an ordinary user together may lock little memory, and
/// another test may have it for the moment.
#[track_caller]
fn register<B: StableBytes>(ring: &mut Ring<B>, pool: &Pool) {
    wait_for("memory that may be locked", || match ring.register_pool(pool) {
        Ok(()) => true,
        Err(error) if error.errno() == Some(Errno::ENOMEM) => false,
        Err(error) => panic!("{error}"),
    });
}

/// Waits for everything that is outstanding.
#[track_caller]
fn all_releases<B: StableBytes>(sender: &mut Sender<B>) -> Vec<Release<B>> {
    let mut releases = Vec::new();
    while sender.outstanding().sends > 0 {
        let release = sender.wait_release(Some(LONG)).unwrap();
        releases.push(release.expect("the kernel releases it in time"));
    }
    releases
}

/// All events of a ring until nothing is outstanding.
struct Events<B> {
    results: Vec<(u64, Result<usize, uncopy::Error>)>,
    releases: Vec<Release<B>>,
    notifications: Vec<Notification<Release<B>>>,
}

#[track_caller]
fn run<B: StableBytes>(ring: &mut Ring<B>) -> Events<B> {
    let mut events = Events { results: vec![], releases: vec![], notifications: vec![] };
    let begin = std::time::Instant::now();
    loop {
        let is_over = ring.outstanding().sends == 0;
        if !is_over {
            assert!(begin.elapsed() < LONG, "{:?}", ring.outstanding());
            ring.wait(Some(LONG)).unwrap();
        }
        while let Some(event) = ring.next_event() {
            match event {
                RingEvent::Sent(sent) => events.results.push((sent.id.get(), sent.result)),
                RingEvent::Released(release) => events.releases.push(release),
                RingEvent::Notified(notification) => events.notifications.push(notification),
            }
        }
        if is_over {
            return events;
        }
    }
}

impl<B> Events<B> {
    /// Returns the bytes of each send; all must have succeeded.
    #[track_caller]
    fn sent_bytes(&self) -> Vec<usize> {
        self.results.iter().map(|(_, result)| *result.as_ref().unwrap()).collect()
    }
}

fn fates<B>(releases: &[Release<B>]) -> Vec<Fate> {
    releases.iter().map(|release| release.fate).collect()
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    [
        arrival::cases(),
        ending::cases(),
        files::cases(),
        fork::cases(),
        limits::cases(),
        loopback::cases(),
        order::cases(),
        parking::cases(),
        paths::cases(),
        refusals::cases(),
        registered::cases(),
        ring::cases(),
        sockets::cases(),
        trains::cases(),
        turns::cases(),
        veth::cases(),
    ]
    .into_iter()
    .flatten()
    .map(|case| case.needing(Need::LockedMemory(2)))
    .collect()
}
