//! Sends for tasks of a Tokio runtime.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;

use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

use super::counters::Counters;
use super::release::{Release, SendId};
use super::returned::reads_as_its_error;
use super::sender::{Sender, Sending};
use super::transmitter::Progress;
use crate::room::inet::Transport;
use crate::room::{Payload, StableBytes};
use uncopy_core::{Error, Reason, Result};
use uncopy_os::epoll::{self, Interest};
use uncopy_os::fork::Generation;
use uncopy_os::reactor::{self, Watched};

/// A [`Sender`] whose operations wait without blocking the thread, for tasks of a Tokio runtime.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(async {
/// use uncopy::send::{AsyncSender, InetSocket, Sender, SenderOptions};
///
/// let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
/// let socket = InetSocket::connect_udp(receiver.local_addr().unwrap())?;
/// let sender = AsyncSender::new(Sender::new(socket, &SenderOptions::default()));
///
/// let (sent, buffer) = sender.send(b"sixteen bytes..!".to_vec()).await;
/// assert_eq!(sent?, 16);
/// let release = buffer.release().await?;
/// assert_eq!(release.payload.into_one().unwrap(), b"sixteen bytes..!");
/// # Ok::<(), uncopy::Error>(())
/// # }).unwrap();
/// ```
///
/// Any number of tasks may use it at once; sends go one after the other, in the order in which they
/// were first polled.
///
/// # Cancelling
/// Every future may be dropped at any moment. A send that has not begun is not made. One that has
/// begun, on a stream that is full, is finished before the next begins, so that no message is cut
/// off; its buffers are dropped when they are released. Nothing is ever released early. If no send
/// comes after it and the sender is dropped, the connection is aborted: the peer reads a reset, and no
/// end behind half a message.
///
/// [`SenderOptions::send_timeout`](super::SenderOptions::send_timeout) has no meaning here: put the
/// future into `tokio::time::timeout`.
///
/// What was lent cannot be touched, before the future is polled or after it was dropped:
/// ```compile_fail,E0382
/// # async fn of(sender: uncopy::send::AsyncSender<Vec<u8>>) {
/// let buffer = vec![0; 4096];
/// drop(sender.send(buffer));
/// println!("{}", buffer[0]);
/// # }
/// ```
///
/// # Fork
/// As for a [`Sender`]: in a child made by `fork(2)` without `exec` every operation is refused
/// ([`Reason::Forked`]), and dropping closes descriptors and does nothing else.
///
/// # Panics
/// A future that has to wait panics outside a Tokio runtime, and in one that was built without
/// `enable_io`.
pub struct AsyncSender<B: StableBytes> {
    core: Arc<Core<B>>,
}

struct Core<B: StableBytes> {
    /// In a forked child another thread may have held the locks.
    generation: Generation,
    state: Mutex<SenderState<B>>,
    /// Held by the task whose send is under way.
    turn: tokio::sync::Mutex<()>,
    /// Releases have come for others than the task that read them.
    news: Notify,
    /// Readable when the socket has room.
    room: OnceLock<Watched>,
    /// Readable when something is in the error queue.
    reports: OnceLock<Watched>,
}

struct SenderState<B: StableBytes> {
    sender: Sender<B>,
    /// The send under way, or one whose future was dropped in the middle.
    current: Option<Sending>,
    /// Releases that were not asked for yet.
    released: HashMap<u64, Release<B>>,
    /// Sends whose buffers nobody wants back.
    abandoned: HashSet<u64>,
}

/// A wait for buffers that failed, with what they can be waited for by again.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotReleased<B: StableBytes> {
    /// The buffers, still on their way.
    pub pending: Pending<B>,
    /// Why.
    pub error: Error,
}

reads_as_its_error!(NotReleased);

/// Buffers on their way: what a send leaves behind. If it is dropped, they are dropped too, at the
/// first send or release after the kernel has released them.
pub struct Pending<B: StableBytes> {
    core: Arc<Core<B>>,
    number: u64,
}

impl<B: StableBytes> AsyncSender<B> {
    /// Makes a sender for the tasks of the runtime in which it first waits.
    #[must_use]
    pub fn new(sender: Sender<B>) -> AsyncSender<B> {
        let (current, released, abandoned) = Default::default();
        let state = SenderState { sender, current, released, abandoned };
        let (turn, news, room, reports) = Default::default();
        let (generation, state) = (Generation::current(), Mutex::new(state));
        AsyncSender { core: Arc::new(Core { generation, state, turn, news, room, reports }) }
    }

    /// Sends one buffer or several, as one datagram or behind what was sent before, all of it.
    /// Returns the result, and the claim on the buffers.
    ///
    /// # Errors
    /// As [`Sender::send`].
    ///
    /// # Ownership
    /// The buffers come back from [`Pending::release`], also after an error. In a forked child they are
    /// dropped.
    ///
    /// # Cancel safety
    /// A send that has not begun is not made, and its buffers are dropped. One that has begun is finished
    /// before the next; see [Cancelling](Self#cancelling).
    pub async fn send(&self, payload: impl Into<Payload<B>>) -> (Result<usize>, Pending<B>) {
        self.send_message(payload.into(), None).await
    }

    /// Sends a datagram to `to`, from a UDP socket, whether or not it is connected.
    ///
    /// As for [`send`](Self::send): errors, ownership and cancel safety.
    pub async fn send_to(
        &self,
        payload: impl Into<Payload<B>>,
        to: SocketAddr,
    ) -> (Result<usize>, Pending<B>) {
        self.send_message(payload.into(), Some(to)).await
    }

    async fn send_message(
        &self,
        payload: Payload<B>,
        to: Option<SocketAddr>,
    ) -> (Result<usize>, Pending<B>) {
        // No send has this number.
        let refused = |error| (Err(error), Pending { core: self.core.clone(), number: u64::MAX });
        if let Err(error) = self.core.check_owner("send to") {
            return refused(error);
        }
        // A task that always finds room lets others run all the same.
        consume_budget().await;
        let _turn = self.core.turn.lock().await;
        if let Err(error) = self.core.check_owner("send to") {
            return refused(error);
        }
        // One that was left in the middle. What became of it nobody asks any more.
        let _ = self.core.finish().await;
        let collected = self.core.state().collect();
        let number = {
            let mut state = self.core.state();
            let decision = state.sender.decide(payload.len(), to);
            let sending = state.sender.begin(payload, to, decision);
            let number = sending.transmission.number;
            state.current = Some(sending);
            number
        };
        let pending = Pending { core: self.core.clone(), number };
        self.core.news.notify_waiters();
        // An error shows with the release.
        drop(collected);
        let result = self.core.finish().await;
        (result, pending)
    }

    /// Returns the totals of the sends so far; nothing in a forked child.
    #[must_use]
    pub fn counters(&self) -> Counters {
        if self.core.is_inherited() {
            return Counters::default();
        }
        self.core.state().sender.counters().clone()
    }
}

impl<B: StableBytes> Core<B> {
    fn is_inherited(&self) -> bool {
        self.generation != Generation::current()
    }

    fn check_owner(&self, operation: &'static str) -> Result<()> {
        match self.is_inherited() {
            true => Err(Error::new(operation, "a socket", Reason::Forked)),
            false => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, SenderState<B>> {
        // Whole also after a panic: what the kernel may read is in the flight of the sender.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the rest of the send under way. Gives the bytes of it that were sent.
    async fn finish(&self) -> Result<usize> {
        loop {
            // Also after a wait that began in the parent.
            self.check_owner("send to")?;
            if let Some(result) = self.state().advance() {
                return result;
            }
            let interest = Interest { write: true, ..Interest::default() };
            let room = self.watch(&self.room, interest)?;
            let mut sign = room.readable().await.map_err(|error| unwatched(&error))?;
            self.check_owner("send to")?;
            if let Some(result) = self.state().advance() {
                return result;
            }
            // A sign that came after the attempt stays.
            sign.clear_ready();
        }
    }

    /// A set of the socket in the runtime's own. The socket itself must not be: a report in its
    /// error queue looks there like a connection that can never be written to again.
    fn watch<'a>(&self, place: &'a OnceLock<Watched>, interest: Interest) -> Result<&'a Watched> {
        if let Some(watched) = place.get() {
            return Ok(watched);
        }
        let state = self.state();
        let set = epoll::set_of(state.sender.socket().fd(), interest)
            .map_err(|errno| state.sender.socket().error("watch", errno))?;
        let watched = reactor::watch(Arc::new(set)).map_err(|error| unwatched(&error))?;
        Ok(place.get_or_init(|| watched))
    }
}

fn unwatched(error: &std::io::Error) -> Error {
    Error::new("watch", "a socket", Reason::Refused(error.to_string().into()))
}

impl<B: StableBytes> Drop for SenderState<B> {
    fn drop(&mut self) {
        let is_cut_off = self.current.as_ref().is_some_and(|sending| sending.transmission.done > 0);
        if is_cut_off && self.sender.transport() == Transport::Tcp {
            self.sender.abort();
        }
    }
}

impl<B: StableBytes> SenderState<B> {
    /// Goes on with the send under way; `None`: there is no room.
    fn advance(&mut self) -> Option<Result<usize>> {
        let Some(mut sending) = self.current.take() else { return Some(Ok(0)) };
        let result = match self.sender.advance(&mut sending) {
            Progress::Done => Ok(sending.transmission.done),
            Progress::Failed(errno) => Err(self.sender.refusal_of(sending.transmission.to, errno)),
            Progress::WaitForRoom => {
                self.current = Some(sending);
                return None;
            }
        };
        self.sender.end(&sending, result.is_ok());
        Some(result)
    }

    /// Takes what has been released; gives what nobody wants, to be dropped without the lock.
    fn collect(&mut self) -> Result<Vec<Release<B>>> {
        let mut unwanted = Vec::new();
        while let Some(release) = self.sender.next_release()? {
            let number = release.id.get();
            match self.abandoned.remove(&number) {
                true => unwanted.push(release),
                false => drop(self.released.insert(number, release)),
            }
        }
        Ok(unwanted)
    }
}

impl<B: StableBytes> Pending<B> {
    /// Returns which send it is of.
    #[must_use]
    pub fn id(&self) -> SendId {
        SendId(self.number)
    }

    /// Waits until nothing reads the buffers any more, and gives them back.
    ///
    /// # Errors
    /// As [`Sender::next_release`]; [`NotReleased`] has the claim, to wait by it again.
    ///
    /// # Cancel safety
    /// A future that is dropped takes the claim with it: the buffers are dropped as soon as the kernel has
    /// released them.
    pub async fn release(self) -> Result<Release<B>, NotReleased<B>> {
        match self.wait().await {
            Ok(release) => Ok(release),
            Err(error) => Err(NotReleased { pending: self, error }),
        }
    }

    async fn wait(&self) -> Result<Release<B>> {
        let core = &*self.core;
        loop {
            let mut news = pin!(core.news.notified());
            // From here on, also before the first poll, nothing is missed.
            news.as_mut().enable();
            if let Some(release) = self.look()? {
                return Ok(release);
            }
            let reports = core.watch(&core.reports, Interest::default())?;
            let mut readable = pin!(reports.readable());
            let sign = poll_fn(|context| match news.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => readable.as_mut().poll(context).map(Some),
            })
            .await;
            if let Some(sign) = sign {
                let mut sign = sign.map_err(|error| unwatched(&error))?;
                if let Some(release) = self.look()? {
                    return Ok(release);
                }
                // A sign that came after the look stays.
                sign.clear_ready();
            }
        }
    }

    fn look(&self) -> Result<Option<Release<B>>> {
        self.core.check_owner("release buffers of")?;
        let mut state = self.core.state();
        let before = state.released.len();
        let unwanted = state.collect()?;
        if state.released.len() > before {
            self.core.news.notify_waiters();
        }
        let wanted = state.released.remove(&self.number);
        drop(state);
        drop(unwanted);
        Ok(wanted)
    }
}

impl<B: StableBytes> Drop for Pending<B> {
    fn drop(&mut self) {
        if self.core.is_inherited() {
            return;
        }
        let mut state = self.core.state();
        let is_under_way =
            state.current.as_ref().is_some_and(|s| s.transmission.number == self.number);
        let released = state.released.remove(&self.number);
        let is_outstanding = released.is_none() && state.sender.is_outstanding(self.number);
        if is_under_way || is_outstanding {
            state.abandoned.insert(self.number);
        }
        drop(state);
        drop(released);
    }
}

impl<B: StableBytes> fmt::Debug for AsyncSender<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.core.is_inherited() {
            return f.write_str("AsyncSender(of the process that forked this one)");
        }
        f.debug_tuple("AsyncSender").field(&self.core.state().sender).finish()
    }
}

impl<B: StableBytes> fmt::Debug for Pending<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.number)
    }
}
