//! The connection of an end: its threads, its life, its end.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use uncopy_wire::{Frame, Frames, Message, Received, Session, Violation};

use crate::calls::Calls;
use crate::gate::lock;
use crate::input::{Directions, Input};
use crate::outbox::Outbox;
use crate::{Limits, RemoteError, Traffic};

/// Number of bytes of a frame that come within the limit of silence at least, unless its end does. With a length that was
/// damaged a frame would swallow signs of life for ever, which are far fewer.
const MIN_FRAME_BYTES: u64 = 1024;

/// End of a connection.
#[derive(Debug, Clone)]
pub(crate) enum LinkEnd {
    /// The other end has closed its stream between two frames.
    Closed,
    Failed(RemoteError),
}

impl LinkEnd {
    /// Returns the error of somebody who still needs the connection.
    pub(crate) fn error(&self) -> RemoteError {
        match self {
            LinkEnd::Closed => RemoteError::Lost { what: "the other end closed it".to_owned() },
            LinkEnd::Failed(error) => error.clone(),
        }
    }
}

#[derive(Debug, Default)]
struct Life {
    end: Option<LinkEnd>,
    /// Beginning of the read under way.
    reading_since: Option<Instant>,
    /// Frame that has not come whole.
    partial: Option<Partial>,
    is_reader_done: bool,
    is_writer_done: bool,
}

/// Counts the bytes that have come, since a time, of a frame that is not whole.
#[derive(Debug, Clone, Copy)]
struct Partial {
    since: Instant,
    bytes: u64,
}

impl Partial {
    /// Counts received bytes, behind which a frame is not whole. `is_same`: nor was it before them.
    fn after(before: Option<Partial>, is_same: bool, bytes: u64) -> Partial {
        let begun =
            before.filter(|_| is_same).unwrap_or(Partial { since: Instant::now(), bytes: 0 });
        match begun.bytes + bytes {
            MIN_FRAME_BYTES.. => Partial { since: Instant::now(), bytes: 0 },
            bytes => Partial { bytes, ..begun },
        }
    }
}

/// Connection to the other end.
#[derive(Debug)]
pub(crate) struct Link {
    limits: Limits,
    outbox: Arc<Outbox>,
    session: Mutex<Session>,
    calls: Option<Arc<Calls>>,
    answering: Option<Arc<dyn Answering>>,
    on_end: OnEnd,
    life: Mutex<Life>,
    changed: Condvar,
    counts: Arc<Counts>,
}

/// Receiver of calls.
pub(crate) trait Answering: fmt::Debug + Send + Sync {
    /// Takes a call that was received.
    fn take(&self, frame: &Frame) -> Result<(), Violation>;

    /// Answers no more: the connection has ended.
    fn stop(&self);
}

/// Bytes that have crossed connections.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Counts {
    /// Counts bytes that were sent.
    pub(crate) fn send(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that were received.
    pub(crate) fn receive(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }
}

/// Parts of a connection that answers and calls go to.
#[derive(Debug, Default)]
pub(crate) struct LinkParts {
    pub(crate) calls: Option<Arc<Calls>>,
    pub(crate) answering: Option<Arc<dyn Answering>>,
    /// Called once when the connection ends, before those who wait for answers know.
    pub(crate) on_end: OnEnd,
    pub(crate) counts: Arc<Counts>,
}

/// Function that is called at the end of a connection.
#[derive(Default)]
pub(crate) struct OnEnd(Option<Box<dyn Fn() + Send + Sync>>);

impl OnEnd {
    pub(crate) fn new(call: impl Fn() + Send + Sync + 'static) -> OnEnd {
        OnEnd(Some(Box::new(call)))
    }

    pub(crate) fn call(&self) {
        if let Some(call) = &self.0 {
            call();
        }
    }
}

impl fmt::Debug for OnEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnEnd").finish_non_exhaustive()
    }
}

/// Receiver of messages. It may wait: then nothing more is read.
pub(crate) type OnMessage = Box<dyn FnMut(Message) + Send>;

impl Link {
    pub(crate) fn new(
        limits: Limits,
        session: Session,
        outbox: Arc<Outbox>,
        parts: LinkParts,
    ) -> Arc<Link> {
        Arc::new(Link {
            limits,
            outbox,
            session: Mutex::new(session),
            calls: parts.calls,
            answering: parts.answering,
            on_end: parts.on_end,
            life: Mutex::default(),
            changed: Condvar::new(),
            counts: parts.counts,
        })
    }

    /// Starts the threads of the connection. They end with it, and with the streams. If one cannot be started, the
    /// connection has ended.
    pub(crate) fn start(
        self: &Arc<Link>,
        streams: impl Into<Directions>,
        frames: Frames,
        on_message: OnMessage,
    ) -> Result<(), RemoteError> {
        let started = self.start_threads(streams.into(), frames, on_message);
        started.inspect_err(|error| self.finish(&LinkEnd::Failed(error.clone())))
    }

    fn start_threads(
        self: &Arc<Link>,
        directions: Directions,
        frames: Frames,
        on_message: OnMessage,
    ) -> Result<(), RemoteError> {
        let Directions { input, output } = directions;
        let link = Arc::clone(self);
        spawn("writer", move || link.write(output))?;
        let link = Arc::clone(self);
        spawn("watch", move || link.watch())?;
        let link = Arc::clone(self);
        spawn("reader", move || link.read(input, frames, on_message))
    }

    /// Sends a message that does not wait.
    pub(crate) fn send(&self, message: &Message) -> Result<(), Violation> {
        let mut session = lock(&self.session);
        let frame = session.send(message)?;
        self.outbox.push(frame);
        Ok(())
    }

    /// Sends output once there is room.
    pub(crate) fn send_output(&self, message: &Message) -> io::Result<()> {
        let is_open = self.outbox.wait_for_room();
        let sent = self.send(message);
        match is_open && sent.is_ok() && lock(&self.life).end.is_none() {
            true => Ok(()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Whether something may be sent at once.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox.has_room()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.counts.traffic()
    }

    /// Returns the time after which a silent end is taken for dead.
    pub(crate) fn silence(&self) -> Duration {
        self.limits.silence
    }

    /// Returns the end of the connection, if it has ended.
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        lock(&self.life).end.clone()
    }

    /// Closes the stream to the other end behind what is queued.
    pub(crate) fn close(&self) {
        self.outbox.close();
    }

    /// Waits until everything queued is written and the other end has closed its stream, or the connection has failed,
    /// but no longer than this.
    pub(crate) fn wait_for_end(&self, limit: Duration) {
        self.wait_until(limit, |life| {
            let has_failed = matches!(life.end, Some(LinkEnd::Failed(_)));
            has_failed || (life.is_reader_done && life.is_writer_done)
        });
    }

    fn wait_for_reader(&self, limit: Duration) {
        self.wait_until(limit, |life| life.end.is_some());
    }

    fn wait_until(&self, limit: Duration, is_so: impl Fn(&Life) -> bool) {
        let begin = Instant::now();
        let mut life = lock(&self.life);
        while !is_so(&life) {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return;
            }
            (life, _) =
                self.changed.wait_timeout(life, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the connection has ended.
    pub(crate) fn wait(&self) -> LinkEnd {
        let mut life = lock(&self.life);
        loop {
            match &life.end {
                Some(end) => return end.clone(),
                None => life = self.changed.wait(life).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Ends the connection; the first end counts.
    pub(crate) fn finish(&self, end: &LinkEnd) {
        {
            let mut life = lock(&self.life);
            if life.end.is_some() {
                return;
            }
            life.end = Some(end.clone());
        }
        self.changed.notify_all();
        match end {
            LinkEnd::Closed => self.outbox.close(),
            LinkEnd::Failed(_) => self.outbox.drop_all(),
        }
        self.on_end.call();
        if let Some(calls) = &self.calls {
            calls.lose(&end.error().to_string());
        }
        if let Some(answering) = &self.answering {
            answering.stop();
        }
    }

    fn write(&self, mut output: Box<dyn Write + Send>) {
        let ping = || {
            // A far end that has sent its last frame sends none.
            let _ = self.send(&Message::Ping);
        };
        let sent = |bytes| self.counts.send(bytes);
        let written = self.outbox.write_to(&mut *output, self.limits.ping, ping, sent);
        drop(output);
        if let Err(error) = written {
            self.outbox.drop_all();
            let has_stopped_reading = error.kind() == io::ErrorKind::BrokenPipe;
            if has_stopped_reading {
                // The rest that the other end sent before is still read: its exit code, for example.
                self.wait_for_reader(self.limits.silence);
            }
            if !has_stopped_reading || !lock(&self.session).is_ended() {
                let what = format!("writing to it failed: {error}");
                self.finish(&LinkEnd::Failed(RemoteError::Lost { what }));
            }
        }
        lock(&self.life).is_writer_done = true;
        self.changed.notify_all();
    }

    fn read(&self, input: Box<dyn Input>, frames: Frames, on_message: OnMessage) {
        let end = match self.read_frames(input, frames, on_message) {
            Ok(()) => LinkEnd::Closed,
            Err(error) => LinkEnd::Failed(error),
        };
        self.finish(&end);
        lock(&self.life).is_reader_done = true;
        self.changed.notify_all();
    }

    fn read_frames(
        &self,
        mut input: Box<dyn Input>,
        mut frames: Frames,
        mut on_message: OnMessage,
    ) -> Result<(), RemoteError> {
        let spare = self.calls.as_ref().map(|calls| calls.spare());
        let mut make = |bytes| match spare {
            Some(spare) => spare.take(bytes),
            None => Vec::with_capacity(bytes),
        };
        let mut count = 0;
        loop {
            let mut is_same = true;
            while let Some(frame) = frames.next()? {
                is_same = false;
                // The lock is not held while somebody waits.
                let received = lock(&self.session).take(frame)?;
                match (received, &self.calls, &self.answering) {
                    (Received::Message(Message::Ping), ..) => {}
                    (Received::Message(message), ..) => on_message(message),
                    (Received::Answer(frame), Some(calls), _) => calls.take(frame)?,
                    (Received::Call(frame), _, Some(answering)) => answering.take(&frame)?,
                    _ => return Err(Violation::WrongSide.into()),
                }
            }
            {
                let mut life = lock(&self.life);
                if let Some(end) = &life.end {
                    return Err(end.error());
                }
                life.reading_since = Some(Instant::now());
                life.partial = match frames.is_empty() {
                    true => None,
                    false => Some(Partial::after(life.partial, is_same, count)),
                };
            }
            let read = input.feed(&mut |bytes| frames.feed_into(bytes, &mut make));
            lock(&self.life).reading_since = None;
            match read {
                Ok(0) if frames.is_empty() => return Ok(()),
                Ok(0) => {
                    let what = "it ended in the middle of a frame".to_owned();
                    return Err(RemoteError::Lost { what });
                }
                Ok(read) => {
                    count = read as u64;
                    self.counts.receive(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => count = 0,
                Err(error) => {
                    let what = format!("reading from it failed: {error}");
                    return Err(RemoteError::Lost { what });
                }
            }
        }
    }

    /// Ends the connection when nothing comes for too long.
    fn watch(&self) {
        let silence = self.limits.silence;
        let mut life = lock(&self.life);
        while life.end.is_none() {
            let age =
                |since: Option<Instant>| since.map_or(Duration::ZERO, |since| since.elapsed());
            let silent = age(life.reading_since);
            let stuck = age(life.partial.map(|partial| partial.since));
            let left = silence.saturating_sub(silent.max(stuck));
            if left.is_zero() {
                drop(life);
                let seconds = silence.as_secs_f32();
                let what = match silent >= silence {
                    true => format!("nothing has come over it for {seconds} s"),
                    false => format!("a message that it began has not come for {seconds} s"),
                };
                return self.finish(&LinkEnd::Failed(RemoteError::Lost { what }));
            }
            (life, _) =
                self.changed.wait_timeout(life, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Starts a thread.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), RemoteError> {
    let started = thread::Builder::new().name(format!("uncopy-{name}")).spawn(work);
    started.map(drop).map_err(|error| {
        let errno = uncopy_core::Errno::from_raw(error.raw_os_error().unwrap_or_default());
        RemoteError::System { what: "start a thread", errno }
    })
}
