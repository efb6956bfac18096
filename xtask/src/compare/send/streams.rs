//! Those that send over TCP, to a peer that does not exist.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testbed::network::Network;
use testbed::{BareRing, BareSend, BareSender};
use uncopy::send::{
    Fate, Message, Mode, PageSize, Pool, Ring, RingEvent, RingOptions, RingSocket, Sender,
    SenderOptions, StableBytes,
};

use super::subjects::{BUNCH, Load, buffers};
use crate::compare::case::{Role, Subject};
use crate::compare::metric::Sample;
use crate::compare::timing::{divided, sample_prepared};

/// Payload of the kernel's tool: nearly that of the largest packet.
pub(super) const LARGEST: usize = 65_435;
/// How long it sends in the field report.
pub(super) const FIELD_RUN: Duration = Duration::from_millis(4200);
const PORT: u16 = 4000;
const PATIENCE: Duration = Duration::from_secs(1);

/// Has `turn` send a bunch on one connection after the other. What it gives back goes outside of the
/// measured time; `connect` has sent once, as the library looks up the device with the first send of a
/// connection, and a second later at most.
fn connections<T>(
    time: Duration,
    connect: impl Fn() -> Result<T>,
    turn: impl Fn(T) -> Result<Option<T>>,
) -> Result<Sample> {
    let over = RefCell::new(None);
    let prepare = || {
        // The next has the same port.
        drop(over.take());
        connect()
    };
    let bunch = sample_prepared(time, prepare, |each| {
        over.replace(turn(each)?);
        Ok(())
    })?;
    Ok(divided(bunch, BUNCH as f64))
}

fn payloads() -> Vec<&'static [u8]> {
    buffers(Load::of(LARGEST))
}

/// The system calls of a [`sender`] alone.
pub(super) fn bare(name: &str, how: BareSend, time: Duration) -> Subject {
    let open = || Ok(Network::here());
    Subject::piece(name, Role::Yardstick, open, move |network, _| {
        let socket = || network.bare_silent_connection(PORT);
        let connect = || {
            let mut sender = BareSender::new(socket()?, how, payloads())?;
            sender.send(1)?;
            Ok(sender)
        };
        connections(time, connect, |mut sender| {
            sender.send(BUNCH)?;
            sender.finish()?;
            Ok(None)
        })
    })
}

/// Those of a [`ring()`].
pub(super) fn bare_ring(name: &str, how: BareSend, time: Duration) -> Subject {
    let open = || Ok(Network::here());
    Subject::piece(name, Role::Yardstick, open, move |network, _| {
        let socket = || network.bare_silent_connection(PORT);
        let connect = || {
            let mut ring = BareRing::new(socket()?, how, payloads(), BUNCH as u32)?;
            ring.submit(1)?;
            Ok(ring)
        };
        connections(time, connect, |mut ring| {
            ring.submit(BUNCH)?;
            ring.finish()?;
            Ok(Some(ring))
        })
    })
}

/// A [`Sender`] on connections of 64 sends each, while a packet tap runs or not.
pub(super) fn sender(name: &str, mode: Mode, tapped: bool, time: Duration) -> Subject {
    let open = || Ok((Network::here(), payloads()[0]));
    Subject::piece(name, Role::Own, open, move |(network, payload), _| {
        let _tap = tapped.then(|| network.tap());
        let connect = || {
            let mut sender = connected(*network, mode);
            sender.send(*payload).result?;
            Ok(sender)
        };
        connections(time, connect, |sender| {
            one_connection(sender, payload, mode, tapped)?;
            Ok(None)
        })
    })
}

fn connected<B: StableBytes>(network: Network, mode: Mode) -> Sender<B> {
    let options = SenderOptions::new().mode(mode).send_timeout(Some(PATIENCE));
    Sender::new(network.silent_connection(false, PORT), &options)
}

/// A [`Ring`] on the same.
pub(super) fn ring(name: &str, mode: Mode, time: Duration) -> Subject {
    let open = || Ok((Network::here(), payloads()[0]));
    Subject::piece(name, Role::Own, open, move |(network, payload), _| {
        let connect = || RingConnection::new(*network, mode, None, *payload);
        connections(time, connect, |each| each.bunch(*payload))
    })
}

/// The same out of a registered pool.
pub(super) fn registered(name: &str, mode: Mode, time: Duration) -> Subject {
    let open = || {
        let pool = Pool::new(1, LARGEST, PageSize::Base)?;
        let slice = Box::new(pool.take().context("a new pool is empty")?);
        Ok((Network::here(), pool, &*Box::leak(slice)))
    };
    Subject::piece(name, Role::Own, open, move |(network, pool, slice), _| {
        let connect = || RingConnection::new(*network, mode, Some(pool), *slice);
        connections(time, connect, |each| each.bunch(*slice))
    })
}

struct RingConnection<B: StableBytes> {
    ring: Ring<B>,
    socket: RingSocket,
    /// Aborts the connection.
    sender: Sender<B>,
}

impl<B: StableBytes + Copy> RingConnection<B> {
    fn new(network: Network, mode: Mode, pool: Option<&Pool>, first: B) -> Result<Self> {
        let options = RingOptions::new().mode(mode).entries(BUNCH as u32);
        let mut ring = Ring::new(&options);
        if let Some(errno) = ring.io_uring_refusal() {
            bail!("no io_uring: {errno}");
        }
        pool.map_or(Ok(()), |pool| ring.register_pool(pool))?;
        let sender = connected(network, mode);
        let socket = ring.add_shared(&sender);
        let mut connection = RingConnection { ring, socket, sender };
        connection.submit(1, first)?;
        Ok(connection)
    }

    fn submit(&mut self, count: usize, payload: B) -> Result<()> {
        for _ in 0..count {
            let taken = self.ring.send(self.socket, Message::new(payload));
            taken.map_err(|refused| refused.error)?;
        }
        Ok(self.ring.submit()?)
    }

    fn bunch(mut self, payload: B) -> Result<Option<Self>> {
        self.submit(BUNCH, payload)?;
        self.sender.abort();
        let ring = &mut self.ring;
        while ring.outstanding().sends > 0 {
            ring.wait(Some(PATIENCE))?;
            while let Some(event) = ring.next_event() {
                if let RingEvent::Sent(sent) = event {
                    sent.result?;
                }
            }
        }
        Ok(Some(self))
    }
}

fn one_connection(
    mut sender: Sender<&'static [u8]>,
    payload: &'static [u8],
    mode: Mode,
    tapped: bool,
) -> Result<()> {
    for _ in 0..BUNCH {
        sender.send(payload).result?;
    }
    sender.abort();
    let expected = match (mode, tapped) {
        (Mode::Zerocopy | Mode::Auto, false) => Fate::NotCopied,
        _ => Fate::Copied,
    };
    while sender.outstanding().sends > 0 {
        let release = sender.wait_release(Some(Duration::from_secs(1)))?;
        let fate = release.map(|release| release.fate);
        ensure!(fate == Some(expected), "a send was {fate:?} instead of {expected}");
    }
    Ok(())
}
