//! Questions under way, and the threads that wait for their answers.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use uncopy_copy::peer::PeerError;
use uncopy_core::Errno;
use uncopy_wire::{Answer, Call, Caller, Frame, Violation};

use crate::budget::BudgetShare;
use crate::gate::lock;
use crate::outbox::Outbox;
use crate::slot::Slot;
use crate::spare::SpareBuffers;

type AnswerSlot = Slot<Result<Answer, PeerError>>;

/// Number of bytes that count for an answer other than a piece.
const ANSWER_BYTES: u64 = 256 << 10;

/// Question whose answer is to come.
#[derive(Debug)]
pub(crate) struct Pending(Arc<AnswerSlot>);

impl Pending {
    /// Waits for the answer.
    pub(crate) fn wait(self) -> Result<Answer, PeerError> {
        checked(self.0.wait())
    }

    /// Takes the answer out, if it has come.
    pub(crate) fn try_take(&self) -> Option<Result<Answer, PeerError>> {
        self.0.try_take().map(checked)
    }
}

fn checked(answer: Result<Answer, PeerError>) -> Result<Answer, PeerError> {
    match answer {
        Ok(Answer::Failed { errno }) => Err(PeerError::System(Errno::from_raw(errno.into()))),
        Ok(Answer::ForeignLink { link, owner }) => {
            Err(PeerError::ForeignLink { link: OsString::from_vec(link).into(), owner })
        }
        found => found,
    }
}

#[derive(Debug)]
struct Waiting {
    slot: Arc<AnswerSlot>,
    /// Number of bytes of the answer.
    bytes: u64,
}

#[derive(Debug)]
struct OpenCalls {
    caller: Caller,
    /// Waiting threads by call. A call that nobody waits for has none.
    waiting: HashMap<u32, Waiting>,
    /// Number of bytes of their answers.
    owed: u64,
    /// Description of the end of the connection.
    lost: Option<String>,
}

/// Questions under way.
#[derive(Debug)]
pub(crate) struct Calls {
    open: Mutex<OpenCalls>,
    answered: Condvar,
    outbox: Arc<Outbox>,
    spare: Arc<SpareBuffers>,
}

impl Calls {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Arc<Calls> {
        Calls::with_caller(Caller::new(), outbox, Arc::default())
    }

    /// Makes those of a data connection, which are reads alone.
    pub(crate) fn of_data(outbox: Arc<Outbox>, spare: Arc<SpareBuffers>) -> Arc<Calls> {
        Calls::with_caller(Caller::of_data(), outbox, spare)
    }

    fn with_caller(caller: Caller, outbox: Arc<Outbox>, spare: Arc<SpareBuffers>) -> Arc<Calls> {
        let open = Mutex::new(OpenCalls { caller, waiting: HashMap::new(), owed: 0, lost: None });
        Arc::new(Calls { open, answered: Condvar::new(), outbox, spare })
    }

    /// Returns buffers for answers. Those of pieces that were handed on go there.
    pub(crate) fn spare(&self) -> &Arc<SpareBuffers> {
        &self.spare
    }

    /// Returns the number of bytes of answers that somebody waits for and that have not come.
    pub(crate) fn owed(&self) -> u64 {
        lock(&self.open).owed
    }

    /// Asks, and waits while as many calls are under way as may be. Takes `share` for the answer if it asks.
    pub(crate) fn begin(
        &self,
        call: &Call,
        share: &mut Option<BudgetShare>,
    ) -> Result<Pending, PeerError> {
        let slot = Arc::new(AnswerSlot::new(share.take()));
        match self.send(call, Some(&slot)) {
            Ok(()) => Ok(Pending(slot)),
            Err(error) => {
                *share = Arc::into_inner(slot).and_then(Slot::into_share);
                Err(error)
            }
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&self, call: &Call) -> Result<Answer, PeerError> {
        self.begin(call, &mut None)?.wait()
    }

    /// Asks without waiting for the answer.
    pub(crate) fn notify(&self, call: &Call) {
        // A connection that is lost has no handles any more.
        let _ = self.send(call, None);
    }

    fn send(&self, call: &Call, slot: Option<&Arc<AnswerSlot>>) -> Result<(), PeerError> {
        let mut open = lock(&self.open);
        let (id, frame) = loop {
            if let Some(what) = &open.lost {
                return Err(PeerError::Lost { what: what.clone() });
            }
            match open.caller.call(call) {
                Ok(begun) => break begun,
                Err(Violation::TooManyCalls) => {
                    open = self.answered.wait(open).unwrap_or_else(PoisonError::into_inner);
                }
                Err(violation) => return Err(PeerError::System(errno_of(violation))),
            }
        };
        if let Some(slot) = slot {
            let bytes = answer_bytes(call);
            open.owed += bytes;
            open.waiting.insert(id.number(), Waiting { slot: Arc::clone(slot), bytes });
        }
        // In the order in which the calls were made: a handle is used before it is closed.
        self.outbox.push(frame);
        Ok(())
    }

    /// Hands an answer to who waits for it.
    pub(crate) fn take(&self, frame: Frame) -> Result<(), Violation> {
        let (answer, waiting) = {
            let mut open = lock(&self.open);
            let (id, answer) = open.caller.take(frame)?;
            let waiting = open.waiting.remove(&id.number());
            open.owed -= waiting.as_ref().map_or(0, |waiting| waiting.bytes);
            (answer, waiting)
        };
        self.answered.notify_one();
        if let Some(Waiting { slot, .. }) = waiting {
            slot.fill(Ok(answer));
        }
        Ok(())
    }

    /// Answers every question, also those to come, with the loss of the connection.
    pub(crate) fn lose(&self, what: &str) {
        let waiting = {
            let mut open = lock(&self.open);
            open.lost.get_or_insert_with(|| what.to_owned());
            open.owed = 0;
            std::mem::take(&mut open.waiting)
        };
        self.answered.notify_all();
        for Waiting { slot, .. } in waiting.into_values() {
            slot.fill(Err(PeerError::Lost { what: what.to_owned() }));
        }
    }
}

/// Returns the error number of a question that cannot be asked.
fn errno_of(violation: Violation) -> Errno {
    match violation {
        Violation::BadHandle { .. } => Errno::EBADF,
        _ => Errno::EINVAL,
    }
}

/// Returns the number of bytes that count for the answer to a call.
fn answer_bytes(call: &Call) -> u64 {
    match call {
        Call::Read { bytes, .. } => u64::from(*bytes),
        _ => ANSWER_BYTES,
    }
}
