//! Data connections of a session at one end: those that stand, and why there are no others.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use uncopy_core::Errno;
use uncopy_wire::{DataLoss, DataRefusal, End, Frames, Session};

use crate::calls::Calls;
use crate::data::{DataStream, OpenStream};
use crate::gate::lock;
use crate::input::Directions;
use crate::lanes::{Lane, Lanes};
use crate::link::{Counts, Link, LinkEnd, LinkParts, OnEnd, spawn};
use crate::open_life::OpenLife;
use crate::open_receiver::OpenReceiver;
use crate::outbox::Outbox;
use crate::serve::{DataServing, OpenSender, Serving};
use crate::{Limits, RemoteError, Traffic};

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
    /// Something on the way changed bytes of all that were used.
    Altered,
    /// The program at the far end is too old for open ones.
    TooOld,
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
            WhyNoData::Altered => {
                "something on the way changed their bytes: look for it, or use connections with TLS"
            }
            WhyNoData::TooOld => {
                "the program there is too old for open ones: install the same version of uncopy there"
            }
            _ => "for a reason that this version does not know",
        })
    }
}

/// Kind of data connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DataWay {
    /// With TLS.
    #[default]
    Tls,
    /// In the clear: whoever is on the way can read the bytes. Their digests come through the remote shell.
    Open,
}

/// Facts about the data connections of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataReport {
    /// Kind of connections that were wanted last.
    pub way: DataWay,
    /// Largest number that stood at once.
    pub connections: u32,
    /// Bytes that crossed them, without what TLS adds.
    pub traffic: Traffic,
    /// Bytes that were asked for again, because their connection ended or they were changed on the way.
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

/// Data connection that is used, or about to be.
#[derive(Debug)]
enum Standing {
    Tls(Arc<Link>),
    Open(Arc<OpenLife>),
}

impl Standing {
    fn has_ended(&self) -> bool {
        match self {
            Standing::Tls(link) => link.end().is_some(),
            Standing::Open(life) => life.has_ended(),
        }
    }

    fn is_ready(&self) -> bool {
        match self {
            Standing::Tls(_) => true,
            Standing::Open(life) => life.is_ready(),
        }
    }

    fn finish(&self) {
        match self {
            Standing::Tls(link) => link.finish(&session_over()),
            Standing::Open(life) => life.end(),
        }
    }
}

#[derive(Debug, Default)]
struct DataLinksState {
    way: DataWay,
    standing: Vec<Standing>,
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
            DataRole::Asks(lanes) => {
                let spare = Arc::clone(lanes.spare());
                parts.calls = Some(Calls::of_data(Arc::clone(&outbox), spare));
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
        let directions = Directions { input: Box::new(reader), output: Box::new(writer) };
        link.start(directions, Frames::default(), Box::new(|_| ()))?;
        if self.hold(Standing::Tls(Arc::clone(&link))) {
            let lane = lane.as_ref().map(|(lanes, lane)| (&**lanes, lane));
            self.begin_use(|| link.end().is_none(), lane);
        }
        Ok(())
    }

    /// Uses an open connection, of this announcement. Calls `on_end` when it ends.
    pub(crate) fn join_open(
        self: &Arc<DataLinks>,
        number: u32,
        stream: OpenStream,
        on_end: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), RemoteError> {
        let (limit, counts) = (self.limits.silence, Arc::clone(&self.counts));
        let cutter = stream.cutter();
        match &self.role {
            DataRole::Asks(lanes) => {
                let (session, spare) = (Arc::clone(lanes.session()), Arc::clone(lanes.spare()));
                let receiver =
                    OpenReceiver::new(number, session, spare, cutter.clone(), limit, counts);
                let receiver = Arc::new(receiver);
                let lane = Lane::open(Arc::clone(&receiver));
                let (links, lanes) = (Arc::clone(self), Arc::clone(lanes));
                let (ending, ended) = (lane.clone(), Arc::clone(&receiver));
                let using = lanes.clone();
                let life = Arc::new(OpenLife::new(
                    cutter,
                    OnEnd::new(move || {
                        // Before those who wait for it ask again.
                        lanes.remove(&ending);
                        ended.close();
                        links.forget_ended();
                        on_end();
                    }),
                ));
                if !self.hold(Standing::Open(Arc::clone(&life))) {
                    return Ok(());
                }
                let (links, run) = (Arc::clone(self), Arc::clone(&life));
                spawn("receive", move || {
                    if receiver.wait_until_ready(stream.socket()) {
                        run.begin();
                        links.begin_use(|| !run.has_ended(), Some((&using, &lane)));
                        receiver.run(stream.socket());
                    }
                    run.end();
                })
                .inspect_err(|_| life.end())
            }
            DataRole::Serves(files) => {
                let sender = Arc::new(OpenSender::new(limit, counts));
                let (links, ended) = (Arc::clone(self), Arc::clone(&sender));
                let serving = Arc::clone(files);
                let life = Arc::new(OpenLife::new(
                    cutter,
                    OnEnd::new(move || {
                        serving.remove_sender(number);
                        ended.close(&serving);
                        links.forget_ended();
                        on_end();
                    }),
                ));
                if !self.hold(Standing::Open(Arc::clone(&life))) {
                    return Ok(());
                }
                files.add_sender(number, Arc::clone(&sender));
                life.begin();
                self.begin_use(|| !life.has_ended(), None);
                let stream = Arc::new(stream);
                let (watched, watching) = (Arc::clone(&stream), Arc::clone(&life));
                let watch = move || {
                    OpenSender::watch(watched.socket());
                    watching.end();
                };
                let (serving, sending) = (Arc::clone(files), Arc::clone(&life));
                let send = move || {
                    sender.run(&serving, stream.socket());
                    sending.end();
                };
                let started = spawn("watch", watch).and_then(|()| spawn("send", send));
                started.inspect_err(|_| life.end())
            }
        }
    }

    /// Holds a connection. `false`: the session is over, and it has been ended.
    fn hold(&self, standing: Standing) -> bool {
        let mut state = lock(&self.state);
        if state.is_over {
            drop(state);
            standing.finish();
            return false;
        }
        state.standing.push(standing);
        true
    }

    /// Begins to use a connection that is held, unless it has ended.
    fn begin_use(&self, stands: impl Fn() -> bool, lane: Option<(&Lanes, &Arc<Lane>)>) {
        {
            let mut state = lock(&self.state);
            if stands() {
                if let Some((lanes, lane)) = lane {
                    lanes.add(Arc::clone(lane));
                }
                let ready = state.standing.iter().filter(|standing| standing.is_ready()).count();
                state.most = state.most.max(ready as u32);
            }
        }
        self.changed.notify_all();
        // Its end may have come between the two.
        if !stands() {
            if let Some((lanes, lane)) = lane {
                lanes.remove(lane);
            }
            self.forget_ended();
        }
    }

    fn forget_ended(&self) {
        lock(&self.state).standing.retain(|standing| !standing.has_ended());
    }

    /// Notes that connections of this kind are wanted.
    pub(crate) fn want(&self, way: DataWay) {
        let mut state = lock(&self.state);
        (state.way, state.is_wanted) = (way, true);
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
        standing.iter().for_each(Standing::finish);
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
        let (resent, are_distrusted) = match &self.role {
            DataRole::Asks(lanes) => (lanes.resent(), lanes.are_distrusted()),
            DataRole::Serves(_) => (0, false),
        };
        let why_none = why_none.or(are_distrusted.then_some(WhyNoData::Altered));
        DataReport {
            way: state.way,
            connections: state.most,
            traffic: self.counts.traffic(),
            resent,
            why_none,
        }
    }
}

fn session_over() -> LinkEnd {
    LinkEnd::Failed(RemoteError::Lost { what: "the session has ended".to_owned() })
}
