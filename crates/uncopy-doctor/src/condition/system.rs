//! Conditions of the kernel, of channels, and of sampling.

use super::{Topic, table};

table! { Topic::System;
URING_DISABLED = "io-uring-disabled", "io_uring cannot be used", Note, true,
"A ring could not be created: `kernel.io_uring_disabled`, a seccomp filter (containers), or an old kernel.",
"Sends use one system call each, and direct copies run without a queue.",
"Set kernel.io_uring_disabled to 0, or allow the system calls in the sandbox.";
OPEN_FILES = "open-files", "The limit on open files is low", Limits, true,
"`RLIMIT_NOFILE` limits the descriptors of a process, and also the descriptors of a user that are in messages on their way (ETOOMANYREFS, `unix(7)`). A message of a channel carries up to 64.",
"Channels between processes that transfer handles stop when the limit is reached.",
"Raise the limit on open files (ulimit -n, LimitNOFILE=).";
WMEM = "wmem-max", "Socket buffers hold few messages", Limits, true,
"`net.core.wmem_max` limits the messages queued in the socket of a channel between processes, unless the process has CAP_NET_ADMIN. A message has up to 65,536 bytes. The limit was read from such a socket: a new one, or those of the examined channel.",
"Writers wait for readers after only a few large messages.",
"Raise net.core.wmem_max (sysctl -w).";
TRANSPORTS = "channel-transports", "How channels transfer messages", Note, false,
"Ends in one process use queues in memory. Between processes messages go over a `SOCK_SEQPACKET` socket of `unix(7)`, for which no kernel has `MSG_ZEROCOPY`. Memory objects (`Vmo`) are transferred as descriptors of `memfd_create(2)`, whatever their size.",
"Within a process bytes are copied once, into the message. Between processes they are copied into the socket and out of it.",
"";
NO_MEMFD = "no-memfd", "Memory files cannot be created", Limits, false,
"`memfd_create(2)` fails: a kernel before 3.17, or a seccomp filter.",
"Memory objects cannot be created, and large bodies have to be sent through sockets.",
"Allow the system call in the sandbox.";
NO_SEQPACKET = "no-seqpacket", "Sockets between processes cannot be created", Limits, false,
"A `SOCK_SEQPACKET` socket pair of `unix(7)` cannot be created.",
"Channels work only within a process.",
"Allow the system call in the sandbox.";
TRACE_COPIES = "trace-copies", "The kernel was seen copying", Copies, false,
"Samples of kernel stacks (`perf_event_open(2)`, cpu-clock) contain functions that copy payload, called from functions that send packets; or kprobes, if the kernel has them, recorded such calls.",
"The share of samples is the share of CPU time. Calls are counted individually.",
"See what the function's caller means, and the finding of that name.";
TRACE_CLEAN = "trace-clean", "No copying was seen", Note, false,
"Samples of kernel stacks contain no function that copies payload, and kprobes, if the kernel has them, recorded no call of one.",
"Without kprobes, a function that takes less than about 1 % of the CPU time is not seen.",
"";
TRACE_FORBIDDEN = "trace-forbidden", "The kernel cannot be sampled", Unknown, true,
"`perf_event_open(2)` refuses to sample the kernel: `kernel.perf_event_paranoid` is above 0 and CAP_PERFMON is missing, or a seccomp filter refuses it; or `kernel.kptr_restrict` hides the addresses of functions.",
"Sampling cannot show whether the kernel copies.",
"Run as root, grant CAP_PERFMON and CAP_SYSLOG, or lower kernel.perf_event_paranoid and kernel.kptr_restrict.";
}
