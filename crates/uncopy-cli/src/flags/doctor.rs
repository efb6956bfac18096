//! `uncopy doctor`.

use std::ffi::OsString;
use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Duration;

use clap::Args;

use super::number;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy doctor                              overview of the whole system
  uncopy doctor tcp://10.0.0.2:443           whether sends to this address are copied, and why
  uncopy doctor udp://[fd00::2]:8000 --segment 1200
  uncopy doctor eth1                         everything that leaves through a device
  uncopy doctor disk.img /backup             how a copy would be made; a directory is judged by
                                             its largest file
  uncopy doctor disk.img /backup -- --durable --prefer=cpu
  uncopy doctor disk.img host:/backup        how the bytes would go to another machine
  uncopy doctor --channel 812:5              what the messages of a channel cost
  uncopy doctor --trace 5 --pid 812          where the kernel copies what a process sends
  uncopy doctor --trace 5 --stacks eth1      … and the call stacks that lead there
  uncopy doctor --explain tap-eth-p-all      explain a finding; `all` explains every one";

/// Shown by `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  nothing was found that copies
  1  something could not be examined, or the report could not be written
  2  the command line makes no sense
  6  the bytes will be copied
  7  it is not known whether they are copied
  8  they are not copied, but only up to a limit or without a gain
  9  the other machine of a copy cannot be reached, or has no uncopy";

/// Explain why bytes are copied, or not, on a path.
///
/// Examines routes, devices, packet taps, limits and the kernel, and tries every mechanism for
/// copying files on temporary files. Nothing is changed, and nothing is sent without --probe. Each
/// finding has its evidence, its effect and a next step.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// tcp://HOST:PORT, udp://HOST:PORT, a network device, or two paths SRC DST, one of them perhaps
    /// on another machine (HOST:PATH) [default: an overview of the whole system]
    #[arg(value_name = "TARGET")]
    pub targets: Vec<OsString>,

    /// Examine the connected sockets of a process; can be repeated
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,

    /// Examine a channel between processes: descriptor FD of process PID is one end; can be repeated
    #[arg(long, value_name = "PID:FD", value_parser = channel)]
    pub channel: Vec<ChannelArg>,

    /// Bytes per send [default: 64 KiB over TCP, a whole packet over UDP]
    #[arg(long, value_name = "BYTES", value_parser = number::at_least_one::<NonZeroUsize>)]
    pub size: Option<NonZeroUsize>,

    /// Let UDP cut each send into datagrams of this size (UDP_SEGMENT)
    #[arg(long, value_name = "BYTES", value_parser = number::at_least_one::<NonZeroU16>)]
    pub segment: Option<NonZeroU16>,

    /// Bytes in flight at a time [default: those of 16 sends]
    #[arg(long, value_name = "BYTES", value_parser = number::at_least_one::<NonZeroUsize>)]
    pub in_flight: Option<NonZeroUsize>,

    /// Also send up to 4 MiB to each address where `uncopy bench recv` answers, and report whether
    /// it was copied
    #[arg(long)]
    pub probe: bool,

    /// Same as --probe, whatever answers there
    #[arg(long)]
    pub probe_anyway: bool,

    /// Also sample the kernel for this time, and list the functions that were copying
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub trace: Option<Duration>,

    /// Also show the five most common kernel stacks that contain such a function
    #[arg(long, requires = "trace")]
    pub stacks: bool,

    /// Explain a finding by its id, or all of them
    #[arg(long, value_name = "ID", conflicts_with_all = ["targets", "pid", "channel"])]
    pub explain: Option<String>,

    /// Print one JSON object per target, each on one line (`uncopy help json`)
    #[arg(long, conflicts_with = "explain")]
    pub json: bool,

    /// Flags of `uncopy cp` for the copy
    #[arg(last = true, value_name = "CP_FLAGS", allow_hyphen_values = true)]
    pub cp_flags: Vec<OsString>,
}

/// One end of a channel: a process and the number of its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelArg {
    pub pid: u32,
    pub descriptor: i32,
}

/// Parses `PID:FD`.
fn channel(text: &str) -> Result<ChannelArg, String> {
    let parts = text.split_once(':');
    let parsed = parts.and_then(|(pid, descriptor)| {
        let descriptor = descriptor.parse().ok().filter(|number| *number >= 0)?;
        Some(ChannelArg { pid: pid.parse().ok()?, descriptor })
    });
    parsed.ok_or_else(|| {
        "write the id of the process and the number of its descriptor, such as 812:5 \
         (ls -l /proc/812/fd)"
            .to_owned()
    })
}

/// Parses a time above zero, up to [`MAX_TRACE`].
fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero() && *time <= MAX_TRACE)
        .ok_or_else(|| format!("name a number of seconds up to {}", MAX_TRACE.as_secs()))
}

const MAX_TRACE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_a_process_and_a_descriptor() {
        assert_eq!(channel("812:0"), Ok(ChannelArg { pid: 812, descriptor: 0 }));
        for wrong in ["812", "812:", ":5", "812:-1", "a:5", "812:5:6", "812:4294967296", "-1:5"] {
            assert!(channel(wrong).unwrap_err().contains("such as 812:5"), "{wrong}");
        }
    }
}
