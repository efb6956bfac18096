//! `MSG_ZEROCOPY` on one socket.

mod close;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::auto::Lending;
use super::batch;
use super::counters::{Counters, FallbackReason};
use super::options::SenderOptions;
use super::paths::{CostSample, Path, Paths};
use super::plan::{self, AfterRefusal, Mode, RefusedSend};
use super::release::{Release, SendId, Sent};
use crate::room::inet::{InetSocket, Transport, Wanted};
use crate::room::zerocopy::{self, Completed, InFlight, LendingRefusal, Usage};
use crate::room::{Payload, StableBytes};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::clock;

/// What the kernel still needs of a sender's buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outstanding {
    /// Sends whose buffers have not been released.
    pub sends: usize,
    /// Bytes in these buffers.
    pub bytes: usize,
}

/// Sends buffers over a TCP or UDP socket, lending them to the kernel where that pays
/// (`MSG_ZEROCOPY`), and gives each of them back when the kernel needs it no more.
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
/// [`send`](Self::send) gives the result; the buffers come back in a [`Release`] later, from
/// [`next_release`](Self::next_release) or [`wait_release`](Self::wait_release), also those that
/// were copied or refused. Releases need not come in the order of the sends.
///
/// # Waiting
/// A send waits while the socket has no room, and reads the kernel's reports meanwhile, as it does
/// after every few sends: a caller that only sends does not run into the limits of the socket. It
/// keeps the releases until they are taken; their number is [`released`](Self::released).
///
/// # Dropping
/// Buffers that the kernel still needs are parked together with the socket until it has released
/// them ([`parked`](super::parked)); the peer of a stream reads its end after what was sent.
/// [`close`](Self::close) waits instead. A sender that is forgotten keeps its buffers for ever.
///
/// # Fork
/// In a child made by `fork(2)` without `exec` every operation is refused
/// ([`Reason::Forked`]; a buffer that is sent there is dropped), and dropping the sender closes its
/// descriptor and does nothing else: stream and releases are the parent's.
///
/// What was lent cannot be touched:
/// ```compile_fail,E0382
/// # fn of(mut sender: uncopy::send::Sender<Vec<u8>>) {
/// let buffer = vec![0; 4096];
/// let _sent = sender.send(buffer);
/// println!("{}", buffer[0]); // it belongs to the send
/// # }
/// ```
pub struct Sender<B: StableBytes> {
    in_flight: InFlight<B>,
    options: SenderOptions,
    paths: Paths,
    /// Of lent sends that are not to the peer, which path they took.
    elsewhere: HashMap<u64, Path>,
    counters: Counters,
    outstanding: Outstanding,
    /// Lent since the error queue was last read.
    since_drain: Outstanding,
}

/// A send that has begun.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) number: u64,
    pub(super) to: Option<SocketAddr>,
    length: usize,
    pub(super) done: usize,
    /// Bytes of one call.
    most: usize,
    lend: bool,
    /// The error queue was read since the kernel last had no room.
    drained: bool,
    /// What it costs is to be told.
    sample: Option<CostSample>,
    /// What came of a part that was sent before, and noted.
    first: Option<Result<usize, Errno>>,
}

/// How far a send came.
#[derive(Debug)]
pub(super) enum Progress {
    Done,
    WaitForRoom,
    Failed(Errno),
}

/// What is left of a time that begins with the first wait: the clock is not looked at by those that
/// need not wait.
fn left(timeout: Option<Duration>, waits_since: &mut Option<Instant>) -> Option<Duration> {
    let waited = waits_since.get_or_insert_with(Instant::now).elapsed();
    timeout.map(|timeout| timeout.saturating_sub(waited))
}

impl<B: StableBytes> Sender<B> {
    /// Sends over `socket`. Where kernel or socket do not have `MSG_ZEROCOPY`, everything is
    /// copied, and [`Counters::fallbacks`] says why.
    #[must_use]
    pub fn new(socket: InetSocket, options: &SenderOptions) -> Sender<B> {
        let in_flight = InFlight::new(socket, options.park_timeout);
        Sender {
            in_flight,
            options: options.clone(),
            paths: Paths::new(),
            elsewhere: HashMap::new(),
            counters: Counters::default(),
            outstanding: Outstanding::default(),
            since_drain: Outstanding::default(),
        }
    }

    /// Returns the socket, for everything that does not send.
    #[must_use]
    pub fn socket(&self) -> &InetSocket {
        self.in_flight.socket()
    }

    /// Sends one buffer or several, as one datagram or behind what was sent before, all of it; on a
    /// socket that [cuts its sends](InetSocket::set_segment_bytes) as trains of datagrams, as few as
    /// kernel and device take.
    ///
    /// # Ownership
    /// The buffers come back with the [`Release`], also after an error.
    // In line, down to the system call: on processors that forget in it where calls came from, each
    // return that follows is guessed wrong, which costs some 8 ns.
    #[inline(always)]
    pub fn send(&mut self, payload: impl Into<Payload<B>>) -> Sent {
        self.send_message(payload.into(), None)
    }

    /// Sends a datagram to `to`, from a UDP socket, whether or not it is connected.
    pub fn send_to(&mut self, payload: impl Into<Payload<B>>, to: SocketAddr) -> Sent {
        self.send_message(payload.into(), Some(to))
    }

    #[inline(always)]
    fn send_message(&mut self, payload: Payload<B>, to: Option<SocketAddr>) -> Sent {
        if self.socket().is_inherited() {
            return self.refuse_in_child(payload);
        }
        let (lend, sample) = self.choose(payload.len(), to);
        let (number, result) = match sample {
            None => self.send_chosen(payload, to, lend),
            Some(_) => {
                let mut sending = self.begin(payload, to, (lend, sample));
                self.go_on(&mut sending)
            }
        };
        let result = result.map_err(|errno| self.refusal_of(to, errno));
        Sent { id: SendId(number), result }
    }

    /// A child of `fork(2)` sends nothing, and gets nothing back.
    #[cold]
    fn refuse_in_child(&mut self, payload: Payload<B>) -> Sent {
        drop(payload);
        let refused = self.socket().check_owner("send to");
        Sent { id: SendId(self.in_flight.skip_number()), result: refused.map(|()| 0) }
    }

    /// The error of a send that the kernel refused so.
    #[cold]
    pub(super) fn refusal_of(&self, to: Option<SocketAddr>, errno: Errno) -> Error {
        let subject = match to {
            Some(to) => format!("{} {to}", self.transport().name()),
            None => self.socket().subject(),
        };
        Error::network("send to", subject, errno)
    }

    /// Sends, lent or for this reason copied; gives the send's number and what came of it.
    #[inline(always)]
    fn send_chosen(
        &mut self,
        payload: Payload<B>,
        to: Option<SocketAddr>,
        lend: Result<Path, FallbackReason>,
    ) -> (u64, Result<usize, Errno>) {
        let is_due = plan::is_drain_due(self.since_drain.sends, self.since_drain.bytes);
        if is_due || lend.is_ok() {
            let mut sending = self.begin(payload, to, (lend, None));
            if !is_due {
                let Sending { number, most, .. } = sending;
                sending.first = Some(self.in_flight.part(number, (0, most), to, true));
            }
            return self.go_on(&mut sending);
        }
        let (socket, length) = (self.in_flight.socket(), payload.len());
        let most = batch::max_call_bytes(socket);
        let sent = zerocopy::send_copied(socket, &payload, (0, most), to);
        match sent {
            Ok(bytes) if bytes >= length => self.copied_at_once(payload, bytes, lend),
            _ => self.copied_in_part(payload, to, lend, sent),
        }
    }

    /// The kernel copied a beginning or nothing, for this reason.
    #[inline(never)]
    fn copied_in_part(
        &mut self,
        payload: Payload<B>,
        to: Option<SocketAddr>,
        lend: Result<Path, FallbackReason>,
        sent: Result<usize, Errno>,
    ) -> (u64, Result<usize, Errno>) {
        let mut sending = self.begin(payload, to, (lend, None));
        if let Ok(bytes) = sent {
            self.in_flight.note_copied(sending.number, bytes);
        }
        sending.first = Some(sent);
        self.go_on(&mut sending)
    }

    /// Sends what has begun, after a first attempt or none.
    #[inline(never)]
    fn go_on(&mut self, sending: &mut Sending) -> (u64, Result<usize, Errno>) {
        let mut waits_since = None;
        let result = loop {
            match self.advance(sending) {
                Progress::Done => break Ok(sending.done),
                Progress::Failed(errno) => break Err(errno),
                Progress::WaitForRoom => {
                    let left = left(self.options.send_timeout, &mut waits_since);
                    if left == Some(Duration::ZERO) {
                        break Err(Errno::ETIMEDOUT);
                    }
                    self.in_flight.socket().wait(Wanted::Room, left);
                }
            }
        };
        self.end(sending, result.is_ok());
        (sending.number, result)
    }

    /// The kernel took all of a payload with one copy, for this reason: it is free already.
    #[inline(never)]
    fn copied_at_once(
        &mut self,
        payload: Payload<B>,
        bytes: usize,
        lend: Result<Path, FallbackReason>,
    ) -> (u64, Result<usize, Errno>) {
        if let Err(reason) = lend {
            self.counters.fell_back(reason);
        }
        self.counters.sends += 1;
        self.counters.bytes += bytes as u64;
        self.outstanding.sends += 1;
        self.outstanding.bytes += bytes;
        let usage = Usage { copied_parts: 1, bytes, ..Usage::default() };
        let number = self.in_flight.complete_unlisted(payload, usage);
        self.collect();
        (number, Ok(bytes))
    }

    pub(super) fn begin(
        &mut self,
        payload: Payload<B>,
        to: Option<SocketAddr>,
        (lend, sample): (Result<Path, FallbackReason>, Option<CostSample>),
    ) -> Sending {
        let length = payload.len();
        if let Err(reason) = lend {
            self.counters.fell_back(reason);
        }
        if lend.is_ok() && self.transport() == Transport::Tcp {
            self.socket().note_device();
        }
        let number = self.in_flight.begin(payload);
        if let Ok(path) = lend
            && path != Path::default()
        {
            self.elsewhere.insert(number, path);
        }
        let lend = lend.is_ok();
        self.outstanding.sends += 1;
        self.outstanding.bytes += length;
        let most = batch::max_call_bytes(self.socket());
        let (done, drained, first) = Default::default();
        Sending { number, to, length, done, most, lend, drained, sample, first }
    }

    /// Whether the options and what was learnt let a send of this length be lent, and on which path;
    /// and whether what it costs is to be told.
    pub(super) fn choose(
        &mut self,
        length: usize,
        to: Option<SocketAddr>,
    ) -> (Result<Path, FallbackReason>, Option<CostSample>) {
        let chosen = match (self.options.mode, self.in_flight.refusal()) {
            (Mode::Copy, _) => Err(FallbackReason::Asked),
            (_, Some(LendingRefusal::NotSupported)) => Err(FallbackReason::NotSupported),
            (_, Some(LendingRefusal::CountUncertain)) => Err(FallbackReason::CountUncertain),
            (Mode::Zerocopy, None) => Ok(Path::default()),
            (Mode::Auto, None) => {
                let way = Lending::MsgZerocopy(self.transport());
                return self.paths.choose(length, way, (self.in_flight.socket(), to.as_ref()));
            }
        };
        (chosen, None)
    }

    /// Sends as much as there is room for.
    pub(super) fn advance(&mut self, sending: &mut Sending) -> Progress {
        match sending.sample {
            None => self.advance_on(sending),
            Some(sample) => self.time(sample, |sender| sender.advance_on(sending)),
        }
    }

    /// Takes note of the processor time of what is done for a send.
    fn time<T>(&mut self, sample: CostSample, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = clock::thread();
        let result = act(self);
        self.paths.add_cost(sample, clock::thread().saturating_sub(before));
        result
    }

    fn advance_on(&mut self, sending: &mut Sending) -> Progress {
        loop {
            if plan::is_drain_due(self.since_drain.sends, self.since_drain.bytes)
                && let Err(errno) = self.drain()
            {
                return Progress::Failed(errno);
            }
            let Sending { number, to, done, most, lend, .. } = *sending;
            let sent = match sending.first.take() {
                None => self.in_flight.part(number, (done, most), to, lend),
                Some(first) => first,
            };
            match sent {
                Ok(bytes) => {
                    sending.done += bytes;
                    sending.drained = false;
                    if lend {
                        self.since_drain.sends += 1;
                        self.since_drain.bytes += bytes;
                    }
                    if sending.done >= sending.length || !batch::is_sent_in_parts(self.socket()) {
                        return Progress::Done;
                    }
                }
                Err(errno) => {
                    if let Some(progress) = self.refused(sending, errno) {
                        return progress;
                    }
                }
            }
        }
    }

    /// After a refusal: `None` to try again at once.
    fn refused(&mut self, sending: &mut Sending, errno: Errno) -> Option<Progress> {
        let Sending { lend: lent, drained, .. } = *sending;
        let transport = self.transport();
        // What is in the queue would end every wait for room.
        if let Err(errno) = self.drain() {
            return Some(Progress::Failed(errno));
        }
        match plan::after(RefusedSend { errno, transport, lent, drained }) {
            AfterRefusal::WaitForRoom => Some(Progress::WaitForRoom),
            AfterRefusal::Drain => {
                self.counters.no_buffer_space += 1;
                sending.drained = true;
                None
            }
            AfterRefusal::Copy(reason) => {
                sending.lend = false;
                self.counters.fell_back(reason);
                None
            }
            AfterRefusal::Fail => Some(Progress::Failed(errno)),
        }
    }

    pub(super) fn end(&mut self, sending: &Sending, is_whole: bool) {
        self.in_flight.end(sending.number);
        if let Some(sample) = sending.sample
            && self.paths.is_sample_complete(sample)
        {
            // Reading the reports is part of what lending costs. An error comes again.
            let _ = if sending.lend { self.time(sample, Self::drain) } else { Ok(()) };
            self.paths.finish_sample(sample);
        }
        self.collect();
        match is_whole {
            true => self.counters.sends += 1,
            false => self.counters.failed_sends += 1,
        }
        self.counters.bytes += sending.done as u64;
    }

    pub(super) fn transport(&self) -> Transport {
        self.in_flight.socket().transport()
    }

    /// Reads the error queue to its end.
    fn drain(&mut self) -> Result<(), Errno> {
        self.since_drain = Outstanding::default();
        let drained = self.in_flight.drain();
        let foreign = self.in_flight.foreign();
        self.counters.foreign_errors = foreign.count;
        self.counters.last_foreign_error = foreign.last;
        self.collect();
        drained
    }

    /// Takes note of what has landed, whenever its owner will ask for it.
    fn collect(&mut self) {
        let (socket, news) = self.in_flight.newly_completed();
        for Completed { number, usage, .. } in news {
            self.counters.released(usage.fate(socket), usage.bytes);
            let path = match self.elsewhere.is_empty() {
                true => Path::default(),
                false => self.elsewhere.remove(number).unwrap_or_default(),
            };
            self.paths.learn(path, usage.path_copied(socket));
        }
    }

    /// Takes the next release that is there, without waiting.
    ///
    /// # Errors
    /// The kernel reports sends that this sender did not make: the socket is shared in spite of
    /// [`InetSocket::adopt`]'s rules. Nothing that is outstanding is ever released then.
    pub fn next_release(&mut self) -> Result<Option<Release<B>>> {
        let completed = self.next_completed()?;
        Ok(completed.map(|completed| Release::of(completed, self.in_flight.socket())))
    }

    /// The next payload that is free.
    pub(super) fn next_completed(&mut self) -> Result<Option<Completed<B>>> {
        self.socket().check_owner("release buffers of")?;
        if self.in_flight.completed() == 0 {
            self.look()?;
        }
        let Some(completed) = self.in_flight.next_completed() else { return Ok(None) };
        self.outstanding.sends -= 1;
        self.outstanding.bytes -= completed.payload.len();
        Ok(Some(completed))
    }

    /// Reads what the kernel has released, if it owes anything.
    #[cold]
    fn look(&mut self) -> Result<()> {
        if self.in_flight.outstanding() > 0 {
            self.drain().map_err(|errno| self.socket().error("read the error queue of", errno))?;
        }
        match self.in_flight.completed() == 0 && self.in_flight.is_lost() {
            true => Err(self.lost()),
            false => Ok(()),
        }
    }

    fn lost(&self) -> Error {
        let reason = "the kernel reports sends that were not made here, so that nothing can be \
                      reported to be free; give each socket to one sender alone";
        Error::new("release buffers of", self.socket().subject(), Reason::Refused(reason.into()))
    }

    /// Takes the next release, waiting for one at most for `timeout` (`None`: for as long as it takes).
    /// `None`: the time is over, or nothing is outstanding.
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
            if self.in_flight.outstanding() == 0 || left == Some(Duration::ZERO) {
                return Ok(None);
            }
            // A connection that is over wakes every wait, also while a device has its pages.
            std::thread::sleep(pause.min(left.unwrap_or(pause)));
            self.in_flight.socket().wait(Wanted::Errors, left);
            pause = (pause + Duration::from_micros(50)).min(Duration::from_millis(5));
        }
    }

    /// Returns how many sends have a release that was not taken, and their bytes.
    #[must_use]
    pub fn outstanding(&self) -> Outstanding {
        self.outstanding
    }

    /// The release of this send has not been taken.
    #[cfg(feature = "tokio")]
    pub(super) fn is_outstanding(&self, number: u64) -> bool {
        self.in_flight.has(number)
    }

    /// Returns how many releases were read and not taken.
    #[must_use]
    pub fn released(&self) -> usize {
        self.in_flight.completed()
    }

    /// Returns the totals of the sends so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What they came to since this was last asked.
    pub(super) fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    /// Aborts a TCP connection: what was not sent yet is dropped, the peer reads a reset, and the
    /// kernel releases the buffers soon. A UDP socket loses its peer only.
    pub fn abort(&mut self) {
        if !self.socket().is_inherited() {
            self.in_flight.socket().abort();
        }
    }

    /// Nothing more is sent: the stream ends, unless a ring sends on it too.
    pub(super) fn end_stream(&mut self) {
        self.in_flight.end_stream();
    }

    /// The socket, for a ring that sends on it too.
    pub(super) fn share(&self) -> Arc<InetSocket> {
        self.in_flight.socket().clone()
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
