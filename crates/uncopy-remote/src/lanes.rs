//! Connections over which bytes of files are asked for: data connections, and the streams of the session while there
//! are none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use uncopy_copy::peer::PeerError;
use uncopy_wire::{Answer, Call, Handle};

use crate::budget::BudgetShare;
use crate::calls::{Calls, Pending};
use crate::gate::lock;

/// Part of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) file: Handle,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

impl Piece {
    fn call(self) -> Call {
        Call::Read { file: self.file, offset: self.offset, bytes: self.bytes }
    }
}

/// Data connection.
#[derive(Debug)]
pub(crate) struct Lane {
    calls: Arc<Calls>,
    /// Bytes that were asked for and have not come.
    outstanding: AtomicU64,
}

impl Lane {
    pub(crate) fn new(calls: Arc<Calls>) -> Arc<Lane> {
        Arc::new(Lane { calls, outstanding: AtomicU64::new(0) })
    }
}

/// Share of a connection's outstanding bytes, given back on drop.
#[derive(Debug)]
struct Outstanding {
    lane: Arc<Lane>,
    bytes: u64,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.lane.outstanding.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Piece that was asked for.
#[derive(Debug)]
pub(crate) struct PendingPiece {
    piece: Piece,
    pending: Pending,
    /// Data connection over which it comes.
    over: Option<Outstanding>,
}

impl PendingPiece {
    /// Returns the number of bytes that were asked for.
    pub(crate) fn bytes(&self) -> u64 {
        self.piece.bytes.into()
    }
}

/// All connections of a session over which files are read.
#[derive(Debug)]
pub(crate) struct Lanes {
    session: Arc<Calls>,
    data: Mutex<Vec<Arc<Lane>>>,
    resent: AtomicU64,
}

impl Lanes {
    /// Begins with the streams of the session.
    pub(crate) fn new(session: Arc<Calls>) -> Arc<Lanes> {
        Arc::new(Lanes { session, data: Mutex::default(), resent: AtomicU64::new(0) })
    }

    /// Returns the calls of the session itself.
    pub(crate) fn session(&self) -> &Arc<Calls> {
        &self.session
    }

    /// Adds a data connection that stands.
    pub(crate) fn add(&self, lane: Arc<Lane>) {
        lock(&self.data).push(lane);
    }

    /// Removes a data connection that has ended. What it owes is asked for again by those who wait for it.
    pub(crate) fn remove(&self, lane: &Arc<Lane>) {
        lock(&self.data).retain(|other| !Arc::ptr_eq(other, lane));
    }

    /// Whether a data connection stands.
    pub(crate) fn has_data(&self) -> bool {
        !lock(&self.data).is_empty()
    }

    /// Returns the number of bytes that were asked for again, because their connection ended.
    pub(crate) fn resent(&self) -> u64 {
        self.resent.load(Ordering::Relaxed)
    }

    /// Asks for a piece, over the data connection that owes least.
    pub(crate) fn begin(
        &self,
        piece: Piece,
        mut share: Option<BudgetShare>,
    ) -> Result<PendingPiece, PeerError> {
        while let Some(over) = self.choose(piece.bytes.into()) {
            match over.lane.calls.begin(&piece.call(), &mut share) {
                Ok(pending) => return Ok(PendingPiece { piece, pending, over: Some(over) }),
                Err(PeerError::Lost { .. }) => self.remove(&over.lane),
                Err(error) => return Err(error),
            }
        }
        let pending = self.session.begin(&piece.call(), &mut share)?;
        Ok(PendingPiece { piece, pending, over: None })
    }

    fn choose(&self, bytes: u64) -> Option<Outstanding> {
        let data = lock(&self.data);
        let lane = data.iter().min_by_key(|lane| lane.outstanding.load(Ordering::Relaxed))?;
        lane.outstanding.fetch_add(bytes, Ordering::Relaxed);
        Some(Outstanding { lane: Arc::clone(lane), bytes })
    }

    /// Waits for a piece. If its data connection ends before, asks again over another one, or over the session.
    pub(crate) fn wait(&self, mut pending: PendingPiece) -> Result<Answer, PeerError> {
        loop {
            let PendingPiece { piece, pending: answer, over } = pending;
            match (answer.wait(), over) {
                (Err(PeerError::Lost { .. }), Some(_)) => {
                    self.resent.fetch_add(piece.bytes.into(), Ordering::Relaxed);
                    // It is waited for, and needs no share of what is ahead.
                    pending = self.begin(piece, None)?;
                }
                (answer, _) => return answer,
            }
        }
    }
}
