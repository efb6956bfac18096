//! `uncopy bench`.

use std::num::{NonZeroU16, NonZeroUsize};

use clap::{Args, Subcommand, ValueEnum};

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy bench recv -4 udp                     receives on port 8000 for some seconds
  uncopy bench send -4 udp -D 10.0.0.2 -z      lends the buffers (MSG_ZEROCOPY)
  uncopy bench send -6 tcp -D fd00::2 --mode ring-registered --slots 4 --json

The other end may be the kernel's own tool, tools/testing/selftests/net/msg_zerocopy.c, whose names
these are.";

/// Measure what sending without copying is worth on a path.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Send for some seconds, and say what was copied and what it cost
    ///
    /// Prints `tx=SENDS (… MB) txc=RELEASES zc=y|n`: zc=y if nothing that was released had been
    /// copied, as far as the kernel says. Released means reusable, not delivered.
    Send(SendArgs),
    /// Receive for some seconds, and say how much came
    Recv(RecvArgs),
}

/// What both ends say.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// Use IPv4
    #[arg(short = '4', conflicts_with = "ipv6", required_unless_present = "ipv6")]
    pub ipv4: bool,

    /// Use IPv6
    #[arg(short = '6')]
    pub ipv6: bool,

    /// Which protocol
    #[arg(value_enum)]
    pub transport: Protocol,

    /// Port of the receiver
    #[arg(short, long, default_value_t = 8000)]
    pub port: u16,

    /// Stop after so many seconds
    #[arg(short = 't', long = "time", value_name = "SECONDS", default_value_t = 4.2)]
    pub seconds: f64,

    /// Run on this processor alone
    #[arg(short = 'C', long = "cpu", value_name = "CPU")]
    pub processor: Option<usize>,

    /// Print one JSON object instead of words
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

    /// Bytes of each send; 65,435 if left out, as the kernel's tool sends, or a whole train
    #[arg(short, long, value_name = "BYTES")]
    pub size: Option<NonZeroUsize>,

    /// As --mode=msg-zerocopy
    #[arg(short = 'z', conflicts_with = "mode")]
    pub zerocopy: bool,

    /// How to send
    #[arg(long, value_enum, default_value_t = Mode::Copy)]
    pub mode: Mode,

    /// Have the kernel cut each send into datagrams of this size (UDP_SEGMENT)
    #[arg(long, value_name = "BYTES")]
    pub gso: Option<NonZeroU16>,

    /// Bind the sends to so many notification slots in turn, each flushed with its last send of a
    /// batch of 64 (rings only)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub slots: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Plain sends, which the kernel copies
    Copy,
    /// MSG_ZEROCOPY
    MsgZerocopy,
    /// io_uring, buffers that are looked up for each send
    Ring,
    /// io_uring, buffers of a registered pool
    RingRegistered,
    /// As the library finds best
    Auto,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Mode::Copy => "copy",
            Mode::MsgZerocopy => "msg-zerocopy",
            Mode::Ring => "ring",
            Mode::RingRegistered => "ring-registered",
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
