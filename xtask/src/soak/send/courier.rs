//! Every way to send, by one interface.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use uncopy::send::{
    Counters, InetSocket, Message, Mode, PageSize, Pool, Ring, RingEvent, RingOptions, RingSocket,
    Sender, SenderOptions, StableBytes,
};

/// Time of what is parked before connections are aborted.
const PARKED: Duration = Duration::from_millis(200);
/// Slices of a registered pool.
pub(super) const SLICES: usize = 16;
/// Bytes of each.
pub(super) const SLICE_BYTES: usize = 64_000;

/// How it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendPath {
    MsgZerocopy,
    Auto,
    Ring,
    RingRegistered,
    RingAuto,
}

pub(super) const WAYS: [SendPath; 5] = [
    SendPath::MsgZerocopy,
    SendPath::Auto,
    SendPath::Ring,
    SendPath::RingRegistered,
    SendPath::RingAuto,
];

type Owner = Box<dyn StableBytes>;

enum By {
    Calls(Vec<Sender<Owner>>),
    /// All sockets on one ring.
    Ring {
        ring: Box<Ring<Owner>>,
        sockets: Vec<RingSocket>,
    },
}

/// Sends over several sockets, and knows what became of every buffer.
pub(super) struct Courier {
    by: By,
    pool: Option<Pool>,
    lent: Vec<Weak<Vec<u8>>>,
    pub(super) sends: u64,
    pub(super) failed: u64,
}

/// The buffers of a courier that is gone.
pub(super) struct Trail {
    pool: Option<Pool>,
    lent: Vec<Weak<Vec<u8>>>,
}

impl Courier {
    pub(super) fn new(way: SendPath, sockets: Vec<InetSocket>) -> Result<Courier> {
        let mode = match way {
            SendPath::Auto | SendPath::RingAuto => Mode::Auto,
            _ => Mode::Zerocopy,
        };
        let mut pool = None;
        let by = match way {
            SendPath::MsgZerocopy | SendPath::Auto => {
                let options = SenderOptions::new()
                    .mode(mode)
                    .park_timeout(PARKED)
                    .send_timeout(Some(super::PATIENCE));
                By::Calls(sockets.into_iter().map(|one| Sender::new(one, &options)).collect())
            }
            SendPath::Ring | SendPath::RingRegistered | SendPath::RingAuto => {
                let options = RingOptions::new().mode(mode).entries(8).drop_timeout(PARKED);
                let mut ring = Ring::new(&options);
                if way == SendPath::RingRegistered {
                    let slices = Pool::new(SLICES, SLICE_BYTES, PageSize::Base)?;
                    ring.register_pool(&slices)?;
                    pool = Some(slices);
                }
                let sockets = sockets.into_iter().map(|one| ring.add(one)).collect();
                By::Ring { ring: Box::new(ring), sockets }
            }
        };
        Ok(Courier { by, pool, lent: Vec::new(), sends: 0, failed: 0 })
    }

    /// Sends over one of the sockets; `false`: the kernel refused this one, or one before it.
    pub(super) fn send(&mut self, over: usize, bytes: Vec<u8>) -> Result<bool> {
        self.sends += 1;
        let owner = self.owner(bytes)?;
        let failed = self.failed;
        match &mut self.by {
            By::Calls(senders) => {
                let sender = &mut senders[over];
                self.failed += u64::from(sender.send(owner).result.is_err());
                while sender.next_release()?.is_some() {}
            }
            By::Ring { ring, sockets } => {
                ring.send(sockets[over], Message::new(owner)).map_err(|refused| refused.error)?;
                ring.submit()?;
                self.failed += failures(ring);
            }
        }
        Ok(self.failed == failed)
    }

    /// A slice of the pool where there is one, after a wait if need be, else other memory.
    fn owner(&mut self, bytes: Vec<u8>) -> Result<Owner> {
        let Some(pool) = self.pool.clone() else {
            let shared = Arc::new(bytes);
            self.lent.push(Arc::downgrade(&shared));
            return Ok(Box::new(shared));
        };
        let begin = Instant::now();
        loop {
            if let Some(mut slice) = pool.take() {
                slice.truncate(bytes.len());
                slice.copy_from_slice(&bytes);
                return Ok(Box::new(slice));
            }
            ensure!(begin.elapsed() < super::PATIENCE, "no slice comes back");
            if let By::Ring { ring, .. } = &mut self.by {
                ring.wait(Some(Duration::from_millis(100)))?;
                self.failed += failures(ring);
            }
        }
    }

    /// Waits until nothing is outstanding; `false`: something still is after `patience`.
    pub(super) fn settle(&mut self, patience: Duration) -> Result<bool> {
        let begin = Instant::now();
        loop {
            let brief = Some(Duration::from_millis(50));
            let (sends, bytes) = match &mut self.by {
                By::Calls(senders) => {
                    let mut left = (0, 0);
                    for sender in senders {
                        while sender.wait_release(brief)?.is_some() {}
                        let here = sender.outstanding();
                        left = (left.0 + here.sends, left.1 + here.bytes);
                    }
                    left
                }
                By::Ring { ring, .. } => {
                    ring.wait(brief)?;
                    self.failed += failures(ring);
                    let left = ring.outstanding();
                    (left.sends, left.bytes)
                }
            };
            if sends == 0 || begin.elapsed() > patience {
                ensure!(sends > 0 || bytes == 0, "{bytes} bytes of no send");
                return Ok(sends == 0);
            }
        }
    }

    pub(super) fn socket(&self, number: usize) -> Result<&InetSocket> {
        match &self.by {
            By::Calls(senders) => Ok(senders[number].socket()),
            By::Ring { ring, sockets } => {
                ring.socket(sockets[number]).context("the ring has its socket")
            }
        }
    }

    /// Those of each socket.
    pub(super) fn counters(&self) -> Vec<Counters> {
        match &self.by {
            By::Calls(senders) => senders.iter().map(|one| one.counters().clone()).collect(),
            By::Ring { ring, sockets } => {
                sockets.iter().map(|one| ring.counters(*one).cloned().unwrap_or_default()).collect()
            }
        }
    }

    /// Goes, with whatever is outstanding.
    pub(super) fn leave(self) -> Trail {
        let Courier { by, pool, lent, .. } = self;
        drop(by);
        Trail { pool, lent }
    }
}

/// Takes all events of a ring; says how many sends failed.
fn failures(ring: &mut Ring<Owner>) -> u64 {
    let events = std::iter::from_fn(|| ring.next_event());
    events.filter(|event| matches!(event, RingEvent::Sent(sent) if sent.result.is_err())).count()
        as u64
}

impl Trail {
    fn is_back(&self) -> bool {
        let all_slices = self.pool.as_ref().is_none_or(|pool| pool.free_slices() == SLICES);
        all_slices && self.lent.iter().all(|buffer| buffer.strong_count() == 0)
    }

    /// Waits until every buffer is back.
    ///
    /// # Errors
    /// If one is not after a while.
    pub(super) fn wait(&self) -> Result<()> {
        let begin = Instant::now();
        while !self.is_back() {
            ensure!(begin.elapsed() < super::PATIENCE, "buffers never came back");
            std::thread::sleep(Duration::from_millis(1));
            // Completions of a dropped ring are collected by the next ring call of its thread.
            Ring::<Owner>::new(&RingOptions::default()).submit()?;
        }
        Ok(())
    }
}
