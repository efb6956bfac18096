//! Conditions of channels between processes.

use super::{Topic, table};

table! { Topic::System;
CHANNEL_ONE_PROCESS = "channel-one-process", "Both ends of the channel are in one process", Copies, false,
"The same process, and no other that this user can examine, holds descriptors of both ends (`/proc/PID/fd`).",
"Messages are copied into the socket and out of it, with system calls. Between the two ends of `Channel::pair` they are copied once, and no system call is needed.",
"Use the ends of Channel::pair as they are, without into_fd.";
CHANNEL_SOCKET = "channel-socket", "The channel goes through a socket", Copies, false,
"The descriptor is a connected `SOCK_SEQPACKET` socket of `unix(7)`, for which no kernel has `MSG_ZEROCOPY`. uncopy's fifos, sockets and event pairs between processes are such sockets too, and so are those of other programs: the kernel does not distinguish them.",
"Every message is copied into the socket by one system call and out of it by another one.",
"Pass bytes that are kept, forwarded or read in part as memory (Vmo): only a descriptor is sent.";
CHANNEL_ENDED = "channel-ended", "The channel has ended", Unknown, false,
"The socket has no peer (`UNIX_DIAG_PEER` of `sock_diag(7)`), or is shut down in both directions.",
"Nothing can be sent. Messages that are queued can still be read.",
"Close the descriptor, and make a new channel.";
CHANNEL_PEER_UNSEEN = "channel-peer-unseen", "The process with the other end is unknown", Unknown, true,
"No process that this user can examine holds the other end: it belongs to a process of another user or in another PID namespace, or it lies in a message that nobody has read. Or the socket was made in another network namespace, whose sockets `sock_diag(7)` does not show here.",
"It is unknown which process reads the messages, and whether its limits or its state delay them.",
"Run the doctor as root, and in the network namespace of the process.";
CHANNEL_OPTIONS_UNSEEN = "channel-options-unseen", "The options of the socket cannot be read", Unknown, true,
"Reading them needs a duplicate of the descriptor (`pidfd_getfd(2)`, Linux 5.6), and that needs the rights of a debugger (`PTRACE_MODE_ATTACH_REALCREDS`, `ptrace(2)`): Yama's `kernel.yama.ptrace_scope` takes them from other processes of the same user, and a seccomp filter may refuse the call. Queues and limits can be read without them.",
"It is unknown whether a filter, credentials or timestamps add work to every message.",
"Run the doctor as root.";
CHANNEL_READER_STOPPED = "channel-reader-stopped", "The process that reads is stopped", Limits, false,
"Every process that is known to hold the end is stopped (state `T` or `t` in `/proc/PID/status`), or its control group is frozen (`cgroup.events`, `freezer.state`).",
"Messages stay in the socket until it is full. After that writes return `ShouldWait`.",
"Let the process continue (kill -CONT PID), or thaw its control group.";
CHANNEL_QUEUE_FULL = "channel-queue-full", "The socket is full", Limits, false,
"The messages that were sent and not yet received fill the send buffer (`SO_SNDBUF`). The kernel counts more than their bytes: each has an overhead (`SIOCOUTQ`). A process may have received more messages than it has read; those are not counted.",
"Writes return `ShouldWait` until the other end receives messages.",
"See why the other end does not read; a larger send buffer only delays this.";
CHANNEL_QUEUE_CROWDED = "channel-queue-crowded", "The socket has too little room for handles", Limits, false,
"More than a quarter of the send buffer (`SO_SNDBUF`) is in use. A message with handles is sent only while `poll(2)` reports the socket as writable, which is below that (`unix_writable` in `net/unix/af_unix.c`).",
"Writes with handles return `ShouldWait`. Those without handles are accepted until the socket is full.",
"Let the other end read first, or send memory and descriptors over a channel of their own.";
CHANNEL_DESCRIPTORS = "channel-descriptors", "Few descriptors are left for handles", Limits, true,
"A message carries up to 253 descriptors for its handles. If the receiver has fewer left below `RLIMIT_NOFILE` (`/proc/PID/limits`, `/proc/PID/fd`), the kernel cuts off the others (`MSG_CTRUNC`, `unix(7)`).",
"A message whose descriptors are cut off is lost: in its place a read, or the call that it answers, returns `DescriptorLimit`.",
"Raise the limit on open files of the process (prlimit(1), LimitNOFILE=), or close descriptors.";
CHANNEL_IN_FLIGHT = "channel-in-flight", "Many descriptors are in unread messages", Limits, true,
"Descriptors in unread messages (`scm_fds` in `/proc/PID/fdinfo/FD`) count for the user that sent them, over all sockets. Beyond the sender's `RLIMIT_NOFILE` the kernel refuses more (ETOOMANYREFS, `unix(7)`), unless the sender has CAP_SYS_RESOURCE or CAP_SYS_ADMIN. Half of the limit is in this socket.",
"Writes with handles soon fail with `NoResources`.",
"Let the other end read, or raise the limit on open files (prlimit(1), LimitNOFILE=).";
CHANNEL_OPTIONS = "channel-options", "Socket options add work to every message", Note, false,
"Options of the socket that receives (`pidfd_getfd(2)`, `getsockopt(2)`): `SO_PASSCRED`, `SO_PASSPIDFD` and `SO_PASSSEC` add who sent the message, `SO_TIMESTAMP` and similar ones the time. uncopy does not set them, and ignores what they add.",
"The kernel adds a control message to every message, and for `SO_PASSPIDFD` opens a descriptor.",
"Clear the options (setsockopt) in the program that set them.";
CHANNEL_FILTER = "channel-filter", "A program filters the messages", Limits, false,
"A program of BPF is attached to the socket that receives (`SO_ATTACH_FILTER`, `SO_ATTACH_BPF`; read by `pidfd_getfd(2)` and `SO_GET_FILTER`). The kernel runs it in every send to that socket (`unix_dgram_sendmsg` in `net/unix/af_unix.c`). uncopy attaches none.",
"The program takes time for every message. The kernel drops messages that it refuses, and the writer gets no error.",
"Detach the program (SO_DETACH_FILTER).";
}
