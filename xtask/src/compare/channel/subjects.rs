//! Those that carry messages, ready to be run.

use std::hint::black_box;
use std::io::IoSlice;
use std::time::Duration;

use anyhow::{Result, ensure};
use uncopy::channel::{
    AsyncOptions, BatchRegion, Channel, Deadline, Object, Port, Signals, Status,
};

use super::bare::{Pipes, Seqpacket};
use super::echo::{self, EchoStyle, Echoed, Pinned};
use super::endpoint::Endpoint;
use super::own::{Own, Style, socket_pair};
use crate::compare::case::{Role, Subject};
use crate::compare::message::Message;
use crate::compare::metric::{Sample, TIME_OF_REGION};
use crate::compare::timing::{calibrate, divided, nanoseconds_each, printed_by, sample};
use crate::peers::Installed;

/// Makes both ends of a channel of ours.
pub(super) type MakePair = fn() -> Result<(Channel, Channel)>;

/// Space that [`placed`] needs beyond the length.
pub(super) const PAGE_BYTES: usize = 4096;

/// `length` bytes of `memory`, in each round at another place of a page: a load behind a store
/// whose address ends in the same twelve bits waits for it (Intel's optimization manual, "4K
/// aliasing"), and where memory lies is a lottery.
pub(super) fn placed(memory: &[u8], length: usize, round: usize) -> &[u8] {
    /// Visits every sixteenth byte of a page before it comes back.
    const STEP: usize = 16 * 69;
    &memory[round * STEP % PAGE_BYTES..][..length]
}

fn exchange(
    from: &mut impl Endpoint,
    to: &mut impl Endpoint,
    regions: &[IoSlice<'_>],
    length: usize,
) -> Result<()> {
    from.send(black_box(regions))?;
    let received = to.receive()?;
    ensure!(received == length, "{received} bytes came of {length}");
    Ok(())
}

/// Both ends in this process.
fn one_process<E: Endpoint + 'static>(
    name: &str,
    role: Role,
    message: Message,
    time: Duration,
    open: impl Fn() -> Result<(E, E)> + 'static,
) -> Subject {
    let bytes = vec![1; message.bytes + PAGE_BYTES];
    Subject::piece(name, role, open, move |(near, far), round| {
        let regions = message.of(placed(&bytes, message.bytes, round));
        sample(time, || exchange(near, far, &regions, message.bytes))
    })
}

/// To another process and back.
fn two_processes<E: Endpoint + 'static>(
    name: &str,
    role: Role,
    message: Message,
    time: Duration,
    open: impl Fn() -> Result<Echoed<E>> + 'static,
) -> Subject {
    echoed(name, role, message, time, Pinned::to_one_processor, open)
}

/// To another process and back; this thread is pinned by `pin`.
fn echoed<E: Endpoint + 'static>(
    name: &str,
    role: Role,
    message: Message,
    time: Duration,
    pin: fn() -> Result<Pinned>,
    open: impl Fn() -> Result<Echoed<E>> + 'static,
) -> Subject {
    let bytes = vec![1; message.bytes + PAGE_BYTES];
    Subject::piece(name, role, open, move |Echoed { endpoint, .. }, round| {
        let regions = message.of(placed(&bytes, message.bytes, round));
        let pinned = pin()?;
        let round_trip = sample(time, || {
            endpoint.send(black_box(&regions))?;
            let received = endpoint.receive()?;
            ensure!(received == message.bytes, "{received} bytes came of {}", message.bytes);
            Ok(())
        })?;
        drop(pinned);
        Ok(divided(round_trip, 2.0))
    })
}

/// Ours, within this process.
pub(super) fn own(
    name: &str,
    style: Style,
    pair: MakePair,
    message: Message,
    time: Duration,
) -> Subject {
    one_process(name, Role::Own, message, time, move || {
        let (near, far) = pair()?;
        Ok((Own::new(near, style), Own::new(far, style)))
    })
}

/// Ours, to a second process.
pub(super) fn own_echoed(name: &str, way: EchoStyle, message: Message, time: Duration) -> Subject {
    two_processes(name, Role::Own, message, time, move || echo::own(way, message))
}

/// Ours, to a second process on another processor.
pub(super) fn own_across(name: &str, way: EchoStyle, message: Message, time: Duration) -> Subject {
    let open = move || echo::own(way, message);
    echoed(name, Role::Own, message, time, Pinned::to_another_processor, open)
}

/// A bare socket to a second process on another processor.
pub(super) fn seqpacket_across(name: &str, message: Message, time: Duration) -> Subject {
    let open = move || echo::seqpacket(message);
    echoed(name, Role::Yardstick, message, time, Pinned::to_another_processor, open)
}

pub(super) fn seqpacket(name: &str, message: Message, time: Duration) -> Subject {
    one_process(name, Role::Yardstick, message, time, || {
        let (near, far) = Seqpacket::sockets()?;
        Ok((Seqpacket::new(near), Seqpacket::new(far)))
    })
}

pub(super) fn seqpacket_echoed(name: &str, message: Message, time: Duration) -> Subject {
    two_processes(name, Role::Yardstick, message, time, move || echo::seqpacket(message))
}

/// A pipe each way, of which one process needs but one.
pub(super) fn pipes(name: &str, message: Message, time: Duration) -> Subject {
    one_process(name, Role::Peer, message, time, move || {
        let ((here, to_here), (there, to_there)) = (Pipes::pipe()?, Pipes::pipe()?);
        Ok((Pipes::new(to_there, here, message.bytes), Pipes::new(to_here, there, message.bytes)))
    })
}

pub(super) fn pipes_echoed(name: &str, message: Message, time: Duration) -> Subject {
    two_processes(name, Role::Peer, message, time, move || echo::pipes(message))
}

/// Copies into a buffer of the channel's own pool, and out of it again if it is to be `twice`.
pub(super) fn memcpy(name: &str, twice: bool, length: usize, time: Duration) -> Subject {
    let (bytes, mut out) = (vec![1u8; length + PAGE_BYTES], vec![0u8; length]);
    let open = move || {
        let (near, far) = Channel::pair();
        near.write(&[IoSlice::new(&vec![0; length])], Vec::new())?;
        Ok(far.read()?)
    };
    Subject::piece(name, Role::Yardstick, open, move |buffer, round| {
        let bytes = placed(&bytes, length, round);
        sample(time, || {
            black_box(&mut *buffer).copy_from_slice(black_box(bytes));
            if twice {
                black_box(&mut out).copy_from_slice(black_box(&*buffer));
            }
            Ok(())
        })
    })
}

/// The smallest system call.
pub(super) fn getpid(name: &str, time: Duration) -> Subject {
    let run = move |(): &mut (), _| {
        sample(time, || {
            black_box(std::process::id());
            Ok(())
        })
    };
    Subject::piece(name, Role::Yardstick, || Ok(()), run)
}

/// A message of one region, waited for through a port that is bound for each.
pub(super) fn port(name: &str, pair: MakePair, length: usize, time: Duration) -> Subject {
    let (bytes, mut out) = (vec![1u8; length], vec![0u8; length]);
    let open = move || Ok((pair()?, Port::new()));
    Subject::piece(name, Role::Own, open, move |((near, far), port), _| {
        sample(time, || {
            far.wait_async(port, 1, Signals::READABLE, AsyncOptions::empty())?;
            near.write(&[IoSlice::new(black_box(&bytes))], Vec::new())?;
            black_box(port.wait(Deadline::INFINITE)?);
            far.read_into(&mut out, &mut [])?;
            Ok(())
        })
    })
}

/// Messages in a batch.
pub(super) const BATCH: u16 = 16;

fn drain(channel: &Channel, length: usize) -> Result<()> {
    for _ in 0..BATCH {
        channel.wait_one(Signals::READABLE, Deadline::INFINITE)?;
        let received = black_box(channel.read()?).len();
        ensure!(received == length, "{received} bytes came of {length}");
    }
    Ok(())
}

/// All messages in one write: an array of regions that names each one's message.
pub(super) fn batch(name: &str, pair: MakePair, message: Message, time: Duration) -> Subject {
    let bytes = vec![1u8; message.bytes];
    Subject::piece(name, Role::Own, pair, move |(near, far), _| {
        let regions = message.of(&bytes);
        let numbered = |number| {
            regions.iter().map(move |bytes| BatchRegion { bytes, message: number, handles: 0 })
        };
        let flat: Vec<BatchRegion<'_>> = (0..BATCH).flat_map(numbered).collect();
        let all = sample(time, || {
            near.write_batch(black_box(&flat), &mut Vec::new())?;
            drain(far, bytes.len())
        })?;
        Ok(divided(all, f64::from(BATCH)))
    })
}

/// A write for each message: an array of arrays.
pub(super) fn one_by_one(name: &str, pair: MakePair, message: Message, time: Duration) -> Subject {
    let bytes = vec![1u8; message.bytes];
    Subject::piece(name, Role::Own, pair, move |(near, far), _| {
        let nested = vec![message.of(&bytes); usize::from(BATCH)];
        let all = sample(time, || {
            for regions in black_box(&nested) {
                near.write(regions, Vec::new())?;
            }
            drain(far, bytes.len())
        })?;
        Ok(divided(all, f64::from(BATCH)))
    })
}

/// A call that sends, other than `write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentBy {
    WriteEtc,
    Call,
    CallEtc,
    WriteBatch,
}

impl SentBy {
    pub(super) const ALL: [SentBy; 4] =
        [SentBy::WriteEtc, SentBy::Call, SentBy::CallEtc, SentBy::WriteBatch];

    pub(super) fn name(self) -> &'static str {
        match self {
            SentBy::WriteEtc => "write_etc",
            SentBy::Call => "call",
            SentBy::CallEtc => "call_etc",
            SentBy::WriteBatch => "write_batch",
        }
    }

    /// Sends one message. A call does not wait for its answer.
    fn send(self, channel: &Channel, regions: &[IoSlice<'_>]) -> Result<()> {
        let past = Deadline::after(Duration::ZERO);
        let answer = match self {
            SentBy::WriteEtc => return Ok(channel.write_etc(regions, &mut [])?),
            SentBy::WriteBatch => {
                let region = |bytes| BatchRegion { bytes, message: 0, handles: 0 };
                let flat: Vec<_> = regions.iter().map(|bytes| region(&**bytes)).collect();
                channel.write_batch(&flat, &mut Vec::new())?;
                return Ok(());
            }
            SentBy::Call => channel.call(regions, Vec::new(), past),
            SentBy::CallEtc => channel.call_etc(regions, &mut [], past),
        };
        ensure!(answer.is_err_and(|status| status == Status::TimedOut), "nobody answers");
        Ok(())
    }
}

/// A message over a socket within this process, sent by `call`.
pub(super) fn sent_by(
    name: &str,
    call: SentBy,
    is_joined: bool,
    message: Message,
    time: Duration,
) -> Subject {
    let (bytes, mut out) = (vec![1u8; message.bytes + PAGE_BYTES], vec![0u8; message.bytes]);
    let mut linear = Vec::with_capacity(message.bytes);
    Subject::piece(name, Role::Own, socket_pair, move |(near, far), round| {
        let regions = message.of(placed(&bytes, message.bytes, round));
        sample(time, || {
            if is_joined {
                linear.clear();
                black_box(&regions).iter().for_each(|region| linear.extend_from_slice(region));
                call.send(near, &[IoSlice::new(&linear)])?;
            } else {
                call.send(near, black_box(&regions))?;
            }
            let received = far.read_into(black_box(&mut out), &mut [])?.bytes;
            ensure!(received == message.bytes, "{received} bytes came of {}", message.bytes);
            Ok(())
        })
    })
}

/// A message over a bare socket within this process.
pub(super) fn bare_sent(name: &str, is_joined: bool, message: Message, time: Duration) -> Subject {
    let bytes = vec![1u8; message.bytes + PAGE_BYTES];
    let mut linear = Vec::with_capacity(message.bytes);
    let open = || {
        let (near, far) = Seqpacket::sockets()?;
        Ok((Seqpacket::new(near), Seqpacket::new(far)))
    };
    Subject::piece(name, Role::Yardstick, open, move |(near, far), round| {
        let regions = message.of(placed(&bytes, message.bytes, round));
        sample(time, || {
            if !is_joined {
                return exchange(near, far, &regions, message.bytes);
            }
            linear.clear();
            black_box(&regions).iter().for_each(|region| linear.extend_from_slice(region));
            exchange(near, far, &[IoSlice::new(&linear)], message.bytes)
        })
    })
}

/// Time that each of `message`'s regions adds to one region of the same length.
pub(super) fn further_regions(
    name: &str,
    style: Style,
    message: Message,
    time: Duration,
) -> Subject {
    let open = move || {
        let (near, far) = Channel::pair();
        Ok((Own::new(near, style), Own::new(far, style)))
    };
    Subject::piece(name, Role::Own, open, move |(near, far), _| {
        further(message, time, |regions| exchange(near, far, regions, message.bytes))
    })
}

/// The same for copies alone.
pub(super) fn further_copies(name: &str, message: Message, time: Duration) -> Subject {
    let open = move || Ok(Vec::with_capacity(message.bytes));
    Subject::piece(name, Role::Yardstick, open, move |out, _| {
        further(message, time, |regions| {
            out.clear();
            black_box(regions).iter().for_each(|region| out.extend_from_slice(region));
            black_box(&out);
            Ok(())
        })
    })
}

fn further(
    message: Message,
    time: Duration,
    mut exchange: impl FnMut(&[IoSlice<'_>]) -> Result<()>,
) -> Result<Sample> {
    let bytes = vec![1u8; message.bytes];
    let (one, many) = (Message { regions: 1, ..message }.of(&bytes), message.of(&bytes));
    let count = calibrate(time / 2, &mut || exchange(&many))?;
    // In turns, so that both see the same machine.
    let (turns, mut difference) = (8, 0.0);
    for _ in 0..turns {
        let mut of = |regions: &[IoSlice<'_>]| {
            nanoseconds_each(count / turns + 1, &mut || exchange(regions))
        };
        difference += of(&many)? - of(&one)?;
    }
    let each = difference / f64::from(turns) / (message.regions - 1) as f64;
    Ok(Sample::from([(TIME_OF_REGION, each)]))
}

/// A peer, which measures itself in a process of its own.
pub(super) fn peer(peer: &Installed, processes: u8, message: Message, time: Duration) -> Subject {
    let figures = [usize::from(processes), message.bytes, message.regions, millis(time)];
    let words = figures.map(|figure| figure.to_string());
    let program = peer.clone();
    let run = move |(): &mut (), _| printed_by(program.command().args(&words));
    Subject::piece(peer.name, Role::Peer, || Ok(()), run)
}

fn millis(time: Duration) -> usize {
    usize::try_from(time.as_millis()).unwrap_or(usize::MAX)
}
