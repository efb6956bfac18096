//! Operations run by the processes whose system calls fail.

use std::fmt::Display;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use uncopy::channel::{
    self, Channel, Deadline, Descriptor, Event, Fifo, Handle, MessageBuf, Object, Signals, Status,
    Vmo,
};
use uncopy::copy::{CopyOptions, Verify, copy_file, job};

use crate::faults::held::Held;
use crate::faults::sends::{leave, lend, ring, settle};

/// Names what a process is to do, and where.
pub(crate) const ROLE: &str = "UNCOPY_TEST_FAULTS_ROLE";
pub(crate) const DIRECTORY: &str = "UNCOPY_TEST_IN";

pub(crate) const NAMES: [&str; 7] = ["copy", "tree", "links", "channel", "objects", "lend", "ring"];

/// For what an error may have kept from coming.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) type Outcome = Result<(), String>;

/// Returns a function that prefixes an error with the step that failed.
pub(crate) fn at<E: Display>(step: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{step}: {error}")
}

pub(crate) fn play(role: &str) -> ExitCode {
    if role == "peer" {
        // It ends when nobody is there any more, whatever for.
        let _ = peer();
        return ExitCode::SUCCESS;
    }
    let directory = PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let operation = || match role {
        "copy" => copy(&directory),
        "tree" => tree(&directory),
        "links" => links(&directory),
        "channel" => talk(),
        "objects" => objects(),
        "lend" => lend(),
        "ring" => ring(),
        other => unreachable!("no role is called {other}"),
    };
    // Twice, so that pools and caches are what they stay.
    let _ = operation();
    let usual = operation();
    if role == "lend" {
        leave();
    }
    let before = Held::now();
    mark();
    let outcome = operation();
    mark();
    // Resources kept after a fault must not make the next run fail.
    let again = operation();
    let mut after = Held::now();
    let begin = std::time::Instant::now();
    while after.more_than(&before).is_some() && begin.elapsed() < PATIENCE {
        // Resources that outlive the sender are freed when the kernel has finished with them.
        std::thread::sleep(Duration::from_millis(1));
        settle();
        after = Held::now();
    }
    if let Some(more) = after.more_than(&before) {
        println!("{more} after {outcome:?}");
        return ExitCode::from(3);
    }
    if let (Ok(()), Err(error)) = (usual, again) {
        println!("again: {error} after {outcome:?}");
        return ExitCode::from(4);
    }
    match outcome {
        Ok(()) => println!("done"),
        Err(error) => println!("failed: {error}"),
    }
    ExitCode::SUCCESS
}

fn mark() {
    std::hint::black_box(rustix::process::getppid());
}

fn copy(directory: &Path) -> Outcome {
    let (source, destination) = (directory.join("source"), directory.join("copy"));
    let mut options = CopyOptions::default();
    options.durable = true;
    options.verify = Some(Verify::default());
    let copied = copy_file(&source, &destination, &options).map_err(at("copy"));
    let read = |path| std::fs::read(path).map_err(at("look"));
    let whole = read(&source).and_then(|old| Ok(old == read(&destination)?));
    assert!(copied.is_err() || whole != Ok(false), "success, and the copy is wrong");
    let _ = std::fs::remove_file(&destination);
    let receipt = testbed::copied(copied?);
    let moved: u64 = receipt.portions.iter().map(|portion| portion.bytes).sum();
    assert_eq!((receipt.bytes, moved), (3 << 20, 3 << 20), "{receipt:?}");
    Ok(())
}

fn tree(directory: &Path) -> Outcome {
    let (source, destination) = (directory.join("tree"), directory.join("tree copy"));
    if !source.exists() {
        std::fs::create_dir_all(source.join("a/b")).map_err(at("prepare"))?;
        std::fs::write(source.join("a/one"), "one").map_err(at("prepare"))?;
        std::fs::write(source.join("a/b/two"), vec![2; 100_000]).map_err(at("prepare"))?;
        std::fs::hard_link(source.join("a/one"), source.join("again")).map_err(at("prepare"))?;
    }
    let copied = job::copy_trees([(&source, &destination)], &job::JobOptions::default());
    let _ = std::fs::remove_dir_all(&destination);
    let summary = copied.as_ref().unwrap_or_else(|error| error.summary());
    let moved: u64 = summary.portions.iter().map(|portion| portion.bytes).sum();
    assert_eq!(moved, summary.bytes, "{summary:?}");
    let summary = copied.map_err(at("copy"))?;
    if summary.failed > 0 { Err(format!("{} failed", summary.failed)) } else { Ok(()) }
}

/// Files with two names each, of which one file at a time is remembered in memory.
fn links(directory: &Path) -> Outcome {
    const FILES: usize = 4;
    let (source, destination) = (directory.join("links"), directory.join("links copy"));
    if !source.exists() {
        for folder in ["a", "b"] {
            std::fs::create_dir_all(source.join(folder)).map_err(at("prepare"))?;
        }
        for number in 0..FILES {
            let [one, other] = ["a", "b"].map(|folder| source.join(format!("{folder}/{number}")));
            std::fs::write(&one, number.to_string()).map_err(at("prepare"))?;
            std::fs::hard_link(one, other).map_err(at("prepare"))?;
        }
    }
    let mut options = job::JobOptions::default();
    options.jobs = Some(std::num::NonZero::<usize>::MIN);
    options.links_in_memory = Some(1);
    let pairs = [(source, destination)];
    let copied = job::copy_trees(pairs.clone(), &options);
    for folder in ["a", "b"] {
        for number in 0..FILES {
            // An error may have kept it from coming, but not half of it.
            let found = std::fs::read(pairs[0].1.join(format!("{folder}/{number}")));
            let is_right = found.map(|bytes| bytes == number.to_string().into_bytes());
            assert_ne!(is_right.ok(), Some(false), "another file has the name {folder}/{number}");
        }
    }
    let _ = std::fs::remove_dir_all(&pairs[0].1);
    let summary = copied.map_err(at("copy"))?;
    match (summary.failed, summary.hard_links) {
        (0, linked) if linked == FILES as u64 => Ok(()),
        (failed, linked) => Err(format!("{failed} failed, {linked} linked")),
    }
}

fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

fn next(channel: &Channel) -> Result<MessageBuf, Status> {
    channel.receive(soon())
}

/// Sends everything back.
fn peer() -> Result<(), Status> {
    let channel = Channel::inherited()?;
    loop {
        let mut message = next(&channel)?;
        let handles = message.take_handles();
        channel.write(&[IoSlice::new(&message)], handles)?;
    }
}

/// A process is started, talked to, and gone.
fn talk() -> Outcome {
    let mut command = Command::new(std::env::current_exe().map_err(at("find itself"))?);
    let (channel, mut child) = channel::spawn(command.env(ROLE, "peer")).map_err(at("start"))?;
    let outcome = converse(&channel);
    drop(channel);
    if outcome.is_err() {
        let _ = child.kill();
    }
    while let Err(error) = child.wait() {
        if error.kind() != std::io::ErrorKind::Interrupted {
            break;
        }
    }
    outcome
}

fn converse(channel: &Channel) -> Outcome {
    let large = vec![5; 40_000];
    for body in [&b"small"[..], &large] {
        let (front, back) = body.split_at(body.len() / 2);
        channel.write(&[IoSlice::new(front), IoSlice::new(back)], vec![]).map_err(at("write"))?;
        let answer = next(channel).map_err(at("read"))?;
        assert!(*answer == *body, "half a message");
    }
    let (reader, _writer) = std::io::pipe().map_err(at("pipe"))?;
    let handles = vec![Handle::from(Descriptor::from(std::os::fd::OwnedFd::from(reader)))];
    channel.write(&[IoSlice::new(b"with a handle")], handles).map_err(at("write handles"))?;
    let answer = next(channel).map_err(at("read handles"))?;
    assert_eq!((&*answer, answer.handles().len()), (&b"with a handle"[..], 1));
    drop(answer);
    let answer = channel
        .call(&[IoSlice::new(b"\0\0\0\0question")], vec![], soon())
        .map_err(|error| format!("call: {error:?}"))?;
    assert_eq!(&answer[4..], b"question");
    Ok(())
}

/// Objects of every kind, made, sent over a socket and waited for in one process.
fn objects() -> Outcome {
    let (near, far) = Channel::pair();
    let socket = far.into_fd().map_err(|error| format!("promote: {error:?}"))?;
    let far = Channel::from_fd(socket).map_err(|(_, status)| format!("adopt: {status:?}"))?;
    let memory = Vmo::new(8192).map_err(at("memory"))?;
    memory.write(b"shared", 100).map_err(at("memory"))?;
    let event = Event::new();
    let (fifo, other) = Fifo::pair(4, 8).map_err(at("fifo"))?;
    let twin = event.duplicate(None).map_err(at("duplicate"))?;
    let handles = vec![memory.into(), twin.into(), other.into()];
    near.write(&[IoSlice::new(b"take these")], handles).map_err(at("memory"))?;
    let mut message = next(&far).map_err(at("read"))?;
    let handles = message.take_handles();
    assert_eq!(handles.len(), 3);
    // A thread that sleeps keeps what wakes it.
    let nothing = handles[1].wait_one(Signals::USER_2, Deadline::after(Duration::from_millis(1)));
    assert_ne!(nothing.map(|_| ()), Ok(()));
    event.signal(Signals::empty(), Signals::USER_1).map_err(at("signal"))?;
    handles[1].wait_one(Signals::USER_1, soon()).map_err(at("wait"))?;
    fifo.write(b"8 bytes.").map_err(at("fifo write"))?;
    handles[2].wait_one(Signals::READABLE, soon()).map_err(at("fifo wait"))?;
    let mut handles = handles;
    let memory = Vmo::try_from(handles.remove(0)).map_err(|_| "no memory came".to_owned())?;
    let mut bytes = [0; 6];
    memory.read(&mut bytes, 100).map_err(at("memory read"))?;
    assert_eq!(&bytes, b"shared");
    Ok(())
}
