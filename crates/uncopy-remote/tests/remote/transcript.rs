//! Recorded sessions that are cut, and whose frames are dropped, repeated and exchanged: each end gives the same answers
//! or an error, and always comes to its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use testbed::by_extent;
use uncopy_copy::peer::{Peer, PeerError};
use uncopy_remote::{
    Accepted, FarEvent, OutputStream, RemoteError, RemoteSource, Restriction, RunJob, Streams,
    accept, pull, push,
};
use uncopy_wire::HEAD_BYTES;

use crate::support::{Closing, list_all, long, never};

/// Bytes of one direction, and the number of bytes of the other that were sent before.
#[derive(Debug, Clone)]
struct Chunk {
    after: usize,
    bytes: Vec<u8>,
}

/// Both directions: of the near end, and of the far end.
#[derive(Debug, Default)]
struct Record {
    chunks: Mutex<[Vec<Chunk>; 2]>,
}

const NEAR: usize = 0;
const FAR: usize = 1;

impl Record {
    fn count(chunks: &[Chunk]) -> usize {
        chunks.iter().map(|chunk| chunk.bytes.len()).sum()
    }

    fn chunks(&self, of: usize) -> Vec<Chunk> {
        self.chunks.lock().unwrap()[of].clone()
    }
}

/// Writer that records what it is given before it hands it on.
struct Recorded(Arc<Record>, usize, Closing);

impl Write for Recorded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        {
            let mut chunks = self.0.chunks.lock().unwrap();
            let after = Record::count(&chunks[1 - self.1]);
            chunks[self.1].push(Chunk { after, bytes: bytes.to_vec() });
        }
        self.2.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Streams of the near end and of the far end, and their record.
fn recorded() -> (Streams, Streams, Arc<Record>) {
    let (near, far) = UnixStream::pair().unwrap();
    let record = Arc::<Record>::default();
    let streams = |socket: UnixStream, of| {
        let input = socket.try_clone().unwrap();
        Streams::new(input, Recorded(Arc::clone(&record), of, Closing(socket)))
    };
    let (near, far) = (streams(near, NEAR), streams(far, FAR));
    (near, far, record)
}

/// Number of bytes that were sent, and whether nothing more is.
#[derive(Debug, Default)]
struct Sent {
    bytes: Mutex<(usize, bool)>,
    more: Condvar,
}

/// Reader that plays a record: each chunk once as many bytes were sent as before.
struct Played {
    chunks: std::vec::IntoIter<Chunk>,
    rest: Vec<u8>,
    sent: Arc<Sent>,
}

impl Read for Played {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let Some(chunk) = self.chunks.next() else { return Ok(0) };
            let mut sent = self.sent.bytes.lock().unwrap();
            while sent.0 < chunk.after && !sent.1 {
                // A player that waits for what does not come goes on.
                let wait = self.sent.more.wait_timeout(sent, Duration::from_millis(50)).unwrap();
                sent = wait.0;
                if wait.1.timed_out() {
                    break;
                }
            }
            self.rest = chunk.bytes;
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

struct Counted(Arc<Sent>);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.bytes.lock().unwrap().0 += bytes.len();
        self.0.more.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.bytes.lock().unwrap().1 = true;
        self.0.more.notify_all();
    }
}

fn played(chunks: Vec<Chunk>) -> Streams {
    let sent = Arc::<Sent>::default();
    let input = Played { chunks: chunks.into_iter(), rest: Vec::new(), sent: Arc::clone(&sent) };
    Streams::new(input, Counted(sent))
}

/// Runs to the end, or fails.
fn within_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (report, result) = mpsc::channel();
    let thread = thread::spawn(move || report.send(work()));
    match result.recv_timeout(Duration::from_secs(30)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: it hangs"),
        Err(_) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

fn make_tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("d")).unwrap();
    fs::write(root.path().join("d/small"), "small").unwrap();
    fs::write(root.path().join("large"), vec![b'x'; 300]).unwrap();
    symlink("d", root.path().join("link")).unwrap();
    root
}

/// Answers, in order; an error of the connection is none.
type Answers = Vec<Option<String>>;

/// Asks every kind of question, one after the other.
fn ask(source: &RemoteSource) -> Answers {
    fn shown<T: std::fmt::Debug>(answer: Result<T, PeerError>) -> Option<String> {
        match answer {
            Err(PeerError::Lost { .. }) => None,
            other => Some(format!("{other:?}")),
        }
    }
    let mut answers = Answers::new();
    let root = source.open_root(0, false);
    let Ok(root) = root else { return vec![shown(root)] };
    let handle = root.handle;
    answers.push(Some(format!("{root:?}")));
    answers.push(shown(source.open_root(1, true)));
    answers.push(shown(list_all(source, handle, 100).map(|entries| {
        let by_name = entries.into_iter().map(|entry| (entry.name.clone(), entry));
        by_name.collect::<BTreeMap<_, _>>()
    })));
    answers.push(shown(source.look(handle, "link".as_ref())));
    answers.push(shown(source.look(handle, "nowhere".as_ref())));
    if let Ok(file) = source.open(handle, "large".as_ref(), false) {
        answers.push(shown(source.examine(file.handle)));
        answers.push(shown(source.data_ranges(file.handle, 0)));
        let mut bytes = Vec::new();
        let read = source.read(file.handle, 0..1 << 19, 0, &mut |part| {
            bytes.extend_from_slice(part);
            true
        });
        answers.push(shown(read.map(|count| (count, bytes))));
        answers.push(shown(source.attributes(file.handle)));
        source.close(file.handle);
    }
    answers.push(shown(source.open(handle, "d".as_ref(), true)));
    source.close(handle);
    answers
}

/// Whether the answers are the expected ones as far as there are any.
fn agree(found: &Answers, expected: &Answers) -> bool {
    let mut rest = expected.iter();
    found.iter().flatten().all(|answer| rest.any(|other| other.as_ref() == Some(answer)))
}

type Outcome = (Result<u8, RemoteError>, Answers, Vec<u8>);

fn near_pull(streams: Streams, roots: &[PathBuf]) -> Outcome {
    let roots: Vec<OsString> = roots.iter().map(|root| root.into()).collect();
    match pull(streams, &long(), None, &roots, &never) {
        Ok(begun) => {
            let answers = ask(&begun.source());
            (begun.end().map(|()| 0), answers, Vec::new())
        }
        Err(error) => (Err(error), Vec::new(), Vec::new()),
    }
}

fn near_push(streams: Streams, roots: &[PathBuf]) -> Outcome {
    let job = RunJob { arguments: vec!["cp".into()], sources: vec!["a".into(), "b".into()] };
    let mut output = Vec::new();
    let result = push(streams, &long(), None, &job, roots, &never, &mut |event| {
        if let FarEvent::Output { bytes, .. } = event {
            output.extend_from_slice(bytes);
        }
    });
    (result, Vec::new(), output)
}

fn far_serve(streams: Streams, _: &[PathBuf]) -> Outcome {
    let accepted = accept(streams, &long(), &Restriction::default());
    let result = accepted.and_then(|accepted| match accepted {
        Accepted::Serve(request) => request.serve().map(|()| 0),
        Accepted::Run(_) => panic!("another job"),
    });
    (result, Vec::new(), Vec::new())
}

fn far_run(streams: Streams, _: &[PathBuf]) -> Outcome {
    let mut answers = Vec::new();
    let accepted = accept(streams, &long(), &Restriction::default());
    let result = accepted.and_then(|accepted| match accepted {
        Accepted::Run(request) => request.run(&[], |source, output| {
            let _ = output.write(OutputStream::Standard, b"begin");
            answers = ask(&source);
            let _ = output.write(OutputStream::Error, b"end");
            7
        }),
        Accepted::Serve(_) => panic!("another job"),
    });
    (result, answers, Vec::new())
}

/// Ends of a session.
#[derive(Clone, Copy)]
struct Session {
    name: &'static str,
    near: fn(Streams, &[PathBuf]) -> Outcome,
    far: fn(Streams, &[PathBuf]) -> Outcome,
}

const SESSIONS: [Session; 2] = [
    Session { name: "pull", near: near_pull, far: far_serve },
    Session { name: "push", near: near_push, far: far_run },
];

/// Record of a session, and its outcomes.
struct Whole {
    session: Session,
    record: Arc<Record>,
    roots: Vec<PathBuf>,
    outcomes: [Outcome; 2],
}

fn record(session: Session, root: &Path) -> Whole {
    let (near, far, record) = recorded();
    let roots = vec![root.to_owned(), root.join("large")];
    let far_roots = roots.clone();
    let far = thread::spawn(move || (session.far)(far, &far_roots));
    let near = (session.near)(near, &roots);
    let outcomes = [near, far.join().unwrap()];
    assert!(outcomes.iter().all(|outcome| outcome.0.is_ok()), "{outcomes:?}");
    let answers = outcomes[0].1.len() + outcomes[1].1.len();
    assert_eq!(answers, 10);
    Whole { session, record, roots, outcomes }
}

/// Records a session until what each end sent, played to the other one, leads to the same end. On a busy machine an
/// answer may come so late that an end asks for more ahead, which is not in the record of another time.
fn record_to_play(session: Session, root: &Path) -> Whole {
    const TRIES: usize = 100;
    (0..TRIES)
        .map(|_| record(session, root))
        .find(|whole| {
            [NEAR, FAR].into_iter().all(|to| {
                let what = format!("{} to {to}, uncut", session.name);
                let outcome = whole.play(to, &what, whole.record.chunks(1 - to));
                whole.assert_true(to, &outcome, &what);
                outcome.0.is_ok()
            })
        })
        .unwrap_or_else(|| panic!("{}: no record leads to its end again", session.name))
}

impl Whole {
    /// Plays what one end sent to the other one.
    fn play(&self, to: usize, what: &str, chunks: Vec<Chunk>) -> Outcome {
        let end = [self.session.near, self.session.far][to];
        let roots = self.roots.clone();
        within_time(what, move || end(played(chunks), &roots))
    }

    fn assert_true(&self, to: usize, outcome: &Outcome, what: &str) {
        let (result, answers, output) = &self.outcomes[to];
        assert!(agree(&outcome.1, answers), "{what}: {:?} is not of {answers:?}", outcome.1);
        assert!(output.starts_with(&outcome.2), "{what}");
        if outcome.0.is_ok() {
            // Nothing is taken for whole that is not.
            assert_eq!(&outcome.0, result, "{what}");
            assert_eq!(&outcome.2, output, "{what}");
            assert_eq!(&outcome.1, answers, "{what}");
        }
    }
}

#[test]
fn every_session_cut_at_any_byte_comes_to_an_end_without_a_wrong_answer() {
    let root = make_tree();
    for session in SESSIONS {
        let whole = record_to_play(session, root.path());
        for to in [NEAR, FAR] {
            let chunks = whole.record.chunks(1 - to);
            let total = Record::count(&chunks);
            for length in (0..=total).rev().step_by(by_extent([11, 1, 1])) {
                let what = format!("{} to {to}, {length} of {total}", session.name);
                let (mut cut, mut left) = (Vec::new(), length);
                for chunk in &chunks {
                    let bytes = chunk.bytes[..left.min(chunk.bytes.len())].to_vec();
                    left -= bytes.len();
                    cut.push(Chunk { bytes, ..chunk.clone() });
                    if left == 0 {
                        break;
                    }
                }
                let outcome = whole.play(to, &what, cut);
                whole.assert_true(to, &outcome, &what);
            }
        }
    }
}

/// Frames of one direction behind the greeting.
fn frames(chunks: &[Chunk]) -> (Vec<Chunk>, Vec<Chunk>) {
    let greeting = chunks[0].clone();
    let mut found = Vec::new();
    for chunk in &chunks[1..] {
        let mut rest = &chunk.bytes[..];
        while let Some(head) = rest.first_chunk::<4>() {
            let length = HEAD_BYTES + u32::from_le_bytes(*head) as usize;
            let (frame, behind) = rest.split_at(length);
            found.push(Chunk { bytes: frame.to_vec(), ..chunk.clone() });
            rest = behind;
        }
    }
    (vec![greeting], found)
}

#[test]
fn frames_that_are_dropped_repeated_or_exchanged_give_no_wrong_answer() {
    let root = make_tree();
    for session in SESSIONS {
        let whole = record(session, root.path());
        for to in [NEAR, FAR] {
            let (greeting, sent) = frames(&whole.record.chunks(1 - to));
            assert!(sent.len() > 5, "{}", sent.len());
            for number in (0..sent.len()).step_by(by_extent([3, 1, 1])) {
                let mut dropped = sent.clone();
                dropped.remove(number);
                let mut repeated = sent.clone();
                repeated.insert(number, sent[number].clone());
                let mut exchanged = sent.clone();
                exchanged.swap(number, (number + 1) % sent.len());
                for (how, changed) in
                    [("dropped", dropped), ("repeated", repeated), ("exchanged", exchanged)]
                {
                    let what = format!("{} to {to}, frame {number} {how}", session.name);
                    let outcome = whole.play(to, &what, [greeting.clone(), changed].concat());
                    let (_, answers, _) = &whole.outcomes[to];
                    assert!(agree(&outcome.1, answers), "{what}: {:?}", outcome.1);
                }
            }
        }
    }
}

#[test]
fn bytes_that_are_changed_break_no_end() {
    let root = make_tree();
    for session in SESSIONS {
        let whole = record(session, root.path());
        for to in [NEAR, FAR] {
            let chunks = whole.record.chunks(1 - to);
            for place in (0..Record::count(&chunks)).step_by(by_extent([29, 1, 1])) {
                let mut changed = chunks.clone();
                let mut at = place;
                for chunk in &mut changed {
                    match chunk.bytes.get_mut(at) {
                        Some(byte) => {
                            *byte ^= 1 << (place % 8);
                            break;
                        }
                        None => at -= chunk.bytes.len(),
                    }
                }
                // Whatever comes of it: it comes to an end, and nothing panics.
                let _ = whole.play(to, &format!("{} to {to}, byte {place}", session.name), changed);
            }
        }
    }
}
