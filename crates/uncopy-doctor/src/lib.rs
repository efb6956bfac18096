//! Diagnoses whether bytes are copied on a path, and why.
//!
//! ```
//! use uncopy::doctor::{Options, Target, CopyVerdict, examine};
//!
//! let target = Target::Udp("127.0.0.1:9".parse().unwrap());
//! let report = examine(&target, &Options::default())?;
//! assert_eq!(report.verdict, CopyVerdict::Copied);
//! let loopback = report.finding("loopback").unwrap();
//! println!("{}: {}", report.headline, loopback.effect);
//! # Ok::<(), uncopy::Error>(())
//! ```
//!
//! Facts are gathered by queries to the kernel and by trials; pure functions derive findings from them.
//! Nothing is changed: objects created for a trial are removed afterwards, and nothing is sent without a
//! probe.

#![cfg(target_os = "linux")]
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address;
#[cfg(test)]
mod auto_traits;
mod between;
mod channel;
mod channel_facts;
mod condition;
mod effect;
mod files;
mod finding;
mod found;
mod network;
mod next_step;
mod process;
mod report;
mod settings;
mod severity;
mod system;
mod trace;
mod worded;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use between::{BetweenFacts, BetweenSide, DataWay, WhyThroughShell, between};
pub use channel_facts::{
    ChannelEnd, ChannelFacts, ChannelHolder, FarEnd, MessageCharge, ReceiveWork,
};
pub use condition::{Condition, Topic, condition, conditions};
pub use effect::Effect;
pub use finding::{DoctorFinding, Evidence};
pub use found::{
    BetweenEnd, BetweenFound, ChannelFound, ChannelReader, CopyCause, CopySite, Detour, Doubt,
    Echo, FilesFound, FilterAction, FoundFact, Missing, NetworkFound, ProbeFound, ProcessFound,
    ProcessName, RuleDoubt, Side, Sighting, SystemFound, TapFound, TapHolder, TapPlace, TraceFound,
};
pub use network::{GREETING, HELLO, Probe};
pub use next_step::{DeviceFeature, NextStep};
pub use report::{CopyVerdict, Report, ReportFact, Stack, TriedMechanism};
pub use settings::{Setting, Settings};
pub use severity::Severity;

use trace::Subject;
use uncopy_copy::CopyOptions;
use uncopy_core::Result;
use uncopy_send::Transport;

/// Path or object to examine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// TCP to an address.
    Tcp(SocketAddr),
    /// UDP to an address.
    Udp(SocketAddr),
    /// Everything that is sent through a network device.
    Device(String),
    /// A copy of a file, or of a directory, which is judged by its largest file.
    Copy {
        /// The file or directory.
        source: PathBuf,
        /// The file to write. For a directory: the directory to write to.
        destination: PathBuf,
        /// Options of the copy.
        options: CopyOptions,
    },
    /// The connected sockets of the process with this id.
    Process(u32),
    /// A channel between processes.
    Channel {
        /// Id of a process with one end.
        pid: u32,
        /// Number of the end's descriptor in that process.
        descriptor: i32,
    },
    /// The whole machine: the kernel, limits, channels, and the devices that lead to other machines.
    System,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp(to) => write!(f, "tcp://{to}"),
            Target::Udp(to) => write!(f, "udp://{to}"),
            Target::Device(name) => f.write_str(name),
            Target::Copy { source, destination, .. } => {
                write!(f, "{} -> {}", source.display(), destination.display())
            }
            Target::Process(pid) => write!(f, "pid {pid}"),
            Target::Channel { pid, descriptor } => write!(f, "channel {pid}:{descriptor}"),
            Target::System => f.write_str("this machine"),
        }
    }
}

/// Options of an examination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Bytes of each send. `None`: 64 KiB over TCP, and the largest datagram that fits into one packet over UDP.
    pub message_bytes: Option<usize>,
    /// Bytes of the datagrams that the kernel splits each UDP send into (`UDP_SEGMENT`).
    pub segment_bytes: Option<u16>,
    /// Bytes in flight. `None`: those of 16 sends, after which a [`Sender`](uncopy_send::Sender) reads its
    /// reports.
    pub in_flight_bytes: Option<usize>,
    /// Whether to send at most 4 MiB to a TCP or UDP address and read the kernel's reports.
    pub probe: Probe,
    /// Time to sample the kernel for functions that copy. The transfer has to run during that time. For a
    /// process only its own samples count, otherwise those of all processes.
    pub trace: Option<Duration>,
    /// With `trace`: whether to count whole stacks that contain copying functions.
    pub stacks: bool,
    /// Names of the options of a copy, and the places where they were set.
    pub settings: Settings,
}

impl Options {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets the bytes of each send; `None`: the default of the transport.
    #[must_use]
    pub fn message_bytes(mut self, message_bytes: Option<usize>) -> Options {
        self.message_bytes = message_bytes;
        self
    }

    /// Sets the bytes of the datagrams that the kernel splits each UDP send into.
    #[must_use]
    pub fn segment_bytes(mut self, segment_bytes: Option<u16>) -> Options {
        self.segment_bytes = segment_bytes;
        self
    }

    /// Sets the bytes in flight; `None`: those of 16 sends.
    #[must_use]
    pub fn in_flight_bytes(mut self, in_flight_bytes: Option<usize>) -> Options {
        self.in_flight_bytes = in_flight_bytes;
        self
    }

    /// Sets whether to send a probe to the address.
    #[must_use]
    pub fn probe(mut self, probe: Probe) -> Options {
        self.probe = probe;
        self
    }

    /// Sets how long to sample the kernel.
    #[must_use]
    pub fn trace(mut self, trace: Option<Duration>) -> Options {
        self.trace = trace;
        self
    }

    /// Sets whether whole stacks are counted while sampling.
    #[must_use]
    pub fn stacks(mut self, stacks: bool) -> Options {
        self.stacks = stacks;
        self
    }

    /// Sets the caller's names for the options of a copy.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Options {
        self.settings = settings;
        self
    }
}

/// Returns the index of a device in this thread's network namespace, which link-local addresses need
/// ([`SocketAddrV6::scope_id`](std::net::SocketAddrV6::scope_id)). `None`: there is no device of this name.
#[must_use]
pub fn device_index(name: &str) -> Option<u32> {
    network::device_index(name)
}

/// Examines a target and reports why its bytes are copied or not.
///
/// # Errors
/// There is no such device, process or descriptor; the descriptor is not the socket of a channel; or the copy cannot start, because a file cannot be opened, is not
/// regular, or both are the same file.
pub fn examine(target: &Target, options: &Options) -> Result<Report> {
    let report = match target {
        Target::Tcp(to) => network::address(Transport::Tcp, *to, options),
        Target::Udp(to) => network::address(Transport::Udp, *to, options),
        Target::Device(name) => network::device(name, options)?,
        Target::Copy { source, destination, options: how } => {
            files::copy(source, destination, how, options)?
        }
        Target::Process(pid) => network::sockets::process(*pid, options)?,
        Target::Channel { pid, descriptor } => {
            channel::examine(*pid, *descriptor, target.to_string())?
        }
        Target::System => system::at_a_glance(options),
    };
    let Some(time) = options.trace else { return Ok(report) };
    let (subject, pid) = match target {
        Target::Copy { .. } => (Subject::Copying, None),
        Target::Process(pid) | Target::Channel { pid, .. } => (Subject::Everything, Some(*pid)),
        Target::System => (Subject::Everything, None),
        _ => (Subject::Sending, None),
    };
    let traced = trace::trace(time, subject, pid, options.stacks);
    let mut report = report.with(traced.findings, traced.facts);
    report.stacks = traced.stacks;
    Ok(report)
}

/// Entry point for `fuzz/`: parses the text as a file of `/proc` or `/sys`, and each of its lines.
#[cfg(fuzzing)]
pub fn fuzz(text: &str) {
    trace::fuzz(text);
    channel::fuzz(text);
    text.lines().for_each(network::fuzz);
    let _ = uncopy_os::probe::version_of(text);
}
