//! Conditions of the kernel, of channels, and what sampling shows.

use super::{Topic, table};

table! { Topic::System;
URING_DISABLED = "io-uring-disabled", "io_uring cannot be used", Note, true,
"A ring could not be made: `kernel.io_uring_disabled`, a seccomp filter (containers), or an old kernel.",
"Sends are made by single calls, direct copies without a queue.",
"Set kernel.io_uring_disabled to 0, or allow the calls in the sandbox.";
OPEN_FILES = "open-files", "Few files may be open", Limits, true,
"`RLIMIT_NOFILE` bounds how many descriptors a process may have, and how many of a user may be on their way in messages at once (ETOOMANYREFS, `unix(7)`). A message of a channel brings up to 64.",
"Channels between processes that move handles stop when the limit is reached.",
"Raise the limit on open files (ulimit -n, LimitNOFILE=).";
WMEM = "wmem-max", "Socket buffers hold few messages", Limits, true,
"`net.core.wmem_max` bounds what waits in the socket of a channel between processes, unless the process has CAP_NET_ADMIN; a message has up to 65,536 bytes. Such a socket was made and asked.",
"Writers wait for readers after very few large messages.",
"Raise net.core.wmem_max (sysctl -w).";
TRANSPORTS = "channel-transports", "How channels reach the other end", Note, false,
"Ends in one process have queues in memory. Between processes messages go over a `SOCK_SEQPACKET` socket of `unix(7)`, for which no kernel has `MSG_ZEROCOPY`; memory objects (`Vmo`) move as descriptors of `memfd_create(2)`, whatever their size.",
"In one process bytes are copied into the message once; between processes into the socket and out of it.",
"";
NO_MEMFD = "no-memfd", "No anonymous memory files", Limits, false,
"`memfd_create(2)` is refused: a kernel before 3.17, or a seccomp filter.",
"Memory objects cannot be made, and large bodies have to go through sockets.",
"Allow the call in the sandbox.";
NO_SEQPACKET = "no-seqpacket", "No sockets between processes", Limits, false,
"A `SOCK_SEQPACKET` socket pair of `unix(7)` cannot be made.",
"Channels stay within one process.",
"Allow the call in the sandbox.";
TRACE_COPIES = "trace-copies", "The kernel was seen copying", Copies, false,
"Samples of the kernel's stacks (`perf_event_open(2)`, cpu-clock) hold functions that copy payload, called from where packets are sent; or kprobes, where the kernel has them, saw such calls.",
"The share of samples is the share of processor time; calls are counted one by one.",
"See what the function's caller stands for, and the finding of that name.";
TRACE_CLEAN = "trace-clean", "No copying was seen", Note, false,
"Samples of the kernel's stacks hold no function that copies payload, and kprobes, where the kernel has them, saw none called.",
"Without kprobes, what takes less than about a hundredth of the processor's time is not seen.",
"";
TRACE_FORBIDDEN = "trace-forbidden", "The kernel may not be sampled", Unknown, true,
"`perf_event_open(2)` refuses to sample the kernel: `kernel.perf_event_paranoid` above 0 without CAP_PERFMON, or a seccomp filter; or `kernel.kptr_restrict` hides the addresses of functions.",
"Copies cannot be shown by sampling.",
"Run as root, give CAP_PERFMON and CAP_SYSLOG, or lower kernel.perf_event_paranoid and kernel.kptr_restrict.";
}
