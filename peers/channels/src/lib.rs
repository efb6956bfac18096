//! Measurement of channels: many messages in sequence, in one process or to another and back.

use std::ffi::OsString;
use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// One or both ends of a channel.
pub trait Endpoint {
    /// Sends one message of these bytes.
    ///
    /// # Errors
    /// Errors of the channel.
    fn send(&mut self, bytes: &[u8]) -> Result<()>;

    /// Waits for a message, looks at its bytes, and returns its length.
    ///
    /// # Errors
    /// Errors of the channel.
    fn receive(&mut self, look: Look) -> Result<usize>;
}

impl<E: Endpoint> Endpoint for &mut E {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        (**self).send(bytes)
    }

    fn receive(&mut self, look: Look) -> Result<usize> {
        (**self).receive(look)
    }
}

/// Part of a message that its receiver reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing.
    Nothing,
    /// Every byte.
    Whole,
    /// One page in 64.
    Part,
}

impl Look {
    /// Parses a word of the command line.
    ///
    /// # Errors
    /// For another word.
    pub fn from_word(word: &str) -> Result<Look> {
        match word {
            "nothing" => Ok(Look::Nothing),
            "whole" => Ok(Look::Whole),
            "part" => Ok(Look::Part),
            other => anyhow::bail!("there is no look {other}"),
        }
    }

    /// Returns the word for the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Look::Nothing => "nothing",
            Look::Whole => "whole",
            Look::Part => "part",
        }
    }

    /// Reads that part.
    pub fn at(self, bytes: &[u8]) {
        let pages = match self {
            Look::Nothing => return,
            Look::Whole => bytes.chunks(4096).step_by(1),
            Look::Part => bytes.chunks(4096).step_by(64),
        };
        let sum = |page: &[u8]| page.iter().fold(0u64, |sum, byte| sum + u64::from(*byte));
        black_box(pages.map(sum).sum::<u64>());
    }
}

/// Parameters of a measurement: `PEER PROCESSES BYTES REGIONS MILLISECONDS [LOOK]`.
pub struct Errand {
    /// Name of the channel.
    pub peer: String,
    /// Number of processes: 1 or 2.
    pub processes: u8,
    /// Length of a message in bytes.
    pub bytes: usize,
    /// Number of regions.
    pub regions: usize,
    /// Duration of the measurement.
    pub time: Duration,
    /// Part of each message that receivers read.
    pub look: Look,
}

impl Errand {
    /// Parses the command line.
    ///
    /// # Errors
    /// If it is not in this form.
    pub fn from_arguments() -> Result<Errand> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let [peer, processes, bytes, regions, milliseconds, rest @ ..] = words.as_slice() else {
            anyhow::bail!("say PEER PROCESSES BYTES REGIONS MILLISECONDS [LOOK]");
        };
        let look = rest.first().map_or(Ok(Look::Nothing), |word| Look::from_word(word))?;
        let regions: usize = regions.parse()?;
        ensure!(regions > 0, "REGIONS is at least 1");
        Ok(Errand {
            peer: peer.clone(),
            processes: processes.parse()?,
            bytes: bytes.parse()?,
            regions,
            time: Duration::from_millis(milliseconds.parse()?),
            look,
        })
    }

    /// Sends messages and receives them again, and prints the time for one.
    ///
    /// The regions are combined first, because none of these channels gathers.
    ///
    /// # Errors
    /// Errors of the channel, or a message of another length.
    pub fn measure(&self, mut endpoint: impl Endpoint) -> Result<()> {
        let bytes = vec![1u8; self.bytes];
        let pieces: Vec<&[u8]> = self.pieces(&bytes);
        let mut linear = Vec::with_capacity(self.bytes);
        let one = || {
            if let [piece] = pieces.as_slice() {
                endpoint.send(piece)?;
            } else {
                linear.clear();
                pieces.iter().for_each(|piece| linear.extend_from_slice(piece));
                endpoint.send(&linear)?;
            }
            let received = endpoint.receive(self.look)?;
            ensure!(received == self.bytes, "{received} bytes came of {}", self.bytes);
            Ok(())
        };
        // A round trip has two messages.
        print_cost(self.time, f64::from(self.processes), one)
    }

    /// Divides `bytes` into regions of the same length; the last one gets the rest.
    fn pieces<'a>(&self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let each = bytes.len() / self.regions;
        let end = |i| if i + 1 == self.regions { bytes.len() } else { (i + 1) * each };
        (0..self.regions).map(|i| &bytes[i * each..end(i)]).collect()
    }
}

/// Runs `one` for about `time`, after a warm-up of an eighth of that, and prints the time for one
/// `part`th of it.
///
/// # Errors
/// Errors of `one`.
pub fn print_cost(time: Duration, part: f64, mut one: impl FnMut() -> Result<()>) -> Result<()> {
    let mut count = 8u32;
    let took = loop {
        let took = run(count, &mut one)?;
        if took.wall * 8 > time {
            break took;
        }
        count *= 2;
    };
    let times = time.as_secs_f64() / took.wall.as_secs_f64() * f64::from(count);
    let count = (times as u32).max(1);
    let took = run(count, &mut one)?;
    let each = 1e9 / f64::from(count) / part;
    println!(
        "{{\"nanoseconds\":{},\"cpu_nanoseconds\":{}}}",
        took.wall.as_secs_f64() * each,
        took.cpu.as_secs_f64() * each,
    );
    Ok(())
}

struct Took {
    wall: Duration,
    cpu: Duration,
}

fn run(count: u32, one: &mut impl FnMut() -> Result<()>) -> Result<Took> {
    let cpu = || duration(clock_gettime(ClockId::ProcessCPUTime));
    let (begin, cpu_before) = (Instant::now(), cpu());
    for _ in 0..count {
        one()?;
    }
    Ok(Took { wall: begin.elapsed(), cpu: cpu() - cpu_before })
}

fn duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Returns every message to its sender until the process is killed.
///
/// # Errors
/// Errors of the channel.
pub fn echo(mut endpoint: impl Endpoint, length: usize, look: Look) -> Result<()> {
    let bytes = vec![1u8; length];
    loop {
        endpoint.receive(look)?;
        endpoint.send(&bytes)?;
    }
}

/// A second process that echoes messages, killed when dropped.
pub struct Echo(Child);

/// First argument of a process that echoes.
pub const ECHO: &str = "echo";

impl Echo {
    /// Starts this program with `echo` and these arguments. It ends with an error when the other
    /// end is closed, which is expected.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(arguments: &[OsString]) -> Result<Echo> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ECHO).args(arguments).stderr(Stdio::null());
        Ok(Echo(command.spawn().context("cannot start the echo")?))
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
