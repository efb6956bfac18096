//! The near end of a session.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use uncopy_wire::{
    End, Frames, Job, JobState, MACHINE_VERSION, MAX_PATH_BYTES, Message, OPEN_VERSION,
    OutputStream, Session, Violation,
};

use crate::beginning::{Patience, STOP_INTERVAL, begin};
use crate::calls::Calls;
use crate::confine;
use crate::data_links::{DataLinks, DataRole};
use crate::greet::{Greeted, greet};
use crate::lanes::Lanes;
use crate::link::{Link, LinkEnd, LinkParts, OnEnd, OnMessage, spawn};
use crate::machine;
use crate::near_data::{DataBeginning, NearData};
use crate::outbox::Outbox;
use crate::serve::{RootBase, Roots, Serving};
use crate::{
    DataOptions, DataReport, DataStart, DataWay, Limits, Note, RemoteError, RemoteSource, Streams,
    Traffic, WhyNoData,
};

/// Number of messages that wait for their receiver before nothing more is read.
const MESSAGES: usize = 16;
/// Time that the other end gets to close its stream behind the last frame.
const CLOSING: Duration = Duration::from_secs(5);

/// Patience with a far end that is alive and has not taken the job: it opens the paths of the job before.
struct Taking {
    since: Instant,
    limit: Duration,
    is_taken: bool,
}

impl Taking {
    fn begin(limits: &Limits) -> Taking {
        // Longer than a silent end is waited for, which is another error.
        Taking { since: Instant::now(), limit: limits.silence * 2, is_taken: false }
    }

    /// Returns an error once it has taken too long.
    fn check(&self) -> Result<(), RemoteError> {
        match !self.is_taken && self.since.elapsed() >= self.limit {
            true => Err(RemoteError::NotTaken { limit: self.limit }),
            false => Ok(()),
        }
    }
}

/// Job for the far end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunJob {
    /// Arguments of the program there.
    pub arguments: Vec<OsString>,
    /// Names of the sources, for people.
    pub sources: Vec<OsString>,
}

/// Event of the far end.
#[derive(Debug)]
#[non_exhaustive]
pub enum FarEvent<'a> {
    /// Output of the program there.
    Output {
        /// Where it belongs.
        stream: OutputStream,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// How far the job is.
    Progress(&'a JobState),
    /// A fact about the session.
    Note(Note),
}

/// Runs a job at the far end with sources of this end, and serves them. Calls `stop` now and then, and has the job stop
/// once it returns `true`. Returns the exit code of the far end. `data`: data connections are made, unless `None`.
///
/// # Errors
/// The session failed; nothing is known about the job then. [`RemoteError::Stopped`], [`RemoteError::NoData`]: it did
/// not begin.
pub fn push(
    streams: Streams,
    limits: &Limits,
    data: Option<DataOptions>,
    job: &RunJob,
    sources: &[PathBuf],
    stop: &dyn Fn() -> bool,
    on_event: &mut dyn FnMut(FarEvent<'_>),
) -> Result<u8, RemoteError> {
    let (streams, Greeted { frames, version }) = greet_until(streams, limits, stop)?;
    let outbox = Arc::<Outbox>::default();
    let roots = Roots::new(RootBase::Anywhere, sources.to_vec());
    let serving = Serving::new(roots, Arc::clone(&outbox), version);
    let links = DataLinks::new(End::Near, DataRole::Serves(Arc::clone(&serving)), *limits);
    let data = NearConnections::new(data, links, version)?;
    let parts = LinkParts {
        answering: Some(Arc::clone(&serving) as _),
        on_end: data.on_end(),
        ..LinkParts::default()
    };
    let session = Session::new(End::Near).speaking(version);
    let link = Link::new(*limits, session, outbox, parts);
    data.want_first(&link)?;
    if let Some(mark) = machine::mark().filter(|_| version >= MACHINE_VERSION) {
        link.send(&Message::Machine(mark))?;
    }
    let words = |names: &[OsString]| names.iter().map(|name| bytes(name)).collect();
    let message = Job::Run { arguments: words(&job.arguments), sources: words(&job.sources) };
    send_job(&link, message)?;
    let (messages, received) = mpsc::sync_channel(MESSAGES);
    let on_message = data.on_message(messages);
    let is_confined =
        start_confined(Arc::clone(&link), serving, Begun { streams, frames, on_message })?;
    let links = data.start(&link)?;
    if !is_confined {
        on_event(FarEvent::Note(Note::NearNotConfined));
    }
    let taking = Taking::begin(limits);
    let result = follow_job(&link, &links, taking, &received, stop, on_event);
    drop(received);
    link.close();
    if result.is_ok() {
        link.wait_for_end(CLOSING);
    }
    let error = RemoteError::Lost { what: "the session has ended".to_owned() };
    link.finish(&LinkEnd::Failed(error));
    result
}

/// Greets, unless `stop` returns `true` while the other end is waited for.
fn greet_until(
    mut streams: Streams,
    limits: &Limits,
    stop: &dyn Fn() -> bool,
) -> Result<(Streams, Greeted), RemoteError> {
    let patience = Patience { silence: limits.silence, waits_for_login: true };
    begin(patience, "greeting", stop, move |heard| {
        let greeted = greet(&mut streams, heard)?;
        Ok((streams, greeted))
    })
}

fn bytes(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

/// Returns a root as the job names it. One that no system opens for its length becomes another of that kind, which fits into the
/// job: the answer is the same error, of that source alone.
fn root_bytes(root: &OsStr) -> Vec<u8> {
    match root.len() > MAX_PATH_BYTES {
        true => vec![b'x'; MAX_PATH_BYTES],
        false => bytes(root),
    }
}

fn send_job(link: &Link, job: Job) -> Result<(), RemoteError> {
    link.send(&Message::Job(job)).map_err(|violation| match violation {
        Violation::TooLong => RemoteError::TooManyNames,
        other => other.into(),
    })
}

/// Session behind its greetings.
struct Begun {
    streams: Streams,
    frames: Frames,
    on_message: OnMessage,
}

/// Data connections of a session that begins.
struct NearConnections {
    links: Arc<DataLinks>,
    beginning: Option<DataBeginning>,
    near: Option<NearData>,
}

/// Data connections of a session.
struct NearLinks {
    links: Arc<DataLinks>,
    /// Whether the job waits for the first one.
    is_first: bool,
}

impl NearLinks {
    /// Returns the reason why the job is not to begin.
    fn failed(&self) -> Option<WhyNoData> {
        self.links.given_up().filter(|_| self.is_first && !self.links.has_stood())
    }
}

impl NearConnections {
    fn new(
        options: Option<DataOptions>,
        links: Arc<DataLinks>,
        version: u16,
    ) -> Result<NearConnections, RemoteError> {
        let (wanted, too_old) = match options {
            Some(options) if options.way == DataWay::Open && version < OPEN_VERSION => {
                if options.start == DataStart::First {
                    return Err(RemoteError::NoData { why: WhyNoData::TooOld });
                }
                (None, Some(WhyNoData::TooOld))
            }
            options => (options, None),
        };
        let beginning = wanted.map(DataBeginning::new).transpose()?;
        match &beginning {
            Some(beginning) if beginning.is_first() => links.want(beginning.way()),
            Some(_) => {}
            None => links.give_up(too_old.unwrap_or(WhyNoData::NotWanted)),
        }
        let near = beginning.as_ref().map(DataBeginning::near);
        Ok(NearConnections { links, beginning, near })
    }

    fn on_end(&self) -> OnEnd {
        let (links, near) = (Arc::clone(&self.links), self.near.clone());
        OnEnd::new(move || {
            links.close();
            if let Some(near) = &near {
                near.end();
            }
        })
    }

    /// Asks for connections before the job, if that waits for them.
    fn want_first(&self, link: &Link) -> Result<(), RemoteError> {
        match &self.beginning {
            Some(beginning) if beginning.is_first() => Ok(link.send(&beginning.wish())?),
            _ => Ok(()),
        }
    }

    /// Returns the receiver of messages, which hands those of the job on.
    fn on_message(&self, messages: SyncSender<Message>) -> OnMessage {
        let near = self.near.clone();
        Box::new(move |message| {
            let rest = match &near {
                Some(near) => near.take(message),
                None => Some(message),
            };
            // The receiver is gone when the session has ended.
            rest.into_iter().for_each(|message| drop(messages.send(message)));
        })
    }

    fn start(self, link: &Arc<Link>) -> Result<NearLinks, RemoteError> {
        let NearConnections { links, beginning, .. } = self;
        let is_first = beginning.as_ref().is_some_and(DataBeginning::is_first);
        if let Some(beginning) = beginning {
            let started = beginning.start(Arc::clone(link), Arc::clone(&links));
            started.inspect_err(|error| link.finish(&LinkEnd::Failed(error.clone())))?;
        }
        Ok(NearLinks { links, is_first })
    }
}

/// Starts the threads of a session that serves from a thread that is confined first. Returns whether it is.
fn start_confined(
    link: Arc<Link>,
    serving: Arc<Serving>,
    begun: Begun,
) -> Result<bool, RemoteError> {
    let (report, started) = mpsc::channel();
    spawn("session", move || {
        let is_confined = confine::to_reading(serving.roots().handles());
        let Begun { streams, frames, on_message } = begun;
        let result = serving
            .start()
            .and_then(|()| link.start(streams, frames, on_message))
            .map(|()| is_confined);
        let _ = report.send(result);
    })?;
    started.recv().unwrap_or(Err(RemoteError::Lost { what: "its thread has ended".to_owned() }))
}

/// Hands on what the far end sends, until its exit code.
fn follow_job(
    link: &Link,
    data: &NearLinks,
    mut taking: Taking,
    received: &Receiver<Message>,
    stop: &dyn Fn() -> bool,
    on_event: &mut dyn FnMut(FarEvent<'_>),
) -> Result<u8, RemoteError> {
    let (mut is_stopping, mut is_noted) = (false, false);
    loop {
        if let Some(why) = data.failed() {
            return Err(RemoteError::NoData { why });
        }
        if let Some(why) = data.links.given_up().filter(|_| !is_noted) {
            is_noted = true;
            if why != WhyNoData::NotWanted {
                on_event(FarEvent::Note(Note::NoData(why)));
            }
        }
        if stop() && !is_stopping {
            is_stopping = true;
            // The job may have ended meanwhile.
            let _ = link.send(&Message::Stop);
        }
        // Looked at first: messages that came before the end are received all the same.
        let end = link.end();
        let message = match received.recv_timeout(STOP_INTERVAL) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) if end.is_none() => {
                taking.check()?;
                continue;
            }
            // The reader lets go of the messages just before it reports why.
            Err(_) => return Err(link.wait().error()),
        };
        match message {
            Message::Accepted { is_confined } => {
                taking.is_taken = true;
                if !is_confined {
                    on_event(FarEvent::Note(Note::FarNotConfined));
                }
            }
            Message::Output { stream, bytes } => {
                on_event(FarEvent::Output { stream, bytes: &bytes });
            }
            Message::Progress(state) => on_event(FarEvent::Progress(&state)),
            Message::Refused(refusal) => return Err(RemoteError::Refused(refusal)),
            Message::Exit { code } => return Ok(code),
            _ => {}
        }
    }
}

/// Session whose far end serves.
#[derive(Debug)]
pub struct Pull {
    link: Arc<Link>,
    source: Arc<RemoteSource>,
    data: Arc<DataLinks>,
    notes: Vec<Note>,
}

/// Has the far end serve these paths. Relative ones begin at the login's directory, and an empty one is that directory.
/// `stop` is called now and then while the far end is waited for. `data`: data connections are made, unless `None`.
///
/// # Errors
/// The session could not begin; [`RemoteError::Stopped`], [`RemoteError::NoData`].
pub fn pull(
    streams: Streams,
    limits: &Limits,
    data: Option<DataOptions>,
    roots: &[OsString],
    stop: &dyn Fn() -> bool,
) -> Result<Pull, RemoteError> {
    let (streams, Greeted { frames, version }) = greet_until(streams, limits, stop)?;
    let outbox = Arc::<Outbox>::default();
    let calls = Calls::new(Arc::clone(&outbox));
    let lanes = Lanes::new(Arc::clone(&calls), version);
    let links = DataLinks::new(End::Near, DataRole::Asks(Arc::clone(&lanes)), *limits);
    let data = NearConnections::new(data, links, version)?;
    let parts = LinkParts { calls: Some(calls), on_end: data.on_end(), ..LinkParts::default() };
    let session = Session::new(End::Near).speaking(version);
    let link = Link::new(*limits, session, outbox, parts);
    data.want_first(&link)?;
    send_job(&link, Job::Serve { roots: roots.iter().map(|root| root_bytes(root)).collect() })?;
    let (messages, received) = mpsc::sync_channel(MESSAGES);
    link.start(streams, frames, data.on_message(messages))?;
    let data = data.start(&link)?;
    let fail = |error: RemoteError| {
        link.finish(&LinkEnd::Failed(error.clone()));
        Err(error)
    };
    let taking = Taking::begin(limits);
    let mut is_here = false;
    let is_confined = loop {
        let end = link.end();
        match received.recv_timeout(STOP_INTERVAL) {
            Ok(Message::Accepted { is_confined }) => break is_confined,
            Ok(Message::Refused(refusal)) => return fail(RemoteError::Refused(refusal)),
            Ok(Message::Machine(mark)) => is_here = machine::is_here(&mark),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if stop() => {
                return fail(RemoteError::Stopped);
            }
            Err(RecvTimeoutError::Timeout) if end.is_none() => {
                if let Err(error) = taking.check() {
                    return fail(error);
                }
            }
            // The reader lets go of the messages just before it reports why.
            Err(_) => return fail(link.wait().error()),
        }
    };
    while data.is_first && !data.links.has_stood() {
        data.links.wait_for_first(STOP_INTERVAL);
        if let Some(why) = data.failed() {
            return fail(RemoteError::NoData { why });
        }
        if let Some(end) = link.end() {
            return fail(end.error());
        }
        if stop() {
            return fail(RemoteError::Stopped);
        }
    }
    let paths = roots.iter().map(PathBuf::from).collect();
    let source = RemoteSource::new(lanes, is_here, paths);
    let notes = (!is_confined).then_some(Note::FarNotConfined).into_iter().collect();
    Ok(Pull { link, source, data: data.links, notes })
}

impl Pull {
    /// Returns the source, whose roots have the numbers of the paths.
    #[must_use]
    pub fn source(&self) -> Arc<RemoteSource> {
        Arc::clone(&self.source)
    }

    /// Returns facts about the session.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns the bytes that have crossed the streams of the session so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.link.traffic()
    }

    /// Returns what is known about data connections.
    #[must_use]
    pub fn data(&self) -> DataReport {
        self.data.report(self.link.traffic())
    }

    /// Ends the session in order. The source cannot be asked any more.
    ///
    /// # Errors
    /// The session had failed before.
    pub fn end(self) -> Result<(), RemoteError> {
        if let Some(end) = self.link.end() {
            return Err(end.error());
        }
        self.data.close();
        self.link.close();
        self.link.wait_for_end(CLOSING);
        Ok(())
    }
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.link.close();
        let what = "the session has ended".to_owned();
        self.link.finish(&LinkEnd::Failed(RemoteError::Lost { what }));
    }
}
