//! Channels for tasks of a Tokio runtime.

use std::fmt;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use tokio::task::coop::consume_budget;

use super::channel::{Channel, Handle, Lengths, MessageBuf, Rejected, total_bytes};
use super::object::SignalFd;
use super::rights::Rights;
use super::signals::Signals;
use super::sleep::Waiter;
use super::source::Source;
use super::status::Status;
use super::sync::Arc;
use uncopy_core::Errno;
use uncopy_os::eventfd;
use uncopy_os::reactor::{self, Watched};

/// A [`Channel`] whose operations wait without blocking the thread, for tasks of a Tokio runtime.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(async {
/// use std::io::IoSlice;
/// use uncopy::channel::{AsyncChannel, Channel};
///
/// let (near, far) = Channel::pair();
/// let (near, far) = (AsyncChannel::new(near), AsyncChannel::new(far));
/// let answerer = tokio::spawn(async move {
///     let request = far.read().await?;
///     far.write(&[IoSlice::new(&request[..4]), IoSlice::new(b"42")], &mut vec![]).await
/// });
/// let answer = near.call(&[IoSlice::new(b"\0\0\0\0what?")], &mut vec![]).await?;
/// assert_eq!(&answer[4..], b"42");
/// # answerer.await.unwrap()
/// # }).unwrap();
/// # Ok::<(), uncopy::channel::Status>(())
/// ```
///
/// It works in the same way whether the other end is in this process or in another, and keeps working
/// when the other end moves. Any number of tasks may use it at once.
///
/// # Cancelling
/// Every future may be dropped at any time, by `select!` or a timeout, and nothing is lost:
///
/// - [`read`](Self::read) and [`read_into`](Self::read_into) take a message only when they return it.
/// - [`write`](Self::write) sends the whole message in one step. Until then the handles are in the
///   caller's vector, which is empty afterwards: if it still has handles after `write` was dropped,
///   nothing was sent.
/// - [`call`](Self::call) sends like `write`. The answer to a call whose future was dropped is
///   queued like any message, for `read`.
///
/// # Descriptors
/// The first future that has to wait makes an epoll set and an eventfd, once for reading and calls
/// and once for writing, and registers them with the runtime that it runs in; from then on the
/// channel belongs to that runtime. A channel whose futures never wait needs no descriptors.
///
/// # Errors
/// In addition to the errors of each operation, a future that has to wait fails with
/// [`Status::AccessDenied`] without [`Rights::WAIT`], [`Status::NoResources`] if descriptors run
/// out, and [`Status::BadState`] outside a Tokio runtime or when the runtime is shutting down.
///
/// # Panics
/// A future that has to wait panics in a Tokio runtime that was built without `enable_io`.
pub struct AsyncChannel {
    channel: Channel,
    /// Readable for messages, answers to calls, and a closed peer.
    news: OnceLock<Watch>,
    /// Readable when there is room to write, or the peer is closed.
    room: OnceLock<Watch>,
    /// Raised for calls that have ended; in the epoll set of `news`.
    alarm: OnceLock<Arc<OwnedFd>>,
}

/// A descriptor that the runtime watches.
struct Watch {
    watched: Watched,
    /// Updates the descriptor.
    _follower: SignalFd,
}

/// Signals that end waiting for something to read.
const NEWS: Signals = Signals::READABLE.union(Signals::PEER_CLOSED);
/// Signals that end waiting for room.
const ROOM: Signals = Signals::WRITABLE.union(Signals::PEER_CLOSED);

impl AsyncChannel {
    /// Makes an endpoint for the tasks of the runtime in which it waits first.
    #[must_use]
    pub fn new(channel: Channel) -> AsyncChannel {
        let (news, room, alarm) = Default::default();
        AsyncChannel { channel, news, room, alarm }
    }

    /// Returns the channel, for operations that do not wait.
    #[must_use]
    pub fn get_ref(&self) -> &Channel {
        &self.channel
    }

    /// Returns the channel; messages that are queued for it stay queued.
    #[must_use]
    pub fn into_inner(self) -> Channel {
        self.channel
    }

    /// Takes the next message, waiting for one.
    ///
    /// # Errors
    /// As [`Channel::read`], without [`Status::ShouldWait`]; [`Status::Canceled`] if the handle is
    /// revoked meanwhile.
    ///
    /// # Cancel safety
    /// A dropped future has taken no message.
    pub async fn read(&self) -> Result<MessageBuf, Status> {
        self.retry(&self.news, NEWS, || self.channel.read()).await
    }

    /// Copies the next message into `bytes` and its handles into `handles`, waiting for one.
    ///
    /// # Errors
    /// As [`Channel::read_into`], without [`Status::ShouldWait`]; [`Status::Canceled`] if the
    /// handle is revoked meanwhile.
    ///
    /// # Cancel safety
    /// A dropped future has taken no message.
    pub async fn read_into(
        &self,
        bytes: &mut [u8],
        handles: &mut [Option<Handle>],
    ) -> Result<Lengths, Status> {
        self.retry(&self.news, NEWS, || self.channel.read_into(bytes, handles)).await
    }

    /// Sends the regions as one message, with `handles`, waiting for room. `handles` is empty
    /// afterwards, on success and on failure; if the future is dropped before it sends, all handles
    /// are still there.
    ///
    /// # Errors
    /// As [`Channel::write`], without [`Status::ShouldWait`]; [`Status::Canceled`] if the handle
    /// is revoked meanwhile.
    ///
    /// # Cancel safety
    /// A future that is dropped before it is ready has sent nothing, and its handles are still in
    /// `handles`.
    pub async fn write(
        &self,
        regions: &[IoSlice<'_>],
        handles: &mut Vec<Handle>,
    ) -> Result<(), Status> {
        let sent = self.retry(&self.room, ROOM, || self.channel.try_write(regions, handles)).await;
        handles.clear();
        sent
    }

    /// Sends the regions as one message, waiting for room, and waits for the answer to it, as
    /// [`Channel::call`] does. `handles` as in [`write`](Self::write).
    ///
    /// # Errors
    /// As [`Channel::call`], without [`Status::ShouldWait`] and [`Status::TimedOut`].
    ///
    /// # Cancel safety
    /// Sends as [`write`](Self::write). The answer to a call that was sent and dropped is queued like any
    /// message.
    pub async fn call(
        &self,
        regions: &[IoSlice<'_>],
        handles: &mut Vec<Handle>,
    ) -> Result<MessageBuf, Status> {
        let begun = self.begin(regions, handles).await;
        handles.clear();
        let (call, waiter) = begun?;
        let answered = || {
            if waiter.woken().is_none() {
                // Answers come over the same socket as messages.
                self.channel.refresh(Signals::empty());
            }
            waiter.woken().map(drop).ok_or(Status::ShouldWait)
        };
        self.retry(&self.news, NEWS, answered).await?;
        call.finish()
    }

    /// Sends the message of a call.
    async fn begin(
        &self,
        regions: &[IoSlice<'_>],
        handles: &mut Vec<Handle>,
    ) -> Result<(Call<'_>, Arc<Waiter>), Status> {
        let channel = &self.channel;
        let bytes = total_bytes(regions);
        let waiter = Arc::new(Waiter::ringing(self.alarm()?));
        let attempt = || {
            let lengths = Lengths { bytes, handles: handles.len() };
            let begun = channel.begin(lengths, regions, || channel.check_handles(handles), &waiter);
            begun.map_err(|Rejected { status, mut message }| {
                *handles = message.take_handles();
                status
            })
        };
        let txid = self.retry(&self.room, ROOM, attempt).await?;
        Ok((Call { channel, txid, is_over: false }, waiter))
    }

    /// Waits until any of `signals` is set; returns all that are set then.
    ///
    /// # Errors
    /// [`Status::Canceled`] if the handle is revoked meanwhile.
    ///
    /// # Cancel safety
    /// A dropped future has changed nothing.
    pub async fn wait(&self, signals: Signals) -> Result<Signals, Status> {
        let own = OnceLock::new();
        let fd = match signals {
            NEWS => &self.news,
            ROOM => &self.room,
            _ => &own,
        };
        let look = || {
            self.channel.grant().check(Rights::WAIT)?;
            self.channel.refresh(signals);
            let observed = self.channel.current_signals();
            if observed.intersects(signals) { Ok(observed) } else { Err(Status::ShouldWait) }
        };
        self.retry(fd, signals, look).await
    }

    /// Runs `attempt` until it returns something other than [`Status::ShouldWait`]; in between waits
    /// until `fd` is readable, which is made for `signals` if it does not exist yet.
    async fn retry<T>(
        &self,
        fd: &OnceLock<Watch>,
        signals: Signals,
        mut attempt: impl FnMut() -> Result<T, Status>,
    ) -> Result<T, Status> {
        // Lets other tasks run even if this one never has to wait.
        consume_budget().await;
        match attempt() {
            Err(Status::ShouldWait) => {}
            done => return done,
        }
        let fd = self.register(fd, signals)?;
        loop {
            let mut readiness = fd.readable().await.map_err(|error| status_of(&error))?;
            match attempt() {
                Err(Status::ShouldWait) => {}
                Err(Status::BadHandle) if !self.has_handle() => return Err(Status::Canceled),
                done => return done,
            }
            // Readiness that came after the attempt stays.
            readiness.clear_ready();
        }
    }

    /// Whether the handle was not revoked.
    fn has_handle(&self) -> bool {
        self.channel.grant().check(Rights::empty()).is_ok()
    }

    /// Returns the descriptor, registered with the runtime.
    fn register<'a>(
        &self,
        place: &'a OnceLock<Watch>,
        signals: Signals,
    ) -> Result<&'a Watched, Status> {
        if let Some(fd) = place.get() {
            return Ok(&fd.watched);
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Status::BadState);
        }
        let mut fd = SignalFd::new(&self.channel, signals)?;
        if signals == NEWS {
            let alarm = self.alarm()?;
            fd = fd.with_alarm(&alarm)?;
        }
        let watched = reactor::watch(fd.set().clone()).map_err(|error| status_of(&error))?;
        // If two tasks come here at once, the descriptor of the second is dropped.
        Ok(&place.get_or_init(|| Watch { watched, _follower: fd }).watched)
    }

    fn alarm(&self) -> Result<Arc<OwnedFd>, Status> {
        if let Some(alarm) = self.alarm.get() {
            return Ok(alarm.clone());
        }
        let alarm = Arc::new(eventfd::create()?);
        Ok(self.alarm.get_or_init(|| alarm).clone())
    }
}

fn status_of(error: &std::io::Error) -> Status {
    // Tokio's errors have no number: the runtime is shutting down.
    error.raw_os_error().map_or(Status::BadState, |raw| Errno::from_raw(raw).into())
}

/// A call that has been sent.
struct Call<'a> {
    channel: &'a Channel,
    txid: u32,
    is_over: bool,
}

impl Call<'_> {
    fn finish(mut self) -> Result<MessageBuf, Status> {
        self.is_over = true;
        // Called only after the call was answered or ended.
        self.channel.finish(self.txid)?.unwrap_or(Err(Status::Canceled))
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.channel.abandon(self.txid);
        }
    }
}

impl From<Channel> for AsyncChannel {
    fn from(channel: Channel) -> AsyncChannel {
        AsyncChannel::new(channel)
    }
}

impl fmt::Debug for AsyncChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncChannel").field(&self.channel).finish()
    }
}
