//! Those that send messages, ready to be run.

use std::hint::black_box;
use std::io::IoSlice;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use uncopy::channel::{AsyncOptions, Channel, Deadline, Object, Port, Signals};
use uncopy_zx::gather_checked;

use crate::compare::case::{Role, Subject};
use crate::compare::message::Message;
use crate::compare::metric::{Sample, TIME_EACH};
use crate::compare::timing::{calibrate, printed_by, sample};

/// Written before they are read where only writing counts, as in the program in C.
const WRITES: u32 = 8;

/// The handling of a message's regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Put into one buffer, and that written, waited for and read.
    Linear,
    /// Written as they are, waited for and read.
    Iovec,
    /// Written; reading does not count.
    Write,
}

/// The sent message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A byte vector as FIDL has it, with so many bytes in it.
    Vector(usize),
    /// Regions of the same length.
    Even(Message),
}

/// Length of a FIDL message's header; of a vector in it.
const HEADER_BYTES: usize = 16;

impl Shape {
    pub(super) fn bytes(self) -> usize {
        match self {
            Shape::Vector(contents) => 2 * HEADER_BYTES + contents,
            Shape::Even(message) => message.bytes,
        }
    }

    fn of(self, bytes: &[u8]) -> Vec<IoSlice<'_>> {
        match self {
            Shape::Vector(_) => {
                let (header, rest) = bytes.split_at(HEADER_BYTES);
                let (vector, contents) = rest.split_at(HEADER_BYTES);
                [header, vector, contents].map(IoSlice::new).to_vec()
            }
            Shape::Even(message) => message.of(bytes),
        }
    }
}

/// The program in C, as a process of its own.
pub(super) fn in_c(
    name: &str,
    program: PathBuf,
    what: What,
    shape: Shape,
    time: Duration,
) -> Subject {
    let word = match what {
        What::Linear => "linear",
        What::Iovec => "iovec",
        What::Write => "write",
    };
    let regions = match shape {
        Shape::Vector(_) => 0,
        Shape::Even(message) => message.regions,
    };
    let millis = time.as_millis().to_string();
    let figures = [shape.bytes().to_string(), regions.to_string(), millis];
    let run = move |(): &mut (), _| {
        let mut sample = printed_by(Command::new(&program).arg(word).args(&figures))?;
        // There the reads are in the processor time.
        sample.retain(|metric, _| what != What::Write || *metric == TIME_EACH);
        Ok(sample)
    };
    Subject::piece(name, Role::Own, || Ok(()), run)
}

/// The program in C, with a socket between the ends.
pub(super) fn over_socket(
    name: &str,
    program: PathBuf,
    what: &'static str,
    last: &'static [&'static str],
    message: Message,
    time: Duration,
) -> Subject {
    let figures = [message.bytes, message.regions].map(|figure| figure.to_string());
    let millis = time.as_millis().to_string();
    let run = move |(): &mut (), _| {
        let mut command = Command::new(&program);
        printed_by(command.arg(what).args(&figures).args([&millis, "SOCKET"]).args(last))
    };
    Subject::piece(name, Role::Own, || Ok(()), run)
}

/// Both ends, a port, and where messages are read to.
struct Ends {
    near: Channel,
    far: Channel,
    port: Port,
    out: Vec<u8>,
}

impl Ends {
    fn new(length: usize) -> Ends {
        let (near, far) = Channel::pair();
        Ends { near, far, port: Port::new(), out: vec![0; length] }
    }

    /// One message, waited for through the port.
    #[inline]
    fn receive(&mut self) -> Result<()> {
        let Ends { far, port, out, .. } = self;
        far.wait_async(port, 1, Signals::READABLE, AsyncOptions::empty())?;
        let packet = port.wait(Deadline::INFINITE)?;
        let received = far.read_into(black_box(&mut out[..]), &mut [])?.bytes;
        ensure!(packet.key == 1 && received == out.len(), "{received} bytes came");
        Ok(())
    }
}

/// The same by the Rust library, within this process.
pub(super) fn in_rust(name: &str, what: What, shape: Shape, time: Duration) -> Subject {
    let bytes = vec![1u8; shape.bytes()];
    let mut linear = Vec::with_capacity(bytes.len());
    let length = bytes.len();
    let open = move || Ok(Ends::new(length));
    Subject::piece(name, Role::Own, open, move |ends, _| {
        let regions = shape.of(&bytes);
        match what {
            What::Linear => sample(time, || {
                linear.clear();
                black_box(&regions).iter().for_each(|region| linear.extend_from_slice(region));
                ends.near.write(&[IoSlice::new(&linear)], Vec::new())?;
                ends.receive()
            }),
            What::Iovec => sample(time, || {
                ends.near.write(black_box(&regions), Vec::new())?;
                ends.receive()
            }),
            What::Write => write_alone(ends, &regions, time),
        }
    })
}

/// How long the writes of one round take.
fn write_round(ends: &mut Ends, regions: &[IoSlice<'_>]) -> Result<Duration> {
    let begin = Instant::now();
    for _ in 0..WRITES {
        ends.near.write_etc(black_box(regions), &mut [])?;
    }
    let spent = begin.elapsed();
    for _ in 0..WRITES {
        ends.far.read_into(black_box(&mut ends.out), &mut [])?;
    }
    Ok(spent)
}

fn write_alone(ends: &mut Ends, regions: &[IoSlice<'_>], time: Duration) -> Result<Sample> {
    let rounds = calibrate(time, &mut || write_round(ends, regions).map(drop))?;
    let mut spent = Duration::ZERO;
    for _ in 0..rounds {
        spent += write_round(ends, regions)?;
    }
    let writes = f64::from(rounds) * f64::from(WRITES);
    Ok(Sample::from([(TIME_EACH, spent.as_nanos() as f64 / writes)]))
}

/// A figure that somebody has published.
pub(super) fn published(name: &str, nanoseconds: f64) -> Subject {
    let run = move |(): &mut (), _| Ok(Sample::from([(TIME_EACH, nanoseconds)]));
    Subject::piece(name, Role::Yardstick, || Ok(()), run)
}

/// Regions into one buffer, by the copies that survive bad addresses.
pub(super) fn sure_copies(name: &str, message: Message, time: Duration) -> Subject {
    copies(name, Role::Own, message, time, |regions, out| {
        ensure!(gather_checked(regions, out), "a copy faulted");
        Ok(())
    })
}

/// The same by plain ones.
pub(super) fn plain_copies(name: &str, message: Message, time: Duration) -> Subject {
    copies(name, Role::Yardstick, message, time, |regions, out| {
        let mut rest = out;
        for region in regions {
            let (now, later) = rest.split_at_mut(region.len());
            now.copy_from_slice(region);
            rest = later;
        }
        Ok(())
    })
}

fn copies(
    name: &str,
    role: Role,
    message: Message,
    time: Duration,
    copy: impl Fn(&[IoSlice<'_>], &mut [u8]) -> Result<()> + 'static,
) -> Subject {
    let bytes = vec![1u8; message.bytes];
    let open = move || Ok(vec![0u8; message.bytes]);
    Subject::piece(name, role, open, move |out, _| {
        let regions = message.of(&bytes);
        sample(time, || copy(black_box(&regions), black_box(&mut out[..])))
    })
}
