//! Data connections of a session at one end: those that stand, and why there are no others.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use uncopy_core::Errno;
use uncopy_wire::{DataLoss, DataRefusal, End, Frames, Session};

use crate::calls::Calls;
use crate::data::DataStream;
use crate::gate::lock;
use crate::lanes::{Lane, Lanes};
use crate::link::{Counts, Link, LinkEnd, LinkParts, OnEnd};
use crate::outbox::Outbox;
use crate::serve::{DataServing, Serving};
use crate::{Limits, RemoteError, Streams, Traffic};

/// Number of bytes that wait to be written to one connection before its next read is begun.
const QUEUED_BYTES: usize = 1 << 20;

/// Length of what crosses through the remote shell before data connections are made: less takes less time than they do.
pub const DATA_FROM_BYTES: u64 = 8 << 20;

/// Reason why bytes go through the remote shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNoData {
    /// The near end wants no data connections.
    NotWanted,
    /// There is too little to copy.
    Small,
    /// The copy was over before one stood.
    TooLate,
    /// The far end offers none.
    Refused(DataRefusal),
    /// None could be made, or none stands any more.
    Lost(DataLoss),
}

impl fmt::Display for WhyNoData {
    /// Says what the reason is, and what can be done.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhyNoData::NotWanted => "the machine of the command line wants none",
            WhyNoData::Small => "there is too little to copy",
            WhyNoData::TooLate => "the copy was over before one stood",
            WhyNoData::Refused(DataRefusal::Policy) => "the settings of the other machine forbid them",
            WhyNoData::Refused(DataRefusal::Settings) => {
                "the settings of the other machine cannot be read: correct them"
            }
            WhyNoData::Refused(DataRefusal::NoAddress) => {
                "the remote shell does not say to which address it came, as ssh does in SSH_CONNECTION"
            }
            WhyNoData::Refused(DataRefusal::PortsInUse) => {
                "all these ports are in use on the other machine: name others, or 0 for any"
            }
            WhyNoData::Refused(DataRefusal::System { errno }) => {
                let message = Errno::from_raw((*errno).into()).message();
                return write!(f, "the other machine cannot listen ({message})");
            }
            WhyNoData::Lost(DataLoss::Proxied) => {
                "the remote shell goes through another machine, which they would go around"
            }
            WhyNoData::Lost(DataLoss::Unresolved) => {
                "the name of the other machine has no address here: name it as the network does"
            }
            WhyNoData::Lost(DataLoss::Refused) => {
                "the other machine refuses them: check its firewall"
            }
            WhyNoData::Lost(DataLoss::TimedOut) => {
                "the other machine does not answer them: let its firewall take their ports"
            }
            WhyNoData::Lost(DataLoss::NoRoute) => "no route leads to the other machine",
            WhyNoData::Lost(DataLoss::Ended) => {
                "the other machine closed them: a relay on the way hides the address of this one"
            }
            WhyNoData::Lost(DataLoss::OtherKey) => {
                "something else answers in place of the other machine"
            }
            WhyNoData::Lost(DataLoss::OwnKeyRefused) => {
                "what listens there serves another copy"
            }
            WhyNoData::Lost(DataLoss::TokenRefused) => "the other machine expects them no more",
            WhyNoData::Lost(DataLoss::Handshake) => "something else listens there: check the ports",
            WhyNoData::Lost(DataLoss::Broken) => "they broke, and none could be made again",
            WhyNoData::Lost(DataLoss::Resources) => {
                "there are not enough descriptors, threads or memory"
            }
            _ => "for a reason that this version does not know",
        })
    }
}

/// Facts about the data connections of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataReport {
    /// Largest number that stood at once.
    pub connections: u32,
    /// Bytes that crossed them, without what TLS adds.
    pub traffic: Traffic,
    /// Bytes that were asked for again, because their connection ended.
    pub resent: u64,
    /// Reason why there are none, or none any more.
    pub why_none: Option<WhyNoData>,
}

/// Part that data connections have in a session.
#[derive(Debug)]
pub(crate) enum DataRole {
    /// Files are asked for over them.
    Asks(Arc<Lanes>),
    /// Files are shown over them.
    Serves(Arc<Serving>),
}

#[derive(Debug, Default)]
struct DataLinksState {
    standing: Vec<Arc<Link>>,
    most: u32,
    is_wanted: bool,
    given_up: Option<WhyNoData>,
    is_over: bool,
}

/// Data connections of a session.
#[derive(Debug)]
pub(crate) struct DataLinks {
    end: End,
    role: DataRole,
    limits: Limits,
    counts: Arc<Counts>,
    state: Mutex<DataLinksState>,
    changed: Condvar,
}

impl DataLinks {
    pub(crate) fn new(end: End, role: DataRole, limits: Limits) -> Arc<DataLinks> {
        let (counts, state) = (Arc::default(), Mutex::default());
        Arc::new(DataLinks { end, role, limits, counts, state, changed: Condvar::new() })
    }

    /// Uses a connection. Calls `on_end` when it ends.
    pub(crate) fn join(
        self: &Arc<DataLinks>,
        stream: DataStream,
        on_end: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), RemoteError> {
        let cutter = stream.cutter();
        let (reader, writer) = stream.into_split();
        let outbox = Arc::new(Outbox::with_limit(QUEUED_BYTES));
        let counts = Arc::clone(&self.counts);
        let mut parts = LinkParts { counts, ..LinkParts::default() };
        let asking = match &self.role {
            DataRole::Asks(_) => {
                parts.calls = Some(Calls::of_data(Arc::clone(&outbox)));
                self.end
            }
            DataRole::Serves(files) => {
                let serving = DataServing::new(Arc::clone(files), Arc::clone(&outbox));
                parts.answering = Some(Arc::new(serving));
                match self.end {
                    End::Near => End::Far,
                    End::Far => End::Near,
                }
            }
        };
        let calls = parts.calls.clone();
        let lane = match (&self.role, calls) {
            (DataRole::Asks(lanes), Some(calls)) => Some((Arc::clone(lanes), Lane::new(calls))),
            _ => None,
        };
        let (links, ending) = (Arc::clone(self), lane.clone());
        parts.on_end = OnEnd::new(move || {
            cutter.cut();
            // Before those who wait for it ask again.
            if let Some((lanes, lane)) = &ending {
                lanes.remove(lane);
            }
            links.forget_ended();
            on_end();
        });
        let session = Session::data(self.end, asking);
        let link = Link::new(self.limits, session, outbox, parts);
        link.start(Streams::new(reader, writer), Frames::default(), Box::new(|_| ()))?;
        {
            let mut state = lock(&self.state);
            if state.is_over {
                drop(state);
                link.finish(&session_over());
                return Ok(());
            }
            // It may have ended already.
            if link.end().is_none() {
                if let Some((lanes, lane)) = lane {
                    lanes.add(lane);
                }
                state.standing.push(Arc::clone(&link));
                state.most = state.most.max(state.standing.len() as u32);
            }
        }
        self.changed.notify_all();
        // Its end may have come between the two.
        if link.end().is_some() {
            self.forget_ended();
        }
        Ok(())
    }

    fn forget_ended(&self) {
        lock(&self.state).standing.retain(|link| link.end().is_none());
    }

    /// Notes that connections are wanted.
    pub(crate) fn want(&self) {
        lock(&self.state).is_wanted = true;
    }

    /// Notes that no connection will be made any more.
    pub(crate) fn give_up(&self, why: WhyNoData) {
        lock(&self.state).given_up.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Returns the reason why no connection will be made any more.
    pub(crate) fn given_up(&self) -> Option<WhyNoData> {
        lock(&self.state).given_up
    }

    /// Whether a connection has stood.
    pub(crate) fn has_stood(&self) -> bool {
        lock(&self.state).most > 0
    }

    /// Whether the session is over.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.state).is_over
    }

    /// Waits until a connection has stood, none will be made any more, or the session is over, but no longer than this.
    pub(crate) fn wait_for_first(&self, limit: Duration) {
        let state = lock(&self.state);
        let waits = |state: &mut DataLinksState| {
            state.most == 0 && state.given_up.is_none() && !state.is_over
        };
        // The caller looks at what there is.
        drop(
            self.changed
                .wait_timeout_while(state, limit, waits)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Ends all connections, also those to come.
    pub(crate) fn close(&self) {
        let standing = {
            let mut state = lock(&self.state);
            state.is_over = true;
            std::mem::take(&mut state.standing)
        };
        self.changed.notify_all();
        for link in standing {
            link.finish(&session_over());
        }
    }

    /// Returns what is known. `crossed` is the traffic of the session's own streams.
    pub(crate) fn report(&self, crossed: Traffic) -> DataReport {
        let state = lock(&self.state);
        let is_small = crossed.sent.max(crossed.received) < DATA_FROM_BYTES;
        let why_none = match (state.given_up, state.most, state.is_wanted) {
            (Some(why), ..) => Some(why),
            (None, 1.., _) => None,
            (None, 0, true) => Some(WhyNoData::TooLate),
            (None, 0, false) if is_small => Some(WhyNoData::Small),
            (None, 0, false) => Some(WhyNoData::NotWanted),
        };
        let resent = match &self.role {
            DataRole::Asks(lanes) => lanes.resent(),
            DataRole::Serves(_) => 0,
        };
        DataReport { connections: state.most, traffic: self.counts.traffic(), resent, why_none }
    }
}

fn session_over() -> LinkEnd {
    LinkEnd::Failed(RemoteError::Lost { what: "the session has ended".to_owned() })
}
