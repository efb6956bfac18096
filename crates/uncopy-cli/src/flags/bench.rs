//! `uncopy bench`.

use std::num::{NonZeroU16, NonZeroUsize};

use clap::{Args, Subcommand, ValueEnum};

use super::number;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy bench recv -4 udp                     receive on port 8000 for some seconds
  uncopy bench send -4 udp -D 10.0.0.2 -z      send with MSG_ZEROCOPY
  uncopy bench send -6 tcp -D fd00::2 --mode ring-registered --slots 4 --json

The other end can be the tool of the kernel, tools/testing/selftests/net/msg_zerocopy.c, which has
the same names of flags.";

/// Measure the gain of sending without copying on a network path.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Send for some seconds, and print what was copied and at what cost
    ///
    /// Prints `tx=SENDS (… MB) txc=RELEASES zc=y|n`: zc=y if the kernel reported no released buffer
    /// as copied. Released means reusable, not delivered.
    Send(SendArgs),
    /// Receive for some seconds, and print how much arrived
    Recv(RecvArgs),
}

/// Flags of both ends.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// Use IPv4
    #[arg(short = '4', conflicts_with = "ipv6", required_unless_present = "ipv6")]
    pub ipv4: bool,

    /// Use IPv6
    #[arg(short = '6')]
    pub ipv6: bool,

    /// Protocol
    #[arg(value_enum)]
    pub transport: Protocol,

    /// Port of the receiver
    #[arg(short, long, default_value_t = 8000)]
    pub port: u16,

    /// Stop after this time
    #[arg(short = 't', long = "time", value_name = "SECONDS", default_value_t = 4.2)]
    pub seconds: f64,

    /// Run on this CPU only
    #[arg(short = 'C', long = "cpu", value_name = "CPU")]
    pub processor: Option<usize>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// A stream
    Tcp,
    /// Datagrams
    Udp,
}

/// Flags of `uncopy bench send`.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub path: PathArgs,

    /// Address or name of the receiver
    #[arg(short = 'D', long = "destination", value_name = "HOST")]
    pub host: String,

    /// Bytes per send [default: 65,435 as the tool of the kernel sends, or with --gso as many
    /// datagrams as fit]
    #[arg(short, long, value_name = "BYTES", value_parser = number::at_least_one::<NonZeroUsize>)]
    pub size: Option<NonZeroUsize>,

    /// Same as --mode=msg-zerocopy
    #[arg(short = 'z', conflicts_with = "mode")]
    pub zerocopy: bool,

    /// How to send
    #[arg(long, value_enum, default_value_t = Mode::Copy)]
    pub mode: Mode,

    /// Have the kernel cut each send into datagrams of this size (UDP_SEGMENT)
    #[arg(long, value_name = "BYTES", value_parser = number::at_least_one::<NonZeroU16>)]
    pub gso: Option<NonZeroU16>,

    /// Number of notification slots to which the sends are bound in turn; each is flushed with its
    /// last send of a batch (rings only)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub slots: u16,

    /// Sends per batch, up to 1024: a ring submits them with one call, other modes read the reports of
    /// the kernel after them [default: 64 with a ring, otherwise 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub batch: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Plain sends, which the kernel copies
    Copy,
    /// MSG_ZEROCOPY
    MsgZerocopy,
    /// io_uring, with buffers that are pinned for each send
    Ring,
    /// io_uring, with buffers of a registered pool
    RingRegistered,
    /// io_uring, with buffers of a registered pool and other buffers in turn
    RingMixed,
    /// The mode that the library chooses
    Auto,
}

impl Mode {
    /// Whether sends go through io_uring.
    pub(crate) const fn is_ring(self) -> bool {
        matches!(self, Mode::Ring | Mode::RingRegistered | Mode::RingMixed)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Mode::Copy => "copy",
            Mode::MsgZerocopy => "msg-zerocopy",
            Mode::Ring => "ring",
            Mode::RingRegistered => "ring-registered",
            Mode::RingMixed => "ring-mixed",
            Mode::Auto => "auto",
        }
    }
}

/// Flags of `uncopy bench recv`.
#[derive(Debug, Args)]
pub(crate) struct RecvArgs {
    #[command(flatten)]
    pub path: PathArgs,
}
