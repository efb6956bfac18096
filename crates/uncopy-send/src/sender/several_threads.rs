//! A sender for several threads, which send, receive, wait for releases and close at the same time.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{NotSent, Observer, Sender, Sending, is_stopped, left, shorter};
use crate::counters::{Counters, Outstanding};
use crate::file_transfer::GLANCE;
use crate::release::{Release, SendId, Sent};
use crate::returned::NotClosed;
use crate::room::inet::{Awaited, InetSocket, WaitFor};
use crate::room::{Payload, StableBytes};
use crate::transmitter::Progress;
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::fork::Generation;

/// Longest pause between two looks at reports that do not come as fast as a wait for them ends.
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// A [`Sender`] that several threads use at the same time.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpListener;
/// use std::ops::ControlFlow;
/// use uncopy::send::{InetSocket, Sender, SenderOptions, SharedSender};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let socket = InetSocket::connect_tcp(listener.local_addr()?)?;
/// let mut peer = listener.accept()?.0;
/// let sender = SharedSender::new(Sender::new(socket, &SenderOptions::new()));
/// let go_on = &mut || ControlFlow::Continue(());
///
/// let mut answer = [0; 6];
/// std::thread::scope(|scope| {
///     // Receives while the other thread sends.
///     let receives = scope.spawn(|| {
///         sender.receive(&mut answer, None, &mut || ControlFlow::Continue(()))
///     });
///     assert_eq!(sender.send(b"question".to_vec(), go_on).result?, 8);
///     peer.read_exact(&mut [0; 8])?;
///     peer.write_all(b"answer")?;
///     assert_eq!(receives.join().unwrap()?, Some(6));
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// sender.close(None, go_on)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Waiting
/// Nothing that waits keeps another thread from anything but sending: sends are made one after the other, so that no message
/// stands in the middle of another. What waits calls its `observer` about every 50 ms, without a lock, and ends when the
/// observer breaks, with an error for which [`is_cancelled`](Error::is_cancelled) is true. An observer may use the sender,
/// except that it must not send: its own send may be what it would wait for.
///
/// # Closing and aborting
/// [`abort`](Self::abort) ends what others wait for with [`Errno::ECONNABORTED`]. [`close`](Self::close) waits for the send
/// that another thread makes, and refuses those that begin later; receiving goes on until the sender is closed.
///
/// # Fork
/// As for a [`Sender`].
pub struct SharedSender<B: StableBytes> {
    /// Process that made it. In a forked child the locks may be held by a thread that does not exist there.
    generation: Generation,
    /// Locked for moments, and never while anything waits. `None`: closed.
    sender: Mutex<Option<Sender<B>>>,
    /// For those who receive, wait or abort. `None`: closed.
    socket: Mutex<Option<Arc<InetSocket>>>,
    /// Whether a thread sends or closes.
    is_taken: Mutex<bool>,
    /// Notifies of the end of a turn.
    turn_ended: Condvar,
    is_closing: AtomicBool,
    is_aborted: AtomicBool,
}

/// Right to send, or to close. Given back when it is dropped.
struct Turn<'a, B: StableBytes>(&'a SharedSender<B>);

impl<B: StableBytes> Drop for Turn<'_, B> {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.turn_ended.notify_all();
    }
}

/// Purpose of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Send,
    Close,
}

/// Why there was no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoTurn {
    TimedOut,
    Stopped,
    Closed,
}

/// Locks, also after a panic elsewhere: what is locked is consistent, since no lock is held while a caller's code runs.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closed(operation: &'static str) -> Error {
    Error::new(operation, "a sender", Reason::Refused("it is closed; make a new one".into()))
}

impl<B: StableBytes> SharedSender<B> {
    /// Makes a sender for several threads.
    #[must_use]
    pub fn new(sender: Sender<B>) -> SharedSender<B> {
        SharedSender {
            generation: Generation::current(),
            socket: Mutex::new(Some(sender.share())),
            sender: Mutex::new(Some(sender)),
            is_taken: Mutex::default(),
            turn_ended: Condvar::new(),
            is_closing: AtomicBool::new(false),
            is_aborted: AtomicBool::new(false),
        }
    }

    fn check_owner(&self, operation: &'static str) -> Result<()> {
        match self.generation == Generation::current() {
            true => Ok(()),
            false => Err(Error::new(operation, "a socket", Reason::Forked)),
        }
    }

    /// Returns whether the sender is closed, or a thread is closing it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
    }

    fn socket(&self, operation: &'static str) -> Result<Arc<InetSocket>> {
        lock(&self.socket).clone().ok_or_else(|| closed(operation))
    }

    /// Calls `act` with the sender, which nobody else uses meanwhile. It must not wait.
    fn with<T>(&self, operation: &'static str, act: impl FnOnce(&mut Sender<B>) -> T) -> Result<T> {
        lock(&self.sender).as_mut().map(act).ok_or_else(|| closed(operation))
    }

    /// Waits until no other thread sends.
    fn take_turn(
        &self,
        purpose: Purpose,
        mut left: impl FnMut() -> Option<Duration>,
        observer: &mut Option<Observer<'_>>,
    ) -> Result<Turn<'_, B>, NoTurn> {
        let is_refused = || purpose == Purpose::Send && self.is_closed();
        loop {
            let mut is_taken = lock(&self.is_taken);
            if is_refused() {
                return Err(NoTurn::Closed);
            }
            if !*is_taken {
                *is_taken = true;
                return Ok(Turn(self));
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return Err(NoTurn::TimedOut);
            }
            let wait = left.map_or(GLANCE, |left| left.min(GLANCE));
            drop(self.turn_ended.wait_timeout(is_taken, wait));
            if is_stopped(observer) {
                return Err(NoTurn::Stopped);
            }
        }
    }

    /// Sends as [`Sender::send_observed`] does, after the sends of other threads that have begun.
    /// [`SenderOptions::send_timeout`](crate::SenderOptions::send_timeout) limits the wait for them too.
    ///
    /// # Ownership
    /// As for [`Sender::send`]. A send that has not begun, because the sender is closed or belongs to another process, has no
    /// number ([`u64::MAX`]) and no release: its buffers are dropped.
    pub fn send(
        &self,
        payload: impl Into<Payload<B>>,
        observer: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Sent {
        let not_begun = |error| Sent { id: SendId(u64::MAX), result: Err(error) };
        match self.check_owner("send to") {
            Ok(()) => self.send_in_turn(payload.into(), observer).unwrap_or_else(not_begun),
            Err(error) => not_begun(error),
        }
    }

    fn send_in_turn(&self, payload: Payload<B>, observer: Observer<'_>) -> Result<Sent> {
        const OPERATION: &str = "send to";
        let timeout = self.with(OPERATION, |sender| sender.options.send_timeout)?;
        let (mut waits_since, mut observer) = (None, Some(observer));
        let mut left = || left(timeout, &mut waits_since);
        let turn = self.take_turn(Purpose::Send, &mut left, &mut observer);
        let ended = match &turn {
            Ok(_) => None,
            Err(NoTurn::TimedOut) => Some(NotSent::Refused(Errno::ETIMEDOUT)),
            Err(NoTurn::Stopped) => Some(NotSent::Stopped),
            Err(NoTurn::Closed) => return Err(closed(OPERATION)),
        };
        let mut sending = self.with(OPERATION, |sender| {
            let decision = sender.decide(payload.len(), None);
            sender.begin(payload, None, decision)
        })?;
        let result = match ended {
            Some(ended) => Err(ended),
            None => self.send_all(&mut sending, left, &mut observer)?,
        };
        self.with(OPERATION, |sender| {
            sender.end(&sending, result.is_ok());
            let id = SendId(sending.transmission.number);
            Sent { id, result: result.map_err(|ended| sender.error_of(None, ended)) }
        })
    }

    /// Sends all of a payload, waiting for room.
    fn send_all(
        &self,
        sending: &mut Sending,
        mut left: impl FnMut() -> Option<Duration>,
        observer: &mut Option<Observer<'_>>,
    ) -> Result<Result<usize, NotSent>> {
        let socket = self.socket("send to")?;
        loop {
            let progress = match self.is_aborted() {
                true => Progress::Failed(Errno::ECONNABORTED),
                false => self.with("send to", |sender| sender.advance(sending))?,
            };
            match progress {
                Progress::Done => return Ok(Ok(sending.transmission.done)),
                Progress::Failed(_) if self.is_aborted() => {
                    return Ok(Err(NotSent::Refused(Errno::ECONNABORTED)));
                }
                Progress::Failed(errno) => return Ok(Err(NotSent::Refused(errno))),
                Progress::WaitForRoom => {}
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return Ok(Err(NotSent::Refused(Errno::ETIMEDOUT)));
            }
            socket.wait(WaitFor::Room, shorter(left, Some(GLANCE)));
            if is_stopped(observer) {
                return Ok(Err(NotSent::Stopped));
            }
        }
    }

    /// Receives into `bytes`, waiting up to `timeout` (`None`: without a limit); does not wait for threads that send. Returns
    /// 0 at the end of a stream, and `None` when the time is over.
    ///
    /// # Errors
    /// As `recv(2)`; the sender is closed or aborted, or the observer stopped the wait.
    pub fn receive(
        &self,
        bytes: &mut [u8],
        timeout: Option<Duration>,
        observer: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<usize>> {
        const OPERATION: &str = "receive on";
        self.check_owner(OPERATION)?;
        let (mut waits_since, mut observer) = (None, Some(observer));
        let mut pause = Duration::ZERO;
        loop {
            let socket = self.socket(OPERATION)?;
            if bytes.is_empty() {
                return Ok(Some(0));
            }
            match socket.receive_within(bytes, Duration::ZERO) {
                Ok(Some(count)) if count > 0 || !self.is_aborted() => return Ok(Some(count)),
                _ if self.is_aborted() => {
                    return Err(socket.error(OPERATION, Errno::ECONNABORTED));
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
            let left = left(timeout, &mut waits_since);
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            if socket.wait_for_input(shorter(left, Some(GLANCE))) == Awaited::Reports {
                // They end every wait until they are read. An error shows again with the release.
                let _ = self.with(OPERATION, Sender::read_reports);
                std::thread::sleep(pause);
                pause = (pause + Duration::from_micros(50)).min(LONGEST_PAUSE);
            } else {
                pause = Duration::ZERO;
            }
            if is_stopped(&mut observer) {
                return Err(cancelled(&socket, OPERATION));
            }
        }
    }

    /// Takes the next release, as [`Sender::wait_release`] does. While another thread's send is under way, something is
    /// outstanding.
    ///
    /// # Errors
    /// As [`Sender::next_release`]; the sender is closed, or the observer stopped the wait.
    pub fn wait_release(
        &self,
        timeout: Option<Duration>,
        observer: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Release<B>>> {
        const OPERATION: &str = "release buffers of";
        self.check_owner(OPERATION)?;
        let (mut waits_since, mut observer) = (None, Some(observer));
        let mut pause = Duration::ZERO;
        loop {
            let socket = self.socket(OPERATION)?;
            let (release, owed) = self.with(OPERATION, |sender| {
                let release = sender.next_release();
                let owed = sender.transmitter.outstanding_reports();
                (release, (sender.outstanding.sends > 0).then_some(owed))
            })?;
            let left = left(timeout, &mut waits_since);
            let owed = match (release?, owed) {
                (Some(release), _) => return Ok(Some(release)),
                (None, None) => return Ok(None),
                (None, Some(_)) if left == Some(Duration::ZERO) => return Ok(None),
                (None, Some(owed)) => owed,
            };
            let wait = left.map_or(GLANCE, |left| left.min(GLANCE));
            if owed > 0 {
                // A closed connection ends every wait at once, even while a device still has the pages.
                std::thread::sleep(pause.min(wait));
                socket.wait(WaitFor::Errors, Some(wait));
                pause = (pause + Duration::from_micros(50)).min(LONGEST_PAUSE);
            } else {
                // Another thread's send is under way, and copied.
                drop(self.turn_ended.wait_timeout(lock(&self.is_taken), wait));
            }
            if is_stopped(&mut observer) {
                return Err(cancelled(&socket, OPERATION));
            }
        }
    }

    /// Returns the number of sends whose release was not taken, and their bytes.
    ///
    /// # Errors
    /// The sender is closed.
    pub fn outstanding(&self) -> Result<Outstanding> {
        const OPERATION: &str = "ask a sender about";
        self.check_owner(OPERATION)?;
        self.with(OPERATION, |sender| sender.outstanding())
    }

    /// Returns the totals of the sends so far.
    ///
    /// # Errors
    /// The sender is closed.
    pub fn counters(&self) -> Result<Counters> {
        const OPERATION: &str = "ask a sender about";
        self.check_owner(OPERATION)?;
        self.with(OPERATION, |sender| sender.counters().clone())
    }

    /// Aborts as [`Sender::abort`] does. What other threads wait for ends with [`Errno::ECONNABORTED`], and a wait for
    /// releases with the releases.
    pub fn abort(&self) {
        if self.check_owner("abort").is_err() {
            return;
        }
        self.is_aborted.store(true, Ordering::Release);
        if let Some(socket) = &*lock(&self.socket) {
            socket.abort();
        }
    }

    /// Closes as [`Sender::close_observed`] does, after the send that another thread makes; `timeout` limits the wait for it
    /// too. If that send is not done then, or the observer stops the wait for it, the connection is aborted, so that the peer
    /// reads no end after a part of a message. A second close returns at once.
    ///
    /// # Errors
    /// As [`Sender::close_observed`].
    #[allow(clippy::result_large_err, reason = "the releases come back")]
    pub fn close(
        &self,
        timeout: Option<Duration>,
        observer: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(Vec<Release<B>>, Counters), NotClosed<B>> {
        self.check_owner("close").map_err(not_closed)?;
        if self.is_closing.swap(true, Ordering::AcqRel) {
            return Ok(Default::default());
        }
        let (mut waits_since, mut waits_for_turn) = (None, Some(&mut *observer as Observer<'_>));
        let mut left = || left(timeout, &mut waits_since);
        let (turn, is_stopped) =
            match self.take_turn(Purpose::Close, &mut left, &mut waits_for_turn) {
                Ok(turn) => (Some(turn), false),
                Err(no_turn) => {
                    self.abort();
                    // The send ends now, since it has nothing to wait for any more.
                    let turn = self.take_turn(Purpose::Close, || None, &mut None).ok();
                    (turn, no_turn == NoTurn::Stopped)
                }
            };
        let sender = lock(&self.sender).take();
        let closed = match sender {
            Some(sender) if is_stopped => Err(not_closed(sender.stopped("close"))),
            Some(sender) => sender.close_observed(left(), observer),
            None => Ok(Default::default()),
        };
        // The descriptor is closed when those who wait with it have noticed.
        drop(lock(&self.socket).take());
        drop(turn);
        closed
    }
}

fn cancelled(socket: &InetSocket, operation: &'static str) -> Error {
    Error::new(operation, socket.subject(), Reason::Cancelled)
}

fn not_closed<B: StableBytes>(error: Error) -> NotClosed<B> {
    NotClosed { releases: Vec::new(), counters: Counters::default(), error }
}

impl<B: StableBytes> Sender<B> {
    /// Reads the error queue to its end.
    fn read_reports(&mut self) -> Result<(), Errno> {
        let drained = self.transmitter.drain(&mut self.counters);
        self.count_completed();
        drained
    }
}

impl<B: StableBytes> fmt::Debug for SharedSender<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SharedSender");
        if self.check_owner("show").is_ok() {
            shown.field("sender", &lock(&self.sender)).field("is_closed", &self.is_closed());
        }
        shown.finish_non_exhaustive()
    }
}
