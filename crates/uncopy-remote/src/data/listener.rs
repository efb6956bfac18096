//! Listener of the far end: one thread accepts, each handshake has a thread of its own, and neither outlives the
//! listener.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection};
use uncopy_core::Errno;
use uncopy_os::epoll::{self, Interest};
use uncopy_os::eventfd;

use super::admission::{
    Admission, AdmissionLimits, AnnounceError, AnnouncementId, Arrival, HandshakeLoss, PendingId,
    Refusals,
};
use super::handshake::{self, HandshakeError};
use super::keys::{KeyError, Pinned};
use super::open::OpenStream;
use super::ports::PortRange;
use super::ssh_connection::{HostAddress, SshConnection};
use super::stream::{DataStream, StreamCutter};
use super::tls;
use super::token::Token;
use crate::gate::lock;

/// Stack of a thread that shakes hands.
const STACK_BYTES: usize = 512 << 10;

/// Pause after a connection could not be accepted for want of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Options of a listener.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Address to listen on.
    pub address: HostAddress,
    /// Address that connections may come from.
    pub peer: HostAddress,
    /// Ports to try.
    pub ports: PortRange,
    /// Maximum number of connections that are announced or open.
    pub max_connections: usize,
    /// Time from an announcement to its connection.
    pub announced: Duration,
    /// Time for a handshake.
    pub handshake: Duration,
}

impl ListenOptions {
    /// Returns options for any free port, four connections, 30 seconds from an announcement and 10 for a handshake.
    #[must_use]
    pub fn new(address: HostAddress, peer: HostAddress) -> ListenOptions {
        ListenOptions {
            address,
            peer,
            ports: PortRange::ANY,
            max_connections: 4,
            announced: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
        }
    }

    /// Returns options for the address that ssh came to, and the one that it came from.
    #[must_use]
    pub fn for_ssh(ssh: &SshConnection) -> ListenOptions {
        ListenOptions::new(ssh.server.clone(), ssh.client.clone())
    }
}

/// Reason why nothing listens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// All ports are in use.
    #[error("ports {first} to {last} of {address} are in use: name others, or 0 for any free one")]
    PortsInUse {
        /// Address to listen on.
        address: String,
        /// First port.
        first: u16,
        /// Last port.
        last: u16,
    },
    /// The address or a port cannot be listened on.
    #[error("cannot listen on {address}: {}: copy through the remote shell alone", .errno.message())]
    Bind {
        /// Address and port.
        address: String,
        /// Error of the system.
        errno: Errno,
    },
    /// Keys cannot be used here.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// A system call failed.
    #[error("cannot {what}: {}: copy through the remote shell alone", .errno.message())]
    System {
        /// The operation.
        what: &'static str,
        /// Error of the system.
        errno: Errno,
    },
}

/// Event of a listener.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenerEvent {
    /// An announced connection stands.
    Connected {
        /// Its announcement.
        announcement: AnnouncementId,
        /// The connection.
        stream: DataStream,
    },
    /// An announced connection without TLS stands.
    ConnectedOpen {
        /// Its announcement.
        announcement: AnnouncementId,
        /// The connection.
        stream: OpenStream,
    },
    /// An announced connection did not come in time, or broke before it could be used. Its place is free.
    Expired {
        /// Its announcement.
        announcement: AnnouncementId,
    },
    /// Nothing happened in the time given.
    TimedOut,
    /// The listener is closed.
    Closed,
}

/// Listener for announced connections. Dropping it closes it; connections that it gave out remain.
#[derive(Debug)]
pub struct DataListener {
    shared: Arc<Shared>,
    address: SocketAddr,
    wake: Arc<OwnedFd>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl DataListener {
    /// Begins to listen. Takes nothing before the first announcement.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind(options: &ListenOptions, keys: &Pinned) -> Result<DataListener, ListenError> {
        let config = Arc::new(tls::server_config(keys)?);
        DataListener::begin(options, Protection::Tls(config))
    }

    /// Begins to listen for connections without TLS, as [`DataListener::bind`] does for those with it.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind_open(options: &ListenOptions) -> Result<DataListener, ListenError> {
        DataListener::begin(options, Protection::Open)
    }

    fn begin(options: &ListenOptions, protection: Protection) -> Result<DataListener, ListenError> {
        let address = |host: &HostAddress| {
            host.with_port(0).map_err(|error| bind_error(host.to_string(), &error))
        };
        let (own, peer) = (address(&options.address)?, address(&options.peer)?);
        let listener = bind_first(own, options.ports)?;
        let address = listener.local_addr().map_err(system("read the port of a listener"))?;

        let waiting = || -> Result<(OwnedFd, OwnedFd), Errno> {
            let (set, wake) = (epoll::create()?, eventfd::create()?);
            let readable = Interest { read: true, ..Interest::default() };
            epoll::add(&set, &listener, 0, readable)?;
            epoll::add(&set, &wake, 1, readable)?;
            Ok((set, wake))
        };
        let what = "wait for data connections";
        let (set, wake) = waiting().map_err(|errno| ListenError::System { what, errno })?;
        let wake = Arc::new(wake);

        let limits = AdmissionLimits {
            connections: options.max_connections,
            announced: options.announced,
            handshake: options.handshake,
        };
        let state = ListenerState {
            admission: Admission::new(peer, limits),
            handshakes: HashMap::new(),
            threads: Vec::new(),
            ready: VecDeque::new(),
            open: HashMap::new(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            started: Instant::now(),
            protection,
        });
        let accepting = Accepting { shared: Arc::clone(&shared), listener, set };
        // The thread holds the event too, so that it is there whenever the set is.
        let held = Arc::clone(&wake);
        let run = move || {
            accepting.run();
            drop(held);
        };
        let thread = named_thread("uncopy-accept").spawn(run);
        let thread = thread.map_err(system("start a thread for data connections"))?;
        Ok(DataListener { shared, address, wake, accepting: Mutex::new(Some(thread)) })
    }

    /// Returns the address and the port that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Expects one more connection. The token goes through the remote shell to the near end, which shows it.
    ///
    /// # Errors
    /// [`AnnounceError`].
    pub fn announce(&self) -> Result<(AnnouncementId, Token), AnnounceError> {
        let token = Token::random().map_err(AnnounceError::Random)?;
        let id = self.shared.state().admission.announce(self.shared.now(), token.clone())?;
        // The time of the next expiry may be another one now.
        self.shared.changed.notify_all();
        Ok((id, token))
    }

    /// Expects another connection in the place of one that the near end knows to be broken, or could not make. Cuts the
    /// old one, if it still stands here.
    ///
    /// # Errors
    /// [`AnnounceError`].
    pub fn announce_again(
        &self,
        broken: AnnouncementId,
    ) -> Result<(AnnouncementId, Token), AnnounceError> {
        self.withdraw(broken);
        self.announce()
    }

    /// Expects a connection no more. Cuts it, if it stands.
    pub fn withdraw(&self, announced: AnnouncementId) {
        let mut state = self.shared.state();
        state.admission.end(announced);
        let cutter = state.open.remove(&announced);
        let place = state.ready.iter().position(|(id, _)| *id == announced);
        let unread = place.and_then(|index| state.ready.remove(index));
        drop(state);
        // Both end streams, which lock the state.
        drop(unread);
        if let Some(cutter) = cutter {
            cutter.cut();
        }
    }

    /// Waits for the next event, at most for `limit`.
    #[must_use]
    pub fn wait(&self, limit: Option<Duration>) -> ListenerEvent {
        let until = limit.map(|limit| self.shared.now().saturating_add(limit));
        let mut state = self.shared.state();
        loop {
            match state.ready.pop_front() {
                Some((announcement, ReadyStream::Tls(stream))) => {
                    return ListenerEvent::Connected { announcement, stream };
                }
                Some((announcement, ReadyStream::Open(stream))) => {
                    return ListenerEvent::ConnectedOpen { announcement, stream };
                }
                None => {}
            }
            let now = self.shared.now();
            if let Some(announcement) = state.admission.take_expired(now) {
                return ListenerEvent::Expired { announcement };
            }
            if state.admission.is_closed() {
                return ListenerEvent::Closed;
            }
            if until.is_some_and(|until| until <= now) {
                return ListenerEvent::TimedOut;
            }
            let next = [until, state.admission.next_expiry()].into_iter().flatten().min();
            state = self.shared.sleep(state, next.map(|next| next.saturating_sub(now)));
        }
    }

    /// Returns how many connections were not taken, by reason.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.shared.state().admission.refusals()
    }

    /// Closes the listener: frees the port, cuts connections in their handshake, drops those that nobody took, and ends
    /// all [`wait`](DataListener::wait)s.
    pub fn close(&self) {
        let mut state = self.shared.state();
        state.admission.close();
        let unread = std::mem::take(&mut state.ready);
        for socket in state.handshakes.values() {
            // Fails if the other end closed it already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(state);
        // Ends streams, which locks the state.
        drop(unread);
        self.shared.changed.notify_all();
        // Fails if it is raised already.
        let _ = eventfd::raise(&*self.wake);
        let accepting = lock(&self.accepting).take();
        let threads = std::mem::take(&mut self.shared.state().threads);
        for thread in accepting.into_iter().chain(threads) {
            // A panic is reported where it happened; nothing of it is needed here.
            let _ = thread.join();
        }
    }
}

impl Drop for DataListener {
    fn drop(&mut self) {
        self.close();
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<ListenerState>,
    changed: Condvar,
    started: Instant,
    protection: Protection,
}

/// Protection of all connections of a listener.
#[derive(Debug)]
enum Protection {
    Tls(Arc<ServerConfig>),
    Open,
}

/// Connection that stands.
#[derive(Debug)]
enum ReadyStream {
    Tls(DataStream),
    Open(OpenStream),
}

impl ReadyStream {
    fn cutter(&self) -> StreamCutter {
        match self {
            ReadyStream::Tls(stream) => stream.cutter(),
            ReadyStream::Open(stream) => stream.cutter(),
        }
    }
}

#[derive(Debug)]
struct ListenerState {
    admission: Admission,
    /// Sockets in their handshake.
    handshakes: HashMap<PendingId, Arc<TcpStream>>,
    /// Threads of handshakes, also of some that are done.
    threads: Vec<JoinHandle<()>>,
    /// Connections that nobody took yet.
    ready: VecDeque<(AnnouncementId, ReadyStream)>,
    /// Cutters of connections that somebody took, or may take.
    open: HashMap<AnnouncementId, StreamCutter>,
}

impl Shared {
    /// Locks the state, which is whole between any two statements.
    fn state(&self) -> MutexGuard<'_, ListenerState> {
        lock(&self.state)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for a change, at most for `limit`.
    fn sleep<'a>(
        &self,
        state: MutexGuard<'a, ListenerState>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, ListenerState> {
        match limit {
            Some(limit) => {
                let waited = self.changed.wait_timeout(state, limit);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Begins the handshake of a connection, or closes it.
    fn arrive(self: &Arc<Self>, socket: TcpStream, from: SocketAddr) {
        let mut state = self.state();
        let arrival = state.admission.arrive(self.now(), from);
        let Arrival::Handshake { id, until, displaces } = arrival else {
            drop(state);
            drop(socket);
            return;
        };
        if let Some(displaced) = displaces.and_then(|id| state.handshakes.remove(&id)) {
            // Its thread ends by that.
            let _ = displaced.shutdown(Shutdown::Both);
        }
        reap(&mut state.threads);
        let socket = Arc::new(socket);
        let pending = PendingHandshake {
            shared: Arc::clone(self),
            id,
            socket: Arc::clone(&socket),
            until: self.started + until,
        };
        match named_thread("uncopy-data").spawn(move || pending.run()) {
            Ok(thread) => {
                state.threads.push(thread);
                state.handshakes.insert(id, socket);
            }
            Err(_) => state.admission.fail(id, HandshakeLoss::Resources),
        }
    }
}

/// Joins threads that have ended.
fn reap(threads: &mut Vec<JoinHandle<()>>) {
    let ended = threads.extract_if(.., |thread| thread.is_finished());
    for thread in ended {
        // A panic is reported where it happened; nothing of it is needed here.
        let _ = thread.join();
    }
}

/// Thread that accepts.
struct Accepting {
    shared: Arc<Shared>,
    listener: TcpListener,
    set: OwnedFd,
}

impl Accepting {
    fn run(&self) {
        while !self.shared.state().admission.is_closed() {
            match self.listener.accept() {
                Ok((socket, from)) => self.shared.arrive(socket, from),
                // A signal ends the wait too; an error of it leaves nothing to wait with.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if epoll::wait(&self.set, None).is_err() {
                        self.pause();
                    }
                }
                Err(error) if is_of_connection(&error) => {}
                Err(_) => self.pause(),
            }
        }
    }

    fn pause(&self) {
        let mut state = self.shared.state();
        state.admission.lack_resources();
        if !state.admission.is_closed() {
            drop(self.shared.sleep(state, Some(PAUSE)));
        }
    }
}

/// Whether an error of accepting is of the connection and not of the listener (accept(2)).
fn is_of_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
}

/// Thread of a handshake.
struct PendingHandshake {
    shared: Arc<Shared>,
    id: PendingId,
    socket: Arc<TcpStream>,
    until: Instant,
}

impl PendingHandshake {
    fn run(self) {
        let shaken = self
            .socket
            .set_nodelay(true)
            .map_err(|_| HandshakeError::Ended)
            .and_then(|()| Shaken::accept(&self.shared.protection, &self.socket, self.until));
        let (mut shaken, token) = match shaken {
            Ok(shaken) => shaken,
            Err(error) => {
                let mut state = self.shared.state();
                state.handshakes.remove(&self.id);
                state.admission.fail(self.id, loss(&error));
                return;
            }
        };
        let proven = self.shared.state().admission.prove(self.shared.now(), self.id, &token);
        let Some(announcement) = proven else {
            shaken.refuse(&self.socket, self.until);
            self.shared.state().handshakes.remove(&self.id);
            return;
        };
        let acknowledged = shaken.acknowledge(&self.socket, self.until);
        let place = OpenPlace { shared: Arc::clone(&self.shared), announcement };
        let stream = shaken.into_stream(Arc::clone(&self.socket), Box::new(place));

        let mut state = self.shared.state();
        state.handshakes.remove(&self.id);
        if acknowledged.is_err() {
            state.admission.lose(announcement);
        } else if state.admission.is_open(announcement) && !state.admission.is_closed() {
            state.open.insert(announcement, stream.cutter());
            state.ready.push_back((announcement, stream));
            self.shared.changed.notify_all();
            return;
        }
        drop(state);
        self.shared.changed.notify_all();
        // Ends the stream, which locks the state.
        drop(stream);
    }
}

/// Connection that has shown a token.
enum Shaken {
    Tls(Box<ServerConnection>),
    Open,
}

impl Shaken {
    fn accept(
        protection: &Protection,
        socket: &TcpStream,
        until: Instant,
    ) -> Result<(Shaken, Token), HandshakeError> {
        match protection {
            Protection::Tls(config) => {
                let (tls, token) = handshake::accept(Arc::clone(config), socket, until)?;
                Ok((Shaken::Tls(Box::new(tls)), token))
            }
            Protection::Open => {
                handshake::accept_open(socket, until).map(|token| (Shaken::Open, token))
            }
        }
    }

    fn acknowledge(&mut self, socket: &TcpStream, until: Instant) -> Result<(), HandshakeError> {
        match self {
            Shaken::Tls(tls) => handshake::acknowledge(tls, socket, until),
            Shaken::Open => handshake::acknowledge_open(socket, until),
        }
    }

    fn refuse(&mut self, socket: &TcpStream, until: Instant) {
        match self {
            Shaken::Tls(tls) => handshake::refuse(tls, socket, until),
            Shaken::Open => handshake::refuse_open(socket, until),
        }
    }

    fn into_stream(self, socket: Arc<TcpStream>, held: Box<OpenPlace>) -> ReadyStream {
        match self {
            Shaken::Tls(tls) => ReadyStream::Tls(DataStream::new(*tls, socket, Some(held))),
            Shaken::Open => ReadyStream::Open(OpenStream::new(socket, Some(held))),
        }
    }
}

fn loss(error: &HandshakeError) -> HandshakeLoss {
    match error {
        HandshakeError::OtherKey | HandshakeError::OwnKeyRefused => HandshakeLoss::OtherKey,
        _ => HandshakeLoss::Handshake,
    }
}

/// Place of an open connection, free again when its stream ends.
struct OpenPlace {
    shared: Arc<Shared>,
    announcement: AnnouncementId,
}

impl Drop for OpenPlace {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.admission.end(self.announcement);
        state.open.remove(&self.announcement);
    }
}

fn named_thread(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES)
}

/// Listens on the first port that is free.
fn bind_first(mut address: SocketAddr, ports: PortRange) -> Result<TcpListener, ListenError> {
    for port in ports.ports() {
        address.set_port(port);
        match TcpListener::bind(address) {
            Ok(listener) => {
                listener.set_nonblocking(true).map_err(system("set a listener up"))?;
                return Ok(listener);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(bind_error(address.to_string(), &error)),
        }
    }
    let (first, last) = ports.ports().into_inner();
    Err(ListenError::PortsInUse { address: address.ip().to_string(), first, last })
}

fn bind_error(address: String, error: &io::Error) -> ListenError {
    ListenError::Bind { address, errno: errno(error) }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ListenError {
    move |error| ListenError::System { what, errno: errno(&error) }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
