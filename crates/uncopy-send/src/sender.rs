//! A sender: `MSG_ZEROCOPY` on one socket.

mod close;
mod several_threads;

pub use several_threads::SharedSender;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::auto::Lending;
use super::choice::{Choice, CostSample, Decision, Path};
use super::counters::{Counters, FallbackReason, Outstanding};
use super::file_transfer::GLANCE;
use super::options::SenderOptions;
use super::paths::Paths;
use super::plan::Mode;
use super::release::{Fate, Release, SendId, Sent};
use super::transmitter::{Progress, Transmission, Transmitter, Unfinished};
use crate::room::inet::{InetSocket, Transport, WaitFor};
use crate::room::zerocopy::{Completed, LendingRefusal};
use crate::room::{Payload, StableBytes};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::clock;

/// Sends buffers over a TCP or UDP socket, lending them to the kernel where that pays
/// (`MSG_ZEROCOPY`), and gives each of them back when the kernel no longer needs it.
///
/// ```
/// use std::net::UdpSocket;
/// use uncopy::send::{Fate, InetSocket, Mode, Sender, SenderOptions};
///
/// let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
/// let socket = InetSocket::connect_udp(receiver.local_addr().unwrap())?;
/// let options = SenderOptions::new().mode(Mode::Zerocopy);
/// let mut sender = Sender::new(socket, &options);
///
/// let sent = sender.send(b"sixteen bytes..!".to_vec());
/// assert_eq!(sent.result?, 16);
///
/// let release = sender.wait_release(None)?.expect("one is outstanding");
/// assert_eq!(release.id, sent.id);
/// assert_eq!(release.fate, Fate::Copied, "over loopback the kernel copies, and says so");
/// let buffer: Vec<u8> = release.payload.into_one().unwrap();
/// # Ok::<(), uncopy::Error>(())
/// ```
///
/// # Two events
/// [`send`](Self::send) returns the result. The buffers come back later in a [`Release`], from
/// [`next_release`](Self::next_release) or [`wait_release`](Self::wait_release), even if they were
/// copied or refused. Releases need not come in the order of the sends.
///
/// # Waiting
/// A send waits while the socket has no room, and reads the kernel's reports meanwhile, as it also
/// does after every few sends: a caller that only sends does not run into the limits of the socket. The
/// sender keeps the releases until they are taken; [`released`](Self::released) counts them.
///
/// # Dropping
/// Buffers that the kernel still needs are parked together with the socket until it has released
/// them ([`parked`](super::parked)); the peer of a stream reads its end after what was sent.
/// [`close`](Self::close) waits instead. A sender that is forgotten keeps its buffers for ever.
///
/// # Fork
/// In a child made by `fork(2)` without `exec` every operation is refused
/// ([`Reason::Forked`](uncopy_core::Reason::Forked); a buffer that is sent there is dropped), and
/// dropping the sender closes its descriptor and does nothing else: stream and releases belong to the
/// parent.
///
/// Lent memory cannot be touched:
/// ```compile_fail,E0382
/// # fn of(mut sender: uncopy::send::Sender<Vec<u8>>) {
/// let buffer = vec![0; 4096];
/// let _sent = sender.send(buffer);
/// println!("{}", buffer[0]); // it belongs to the send
/// # }
/// ```
pub struct Sender<B: StableBytes> {
    transmitter: Transmitter<B>,
    options: SenderOptions,
    paths: Paths,
    /// Paths of lent sends to other addresses than the peer's, by number.
    addressed: HashMap<u64, Path>,
    counters: Counters,
    outstanding: Outstanding,
}

/// A send that has begun, and the cost sample that it belongs to.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) transmission: Transmission,
    sample: Option<CostSample>,
}

/// Returns the rest of a timeout that begins with the first wait, so that a send that does not wait does
/// not read the clock.
fn left(timeout: Option<Duration>, waits_since: &mut Option<Instant>) -> Option<Duration> {
    let waited = waits_since.get_or_insert_with(Instant::now).elapsed();
    timeout.map(|timeout| timeout.saturating_sub(waited))
}

/// Callback of a wait, which it may stop.
type Observer<'a> = &'a mut dyn FnMut() -> ControlFlow<()>;

/// Cause of the end of a send before its last byte.
#[derive(Debug, Clone, Copy)]
enum NotSent {
    /// The kernel refused it, or the time is over.
    Refused(Errno),
    /// The observer stopped it.
    Stopped,
}

fn is_stopped(observer: &mut Option<Observer<'_>>) -> bool {
    observer.as_mut().is_some_and(|observer| observer().is_break())
}

/// Returns the shorter of two waits; `None` is endless.
fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}

/// Removes the path of a send.
// Out of line, so that sends to the peer do not prepare a search in the map.
#[cold]
fn take_path(addressed: &mut HashMap<u64, Path>, number: u64) -> Path {
    addressed.remove(&number).unwrap_or_default()
}

impl<B: StableBytes> Sender<B> {
    /// Sends over `socket`. Where the kernel or the socket do not support `MSG_ZEROCOPY`, everything is
    /// copied, and [`Counters::fallbacks`] says why.
    #[must_use]
    pub fn new(socket: InetSocket, options: &SenderOptions) -> Sender<B> {
        Sender {
            transmitter: Transmitter::new(socket, options.park_timeout),
            options: options.clone(),
            paths: Paths::new(),
            addressed: HashMap::new(),
            counters: Counters::default(),
            outstanding: Outstanding::default(),
        }
    }

    /// Returns the socket, for everything except sending.
    #[must_use]
    pub fn socket(&self) -> &InetSocket {
        self.transmitter.socket()
    }

    /// Sends one buffer or several as one datagram, or on a stream after what was sent before; all
    /// bytes, waiting for room. On a socket that [cuts its
    /// sends](InetSocket::set_segment_bytes) they go as trains of datagrams, as few as kernel and device
    /// allow.
    ///
    /// # Ownership
    /// The buffers come back with the [`Release`], also after an error.
    // In line, for the reason given at `Transmitter::advance`.
    #[inline(always)]
    pub fn send(&mut self, payload: impl Into<Payload<B>>) -> Sent {
        self.send_message(payload.into(), None, None)
    }

    /// Sends a datagram to `to` from a UDP socket, connected or not.
    pub fn send_to(&mut self, payload: impl Into<Payload<B>>, to: SocketAddr) -> Sent {
        self.send_message(payload.into(), Some(to), None)
    }

    /// As [`send`](Self::send); while the send waits for room, `observer` is called about every 50 ms, and may stop it. What
    /// the socket had taken until then stays sent: on a stream the peer may read a part of the payload.
    ///
    /// The result of a send that was stopped is an error for which [`is_cancelled`](Error::is_cancelled) is true.
    pub fn send_observed(
        &mut self,
        payload: impl Into<Payload<B>>,
        observer: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Sent {
        self.send_message(payload.into(), None, Some(observer))
    }

    #[inline(always)]
    fn send_message(
        &mut self,
        payload: Payload<B>,
        to: Option<SocketAddr>,
        observer: Option<Observer<'_>>,
    ) -> Sent {
        if self.socket().is_inherited() {
            return self.refuse_in_child(payload);
        }
        let (number, result) = match self.decide(payload.len(), to) {
            Decision { choice: Choice::Copy(reason), sample: None }
                if !self.transmitter.is_drain_due() =>
            {
                self.send_copied(payload, to, reason, observer)
            }
            decision => {
                let mut sending = self.begin(payload, to, decision);
                let progress = self.advance(&mut sending);
                (sending.transmission.number, self.finish(&mut sending, progress, observer))
            }
        };
        Sent { id: SendId(number), result: result.map_err(|ended| self.error_of(to, ended)) }
    }

    /// Sends a payload that the kernel copies. Usually one call takes all of it, and it is counted at once.
    #[inline(always)]
    fn send_copied(
        &mut self,
        payload: Payload<B>,
        to: Option<SocketAddr>,
        reason: FallbackReason,
        observer: Option<Observer<'_>>,
    ) -> (u64, Result<usize, NotSent>) {
        let length = payload.len();
        self.count_completed();
        match self.transmitter.copy(payload, to) {
            Ok((number, bytes)) => {
                self.outstanding.sends += 1;
                self.outstanding.bytes += length;
                self.counters.fell_back(reason);
                self.counters.sends += 1;
                self.counters.bytes += bytes as u64;
                self.counters.released(Fate::Copied, bytes);
                (number, Ok(bytes))
            }
            Err(unfinished) => self.send_rest(unfinished, to, reason, observer),
        }
    }

    /// Sends the rest of a payload that the first call has not taken whole.
    #[cold]
    fn send_rest(
        &mut self,
        unfinished: Unfinished<B>,
        to: Option<SocketAddr>,
        reason: FallbackReason,
        observer: Option<Observer<'_>>,
    ) -> (u64, Result<usize, NotSent>) {
        let Unfinished { payload, sent } = unfinished;
        let mut sending = self.begin(payload, to, Choice::Copy(reason).into());
        let send = &mut sending.transmission;
        let progress = match self.transmitter.resume(send, sent, &mut self.counters) {
            Some(progress) => progress,
            None => self.advance(&mut sending),
        };
        (sending.transmission.number, self.finish(&mut sending, progress, observer))
    }

    /// Drops the payload: a child of `fork(2)` sends nothing and gets nothing back.
    #[cold]
    fn refuse_in_child(&mut self, payload: Payload<B>) -> Sent {
        drop(payload);
        let refused = self.socket().check_owner("send to");
        Sent { id: SendId(self.transmitter.skip_number()), result: refused.map(|()| 0) }
    }

    /// Returns the error of a send that ended before its time.
    #[cold]
    fn error_of(&self, to: Option<SocketAddr>, ended: NotSent) -> Error {
        match ended {
            NotSent::Refused(errno) => self.refusal_of(to, errno),
            NotSent::Stopped => self.stopped("send to"),
        }
    }

    /// Returns the error of an operation that its observer stopped.
    #[cold]
    fn stopped(&self, operation: &'static str) -> Error {
        Error::new(operation, self.socket().subject(), Reason::Cancelled)
    }

    /// Returns the error of a send that the kernel refused with `errno`.
    #[cold]
    pub(super) fn refusal_of(&self, to: Option<SocketAddr>, errno: Errno) -> Error {
        let subject = match to {
            Some(to) => format!("{} {to}", self.transport().name()),
            None => self.socket().subject(),
        };
        Error::network("send to", subject, errno)
    }

    /// Sends the rest of a send that has come so far, waiting for room.
    #[inline(always)]
    fn finish(
        &mut self,
        sending: &mut Sending,
        progress: Progress,
        observer: Option<Observer<'_>>,
    ) -> Result<usize, NotSent> {
        let result = match progress {
            Progress::Done => Ok(sending.transmission.done),
            Progress::Failed(errno) => Err(NotSent::Refused(errno)),
            Progress::WaitForRoom => self.wait_and_finish(sending, observer),
        };
        self.end(sending, result.is_ok());
        result
    }

    #[cold]
    fn wait_and_finish(
        &mut self,
        sending: &mut Sending,
        mut observer: Option<Observer<'_>>,
    ) -> Result<usize, NotSent> {
        let mut waits_since = None;
        loop {
            let left = left(self.options.send_timeout, &mut waits_since);
            if left == Some(Duration::ZERO) {
                return Err(NotSent::Refused(Errno::ETIMEDOUT));
            }
            let glance = observer.is_some().then_some(GLANCE);
            self.socket().wait(WaitFor::Room, shorter(left, glance));
            match self.advance(sending) {
                Progress::Done => return Ok(sending.transmission.done),
                Progress::Failed(errno) => return Err(NotSent::Refused(errno)),
                Progress::WaitForRoom => {}
            }
            if is_stopped(&mut observer) {
                return Err(NotSent::Stopped);
            }
        }
    }

    /// Takes a payload in, to be sent as decided.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        payload: Payload<B>,
        to: Option<SocketAddr>,
        decision: Decision,
    ) -> Sending {
        let Decision { choice, sample } = decision;
        let length = payload.len();
        let transmission = self.transmitter.begin(payload, to, choice.is_lend());
        match choice {
            Choice::Copy(reason) => self.counters.fell_back(reason),
            Choice::Lend(path) if path == Path::default() => {}
            Choice::Lend(path) => drop(self.addressed.insert(transmission.number, path)),
        }
        self.outstanding.sends += 1;
        self.outstanding.bytes += length;
        Sending { transmission, sample }
    }

    /// Decides whether a send of this length is lent, and whether its cost is measured.
    #[inline]
    pub(super) fn decide(&mut self, length: usize, to: Option<SocketAddr>) -> Decision {
        let choice = match (self.options.mode, self.transmitter.lending_refusal()) {
            (Mode::Copy, _) => Choice::Copy(FallbackReason::CopyRequested),
            (_, Some(LendingRefusal::NotSupported)) => Choice::Copy(FallbackReason::NotSupported),
            (_, Some(LendingRefusal::CountUncertain)) => {
                Choice::Copy(FallbackReason::CountUncertain)
            }
            (Mode::Zerocopy, None) => Choice::Lend(Path::default()),
            (Mode::Auto, None) => {
                let method = Lending::MsgZerocopy(self.transport());
                let socket = self.transmitter.socket();
                return self.paths.decide(length, method, socket, to.as_ref());
            }
        };
        choice.into()
    }

    /// Sends as much as the socket has room for.
    #[inline(always)]
    pub(super) fn advance(&mut self, sending: &mut Sending) -> Progress {
        let Sending { transmission, sample } = sending;
        match *sample {
            None => self.transmitter.advance(transmission, &mut self.counters),
            Some(sample) => self.advance_measured(transmission, sample),
        }
    }

    #[inline(never)]
    fn advance_measured(&mut self, send: &mut Transmission, sample: CostSample) -> Progress {
        self.measure(sample, |sender| sender.transmitter.advance(send, &mut sender.counters))
    }

    /// Adds the processor time of `act` to a cost sample.
    fn measure<T>(&mut self, sample: CostSample, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = clock::thread();
        let result = act(self);
        self.paths.add_cost(sample, clock::thread().saturating_sub(before));
        result
    }

    pub(super) fn end(&mut self, sending: &Sending, is_whole: bool) {
        let Sending { transmission, sample } = sending;
        self.transmitter.end(transmission);
        if let Some(sample) = *sample
            && self.paths.is_sample_complete(sample)
        {
            if transmission.lend {
                // Reading the reports is part of the cost of lending. An error shows again with the next
                // read.
                let _ =
                    self.measure(sample, |sender| sender.transmitter.drain(&mut sender.counters));
            }
            self.paths.finish_sample(sample);
        }
        self.count_completed();
        match is_whole {
            true => self.counters.sends += 1,
            false => self.counters.failed_sends += 1,
        }
        self.counters.bytes += transmission.done as u64;
    }

    pub(super) fn transport(&self) -> Transport {
        self.socket().transport()
    }

    /// Counts and learns from completed payloads as soon as they are known, before their releases are
    /// taken.
    #[inline]
    fn count_completed(&mut self) {
        if self.transmitter.has_newly_completed() {
            self.count_each_completed();
        }
    }

    fn count_each_completed(&mut self) {
        let (socket, completed) = self.transmitter.newly_completed();
        for Completed { number, usage, .. } in completed {
            self.counters.released(usage.fate(socket), usage.bytes);
            let path = match self.addressed.is_empty() {
                true => Path::default(),
                false => take_path(&mut self.addressed, *number),
            };
            // A copy in the call says nothing of a path.
            if let Some(copied) = usage.path_copied(socket) {
                self.paths.learn(path, Some(copied));
            }
        }
    }

    /// Takes the next release, without waiting.
    ///
    /// # Errors
    /// The kernel reports sends that this sender did not make: the socket is shared, against the rules
    /// of [`InetSocket::adopt`]. No outstanding buffer is ever released then.
    pub fn next_release(&mut self) -> Result<Option<Release<B>>> {
        let polled = self.transmitter.poll_completed(&mut self.counters);
        self.count_completed();
        polled?;
        let Some(completed) = self.transmitter.next_completed() else { return Ok(None) };
        self.outstanding.sends -= 1;
        self.outstanding.bytes -= completed.payload.len();
        Ok(Some(Release::of(completed, self.socket())))
    }

    /// Takes the next release, waiting up to `timeout` for one (`None`: without a limit). Returns `None`
    /// when the time is over or nothing is outstanding.
    ///
    /// # Errors
    /// As [`next_release`](Self::next_release).
    pub fn wait_release(&mut self, timeout: Option<Duration>) -> Result<Option<Release<B>>> {
        let mut waits_since = None;
        let mut pause = Duration::ZERO;
        loop {
            if let Some(release) = self.next_release()? {
                return Ok(Some(release));
            }
            let left = left(timeout, &mut waits_since);
            if self.transmitter.outstanding_reports() == 0 || left == Some(Duration::ZERO) {
                return Ok(None);
            }
            // A closed connection ends every wait at once, even while a device still has the pages.
            std::thread::sleep(pause.min(left.unwrap_or(pause)));
            self.socket().wait(WaitFor::Errors, left);
            pause = (pause + Duration::from_micros(50)).min(Duration::from_millis(5));
        }
    }

    /// Returns the number of sends whose release was not taken, and their bytes.
    #[must_use]
    pub fn outstanding(&self) -> Outstanding {
        self.outstanding
    }

    /// Returns whether the release of this send was not taken yet.
    #[cfg(feature = "tokio")]
    pub(super) fn is_outstanding(&self, number: u64) -> bool {
        self.transmitter.has(number)
    }

    /// Returns the number of releases that were read and not taken.
    #[must_use]
    pub fn released(&self) -> usize {
        self.transmitter.completed()
    }

    /// Returns the totals of the sends so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Aborts a TCP connection: bytes that were not sent yet are dropped, the peer reads a reset, and
    /// the kernel releases the buffers soon. A UDP socket only loses its peer.
    pub fn abort(&mut self) {
        if !self.socket().is_inherited() {
            self.socket().abort();
        }
    }

    /// Ends the stream, unless a ring sends on it too.
    pub(super) fn end_stream(&mut self) {
        self.transmitter.end_stream();
    }

    /// Returns the socket, for a ring that sends on it too.
    pub(super) fn share(&self) -> Arc<InetSocket> {
        self.transmitter.socket().clone()
    }
}

impl<B: StableBytes> fmt::Debug for Sender<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("socket", self.socket())
            .field("outstanding", &self.outstanding)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
