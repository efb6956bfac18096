//! Those that send over TCP, to a peer that does not exist.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testbed::network::Network;
use uncopy::send::{
    Event, Fate, Message, Mode, PageSize, Pool, Ring, RingOptions, RingSocket, Sender,
    SenderOptions, StableBytes,
};

use super::subjects::BUNCH;
use crate::compare::case::{Role, Subject};
use crate::compare::timing::{divided, sample_prepared};

/// What the kernel's tool sends: nearly what the largest packet holds.
pub(super) const LARGEST: usize = 65_435;
const PORT: u16 = 4000;
const PATIENCE: Duration = Duration::from_secs(1);

/// A [`Sender`] on connections of 64 sends each, while a packet tap runs or not.
pub(super) fn sender(name: &str, mode: Mode, tapped: bool, time: Duration) -> Subject {
    let payload = Arc::new(vec![7u8; LARGEST]);
    let open = || Ok(Network::here());
    Subject::piece(name, Role::Own, open, move |network, _| {
        let _tap = tapped.then(|| network.tap());
        let connect = || Ok(connected(*network, mode));
        let bunch = sample_prepared(time, connect, |sender| {
            one_connection(sender, &payload, (mode, tapped))
        })?;
        Ok(divided(bunch, BUNCH as f64))
    })
}

fn connected<B: StableBytes>(network: Network, mode: Mode) -> Sender<B> {
    let mut options = SenderOptions::default();
    options.mode = mode;
    options.send_timeout = Some(PATIENCE);
    Sender::new(network.silent_connection(false, PORT), &options)
}

/// A [`Ring`] on the same, out of a registered pool or not.
pub(super) fn ring(name: &str, (mode, is_registered): (Mode, bool), time: Duration) -> Subject {
    let payload = Arc::new(vec![7u8; LARGEST]);
    let open = || Ok(Network::here());
    Subject::piece(name, Role::Own, open, move |network, _| {
        let pool = Pool::new(1, LARGEST, PageSize::Base)?;
        let slice = Arc::new(pool.take().context("a new pool is empty")?);
        // A ring never gives a socket back: each connection has its own, which ends outside of the
        // measured time.
        let over = RefCell::new(None);
        let prepare = || {
            over.take();
            RingConnection::new(*network, mode, is_registered.then_some(&pool))
        };
        let bunch = sample_prepared(time, prepare, |mut each: RingConnection| {
            each.bunch(|| match is_registered {
                true => Box::new(slice.clone()),
                false => Box::new(payload.clone()),
            })?;
            over.replace(Some(each));
            Ok(())
        })?;
        Ok(divided(bunch, BUNCH as f64))
    })
}

type Owner = Box<dyn StableBytes>;

struct RingConnection {
    ring: Ring<Owner>,
    socket: RingSocket,
    /// Aborts the connection.
    sender: Sender<Owner>,
}

impl RingConnection {
    fn new(network: Network, mode: Mode, pool: Option<&Pool>) -> Result<RingConnection> {
        let mut options = RingOptions::default();
        options.mode = mode;
        options.entries = BUNCH as u32;
        let mut ring = Ring::new(&options);
        if let Some(errno) = ring.io_uring_refusal() {
            bail!("no io_uring: {errno}");
        }
        pool.map_or(Ok(()), |pool| ring.register_pool(pool))?;
        let sender = connected(network, mode);
        let socket = ring.add_shared(&sender);
        Ok(RingConnection { ring, socket, sender })
    }

    fn bunch(&mut self, mut next: impl FnMut() -> Owner) -> Result<()> {
        let RingConnection { ring, socket, sender } = self;
        for _ in 0..BUNCH {
            let message = Message::new(next());
            ring.send(*socket, message).map_err(|refused| refused.error)?;
        }
        ring.submit()?;
        sender.abort();
        while ring.outstanding().sends > 0 {
            ring.wait(Some(PATIENCE))?;
            while let Some(event) = ring.next_event() {
                if let Event::Sent(sent) = event {
                    sent.result?;
                }
            }
        }
        Ok(())
    }
}

fn one_connection(
    mut sender: Sender<Arc<Vec<u8>>>,
    payload: &Arc<Vec<u8>>,
    (mode, tapped): (Mode, bool),
) -> Result<()> {
    for _ in 0..BUNCH {
        sender.send(payload.clone()).result?;
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
