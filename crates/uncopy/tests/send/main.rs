//! Sends over real sockets and devices: what arrives, what was copied, and when buffers come back.
//!
//! Loopback serves everybody; devices that really do not copy need root, in network namespaces.
#![cfg(all(target_os = "linux", not(shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arrival;
mod ending;
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
use std::process::ExitCode;

use testbed::LONG;
use uncopy::send::{
    Fate, InetSocket, Mode, Notification, Release, Ring, RingEvent, RingOptions, Sender,
    SenderOptions, StableBytes,
};

/// Either family's loopback address, any port.
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

/// A ring through io_uring, which must be there.
fn ring<B: StableBytes>(mode: Mode) -> Ring<B> {
    let ring = Ring::new(&ring_options(mode));
    assert_eq!(ring.io_uring_refusal(), None, "these tests need io_uring");
    ring
}

/// Waits for everything that is outstanding.
#[track_caller]
fn all_releases<B: StableBytes>(sender: &mut Sender<B>) -> Vec<Release<B>> {
    let mut releases = Vec::new();
    while sender.outstanding().sends > 0 {
        let release = sender.wait_release(Some(LONG)).unwrap();
        releases.push(release.expect("the kernel releases it before long"));
    }
    releases
}

/// Everything that happens on a ring until nothing is outstanding.
struct Happened<B> {
    results: Vec<(u64, Result<usize, uncopy::Error>)>,
    releases: Vec<Release<B>>,
    notifications: Vec<Notification<Release<B>>>,
}

#[track_caller]
fn run<B: StableBytes>(ring: &mut Ring<B>) -> Happened<B> {
    let mut happened = Happened { results: vec![], releases: vec![], notifications: vec![] };
    let begin = std::time::Instant::now();
    loop {
        let is_over = ring.outstanding().sends == 0;
        if !is_over {
            assert!(begin.elapsed() < LONG, "{:?}", ring.outstanding());
            ring.wait(Some(LONG)).unwrap();
        }
        while let Some(event) = ring.next_event() {
            match event {
                RingEvent::Sent(sent) => happened.results.push((sent.id.get(), sent.result)),
                RingEvent::Released(release) => happened.releases.push(release),
                RingEvent::Notified(notification) => happened.notifications.push(notification),
            }
        }
        if is_over {
            return happened;
        }
    }
}

impl<B> Happened<B> {
    /// Bytes by send, each of which went well.
    #[track_caller]
    fn sent_bytes(&self) -> Vec<usize> {
        self.results.iter().map(|(_, result)| *result.as_ref().unwrap()).collect()
    }
}

fn fates<B>(releases: &[Release<B>]) -> Vec<Fate> {
    releases.iter().map(|release| release.fate).collect()
}

fn main() -> ExitCode {
    testbed::run(env!("CARGO_TARGET_TMPDIR"), || {
        [
            arrival::cases(),
            ending::cases(),
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
        .collect()
    })
}
