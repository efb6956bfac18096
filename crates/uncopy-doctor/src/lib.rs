//! Why zero-copy does, or does not, happen here.
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
//! Facts are gathered by asking the kernel and by trying; findings are drawn from them by pure
//! functions. Nothing is changed: what is made to try something is gone afterwards, and nothing is
//! sent unless a probe is asked for.

#![cfg(target_os = "linux")]
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod address;
#[cfg(test)]
mod auto_traits;
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

pub use condition::{Condition, Topic, condition, conditions};
pub use effect::Effect;
pub use finding::{DoctorFinding, Evidence};
pub use found::{
    CopyCause, CopySite, Detour, Doubt, Echo, FilesFound, FilterAction, Found, Missing,
    NetworkFound, ProbeFound, ProcessFound, ProcessName, RuleDoubt, Side, Sighting, SystemFound,
    TapFound, TapHolder, TapPlace, TraceFound,
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

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// TCP to an address.
    Tcp(SocketAddr),
    /// UDP to an address.
    Udp(SocketAddr),
    /// Whatever leaves through a network device.
    Device(String),
    /// A copy of a file; or of a directory, which is judged by its largest file.
    Copy {
        /// The file or directory.
        source: PathBuf,
        /// The file to write. For a directory: the directory to write to.
        destination: PathBuf,
        /// How it would be copied.
        options: CopyOptions,
    },
    /// Whatever a process sends to the peers of its sockets, by its id.
    Process(u32),
    /// Everything at a glance: the kernel, limits, channels, and the devices that lead elsewhere.
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
            Target::System => f.write_str("this machine"),
        }
    }
}

/// What is to be done, as far as the target does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Bytes of each send. `None`: 64 KiB over TCP, over UDP as many as fit into one packet.
    pub message_bytes: Option<usize>,
    /// Have the kernel cut each send over UDP into datagrams of so many bytes (`UDP_SEGMENT`).
    pub segment_bytes: Option<u16>,
    /// Bytes that are lent at a time. `None`: those of 16 sends, after which a
    /// [`Sender`](uncopy_send::Sender) reads its reports.
    pub in_flight_bytes: Option<usize>,
    /// Whether to send something to a TCP or UDP address, and see what becomes of it: at most 4 MiB.
    pub probe: Probe,
    /// Sample the kernel for so long, and look for functions that copy. What is to be seen has to be
    /// going on meanwhile. Of a process its own samples count, else those of everybody.
    pub trace: Option<Duration>,
    /// With `trace`: count the whole stacks in which functions that copy are seen.
    pub stacks: bool,
    /// Names of the options of a copy, and where they were set.
    pub settings: Settings,
}

impl Options {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets the bytes of each send; `None`: as suits the transport.
    #[must_use]
    pub fn message_bytes(mut self, message_bytes: Option<usize>) -> Options {
        self.message_bytes = message_bytes;
        self
    }

    /// Sets the bytes of the datagrams that the kernel cuts sends over UDP into.
    #[must_use]
    pub fn segment_bytes(mut self, segment_bytes: Option<u16>) -> Options {
        self.segment_bytes = segment_bytes;
        self
    }

    /// Sets the bytes that are lent at a time; `None`: those of 16 sends.
    #[must_use]
    pub fn in_flight_bytes(mut self, in_flight_bytes: Option<usize>) -> Options {
        self.in_flight_bytes = in_flight_bytes;
        self
    }

    /// Sets whether to send something to the address.
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

    /// Sets how the caller knows the options of a copy.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Options {
        self.settings = settings;
        self
    }
}

/// Returns the index of the device of this name in this thread's network, which link-local addresses need
/// ([`SocketAddrV6::scope_id`](std::net::SocketAddrV6::scope_id)). `None`: there is none.
#[must_use]
pub fn device_index(name: &str) -> Option<u32> {
    network::device_index(name)
}

/// Looks at a target, and says what keeps its bytes from staying where they are.
///
/// # Errors
/// There is no such device or process; or those of a copy that never begins, because a file cannot be
/// opened, is no regular one, or both are one file.
pub fn examine(target: &Target, options: &Options) -> Result<Report> {
    let report = match target {
        Target::Tcp(to) => network::address(Transport::Tcp, *to, options),
        Target::Udp(to) => network::address(Transport::Udp, *to, options),
        Target::Device(name) => network::device(name, options)?,
        Target::Copy { source, destination, options: how } => {
            files::copy(source, destination, how, options)?
        }
        Target::Process(pid) => network::sockets::process(*pid, options)?,
        Target::System => system::at_a_glance(options),
    };
    let Some(time) = options.trace else { return Ok(report) };
    let (subject, pid) = match target {
        Target::Copy { .. } => (Subject::Copying, None),
        Target::Process(pid) => (Subject::Everything, Some(*pid)),
        Target::System => (Subject::Everything, None),
        _ => (Subject::Sending, None),
    };
    let traced = trace::trace(time, subject, pid, options.stacks);
    let mut report = report.with(traced.findings, traced.facts);
    report.stacks = traced.stacks;
    Ok(report)
}

/// For `fuzz/`: this text as a file of `/proc` or `/sys`, and each of its lines.
#[cfg(fuzzing)]
pub fn fuzz(text: &str) {
    trace::fuzz(text);
    text.lines().for_each(network::fuzz);
    let _ = uncopy_os::probe::version_of(text);
}
