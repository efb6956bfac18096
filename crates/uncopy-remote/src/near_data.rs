//! Data connections of the near end: it wants them, connects, and has those that end announced anew.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use uncopy_wire::{
    DataAnnouncement, DataLoss, DataLost, DataSecurity, DataWish, MAX_DATA_CONNECTIONS, Message,
};

use crate::RemoteError;
use crate::data::{
    self, ConnectFailure, DataStream, EndKeys, OpenStream, Pinned, PortRange, PublicKey, Token,
};
use crate::data_links::{DATA_FROM_BYTES, DataLinks, DataWay, WhyNoData};
use crate::link::{Link, spawn};

/// Interval at which it is looked how much has crossed.
const INTERVAL: Duration = Duration::from_millis(20);
/// Round trip from which on the other machine is far: connections are worth their time before much has crossed, since one
/// stream of the remote shell has a window of its own.
const FAR: Duration = Duration::from_millis(10);
/// Number of bytes that go through the remote shell before connections to a far machine are made.
const FAR_FROM_BYTES: u64 = 256 << 10;
/// Pause before the first connection in place of a lost one; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Number of times that the pause doubles.
const DOUBLINGS: u32 = 6;
/// Number of times in a row that a connection is tried again that the far end did not expect.
const TRIES: u32 = 3;

/// Returns the number of bytes behind which connections are made.
fn made_behind(start: DataStart, round_trip: Option<Duration>) -> u64 {
    match start {
        DataStart::First => 0,
        DataStart::Behind { bytes } => bytes,
        DataStart::Worthwhile if round_trip.is_some_and(|time| time >= FAR) => FAR_FROM_BYTES,
        DataStart::Worthwhile => DATA_FROM_BYTES,
    }
}

/// Time at which data connections are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataStart {
    /// When there is enough to copy: [`DATA_FROM_BYTES`] have gone through the remote shell, or 256 KiB to a machine with a
    /// round trip of 10 ms or more.
    Worthwhile,
    /// When this number of bytes has gone through the remote shell.
    Behind {
        /// Number of bytes.
        bytes: u64,
    },
    /// At the beginning: the job waits for the first one, and fails without.
    First,
}

/// Finds addresses of the far machine, as the remote shell connects to it; their ports do not matter.
pub type AddressLookup = Box<dyn FnOnce() -> Result<Vec<SocketAddr>, DataLoss> + Send>;

/// Options of data connections.
pub struct DataOptions {
    /// Their kind.
    pub way: DataWay,
    /// Time at which they are made.
    pub start: DataStart,
    /// Number of connections, 1 to [`MAX_DATA_CONNECTIONS`].
    pub connections: u8,
    /// Ports on which the far end listens.
    pub ports: PortRange,
    /// Time for one connection.
    pub limit: Duration,
    /// Lookup of the far machine.
    pub lookup: AddressLookup,
}

impl DataOptions {
    /// Number of connections if none is given. One is as quick as a core encrypts, which is several times what one core
    /// of ssh does; more than a few keep more cores busy than a copy has.
    pub const CONNECTIONS: u8 = 4;

    /// Returns options for four connections with TLS to any port, once there is enough to copy.
    #[must_use]
    pub fn new(lookup: AddressLookup) -> DataOptions {
        DataOptions {
            way: DataWay::Tls,
            start: DataStart::Worthwhile,
            connections: DataOptions::CONNECTIONS,
            ports: PortRange::ANY,
            limit: Duration::from_secs(10),
            lookup,
        }
    }
}

impl fmt::Debug for DataOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataOptions")
            .field("way", &self.way)
            .field("start", &self.start)
            .field("connections", &self.connections)
            .field("ports", &self.ports)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Connection that was made.
#[derive(Debug)]
enum MadeStream {
    Tls(DataStream),
    Open(OpenStream),
}

/// Protection of the connections of this end.
#[derive(Debug, Clone)]
enum NearSecurity {
    Tls(EndKeys),
    Open,
}

impl NearSecurity {
    fn way(&self) -> DataWay {
        match self {
            NearSecurity::Tls(_) => DataWay::Tls,
            NearSecurity::Open => DataWay::Open,
        }
    }
}

/// Event for the thread that makes connections.
#[derive(Debug)]
enum Event {
    Message(Message),
    /// The far end took the job.
    Accepted,
    /// A connection was made, or not.
    Made {
        number: u32,
        result: Result<MadeStream, DataLoss>,
    },
    /// A connection that stood has ended.
    Ended {
        number: u32,
    },
    /// The session has ended.
    Over,
}

/// Receiver of what the far end says about data connections.
#[derive(Debug, Clone)]
pub(crate) struct NearData {
    events: Sender<Event>,
}

impl NearData {
    /// Takes a message; gives it back if it is about something else.
    pub(crate) fn take(&self, message: Message) -> Option<Message> {
        match message {
            Message::DataOffered(_) | Message::DataRefused(_) | Message::DataAnnounced(_) => {
                // The thread is gone when no connection is made any more.
                let _ = self.events.send(Event::Message(message));
                None
            }
            Message::Accepted { .. } => {
                let _ = self.events.send(Event::Accepted);
                Some(message)
            }
            other => Some(other),
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        let _ = self.events.send(Event::Over);
    }
}

/// Data connections that are about to be wanted.
#[derive(Debug)]
pub(crate) struct DataBeginning {
    security: NearSecurity,
    options: DataOptions,
    events: Receiver<Event>,
    near: NearData,
}

impl DataBeginning {
    /// Makes the keys.
    pub(crate) fn new(mut options: DataOptions) -> Result<DataBeginning, RemoteError> {
        options.connections = options.connections.clamp(1, MAX_DATA_CONNECTIONS);
        let security = match options.way {
            DataWay::Tls => NearSecurity::Tls(EndKeys::generate()?),
            DataWay::Open => NearSecurity::Open,
        };
        let (events, received) = mpsc::channel();
        Ok(DataBeginning { security, options, events: received, near: NearData { events } })
    }

    /// Returns the receiver of messages.
    pub(crate) fn near(&self) -> NearData {
        self.near.clone()
    }

    /// Returns the kind of the connections.
    pub(crate) fn way(&self) -> DataWay {
        self.security.way()
    }

    /// Whether the job waits for the first connection.
    pub(crate) fn is_first(&self) -> bool {
        self.options.start == DataStart::First
    }

    /// Returns the message that asks for connections.
    pub(crate) fn wish(&self) -> Message {
        let ports = self.options.ports.ports();
        let security = match &self.security {
            NearSecurity::Tls(keys) => DataSecurity::Tls { key: *keys.public().as_bytes() },
            NearSecurity::Open => DataSecurity::Open,
        };
        Message::DataWanted(DataWish {
            security,
            connections: self.options.connections,
            first_port: *ports.start(),
            last_port: *ports.end(),
        })
    }

    /// Starts the thread that makes connections. It ends with the session, or when none is made any more.
    pub(crate) fn start(self, link: Arc<Link>, links: Arc<DataLinks>) -> Result<(), RemoteError> {
        spawn("data", move || Connecting::run(self, link, links))
    }
}

/// Machine that connections go to.
#[derive(Debug, Clone)]
struct Target {
    addresses: Vec<SocketAddr>,
    /// Keys of connections with TLS.
    pinned: Option<Pinned>,
}

impl Target {
    fn connect(&self, token: &Token, limit: Duration) -> Result<MadeStream, ConnectFailure> {
        match &self.pinned {
            Some(keys) => data::connect(&self.addresses, keys, token, limit).map(MadeStream::Tls),
            None => data::connect_open(&self.addresses, token, limit).map(MadeStream::Open),
        }
    }
}

/// Thread that makes connections.
struct Connecting {
    link: Arc<Link>,
    links: Arc<DataLinks>,
    near: NearData,
    limit: Duration,
    connections: u8,
    /// Connections that stand or are being made.
    pursued: u8,
    /// Number of connections that were tried again since the last one that was made.
    tries: u32,
    /// Number of connections that ended.
    ended: u32,
}

impl Connecting {
    fn run(beginning: DataBeginning, link: Arc<Link>, links: Arc<DataLinks>) {
        if !beginning.is_first() {
            let (begin, start) = (Instant::now(), beginning.options.start);
            let mut round_trip = None;
            loop {
                let traffic = link.traffic();
                if traffic.sent.max(traffic.received) >= made_behind(start, round_trip) {
                    break;
                }
                match beginning.events.recv_timeout(INTERVAL) {
                    Err(RecvTimeoutError::Timeout) => {}
                    // It answers the job, which was sent just before.
                    Ok(Event::Accepted) => round_trip = Some(begin.elapsed()),
                    _ => return,
                }
            }
            if link.send(&beginning.wish()).is_err() {
                return;
            }
            links.want(beginning.way());
        }
        let DataBeginning { security, options, events, near } = beginning;
        let DataOptions { connections, limit, lookup, .. } = options;
        let mut connecting = Connecting {
            link,
            links,
            near,
            limit,
            connections,
            pursued: connections,
            tries: 0,
            ended: 0,
        };
        let (mut lookup, mut target) = (Some(lookup), Err(DataLoss::Unresolved));
        while let Ok(event) = events.recv() {
            match event {
                Event::Message(Message::DataRefused(refusal)) => {
                    return connecting.links.give_up(WhyNoData::Refused(refusal));
                }
                Event::Message(Message::DataOffered(offer)) => {
                    let found = lookup.take().map_or(Err(DataLoss::Unresolved), |find| find());
                    target = found.map(|mut addresses| {
                        addresses.iter_mut().for_each(|address| address.set_port(offer.port));
                        // The session lets no offer of another kind through.
                        let pinned = match (&security, offer.security) {
                            (NearSecurity::Tls(keys), DataSecurity::Tls { key }) => {
                                Some(keys.pin(PublicKey::from_bytes(key)))
                            }
                            _ => None,
                        };
                        Target { addresses, pinned }
                    });
                }
                Event::Message(Message::DataAnnounced(announced)) => match &target {
                    Ok(target) => connecting.connect(target.clone(), announced),
                    Err(loss) => connecting.lose(announced.number, *loss, false),
                },
                Event::Made { number, result: Ok(stream) } => connecting.join(number, stream),
                Event::Made { number, result: Err(loss) } => connecting.fail(number, loss),
                Event::Ended { number } => {
                    connecting.ended += 1;
                    connecting.lose(number, DataLoss::Broken, true);
                }
                Event::Message(_) | Event::Accepted => {}
                Event::Over => return,
            }
            if connecting.pursued == 0 || connecting.links.is_over() {
                return;
            }
        }
    }

    fn connect(&mut self, target: Target, announced: DataAnnouncement) {
        let DataAnnouncement { number, token } = announced;
        // All may end at once.
        let again = self.tries + self.ended.div_ceil(self.connections.into());
        let pause = match again {
            0 => Duration::ZERO,
            _ => FIRST_PAUSE * 2_u32.pow(again.min(DOUBLINGS)),
        };
        let (near, limit) = (self.near.clone(), self.limit);
        let started = spawn("connect", move || {
            thread::sleep(pause);
            let made = target.connect(&Token::from_bytes(token), limit);
            let result = made.map_err(|failure| loss_of(&failure));
            // The session may have ended meanwhile.
            let _ = near.events.send(Event::Made { number, result });
        });
        if started.is_err() {
            self.lose(number, DataLoss::Resources, false);
        }
    }

    fn join(&mut self, number: u32, stream: MadeStream) {
        self.tries = 0;
        let near = self.near.clone();
        let on_end = move || drop(near.events.send(Event::Ended { number }));
        // One that cannot be started ends at once.
        let _ = match stream {
            MadeStream::Tls(stream) => self.links.join(stream, on_end),
            MadeStream::Open(stream) => self.links.join_open(number, stream, on_end),
        };
    }

    fn fail(&mut self, number: u32, loss: DataLoss) {
        let is_late = matches!(loss, DataLoss::TokenRefused | DataLoss::Ended);
        let is_back = self.links.has_stood() && loss != DataLoss::OtherKey;
        self.tries += 1;
        self.lose(number, loss, (is_late || is_back) && self.tries <= TRIES);
    }

    /// Gives a connection up, or asks for another one in its place.
    fn lose(&mut self, number: u32, why: DataLoss, again: bool) {
        if self.links.is_over() {
            return;
        }
        let lost = |again| Message::DataLost(DataLost { number, why, again });
        // There are only so many in a session.
        if again && self.link.send(&lost(true)).is_ok() {
            return;
        }
        // The session may have ended.
        let _ = self.link.send(&lost(false));
        self.pursued = self.pursued.saturating_sub(1);
        if self.pursued == 0 {
            self.links.give_up(WhyNoData::Lost(why));
        }
    }
}

fn loss_of(failure: &ConnectFailure) -> DataLoss {
    match failure {
        ConnectFailure::NoAddress => DataLoss::Unresolved,
        ConnectFailure::NoRoute { .. } => DataLoss::NoRoute,
        ConnectFailure::Refused { .. } => DataLoss::Refused,
        ConnectFailure::TimedOut { .. } => DataLoss::TimedOut,
        ConnectFailure::Ended { .. } => DataLoss::Ended,
        ConnectFailure::Handshake { .. } => DataLoss::Handshake,
        ConnectFailure::OtherKey { .. } => DataLoss::OtherKey,
        ConnectFailure::OwnKeyRefused { .. } => DataLoss::OwnKeyRefused,
        ConnectFailure::TokenRefused { .. } => DataLoss::TokenRefused,
        ConnectFailure::Keys(_) | ConnectFailure::System { .. } => DataLoss::Resources,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_to_a_far_machine_are_made_earlier_if_nobody_says_when() {
        let near = Some(FAR - Duration::from_millis(1));
        let behind = DataStart::Behind { bytes: 7 };
        for (start, round_trip, expected) in [
            (DataStart::Worthwhile, None, DATA_FROM_BYTES),
            (DataStart::Worthwhile, near, DATA_FROM_BYTES),
            (DataStart::Worthwhile, Some(FAR), FAR_FROM_BYTES),
            (behind, Some(FAR), 7),
            (behind, near, 7),
            (DataStart::First, None, 0),
        ] {
            assert_eq!(made_behind(start, round_trip), expected, "{start:?} {round_trip:?}");
        }
    }
}
