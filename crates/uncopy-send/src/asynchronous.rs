//! A sender for tasks of a Tokio runtime.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
/// Any number of tasks may use it at once; sends are made one after the other, in the order in which they
/// were first polled.
///
/// # Cancelling
/// Every future may be dropped at any time. A send that has not begun is not made. A send that has begun, on
/// a stream that is full, is finished before the next one begins, so that no message is cut off; its buffers
/// are dropped when they are released. While it cannot be finished, because the socket cannot be watched (`EMFILE`), the
/// next send fails with that error and is not made. Nothing is ever released early. If no send follows and the sender is
/// dropped, the connection is aborted: the peer reads a reset, and no normal end after half a message.
///
/// [`SenderOptions::send_timeout`](super::SenderOptions::send_timeout) is ignored here; use
/// `tokio::time::timeout` instead.
///
/// Lent memory cannot be touched, not even before the future is polled or after it was dropped:
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
    /// Process that made it. In a forked child the locks may be held by a thread that does not exist there.
    generation: Generation,
    state: Mutex<SenderState<B>>,
    /// Lock of the task that is sending.
    turn: tokio::sync::Mutex<()>,
    /// Notifies tasks of releases that another task has read.
    news: Notify,
    /// Epoll set that is readable when the socket has room.
    room: Watch,
    /// Epoll set that is readable when the error queue has entries.
    reports: Watch,
}

/// Epoll set with the socket, once it is registered with a runtime.
type Watch = Mutex<Option<Arc<Watched>>>;

struct SenderState<B: StableBytes> {
    sender: Sender<B>,
    /// The send that is being made, or one whose future was dropped in the middle.
    current: Option<Sending>,
    /// Releases that were not taken yet, by number.
    released: HashMap<u64, Release<B>>,
    /// Sends whose `Pending` was dropped.
    abandoned: HashSet<u64>,
}

/// A failed wait for buffers, with the claim on them, to wait again.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotReleased<B: StableBytes> {
    /// The claim on the buffers, which are still in flight.
    pub pending: Pending<B>,
    /// The reason.
    pub error: Error,
}

reads_as_its_error!(NotReleased);

/// The claim on the buffers of a send. If it is dropped, the buffers are dropped too, at the first send or
/// release after the kernel has released them.
pub struct Pending<B: StableBytes> {
    core: Arc<Core<B>>,
    number: u64,
}

impl<B: StableBytes> AsyncSender<B> {
    /// Makes a sender for tasks of the runtime in which it first waits.
    #[must_use]
    pub fn new(sender: Sender<B>) -> AsyncSender<B> {
        let (current, released, abandoned) = Default::default();
        let state = SenderState { sender, current, released, abandoned };
        let (turn, news, room, reports) = Default::default();
        let (generation, state) = (Generation::current(), Mutex::new(state));
        AsyncSender { core: Arc::new(Core { generation, state, turn, news, room, reports }) }
    }

    /// Sends one buffer or several as one datagram, or on a stream after what was sent before; all bytes.
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

    /// Sends a datagram to `to` from a UDP socket, connected or not.
    ///
    /// Errors, ownership and cancel safety are as for [`send`](Self::send).
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
        // Uses a number that no send has.
        let refused = |error| (Err(error), Pending { core: self.core.clone(), number: u64::MAX });
        if let Err(error) = self.core.check_owner("send to") {
            return refused(error);
        }
        // Lets other tasks run even if there is always room.
        consume_budget().await;
        let _turn = self.core.turn.lock().await;
        if let Err(error) = self.core.check_owner("send to") {
            return refused(error);
        }
        // Finishes a send whose future was dropped. Its result is not needed any more, unless it is not finished: on a
        // stream this one would stand in the middle of it.
        if let Err(error) = self.core.finish().await
            && self.core.state().current.is_some()
        {
            return refused(error);
        }
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
        // An error of `collect` shows again with the release.
        drop(collected);
        let result = self.core.finish().await;
        (result, pending)
    }

    /// Returns the totals of the sends so far; zeros in a forked child.
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
        // The state is consistent even after a panic: memory that the kernel may read belongs to the sender.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finishes the current send; returns the number of bytes sent.
    async fn finish(&self) -> Result<usize> {
        let mut has_watched_anew = false;
        loop {
            // Checked again because a wait may have begun in the parent.
            self.check_owner("send to")?;
            if let Some(result) = self.state().advance() {
                return result;
            }
            let interest = Interest { write: true, ..Interest::default() };
            let room = self.watch(&self.room, interest)?;
            let mut guard = match room.readable().await {
                Ok(guard) => guard,
                Err(error) if has_watched_anew => return Err(unwatched(&error)),
                Err(_) => {
                    has_watched_anew = true;
                    forget(&self.room, &room);
                    continue;
                }
            };
            self.check_owner("send to")?;
            if let Some(result) = self.state().advance() {
                return result;
            }
            // Readiness that came after the attempt is kept.
            guard.clear_ready();
        }
    }

    /// Watches an epoll set with the socket in the runtime. The runtime must not watch the socket itself: it
    /// takes a report in the error queue for a connection that can never be written to again.
    fn watch(&self, watch: &Watch, interest: Interest) -> Result<Arc<Watched>> {
        let mut place = watch.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = &*place {
            return Ok(Arc::clone(watched));
        }
        let state = self.state();
        let set = epoll::set_of(state.sender.socket().fd(), interest)
            .map_err(|errno| state.sender.socket().error("watch", errno))?;
        let watched = reactor::watch(Arc::new(set)).map_err(|error| unwatched(&error))?;
        Ok(Arc::clone(place.insert(Arc::new(watched))))
    }
}

/// Has a set be registered anew: the runtime that it was registered with has ended.
fn forget(watch: &Watch, ended: &Arc<Watched>) {
    let mut place = watch.lock().unwrap_or_else(PoisonError::into_inner);
    // Another task may have registered a new one.
    place.take_if(|watched| Arc::ptr_eq(watched, ended));
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
    /// Continues the current send; `None`: the socket has no room.
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

    /// Takes all releases; returns those of dropped claims, to be dropped outside the lock.
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
    /// Returns the number of the send.
    #[must_use]
    pub fn id(&self) -> SendId {
        SendId(self.number)
    }

    /// Waits until nothing reads the buffers any more, and returns them.
    ///
    /// # Errors
    /// As [`Sender::next_release`]. [`NotReleased`] has the claim, to wait again.
    ///
    /// # Cancel safety
    /// A dropped future drops the claim: the buffers are dropped as soon as the kernel has released them.
    pub async fn release(self) -> Result<Release<B>, NotReleased<B>> {
        match self.wait().await {
            Ok(release) => Ok(release),
            Err(error) => Err(NotReleased { pending: self, error }),
        }
    }

    async fn wait(&self) -> Result<Release<B>> {
        let core = &*self.core;
        let mut has_watched_anew = false;
        loop {
            let mut news = pin!(core.news.notified());
            // From here no notification is missed, even before the first poll.
            news.as_mut().enable();
            if let Some(release) = self.try_take()? {
                return Ok(release);
            }
            let reports = core.watch(&core.reports, Interest::default())?;
            let mut readable = pin!(reports.readable());
            let guard = poll_fn(|context| match news.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => readable.as_mut().poll(context).map(Some),
            })
            .await;
            if let Some(guard) = guard {
                let mut guard = match guard {
                    Ok(guard) => guard,
                    Err(error) if has_watched_anew => return Err(unwatched(&error)),
                    Err(_) => {
                        has_watched_anew = true;
                        forget(&core.reports, &reports);
                        continue;
                    }
                };
                if let Some(release) = self.try_take()? {
                    return Ok(release);
                }
                // Readiness that came after the check is kept.
                guard.clear_ready();
            }
        }
    }

    /// Takes the release of this send, if it has come.
    fn try_take(&self) -> Result<Option<Release<B>>> {
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
