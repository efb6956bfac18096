//! A second process that sends every message back.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use clap::ValueEnum;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use uncopy::channel::Channel;

use super::bare::{Pipes, Seqpacket};
use super::endpoint::Endpoint;
use super::own::{Own, Style};
use super::subjects::{PAGE_BYTES, placed};
use crate::compare::message::Message;

/// Arguments of `cargo xtask echo`.
#[derive(clap::Args)]
pub(crate) struct EchoArguments {
    way: EchoStyle,
    bytes: usize,
    regions: usize,
}

/// How messages go to and fro.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EchoStyle {
    Copied,
    Lent,
    Linearised,
    Waiting,
    Spinning,
    Seqpacket,
    Pipes,
}

impl EchoStyle {
    fn style(self) -> Style {
        match self {
            EchoStyle::Lent => Style::RECEIVED_LENT,
            EchoStyle::Linearised => Style::RECEIVED_LINEARISED,
            EchoStyle::Waiting => Style::COPIED,
            EchoStyle::Spinning => Style::SPINNING,
            _ => Style::RECEIVED,
        }
    }
}

/// Sends back every message that comes on the standard input, in as many regions, until the other
/// end is gone.
///
/// # Errors
/// If the standard input is not what `way` needs.
pub(crate) fn run(arguments: &EchoArguments) -> Result<()> {
    let EchoArguments { way, bytes, regions } = *arguments;
    let message = Message { bytes, regions };
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    match way {
        EchoStyle::Copied
        | EchoStyle::Lent
        | EchoStyle::Linearised
        | EchoStyle::Waiting
        | EchoStyle::Spinning => {
            let channel = Channel::from_fd(input).map_err(|(_, status)| status)?;
            echo(Own::of_second_process(channel, way.style()), message);
        }
        EchoStyle::Seqpacket => echo(Seqpacket::new(input), message),
        EchoStyle::Pipes => {
            let output = std::io::stdout().as_fd().try_clone_to_owned()?;
            echo(Pipes::new(output, input, bytes), message);
        }
    }
    Ok(())
}

fn echo(mut endpoint: impl Endpoint, message: Message) {
    /// Messages that lie at one place.
    const TOGETHER: usize = 500;
    let bytes = vec![1; message.bytes + PAGE_BYTES];
    for round in 0.. {
        let regions = message.of(placed(&bytes, message.bytes, round));
        for _ in 0..TOGETHER {
            // The only error there can be without one on the other end.
            if endpoint.receive().is_err() || endpoint.send(&regions).is_err() {
                return;
            }
        }
    }
}

/// This thread stays on one processor, the same at each time, and the programs that it starts as
/// well. Where the system puts two processes that wait for each other is chance otherwise, and stays
/// so for a whole case.
pub(super) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Until this is dropped.
    pub(super) fn to_one_processor() -> Result<Pinned> {
        Pinned::to(|allowed| (0..CpuSet::MAX_CPU).rev().find(|number| allowed.is_set(*number)))
    }

    /// To another processor than [`to_one_processor`](Self::to_one_processor), if there are two.
    pub(super) fn to_another_processor() -> Result<Pinned> {
        Pinned::to(|allowed| (0..CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)))
    }

    fn to(choose: impl Fn(&CpuSet) -> Option<usize>) -> Result<Pinned> {
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        one.set(choose(&before).context("no processor to run on")?);
        sched_setaffinity(None, &one)?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was there a moment ago.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// The second process, as long as this exists.
struct Process(Child);

impl Process {
    fn start(way: EchoStyle, message: Message, input: OwnedFd, output: Stdio) -> Result<Process> {
        let way = way.to_possible_value().map_or_else(String::new, |way| way.get_name().to_owned());
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["echo", &way, &message.bytes.to_string(), &message.regions.to_string()]);
        command.stdin(input).stdout(output).stderr(Stdio::null());
        let _pinned = Pinned::to_one_processor()?;
        Ok(Process(command.spawn().context("cannot start the second process")?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This process's end of what leads to a second process.
pub(super) struct Echoed<E> {
    pub(super) endpoint: E,
    _process: Process,
}

/// Our channel to a second process.
pub(super) fn own(way: EchoStyle, message: Message) -> Result<Echoed<Own>> {
    let (endpoint, far) = Own::with_far(way.style())?;
    Ok(Echoed { endpoint, _process: Process::start(way, message, far, Stdio::null())? })
}

/// A bare socket to a second process.
pub(super) fn seqpacket(message: Message) -> Result<Echoed<Seqpacket>> {
    let (near, far) = Seqpacket::sockets()?;
    let process = Process::start(EchoStyle::Seqpacket, message, far, Stdio::null())?;
    Ok(Echoed { endpoint: Seqpacket::new(near), _process: process })
}

/// A pipe to a second process, and one back.
pub(super) fn pipes(message: Message) -> Result<Echoed<Pipes>> {
    let (their_input, writer) = Pipes::pipe()?;
    let (reader, their_output) = Pipes::pipe()?;
    let process = Process::start(EchoStyle::Pipes, message, their_input, their_output.into())?;
    Ok(Echoed { endpoint: Pipes::new(writer, reader, message.bytes), _process: process })
}
