//! The serving side: answers calls from the filesystem of this machine.

mod answer;
mod data;
mod descriptors;
mod directory;
mod open;
mod opened;
mod place;
mod roots;

use std::collections::{HashMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use uncopy_core::Errno;
use uncopy_wire::{Call, FOREIGN_LINK_VERSION, Frame, Handle, Kind, Page, Server, Violation};

use crate::gate::lock;
use crate::link::{Answering, spawn};
use crate::outbox::Outbox;
use crate::spare::SpareBuffers;
use crate::{RemoteError, convert};
use answer::{Answered, Digested, ListedPage};
use descriptors::Descriptors;
use directory::{Asking, WantedNames, WantedPage};
use open::SendJob;
use opened::Opened;

pub(crate) use data::DataServing;
pub(crate) use open::OpenSender;
pub(crate) use roots::{RootBase, Roots};

/// Number of threads that answer.
const THREADS: usize = 4;

/// Call to be answered by a thread.
#[derive(Debug)]
struct Job {
    id: u32,
    call: Call,
    /// Subject of the call, held until it is answered.
    of: Option<Arc<Opened>>,
}

#[derive(Debug)]
struct Work {
    server: Server,
    open: HashMap<Handle, Arc<Opened>>,
    queue: VecDeque<Job>,
    /// Senders of open data connections, by their announcements.
    senders: HashMap<u32, Arc<OpenSender>>,
    is_over: bool,
}

/// Roots that are served, and the calls about them.
#[derive(Debug)]
pub(crate) struct Serving {
    work: Mutex<Work>,
    queued: Condvar,
    roots: Roots,
    descriptors: Arc<Descriptors>,
    outbox: Arc<Outbox>,
    /// Version of the protocol that is spoken.
    version: u16,
    /// Number of data connections so far.
    connections: AtomicU64,
}

impl Serving {
    /// `version`: of the protocol that is spoken.
    pub(crate) fn new(roots: Roots, outbox: Arc<Outbox>, version: u16) -> Arc<Serving> {
        Serving::with_descriptors(roots, outbox, version, Descriptors::new())
    }

    fn with_descriptors(
        roots: Roots,
        outbox: Arc<Outbox>,
        version: u16,
        descriptors: Arc<Descriptors>,
    ) -> Arc<Serving> {
        let server = Server::new(roots.count());
        let work = Work {
            server,
            open: HashMap::new(),
            queue: VecDeque::new(),
            senders: HashMap::new(),
            is_over: false,
        };
        Arc::new(Serving {
            work: Mutex::new(work),
            queued: Condvar::new(),
            roots,
            descriptors,
            outbox,
            version,
            connections: AtomicU64::new(0),
        })
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Starts the threads that answer. They end with [`Serving::stop`].
    pub(crate) fn start(self: &Arc<Serving>) -> Result<(), RemoteError> {
        for _ in 0..THREADS {
            let serving = Arc::clone(self);
            spawn("serve", move || serving.answer_all())?;
        }
        Ok(())
    }

    /// Returns a number for another data connection.
    fn count_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a page of a directory that is open, for a data connection.
    fn list(
        &self,
        asking: Asking,
        directory: Handle,
        page: WantedPage,
    ) -> Result<ListedPage, Errno> {
        let opened = lock(&self.work).open.get(&directory).cloned();
        let listed = opened.ok_or(Errno::EBADF)?.page(asking, page, &self.descriptors);
        self.make_room();
        listed
    }

    /// Looks at entries of a directory that is open, for a data connection.
    fn look_all(&self, wanted: WantedNames<'_>) -> Result<Page, Errno> {
        let opened = lock(&self.work).open.get(&wanted.directory).cloned();
        let looked = opened.ok_or(Errno::EBADF)?.look_all(wanted, &self.descriptors);
        self.make_room();
        looked
    }

    /// Forgets the listings of a data connection that has ended.
    fn forget_listings(&self, asking: Asking) {
        let open: Vec<Arc<Opened>> = lock(&self.work).open.values().cloned().collect();
        open.iter().for_each(|opened| opened.forget_listing(asking));
    }

    /// Reads a file that is open.
    fn read(
        &self,
        file: Handle,
        offset: u64,
        bytes: u32,
        spare: &SpareBuffers,
    ) -> Result<Vec<u8>, Errno> {
        let opened = lock(&self.work).open.get(&file).cloned();
        let opened = opened.filter(|opened| opened.status.kind == Kind::File);
        opened.ok_or(Errno::EBADF)?.read(offset, bytes, spare)
    }

    fn take_call(&self, frame: &Frame) -> Result<(), Violation> {
        let mut work = lock(&self.work);
        let request = work.server.take(frame)?;
        let (id, call) = (request.id, request.call);
        let of = call.handle().and_then(|handle| work.open.get(&handle).cloned());
        match (&call, &of, WantedPage::of(&call)) {
            (Call::Close { of: handle }, ..) => {
                let frame = work.server.closed(id)?;
                let closed = work.open.remove(handle);
                drop(work);
                self.outbox.push(frame);
                drop((closed, of));
                return Ok(());
            }
            // Pages of a listing come one after the other: the thread that makes one sees to the next.
            (_, Some(opened), Some(page)) if !opened.queue_page(id, page) => return Ok(()),
            (Call::Send { offset, bytes, over, .. }, Some(opened), _) => {
                let sender = work.senders.get(over).cloned();
                let (of, offset, bytes) = (Arc::clone(opened), *offset, *bytes);
                drop(work);
                let job = SendJob { id, of, offset, bytes };
                if !sender.is_some_and(|sender| sender.push(job)) {
                    self.answer_sent(id, Err(Errno::ENOTCONN));
                }
                return Ok(());
            }
            _ => {}
        }
        work.queue.push_back(Job { id, call, of });
        drop(work);
        self.queued.notify_one();
        Ok(())
    }

    /// Takes calls for an open data connection.
    pub(crate) fn add_sender(&self, number: u32, sender: Arc<OpenSender>) {
        lock(&self.work).senders.insert(number, sender);
    }

    /// Takes none any more.
    pub(crate) fn remove_sender(&self, number: u32) {
        lock(&self.work).senders.remove(&number);
    }

    /// Answers that bytes go over an open data connection.
    fn answer_sent(&self, id: u32, digested: Result<&Digested, Errno>) {
        let mut work = lock(&self.work);
        let frame = match digested {
            Ok(Digested { bytes, digest }) => work.server.sent(id, *bytes, digest),
            Err(errno) => work.server.failed(id, answer::raw(errno)),
        };
        self.push_answer(frame);
    }

    fn answer_all(&self) {
        while let Some(job) = self.next_job() {
            self.answer_job(&job);
        }
    }

    fn answer_job(&self, job: &Job) {
        if let (Some(_), Some(opened)) = (WantedPage::of(&job.call), &job.of) {
            if let Some((id, wanted)) = opened.next_page() {
                let page = opened.page(Asking::Session, wanted, &self.descriptors);
                self.finish(id, page.map(Answered::Page));
                self.make_room();
            }
            if opened.has_next_page() {
                // Behind what waits meanwhile.
                let job = Job { id: job.id, call: job.call.clone(), of: job.of.clone() };
                lock(&self.work).queue.push_back(job);
                self.queued.notify_one();
            }
            return;
        }
        let answer = self.answer(job);
        self.finish(job.id, answer);
        self.make_room();
    }

    /// Waits for a call; `None`: there are no more.
    fn next_job(&self) -> Option<Job> {
        let mut work = lock(&self.work);
        loop {
            if work.is_over {
                return None;
            }
            if let Some(job) = work.queue.pop_front() {
                return Some(job);
            }
            work = self.queued.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn answer(&self, job: &Job) -> Result<Answered, Errno> {
        let of = || job.of.as_deref().ok_or(Errno::EBADF);
        let descriptors = &self.descriptors;
        match &job.call {
            Call::Root { number, follows } => {
                Answered::opening(self.roots.open(*number, *follows, descriptors))
            }
            Call::Open { name, follows, .. } => {
                Answered::opening(of()?.open(name, *follows, descriptors))
            }
            Call::Look { name, .. } => of()?.look(name, descriptors).map(Answered::Entry),
            call @ Call::LookAll { .. } => {
                let wanted = WantedNames::of(call).ok_or(Errno::ENOSYS)?;
                of()?.look_all(wanted, descriptors).map(Answered::Named)
            }
            Call::Examine { .. } => of()?.examine(descriptors).map(Answered::Status),
            Call::Ranges { from, .. } => of()?.ranges(*from).map(Answered::Ranges),
            Call::Read { offset, bytes, .. } => {
                of()?.read(*offset, *bytes, self.outbox.spare()).map(Answered::Data)
            }
            Call::Attributes { .. } => of()?.attributes(descriptors).map(Answered::Attributes),
            Call::Attribute { name, .. } => {
                of()?.attribute(name, descriptors).map(Answered::Attribute)
            }
            Call::Count { one_filesystem, .. } => {
                of()?.count(*one_filesystem, descriptors).map(Answered::Counted)
            }
            // Answered elsewhere, or of a later version.
            _ => Err(Errno::ENOSYS),
        }
    }

    /// Sends an answer.
    fn finish(&self, id: u32, answer: Result<Answered, Errno>) {
        // An answer takes memory only until it is written.
        if !self.outbox.wait_for_room() {
            return;
        }
        let mut work = lock(&self.work);
        let server = &mut work.server;
        let frame = match answer {
            Ok(Answered::Opened(opened)) => {
                let answered = match &opened.target {
                    Some(target) => server.opened_link(id, &opened.status, target.as_bytes()),
                    None => server.opened(id, &opened.status),
                };
                answered.map(|(handle, frame)| {
                    if let Some(handle) = handle {
                        work.open.insert(handle, Arc::new(opened));
                    }
                    frame
                })
            }
            Ok(Answered::ForeignLink { link, owner }) if self.version >= FOREIGN_LINK_VERSION => {
                server.foreign_link(id, link.as_os_str().as_bytes(), owner)
            }
            Ok(Answered::ForeignLink { .. }) => server.failed(id, answer::raw(Errno::EACCES)),
            Ok(Answered::Page(page)) => server.page(id, &page.page, page.is_last, page.position),
            Ok(Answered::Entry(entry)) => server.entry(id, &entry),
            Ok(Answered::Named(page)) => server.named(id, &page),
            Ok(Answered::Status(stat)) => match convert::status(&stat) {
                Some(status) => server.status(id, &status),
                None => server.failed(id, answer::raw(Errno::EINVAL)),
            },
            Ok(Answered::Ranges(found)) => server.ranges(id, &found.ranges, found.is_last),
            Ok(Answered::Data(bytes)) => server.data(id, bytes),
            Ok(Answered::Attributes(attributes)) => server.attributes(id, &attributes),
            Ok(Answered::Attribute(value)) => server.attribute(id, value.as_deref()),
            Ok(Answered::Counted(found)) => {
                server.counted(id, found.entries, found.bytes, found.is_last)
            }
            Err(errno) => server.failed(id, answer::raw(errno)),
        };
        self.push_answer(frame);
    }

    fn push_answer(&self, frame: Result<Frame, Violation>) {
        // Each call is answered once, by the answer that is due.
        debug_assert!(frame.is_ok(), "{frame:?}");
        if let Ok(frame) = frame {
            self.outbox.push(frame);
        }
    }

    /// Closes descriptors of directories that were not used for long, if there are too many.
    fn make_room(&self) {
        if self.descriptors.are_too_many() {
            let open: Vec<Arc<Opened>> = lock(&self.work).open.values().cloned().collect();
            self.descriptors.evict(&open);
        }
    }
}

impl Answering for Serving {
    fn take(&self, frame: &Frame) -> Result<(), Violation> {
        self.take_call(frame)
    }

    /// Ends the threads, and closes everything.
    fn stop(&self) {
        let open = {
            let mut work = lock(&self.work);
            work.is_over = true;
            work.queue.clear();
            std::mem::take(&mut work.open)
        };
        self.queued.notify_all();
        drop(open);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use uncopy_wire::{Answer, Caller, VERSION};

    use super::*;

    /// Asks a serving side that answers on this thread.
    struct Asker {
        caller: Caller,
        serving: Arc<Serving>,
        sent: Arc<Outbox>,
    }

    impl Asker {
        fn new(root: &Path, descriptors: usize) -> Asker {
            let sent = Arc::<Outbox>::default();
            let roots = Roots::new(RootBase::Anywhere, vec![root.to_owned()]);
            let descriptors = Descriptors::with_limit(descriptors);
            let serving = Serving::with_descriptors(roots, Arc::clone(&sent), VERSION, descriptors);
            Asker { caller: Caller::new(), serving, sent }
        }

        fn ask(&mut self, call: &Call) -> Answer {
            let (_, frame) = self.caller.call(call).unwrap();
            self.serving.take(&frame).unwrap();
            let queued = lock(&self.serving.work).queue.pop_front();
            if let Some(job) = queued {
                self.serving.answer_job(&job);
            }
            let frame = self.sent.pop().unwrap();
            self.caller.take(frame).unwrap().1
        }

        fn open(&mut self, call: &Call) -> Handle {
            match self.ask(call) {
                Answer::Opened { handle, .. } => handle,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn more_directories_than_descriptors_stay_open() {
        const DEPTH: usize = 100;
        const FILES: usize = 3000;
        const LIMIT: usize = 10;
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join(vec!["d"; DEPTH].join("/"));
        fs::create_dir_all(&deep).unwrap();
        for number in 0..FILES {
            fs::write(root.path().join("d").join(format!("{number:0200}")), "").unwrap();
        }
        let mut asker = Asker::new(root.path(), LIMIT);
        let mut handles = vec![asker.open(&Call::Root { number: 0, follows: false })];
        let mut names = BTreeSet::new();
        let (mut pages, mut is_over) = (0, false);
        for depth in 1..=DEPTH {
            let directory = handles[depth - 1];
            let open = Call::Open { directory, name: b"d".to_vec(), follows: false };
            handles.push(asker.open(&open));
            assert!(asker.serving.descriptors.open() <= LIMIT + 1);
            // A listing goes on where it was, although its directory is closed meanwhile.
            if depth > LIMIT && !is_over {
                let list = Call::List { directory: handles[1], contents_up_to: 0 };
                let Answer::Entries { entries, failed, is_last, .. } = asker.ask(&list) else {
                    panic!()
                };
                assert!(failed.is_empty(), "{failed:?}");
                for entry in entries {
                    assert!(names.insert(entry.name), "an entry comes twice");
                }
                (pages, is_over) = (pages + 1, is_last);
            }
        }
        assert!(is_over && pages > 2 && names.len() == FILES + 1, "{pages} {}", names.len());
        for (depth, handle) in handles.iter().enumerate() {
            let Answer::Status { status } = asker.ask(&Call::Examine { of: *handle }) else {
                panic!()
            };
            let expected = root.path().join(vec!["d"; depth].join("/"));
            let expected = uncopy_os::directory::stat_path(&expected).unwrap();
            assert_eq!(status.inode, expected.inode, "{depth}");
        }
        // Another directory in its place is not taken for it.
        fs::rename(root.path().join("d/d"), root.path().join("other")).unwrap();
        fs::create_dir(root.path().join("d/d")).unwrap();
        fs::create_dir(root.path().join("d/d/d")).unwrap();
        let answer = asker.ask(&Call::Examine { of: handles[3] });
        assert_eq!(answer, Answer::Failed { errno: 116 });
        for handle in handles {
            assert_eq!(asker.ask(&Call::Close { of: handle }), Answer::Closed);
        }
        assert_eq!(asker.serving.descriptors.open(), 0);
    }
}
