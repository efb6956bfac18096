//! Connections over which bytes of files and listings are asked for: data connections, and the streams of the session while there
//! are none.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use uncopy_copy::peer::PeerError;
use uncopy_wire::{Answer, Call};

use crate::budget::BudgetShare;
use crate::calls::{Calls, Pending};
use crate::gate::lock;
use crate::open_receiver::{OpenReceiver, PendingOpen, PieceFault};
use crate::piece::Piece;
use crate::spare::SpareBuffers;

/// Number of bytes of one read: over the session and over connections with TLS; and over open ones, where each costs two
/// messages of the session.
const PIECE_BYTES: u64 = 256 << 10;
const OPEN_PIECE_BYTES: u64 = 1 << 20;
/// Maximum number of bytes that one read is ahead: over the streams of the session, and over data connections, of which
/// each has its own way to fill.
const AHEAD_BYTES: u64 = 4 << 20;
const DATA_AHEAD_BYTES: u64 = 16 << 20;
/// Number of connections over which bytes were changed after which none is used any more.
const MAX_ALTERING: u32 = 3;

/// Numbers of bytes that are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceLengths {
    pub(crate) piece: u64,
    pub(crate) ahead: u64,
}

/// Bytes of a piece.
#[derive(Debug)]
pub(crate) struct PieceBytes {
    pub(crate) bytes: Vec<u8>,
    /// Whether they were others before: the file has changed.
    pub(crate) has_changed: bool,
}

/// Way in which a data connection is asked.
#[derive(Debug)]
enum LaneWay {
    /// By calls over the connection itself.
    Calls(Arc<Calls>),
    /// By calls of the session.
    Open(Arc<OpenReceiver>),
}

/// Data connection.
#[derive(Debug)]
pub(crate) struct Lane {
    way: LaneWay,
    /// Whether bytes were changed on the way.
    has_altered: AtomicBool,
}

impl Lane {
    pub(crate) fn new(calls: Arc<Calls>) -> Arc<Lane> {
        Lane::by(LaneWay::Calls(calls))
    }

    pub(crate) fn open(receiver: Arc<OpenReceiver>) -> Arc<Lane> {
        Lane::by(LaneWay::Open(receiver))
    }

    fn by(way: LaneWay) -> Arc<Lane> {
        Arc::new(Lane { way, has_altered: AtomicBool::new(false) })
    }

    /// Returns the number of bytes that were asked for and have not come. What has come and waits for its turn does not
    /// count: a quick connection would be given no more than a slow one.
    fn owed(&self) -> u64 {
        match &self.way {
            LaneWay::Calls(calls) => calls.owed(),
            LaneWay::Open(receiver) => receiver.owed(),
        }
    }

    fn is_calling(&self) -> bool {
        matches!(self.way, LaneWay::Calls(_))
    }

    fn begin(
        &self,
        piece: Piece,
        share: &mut Option<BudgetShare>,
    ) -> Result<PendingWay, PeerError> {
        match &self.way {
            LaneWay::Calls(calls) => calls.begin(&piece.call(), share).map(PendingWay::Answer),
            LaneWay::Open(receiver) => receiver.begin(piece, share).map(PendingWay::Open),
        }
    }
}

#[derive(Debug)]
enum PendingWay {
    Answer(Pending),
    Open(PendingOpen),
}

impl PendingWay {
    fn wait(self) -> Result<Vec<u8>, PieceFault> {
        match self {
            PendingWay::Answer(pending) => match pending.wait() {
                Ok(Answer::Data { bytes }) => Ok(bytes),
                Ok(_) => Err(PieceFault::Failed(other_answer())),
                Err(error) => Err(PieceFault::Failed(error)),
            },
            PendingWay::Open(pending) => pending.wait(),
        }
    }
}

/// Piece that was asked for.
#[derive(Debug)]
pub(crate) struct PendingPiece {
    piece: Piece,
    pending: PendingWay,
    /// Data connection over which it comes.
    over: Option<Arc<Lane>>,
}

impl PendingPiece {
    /// Returns the number of bytes that were asked for.
    pub(crate) fn bytes(&self) -> u64 {
        self.piece.bytes.into()
    }
}

/// Call that was made, over a data connection or the session.
#[derive(Debug)]
pub(crate) struct PendingAnswer {
    pending: Pending,
    /// Data connection over which the answer comes.
    over: Option<Arc<Lane>>,
}

/// Data connections that stand.
#[derive(Debug, Default)]
struct DataLanes {
    used: Vec<Arc<Lane>>,
    /// Number of those over which bytes were changed.
    altering: u32,
}

/// All connections of a session over which files are read.
#[derive(Debug)]
pub(crate) struct Lanes {
    session: Arc<Calls>,
    /// Version of the protocol.
    version: u16,
    data: Mutex<DataLanes>,
    resent: AtomicU64,
}

impl Lanes {
    /// Begins with the streams of the session, which speaks this version of the protocol.
    pub(crate) fn new(session: Arc<Calls>, version: u16) -> Arc<Lanes> {
        Arc::new(Lanes { session, version, data: Mutex::default(), resent: AtomicU64::new(0) })
    }

    /// Returns the version of the protocol.
    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    /// Returns the calls of the session itself.
    pub(crate) fn session(&self) -> &Arc<Calls> {
        &self.session
    }

    /// Returns buffers for pieces. Those of pieces that were handed on go there.
    pub(crate) fn spare(&self) -> &Arc<SpareBuffers> {
        self.session.spare()
    }

    /// Adds a data connection that stands, unless none is used any more.
    pub(crate) fn add(&self, lane: Arc<Lane>) {
        let mut data = lock(&self.data);
        if data.altering < MAX_ALTERING {
            data.used.push(lane);
        }
    }

    /// Removes a data connection that has ended. What it owes is asked for again by those who wait for it.
    pub(crate) fn remove(&self, lane: &Arc<Lane>) {
        lock(&self.data).used.retain(|other| !Arc::ptr_eq(other, lane));
    }

    /// Returns the best length of a piece now, and the length of all that one read may be ahead.
    pub(crate) fn lengths(&self) -> PieceLengths {
        match lock(&self.data).used.first().map(|lane| &lane.way) {
            None => PieceLengths { piece: PIECE_BYTES, ahead: AHEAD_BYTES },
            Some(LaneWay::Calls(_)) => PieceLengths { piece: PIECE_BYTES, ahead: DATA_AHEAD_BYTES },
            Some(LaneWay::Open(_)) => {
                PieceLengths { piece: OPEN_PIECE_BYTES, ahead: DATA_AHEAD_BYTES }
            }
        }
    }

    /// Whether no data connection is used because bytes were changed on the way.
    pub(crate) fn are_distrusted(&self) -> bool {
        lock(&self.data).altering >= MAX_ALTERING
    }

    /// Returns the number of bytes that were asked for again, because their connection ended or they were changed.
    pub(crate) fn resent(&self) -> u64 {
        self.resent.load(Ordering::Relaxed)
    }

    /// Asks for a piece, over the data connection that owes least.
    pub(crate) fn begin(
        &self,
        piece: Piece,
        mut share: Option<BudgetShare>,
    ) -> Result<PendingPiece, PeerError> {
        while let Some(lane) = self.choose() {
            match lane.begin(piece, &mut share) {
                Ok(pending) => return Ok(PendingPiece { piece, pending, over: Some(lane) }),
                Err(PeerError::Lost { .. }) => self.remove(&lane),
                Err(error) => return Err(error),
            }
        }
        let pending = PendingWay::Answer(self.session.begin(&piece.call(), &mut share)?);
        Ok(PendingPiece { piece, pending, over: None })
    }

    fn choose(&self) -> Option<Arc<Lane>> {
        lock(&self.data).used.iter().min_by_key(|lane| lane.owed()).map(Arc::clone)
    }

    /// Whether a data connection stands that takes calls.
    pub(crate) fn has_calling(&self) -> bool {
        lock(&self.data).used.iter().any(|lane| lane.is_calling())
    }

    /// Returns the data connection that owes least of those that take calls.
    pub(crate) fn choose_calling(&self) -> Option<Arc<Lane>> {
        let data = lock(&self.data);
        let calling = data.used.iter().filter(|lane| lane.is_calling());
        calling.min_by_key(|lane| lane.owed()).map(Arc::clone)
    }

    /// Asks over the session.
    pub(crate) fn begin_over_session(
        &self,
        call: &Call,
        share: &mut Option<BudgetShare>,
    ) -> Result<PendingAnswer, PeerError> {
        Ok(PendingAnswer { pending: self.session.begin(call, share)?, over: None })
    }

    /// Asks over a data connection. If it has ended, it is not used any more.
    pub(crate) fn begin_over(
        &self,
        lane: &Arc<Lane>,
        call: &Call,
        share: &mut Option<BudgetShare>,
    ) -> Result<PendingAnswer, PeerError> {
        let LaneWay::Calls(calls) = &lane.way else { return Err(other_answer()) };
        let pending = calls.begin(call, share).inspect_err(|_| self.remove(lane))?;
        Ok(PendingAnswer { pending, over: Some(Arc::clone(lane)) })
    }

    /// Asks over the data connection that owes least of those that take calls, or over the session if there is none.
    pub(crate) fn begin_anywhere(
        &self,
        call: &Call,
        share: &mut Option<BudgetShare>,
    ) -> Result<PendingAnswer, PeerError> {
        while let Some(lane) = self.choose_calling() {
            match self.begin_over(&lane, call, share) {
                Err(PeerError::Lost { .. }) => {}
                asked => return asked,
            }
        }
        self.begin_over_session(call, share)
    }

    /// Waits for an answer; `None`: its data connection has ended, and it is to be asked again.
    pub(crate) fn wait_for_answer(
        &self,
        pending: PendingAnswer,
    ) -> Result<Option<Answer>, PeerError> {
        match (pending.pending.wait(), pending.over) {
            (Err(PeerError::Lost { .. }), Some(lane)) => {
                self.remove(&lane);
                Ok(None)
            }
            (answer, _) => answer.map(Some),
        }
    }

    /// Waits for a piece. If its data connection ends before, asks again over another one, or over the session. What was
    /// changed on the way is asked for over the session.
    pub(crate) fn wait(&self, mut pending: PendingPiece) -> Result<PieceBytes, PeerError> {
        loop {
            let PendingPiece { piece, pending: way, over } = pending;
            match (way.wait(), over) {
                (Ok(bytes), _) => return Ok(PieceBytes { bytes, has_changed: false }),
                (Err(PieceFault::Altered { digest }), over) => {
                    self.resent.fetch_add(piece.bytes.into(), Ordering::Relaxed);
                    return self.ask_again(piece, digest, over);
                }
                (Err(PieceFault::Cut), _)
                | (Err(PieceFault::Failed(PeerError::Lost { .. })), Some(_)) => {
                    self.resent.fetch_add(piece.bytes.into(), Ordering::Relaxed);
                    // It is waited for, and needs no share of what is ahead.
                    pending = self.begin(piece, None)?;
                }
                (Err(PieceFault::Failed(error)), _) => return Err(error),
            }
        }
    }

    /// Asks over the session for a piece that had this digest before.
    fn ask_again(
        &self,
        piece: Piece,
        digest: [u8; 32],
        came_over: Option<Arc<Lane>>,
    ) -> Result<PieceBytes, PeerError> {
        let Answer::Data { bytes } = self.session.ask(&piece.call())? else {
            return Err(other_answer());
        };
        let has_changed = *blake3::hash(&bytes).as_bytes() != digest;
        // If the file is as it was, the connection has other bytes.
        if let Some(lane) = came_over.filter(|_| !has_changed) {
            self.distrust(&lane);
        }
        Ok(PieceBytes { bytes, has_changed })
    }

    /// Ends a connection over which bytes were changed: all that follows may be in disorder.
    fn distrust(&self, lane: &Arc<Lane>) {
        if lane.has_altered.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut data = lock(&self.data);
        data.altering += 1;
        data.used.retain(|other| !Arc::ptr_eq(other, lane));
        if data.altering >= MAX_ALTERING {
            data.used.clear();
        }
        drop(data);
        if let LaneWay::Open(receiver) = &lane.way {
            receiver.cut();
        }
    }
}

/// Returns the error of an answer to another question, which [`uncopy_wire::Caller`] does not let through.
pub(crate) fn other_answer() -> PeerError {
    PeerError::Lost { what: "an answer to another question".to_owned() }
}

#[cfg(test)]
mod tests {
    use uncopy_wire::{Handle, Server};

    use super::*;
    use crate::outbox::Outbox;

    /// Data connection whose other end is the test.
    struct Played {
        lane: Arc<Lane>,
        calls: Arc<Calls>,
        asked: Arc<Outbox>,
        server: Server,
    }

    impl Played {
        fn new() -> Played {
            let asked = Arc::<Outbox>::default();
            let calls = Calls::of_data(Arc::clone(&asked), Arc::default());
            Played { lane: Lane::new(Arc::clone(&calls)), calls, asked, server: Server::of_data() }
        }

        /// Answers everything that was asked over it; returns the number of answers.
        fn answer(&mut self) -> usize {
            let frames = std::iter::from_fn(|| self.asked.pop());
            let answered = frames.map(|frame| {
                let request = self.server.take(&frame).unwrap();
                let Call::Read { bytes, .. } = request.call else { panic!("{request:?}") };
                let data = self.server.data(request.id, vec![7; bytes as usize]).unwrap();
                self.calls.take(data).unwrap();
            });
            answered.count()
        }
    }

    fn begin(lanes: &Lanes, number: u64) -> PendingPiece {
        let piece = Piece { file: Handle(1), offset: number * PIECE_BYTES, bytes: 1000 };
        lanes.begin(piece, None).unwrap()
    }

    /// Each piece that was handed on once brought the next one to its own connection.
    #[test]
    fn a_quick_connection_is_asked_for_more_although_its_pieces_wait_for_their_turn() {
        let lanes = Lanes::new(Calls::new(Arc::default()), uncopy_wire::VERSION);
        let (mut slow, mut quick) = (Played::new(), Played::new());
        lanes.add(Arc::clone(&slow.lane));
        lanes.add(Arc::clone(&quick.lane));
        let mut pending: Vec<PendingPiece> = (0..6).map(|number| begin(&lanes, number)).collect();
        assert_eq!([slow.lane.owed(), quick.lane.owed()], [3000, 3000]);
        assert_eq!(quick.answer(), 3);
        pending.extend((6..9).map(|number| begin(&lanes, number)));
        assert_eq!([slow.lane.owed(), quick.lane.owed()], [3000, 3000]);
        assert_eq!(quick.answer(), 3);
        assert_eq!(slow.answer(), 3);
        assert_eq!([slow.lane.owed(), quick.lane.owed()], [0, 0]);
        for piece in pending {
            assert_eq!(lanes.wait(piece).unwrap().bytes, [7; 1000]);
        }
        // One that is lost owes nothing.
        let left: Vec<PendingPiece> = (0..4).map(|number| begin(&lanes, number)).collect();
        slow.calls.lose("cut");
        assert_eq!([slow.lane.owed(), quick.lane.owed()], [0, 2000]);
        drop(left);
    }
}
