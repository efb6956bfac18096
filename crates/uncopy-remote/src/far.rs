//! The far end of a session.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use uncopy_os::follow;
use uncopy_wire::{
    DataWish, End, Frames, JOURNAL_OUTSIDE_VERSION, Job, JobState, MACHINE_VERSION,
    MAX_OUTPUT_BYTES, Message, OutputStream, Received, Refusal, Session, Violation,
};

use crate::beginning::{Heard, Patience, begin};
use crate::calls::Calls;
use crate::confine;
use crate::data_links::{DataLinks, DataRole};
use crate::error::refusal_text;
use crate::far_data::{FarData, Offering};
use crate::greet::{Greeted, greet};
use crate::lanes::Lanes;
use crate::link::{Answering, Link, LinkEnd, LinkParts, OnEnd};
use crate::machine;
use crate::outbox::Outbox;
use crate::serve::{RootBase, Roots, Serving};
use crate::{DataReport, Limits, RemoteError, RemoteSource, Streams, Traffic};

/// Restriction of a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restriction {
    /// Only directory that is read and written. It is the working directory of this process.
    pub directory: Option<PathBuf>,
    /// Whether nothing is written.
    pub read_only: bool,
    /// Rule about data connections.
    pub data: FarData,
}

/// Session that has begun, without any thread.
#[derive(Debug)]
struct Begun {
    streams: Streams,
    frames: Frames,
    session: Session,
    limits: Limits,
    restriction: Restriction,
    /// Data connections that the job waits for.
    wish: Option<DataWish>,
    /// Whether the near end is on this machine, and serves.
    is_here: bool,
}

/// Job that the near end wants.
#[derive(Debug)]
pub enum Accepted {
    /// Paths are to be served.
    Serve(ServeRequest),
    /// The program is to run.
    Run(RunRequest),
}

/// Paths to be served.
#[derive(Debug)]
pub struct ServeRequest {
    begun: Begun,
    roots: Vec<PathBuf>,
}

/// Arguments with which the program is to run.
#[derive(Debug)]
pub struct RunRequest {
    begun: Begun,
    arguments: Vec<OsString>,
    sources: Vec<OsString>,
    /// Directories whose files get further names.
    linked: Vec<PathBuf>,
}

/// Greets the near end and reads its job. No thread is left behind: what comes later can confine the calling one.
///
/// # Errors
/// There is no near end, or it is silent; or it asks for what the restriction forbids, and has been refused.
pub fn accept(
    mut streams: Streams,
    limits: &Limits,
    restriction: &Restriction,
) -> Result<Accepted, RemoteError> {
    let (limits, restriction) = (*limits, restriction.clone());
    let patience = Patience { silence: limits.silence, waits_for_login: false };
    let (begun, job) = begin(patience, "job", &|| false, move |heard| {
        let Greeted { mut frames, version } = greet(&mut streams, heard)?;
        let mut session = Session::new(End::Far).speaking(version);
        let FirstFrames { job, wish, is_here } =
            read_job(&mut streams, &mut frames, &mut session, heard)?;
        Ok((Begun { streams, frames, session, limits, restriction, wish, is_here }, job))
    })?;
    let words = |words: Vec<Vec<u8>>| words.into_iter().map(OsString::from_vec).collect();
    match job {
        Job::Serve { roots } => {
            let given = roots.into_iter().map(|root| PathBuf::from(OsString::from_vec(root)));
            let mut roots = Vec::new();
            for path in given {
                match begun.restriction.beneath(&path) {
                    Some(path) => roots.push(path),
                    None => {
                        let path = path.as_os_str().as_bytes().to_vec();
                        return Err(begun.refuse(Refusal::Outside { path }));
                    }
                }
            }
            Ok(Accepted::Serve(ServeRequest { begun, roots }))
        }
        Job::Run { .. } if begun.restriction.read_only => Err(begun.refuse(Refusal::ReadOnly)),
        Job::Run { arguments, sources } => {
            let (arguments, sources) = (words(arguments), words(sources));
            let linked = Vec::new();
            Ok(Accepted::Run(RunRequest { begun, arguments, sources, linked }))
        }
        _ => Err(Violation::WrongOrder.into()),
    }
}

/// Beginning of a session.
struct FirstFrames {
    job: Job,
    wish: Option<DataWish>,
    is_here: bool,
}

fn read_job(
    streams: &mut Streams,
    frames: &mut Frames,
    session: &mut Session,
    heard: &Heard<'_>,
) -> Result<FirstFrames, RemoteError> {
    let mut buffer = vec![0; 64 << 10];
    let (mut wish, mut is_here) = (None, false);
    loop {
        while let Some(frame) = frames.next()? {
            match session.take(frame)? {
                Received::Message(Message::Job(job)) => {
                    return Ok(FirstFrames { job, wish, is_here });
                }
                Received::Message(Message::DataWanted(wanted)) => wish = Some(wanted),
                Received::Message(Message::Machine(mark)) => is_here = machine::is_here(&mark),
                _ => {}
            }
        }
        // Signs of life alone are no beginning.
        if !frames.is_empty() {
            heard.something();
        }
        match streams.input.read(&mut buffer) {
            Ok(0) => return Err(RemoteError::Lost { what: "it named no job".to_owned() }),
            Ok(count) => frames.feed(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(RemoteError::Lost { what: format!("reading from it failed: {error}") });
            }
        }
    }
}

impl Restriction {
    /// Returns the path from the directory on, by its text alone; `None`: it leads out.
    fn beneath(&self, path: &Path) -> Option<PathBuf> {
        let Some(directory) = &self.directory else { return Some(path.to_owned()) };
        let inner = match path.is_absolute() {
            true => path.strip_prefix(directory).ok()?,
            false => path,
        };
        let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !inner.components().all(is_inside) {
            return None;
        }
        // A slash at the end counts, and is no component.
        let mut text = inner.as_os_str().to_owned();
        if path.as_os_str().as_bytes().ends_with(b"/") && !text.is_empty() {
            text.push("/");
        }
        Some(text.into())
    }

    fn open(&self) -> Result<Option<OwnedFd>, RemoteError> {
        let what = "open the directory that this login is restricted to";
        let open = |directory: &PathBuf| follow::open(directory, OFlags::PATH | OFlags::DIRECTORY);
        let opened = self.directory.as_ref().map(open).transpose();
        opened.map_err(|stopped| RemoteError::System { what, errno: stopped.errno() })
    }
}

impl Begun {
    /// Refuses the job, and returns the error that says so.
    fn refuse(mut self, refusal: Refusal) -> RemoteError {
        let is_known = self.session.version() >= JOURNAL_OUTSIDE_VERSION;
        let message = Message::Refused(match &refusal {
            Refusal::JournalOutside { .. } if !is_known => {
                Refusal::Arguments { message: refusal_text(&refusal) }
            }
            refusal => refusal.clone(),
        });
        if let Ok(frame) = self.session.send(&message) {
            // A near end that has gone need not know.
            let output = &mut self.streams.output;
            let _ = output.write_all(&frame.encode()).and_then(|()| output.flush());
        }
        RemoteError::Refused(refusal)
    }

    fn link(
        self,
        mut parts: LinkParts,
        role: DataRole,
        outbox: Arc<Outbox>,
        stop: Arc<AtomicBool>,
    ) -> StartedLink {
        let Begun { streams, frames, session, limits, restriction, wish, .. } = self;
        let links = DataLinks::new(End::Far, role, limits);
        let offering = Offering::new(restriction.data, Arc::clone(&links));
        let (ending, ended) = (Arc::clone(&links), Arc::clone(&offering));
        parts.on_end = OnEnd::new(move || {
            ending.close();
            ended.close();
        });
        let link = Link::new(limits, session, outbox, parts);
        StartedLink { link, links, offering, wish, streams, frames, stop }
    }
}

/// Connection whose threads are not started yet.
struct StartedLink {
    link: Arc<Link>,
    links: Arc<DataLinks>,
    offering: Arc<Offering>,
    wish: Option<DataWish>,
    streams: Streams,
    frames: Frames,
    stop: Arc<AtomicBool>,
}

impl StartedLink {
    /// Accepts the job, and starts the threads.
    fn start(self, is_confined: bool) -> Result<RunningLink, RemoteError> {
        let StartedLink { link, links, offering, wish, streams, frames, stop } = self;
        link.send(&Message::Accepted { is_confined })?;
        if let Some(wish) = &wish {
            offering.offer(&link, wish);
        }
        let (answering, offers) = (Arc::clone(&link), offering);
        let on_message = Box::new(move |message| {
            if offers.take(&answering, message) == Some(Message::Stop) {
                stop.store(true, Ordering::Relaxed);
            }
        });
        link.start(streams, frames, on_message)?;
        Ok(RunningLink { link, links, waits: wish.is_some() })
    }
}

/// Connection whose threads run.
struct RunningLink {
    link: Arc<Link>,
    links: Arc<DataLinks>,
    /// Whether the job waits for a data connection.
    waits: bool,
}

impl RunningLink {
    /// Waits for the first data connection, if the job does.
    fn wait_for_data(&self) -> Result<(), RemoteError> {
        while self.waits && !self.links.has_stood() {
            self.links.wait_for_first(self.link.silence());
            // The near end knows more about it, and ends the session.
            if let Some(why) = self.links.given_up() {
                self.link.wait();
                return Err(RemoteError::NoData { why });
            }
            if let Some(end) = self.link.end() {
                return Err(end.error());
            }
        }
        Ok(())
    }
}

impl ServeRequest {
    /// Confines the calling thread to the paths, and serves them until the near end closes the connection.
    ///
    /// # Errors
    /// The kernel cannot confine a login that is restricted: the request is refused then. The connection is lost, or the near
    /// end breaks the protocol.
    pub fn serve(self) -> Result<(), RemoteError> {
        let ServeRequest { begun, roots } = self;
        let base = match begun.restriction.open()? {
            Some(directory) => RootBase::Beneath(directory),
            None => RootBase::Anywhere,
        };
        let roots = Roots::new(base, roots);
        // Before it can be read no more.
        let mark = machine::mark().filter(|_| begun.session.version() >= MACHINE_VERSION);
        let is_confined = confine::to_reading(roots.handles());
        if !is_confined && begun.restriction.directory.is_some() {
            return Err(begun.refuse(Refusal::NotConfined));
        }
        let outbox = Arc::<Outbox>::default();
        let serving = Serving::new(roots, Arc::clone(&outbox), begun.session.version());
        let answering = Some(Arc::clone(&serving) as _);
        let parts = LinkParts { answering, ..LinkParts::default() };
        let role = DataRole::Serves(Arc::clone(&serving));
        let started = begun.link(parts, role, outbox, Arc::default());
        if let Some(mark) = mark {
            started.link.send(&Message::Machine(mark))?;
        }
        serving.start()?;
        let RunningLink { link, .. } =
            started.start(is_confined).inspect_err(|_| serving.stop())?;
        match link.wait() {
            LinkEnd::Closed => Ok(()),
            LinkEnd::Failed(error) => Err(error),
        }
    }
}

impl RunRequest {
    /// Returns the arguments.
    #[must_use]
    pub fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// Returns the version of the protocol that is spoken.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.begun.session.version()
    }

    /// Returns the names of the sources, for people.
    #[must_use]
    pub fn sources(&self) -> &[OsString] {
        &self.sources
    }

    /// Lets the job give files beneath these directories, which exist, further names beneath the ones that it writes to. In a
    /// restricted login those of its directory are the only ones that it may.
    #[must_use]
    pub fn linking_from(self, directories: Vec<PathBuf>) -> RunRequest {
        RunRequest { linked: directories, ..self }
    }

    /// Refuses the job.
    ///
    /// # Errors
    /// Always: the refusal as an error.
    pub fn refuse(self, refusal: Refusal) -> Result<(), RemoteError> {
        Err(self.begun.refuse(refusal))
    }

    /// Runs the job. Before, confines the calling thread and all that it starts from then on to writing beneath these
    /// directories, which exist, and has the near end know whether the kernel can. `job` gets the sources of the near
    /// end, and returns the exit code.
    ///
    /// # Errors
    /// A directory is not beneath the one that the login is restricted to, or the kernel cannot confine a login that is
    /// restricted: the job is refused then. The connection is lost.
    pub fn run(
        self,
        writable: &[PathBuf],
        job: impl FnOnce(Arc<RemoteSource>, &Output) -> u8,
    ) -> Result<u8, RemoteError> {
        let RunRequest { begun, linked, .. } = self;
        let is_confined = match begun.confine(writable, &linked) {
            Ok(is_confined) => is_confined,
            Err(NotBegun::Refused(refusal)) => return Err(begun.refuse(refusal)),
            Err(NotBegun::Failed(error)) => return Err(error),
        };
        let outbox = Arc::<Outbox>::default();
        let calls = Calls::new(Arc::clone(&outbox));
        let parts = LinkParts { calls: Some(Arc::clone(&calls)), ..LinkParts::default() };
        let stop = Arc::new(AtomicBool::new(false));
        let (silence, is_here) = (begun.limits.silence, begun.is_here);
        let lanes = Lanes::new(calls, begun.session.version());
        let role = DataRole::Asks(Arc::clone(&lanes));
        let started = begun.link(parts, role, outbox, Arc::clone(&stop)).start(is_confined)?;
        started.wait_for_data()?;
        let RunningLink { link, links, .. } = started;
        let output = Output { link: Arc::clone(&link), data: links, stop };
        let code = job(RemoteSource::new(lanes, is_here, Vec::new()), &output);
        // Calls that nobody waits for, such as those that close handles, may still be on their way.
        if let Some(end) = link.end() {
            return Err(end.error());
        }
        link.send(&Message::Exit { code })?;
        link.close();
        link.wait_for_end(silence);
        match link.end() {
            Some(LinkEnd::Failed(error)) => Err(error),
            _ => Ok(code),
        }
    }
}

/// Reason why a job does not begin.
enum NotBegun {
    Refused(Refusal),
    Failed(RemoteError),
}

impl From<RemoteError> for NotBegun {
    fn from(error: RemoteError) -> NotBegun {
        NotBegun::Failed(error)
    }
}

impl Begun {
    /// Confines the calling thread to writing beneath these directories, and to linking from the others. Returns whether the
    /// kernel can.
    fn confine(&self, writable: &[PathBuf], linked: &[PathBuf]) -> Result<bool, NotBegun> {
        let Some(within) = self.restriction.open()? else {
            let open_all = |what, directories: &[PathBuf]| {
                let open = |directory: &PathBuf| {
                    let opened = follow::open_directory(directory);
                    opened.map_err(|stopped| RemoteError::System { what, errno: stopped.errno() })
                };
                directories.iter().map(open).collect::<Result<Vec<OwnedFd>, _>>()
            };
            let writable = open_all("open a directory that is written to", writable)?;
            let linked = open_all("open a directory that is linked from", linked)?;
            return Ok(confine::to_writing(writable.into_iter(), linked.into_iter()));
        };
        let root = self.restriction.directory.as_deref().map(Path::canonicalize);
        let is_beneath = |directory: &PathBuf| match (&root, directory.canonicalize()) {
            (Some(Ok(root)), Ok(directory)) => directory.starts_with(root),
            _ => false,
        };
        if let Some(outside) = writable.iter().find(|directory| !is_beneath(directory)) {
            let path = outside.as_os_str().as_bytes().to_vec();
            return Err(NotBegun::Refused(Refusal::Outside { path }));
        }
        match confine::to_directory(within, readable_by_all()) {
            true => Ok(true),
            false => Err(NotBegun::Refused(Refusal::NotConfined)),
        }
    }
}

/// Returns handles of what a restricted job reads beside its directory: facts about the system.
fn readable_by_all() -> impl Iterator<Item = OwnedFd> {
    // Landlock keeps other processes' secrets in /proc from a confined process (landlock(7), "Ptrace restrictions").
    let paths = ["/proc", "/sys", "/dev/null", "/etc/passwd", "/etc/group"];
    paths.into_iter().filter_map(|path| follow::open(Path::new(path), OFlags::PATH).ok())
}

/// Output of a job at the far end.
#[derive(Debug, Clone)]
pub struct Output {
    link: Arc<Link>,
    data: Arc<DataLinks>,
    stop: Arc<AtomicBool>,
}

impl Output {
    /// Sends output to the near end. Waits while that does not read.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn write(&self, stream: OutputStream, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(MAX_OUTPUT_BYTES) {
            self.link.send_output(&Message::Output { stream, bytes: part.to_vec() })?;
        }
        Ok(())
    }

    /// Returns a writer to a stream.
    pub fn writer(&self, stream: OutputStream) -> impl Write + Send + 'static {
        OutputWriter { output: self.clone(), stream }
    }

    /// Sends the state of the job, unless much else is on its way.
    pub fn progress(&self, state: &JobState) {
        if self.link.has_room() {
            // The end of the connection shows elsewhere.
            let _ = self.link.send(&Message::Progress(*state));
        }
    }

    /// Whether the job is to stop: the user wants it, or the near end has gone.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.link.end().is_some()
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
}

struct OutputWriter {
    output: Output,
    stream: OutputStream,
}

impl Write for OutputWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(self.stream, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
