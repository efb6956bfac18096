//! `uncopy doctor`.

use std::ffi::OsString;
use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Duration;

use clap::Args;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy doctor                              everything at a glance
  uncopy doctor tcp://10.0.0.2:443           will what is sent there be copied, and why
  uncopy doctor udp://[fd00::2]:8000 --segment 1200
  uncopy doctor eth1                         whatever leaves through a device
  uncopy doctor disk.img /backup             how a copy would go; a directory is judged by its
                                             largest file
  uncopy doctor disk.img /backup -- --durable --prefer=cpu
  uncopy doctor --trace 5 --pid 812          where the kernel copies what a process sends
  uncopy doctor --trace 5 --stacks eth1      … and by which calls it comes to that
  uncopy doctor --explain tap-eth-p-all      what a finding means; all explains every one";

/// Shown by `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  nothing was found that copies
  1  something could not be examined, or the report not be written
  2  the command line makes no sense
  6  the bytes will be copied
  7  whether they are copied cannot be told
  8  they are not copied, up to a limit, or it does not pay";

/// Say why bytes are copied, or not, on a path.
///
/// Looks at routes, devices, packet taps, limits and the kernel; tries every way to copy a file on
/// temporary ones. Nothing is changed, and without --probe nothing sent. Each finding names its evidence, its effect
/// and what to do.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// tcp://HOST:PORT, udp://HOST:PORT, a network device, or two paths: SRC DST;
    /// nothing: everything at a glance
    #[arg(value_name = "TARGET")]
    pub targets: Vec<OsString>,

    /// Look at the sockets of a process that have a peer; may be repeated
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,

    /// Bytes of each send; 64 KiB over TCP and a whole packet over UDP if left out
    #[arg(long, value_name = "BYTES")]
    pub size: Option<NonZeroUsize>,

    /// Have UDP cut each send into datagrams of this size (UDP_SEGMENT)
    #[arg(long, value_name = "BYTES")]
    pub segment: Option<NonZeroU16>,

    /// Bytes that are to be in flight at a time; those of 16 sends if left out
    #[arg(long, value_name = "BYTES")]
    pub in_flight: Option<NonZeroUsize>,

    /// Also send up to 4 MiB to each address, and see what becomes of it, if an `uncopy bench recv`
    /// answers there
    #[arg(long)]
    pub probe: bool,

    /// As --probe, whoever is there
    #[arg(long)]
    pub probe_anyway: bool,

    /// Also sample the kernel for so long, and name the functions that were seen copying
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub trace: Option<Duration>,

    /// Also show the five commonest stacks of the kernel with such a function in them
    #[arg(long, requires = "trace")]
    pub stacks: bool,

    /// Explain a finding by its id, or all of them
    #[arg(long, value_name = "ID", conflicts_with_all = ["targets", "pid"])]
    pub explain: Option<String>,

    /// Print one JSON object a line for each target (docs/json.md)
    #[arg(long, conflicts_with = "explain")]
    pub json: bool,

    /// Flags of `uncopy cp`, with which the copy would be made
    #[arg(last = true, value_name = "CP_FLAGS", allow_hyphen_values = true)]
    pub cp_flags: Vec<OsString>,
}

/// A time above zero that somebody may want to wait for.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero() && *time <= LONGEST_TRACE)
        .ok_or_else(|| format!("name a number of seconds up to {}", LONGEST_TRACE.as_secs()))
}

const LONGEST_TRACE: Duration = Duration::from_secs(600);
