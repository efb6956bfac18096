//! Payloads of 64 KiB and more to a second process and back: the ways that we have, and others'.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use uncopy::channel::{Channel, Deadline, PayloadChannel, PayloadOptions};

use crate::compare::brief::BriefRuns;
use crate::compare::case::{Case, Role, Subject};
use crate::compare::metric::TIME_EACH;
use crate::compare::timing::{divided, printed_by, sample};
use crate::compare::verdict::{Target, at_most};
use crate::peers::Peers;

const SIZES: [(&str, usize); 4] =
    [("64KiB", 64 << 10), ("1MiB", 1 << 20), ("16MiB", 16 << 20), ("64MiB", 64 << 20)];
const RUN: Duration = Duration::from_millis(100);
const ROUNDS: usize = 11;
const PAGE: usize = 4096;

const PAYLOAD: &str = "uncopy, Payload";
const OVER_STREAM: &str = "uncopy, stream";
const FRESH: &str = "uncopy, fresh memory";
const POOL: &str = "uncopy, pool";
const STREAM: &str = "stream socket";
const MEMCPY_TWICE: &str = "memcpy twice";
const ICEORYX: &str = "iceoryx2 + event";
const IPC: &str = "ipc-channel";

/// Part of a payload that its receiver reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Look {
    Whole,
    /// One page in 64.
    Part,
}

impl Look {
    fn word(self) -> &'static str {
        match self {
            Look::Whole => "whole",
            Look::Part => "part",
        }
    }

    /// Reads that part of bytes that lie in pieces of whole pages, but for the first.
    fn at<'a>(self, pieces: impl Iterator<Item = &'a [u8]>) {
        let pages = pieces.flat_map(|piece| piece.chunks(PAGE));
        let sum = |page: &[u8]| page.iter().fold(0u64, |sum, byte| sum + u64::from(*byte));
        let every = if self == Look::Whole { 1 } else { 64 };
        black_box(pages.step_by(every).map(sum).sum::<u64>());
    }
}

/// How payloads go to and fro.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PayloadStyle {
    Payload,
    OverStream,
    Fresh,
    Pool,
    Stream,
}

/// Arguments of `cargo xtask echo-payload`.
#[derive(clap::Args)]
pub(crate) struct EchoArguments {
    way: PayloadStyle,
    bytes: usize,
    look: Look,
}

/// One end.
enum Carrier {
    Payloads { end: Box<PayloadChannel>, has_pool: bool },
    Stream { socket: UnixStream, buffer: Vec<u8> },
}

impl Carrier {
    fn new(way: PayloadStyle, fd: OwnedFd, bytes: usize) -> Result<Carrier> {
        if way == PayloadStyle::Stream {
            let socket = UnixStream::from(fd);
            return Ok(Carrier::Stream { socket, buffer: vec![0; bytes] });
        }
        let channel = Channel::from_fd(fd).map_err(|(_, status)| status)?;
        let memory_from = (way == PayloadStyle::Fresh).then_some(0);
        let mut options = PayloadOptions::new().memory_from(memory_from);
        if way == PayloadStyle::OverStream {
            options = options.stream_from(Some(0));
        }
        let mut end = PayloadChannel::with_options(channel, options);
        let has_pool = way == PayloadStyle::Pool;
        if has_pool {
            end.share_pool(2, bytes, Deadline::INFINITE)?;
            end.trust_peer(testbed::trusted_peer());
        }
        Ok(Carrier::Payloads { end: Box::new(end), has_pool })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Carrier::Payloads { end, has_pool: true } => {
                let mut draft = end.draft(bytes.len())?;
                draft.copy_from_slice(bytes);
                end.send_draft(draft, Deadline::INFINITE)?;
            }
            Carrier::Payloads { end, .. } => drop(end.send(bytes, Deadline::INFINITE)?),
            Carrier::Stream { socket, .. } => socket.write_all(bytes)?,
        }
        Ok(())
    }

    fn receive(&mut self, look: Look) -> Result<usize> {
        match self {
            Carrier::Payloads { end, .. } => {
                let payload = end.receive(Deadline::INFINITE)?;
                look.at(payload.pieces());
                Ok(payload.len())
            }
            Carrier::Stream { socket, buffer } => {
                socket.read_exact(buffer)?;
                look.at(std::iter::once(&buffer[..]));
                Ok(buffer.len())
            }
        }
    }
}

/// Sends back every payload that comes on the standard input, until the other end is gone.
///
/// # Errors
/// If the standard input is not what the way needs.
pub(crate) fn run(arguments: &EchoArguments) -> Result<()> {
    let EchoArguments { way, bytes, look } = *arguments;
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut carrier = Carrier::new(way, input, bytes)?;
    let payload = vec![1; bytes];
    // The only error there can be without one on the other end.
    while carrier.receive(look).is_ok() && carrier.send(&payload).is_ok() {}
    Ok(())
}

/// The second process, as long as this exists.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(way: PayloadStyle, bytes: usize, look: Look) -> Result<(Carrier, Process)> {
    let (near, far) = if way == PayloadStyle::Stream {
        let (near, far) = UnixStream::pair()?;
        (OwnedFd::from(near), OwnedFd::from(far))
    } else {
        let (near, far) = Channel::pair();
        let far = far.into_fd()?;
        (near.into_fd()?, far)
    };
    let name = way.to_possible_value().context("a way without a name")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["echo-payload", name.get_name(), &bytes.to_string(), look.word()]);
    command.stdin(far).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Process(command.spawn().context("cannot start the second process")?);
    Ok((Carrier::new(way, near, bytes)?, process))
}

fn own(
    name: &str,
    role: Role,
    way: PayloadStyle,
    bytes: usize,
    look: Look,
    time: Duration,
) -> Subject {
    let payload = vec![1u8; bytes];
    let open = move || start(way, bytes, look);
    Subject::piece(name, role, open, move |(carrier, _), _| {
        let round_trip = sample(time, || {
            carrier.send(black_box(&payload))?;
            let received = carrier.receive(look)?;
            ensure!(received == payload.len(), "{received} bytes came of {}", payload.len());
            Ok(())
        })?;
        Ok(divided(round_trip, 2.0))
    })
}

fn memcpy_twice(bytes: usize, look: Look, time: Duration) -> Subject {
    let open = move || Ok([vec![1u8; bytes], vec![0; bytes], vec![0; bytes]]);
    Subject::piece(MEMCPY_TWICE, Role::Yardstick, open, move |[from, between, to], _| {
        sample(time, || {
            between.copy_from_slice(black_box(from));
            to.copy_from_slice(black_box(between));
            look.at(std::iter::once(&to[..]));
            Ok(())
        })
    })
}

/// Every case: each size, read whole and in part.
pub(super) fn cases(peers: &Peers, runs: &BriefRuns) -> Vec<Case> {
    let runs = runs.longer(RUN, ROUNDS);
    let time = runs.time;
    let mut cases = Vec::new();
    for (size, bytes) in SIZES {
        for look in [Look::Whole, Look::Part] {
            let mut subjects = vec![
                own(PAYLOAD, Role::Own, PayloadStyle::Payload, bytes, look, time),
                own(OVER_STREAM, Role::Own, PayloadStyle::OverStream, bytes, look, time),
                own(FRESH, Role::Own, PayloadStyle::Fresh, bytes, look, time),
                own(POOL, Role::Own, PayloadStyle::Pool, bytes, look, time),
                own(STREAM, Role::Yardstick, PayloadStyle::Stream, bytes, look, time),
                memcpy_twice(bytes, look, time),
            ];
            let able = peers.installed.iter().filter(|peer| [ICEORYX, IPC].contains(&peer.name));
            subjects.extend(able.map(|peer| {
                let millis = time.as_millis().to_string();
                let words = ["2".into(), bytes.to_string(), "1".into(), millis, look.word().into()];
                let program = peer.clone();
                let run = move |(): &mut (), _| printed_by(program.command().args(&words));
                Subject::piece(peer.name, Role::Peer, || Ok(()), run)
            }));
            let name = format!("payload/2-processes/{size}/{}", look.word());
            cases.push(runs.case(name, STREAM, subjects, targets(bytes)));
        }
    }
    cases
}

fn targets(bytes: usize) -> Vec<Target> {
    let mut targets = vec![at_most(1.1, TIME_EACH, POOL, ICEORYX)];
    // The ways of a payload without a pool.
    targets.extend([FRESH, OVER_STREAM].map(|way| at_most(1.05, TIME_EACH, PAYLOAD, way)));
    if bytes >= 1 << 20 {
        // A bare stream carries no payloads of other lengths and ways, for which a payload has its header.
        targets.extend(
            [(0.6, POOL), (1.05, PAYLOAD)]
                .map(|(limit, way)| at_most(limit, TIME_EACH, way, STREAM)),
        );
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::brief::Options;
    use crate::compare::case::assert;
    use crate::peers::{CHANNELS, find};

    #[test]
    fn cases_are_sound() {
        let runs = BriefRuns::new(Options::nowhere(), RUN, 41);
        let peers = find(std::path::Path::new("/nonexistent"), &CHANNELS);
        let cases = cases(&peers, &runs);
        assert_eq!(cases.len(), 8);
        assert::sound(&cases);
    }

    #[test]
    fn every_way_carries_payloads() {
        for way in PayloadStyle::value_variants().iter().copied() {
            let (near, far) = if way == PayloadStyle::Stream {
                let (near, far) = UnixStream::pair().unwrap();
                (OwnedFd::from(near), OwnedFd::from(far))
            } else {
                let (near, far) = Channel::pair();
                let far = far.into_fd().unwrap();
                (near.into_fd().unwrap(), far)
            };
            let mut near = Carrier::new(way, near, 100_000).unwrap();
            let mut far = Carrier::new(way, far, 100_000).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| near.send(&[1; 100_000]).unwrap());
                assert_eq!(far.receive(Look::Part).unwrap(), 100_000);
            });
        }
    }
}
