//! Three processes in a row, a writer, a relay and this one, which reads: one of the others is killed
//! at a random moment.

use std::fs;
use std::io::IoSlice;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use testbed::seeded;
use uncopy::channel::{self, Channel, Deadline, Handle, Object, Signals, Status, Vmo};

use super::record;
use super::scene::Dice;
use super::span::Span;
use crate::workspace;

/// Longest life of a writer, from when its first message was read.
const LIFE: Duration = Duration::from_millis(25);
/// A message that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(30);
/// Above the header and a region that is copied, below the largest message.
const MAX_BYTES: u64 = 40_000;

/// Counters of the run.
#[derive(Default)]
struct Tally {
    rounds: u32,
    /// The others are writers.
    killed_relays: u32,
    messages: u64,
    handles: u64,
    /// Read after the kill, until the end was seen.
    after_the_kill: u64,
    /// Written with success to somebody who lives, and never read.
    lost: u64,
    findings: u32,
}

/// Kills processes for `span`. A full run is recorded.
///
/// # Errors
/// If a message was torn, lost, doubled or came out of order, or a descriptor stayed open.
pub(super) fn run(span: Span, seed: u64, unix_seconds: u64) -> Result<()> {
    println!("soak channel: {span}, --seed {seed}");
    let mut dice = Dice::new(seed);
    let mut tally = Tally::default();
    // The process opens some descriptors once and keeps them, as does a thread that sleeps at a socket.
    round(&mut dice, &mut Tally::default())?;
    sleep_once()?;
    let descriptors = open_descriptors()?;
    let mut clock = span.start();
    while clock.goes_on() {
        let number = tally.rounds;
        let result = round(&mut dice, &mut tally).and_then(|()| {
            let now = open_descriptors()?;
            ensure!(now == descriptors, "{now} descriptors are open, and {descriptors} before");
            Ok(())
        });
        if let Err(error) = result {
            println!("  round {number}: {error:#}");
            tally.findings += 1;
        }
        tally.rounds += 1;
    }
    println!(
        "  {} processes killed, {} of them relays; {} messages with {} handles read, {} of them \
         after the kill; {} lost",
        tally.rounds,
        tally.killed_relays,
        tally.messages,
        tally.handles,
        tally.after_the_kill,
        tally.lost
    );
    ensure!(tally.findings == 0, "{} findings", tally.findings);
    if span.is_full() {
        let file = workspace::root().join("docs/evidence/soak-channel.jsonl");
        let seen = json!({
            "killed": tally.rounds,
            "killed_relays": tally.killed_relays,
            "messages": tally.messages,
            "handles": tally.handles,
            "after_the_kill": tally.after_the_kill,
            "lost": tally.lost,
            "findings": tally.findings,
        });
        record::write_line(&file, "soak channel", seed, unix_seconds, seen)?;
    }
    println!("soak channel: nothing found");
    Ok(())
}

fn sleep_once() -> Result<()> {
    let (near, far) = Channel::pair();
    let _far = Channel::from_fd(far.into_fd()?).map_err(|(_, status)| status)?;
    let slept = near.wait_one(Signals::READABLE, Deadline::after(Duration::from_millis(1)));
    ensure!(slept == Err(Status::TimedOut), "nothing was sent, and {slept:?} was seen");
    Ok(())
}

pub(super) fn open_descriptors() -> Result<usize> {
    Ok(fs::read_dir("/proc/self/fd").context("cannot count open descriptors")?.count())
}

/// Starts writer and relay, kills one of them, reads to the end, and waits for the other's.
fn round(dice: &mut Dice, tally: &mut Tally) -> Result<()> {
    let (from, to) = Channel::pair();
    let (written, relayed) = (Note::new()?, Note::new()?);
    let (_line, mut writer) = start("write-to-channel", from, &written)?;
    let (channel, mut relay) = start("relay-to-channel", to, &relayed)?;
    let is_relay = dice.fraction() < 0.5;
    tally.killed_relays += u32::from(is_relay);
    let (victim, other) =
        if is_relay { (&mut relay, &mut writer) } else { (&mut writer, &mut relay) };
    let before = tally.messages;
    read_to_the_end(&channel, victim, dice, tally)?;
    other.ends_well()?;
    // A relay that is killed takes along what it has read and not passed on, but no more.
    let read = tally.messages - before;
    let due = if is_relay { relayed.count()? } else { written.count()?.max(relayed.count()?) };
    tally.lost += due.saturating_sub(read);
    ensure!(read >= due, "{due} messages were written, and {read} came");
    Ok(())
}

/// How many messages a process has written with success, in memory that outlives it.
struct Note(Vmo);

impl Note {
    fn new() -> Result<Note> {
        Ok(Note(Vmo::new(8)?))
    }

    fn count(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.0.read(&mut bytes, 0)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// After each message: who is killed in between has noted one too few.
    fn set(&self, count: u64) -> Result<()> {
        Ok(self.0.write(&count.to_ne_bytes(), 0)?)
    }
}

/// Starts a process, and gives it an end of a channel, and where to note what it wrote.
fn start(task: &str, end: Channel, note: &Note) -> Result<(Channel, Process)> {
    let (line, child) = channel::spawn(Command::new(std::env::current_exe()?).arg(task))
        .with_context(|| format!("cannot start {task}"))?;
    let process = Process(child);
    line.write(&[], vec![end.into(), note.0.duplicate(None)?.into()])?;
    Ok((line, process))
}

/// Reads, kills `victim` on the way, and reads on.
fn read_to_the_end(
    channel: &Channel,
    victim: &mut Process,
    dice: &mut Dice,
    tally: &mut Tally,
) -> Result<()> {
    let life = LIFE.mul_f64(dice.fraction());
    let mut killed_at = None;
    let mut begin = None;
    for number in 0.. {
        let Some(mut message) = next(channel)? else {
            ensure!(killed_at.is_some(), "somebody ended unasked after {number} messages");
            return Ok(());
        };
        check(number, &message)?;
        let handles = message.take_handles();
        ensure!(handles.len() == usize::from(has_handles(number)) * 2, "handles of {number}");
        tally.handles += handles.len() as u64;
        check_handles(number, handles).with_context(|| format!("message {number}"))?;
        tally.messages += 1;
        tally.after_the_kill += u64::from(killed_at.is_some());
        let begin = *begin.get_or_insert_with(Instant::now);
        if killed_at.is_none() && begin.elapsed() >= life {
            victim.0.kill()?;
            killed_at = Some(Instant::now());
        }
    }
    Ok(())
}

/// Killed and waited for, whatever happens.
struct Process(Child);

impl Process {
    /// Waits for its end, which comes when its channel is closed.
    fn ends_well(&mut self) -> Result<()> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "the one that was not killed: {status}");
                return Ok(());
            }
            ensure!(begin.elapsed() < PATIENCE, "the one that was not killed goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The next message; none at the end.
fn next(channel: &Channel) -> Result<Option<channel::MessageBuf>> {
    loop {
        match channel.read() {
            Ok(message) => return Ok(Some(message)),
            Err(Status::PeerClosed) => return Ok(None),
            Err(Status::ShouldWait) => {}
            Err(other) => return Err(other.into()),
        }
        let come = Signals::READABLE | Signals::PEER_CLOSED;
        channel.wait_one(come, Deadline::after(PATIENCE)).context("nothing comes")?;
    }
}

/// Bytes that follow from the number, which stands in front.
fn body(number: u64) -> Vec<u8> {
    let mut body = number.to_ne_bytes().to_vec();
    body.extend(seeded(number, 0, number.wrapping_mul(0x9E37_79B9) % MAX_BYTES));
    body
}

fn check(number: u64, message: &[u8]) -> Result<()> {
    let wanted = body(number);
    if message == wanted {
        return Ok(());
    }
    let equal = message.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
    bail!("message {number}: {} of {} bytes, {equal} right", message.len(), wanted.len())
}

fn has_handles(number: u64) -> bool {
    number % 5 == 3
}

fn check_handles(number: u64, handles: Vec<Handle>) -> Result<()> {
    for handle in handles {
        match handle {
            Handle::Vmo(memory) => {
                let mut found = [0; 8];
                memory.read(&mut found, 0)?;
                ensure!(found == number.to_ne_bytes(), "its memory is another's");
            }
            Handle::Channel(inner) => check(number + 1, &inner.read()?)?,
            other => bail!("a {:?} that nobody sent", other.kind()),
        }
    }
    Ok(())
}

/// Writes numbered messages, some with memory and an end that holds a message, until it is killed or
/// nobody can read them any more (`cargo xtask write-to-channel`).
///
/// # Errors
/// If the channel does not work.
pub(crate) fn write() -> Result<()> {
    let (_line, channel, note) = given()?;
    for number in 0u64.. {
        let body = body(number);
        let regions: Vec<IoSlice<'_>> = body.chunks(6000).map(IoSlice::new).collect();
        let handles = if has_handles(number) { cargo(number)? } else { Vec::new() };
        if !put(&channel, &regions, handles).with_context(|| format!("message {number}"))? {
            break;
        }
        note.set(number + 1)?;
    }
    Ok(())
}

/// Writes what it reads from the channel that it is given to the one that it was started with, until
/// it is killed or one of them is closed (`cargo xtask relay-to-channel`).
///
/// # Errors
/// If one of the channels does not work.
pub(crate) fn relay() -> Result<()> {
    let (out, from, note) = given()?;
    for number in 0u64.. {
        let Some(mut message) = next(&from)? else { break };
        let handles = message.take_handles();
        if !put(&out, &[IoSlice::new(&message)], handles)? {
            break;
        }
        note.set(number + 1)?;
    }
    Ok(())
}

/// The channel that this process was started with, the one that came through it, and its note.
fn given() -> Result<(Channel, Channel, Note)> {
    let line = Channel::inherited().context("is started by `cargo xtask soak channel`")?;
    let mut message = next(&line)?.context("no channel came")?;
    let mut handles = message.take_handles().into_iter();
    match (handles.next(), handles.next()) {
        (Some(Handle::Channel(channel)), Some(Handle::Vmo(note))) => {
            Ok((line, channel, Note(note)))
        }
        other => bail!("{other:?} came instead of a channel and memory"),
    }
}

/// Writes a message, waiting for room; `false`: the other end is closed.
fn put(channel: &Channel, regions: &[IoSlice<'_>], mut handles: Vec<Handle>) -> Result<bool> {
    loop {
        match channel.try_write(regions, &mut handles) {
            Ok(()) => return Ok(true),
            Err(Status::PeerClosed) => return Ok(false),
            Err(Status::ShouldWait) => {}
            Err(other) => return Err(other.into()),
        }
        let room = Signals::WRITABLE | Signals::PEER_CLOSED;
        channel.wait_one(room, Deadline::after(PATIENCE)).context("nobody reads")?;
    }
}

fn cargo(number: u64) -> Result<Vec<Handle>> {
    let memory = Vmo::new(8)?;
    memory.write(&number.to_ne_bytes(), 0)?;
    let (near, far) = Channel::pair();
    near.write(&[IoSlice::new(&body(number + 1))], Vec::new())?;
    Ok(vec![memory.into(), far.into()])
}
