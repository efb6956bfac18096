//! What the processes do whose system calls fail.

use std::fmt::Display;
use std::io::IoSlice;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use testbed::{LONG, next_message};
use uncopy::channel::{
    self, Channel, Deadline, Descriptor, Event, Fifo, Handle, MessageBuf, Object, Signals, Status,
    Vmo,
};
use uncopy::copy::{CopyOptions, Verify, copy_file, job};
use uncopy::send::{self, Message, Mode, Ring, RingOptions, Sender, SenderOptions};

use crate::ALLOCATOR;

/// Names what a process is to do, and where.
pub(crate) const ROLE: &str = "UNCOPY_TEST_ROLE";
pub(crate) const DIRECTORY: &str = "UNCOPY_TEST_IN";

pub(crate) const NAMES: [&str; 6] = ["copy", "tree", "channel", "objects", "lend", "ring"];

/// For what an error may have kept from coming.
const PATIENCE: Duration = Duration::from_secs(5);

type Outcome = Result<(), String>;

/// What an error was met by.
fn at<E: Display>(step: &'static str) -> impl Fn(E) -> String {
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
        "channel" => talk(),
        "objects" => objects(),
        "lend" => lend(),
        "ring" => ring(),
        other => unreachable!("no role is called {other}"),
    };
    // Twice, so that pools and caches are what they stay.
    let _ = operation();
    let _ = operation();
    if role == "lend" {
        // What a sender leaves behind that is dropped too early, and who looks after it.
        let _ = leave();
        while descriptors().iter().any(|to| to.to_string_lossy().contains("socket")) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let before = held();
    mark();
    let outcome = operation();
    mark();
    let mut after = held();
    let begin = std::time::Instant::now();
    while after.0 > before.0 && begin.elapsed() < PATIENCE {
        // What outlives its sender goes as soon as the kernel has done with it.
        std::thread::sleep(Duration::from_millis(1));
        after = held();
    }
    let (fds, bytes) = (after.0 as i64 - before.0 as i64, after.1 as i64 - before.1 as i64);
    if fds > 0 {
        println!("descriptors: {fds} more after {outcome:?}: {:?}", descriptors());
        return ExitCode::from(3);
    }
    if bytes > 256 << 10 {
        println!("memory: {bytes} bytes more after {outcome:?}");
        return ExitCode::from(3);
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

/// Open descriptors, and bytes that are allocated.
fn held() -> (usize, usize) {
    (descriptors().len(), ALLOCATOR.live_bytes())
}

fn descriptors() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok()).collect()
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
    copied.map(|_| ())
}

fn tree(directory: &Path) -> Outcome {
    let (source, destination) = (directory.join("tree"), directory.join("tree copy"));
    if !source.exists() {
        std::fs::create_dir_all(source.join("a/b")).map_err(at("prepare"))?;
        std::fs::write(source.join("a/one"), "one").map_err(at("prepare"))?;
        std::fs::write(source.join("a/b/two"), vec![2; 100_000]).map_err(at("prepare"))?;
        std::fs::hard_link(source.join("a/one"), source.join("again")).map_err(at("prepare"))?;
    }
    let pairs = [(source, destination)];
    let (summary, ended) = job::copy_trees(&pairs, &job::JobOptions::default(), &());
    let _ = std::fs::remove_dir_all(&pairs[0].1);
    ended.map_err(at("copy"))?;
    if summary.failed > 0 { Err(format!("{} failed", summary.failed)) } else { Ok(()) }
}

fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

fn next(channel: &Channel) -> Result<MessageBuf, Status> {
    next_message(channel, soon())
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
    let far = Channel::from_fd(socket).map_err(|error| format!("adopt: {error:?}"))?;
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

fn sockets() -> Result<(UdpSocket, send::Socket), String> {
    let receiver = UdpSocket::bind("127.0.0.1:0").map_err(at("bind"))?;
    let address = receiver.local_addr().map_err(at("ask"))?;
    let socket = send::Socket::connect_udp(address).map_err(at("connect"))?;
    Ok((receiver, socket))
}

fn lend() -> Outcome {
    let (_receiver, socket) = sockets()?;
    let mut options = SenderOptions::default();
    options.mode = Mode::Zerocopy;
    options.send_timeout = Some(PATIENCE);
    let mut sender: Sender<Vec<u8>> = Sender::new(socket, &options);
    for _ in 0..3 {
        sender.send(vec![7; 20_000]).result.map_err(at("send"))?;
    }
    let (releases, _) = sender.close(Some(LONG)).map_err(at("release"))?;
    assert!(releases.len() <= 3);
    Ok(())
}

fn leave() -> Outcome {
    let (_receiver, socket) = sockets()?;
    let mut options = SenderOptions::default();
    options.mode = Mode::Zerocopy;
    let mut sender: Sender<Vec<u8>> = Sender::new(socket, &options);
    sender.send(vec![7; 20_000]).result.map_err(at("send"))?;
    Ok(())
}

fn ring() -> Outcome {
    let (_receiver, socket) = sockets()?;
    let mut options = RingOptions::default();
    options.mode = Mode::Zerocopy;
    let mut ring: Ring<Vec<u8>> = Ring::new(&options);
    let socket = ring.add(socket);
    for _ in 0..3 {
        let sent = ring.send(socket, Message::new(vec![7; 20_000]));
        sent.map_err(|error| format!("send: {}", error.error))?;
    }
    let begin = std::time::Instant::now();
    while ring.outstanding().sends > 0 && begin.elapsed() < LONG {
        ring.wait(Some(PATIENCE)).map_err(at("wait"))?;
        while ring.next_event().is_some() {}
    }
    assert_eq!(ring.outstanding().sends, 0, "something is never released");
    Ok(())
}
